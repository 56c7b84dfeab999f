#!/bin/sh
# Make an sdist of the files that git knows, and a wheel of that sdist: neither holds what lies about here.
#     sh tools/dist.sh PYTHON FOLDER          prints the two files
set -e
case $1 in # it runs in other folders; its own path is no link to be followed, or it is no venv's
*/*) python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") ;;
*) python=$1 ;;
esac
mkdir -p "$2"
out=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/unpacked"
# with what is changed and not committed; -c safe.directory: the folder may be another user's (a container)
git -C "$root" -c safe.directory="$root" ls-files -z --cached --others --exclude-standard >"$work/files"
tar -C "$root" --null --ignore-failed-read -T "$work/files" -cf - 2>/dev/null | tar -C "$work/source" -xf -
build='import sys; from setuptools import build_meta as it; print(getattr(it, sys.argv[1])(sys.argv[2]))'
(cd "$work/source" && "$python" -c "$build" build_sdist "$work") >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
sdist=$(tail -n 1 "$work/log")
tar -C "$work/unpacked" -xzf "$work/$sdist"
(cd "$work/unpacked"/* && "$python" -c "$build" build_wheel "$work") >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
wheel=$(tail -n 1 "$work/log")
mv "$work/$sdist" "$work/$wheel" "$out/"
echo "$out/$sdist"
echo "$out/$wheel"
