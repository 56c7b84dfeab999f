"""What DuckDB does for a query, as operators: its own plan, asked of it.

    its plan, before it runs     EXPLAIN (FORMAT json), with readers that have no rows
    its profile, behind it       rows and seconds of each of its operators: EXPLAIN ANALYZE

Its texts name the columns of our scans, each of which has names of its own (select/scan.py), so
they are put into TiDB's words; o0, o1, ... are the select list's, where there is only one SELECT.
What only hands on columns is no step.

    HASH_GROUP_BY       HashAgg     TOP_N       TopN       FILTER         Selection
    UNGROUPED_AGGREGATE StreamAgg   ORDER_BY    Sort       ARROW_SCAN     how our scan reads
    HASH_JOIN           HashJoin    LIMIT       Limit      anything else  as DuckDB calls it
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlglot import exp

from exuvia.catalog.table import Table
from exuvia.sql.access.paths import Everywhere, Path, watched_path
from exuvia.sql.expr import Column
from exuvia.sql.result import Result
from exuvia.sql.select.relational import RelationalPlan
from exuvia.sql.select.scan import Scan, TableScan
from exuvia.sql.select.tree import Frame
from exuvia.sql.show.access_operators import Keeps, path_operators
from exuvia.sql.show.expression_text import (
    CallText,
    ColumnText,
    ConstantText,
    ExpressionText,
    compared_by_duckdb,
    conjuncts,
    of_bound,
    of_duckdb,
    sorted_texts,
    stored_column,
)
from exuvia.sql.show.operators import DUCKDB, ExplainedStatement, Operator, lookup
from exuvia.sql.show.row_estimates import DISTINCT, PSEUDO_ROWS, TableEstimate, grouped, joined
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.measure import MeasuredStep, Reads, Watch

_COLUMN = re.compile(r"(x\d+t\d+)(?:c(\d+)|one)")
_FUNCTION = re.compile(r"x\d+f\d+")
_OUTPUT = re.compile(r"o(\d+)")
_DIRECTION = re.compile(r"^(.*?) (ASC|DESC)( NULLS (?:FIRST|LAST))?$")
_JOINS = {
    "INNER": "inner join",
    "LEFT": "left outer join",
    "RIGHT": "right outer join",
    "OUTER": "full outer join",
    "SEMI": "semi join",
    "ANTI": "anti semi join",
    "RIGHT_SEMI": "semi join",
    "RIGHT_ANTI": "anti semi join",
    "MARK": "left outer semi join",
    "SINGLE": "left outer join",
}
_TITLES = {
    "HASH_JOIN": "HashJoin",
    "CROSS_PRODUCT": "CrossJoin",
    "NESTED_LOOP_JOIN": "NestedLoopJoin",
    "BLOCKWISE_NL_JOIN": "NestedLoopJoin",
    "PIECEWISE_MERGE_JOIN": "MergeJoin",
    "IE_JOIN": "IEJoin",
    "TOP_N": "TopN",
    "ORDER_BY": "Sort",
    "UNION": "Union",
    "WINDOW": "Window",
    "STREAMING_WINDOW": "Window",
    "CTE_SCAN": "CTEFullScan",
    "RECURSIVE_CTE_SCAN": "CTETable",
    "REC_CTE_SCAN": "CTETable",
    "CTE": "CTE",
    "RECURSIVE_CTE": "CTE",
    "REC_CTE": "CTE",
}
_PASSED = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE", "BATCH_COLLECTOR", "ARROW_COLLECTOR")


class _Physical(NamedTuple):
    """An operator of DuckDB's, as its plan or its profile has it."""

    name: str
    info: dict[str, Any]
    below: "list[_Physical]"
    rows: int | None
    seconds: float

    @classmethod
    def of(cls, found: dict[str, Any]) -> "_Physical":
        below = [cls.of(each) for each in found.get("children") or ()]
        name = str(found.get("type") or found.get("name") or "").strip()
        seconds = float(found.get("timing") or 0.0)
        return cls(
            name, found.get("extra_info") or {}, below, found.get("intermediate_rows"), seconds
        )

    def list(self, title: str) -> list[str]:
        """A part of its info, which is a text where it is only one."""
        found = self.info.get(title) or []
        return [found] if isinstance(found, str) else [str(each) for each in found]


class _Step(NamedTuple):
    """An operator, and what its columns are."""

    operator: Operator
    columns: list[ExpressionText]


class _DuckPlan:
    """DuckDB's plan of one query as operators. `scanned`: its scans' operators, by name."""

    def __init__(
        self,
        plan: RelationalPlan,
        statement: object,
        explaining: ExplainedStatement,
        scanned: "dict[str, Operator]",
    ) -> None:
        self._plan = plan
        self._statement = statement
        self._explaining = explaining
        self._context = explaining.context
        self._scans = {scan.name: scan for scan in plan.scans}
        self._scanned = scanned
        self._left = list(plan.scans)
        self._is_projected = False
        self._fixed: dict[int, set[str]] = {}  # columns that have one value, by operator
        self._not_null: dict[int, list[ExpressionText]] = {}  # columns without NULLs, likewise
        self._common_rows: list[float] = []  # of the common tables met
        self._made_of: dict[str, ColumnText] = {}  # text of an aggregate -> its column
        self._estimates: dict[int, TableEstimate] = {}
        for scan in plan.scans:
            if isinstance(scan, TableScan):
                self._estimates.setdefault(scan.table.info.id, _estimate(scan, self._context))

    def step(self, found: _Physical) -> _Step:
        """The operator, and all below it."""
        if found.name in _PASSED or (found.name == "PROJECTION" and not found.below):
            return self.step(found.below[0])
        if "ARROW_SCAN" in f"{found.name} {found.info.get('Function', '')}":
            return self._scan(found)
        below = []
        for each in found.below:
            below.append(self.step(each))
            if found.name.endswith("CTE") and len(below) == 1:
                self._common_rows.append(below[0].operator.rows or 0.0)
        if found.name == "PROJECTION":
            return self._projection(found, below[0])
        made = self._made(found, below)
        made.operator.task = DUCKDB
        made.operator.done.rows = found.rows
        made.operator.done.own_s = found.seconds
        made.operator.done.loops = int(found.rows is not None)
        if found.rows is not None and found.name in ("UNION", "CTE"):
            # DuckDB says 0 of what hands on the rows of others
            given = below if found.name == "UNION" else below[-1:]
            made.operator.done.rows = sum(each.operator.done.rows or 0 for each in given)
        return made

    def _made(self, found: _Physical, below: list[_Step]) -> _Step:
        operators = [each.operator for each in below]
        columns = below[0].columns if below else []
        rows = (operators[0].rows or 0.0) if operators else 1.0

        def text(said: str) -> ExpressionText:
            return self._text(said, columns)

        if found.name == "FILTER":
            said = conjuncts(*map(text, found.list("Expression")))
            rows = self._filtered(operators[0], said)
            made = Operator("Selection", rows, info=sorted_texts(said), below=operators)
            self._fixed[id(made)] = {
                each.arguments[0].text
                for each in said
                if isinstance(each, CallText) and each.name == "eq"
            }
            self._note_not_null(made, said, columns)
            return _Step(made, columns)
        if "GROUP_BY" in found.name or "AGGREGATE" in found.name:
            return self._aggregated(found, below[0], text)
        if found.name in ("TOP_N", "ORDER_BY"):
            keys_of = ", ".join(self._key(each, text) for each in found.list("Order By"))
            if found.name == "ORDER_BY":
                return _Step(Operator("Sort", rows, info=keys_of, below=operators), columns)
            info, most = self._limit(found)
            made = Operator("TopN", min(rows, most), info=f"{keys_of}, {info}", below=operators)
            return _Step(made, columns)
        if found.name.endswith("LIMIT"):
            info, most = self._limit(found)
            return _Step(Operator("Limit", min(rows, most), info=info, below=operators), columns)
        if found.name.endswith(("JOIN", "CROSS_PRODUCT")) and len(below) > 1:
            return self._joined(found, below)
        if found.name in ("DUMMY_SCAN", "EMPTY_RESULT"):
            number = int(found.name == "DUMMY_SCAN")
            return _Step(Operator("TableDual", float(number), info=f"rows:{number}"), [])
        title = _TITLES.get(found.name) or found.name.title().replace("_", "")
        if title in ("CTEFullScan", "CTETable") and self._common_rows:
            rows = self._common_rows[-1]
        if title == "CTE" and operators:
            rows, columns = operators[-1].rows or 0.0, below[-1].columns
        if title == "Union":
            rows = sum(each.rows or 0.0 for each in operators)
            columns = [ColumnText(self._explaining.column(self._first_table())) for _ in columns]
        info = ", ".join(
            text(each).text for name in ("Projections", "Expression") for each in found.list(name)
        )
        added = [ColumnText(self._explaining.column())] * (title == "Window")
        return _Step(Operator(title, rows, info=info, below=operators), [*columns, *added])

    def _text(
        self, said: str, columns: Sequence[ExpressionText], is_made_here: bool = False
    ) -> ExpressionText:
        """What DuckDB says, over columns of what is below."""
        met = of_duckdb(said, lambda name: self._resolve(name, columns))
        return self._known(met, is_made_here)

    def _known(self, found: ExpressionText, is_made_here: bool = False) -> ExpressionText:
        """Aggregates, if not made here, by the columns they have become; our functions by what they
        do."""
        if found.text in self._made_of and not is_made_here:
            return self._made_of[found.text]
        if not isinstance(found, CallText):
            return found
        arguments = tuple(map(self._known, found.arguments))
        body = self._plan.bodies.get(found.name)
        if body is None:
            name = "computed" if _FUNCTION.fullmatch(found.name) else found.name
            return CallText(name, arguments)

        def leaf(column: Column) -> ExpressionText:
            return arguments[column.position]

        return of_bound(body, leaf, self._context)

    # -- names -------------------------------------------------------------------------------------

    def _resolve(self, name: str, columns: Sequence[ExpressionText]) -> ExpressionText | None:
        """What a name in DuckDB's text is."""
        if name.startswith("#"):
            place = int(name[1:])
            return columns[place] if place < len(columns) else None
        column = _COLUMN.fullmatch(name)
        if column is not None and column[2]:
            return self._column(self._scans[column[1]], int(column[2]))
        output = _OUTPUT.fullmatch(name)
        if output is None:
            return None
        return self._output(int(output[1])) or ColumnText("Column")

    def _column(self, scan: Scan, position: int) -> ColumnText:
        if not isinstance(scan, TableScan):
            return ColumnText(f"{scan.title}.{scan.names[position]}".lower())
        if position == scan.handle_position:
            info = scan.table.info
            name = f"{scan.table.database.db_name.O}.{info.name.O}._tidb_rowid"
            return ColumnText(name.lower())
        return stored_column(scan.table, position)

    def _output(self, place: int) -> ExpressionText | None:
        """A column of the statement's own SELECT, where it has no other."""
        block = self._plan.block
        if block is None or place >= len(block.items):
            return None
        name = self._field(block.frame)
        return self._known(of_bound(block.items[place].expr, name, self._context))

    def _field(self, frame: Frame) -> Callable[[Column], ColumnText]:
        def name(column: Column) -> ColumnText:
            field = frame.fields[column.position]
            for scan in self._plan.scans:
                if isinstance(scan, TableScan) and scan.title == field.table:
                    for position, info in enumerate(scan.table.info.cols):
                        if info is field.column:
                            return stored_column(scan.table, position)
            return ColumnText((column.full or column.name).lower())

        return name

    def _key(self, said: str, text: Callable[[str], ExpressionText]) -> str:
        found = _DIRECTION.match(said)
        shown = text(found[1] if found else said).text
        return shown + ":desc" * bool(found and found[2] == "DESC")

    def _limit(self, found: _Physical) -> tuple[str, float]:
        most, first = found.list("Top") or found.list("Limit"), found.list("Offset")
        count, offset = (each[0] if each else "0" for each in (most, first))
        block = self._plan.block
        if isinstance(self._statement, exp.Expression) and block is not None:
            limit = block.limit
            count, offset = str(limit.most) if limit.most is not None else count, str(limit.skip)
        return f"offset:{offset}, count:{count}", float(count) if count.isdigit() else 1e18

    # -- operators ---------------------------------------------------------------------------------

    def _scan(self, found: _Physical) -> _Step:
        names = found.list("Projections")
        first = _COLUMN.fullmatch(names[0]) if names else None
        scan = self._scans[first[1]] if first else self._left[0]
        if scan in self._left:
            self._left.remove(scan)
        columns: list[ExpressionText] = []
        for each in names:
            met = self._resolve(each, [])
            columns.append(met if met is not None else ColumnText(each))
        top = self._scanned.get(scan.name) or _scan_operators(scan, self._context)[0]
        if scan.is_repeated and top.below and top.done.loops:
            top.info = ", ".join(filter(None, (top.info, "read once")))
        pushed = conjuncts(*(self._text(each, []) for each in found.list("Filters")))
        if pushed:
            rows = self._filtered(top, pushed)
            top = Operator("Selection", rows, DUCKDB, info=sorted_texts(pushed), below=[top])
            top.done.rows = found.rows
            self._note_not_null(top, pushed, columns)
        return _Step(top, columns)

    def _note_not_null(
        self, made: Operator, said: Sequence[ExpressionText], columns: Sequence[ExpressionText]
    ) -> None:
        tests = {f"not(isnull({each.text}))": each for each in columns}
        self._not_null[id(made)] = [tests[each.text] for each in said if each.text in tests]

    def _projection(self, found: _Physical, below: _Step) -> _Step:
        """What only hands on columns is no step."""
        columns = [
            self._projected(each, n, below.columns)
            for n, each in enumerate(found.list("Projections"))
        ]
        if self._is_projected:
            return _Step(below.operator, columns)
        block = self._plan.block
        whole = [f"o{n}" for n in range(len(block.items))] if block is not None else []
        names = found.list("Projections")[: len(whole)]
        if not whole or names != whole:
            return _Step(below.operator, columns)
        if not any(isinstance(each, CallText) for each in columns[: len(whole)]):
            return _Step(below.operator, columns)
        self._is_projected = True
        shown = ", ".join(self._explaining.named(each) for each in columns[: len(whole)])
        made = Operator(
            "Projection", below.operator.rows, DUCKDB, info=shown, below=[below.operator]
        )
        made.done.rows, made.done.own_s = found.rows, found.seconds
        made.done.loops = int(found.rows is not None)
        return _Step(made, columns)

    def _projected(self, said: str, n: int, below: Sequence[ExpressionText]) -> ExpressionText:
        """An item of a projection. Of one that has only a name: what stands below at its place, if
        that is a column that was made there."""
        found = self._text(said, below)
        if found.text == "Column":
            if n < len(below) and _is_made(below[n]):
                return below[n]
            return ColumnText(self._explaining.column(self._first_table()))
        return found

    def _filtered(self, below: Operator, said: Sequence[ExpressionText]) -> float:
        """Rows that conditions leave; a path has taken its own into account."""
        rows, whole = below.rows or 0.0, below
        estimate = self._of_operator(whole)
        if estimate is None:
            return rows * 0.8
        kept = estimate.rows * estimate.kept(said)
        return min(rows, kept) if rows < estimate.rows else kept

    def _of_operator(self, found: Operator) -> TableEstimate | None:
        for name, scan in self._scans.items():
            if self._scanned.get(name) is found and isinstance(scan, TableScan):
                return self._estimates[scan.table.info.id]
        return None

    def _aggregated(
        self, found: _Physical, below: _Step, text: Callable[[str], ExpressionText]
    ) -> _Step:
        groups = [text(each) for each in found.list("Groups")]
        functions = [
            self._text(each, below.columns, is_made_here=True)
            for each in found.list("Aggregates")
            if each
        ]
        rows = below.operator.rows or 0.0
        funcs, columns = [], list(groups)
        for each in functions:
            if isinstance(each, CallText) and each.name in ("any_value", "first"):
                shown = each.arguments[0]
                funcs.append(f"funcs:firstrow({shown.text})->{shown.text}")
                columns.append(shown)
            else:
                made = ColumnText(self._explaining.column(self._first_table()))
                funcs.append(f"funcs:{each.text}->{made.text}")
                columns.append(made)
                self._made_of[each.text] = made
        if not functions:
            funcs = [f"funcs:firstrow({each.text})->{each.text}" for each in groups]
        if not groups:
            whole = Operator("StreamAgg", 1.0, info=", ".join(funcs), below=[below.operator])
            return _Step(whole, columns)
        number = grouped(groups, rows, self._estimates)
        info = ", ".join([f"group by:{sorted_texts(groups)}", *funcs])
        return _Step(Operator("HashAgg", number, info=info, below=[below.operator]), columns)

    def _first_table(self) -> Table | None:
        return next((scan.table for scan in self._plan.scans if isinstance(scan, TableScan)), None)

    def _joined(self, found: _Physical, below: list[_Step]) -> _Step:
        """DuckDB builds on its second side, and probes with its first."""
        probe, build = below[0], below[1]
        kind = found.info.get("Join Type", "INNER")
        word = _JOINS.get(kind, f"{str(kind).lower()} join")
        equal: list[str] = []
        others: list[str] = []
        different: list[float] = []
        for each in found.list("Conditions"):
            made = compared_by_duckdb(
                each,
                lambda name: self._resolve(name, probe.columns),
                lambda name: self._resolve(name, build.columns),
            )
            if not isinstance(made, CallText) or made.name not in ("eq", "nulleq"):
                others.append(self._known(made).text)
                continue
            left, right = map(self._known, made.arguments)
            if left.text == right.text:
                right = self._compared(right, build)
            equal.append(CallText(made.name, (left, right)).text)
            different.append(max(self._different(left, probe), self._different(right, build)))
        info = [word if found.list("Conditions") else f"CARTESIAN {word}"]
        if equal:
            info.append(f"equal:[{' '.join(equal)}]")
        if others:
            info.append(f"other cond:{', '.join(sorted(others))}")
        left_rows, right_rows = probe.operator.rows or 0.0, build.operator.rows or 0.0
        rows = joined(left_rows, right_rows, different)
        if "SEMI" in kind or "ANTI" in kind:
            rows = (right_rows if kind.startswith("RIGHT") else left_rows) * DISTINCT
        elif kind in ("LEFT", "MARK", "SINGLE"):
            rows = max(rows, left_rows) if kind == "LEFT" else left_rows
        elif kind in ("RIGHT", "OUTER"):
            rows = max(rows, right_rows)
        title = _TITLES.get(found.name) or "HashJoin"
        made_of = Operator(title, rows, info=", ".join(info))
        lookup(made_of, [build.operator], probe.operator)
        columns = list(probe.columns)
        if kind not in ("SEMI", "ANTI"):
            columns = (
                [*columns, *build.columns] if kind != "MARK" else [*columns, ColumnText("mark")]
            )
        return _Step(made_of, columns)

    def _compared(self, found: ExpressionText, build: _Step) -> ExpressionText:
        """The side of a join's equality that is built. Of a subquery DuckDB says it by the outer
        query's column: its own is the one that it takes without NULLs, if there is only one."""
        own = self._not_null.get(id(build.operator), [])
        if len(own) != 1 or any(found.text == each.text for each in build.columns):
            return found
        return own[0]

    def _different(self, found: ExpressionText, side: _Step) -> float:
        """How many different values a side of a join has there: one, if it is compared with one."""
        if isinstance(found, ConstantText) or found.text in self._fixed.get(id(side.operator), ()):
            return 1.0
        if isinstance(found, ColumnText) and found.table is not None:
            return self._estimates[found.table.info.id].different(found.position)
        return DISTINCT * (side.operator.rows or 0.0)


def _is_made(found: ExpressionText) -> bool:
    return isinstance(found, ColumnText) and found.text.startswith("Column#")


def _estimate(scan: TableScan, context: Context) -> TableEstimate:
    parts = scan.table.parts if scan.choice is None else scan.choice.parts(context)
    return TableEstimate(scan.table, parts, context)


def _scan_operators(scan: Scan, context: Context) -> tuple[Operator, Path | None, Reads]:
    """How one table of a query is read: operators, the path if it has one, its reads."""
    if not isinstance(scan, TableScan):
        place = f"table:{scan.title.rpartition('.')[2]}"
        return Operator("MemTableScan", PSEUDO_ROWS, access=place), None, Reads()
    top = ""
    if scan.top is not None:
        top = f"first {scan.top.rows} by {stored_column(scan.table, scan.top.position).text}"
    keeps = Keeps(scan.title, top=top)
    path = scan.path
    if path is None:
        path = Path(scan.table, covers=False)
        path = path if scan.choice is None else Everywhere(path, scan.choice)
    made, reads, _ = path_operators(path, keeps, _estimate(scan, context), context)
    return made, scan.path, reads


def relational_operators(
    explaining: ExplainedStatement, plan: RelationalPlan, statement: object
) -> Operator:
    """DuckDB's plan, before it runs."""
    scanned = {scan.name: _scan_operators(scan, explaining.context)[0] for scan in plan.scans}
    (found,) = msgspec.json.decode(plan.physical())
    return _DuckPlan(plan, statement, explaining, scanned).step(_Physical.of(found)).operator


def profiled_operators(
    explaining: ExplainedStatement, plan: RelationalPlan, statement: object
) -> tuple[Operator, Result]:
    """DuckDB's plan, with what it did."""
    context, watch, whole = explaining.context, explaining.watch, MeasuredStep()
    assert watch is not None
    scanned = {}
    for scan in plan.scans:
        top, path, reads = _scan_operators(scan, context)
        scanned[scan.name] = top
        own, read = Watch(context.session.services.clock.monotonic), MeasuredStep()
        if path is not None:
            assert isinstance(scan, TableScan)
            scan.path = watched_path(path, own, read, reads)
        scan.watched = _batches_of(top, own, read)
    with watch.within(whole):
        rows, profile = plan.profiled(context)
    (found,) = msgspec.json.decode(profile)["operator"]
    top = _DuckPlan(plan, statement, explaining, scanned).step(_Physical.of(found)).operator
    top.done.own_s += max(0.0, whole.own_s - top.seconds)
    return top, Result(plan.columns, rows)


def _batches_of(
    top: Operator, watch: Watch, read: MeasuredStep
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What DuckDB pulls of a scan, noted in whatever thread it does. `read`: of its path."""

    def watched(batches: Iterator[Any]) -> Iterator[Any]:
        met = MeasuredStep()
        top.done.count(0)
        for each in watch.rows(met, batches):
            top.done.count(each.num_rows)
            yield each
        top.done.loops += met.loops
        top.done.own_s += met.own_s + read.own_s
        if top.name == "TableReader" and top.below[0].done.rows is None:
            top.below[0].done.rows = top.done.rows

    return watched
