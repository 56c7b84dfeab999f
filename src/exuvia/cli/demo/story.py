"""The order of events of `exuvia demo`; every part is in a file of its own."""

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pymysql
from rich.console import Console

from exuvia.cli.demo import data, nodes
from exuvia.cli.demo.proof import prove
from exuvia.cli.demo.screen import Screen
from exuvia.cli.demo.watch import Change, Clients, Progress

CHANGES = (
    Change("ALTER TABLE lineitem ADD INDEX shipped (l_shipdate, l_discount)", "add index shipped"),
    Change(
        "ALTER TABLE lineitem ADD UNIQUE INDEX part_line "
        "(l_partkey, l_suppkey, l_orderkey, l_linenumber)",
        "add unique index part_line",
    ),
    Change(
        "ALTER TABLE lineitem ADD COLUMN l_channel VARCHAR(16) NOT NULL DEFAULT 'web'",
        "add column l_channel",
    ),
)
POLL_S = 0.02
PAUSE_S = 0.005


def connect(port: int, database: str | None = None) -> Any:
    """A connection of our own to a node."""
    return pymysql.connect(
        host="127.0.0.1", port=port, user="root", database=database, autocommit=True
    )


def tell(scale: float, keep: bool, console: Console) -> None:
    """Run the whole demo. Raises AssertionError when a promise does not hold."""
    with tempfile.TemporaryDirectory(prefix="exuvia-demo-") as folder:
        base = Path(folder)
        store = f"lmdb://{base / 'store'}"
        console.print(f"1. TPC-H tables at scale {scale:g}, two nodes on one fresh store")
        data.generate(base / "tpch", scale)
        running = [nodes.start(store, base / "node1.log"), nodes.start(store, base / "node2.log")]
        try:
            _load(running[0].port, store, base / "tpch", console)
            _change_and_prove(running, console)
            if keep:
                _stay(running, console)
        finally:
            for node in running:
                node.stop()


def _load(port: int, store: str, folder: Path, console: Console) -> None:
    with connect(port) as connection, connection.cursor() as cursor:
        for statement in data.create_statements():
            cursor.execute(statement)
    started = time.monotonic()
    loaded = data.load(store, folder)
    rows, seconds = sum(loaded.values()), time.monotonic() - started
    console.print(f"2. loaded {rows:,} rows in {seconds:.1f} s ({rows / seconds:,.0f} rows/s)")


def _change_and_prove(running: list[nodes.Node], console: Console) -> None:
    with connect(running[0].port, "tpch") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT MAX(o_orderkey) FROM orders")
        orders = int(cursor.fetchone()[0])
    clients = Clients()
    for seed in range(4):
        clients.start(running[seed % 2].port, seed, orders, PAUSE_S)
    console.print("3. four clients insert, update and delete lineitems on both nodes; meanwhile:")
    changes = [Progress(change) for change in CHANGES]
    try:
        with Screen(console) as screen:
            for n, progress in enumerate(changes):
                _run(progress, running[n % 2].port, changes[: n + 1], clients, screen)
    finally:
        clients.stop()
    with connect(running[0].port, "tpch") as connection:
        proof = prove(connection, clients, changes)
    console.print("4. proved:")
    for line in proof.lines:
        console.print(f"   [green]✓[/green] {line}")


def _run(
    progress: Progress, port: int, shown: list[Progress], clients: Clients, screen: Screen
) -> None:
    worker = threading.Thread(target=_alter, args=(progress, port), daemon=True)
    with connect(port, "tpch") as connection, connection.cursor() as cursor:
        progress.after_job = max((int(job["JOB_ID"]) for job in _jobs(cursor)), default=0)
        worker.start()
        while worker.is_alive():
            _observe(cursor, progress)
            screen.draw(shown, clients.window())
            worker.join(POLL_S)
        _observe(cursor, progress)
    screen.draw(shown, clients.window())


def _alter(progress: Progress, port: int) -> None:
    started = time.monotonic()
    try:
        with connect(port, "tpch") as connection, connection.cursor() as cursor:
            cursor.execute(progress.change.statement)
    except pymysql.err.MySQLError as error:
        progress.error = str(error)
    progress.seconds = time.monotonic() - started
    progress.done = True


def _jobs(cursor: Any) -> list[dict[str, Any]]:
    cursor.execute("ADMIN SHOW DDL JOBS 1")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _observe(cursor: Any, progress: Progress) -> None:
    """Look at the one job that is newer than all that were there before this change."""
    for job in _jobs(cursor):
        if int(job["JOB_ID"]) > progress.after_job:
            rows = int(job["ROW_COUNT"] or 0)
            progress.saw(job["SCHEMA_STATE"], rows, job["COMMENTS"] or "")


def _stay(running: list[nodes.Node], console: Console) -> None:
    for node in running:
        console.print(
            f"   mysql -h 127.0.0.1 -P {node.port} -u root tpch     "
            f"http://127.0.0.1:{node.status_port}/status"
        )
    console.print("   The nodes stay up until you press Ctrl-C.")
    try:
        running[0].process.wait()
    except KeyboardInterrupt:
        console.print("   stopping")
