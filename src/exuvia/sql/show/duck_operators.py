"""The operators of a query that DuckDB runs, converted from DuckDB's own plan.

    its plan, before it runs     EXPLAIN (FORMAT json), with readers that have no rows
    its profile, after it ran    rows and seconds of each of its operators: EXPLAIN ANALYZE

DuckDB's texts use the column names of our scans, which have names of their own (select/scan.py).
They are converted to TiDB's terms. o0, o1, ... are the columns of the select list, if the query has
only one SELECT. A projection that only passes columns on is omitted.

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
from exuvia.sql.show.access_operators import ScanOrder, path_operators
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
    """An operator of DuckDB's plan or profile."""

    name: str
    info: dict[str, Any]
    below: "list[_Physical]"
    rows: int | None
    seconds: float

    @classmethod
    def of(cls, node: dict[str, Any]) -> "_Physical":
        below = [cls.of(child) for child in node.get("children") or ()]
        name = str(node.get("type") or node.get("name") or "").strip()
        seconds = float(node.get("timing") or 0.0)
        return cls(
            name, node.get("extra_info") or {}, below, node.get("intermediate_rows"), seconds
        )

    def list(self, title: str) -> list[str]:
        """A list in the operator's info. DuckDB writes a list of one as a plain text."""
        listed = self.info.get(title) or []
        return [listed] if isinstance(listed, str) else [str(text) for text in listed]


class _Step(NamedTuple):
    """An operator and the texts of its columns."""

    operator: Operator
    columns: list[ExpressionText]


class _DuckPlan:
    """Converts DuckDB's plan of one query. `scanned`: the operators of its scans, by name."""

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
        self._unread_scans = list(plan.scans)
        self._is_projected = False
        self._fixed: dict[int, set[str]] = {}  # columns with a single value, by operator
        self._not_null: dict[int, list[ExpressionText]] = {}  # columns without NULLs, by operator
        self._common_rows: list[float] = []  # rows of the common table expressions
        self._aggregate_columns: dict[str, ColumnText] = {}  # text of an aggregate -> its column
        self._estimates: dict[int, TableEstimate] = {}
        for scan in plan.scans:
            if isinstance(scan, TableScan):
                self._estimates.setdefault(scan.table.info.id, _estimate(scan, self._context))

    def step(self, physical: _Physical) -> _Step:
        """Convert an operator and all below it."""
        if physical.name in _PASSED or (physical.name == "PROJECTION" and not physical.below):
            return self.step(physical.below[0])
        if "ARROW_SCAN" in f"{physical.name} {physical.info.get('Function', '')}":
            return self._scan(physical)
        below = []
        for child in physical.below:
            below.append(self.step(child))
            if physical.name.endswith("CTE") and len(below) == 1:
                self._common_rows.append(below[0].operator.rows or 0.0)
        if physical.name == "PROJECTION":
            return self._projection(physical, below[0])
        step = self._converted(physical, below)
        step.operator.task = DUCKDB
        step.operator.done.rows = physical.rows
        step.operator.done.own_s = physical.seconds
        step.operator.done.loops = int(physical.rows is not None)
        if physical.rows is not None and physical.name in ("UNION", "CTE"):
            # DuckDB reports 0 rows for operators that only pass rows on
            inputs = below if physical.name == "UNION" else below[-1:]
            step.operator.done.rows = sum(child.operator.done.rows or 0 for child in inputs)
        return step

    def _converted(self, physical: _Physical, below: list[_Step]) -> _Step:
        operators = [step.operator for step in below]
        columns = below[0].columns if below else []
        rows = (operators[0].rows or 0.0) if operators else 1.0

        def text(duck_text: str) -> ExpressionText:
            return self._text(duck_text, columns)

        if physical.name == "FILTER":
            conditions = conjuncts(*map(text, physical.list("Expression")))
            rows = self._filtered(operators[0], conditions)
            operator = Operator("Selection", rows, info=sorted_texts(conditions), below=operators)
            self._fixed[id(operator)] = {
                condition.arguments[0].text
                for condition in conditions
                if isinstance(condition, CallText) and condition.name == "eq"
            }
            self._note_not_null(operator, conditions, columns)
            return _Step(operator, columns)
        if "GROUP_BY" in physical.name or "AGGREGATE" in physical.name:
            return self._aggregated(physical, below[0], text)
        if physical.name in ("TOP_N", "ORDER_BY"):
            keys_of = ", ".join(self._key(key, text) for key in physical.list("Order By"))
            if physical.name == "ORDER_BY":
                return _Step(Operator("Sort", rows, info=keys_of, below=operators), columns)
            info, most = self._limit(physical)
            operator = Operator("TopN", min(rows, most), info=f"{keys_of}, {info}", below=operators)
            return _Step(operator, columns)
        if physical.name.endswith("LIMIT"):
            info, most = self._limit(physical)
            return _Step(Operator("Limit", min(rows, most), info=info, below=operators), columns)
        if physical.name.endswith(("JOIN", "CROSS_PRODUCT")) and len(below) > 1:
            return self._joined(physical, below)
        if physical.name in ("DUMMY_SCAN", "EMPTY_RESULT"):
            number = int(physical.name == "DUMMY_SCAN")
            return _Step(Operator("TableDual", float(number), info=f"rows:{number}"), [])
        title = _TITLES.get(physical.name) or physical.name.title().replace("_", "")
        if title in ("CTEFullScan", "CTETable") and self._common_rows:
            rows = self._common_rows[-1]
        if title == "CTE" and operators:
            rows, columns = operators[-1].rows or 0.0, below[-1].columns
        if title == "Union":
            rows = sum(operator.rows or 0.0 for operator in operators)
            columns = [ColumnText(self._explaining.column(self._first_table())) for _ in columns]
        info = ", ".join(
            text(listed).text
            for name in ("Projections", "Expression")
            for listed in physical.list(name)
        )
        added = [ColumnText(self._explaining.column())] * (title == "Window")
        return _Step(Operator(title, rows, info=info, below=operators), [*columns, *added])

    def _text(
        self, duck_text: str, columns: Sequence[ExpressionText], is_aggregate: bool = False
    ) -> ExpressionText:
        """Convert an expression of DuckDB over the columns of the inputs."""
        expression = of_duckdb(duck_text, lambda name: self._resolve(name, columns))
        return self._substituted(expression, is_aggregate)

    def _substituted(
        self, expression: ExpressionText, is_aggregate: bool = False
    ) -> ExpressionText:
        """Replace aggregates of inputs by their columns, and our functions by their bodies."""
        if expression.text in self._aggregate_columns and not is_aggregate:
            return self._aggregate_columns[expression.text]
        if not isinstance(expression, CallText):
            return expression
        arguments = tuple(map(self._substituted, expression.arguments))
        body = self._plan.bodies.get(expression.name)
        if body is None:
            name = "computed" if _FUNCTION.fullmatch(expression.name) else expression.name
            return CallText(name, arguments)

        def leaf(column: Column) -> ExpressionText:
            return arguments[column.position]

        return of_bound(body, leaf, self._context)

    # -- names -------------------------------------------------------------------------------------

    def _resolve(self, name: str, columns: Sequence[ExpressionText]) -> ExpressionText | None:
        """The column of a name in DuckDB's text, or None."""
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
        """A column of the statement's SELECT, if the statement has only one."""
        block = self._plan.block
        if block is None or place >= len(block.items):
            return None
        name = self._field(block.frame)
        return self._substituted(of_bound(block.items[place].expr, name, self._context))

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

    def _key(self, duck_text: str, text: Callable[[str], ExpressionText]) -> str:
        match = _DIRECTION.match(duck_text)
        key = text(match[1] if match else duck_text).text
        return key + ":desc" * bool(match and match[2] == "DESC")

    def _limit(self, physical: _Physical) -> tuple[str, float]:
        most, first = physical.list("Top") or physical.list("Limit"), physical.list("Offset")
        count, offset = (texts[0] if texts else "0" for texts in (most, first))
        block = self._plan.block
        if isinstance(self._statement, exp.Expression) and block is not None:
            rows, skip = block.limit.at(self._context)
            count, offset = str(rows) if rows is not None else count, str(skip)
        return f"offset:{offset}, count:{count}", float(count) if count.isdigit() else 1e18

    # -- operators ---------------------------------------------------------------------------------

    def _scan(self, physical: _Physical) -> _Step:
        names = physical.list("Projections")
        first = _COLUMN.fullmatch(names[0]) if names else None
        scan = self._scans[first[1]] if first else self._unread_scans[0]
        if scan in self._unread_scans:
            self._unread_scans.remove(scan)
        columns: list[ExpressionText] = []
        for name in names:
            column = self._resolve(name, [])
            columns.append(column if column is not None else ColumnText(name))
        top = self._scanned.get(scan.name) or _scan_operators(scan, self._context)[0]
        if scan.is_repeated and top.below and top.done.loops:
            top.info = ", ".join(filter(None, (top.info, "read once")))
        pushed = conjuncts(*(self._text(condition, []) for condition in physical.list("Filters")))
        if pushed:
            rows = self._filtered(top, pushed)
            top = Operator("Selection", rows, DUCKDB, info=sorted_texts(pushed), below=[top])
            top.done.rows = physical.rows
            self._note_not_null(top, pushed, columns)
        return _Step(top, columns)

    def _note_not_null(
        self,
        operator: Operator,
        conditions: Sequence[ExpressionText],
        columns: Sequence[ExpressionText],
    ) -> None:
        tests = {f"not(isnull({column.text}))": column for column in columns}
        self._not_null[id(operator)] = [
            tests[condition.text] for condition in conditions if condition.text in tests
        ]

    def _projection(self, physical: _Physical, below: _Step) -> _Step:
        """Convert a projection. One that only passes columns on is omitted."""
        columns = [
            self._projected(duck_text, n, below.columns)
            for n, duck_text in enumerate(physical.list("Projections"))
        ]
        if self._is_projected:
            return _Step(below.operator, columns)
        block = self._plan.block
        whole = [f"o{n}" for n in range(len(block.items))] if block is not None else []
        names = physical.list("Projections")[: len(whole)]
        if not whole or names != whole:
            return _Step(below.operator, columns)
        if not any(isinstance(column, CallText) for column in columns[: len(whole)]):
            return _Step(below.operator, columns)
        self._is_projected = True
        info = ", ".join(self._explaining.named(column) for column in columns[: len(whole)])
        operator = Operator(
            "Projection", below.operator.rows, DUCKDB, info=info, below=[below.operator]
        )
        operator.done.rows, operator.done.own_s = physical.rows, physical.seconds
        operator.done.loops = int(physical.rows is not None)
        return _Step(operator, columns)

    def _projected(self, duck_text: str, n: int, below: Sequence[ExpressionText]) -> ExpressionText:
        """The text of a projected column. A mere name refers to the input's column at that place if
        that was computed there."""
        expression = self._text(duck_text, below)
        if expression.text == "Column":
            if n < len(below) and _is_made(below[n]):
                return below[n]
            return ColumnText(self._explaining.column(self._first_table()))
        return expression

    def _filtered(self, below: Operator, conditions: Sequence[ExpressionText]) -> float:
        """Estimated rows after the conditions. An access path has counted its own conditions
        already."""
        rows, whole = below.rows or 0.0, below
        estimate = self._of_operator(whole)
        if estimate is None:
            return rows * 0.8
        remaining = estimate.rows * estimate.share_of(conditions)
        return min(rows, remaining) if rows < estimate.rows else remaining

    def _of_operator(self, operator: Operator) -> TableEstimate | None:
        for name, scan in self._scans.items():
            if self._scanned.get(name) is operator and isinstance(scan, TableScan):
                return self._estimates[scan.table.info.id]
        return None

    def _aggregated(
        self, physical: _Physical, below: _Step, text: Callable[[str], ExpressionText]
    ) -> _Step:
        groups = [text(group) for group in physical.list("Groups")]
        functions = [
            self._text(aggregate, below.columns, is_aggregate=True)
            for aggregate in physical.list("Aggregates")
            if aggregate
        ]
        rows = below.operator.rows or 0.0
        funcs, columns = [], list(groups)
        for function in functions:
            if isinstance(function, CallText) and function.name in ("any_value", "first"):
                argument = function.arguments[0]
                funcs.append(f"funcs:firstrow({argument.text})->{argument.text}")
                columns.append(argument)
            else:
                column = ColumnText(self._explaining.column(self._first_table()))
                funcs.append(f"funcs:{function.text}->{column.text}")
                columns.append(column)
                self._aggregate_columns[function.text] = column
        if not functions:
            funcs = [f"funcs:firstrow({group.text})->{group.text}" for group in groups]
        if not groups:
            whole = Operator("StreamAgg", 1.0, info=", ".join(funcs), below=[below.operator])
            return _Step(whole, columns)
        number = grouped(groups, rows, self._estimates)
        info = ", ".join([f"group by:{sorted_texts(groups)}", *funcs])
        return _Step(Operator("HashAgg", number, info=info, below=[below.operator]), columns)

    def _first_table(self) -> Table | None:
        return next((scan.table for scan in self._plan.scans if isinstance(scan, TableScan)), None)

    def _joined(self, physical: _Physical, below: list[_Step]) -> _Step:
        """Convert a join. DuckDB builds on its second input, and probes with its first."""
        probe, build = below[0], below[1]
        kind = physical.info.get("Join Type", "INNER")
        word = _JOINS.get(kind, f"{str(kind).lower()} join")
        equal: list[str] = []
        others: list[str] = []
        different: list[float] = []
        for condition in physical.list("Conditions"):
            comparison = compared_by_duckdb(
                condition,
                lambda name: self._resolve(name, probe.columns),
                lambda name: self._resolve(name, build.columns),
            )
            if not isinstance(comparison, CallText) or comparison.name not in ("eq", "nulleq"):
                others.append(self._substituted(comparison).text)
                continue
            probe_side, build_side = map(self._substituted, comparison.arguments)
            if probe_side.text == build_side.text:
                build_side = self._compared(build_side, build)
            equal.append(CallText(comparison.name, (probe_side, build_side)).text)
            different.append(
                max(self._different(probe_side, probe), self._different(build_side, build))
            )
        info = [word if physical.list("Conditions") else f"CARTESIAN {word}"]
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
        title = _TITLES.get(physical.name) or "HashJoin"
        made_of = Operator(title, rows, info=", ".join(info))
        lookup(made_of, [build.operator], probe.operator)
        columns = list(probe.columns)
        if kind not in ("SEMI", "ANTI"):
            columns = (
                [*columns, *build.columns] if kind != "MARK" else [*columns, ColumnText("mark")]
            )
        return _Step(made_of, columns)

    def _compared(self, expression: ExpressionText, build: _Step) -> ExpressionText:
        """The build side of a join's equality.

        For a subquery DuckDB prints the outer query's column. The subquery's own column is the one
        without NULLs, if there is only one."""
        own = self._not_null.get(id(build.operator), [])
        if len(own) != 1 or any(expression.text == column.text for column in build.columns):
            return expression
        return own[0]

    def _different(self, expression: ExpressionText, side: _Step) -> float:
        """The number of distinct values of one side of a join; 1 if it is compared with a
        constant."""
        if isinstance(expression, ConstantText) or expression.text in self._fixed.get(
            id(side.operator), ()
        ):
            return 1.0
        if isinstance(expression, ColumnText) and expression.table is not None:
            return self._estimates[expression.table.info.id].different(expression.position)
        return DISTINCT * (side.operator.rows or 0.0)


def _is_made(expression: ExpressionText) -> bool:
    return isinstance(expression, ColumnText) and expression.text.startswith("Column#")


def _estimate(scan: TableScan, context: Context) -> TableEstimate:
    parts = scan.table.parts if scan.choice is None else scan.choice.parts(context)
    return TableEstimate(scan.table, parts, context)


def _scan_operators(scan: Scan, context: Context) -> tuple[Operator, Path | None, Reads]:
    """The operators that read one table of a query, the path if it has one, and its reads."""
    if not isinstance(scan, TableScan):
        place = f"table:{scan.title.rpartition('.')[2]}"
        return Operator("MemTableScan", PSEUDO_ROWS, access=place), None, Reads()
    top = ""
    if scan.top is not None:
        top = f"first {scan.top.rows} by {stored_column(scan.table, scan.top.position).text}"
    keeps = ScanOrder(scan.title, top=top)
    path = scan.path
    if path is None:
        path = Path(scan.table, covers=False)
        path = path if scan.choice is None else Everywhere(path, scan.choice)
    operator, reads, _ = path_operators(path, keeps, _estimate(scan, context), context)
    return operator, scan.path, reads


def relational_operators(
    explaining: ExplainedStatement, plan: RelationalPlan, statement: object
) -> Operator:
    """The operators of DuckDB's plan, before it runs."""
    scanned = {scan.name: _scan_operators(scan, explaining.context)[0] for scan in plan.scans}
    (root,) = msgspec.json.decode(plan.physical())
    return _DuckPlan(plan, statement, explaining, scanned).step(_Physical.of(root)).operator


def profiled_operators(
    explaining: ExplainedStatement, plan: RelationalPlan, statement: object
) -> tuple[Operator, Result]:
    """The operators of DuckDB's plan with rows and times, and the result of the query."""
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
    (root,) = msgspec.json.decode(profile)["operator"]
    top = _DuckPlan(plan, statement, explaining, scanned).step(_Physical.of(root)).operator
    top.done.own_s += max(0.0, whole.own_s - top.seconds)
    return top, Result(plan.columns, rows)


def _batches_of(
    top: Operator, watch: Watch, read: MeasuredStep
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A wrapper that counts the batches which DuckDB pulls from a scan, in any thread.

    `read`: the step of the scan's path."""

    def watched(batches: Iterator[Any]) -> Iterator[Any]:
        step = MeasuredStep()
        top.done.count(0)
        for batch in watch.rows(step, batches):
            top.done.count(batch.num_rows)
            yield batch
        top.done.loops += step.loops
        top.done.own_s += step.own_s + read.own_s
        if top.name == "TableReader" and top.below[0].done.rows is None:
            top.below[0].done.rows = top.done.rows

    return watched
