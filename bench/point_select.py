"""Point selects over the wire with sysbench: one node, four clients, both prepared-statement modes.

Goal: at least 4,000 statements/s.
"""

import re
import subprocess

from bench.cluster import cluster, figure, headline

ROWS = 100_000
SECONDS = 15


def sysbench(port: int, test: str, action: str, *options: str) -> str:
    """Run sysbench against a node; what it printed."""
    command = ["sysbench", test, "--db-driver=mysql", "--mysql-host=127.0.0.1"]
    command += [f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=sbtest"]
    command += ["--tables=1", f"--table-size={ROWS}", *options, action]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


def main() -> None:
    """Print the rates."""
    headline(f"sysbench on {ROWS:,} rows, one node, 4 clients, {SECONDS} s each")
    with cluster(1) as running:
        port = running.nodes[0].port
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE sbtest")
        sysbench(port, "oltp_point_select", "prepare")
        runs = [(test, mode) for test in ("oltp_point_select", "oltp_read_write") for mode in MODES]
        for test, mode in [*runs, ("oltp_insert", "disable")]:
            options = ["--threads=4", f"--time={SECONDS}", f"--db-ps-mode={mode}"]
            output = sysbench(port, test, "run", *options)
            goal = "goal >= 4,000/s" if test == "oltp_point_select" else ""
            rate = re.search(r"queries:\s+\d+\s+\(([\d.]+) per sec", output)
            ignored = re.search(r"ignored errors:\s+(\d+)", output)
            p95 = re.search(r"95th percentile:\s+([\d.]+)", output)
            assert rate and ignored and p95, output
            figure(f"{test}, ps-mode {mode}: queries/s", rate.group(1), goal)
            figure("   p95 ms; ignored errors", f"{p95.group(1)}; {ignored.group(1)}")


MODES = ("disable", "auto")

if __name__ == "__main__":
    main()
