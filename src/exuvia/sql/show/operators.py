"""The operators of a plan, and their output by EXPLAIN: lines and formats.

    id                             estRows  task      access object        operator info
    Selection_4                    10.00    root                           eq(test.t.c, 1), ...
    └─IndexLookUp_3                10.00    root
      ├─IndexRangeScan_1(Build)    10.00    cop[kv]   table:t, index:k(k)  range:[5,5], ...
      └─TableRowIDScan_2(Probe)    10.00    cop[kv]   table:t              keep order:false

    row, traditional ...    the lines                    plan_tree    without numbers and estRows
    brief                   without numbers              json         nested, as tidb_json

    task  root      this engine, row by row              cop[kv]   the store: a range, or keys
          duckdb    DuckDB, over batches of columns

Operators are numbered from the bottom, because no alternatives are compared. `actRows` and
`execution info` are columns of EXPLAIN ANALYZE. The time of an operator includes that of the
operators below. Memory is not measured: N/A.
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


class KeyOfOthers(NamedTuple):
    """A key whose values come from other rows. `rows`: estimated rows for one of them; `columns`:
    the columns that the values come from, or func."""

    is_unique: bool
    columns: str
    rows: float


class Operator:
    """One line.

    rows          estimated rows; None: unknown (N/A)
    data          the title of the first operator below in `info`, as in data:TableRangeScan_4
    side          (Build) or (Probe)
    key_length    bytes of the key parts that it reads by, as MySQL's key_len; None: no key
    key           the key of others that it reads by
    is_numbered   whether its name gets a number; CTE_0 has one
    """

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
        self.key: KeyOfOthers | None = None
        self.is_numbered = True
        self.done = MeasuredStep()

    @property
    def seconds(self) -> float:
        """Its own time and that of all operators below."""
        return self.done.own_s + sum(child.seconds for child in self.below)


def lookup(reader: Operator, build: Sequence[Operator], probe: Operator) -> Operator:
    """Give the reader its build and probe sides."""
    for operator in build:
        operator.side = "(Build)"
    probe.side = "(Probe)"
    reader.below = [*build, probe]
    return reader


class _Line(NamedTuple):
    mark: str
    title: str
    operator: Operator
    info: str


def _lines(tops: Sequence[Operator], is_numbered: bool) -> list[list[_Line]]:
    """The lines of each tree, numbered from the bottom."""
    names: dict[int, str] = {}

    def number(operator: Operator) -> None:
        for below in operator.below:
            number(below)
        has_number = is_numbered and operator.is_numbered
        names[id(operator)] = f"{operator.name}_{len(names) + 1}" if has_number else operator.name

    def walk(operator: Operator, mark: str, indent: str) -> Iterator[_Line]:
        parts = [f"{operator.data}:{names[id(operator.below[0])]}"] if operator.data else []
        info = ", ".join([*parts, *([operator.info] if operator.info else [])])
        yield _Line(mark, names[id(operator)] + operator.side, operator, info)
        for n, below in enumerate(operator.below, 1):
            is_last = n == len(operator.below)
            branch, rest = ("└─", "  ") if is_last else ("├─", "│ ")
            yield from walk(below, indent + branch, indent + rest)

    for top in tops:
        number(top)
    return [list(walk(top, "", "")) for top in tops]


class ExplainedStatement:
    """The state that the operators of one statement share. `watch`: set for ANALYZE."""

    def __init__(self, context: Context, watch: Watch | None = None) -> None:
        self.context = context
        self.watch = watch
        self.commons: list[Operator] = []  # trees of common table expressions
        self._computed = 0

    def column(self, table: Table | None = None) -> str:
        """A new name for a computed column. Numbers start after the columns of the first table."""
        if not self._computed and table is not None:
            self._computed = len(table.columns)
        self._computed += 1
        return f"Column#{self._computed}"

    def named(self, expression: ExpressionText, table: Table | None = None) -> str:
        """The text of an item of a Projection. A computed item gets a name."""
        if isinstance(expression, ColumnText):
            return expression.text
        return f"{expression.text}->{self.column(table)}"

    def forget(self) -> None:
        """Start numbering again, because the statement gets another plan."""
        self._computed = 0
        self.commons.clear()


def distinct_info(texts: Sequence[ExpressionText]) -> str:
    """The operator info of a HashAgg for DISTINCT."""
    funcs = (f"funcs:firstrow({text.text})->{text.text}" for text in texts)
    return ", ".join([f"group by:{sorted_texts(texts)}", *funcs])


# -- as a table, or as JSON ------------------------------------------------------------------------

_COMPUTED = re.compile(r"Column#\d+")


def explain_result(tops: Sequence[Operator], form: str, is_measured: bool) -> Result:
    """The trees in one of FORMATS."""
    for top in tops:
        _settle(top)
    trees = _lines(tops, form not in ("brief", "plan_tree"))
    if form in _AS_JSON:
        nested = [_json(iter(lines), is_measured) for lines in trees]
        text = msgspec.json.format(msgspec.json.encode(nested), indent=4).decode()
        return Result(text_columns("TiDB_JSON"), [[text]])
    is_bare = form == "plan_tree"
    rows: list[Row] = []
    for line in (line for lines in trees for line in lines):
        operator = line.operator
        info = _COMPUTED.sub("Column", line.info) if is_bare else line.info
        row: Row = [
            line.mark + line.title,
            _number(operator.rows),
            operator.task,
            operator.access,
            info,
        ]
        if is_measured:
            row = [*row[:2], _actual(operator), *row[2:4], _execution(operator), info, "N/A", "N/A"]
        if is_bare:
            del row[1]
        rows.append(row)
    titles = _MEASURED if is_measured else _COLUMNS
    return Result(columns_of(titles.replace(" estRows", "") if is_bare else titles), rows)


def _number(rows: float | None) -> str:
    return "N/A" if rows is None else f"{rows:.2f}"


def _settle(top: Operator) -> None:
    """Derive counts that were not measured: an IndexLookUp reads a table row for each entry."""
    for child in top.below:
        _settle(child)
    if top.name not in ("IndexLookUp", "IndexMerge") or top.done.rows is None:
        return
    *build, probe = top.below
    probe.done.count(0)
    if top.name == "IndexLookUp":
        scan = build[0].below[0] if build[0].below else build[0]
        if scan.done.rows is None:  # read in a snapshot older than own writes (catalog/reader.py)
            scan.done.rows = probe.done.loops
        if scan is not build[0]:
            build[0].done.rows = probe.done.loops


def _actual(operator: Operator) -> str:
    return "N/A" if operator.done.rows is None else str(operator.done.rows)


def _execution(operator: Operator) -> str:
    if not operator.done.loops:
        return ""
    return f"time:{_duration(operator.seconds)}, loops:{operator.done.loops}"


def _duration(seconds: float) -> str:
    """A duration in Go's format: 12.3µs, 4.56ms, 1.2s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g}{unit}" if seconds < 1000 * size else f"{seconds:.0f}s"
    return "0s" if not seconds else f"{seconds * 1e9:.0f}ns"


def _json(lines: Iterator[_Line], is_measured: bool) -> dict[str, Any]:
    """The next line and all lines below it, nested."""
    line = next(lines)
    operator = line.operator
    node: dict[str, Any] = {"id": line.title, "estRows": _number(operator.rows)}
    if is_measured:
        node["actRows"] = _actual(operator)
    node["taskType"] = operator.task
    if operator.access:
        node["accessObject"] = operator.access
    if is_measured:
        node["executeInfo"] = _execution(operator)
    if line.info:
        node["operatorInfo"] = line.info
    if operator.below:
        node["subOperators"] = [_json(lines, is_measured) for _ in operator.below]
    return node
