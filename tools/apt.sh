#!/bin/sh
# Install Debian packages; a line every few seconds says what apt is doing. Says what to do where there is no apt.
set -e
command -v apt-get >/dev/null || {
    echo "please install by hand: $*" >&2
    exit 1
}
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
here=$(dirname "$0")
export DEBIAN_FRONTEND=noninteractive
sh "$here/progress.sh" "  apt-get update" $sudo apt-get update -q
sh "$here/progress.sh" "  apt-get install" $sudo apt-get install -y -q --no-install-recommends "$@"
