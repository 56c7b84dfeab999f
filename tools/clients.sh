#!/bin/sh
# What the tests speak with and fail the disk with: the mysql command line, sysbench, a C compiler.
set -e
missing=""
command -v mysql >/dev/null || missing="$missing mariadb-client"
command -v sysbench >/dev/null || missing="$missing sysbench"
command -v cc >/dev/null || missing="$missing gcc libc6-dev"  # tests/support/store_faults.c
[ -z "$missing" ] && exit 0
echo "installing$missing"
# shellcheck disable=SC2086
sh tools/apt.sh $missing
