#!/bin/sh
# Install Debian packages; a line every few seconds says what apt is doing. Says what to do where there is no apt.
set -e
command -v apt-get >/dev/null || {
    echo "please install by hand: $*" >&2
    exit 1
}
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
{ $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends "$@"; } >"$log" 2>&1 &
apt=$!
seconds=0
while kill -0 $apt 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    [ $((seconds % 5)) -ne 0 ] || echo "   $seconds s  $(tail -n 1 "$log" | cut -c1-100)"
done
wait $apt || {
    cat "$log" >&2
    rm -f "$log"
    exit 1
}
rm -f "$log"
