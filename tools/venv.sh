#!/bin/sh
# Make a virtual environment with Python >= 3.11; Debian splits its venv module off, so fetch that if it is missing.
set -e
python=$1 venv=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "exuvia needs Python 3.11 or later; set PYTHON=/path/to/python3.11" >&2
    exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "installing python3-venv"
    sh tools/apt.sh python3-venv
fi
sh tools/progress.sh "making a virtual environment in $venv" "$python" -m venv "$venv"
