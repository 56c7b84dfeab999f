#!/bin/sh
# Run a command and say every few seconds what it does; its output is shown only if it fails.
#     sh tools/progress.sh [--optional CONSEQUENCE] WHAT COMMAND...
# With --optional a failure is one line with its consequence, and not an error.
consequence=""
if [ "$1" = --optional ]; then
  consequence=$2
  shift 2
fi
what=$1
shift
log=$(mktemp)
"$@" >"$log" 2>&1 &
command=$!
trap 'kill $command 2>/dev/null; rm -f "$log"; exit 130' INT TERM
every=${EXUVIA_TELL_S:-4}
seconds=0
echo "$what"
while kill -0 $command 2>/dev/null; do
  sleep 1
  seconds=$((seconds + 1))
  [ $((seconds % every)) -ne 0 ] || echo "  $seconds s  $(tail -n 1 "$log" | tr -d '\r' | cut -c1-100)"
done
wait $command
code=$?
if [ $code -ne 0 ] && [ -n "$consequence" ]; then
  echo "  not done: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | cut -c1-200)"
  echo "  $consequence"
  code=0
elif [ $code -ne 0 ]; then
  cat "$log" >&2
fi
rm -f "$log"
exit $code
