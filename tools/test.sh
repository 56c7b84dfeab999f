#!/bin/sh
# Runs the tests as three processes side by side: most of them wait for processes, disks and leases.
# Then those that are marked `alone`, one after another: what they compare needs the machine.
#     sh tools/test.sh PYTHON MARKS [TESTS...]      with TESTS one process runs these alone
# Prints what the first third says, then what the others said. Fails if one of them does.
python=$1 marks=$2
shift 2
[ $# -gt 0 ] && exec "$python" -m pytest -rs -m "$marks" "$@"
first="tests/sql"
second="tests/node tests/wire"
case $marks in # where the long tests are left out, those of nodes wait most and Spark has few
*"not long"*) second="$second tests/spark tests/upgrade" ;;
*) first="$first tests/upgrade tests/spark" ;;
esac
third=""
for each in tests/test_*.py tests/*/; do
  each=${each%/}
  case " $first $second " in *" $each "*) continue ;; esac
  third="$third $each"
done
said=$(mktemp -d)
# A shell starts what it does not wait for without SIGINT; ^C is to end all, and what they started.
heeding='import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))'
behind() { # what it says goes to a file
  file=$said/$1
  shift
  "$python" -c "$heeding" -p no:cacheprovider -rs -m "($marks) and not alone" "$@" >"$file" 2>&1 &
}
# shellcheck disable=SC2086
behind 2 $second
two=$!
# shellcheck disable=SC2086
behind 3 $third
three=$!
tell() { cat "$said/2" "$said/3"; rm -rf "$said"; }
trap 'kill -INT $two $three 2>/dev/null; wait $two $three; tell; exit 130' INT TERM
# shellcheck disable=SC2086
"$python" -m pytest -rs -m "($marks) and not alone" $first
code=$?
wait $two || code=1
wait $three || code=1
tell
trap - INT TERM
# shellcheck disable=SC2046
"$python" -m pytest -rs -m "($marks) and alone" $(grep -rl --include='*.py' 'mark\.alone' tests)
alone=$?
[ $alone -eq 0 ] || [ $alone -eq 5 ] || code=1 # 5: none is asked for
exit $code
