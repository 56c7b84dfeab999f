#!/bin/sh
# Spark 4.3 runs on Java 17 or later with the module jdk.incubator.vector; Debian's package has it.
set -e
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
if [ "${version:-0}" -ge 17 ] && "$java" --list-modules | grep -q '^jdk.incubator.vector'; then
    exit 0
fi
echo "installing openjdk-17-jre-headless"
sh tools/apt.sh openjdk-17-jre-headless
