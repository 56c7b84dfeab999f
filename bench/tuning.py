"""What each variable of a schema change gives and costs.

    python -m bench.tuning               about 12 minutes; writes the tables of docs/tuning.md
    python -m bench.tuning --quick       a minute or two on few rows; prints them

ADD INDEX (k, c) on a sysbench table, one node over LMDB, one variable changed at a time. At rest:
the median of two fills. Beside: four clients of oltp_read_write in an open loop (open_loop.lua),
fills one after another for `beside_s`; p99 of the transactions that were due during them, against
that of seconds in which nothing was filled, at the run's beginning and end. A fill that is longer
than `limit_s` is cancelled, and said to be longer. What is due after `minutes` is not measured.
"""

import argparse
import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.products import Exuvia, Session
from bench.report import end_politely, machine
from bench.workloads import Clients, Sizes, quantile, warmed

PAGE = Path(__file__).parents[1] / "docs" / "tuning.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
PAUSE_S = 1.0
Span = tuple[float, float]


class Extent(NamedTuple):
    """How much is measured. Unit: transactions a second, s."""

    rows: int = 1_000_000
    rate: int = 60
    minutes: float = 12
    warm_s: float = 20.0
    alone_s: float = 30.0
    beside_s: float = 15.0
    limit_s: float = 45.0
    rest_fills: int = 2


FULL = Extent()
QUICK = Extent(
    rows=60_000, rate=20, minutes=4, warm_s=5, alone_s=5, beside_s=1, limit_s=20, rest_fills=1
)


class Comparison(NamedTuple):
    """One table of the page: a variable, its values, and what is set for all of them."""

    title: str
    variable: str
    values: tuple[str, ...]
    rests: bool = True
    beside: bool = True
    given: tuple[tuple[str, str], ...] = ()


SPARK = (("exuvia_pipeline_inline_rows", "0"), ("exuvia_ddl_reorg_span_rows", "125000"))
COMPARISONS = (
    Comparison(
        "Rows of a transaction", "tidb_ddl_reorg_batch_size", ("32", "256", "1024", "10240")
    ),
    Comparison(
        "How far clients' p99 may rise", "exuvia_ddl_p99_factor", ("1.1", "1.3", "2"), rests=False
    ),
    Comparison(
        "The least share of the time", "exuvia_ddl_min_share", ("0.1", "0.25", "0.5"), rests=False
    ),
    Comparison("Statistics of the new index", "tidb_stats_update_during_ddl", ("ON", "OFF")),
    Comparison(
        "Verification", "exuvia_ddl_verify", ("full", "sample", "off"), beside=False
    ),
    Comparison(
        "Tasks at once, on Spark", "tidb_ddl_reorg_worker_cnt", ("1", "2", "4"), given=SPARK
    ),
)  # fmt: skip


class Row(NamedTuple):
    """A value of a variable. `rest`, `beside`: seconds of each fill, None: longer than the limit;
    `spans`: when clients had a fill beside them."""

    rest: list[float | None]
    beside: list[float | None]
    spans: list[Span]


class Fills:
    """Fills of one table, through one session that does not wait by itself."""

    def __init__(self, product: Exuvia, limit_s: float) -> None:
        self._product = product
        self._session: Session = product.session()
        self._limit_s = limit_s
        self._session.execute("SET exuvia_ddl_async = ON")

    def set(self, variable: str, value: str) -> None:
        self._session.execute(f"SET GLOBAL {variable} = {value}")

    def run(self) -> float | None:
        """Seconds of one; None if it was longer than the limit."""
        began = time.monotonic()
        job_id = self._session.execute(self._product.add_index("filled", "k, c"))[0][0]
        [(_, state, _)] = self._wait(job_id, self._limit_s)
        took = time.monotonic() - began
        if state == "synced":
            dropped = self._session.execute(self._product.drop_index("filled"))[0][0]
            self._wait(dropped, 60)
        else:
            self._session.execute(f"ADMIN CANCEL DDL JOBS {job_id}")
            self._wait(job_id, 60)
        time.sleep(PAUSE_S)
        return took if state == "synced" else None

    def _wait(self, job_id: Any, seconds: float) -> list[tuple[Any, ...]]:
        return self._session.execute(f"ADMIN WAIT DDL JOBS {job_id} TIMEOUT {seconds:g}")

    def close(self) -> None:
        self._session.close()


class Run:
    """Measures row by row until time is up."""

    def __init__(self, product: Exuvia, extent: Extent) -> None:
        self._product, self._extent = product, extent
        self._ends = time.monotonic() + extent.minutes * 60
        self.rows: dict[tuple[str, str], Row] = {}
        self.alone: list[Span] = []
        self.clients: list[Clients] = []

    def measure(self) -> None:
        extent = self._extent
        warmed(self._product, extent.rows)
        self._product.execute(self._product.add_index("k_1", "k"))
        fills = Fills(self._product, extent.limit_s)
        try:
            for each in COMPARISONS:
                for value in each.values if each.rests else ():
                    with self._set(fills, each, value):
                        if each.given:
                            fills.run()  # what starts Spark is not timed
                        self._at_rest(fills, each, value)
            with self._clients():
                self._rest()
                for each in COMPARISONS:
                    for value in each.values if each.beside else ():
                        with self._set(fills, each, value):
                            self._beside(fills, each, value)
                self._rest()
        finally:
            fills.close()

    @contextlib.contextmanager
    def _set(self, fills: Fills, each: Comparison, value: str) -> Iterator[None]:
        settings = [*each.given, (each.variable, value)]
        for variable, chosen in settings:
            fills.set(variable, chosen)
        try:
            yield
        finally:
            for variable, _ in settings:
                fills.set(variable, "DEFAULT")

    @contextlib.contextmanager
    def _clients(self) -> Iterator[None]:
        sizes = Sizes(rows=self._extent.rows)
        clients = Clients(self._product, sizes, self._extent.rate)
        self.clients.append(clients)
        try:
            time.sleep(self._extent.warm_s)
            yield
            clients.check()
        finally:
            clients.stop()

    def _rest(self) -> None:
        began = time.monotonic()
        time.sleep(self._extent.alone_s)
        self.alone.append((began, time.monotonic()))

    def _row(self, each: Comparison, value: str) -> Row:
        return self.rows.get((each.variable, value), Row([], [], []))

    def _is_late(self, share: float = 1.0) -> bool:
        return time.monotonic() > self._ends - (1 - share) * self._extent.minutes * 60

    def _at_rest(self, fills: Fills, each: Comparison, value: str) -> None:
        row, took = self._row(each, value), list[float | None]()
        while len(took) < self._extent.rest_fills and None not in took and not self._is_late(0.4):
            took.append(fills.run())
        self.rows[each.variable, value] = row._replace(rest=took)
        say(f"{each.variable} = {value}, at rest: {took}")

    def _beside(self, fills: Fills, each: Comparison, value: str) -> None:
        row, took, spans = self._row(each, value), list[float | None](), list[Span]()
        began = time.monotonic()
        while time.monotonic() - began < self._extent.beside_s and not self._is_late():
            since = time.monotonic()
            took.append(seconds := fills.run())
            spans.append((since, since + (seconds or self._extent.limit_s)))
            if seconds is None:
                break
        self.rows[each.variable, value] = row._replace(beside=took, spans=spans)
        say(f"{each.variable} = {value}, beside clients: {took}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# -- the page --------------------------------------------------------------------------------------


def written(run: Run, extent: Extent, about: dict[str, Any]) -> str:
    """The tables, as Markdown."""
    done, errors = run.clients[0].read()

    def within(spans: list[Span]) -> list[float]:
        return [ms for due, ms in done if any(since <= due < until for since, until in spans)]

    alone = within(run.alone)
    parts = [
        f"Measured {time.strftime('%Y-%m-%d', time.gmtime())}, revision {about['revision']}, "
        f"{about['cpu']}, {about['cores']} cores, fdatasync {about['disk_sync_ms']} ms, load "
        f"average {about['load_before']} before the start; `{about['command']}`. ADD INDEX (k, c), "
        f"{extent.rows:,} rows, LMDB, one node; beside it {extent.rate} transactions of "
        f"`oltp_read_write` a second, whose p99 is {p99(alone):.1f} ms (longest {max(alone):.0f}) "
        f"while nothing is filled. {sum(errors.values())} of {len(done):,} transactions were "
        "refused and run again.\n"
    ]
    for each in COMPARISONS:
        parts.append(f"**{each.title}**\n")
        head = [f"`{each.variable}`"]
        head += ["at rest"] if each.rests else []
        head += ["beside clients", "their p99", "longest"] if each.beside else []
        parts += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for value in each.values:
            row = run.rows.get((each.variable, value), Row([], [], []))
            cells = [value]
            cells += [shown(row.rest, extent)] if each.rests else []
            if each.beside:
                busy = within(row.spans)
                cells.append(shown(row.beside, extent))
                cells += [f"{each(busy):.0f} ms" if busy else "" for each in (p99, max)]
            parts.append("| " + " | ".join(cells) + " |")
        given = ", ".join(f"`{name} = {value}`" for name, value in each.given)
        parts.append(f"\nWith {given}.\n" if given else "")
    return "\n".join(parts)


def p99(latencies: list[float]) -> float:
    return quantile(latencies, 0.99)


def shown(took: list[float | None], extent: Extent) -> str:
    """The median of fills."""
    seconds = [each for each in took if each is not None]
    if not seconds:
        return f"more than {extent.limit_s:g} s" if took else "not measured"
    return f"{statistics.median(seconds):.2g} s"


def put(page: Path, tables: str) -> None:
    """Between the page's marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{tables.rstrip()}\n\n{END}{after}")


def main(arguments: list[str] | None = None) -> None:
    """Measure, then write."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m bench.tuning")
    parser.add_argument("--quick", action="store_true", help="few rows; the page stays as it is")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rate", type=int, help="transactions a second of the clients")
    parser.add_argument("--minutes", type=float, help="begin nothing after so long")
    parser.add_argument(
        "--page", type=Path, help="whose tables are written; default docs/tuning.md"
    )
    asked = parser.parse_args(words)
    given = {name: getattr(asked, name) for name in ("rows", "rate", "minutes")}
    extent = (QUICK if asked.quick else FULL)._replace(
        **{name: value for name, value in given.items() if value is not None}
    )
    folder = Path(tempfile.mkdtemp(prefix="exuvia-bench-"))
    try:
        about = {**machine(folder), "command": " ".join(["python -m bench.tuning", *words])}
        product = Exuvia(folder)
        with product.running():
            run = Run(product, extent)
            run.measure()
            tables = written(run, extent, about)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    page = asked.page or (None if asked.quick else PAGE)
    say(tables if page is None else f"{page}")
    if page is not None:
        put(page, tables)


if __name__ == "__main__":
    end_politely()
    main()
