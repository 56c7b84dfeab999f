"""What is measured. A workload takes a product on an empty folder and notes figures.

    fills        schema changes of a table at rest, and ANALYZE
    big          ADD INDEX (k) on five times the rows
    cold         ADD INDEX (k) on 128,000 rows, sent at once to a server that just started
    beside       ADD INDEX (k, c) beside four clients of oltp_read_write, open loop, at two rates
    statements   sysbench's statements, closed loop
    queries      GROUP BY, ORDER BY ... LIMIT, COUNT(*) over all rows
    create       CREATE TABLE by 16 clients
    small        ADD COLUMN and ADD INDEX on empty tables, one after another
    aged         schema changes at rest and oltp_read_write on rows loaded by INSERTs, then again
                 after minutes of oltp_read_write and rewrites of every row under load

Times of statements are wall time from sending to the answer. Before anything is timed the table is
read once and gets an index that is dropped again, so that no product is timed cold (`cold` is). A
figure is the median of `repeats`; beside it stand processor time, memory and bytes written of the
product's processes (products.Meter).
"""

import contextlib
import itertools
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.products import Change, ExuviaTwoFronts, Meter, Product, Usage

HERE = Path(__file__).parent
COLD_ROWS = 128_000
ALONE_S = 30.0
LOOK_S = 0.2
PAUSE_S = 1.0
POINTS = 600


class Sizes(NamedTuple):
    """How much of everything."""

    rows: int = 1_000_000
    repeats: int = 3
    sysbench_s: int = 20
    warm_s: float = 30.0
    fills: int = 10
    fills_s: float = 900.0
    rates: tuple[int, ...] = (100, 40)
    tables: int = 4000
    rounds: int = 40
    ps_mode: str = "auto"
    age_s: float = 600.0
    rewrites: int = 5


FULL = Sizes()
QUICK = Sizes(
    repeats=2, sysbench_s=8, warm_s=10.0, fills_s=75.0, tables=1600, rounds=20, age_s=60.0
)


class Notes:
    """Takes what was measured of one product; `write` gets each as a record."""

    def __init__(self, product: Product, workload: str, write: Callable[[dict[str, Any]], None]):
        self._about = {"product": product.name, "workload": workload}
        self._write = write

    def figure(
        self, work: str, values: list[float], usages: list[Usage] | None = None, **more: Any
    ) -> None:
        """One row of the report: the median of the values."""
        record = {"kind": "figure", "work": work, "value": statistics.median(values)}
        record["values"] = [float(f"{each:.6g}") for each in values]
        if usages:
            record["cpu_s"] = round(statistics.median(each.cpu_s for each in usages), 2)
            record["memory_mb"] = round(max(each.memory_mb for each in usages))
            record["mapped_mb"] = round(max(each.mapped_mb for each in usages))
            record["written_mb"] = round(statistics.median(each.written_mb for each in usages), 1)
        self._write({**self._about, **record, **more})

    def error(self, work: str, error: BaseException) -> None:
        """A row that says why there is no figure."""
        text = f"{type(error).__name__}: {error}"
        self._write({**self._about, "kind": "figure", "work": work, "error": text[:400]})

    def series(self, name: str, points: list[tuple[float, float]], **more: Any) -> None:
        """Points of a picture."""
        every = max(1, len(points) // POINTS)
        kept = [(round(x, 3), round(y, 3)) for x, y in points[::every]]
        self._write({**self._about, "kind": "series", "name": name, "points": kept, **more})

    @contextlib.contextmanager
    def tried(self, work: str) -> Iterator[None]:
        """An error inside is this work's row, and the rest goes on."""
        try:
            yield
        except Exception as error:
            self.error(work, error)


def warmed(product: Product, rows: int) -> None:
    """Load the table, read it once, build an index once."""
    product.load(rows)
    product.execute(
        "SELECT COUNT(*), SUM(k) FROM sbtest1",
        "SELECT MAX(c) FROM sbtest1",
        product.add_index("warm", "k"),
        product.drop_index("warm"),
    )


# -- schema changes at rest ------------------------------------------------------------------------


def fills(product: Product, notes: Notes, sizes: Sizes) -> None:
    """Each change of the table, in turn, `repeats` times."""
    warmed(product, sizes.rows)
    timed: dict[str, list[Usage]] = {}
    failed = set()
    for _ in range(sizes.repeats):
        for change in product.changes():
            if change.work in failed:
                continue
            try:
                timed.setdefault(change.work, []).append(_changed(product, change))
            except Exception as error:
                failed.add(change.work)
                notes.error(change.work, error)
    for change in product.changes():
        if change.work not in failed:
            usages = timed[change.work]
            walls = [each.wall_s for each in usages]
            about = {"unit": "s", "rows": sizes.rows, "command": "; ".join(change.timed)}
            notes.figure(change.work, walls, usages, **about)


def _changed(product: Product, change: Change) -> Usage:
    session = product.session()
    try:
        with Meter(product.pid) as meter:
            for statement in change.timed:
                session.execute(statement)
        return meter.usage
    finally:
        for statement in change.after:
            with contextlib.suppress(Exception):
                session.execute(statement)
        session.close()


def big(product: Product, notes: Notes, sizes: Sizes) -> None:
    """The first change on five times the rows."""
    rows = 5 * sizes.rows
    product.load(rows)
    product.execute("SELECT COUNT(*), SUM(k) FROM sbtest1")
    change = product.changes()[0]
    usages = [_changed(product, change) for _ in range(sizes.repeats)]
    walls = [each.wall_s for each in usages]
    notes.figure("index_k_big", walls, usages, unit="s", rows=rows, command=change.timed[0])


def cold(product: Product, notes: Notes, sizes: Sizes) -> None:
    """Restart and ask at once."""
    rows = min(COLD_ROWS, sizes.rows)
    product.load(rows)
    change = product.changes()[0]
    usages = []
    for _ in range(sizes.repeats):
        product.stop()
        product.start()
        usages.append(_changed(product, change))
    walls = [each.wall_s for each in usages]
    notes.figure("cold", walls, usages, unit="s", rows=rows, command=change.timed[0])


# -- beside clients --------------------------------------------------------------------------------


def sysbench(product: Product, sizes: Sizes, test: str, *options: str) -> list[str]:
    """The command line; its last word is to be added."""
    common = ["--tables=1", f"--table-size={sizes.rows}", "--rand-type=uniform"]
    common.append(f"--db-ps-mode={sizes.ps_mode}")
    return ["sysbench", test, *product.sysbench(), *common, *options]


class Clients:
    """Four sysbench clients in an open loop (open_loop.lua), running until `stop`."""

    def __init__(self, product: Product, sizes: Sizes, rate: int) -> None:
        self._log = product.folder / f"clients-{product.name}"
        for old in product.folder.glob(f"{self._log.name}.*"):
            old.unlink()
        command = sysbench(product, sizes, str(HERE / "open_loop.lua"))
        command += ["--threads=4", "--time=0", "--events=0", f"--due-rate={rate}"]
        if "--db-driver=mysql" in command:
            command.append("--mysql-ignore-errors=all")  # counted by the log, told in the report
        self.command = [*command, f"--log={self._log}", "run"]
        self._output = self._log.with_suffix(".out")
        with self._output.open("w") as output:
            self._process = subprocess.Popen(self.command, stdout=output, stderr=output, cwd=HERE)

    def check(self) -> None:
        """Raise if they ended by themselves."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the clients ended: {self._output.read_text()[-500:]}")

    def stop(self) -> None:
        """End them."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def read(self) -> tuple[list[tuple[float, float]], dict[str, int]]:
        """(due s, latency ms) of all transactions by time; how often each error."""
        done, errors = [], dict[str, int]()
        for path in self._log.parent.glob(f"{self._log.name}.[0-9]*"):
            for line in path.read_text().splitlines():
                words = line.split()
                if words[:1] == ["E"]:
                    code = " ".join(words[1:])
                    errors[code] = errors.get(code, 0) + 1
                elif len(words) == 2:
                    done.append((float(words[0]), float(words[1])))
        return sorted(done), errors


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Progress:
    """Asks what the running fill has done, five times a second."""

    def __init__(self, product: Product, rows: int) -> None:
        self._product, self._rows = product, rows
        self._stop = threading.Event()
        self.seen: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        with contextlib.suppress(Exception):  # a picture is no figure
            session = self._product.session()
            while not self._stop.wait(LOOK_S):
                done = self._product.progress(session, self._rows)
                if done is not None:
                    self.seen.append((time.monotonic(), done))
            session.close()


def beside(product: Product, notes: Notes, sizes: Sizes) -> None:
    """At each rate: clients alone, `fills` indexes one after another, clients alone again."""
    warmed(product, sizes.rows)
    product.execute(product.add_index("k_1", "k"))
    for rate in sizes.rates:
        with notes.tried(f"beside_{rate}"):
            _beside(product, notes, sizes, rate)


def _beside(product: Product, notes: Notes, sizes: Sizes, rate: int) -> None:
    alone: list[tuple[float, float]] = []
    filled: list[tuple[float, float]] = []
    usages, progress = [], list[tuple[float, float]]()
    alone_s = min(ALONE_S, sizes.warm_s * 2)
    clients = Clients(product, sizes, rate)
    session = product.session()
    try:
        time.sleep(sizes.warm_s)
        alone.append(_rest(alone_s))
        end = time.monotonic() + sizes.fills_s
        for number in range(sizes.fills):
            clients.check()
            watched = Progress(product, sizes.rows) if number == 0 else contextlib.nullcontext()
            began = time.monotonic()
            with watched, Meter(product.pid) as meter:
                session.execute(product.add_index("filled", "k, c"))
            filled.append((began, time.monotonic()))
            usages.append(meter.usage)
            if isinstance(watched, Progress):
                progress = watched.seen
            time.sleep(PAUSE_S)  # or the DROP's beginning is measured with the fill's end
            session.execute(product.drop_index("filled"))
            time.sleep(PAUSE_S)
            if time.monotonic() > end:
                break
        fills_s = sum(until - since for since, until in filled)
        alone.append(_rest(min(max(alone_s, fills_s - alone_s), 3 * ALONE_S)))
        clients.check()
    finally:
        clients.stop()
        with contextlib.suppress(Exception):
            session.close()
            product.execute(product.drop_index("filled"))
    _note_beside(notes, sizes, rate, clients, alone, filled, usages, progress)


def _rest(seconds: float) -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def _latencies(done: list[tuple[float, float]], spans: list[tuple[float, float]]) -> list[float]:
    """Returns the latencies of the transactions that were due within the spans. Unit: ms."""
    return [ms for due, ms in done if any(since <= due < until for since, until in spans)]


def _note_beside(
    notes: Notes,
    sizes: Sizes,
    rate: int,
    clients: Clients,
    alone: list[tuple[float, float]],
    filled: list[tuple[float, float]],
    usages: list[Usage],
    progress: list[tuple[float, float]],
) -> None:
    done, errors = clients.read()
    quiet, busy = _latencies(done, alone), _latencies(done, filled)
    if not quiet or not busy:
        raise RuntimeError(f"no transaction was timed: {len(quiet)} alone, {len(busy)} beside")
    work = f"beside_{rate}"
    walls = [until - since for since, until in filled]
    about: dict[str, Any] = {"rows": sizes.rows, "fills": len(filled)}
    notes.figure(work, walls, usages, unit="s", command=" ".join(clients.command), **about)
    p99, p99_alone = quantile(busy, 0.99), quantile(quiet, 0.99)
    notes.figure(
        f"{work}_p99",
        [p99 / p99_alone],
        unit="x",
        p99_ms=round(p99, 2),
        p99_alone_ms=round(p99_alone, 2),
        p50_ms=round(quantile(busy, 0.5), 2),
        p50_alone_ms=round(quantile(quiet, 0.5), 2),
        transactions=len(busy),
        transactions_alone=len(quiet),
        errors=errors,
        **about,
    )
    notes.figure(f"{work}_stall", [max(busy)], unit="ms", alone_ms=round(max(quiet), 1), **about)
    since, until = filled[0]
    edge = min(10.0, sizes.warm_s)
    span = (since - edge, until + edge)
    seconds: dict[int, list[float]] = {}
    for due, ms in done:
        if span[0] <= due < span[1]:
            seconds.setdefault(int(due - since), []).append(ms)
    latencies = [(float(at), quantile(each, 0.99)) for at, each in sorted(seconds.items())]
    notes.series("p99", latencies, rate=rate, fill=(0, round(until - since, 2)))
    steps = [(0.0, 0.0), *((at - since, rows) for at, rows in progress)]
    rates = [
        (b[0], max(0.0, (b[1] - a[1]) / (b[0] - a[0])))
        for a, b in itertools.pairwise(steps)
        if b[0] > a[0]
    ]
    notes.series("fill rate", rates, rate=rate, fill=(0, round(until - since, 2)))


# -- statements ------------------------------------------------------------------------------------

TESTS = (
    ("point_select", "oltp_point_select", "queries"),
    ("read_only", "oltp_read_only", "queries"),
    ("read_write", "oltp_read_write", "queries"),
    ("insert", "oltp_insert", "queries"),
)


def _ran(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode or "FATAL" in done.stdout + done.stderr:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "FATAL" in line]
        raise RuntimeError("; ".join(lines[:2]) or done.stderr[-300:])
    return done.stdout


def _number(pattern: str, output: str) -> float:
    found = re.search(pattern, output)
    if found is None:
        raise RuntimeError(f"sysbench did not say {pattern}: {output[-300:]}")
    return float(found[1])


def prepare_command(product: Product, sizes: Sizes) -> list[str]:
    """Loads the table by INSERTs of many rows."""
    return [*sysbench(product, sizes, "oltp_read_write", "--create-secondary=off"), "prepare"]


def statements(product: Product, notes: Notes, sizes: Sizes) -> None:
    """`sysbench prepare`, then each test on what it made."""
    prepare = prepare_command(product, sizes)
    with Meter(product.pid) as meter:
        _ran(prepare)
    rates, usages = [sizes.rows / meter.usage.wall_s], [meter.usage]
    command = " ".join(prepare)
    notes.figure("prepare", rates, usages, unit="rows/s", rows=sizes.rows, command=command)
    product.execute(product.add_index("k_1", "k"), "SELECT COUNT(*), SUM(k) FROM sbtest1")
    for work, test, count in TESTS:
        with notes.tried(work):
            _statements(product, notes, sizes, work, test, count)


def _statements(
    product: Product,
    notes: Notes,
    sizes: Sizes,
    work: str,
    test: str,
    count: str,
    suffix: str = "",
) -> None:
    if isinstance(product, ExuviaTwoFronts):
        work += "_two_fronts"
    options = ["--threads=4", f"--time={sizes.sysbench_s}", "--percentile=95"]
    command = [*sysbench(product, sizes, test, *options), "run"]
    warm = [each if not each.startswith("--time=") else "--time=2" for each in command]
    _ran(warm)
    rates, p95, ignored, usages = [], [], 0.0, []
    for _ in range(sizes.repeats):
        with Meter(product.pid) as meter:
            output = _ran(command)
        rates.append(_number(rf"{count}:\s+\d+\s+\(([\d.]+) per sec", output))
        p95.append(_number(r"95th percentile:\s+([\d.]+)", output))
        ignored += _number(r"ignored errors:\s+(\d+)", output)
        usages.append(meter.usage)
    about = {"unit": "/s", "rows": sizes.rows, "command": " ".join(command)}
    notes.figure(
        work + suffix,
        rates,
        usages,
        p95_ms=statistics.median(p95),
        ignored_errors=int(ignored),
        **about,
    )


# -- queries ---------------------------------------------------------------------------------------

QUERIES = (
    ("group_by", "SELECT k % 10, COUNT(*), SUM(k) FROM sbtest1 GROUP BY k % 10"),
    ("order_by", "SELECT id, c FROM sbtest1 ORDER BY c LIMIT 3"),
    ("count", "SELECT COUNT(*) FROM sbtest1"),
)


def queries(product: Product, notes: Notes, sizes: Sizes) -> None:
    """Each once to warm, then `repeats` times."""
    product.load(sizes.rows)
    product.execute(product.add_index("k_1", "k"))
    session = product.session()
    for work, text in QUERIES:
        with notes.tried(work):
            session.execute(text)
            usages = []
            for _ in range(max(3, sizes.repeats)):
                with Meter(product.pid) as meter:
                    session.execute(text)
                usages.append(meter.usage)
            walls = [each.wall_s for each in usages]
            notes.figure(work, walls, usages, unit="s", rows=sizes.rows, command=text)
    session.close()


# -- many small schema changes ---------------------------------------------------------------------


def created(product: Product, sizes: Sizes, prefix: str, tables: int) -> list[tuple[float, float]]:
    """CREATE TABLE by 16 clients of one process; (end s, latency ms) of each by time."""
    log = product.folder / f"create-{product.name}"
    for old in product.folder.glob(f"{log.name}.*"):
        old.unlink()
    _ran(_create_command(product, log, prefix, tables))
    done = []
    for path in product.folder.glob(f"{log.name}.*"):
        for line in path.read_text().splitlines():
            end, ms = line.split()
            done.append((float(end), float(ms)))
    return sorted(done)


def _create_command(product: Product, log: Path, prefix: str, tables: int) -> list[str]:
    return [
        "sysbench", str(HERE / "create_tables.lua"), *product.sysbench(), "--threads=16",
        "--time=0", f"--events={tables}", f"--log={log}", f"--prefix={prefix}", "run",
    ]  # fmt: skip


def create(product: Product, notes: Notes, sizes: Sizes) -> None:
    """Tables a second, and the latency of one."""
    created(product, sizes, "warm", min(200, sizes.tables))
    rates, latencies, usages = [], list[float](), []
    for number in range(sizes.repeats):
        with Meter(product.pid) as meter:
            done = created(product, sizes, f"t{number}", sizes.tables)
        first = min(end - ms / 1000 for end, ms in done)
        rates.append(len(done) / (done[-1][0] - first))
        latencies += [ms for _, ms in done]
        usages.append(meter.usage)
    command = " ".join(_create_command(product, product.folder / "log", "t", sizes.tables))
    p95 = round(quantile(latencies, 0.95), 1)
    notes.figure("create", rates, usages, unit="/s", p95_ms=p95, command=command)


def small(product: Product, notes: Notes, sizes: Sizes) -> None:
    """One client, one after another, each on a new empty table."""
    session = product.session()
    times: dict[str, list[float]] = {"add_column": [], "add_index": []}
    texts = {
        "add_column": "ALTER TABLE e{n} ADD COLUMN b INT NOT NULL DEFAULT 7",
        "add_index": "CREATE INDEX i{n} ON e{n} (a)",
    }
    for n in range(sizes.rounds + 3):
        session.execute(f"CREATE TABLE e{n} (id INT PRIMARY KEY, a INT)")
        for work, text in texts.items():
            began = time.perf_counter()
            session.execute(text.format(n=n))
            if n >= 3:
                times[work].append((time.perf_counter() - began) * 1000)
    session.close()
    for work, values in times.items():
        p95 = round(quantile(values, 0.95), 1)
        notes.figure(work, values, unit="ms", p95_ms=p95, command=texts[work])


# -- a store that has lived ------------------------------------------------------------------------

AGED_CHANGES = ("index_k", "to_varchar", "to_int")
AGING_RATE = 40


def aged(product: Product, notes: Notes, sizes: Sizes) -> None:
    """The same figures twice: `_fresh` after INSERTs, `_aged` after the life of a store."""
    _ran(prepare_command(product, sizes))
    product.execute("SELECT COUNT(*), SUM(k) FROM sbtest1")
    _note_age(product, notes, sizes, "fresh")
    options = ["--threads=4", f"--time={sizes.age_s:.0f}", "run"]
    _ran(sysbench(product, sizes, "oltp_read_write", *options))
    _rewrite_under_load(product, notes, sizes)
    _note_age(product, notes, sizes, "aged")


def _note_age(product: Product, notes: Notes, sizes: Sizes, age: str) -> None:
    changes = [change for change in product.changes() if change.work in AGED_CHANGES]
    commits: dict[str, list[int]] = {change.work: [] for change in changes}
    usages: dict[str, list[Usage]] = {change.work: [] for change in changes}
    for _ in range(sizes.repeats):
        for change in changes:
            before = product.commits()
            usages[change.work].append(_changed(product, change))
            commits[change.work].append(product.commits() - before)
    for change in changes:
        walls = [usage.wall_s for usage in usages[change.work]]
        about = {"rows": sizes.rows, "command": "; ".join(change.timed)}
        about["commits"] = statistics.median(commits[change.work])
        notes.figure(f"{change.work}_{age}", walls, usages[change.work], unit="s", **about)
    _statements(product, notes, sizes, "read_write", "oltp_read_write", "queries", f"_{age}")
    for name, value in product.layout().items():
        notes.figure(f"{name}_{age}", [value])


def _rewrite_under_load(product: Product, notes: Notes, sizes: Sizes) -> None:
    """Rewrites every row `rewrites` times, to VARCHAR and back, under concurrent load."""
    there, back = (_change(product, work) for work in AGED_CHANGES[1:])
    clients = Clients(product, sizes, AGING_RATE)
    rewritten, usages, commits = list[tuple[float, float]](), list[Usage](), list[int]()
    try:
        alone = _rest(sizes.warm_s)
        for number in range(sizes.rewrites):
            clients.check()
            began, before = time.monotonic(), product.commits()
            usages.append(_changed(product, back if number % 2 else there))
            rewritten.append((began, time.monotonic()))
            commits.append(product.commits() - before)
    finally:
        clients.stop()
    if sizes.rewrites % 2:
        _changed(product, back)
    done, errors = clients.read()
    quiet, busy = _latencies(done, [alone]), _latencies(done, rewritten)
    notes.figure(
        "aging_rewrite",
        [until - since for since, until in rewritten],
        usages,
        unit="s",
        rows=sizes.rows,
        command=" ".join(clients.command),
        commits=statistics.median(commits),
        p99_alone_ms=round(quantile(quiet, 0.99), 2),
        p99_ms=round(quantile(busy, 0.99), 2),
        errors=errors,
    )


def _change(product: Product, work: str) -> Change:
    return next(change for change in product.changes() if change.work == work)


WORKLOADS: dict[str, Callable[[Product, Notes, Sizes], None]] = {
    "fills": fills,
    "cold": cold,
    "queries": queries,
    "small": small,
    "create": create,
    "statements": statements,
    "beside": beside,
    "big": big,
    "aged": aged,
}
