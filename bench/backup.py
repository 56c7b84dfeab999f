"""A backup of rows, its verification, and its restoration, of sysbench's table with an index on k.

    python -m bench.backup                                    1 million rows on LMDB, both ways
    python -m bench.backup --rows 100000 --to postgresql://USER@HOST/DB   restored there

Each line is one command as a person types it, its wall time, and the most memory that its process
(not those of Spark) had for itself. No node runs meanwhile.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from exuvia.catalog.bootstrap import bootstrap
from exuvia.kv.store import open_store

TABLE = (
    "CREATE TABLE test.sbtest1 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, "
    "k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', "
    "pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))"
)
EXUVIA = (sys.executable, "-m", "exuvia.cli.main")


def make_table(url: str) -> None:
    """By a node that runs just for it."""
    command = [*EXUVIA, "serve", "--store", url, "--port", "0", "--status-port", "0"]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert node.stdout is not None
        port = node.stdout.readline().split("127.0.0.1:")[1].split(",")[0]
        subprocess.run([*EXUVIA, "sql", "-P", port, TABLE], check=True)
    finally:
        node.terminate()
        node.wait()


def own_mb(process: int) -> int:
    """Memory that it has for itself, without pages of the store's file, which are the kernel's."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s+(\d+)", status)
    return int(found[1]) // 1024 if found else 0


def timed(*words: str) -> None:
    """Run a command of exuvia and say what it took."""
    began = time.monotonic()
    command = subprocess.Popen([*EXUVIA, *words], stdout=subprocess.DEVNULL)
    most_mb = 0
    while command.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            command.wait(0.05)
        most_mb = max(most_mb, own_mb(command.pid))
    seconds = time.monotonic() - began
    if command.returncode:
        sys.exit(f"exuvia {' '.join(words)} failed")
    sys.stdout.write(f"{seconds:7.1f} s  {most_mb:5} MB  exuvia {' '.join(words)}\n")
    sys.stdout.flush()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--store", default="", help="an empty one that is filled")
    parser.add_argument("--to", default="", help="an empty one that is restored to")
    parser.add_argument("--spark-master", default="", help="Spark does it, however little it is")
    parser.add_argument("--folder", default=None, help="where all else is made")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        store = asked.store or f"lmdb://{folder}/store"
        again, backup = asked.to or f"lmdb://{folder}/again", f"{folder}/backup"
        made = open_store(store)
        bootstrap(made)
        made.close()
        make_table(store)
        loading = "import sys; from bench.add_index import load_table; load_table(*sys.argv[1:4], "
        words = [f"{loading}int(sys.argv[4]))", store, "test", "sbtest1", str(asked.rows)]
        subprocess.run([sys.executable, "-c", *words], check=True)  # a child begins as large as we
        by = ["--spark-master", asked.spark_master] if asked.spark_master else []
        timed("backup", "--store", store, "--to", backup, *by)
        size = sum(each.stat().st_size for each in Path(backup).rglob("*.parquet"))
        sys.stdout.write(f"{size / 1e6:.0f} MB of Parquet\n")
        timed("backup", "verify", backup, *by)
        timed("restore", backup, "--store", again, *by)


if __name__ == "__main__":
    main()
