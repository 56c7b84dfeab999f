#!/bin/sh
# Runs the tests as two processes side by side: most of them wait for processes, disks and leases.
# Then those that are marked `alone`, one after another: what they compare needs the machine.
#     sh tools/test.sh PYTHON MARKS [TESTS...]      with TESTS one process runs these alone
# Prints what the first half says, then what the second half said. Fails if either does.
python=$1 marks=$2
shift 2
[ $# -gt 0 ] && exec "$python" -m pytest -rs -m "$marks" "$@"
first="tests/node tests/kv tests/sim tests/scripts tests/cluster tests/ddl tests/catalog
 tests/expressions tests/laws tests/bootstrap tests/pipeline tests/events tests/differential
 tests/stats tests/release tests/test_tidy.py"
second=""
for each in tests/test_*.py tests/*/; do
  each=${each%/}
  case " $(echo $first) " in *" $each "*) continue ;; esac
  second="$second $each"
done
said=$(mktemp)
# A shell starts what it does not wait for without SIGINT; ^C is to end both, and what they started.
heeding='import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))'
# shellcheck disable=SC2086
"$python" -c "$heeding" -p no:cacheprovider -rs -m "($marks) and not alone" $second >"$said" 2>&1 &
other=$!
trap 'kill -INT $other 2>/dev/null; wait $other; cat "$said"; rm -f "$said"; exit 130' INT TERM
# shellcheck disable=SC2086
"$python" -m pytest -rs -m "($marks) and not alone" $first
code=$?
wait $other || code=1
cat "$said"
rm -f "$said"
trap - INT TERM
# shellcheck disable=SC2046
"$python" -m pytest -rs -m "($marks) and alone" $(grep -rl --include='*.py' 'mark\.alone' tests)
alone=$?
[ $alone -eq 0 ] || [ $alone -eq 5 ] || code=1 # 5: none is asked for
exit $code
