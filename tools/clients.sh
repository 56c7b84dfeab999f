#!/bin/sh
# What the wire tests speak with: the mysql command line and sysbench.
set -e
missing=""
command -v mysql >/dev/null || missing="$missing mariadb-client"
command -v sysbench >/dev/null || missing="$missing sysbench"
[ -z "$missing" ] && exit 0
echo "installing$missing"
# shellcheck disable=SC2086
sh tools/apt.sh $missing
