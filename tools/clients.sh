#!/bin/sh
# What the tests speak with and fail the disk with: the mysql command line, sysbench, a C compiler;
# and the programs of a PostgreSQL server, of which tests start and end their own. Chromium, which looks
# at the page of the status port, is left out where there is no such package; so are hosts that are really
# apart (tests/support/hosts.py), and clocks that run otherwise.
set -e
missing=""
command -v mysql >/dev/null || missing="$missing mariadb-client"
command -v sysbench >/dev/null || missing="$missing sysbench"
command -v cc >/dev/null || missing="$missing gcc libc6-dev"  # tests/support/store_faults.c
if [ -n "$missing" ]; then
  echo "installing$missing"
  # shellcheck disable=SC2086
  sh tools/apt.sh $missing
fi
if ! command -v chromium >/dev/null; then
  echo "installing chromium"
  sh tools/apt.sh chromium || echo "no Chromium: tests of the page in a browser are skipped" >&2
fi
if ! { command -v ip && command -v nft && command -v faketime; } >/dev/null; then
  echo "installing iproute2 nftables faketime"
  sh tools/apt.sh iproute2 nftables faketime || echo "tests on hosts that are apart are skipped" >&2
fi
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && exit 0
echo "installing postgresql"
settings=/etc/postgresql-common/createcluster.conf
if [ "$(id -u)" = 0 ] && [ ! -e $settings ]; then  # or the package would start a server of its own
  mkdir -p /etc/postgresql-common
  echo "create_main_cluster = false" >$settings
fi
sh tools/apt.sh -o Dpkg::Options::=--force-confold postgresql
