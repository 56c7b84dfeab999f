#!/usr/bin/env bash
# Writes a review of a schema file to the file $1, in Markdown, and annotations to standard output.
#
#   SCHEMA    the file, in a git working tree     BASE      the revision to compare with
#   DATABASE  of unqualified tables               FAIL_ON   error, warning or never
#
# Ends with 1 if the file cannot be compared, 3 for warnings, 4 for errors, as FAIL_ON has it.
set -euo pipefail
review=$1
before=$(mktemp --suffix=.sql)
trap 'rm -f "$before"' EXIT
git show "$BASE:$SCHEMA" > "$before" 2> /dev/null || : > "$before"   # a new file

advice=0
exuvia schema lint "$SCHEMA" --output github || advice=$?

{
  echo "## Schema changes of \`$SCHEMA\`"
  echo
} > "$review"
if changes=$(exuvia schema diff "$before" "$SCHEMA" --database "$DATABASE" --allow-drop --output markdown 2>&1); then
  echo "${changes:-No table changes.}" >> "$review"
else
  printf 'They cannot be compared:\n\n```\n%s\n```\n' "$changes" >> "$review"
  advice=1
fi
{
  echo
  echo "Numbers of rows and times are those of empty tables: \`exuvia schema diff\` against a node has yours."
  found=$(exuvia schema lint "$SCHEMA" --output markdown || true)
  if [ -n "$found" ]; then
    printf '\n## Advice\n\n%s\n' "$found"
  fi
} >> "$review"

case "$advice-$FAIL_ON" in
  0-* | *-never | 3-error) ;;
  *) exit "$advice" ;;
esac
