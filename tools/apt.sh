#!/bin/sh
# Install Debian packages quietly; says what to do where that is not possible.
set -e
command -v apt-get >/dev/null || {
    echo "please install by hand: $*" >&2
    exit 1
}
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
{ $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends "$@"; } >"$log" 2>&1 || {
    cat "$log" >&2
    rm -f "$log"
    exit 1
}
rm -f "$log"
