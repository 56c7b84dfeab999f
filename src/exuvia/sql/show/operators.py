"""The steps of a plan as EXPLAIN shows them: a tree of operators, its lines, its formats.

    id                             estRows  task      access object        operator info
    Selection_4                    10.00    root                           eq(test.t.c, 1), ...
    └─IndexLookUp_3                10.00    root
      ├─IndexRangeScan_1(Build)    10.00    cop[kv]   table:t, index:k(k)  range:[5,5], ...
      └─TableRowIDScan_2(Probe)    10.00    cop[kv]   table:t              keep order:false

    row, traditional ...    the lines                    plan_tree    without numbers and estRows
    brief                   without numbers              json         nested, as tidb_json

    task  root      this engine, row by row              cop[kv]   the store: a range, or keys
          duckdb    DuckDB, over batches of columns

A plan is not chosen among many here, so numbers count from below. `actRows`, `execution info`: of
EXPLAIN ANALYZE; a step's time contains that of the steps below it. Memory is not measured: N/A.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from exuvia.catalog.table import Table
from exuvia.sql.result import Result, Row, text_columns
from exuvia.sql.show.expression_text import ColumnText, ExpressionText, sorted_texts
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.measure import MeasuredStep, Watch

ROOT, STORE, DUCKDB = "root", "cop[kv]", "duckdb"
_AS_JSON = ("json", "tidb_json")
FORMATS = (
    *("row", "traditional", "tree", "brief", "plan_tree", *_AS_JSON),
    *("dot", "verbose", "hint", "true_card_cost", "cost_trace", "plan_cache"),
)
_COLUMNS = "id estRows task ~access_object:255 ~operator_info:1024"
_MEASURED = (
    "id estRows actRows task ~access_object:255 ~execution_info:255 ~operator_info:1024 memory disk"
)


class Operator:
    """One line. `rows` None: there is no saying (N/A). `data`: the operator that it reads, named in
    its info. `side`: (Build) or (Probe). `key_length`: bytes of the key parts it reads by, as in
    MySQL's key_len; None where it reads by no key."""

    def __init__(
        self,
        name: str,
        rows: float | None,
        task: str = ROOT,
        access: str = "",
        info: str = "",
        below: Sequence["Operator"] = (),
        data: str = "",
    ) -> None:
        self.name = name
        self.rows = rows
        self.task = task
        self.access = access
        self.info = info
        self.below = list(below)
        self.data = data
        self.side = ""
        self.key_length: int | None = None
        self.done = MeasuredStep()

    @property
    def seconds(self) -> float:
        """Its own and those of all below it."""
        return self.done.own_s + sum(each.seconds for each in self.below)


def lookup(reader: Operator, build: Sequence[Operator], probe: Operator) -> Operator:
    """The reader, with what it builds on and what it probes."""
    for each in build:
        each.side = "(Build)"
    probe.side = "(Probe)"
    reader.below = [*build, probe]
    return reader


class _Line(NamedTuple):
    mark: str
    title: str
    operator: Operator
    info: str


def _lines(top: Operator, is_numbered: bool) -> list[_Line]:
    """The tree as lines, numbered from below."""
    names: dict[int, str] = {}

    def number(each: Operator) -> None:
        for below in each.below:
            number(below)
        names[id(each)] = f"{each.name}_{len(names) + 1}" if is_numbered else each.name

    def walk(each: Operator, mark: str, indent: str) -> Iterator[_Line]:
        parts = [f"{each.data}:{names[id(each.below[0])]}"] if each.data else []
        info = ", ".join([*parts, *([each.info] if each.info else [])])
        yield _Line(mark, names[id(each)] + each.side, each, info)
        for n, below in enumerate(each.below, 1):
            is_last = n == len(each.below)
            branch, rest = ("└─", "  ") if is_last else ("├─", "│ ")
            yield from walk(below, indent + branch, indent + rest)

    number(top)
    return list(walk(top, "", ""))


class ExplainedStatement:
    """What the operators of one statement share. `watch`: of ANALYZE."""

    def __init__(self, context: Context, watch: Watch | None = None) -> None:
        self.context = context
        self.watch = watch
        self._computed = 0

    def column(self, table: Table | None = None) -> str:
        """A name for what is computed; numbers go on behind the columns of the first table."""
        if not self._computed and table is not None:
            self._computed = len(table.columns)
        self._computed += 1
        return f"Column#{self._computed}"

    def named(self, found: ExpressionText, table: Table | None = None) -> str:
        """As an item of a Projection: what is computed gets a name."""
        if isinstance(found, ColumnText):
            return found.text
        return f"{found.text}->{self.column(table)}"

    def forget(self) -> None:
        """It is explained anew."""
        self._computed = 0


def distinct_info(texts: Sequence[ExpressionText]) -> str:
    """operator info of a HashAgg that leaves each row once."""
    funcs = (f"funcs:firstrow({each.text})->{each.text}" for each in texts)
    return ", ".join([f"group by:{sorted_texts(texts)}", *funcs])


# -- as a table, or as JSON ------------------------------------------------------------------------

_COMPUTED = re.compile(r"Column#\d+")


def shown(top: Operator, form: str, is_measured: bool) -> Result:
    """The tree in one of FORMATS."""
    _settle(top)
    lines = _lines(top, form not in ("brief", "plan_tree"))
    if form in _AS_JSON:
        nested = _json(iter(lines), is_measured)
        text = msgspec.json.format(msgspec.json.encode([nested]), indent=4).decode()
        return Result(text_columns("TiDB_JSON"), [[text]])
    is_bare = form == "plan_tree"
    rows: list[Row] = []
    for line in lines:
        said = line.operator
        info = _COMPUTED.sub("Column", line.info) if is_bare else line.info
        row: Row = [line.mark + line.title, _number(said.rows), said.task, said.access, info]
        if is_measured:
            row = [*row[:2], _actual(said), *row[2:4], _execution(said), info, "N/A", "N/A"]
        if is_bare:
            del row[1]
        rows.append(row)
    titles = _MEASURED if is_measured else _COLUMNS
    return Result(columns_of(titles.replace(" estRows", "") if is_bare else titles), rows)


def _number(rows: float | None) -> str:
    return "N/A" if rows is None else f"{rows:.2f}"


def _settle(top: Operator) -> None:
    """What was not counted and follows from what was: rows of a table are got for each entry."""
    for each in top.below:
        _settle(each)
    if top.name not in ("IndexLookUp", "IndexMerge") or top.done.rows is None:
        return
    *build, probe = top.below
    probe.done.count(0)
    if top.name == "IndexLookUp":
        scan = build[0].below[0] if build[0].below else build[0]
        if scan.done.rows is None:  # of a snapshot older than own writes (catalog/reader.py)
            scan.done.rows = probe.done.loops
        if scan is not build[0]:
            build[0].done.rows = probe.done.loops


def _actual(found: Operator) -> str:
    return "N/A" if found.done.rows is None else str(found.done.rows)


def _execution(found: Operator) -> str:
    if not found.done.loops:
        return ""
    return f"time:{_duration(found.seconds)}, loops:{found.done.loops}"


def _duration(seconds: float) -> str:
    """As Go has it: 12.3µs, 4.56ms, 1.2s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g}{unit}" if seconds < 1000 * size else f"{seconds:.0f}s"
    return "0s" if not seconds else f"{seconds * 1e9:.0f}ns"


def _json(lines: Iterator[_Line], is_measured: bool) -> dict[str, Any]:
    """The next line with all below it."""
    line = next(lines)
    said = line.operator
    found: dict[str, Any] = {"id": line.title, "estRows": _number(said.rows)}
    if is_measured:
        found["actRows"] = _actual(said)
    found["taskType"] = said.task
    if said.access:
        found["accessObject"] = said.access
    if is_measured:
        found["executeInfo"] = _execution(said)
    if line.info:
        found["operatorInfo"] = line.info
    if said.below:
        found["subOperators"] = [_json(lines, is_measured) for _ in said.below]
    return found
