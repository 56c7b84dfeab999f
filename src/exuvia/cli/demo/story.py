"""`exuvia demo`, from its data to its proofs. Clients (clients.py) are
processes of their own.

TPC-H's eight tables: definitions, data (by tpchgen-cli), and the bulk load into fresh tables.

Node processes of the demo: started on free ports, ended by their process id.

The demo's screen: one table of changes, the clients' figures above it, redrawn while it runs.

On a terminal it is live; elsewhere (a log, a pipe) a line is printed whenever a state changes, and
every few seconds.

`prove` checks the promises after the demo, with evidence. A broken one raises AssertionError.

The demo observes the reports of its clients, and the jobs as any client can see them.

A thread per client process reads its lines; `Clients.window()` gives the last seconds. A thread per
schema change runs the statement and waits; the main thread polls ADMIN SHOW DDL JOBS meanwhile.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import webbrowser
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pymysql
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from exuvia.base.private_files import scratch_folder
from exuvia.pipeline.measures import SPARK, WaveReport, report_in
from exuvia.pipeline.spark import java_obstacle

WINDOW_S = 5.0
_PACE = re.compile(r"(\d+) rows/s")


class ClientsWindow(NamedTuple):
    """The clients' last seconds."""

    statements_per_s: float
    p99_ms: float


class Clients:
    """The client processes and all they reported. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self.commits: list[float] = []
        self.latencies_ms: list[float] = []
        self._timed: list[tuple[float, float]] = []
        self.retries = 0
        self.errors: list[str] = []

    def start(self, port: int, seed: int, orders: int, pause_s: float) -> None:
        """Start one more client process on a node's port."""
        command = [sys.executable, "-m", "exuvia.cli.demo.clients"]
        command += [str(port), str(seed), str(orders), str(pause_s)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        self._processes.append(process)
        self._readers.append(reader)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            report: dict[str, Any] = json.loads(line)
            with self._lock:
                self.commits.extend(report["commits"])
                self.latencies_ms.extend(report["latencies_ms"])
                self._timed.extend(zip(report["commits"], report["latencies_ms"], strict=True))
                self.retries += report["retries"]
                self.errors.extend(report["errors"])
        trouble = process.stderr.read()
        if trouble:
            with self._lock:
                self.errors.append(trouble[-500:])

    def stop(self) -> None:
        """Close their input and wait for their last reports."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            process.wait(30)
        for reader in self._readers:
            reader.join(5)

    def window(self) -> ClientsWindow:
        """Rate and p99 of the last seconds."""
        since = time.time() - WINDOW_S
        with self._lock:
            self._timed = [pair for pair in self._timed if pair[0] >= since]
            latencies = sorted(latency for _, latency in self._timed)
        p99 = latencies[int(len(latencies) * 0.99)] if latencies else 0.0
        return ClientsWindow(len(latencies) / WINDOW_S, p99)

    def committed_between(self, start: float, end: float) -> int:
        """Writes committed between two wall-clock times. Unit: s since 1970."""
        with self._lock:
            times = sorted(self.commits)
        return bisect_left(times, end) - bisect_left(times, start)


class WatchedChange(NamedTuple):
    """A schema change. `on_spark`: its work on rows is forced to Spark, if there is Java."""

    statement: str
    title: str
    on_spark: bool = False


class WatchedProgress:
    """The progress of one change, as ADMIN SHOW DDL JOBS showed it."""

    def __init__(self, change: WatchedChange) -> None:
        self.change = change
        self.after_job = 0
        self.states: dict[str, tuple[float, float]] = {}
        self.rows = 0
        self.note = ""
        self.on_spark = False
        self.reports: list[WaveReport] = []
        self.rows_per_s = 0
        self.seconds = 0.0
        self.error = ""
        self.done = False

    def saw(self, state: str, rows: int, note: str) -> None:
        """Note one observation."""
        now = time.time()
        first, _ = self.states.get(state, (now, now))
        self.states[state] = (first, now)
        self.rows = max(self.rows, rows)
        self.note = note
        pace = _PACE.search(note)
        self.rows_per_s = max(self.rows_per_s, int(pace[1]) if pace else 0)
        report = report_in(note)
        if report is not None and report.engine == SPARK:
            self.reports.append(report)

    @property
    def now(self) -> str:
        """The error, or the progress in a few words."""
        if self.error:
            return self.error
        parts = [self.note.split("; ")[0]]
        if self.on_spark and not self.done and self.reports:
            report = self.reports[-1]
            parts.append(f"Spark: {report.done} of {report.total} tasks, {report.running} running")
        return ", ".join(filter(None, parts))

    def time_in(self, state: str) -> tuple[float, float]:
        """First and last time the state was seen; (0, 0) if never."""
        return self.states.get(state, (0.0, 0.0))


# -- story -----------------------------------------------------------------------------------------

if TYPE_CHECKING:
    import pyarrow

SCHEMA = {
    "region": "r_regionkey INT PRIMARY KEY, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152)",
    "nation": "n_nationkey INT PRIMARY KEY, n_name CHAR(25) NOT NULL, n_regionkey INT NOT NULL, "
    "n_comment VARCHAR(152)",
    "supplier": "s_suppkey INT PRIMARY KEY, s_name CHAR(25) NOT NULL, s_address VARCHAR(40) "
    "NOT NULL, s_nationkey INT NOT NULL, s_phone CHAR(15) NOT NULL, "
    "s_acctbal DECIMAL(15,2) NOT NULL, s_comment VARCHAR(101) NOT NULL",
    "part": "p_partkey INT PRIMARY KEY, p_name VARCHAR(55) NOT NULL, p_mfgr CHAR(25) NOT NULL, "
    "p_brand CHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL, "
    "p_container CHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL, "
    "p_comment VARCHAR(23) NOT NULL",
    "partsupp": "ps_partkey INT NOT NULL, ps_suppkey INT NOT NULL, ps_availqty INT NOT NULL, "
    "ps_supplycost DECIMAL(15,2) NOT NULL, ps_comment VARCHAR(199) NOT NULL, "
    "PRIMARY KEY (ps_partkey, ps_suppkey)",
    "customer": "c_custkey INT PRIMARY KEY, c_name VARCHAR(25) NOT NULL, "
    "c_address VARCHAR(40) NOT NULL, c_nationkey INT NOT NULL, c_phone CHAR(15) NOT NULL, "
    "c_acctbal DECIMAL(15,2) NOT NULL, c_mktsegment CHAR(10) NOT NULL, "
    "c_comment VARCHAR(117) NOT NULL",
    "orders": "o_orderkey BIGINT PRIMARY KEY, o_custkey INT NOT NULL, o_orderstatus CHAR(1) "
    "NOT NULL, o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, "
    "o_orderpriority CHAR(15) NOT NULL, o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL, "
    "o_comment VARCHAR(79) NOT NULL",
    "lineitem": "l_orderkey BIGINT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, "
    "l_linenumber INT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL, "
    "l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, "
    "l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL, l_linestatus CHAR(1) NOT NULL, "
    "l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, "
    "l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, l_comment VARCHAR(44) "
    "NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
}


def create_statements() -> list[str]:
    """The statements that make the empty tables."""
    tables = [f"CREATE TABLE {name} ({columns})" for name, columns in SCHEMA.items()]
    return ["CREATE DATABASE tpch", "USE tpch", *tables]


def generator() -> str:
    """The path of TPC-H's generator, which pip installs with Exuvia. Raises RuntimeError."""
    folders = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    folders += [sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))]
    path = shutil.which("tpchgen-cli", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if path is None:
        raise RuntimeError("tpchgen-cli is not installed: pip install tpchgen-cli")
    return path


def generate(folder: Path, scale: float) -> None:
    """Write one Parquet file per table. Raises RuntimeError with the generator's words."""
    command = [generator(), "parquet", "-s", str(scale), f"--output-dir={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tpchgen-cli failed: {done.stderr[-1000:]}")


def batches(folder: Path, table: str) -> "Iterator[pyarrow.RecordBatch]":
    """The rows of one table, columns in the order of its definition."""
    from pyarrow import parquet

    file = parquet.ParquetFile(folder / f"{table}.parquet")
    yield from file.iter_batches(batch_size=100_000)


def load(store_url: str, folder: Path, console: Console) -> dict[str, int]:
    """Bulk-load every table of the database `tpch`; rows per table."""
    from exuvia.catalog.infoschema import Schemas
    from exuvia.kv.store import open_store
    from exuvia.pipeline import bulk

    store = open_store(store_url)
    try:
        loaded = {}
        for name in SCHEMA:
            with store.read() as txn:
                table = Schemas(store).table(txn, "tpch", name)
            with waiting_for(f"loading {name}", console):
                loaded[name] = bulk.load(store, table, batches(folder, name))
            console.print(f"   {name}: {loaded[name]:,} rows")
        return loaded
    finally:
        store.close()


@contextmanager
def waiting_for(what: str, console: Console) -> Iterator[None]:
    """Prints a line every few seconds until the block has ended."""
    over = threading.Event()

    def tick() -> None:
        began = time.monotonic()
        while not over.wait(TELL_S):
            console.print(f"   {what}: {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -- nodes -----------------------------------------------------------------------------------------

READY_S = 60.0
STOP_S = 10.0


class DemoNode(NamedTuple):
    """A running `exuvia serve`."""

    process: subprocess.Popen[str]
    port: int
    status_port: int
    log: Path

    def stop(self) -> None:
        """End it politely, then by force."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start(store: str, log: Path) -> DemoNode:
    """Start one node and wait for its ready line. Raises RuntimeError with the end of its log."""
    command = [sys.executable, "-m", "exuvia.cli.main", "serve", "--store", store]
    command += ["--host", "127.0.0.1", "--port", "0", "--status-port", "0"]
    command += ["--spark-ui-port", str(_free_port())]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    line: list[str] = []
    reader = threading.Thread(target=lambda: line.append(_first_line(process)), daemon=True)
    reader.start()
    reader.join(READY_S)
    ports = re.findall(r"127\.0\.0\.1:(\d+)", line[0] if line else "")
    if len(ports) < 2:
        process.kill()
        raise RuntimeError(f"a node did not start: {log.read_text()[-2000:]}")
    return DemoNode(process, int(ports[0]), int(ports[1]), log)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# -- screen ----------------------------------------------------------------------------------------

TELL_S = 3.0
STATES = ("none", "delete only", "write only", "write reorganization", "public")


class Screen:
    """Draws progress. `with Screen() as screen: screen.draw(...)`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._printed: set[tuple[str, str]] = set()
        self._told_at = 0.0

    def __enter__(self) -> "Screen":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def draw(self, changes: list[WatchedProgress], window: ClientsWindow) -> None:
        """Show how far every change is and how the clients fare."""
        if self.live:
            self.live.update(Group(_clients(window), _jobs_table(changes)))
            return
        for progress in changes:
            for state in progress.states:
                if (progress.change.title, state) not in self._printed:
                    self._printed.add((progress.change.title, state))
                    self._tell(progress, state, window)
        if changes and time.monotonic() - self._told_at >= TELL_S:
            self._tell(changes[-1], list(changes[-1].states or ("waiting",))[-1], window)

    def _tell(self, progress: WatchedProgress, state: str, window: ClientsWindow) -> None:
        self._told_at = time.monotonic()
        self.console.print(
            f"  {progress.change.title}: {state}, {progress.rows:,} rows {progress.now}"
            f"  | clients {window.statements_per_s:.0f}/s p99 {window.p99_ms:.1f} ms"
        )


def _clients(window: ClientsWindow) -> Text:
    return Text(
        f"clients: {window.statements_per_s:6.0f} writes/s   p99 {window.p99_ms:6.1f} ms",
        style="bold cyan",
    )


def _jobs_table(changes: list[WatchedProgress]) -> Table:
    table = Table("schema change", "state", "rows", "now", "seconds", expand=False)
    for progress in changes:
        state = list(progress.states)[-1] if progress.states else "waiting"
        style = "green" if progress.done and not progress.error else "yellow"
        table.add_row(
            progress.change.title,
            Text(f"{_bar(state)} {state}", style=style),
            f"{progress.rows:,}",
            progress.now,
            f"{progress.seconds:.1f}" if progress.done else "",
        )
    return table


def _bar(state: str) -> str:
    reached = STATES.index(state) if state in STATES else 0
    return "●" * (reached + 1) + "○" * (len(STATES) - 1 - reached)


# -- proof -----------------------------------------------------------------------------------------

LEAST_WRITES = 20  # a machine that has other things to do leaves clients little
QUERY = (
    "SELECT COUNT(*), SUM(l_extendedprice * l_discount) FROM lineitem {hint} "
    "WHERE l_shipdate >= '1994-03-01' AND l_shipdate < '1994-03-08' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)


def prove(
    connection: pymysql.Connection, clients: Clients, changes: list[WatchedProgress]
) -> Iterator[str]:
    """Check everything, a line for each of six things when it holds, of five without Java;
    `connection` is a pymysql connection in the database `tpch`."""
    yield _finished(changes)
    for progress in changes:
        if progress.on_spark:
            yield _ran_on_spark(progress)
    yield _served(clients)
    yield _wrote_meanwhile(clients, changes)
    yield _same_answer(connection)
    yield _checked(connection)


def _finished(changes: list[WatchedProgress]) -> str:
    failed = [f"{p.change.title}: {p.error}" for p in changes if p.error]
    assert not failed, failed
    return "; ".join(f"{p.change.title} in {p.seconds:.1f} s" for p in changes)


def _ran_on_spark(progress: WatchedProgress) -> str:
    reports = progress.reports
    assert reports, f"{progress.change.title} showed no task of Spark"
    tasks, workers = (max(getattr(r, name) for r in reports) for name in ("total", "executors"))
    page = next((report.page for report in reports if report.page), "")
    assert tasks > 1 and workers and page, reports[-1]
    return (
        f"{progress.change.title} on Spark: {tasks} tasks on {workers} executor(s), up to "
        f"{progress.rows_per_s:,} rows/s, shown at {page}"
    )


def _served(clients: Clients) -> str:
    assert not clients.errors, clients.errors[:5]
    latencies = sorted(clients.latencies_ms)
    p50, p99 = latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.99)]
    return (
        f"{len(clients.commits):,} client writes on two nodes: 0 errors, {clients.retries} "
        f"conflicts retried, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    )


def _wrote_meanwhile(clients: Clients, changes: list[WatchedProgress]) -> str:
    counts = {
        p.change.title: clients.committed_between(*p.time_in("write reorganization"))
        for p in changes
        if "write reorganization" in p.states
    }
    total = sum(counts.values())
    assert total >= LEAST_WRITES, f"only {counts} writes while an index was being filled"
    return f"{total:,} of them committed while an index was in write reorganization"


def _same_answer(connection: pymysql.Connection) -> str:
    with connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        with_index, index_s = _timed(cursor, QUERY.format(hint="USE INDEX (shipped)"))
        without, scan_s = _timed(cursor, QUERY.format(hint="IGNORE INDEX (shipped)"))
        cursor.execute("COMMIT")
        cursor.execute("EXPLAIN " + QUERY.format(hint="USE INDEX (shipped)"))
        plan = str(cursor.fetchall())
    assert "shipped" in plan, plan
    assert with_index == without and with_index[0], (with_index, without)
    return (
        f"a TPC-H revenue query gives {with_index[1]} over {with_index[0]} rows, through the new "
        f"index ({index_s * 1000:.0f} ms) and without it ({scan_s * 1000:.0f} ms)"
    )


def _timed(cursor: pymysql.cursors.Cursor, query: str) -> tuple[Any, float]:
    started = time.monotonic()
    cursor.execute(query)
    return cursor.fetchone(), time.monotonic() - started


def _checked(connection: pymysql.Connection) -> str:
    started = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute("ADMIN CHECK TABLE lineitem")
    except pymysql.err.MySQLError as error:
        raise AssertionError(f"ADMIN CHECK TABLE found: {error}") from error
    seconds = time.monotonic() - started
    return f"ADMIN CHECK TABLE: each row has its entries, each entry its row ({seconds:.1f} s)"


# -- story -----------------------------------------------------------------------------------------

CHANGES = (
    WatchedChange(
        "ALTER TABLE lineitem ADD INDEX shipped (l_shipdate, l_discount)", "add index shipped"
    ),
    WatchedChange(
        "ALTER TABLE lineitem ADD UNIQUE INDEX part_line "
        "(l_partkey, l_suppkey, l_orderkey, l_linenumber)",
        "add unique index part_line",
        on_spark=True,
    ),
    WatchedChange(
        "ALTER TABLE lineitem ADD COLUMN l_channel VARCHAR(16) NOT NULL DEFAULT 'web'",
        "add column l_channel",
    ),
)
SPARK_TASKS = 8
POLL_S = 0.02
PAUSE_S = 0.005


def connect(port: int, database: str | None = None) -> pymysql.Connection:
    """A connection of our own to a node."""
    return pymysql.connect(
        host="127.0.0.1", port=port, user="root", database=database, autocommit=True
    )


def tell(scale: float, keep: bool, console: Console) -> None:
    """Run the whole demo. Raises AssertionError when a promise does not hold."""
    with closing(scratch_folder("exuvia-demo-")) as folder:
        base = Path(folder.path)
        store = f"lmdb://{base / 'store'}"
        started = time.monotonic()
        console.print(f"1. TPC-H tables at scale {scale:g}, two nodes on one fresh store")
        with waiting_for("making rows", console):
            generate(base / "tpch", scale)
        running: list[DemoNode] = []
        try:
            for n in (1, 2):
                with waiting_for(f"node {n} starts", console):
                    running.append(start(store, base / f"node{n}.log"))
                console.print(f"   node {n} is up: {_page(running[-1])}")
            _load(running[0].port, store, base / "tpch", console)
            _change_and_prove(running, console)
            console.print(f"   all of it in {time.monotonic() - started:.0f} s")
            if keep:
                _stay(running, console)
        finally:
            for node in running:
                node.stop()


def _load(port: int, store: str, folder: Path, console: Console) -> None:
    with (
        waiting_for("creating tables", console),
        connect(port) as connection,
        connection.cursor() as cursor,
    ):
        for statement in create_statements():
            cursor.execute(statement)
    started = time.monotonic()
    loaded = load(store, folder, console)
    rows, seconds = sum(loaded.values()), time.monotonic() - started
    console.print(f"2. loaded {rows:,} rows in {seconds:.1f} s ({rows / seconds:,.0f} rows/s)")


def _change_and_prove(running: list[DemoNode], console: Console) -> None:
    with connect(running[0].port, "tpch") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT MAX(o_orderkey) FROM orders")
        orders = int(cursor.fetchone()[0])
    clients = Clients()
    for seed in range(4):
        clients.start(running[seed % 2].port, seed, orders, PAUSE_S)
    console.print("3. four clients insert, update and delete lineitems on both nodes; meanwhile:")
    changes = [WatchedProgress(change) for change in CHANGES]
    try:
        with Screen(console) as screen:
            for n, progress in enumerate(changes):
                _run(progress, running[n % 2].port, changes[: n + 1], clients, screen)
    finally:
        clients.stop()
    with connect(running[0].port, "tpch") as connection:
        console.print("4. proved:")
        proofs = prove(connection, clients, changes)
        while True:
            with waiting_for("checking", console):
                line = next(proofs, None)
            if line is None:
                break
            console.print(f"   [green]✓[/green] {line}")


def _run(
    progress: WatchedProgress,
    port: int,
    changes: list[WatchedProgress],
    clients: Clients,
    screen: Screen,
) -> None:
    worker = threading.Thread(target=_alter, args=(progress, port), daemon=True)
    with (
        connect(port, "tpch") as connection,
        connection.cursor() as cursor,
        _engine(progress, cursor),
    ):
        progress.after_job = max((int(job["JOB_ID"]) for job in _jobs(cursor)), default=0)
        worker.start()
        while worker.is_alive():
            _observe(cursor, progress)
            screen.draw(changes, clients.window())
            worker.join(POLL_S)
        _observe(cursor, progress)
    screen.draw(changes, clients.window())


@contextmanager
def _engine(progress: WatchedProgress, cursor: pymysql.cursors.Cursor) -> Iterator[None]:
    """Forces the change to Spark, in some tasks, if that is its wish and there is Java."""
    if not progress.change.on_spark or java_obstacle() is not None:
        yield
        return
    progress.on_spark = True
    cursor.execute("SELECT COUNT(*) FROM lineitem")
    rows = int(cursor.fetchone()[0])
    cursor.execute("SET GLOBAL exuvia_pipeline_engine = 'spark'")
    cursor.execute(f"SET GLOBAL exuvia_ddl_reorg_span_rows = {max(1, rows // SPARK_TASKS)}")
    try:
        yield
    finally:
        cursor.execute("SET GLOBAL exuvia_pipeline_engine = DEFAULT")
        cursor.execute("SET GLOBAL exuvia_ddl_reorg_span_rows = DEFAULT")


def _alter(progress: WatchedProgress, port: int) -> None:
    started = time.monotonic()
    try:
        with connect(port, "tpch") as connection, connection.cursor() as cursor:
            cursor.execute(progress.change.statement)
    except pymysql.err.MySQLError as error:
        progress.error = str(error)
    progress.seconds = time.monotonic() - started
    progress.done = True


def _jobs(cursor: pymysql.cursors.Cursor) -> list[dict[str, Any]]:
    cursor.execute("ADMIN SHOW DDL JOBS 1")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _observe(cursor: pymysql.cursors.Cursor, progress: WatchedProgress) -> None:
    """Look at the one job that is newer than all that were there before this change."""
    for job in _jobs(cursor):
        if int(job["JOB_ID"]) > progress.after_job:
            rows = int(job["ROW_COUNT"] or 0)
            progress.saw(job["SCHEMA_STATE"], rows, job["COMMENTS"] or "")


def _page(node: DemoNode) -> str:
    return f"http://127.0.0.1:{node.status_port}/"


def _stay(running: list[DemoNode], console: Console) -> None:
    console.print("5. look around; the tables are in the database tpch:")
    for node in running:
        console.print(f"   {_page(node)}     mysql -h 127.0.0.1 -P {node.port} -u root tpch")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(_page(running[0]))
    console.print("   The nodes stay up until you press Ctrl-C.")
    try:
        running[0].process.wait()
    except KeyboardInterrupt:
        console.print("   stopping")
