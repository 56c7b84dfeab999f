"""sysbench prepares, runs and cleans up without an error. Conflicts that it hides are printed.

Rows are drawn as sysbench does by default ("special": three quarters of all accesses go to one row
in a hundred). Writers wait for each other; what remains are deadlocks, which sysbench ignores.
"""

import re
import subprocess

import pytest

from support.node_processes import NodeProcess

EVENTS = {"oltp_read_write": 100, "oltp_point_select": 1000, "oltp_insert": 400}
LONGEST_S = 50
ROWS = {"oltp_read_write": 10_000}
MOST_IGNORED = 0.01


def sysbench(node: NodeProcess, test: str, mode: str, command: str) -> str:
    """Run one phase. Returns its output."""
    arguments = [
        "sysbench", test, "--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-user=root",
        f"--mysql-port={node.port}", "--mysql-db=sbtest", "--tables=1",
        f"--table-size={ROWS.get(test, 1000)}", "--threads=4", f"--time={LONGEST_S}",
        f"--events={EVENTS[test]}", f"--db-ps-mode={mode}", command,
    ]  # fmt: skip
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FATAL" not in done.stdout + done.stderr
    return done.stdout


def number(output: str, name: str) -> float:
    """The count that sysbench prints after a name."""
    match = re.search(rf"{name}:\s+(\d+)", output)
    assert match, output
    return int(match[1])


def speed(output: str) -> float:
    """Transactions a second."""
    match = re.search(r"transactions:\s+\d+\s+\(([\d.]+) per sec", output)
    assert match, output
    return float(match[1])


@pytest.mark.parametrize("mode", ["disable", "auto"])
@pytest.mark.parametrize("test", ["oltp_read_write", "oltp_point_select", "oltp_insert"])
def test_sysbench(
    node: NodeProcess, test: str, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.connect(autocommit=True) as connection:
        connection.query("CREATE DATABASE IF NOT EXISTS sbtest")
    sysbench(node, test, mode, "prepare")
    output = sysbench(node, test, mode, "run")
    sysbench(node, test, mode, "cleanup")
    transactions, ignored = number(output, "transactions"), number(output, "ignored errors")
    with capsys.disabled():
        print(f"\n{test} {mode}: {speed(output):.0f}/s, {ignored:.0f} ignored errors")
    assert transactions >= EVENTS[test]
    assert ignored <= MOST_IGNORED * transactions
    assert number(output, "reconnects") == 0
