"""EXPLAIN [ANALYZE] of statements that read or write rows, in TiDB's columns and terms.

    SELECT, UPDATE, DELETE of one table     Projection, Aggs, Limit, TopN, Sort, Selection over
                                            the operators that read its rows (access_operators.py)
    other queries                           their tree (query_operators.py); what DuckDB ran is
                                            shown by DuckDB's profile (duck_profile.py)
    INSERT, UPDATE, DELETE                  above the query that finds their rows
    computed tables, no table               MemTableScan, TableDual

An operator is shown if this engine executes it. So a plan differs from TiDB's where execution does:

    conditions    all are checked by this engine; those of a range again if it is not exact
    LIMIT         an ORDER BY with a LIMIT sorts all rows
    select list   is computed last

ANALYZE runs the statement, including its writes, with counters in its plan.

A sorted or unlimited query that finds more than read.MOST_ROWS rows by a key is left to DuckDB when
it runs. EXPLAIN cannot know that beforehand; ANALYZE shows it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrUnknownExplainFormat
from exuvia.catalog.table import Table
from exuvia.sql import expressions, planner
from exuvia.sql.access.filtering import Filter, FilterSteps, Limit, WatchedFilter
from exuvia.sql.access.paths import Everywhere, Matched, Path
from exuvia.sql.access.ranger import LIKE, conjuncts_of
from exuvia.sql.bind.bind import Scope, bind_condition
from exuvia.sql.expr import Column
from exuvia.sql.nodes import Delete, Explain, Insert, Update
from exuvia.sql.result import Result, Row
from exuvia.sql.select import relational
from exuvia.sql.select.into import IntoFilePlan, IntoVariables
from exuvia.sql.select.read import OutputItem, ReadRows
from exuvia.sql.select.relational import LockedQuery, RelationalPlan
from exuvia.sql.show.access_operators import filter_operators, is_unordered, parts_of, taken_path
from exuvia.sql.show.duck_profile import measured_operators, planned_operators
from exuvia.sql.show.explain_table import mysql_table
from exuvia.sql.show.expression_text import (
    ColumnText,
    ExpressionText,
    conjuncts,
    of_bound,
    sorted_texts,
    stored_column,
)
from exuvia.sql.show.operators import (
    FORMATS,
    ROOT,
    STORE,
    ExplainedStatement,
    Operator,
    distinct_info,
    explain_result,
)
from exuvia.sql.show.row_estimates import TableEstimate, grouped
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.measure import MeasuredStep, Watch
from exuvia.sql.statement.plan import Plan
from exuvia.sql.write.insert import InsertQuery
from exuvia.sql.write.update_delete import DeleteFound, DeleteRows, UpdateFound, UpdateRows


def explain(context: Context, node: Explain) -> Result:
    """The result of EXPLAIN [ANALYZE]. Raises 1235 for a statement without a plan, 1791, 1345."""
    statement, form = node.statement, node.format.lower()
    if not isinstance(statement, exp.Query | Insert | Update | Delete):
        raise ErrNotSupportedYet(f"EXPLAIN {type(statement).__name__}")
    as_mysql = context.variable("exuvia_compatibility") == "mysql" and not node.analyze
    if form not in ("", *FORMATS):
        raise ErrUnknownExplainFormat(node.format)
    context.explains = True
    plan = planner.plan(planner.with_select_limit(statement, context.binding), context)
    if not node.analyze:
        explaining = Explaining(context)
        trees = [explaining.planned(plan), *explaining.commons]
        if as_mysql and form in ("", "traditional"):
            return mysql_table(trees)
        return explain_result(trees, form, is_measured=False)
    explaining = Explaining(context, Watch(context.session.services.clock.monotonic))
    top, answer = explaining.ran(plan)
    result = explain_result([top, *explaining.commons], form, is_measured=True)
    result.last_insert_id = answer.last_insert_id
    return result


# -- plans -----------------------------------------------------------------------------------------


class _Ran(Plan):
    """An inner plan, which the outer plan runs; it is measured."""

    def __init__(self, plan: Plan, explaining: "Explaining") -> None:
        self.columns = plan.columns
        self._plan = plan
        self._explaining = explaining
        self.top: Operator | None = None

    def run(self, context: Context) -> Result:
        self.top, result = self._explaining.ran(self._plan)
        return result


class Explaining(ExplainedStatement):
    """Converts the plan of one statement to operators."""

    def planned(self, plan: Plan) -> Operator:
        """The operators of a plan that is not run."""
        return _KINDS.get(type(plan), _WRITE).planned(self, plan)

    def ran(self, plan: Plan) -> tuple[Operator, Result]:
        """Run the plan. Returns its operators with counts, and its result."""
        return _KINDS.get(type(plan), _WRITE).ran(self, plan)

    def _run(self, plan: Plan, top: Operator) -> Result:
        """The result of a plan; its own time is that of the operator."""
        assert self.watch is not None
        with self.watch.within(top.done):
            return plan.run(self.context)

    # -- kinds of plans ----------------------------------------------------------------------------

    def _rows(self, plan: ReadRows) -> Operator:
        if plan.leaves(self.context):
            return self.planned(relational.plan(plan.node, self.context))
        return self._read(plan)[0]

    def _rows_ran(self, plan: ReadRows) -> tuple[Operator, Result]:
        context, watch = self.context, self.watch
        assert watch is not None
        if plan.leaves(context):
            return self.ran(relational.plan(plan.node, context))
        top, finish = self._read(plan)
        with watch.within(top.done):
            answer = plan.here(context)
        if answer is None:  # too many rows for this engine
            self.forget()
            return self.ran(relational.plan(plan.node, context))
        finish(answer)
        return top, answer

    def _write(self, plan: Plan, below: Sequence[Operator] = ()) -> Operator:
        """The operator of a statement that writes."""
        return Operator(_WRITES.get(type(plan), "Insert"), None, info="N/A", below=below)

    def _write_ran(self, plan: Plan) -> tuple[Operator, Result]:
        top = self._write(plan)
        top.done.rows = 0
        return top, self._run(plan, top)

    def _filtered_write(self, plan: UpdateRows | DeleteRows) -> Operator:
        return self._write(plan, [self._filtered(plan.filter)[0]])

    def _filtered_write_ran(self, plan: UpdateRows | DeleteRows) -> tuple[Operator, Result]:
        top = self._write(plan, [self._filtered(plan.filter, plan)[0]])
        top.done.rows = 0
        return top, self._run(plan, top)

    def _found_write(self, plan: UpdateFound | DeleteFound) -> Operator:
        query = relational.plan(plan.query, self.context, handles=True)
        return self._write(plan, [self.planned(query)])

    def _found_write_ran(self, plan: UpdateFound | DeleteFound) -> tuple[Operator, Result]:
        query = relational.plan(plan.query, self.context, handles=True)
        inner = _Ran(query, self)
        plan.find_rows = lambda context: (query.columns, inner.run(context).rows)  # type: ignore[method-assign]
        return self._outer_ran(plan, inner)

    def _outer_write(self, plan: InsertQuery) -> Operator:
        return self._write(plan, [self.planned(plan.query)])

    def _outer_write_ran(self, plan: InsertQuery) -> tuple[Operator, Result]:
        plan.query = inner = _Ran(plan.query, self)
        return self._outer_ran(plan, inner)

    def _outer_ran(self, plan: Plan, inner: _Ran) -> tuple[Operator, Result]:
        """A statement over an inner plan, which it may not run."""
        top = self._write(plan)
        answer = self._run(plan, top)
        top.done.rows = 0
        top.below = [] if inner.top is None else [inner.top]
        return top, answer

    def _into(self, plan: IntoVariables | IntoFilePlan) -> Operator:
        return self.planned(plan.query)

    def _into_ran(self, plan: IntoVariables | IntoFilePlan) -> tuple[Operator, Result]:
        plan.query = inner = _Ran(plan.query, self)
        top, answer = self._outer_ran(plan, inner)
        return top.below[0], answer

    def _locked(self, plan: LockedQuery) -> Operator:
        return _locked(self.planned(plan.query), plan.clauses)

    def _locked_ran(self, plan: LockedQuery) -> tuple[Operator, Result]:
        plan.query = inner = _Ran(plan.query, self)
        top, answer = self._outer_ran(plan, inner)
        locked = _locked(top.below[0], plan.clauses)
        locked.done, locked.done.rows = top.done, len(answer.rows)
        return locked, answer

    # -- one table, row by row ---------------------------------------------------------------------

    def _read(self, plan: ReadRows) -> tuple[Operator, Callable[[Result], None]]:
        """The operators, and a function that adds the counts of the plan's result."""
        context, table = self.context, plan.table
        items, filtering = plan.items, plan.filter
        if plan.counts(context):
            return self._counted(plan)
        top, steps = self._filtered(filtering, plan)
        rows_below = top.rows
        lock = None
        if plan.locks and not _is_point(top):
            lock = top = _locked(top, plan.lock_clauses)
        elif plan.locks:
            top.info = ", ".join(filter(None, (top.info, "lock")))
        name, below, before_limit = _naming(table), top, MeasuredStep()
        if plan.is_aggregated:
            funcs = [
                f"funcs:{of_bound(item.aggregate, name, context).text}->{self.column(table)}"
                for item in items
                if item.aggregate is not None
            ]
            top = Operator("StreamAgg", 1.0, info=", ".join(funcs), below=[below])
        else:
            texts = [_item_text(item, table, context) for item in items]
            if _computes(items, filtering):
                names = [self.named(text, table) for text in texts]
                top = Operator("Projection", rows_below, info=", ".join(names), below=[below])
            if plan.is_distinct:
                source = TableEstimate(table, parts_of(filtering.path, context), context)
                rows = grouped(texts, rows_below or 0.0, {table.info.id: source})
                top = Operator("HashAgg", rows, info=distinct_info(texts), below=[top])
        one = top
        top = self._cut(top, plan.late_limit)
        if self.watch is not None:
            _watch_cut(plan, before_limit)

        def finish(answer: Result) -> None:
            for operator in (
                lock,
                None if plan.is_aggregated or one is below else _last(one, below),
            ):
                if operator is not None:
                    operator.done.rows = steps.returned.rows
            if plan.is_aggregated or plan.is_distinct:
                one.done.rows = before_limit.rows
            top.done.rows = len(answer.rows)

        return top, finish

    def _cut(self, top: Operator, limit: Limit | None) -> Operator:
        if limit is None:
            return top
        info, most = _limit_text(limit, self.context)
        return Operator("Limit", min(top.rows or 0.0, most), info=info, below=[top])

    def _counted(self, plan: ReadRows) -> tuple[Operator, Callable[[Result], None]]:
        """The store counts the rows without reading them."""
        context, table = self.context, plan.table
        path = plan.filter.path
        estimate = TableEstimate(table, parts_of(path, context), context)
        scan = filter_operators(plan.filter, path, estimate, context)[0]
        below, partial = scan.below[0], self.column(table)
        count = Operator("StreamAgg", 1.0, STORE, info=f"funcs:count(1)->{partial}", below=[below])
        reader = Operator("TableReader", 1.0, ROOT, scan.access, below=[count], data="data")
        funcs = ", ".join(f"funcs:count({partial})->{self.column(table)}" for _ in plan.items)
        whole = Operator("StreamAgg", 1.0, info=funcs, below=[reader])
        top = self._cut(whole, plan.late_limit)

        def finish(answer: Result) -> None:
            whole.done.rows = reader.done.rows = count.done.rows = 1
            top.done.rows = len(answer.rows)
            if answer.rows and isinstance(answer.rows[0][0], int):
                below.done.rows = answer.rows[0][0]

        return top, finish

    def _filtered(
        self, filtering: Filter, plan: "ReadRows | UpdateRows | DeleteRows | None" = None
    ) -> tuple[Operator, FilterSteps]:
        """The operators of path, WHERE, ORDER BY and LIMIT. If `plan` is set, its filter is
        measured."""
        context, table = self.context, filtering.source.table
        estimate = TableEstimate(table, parts_of(filtering.path, context), context)
        top, reads, exact = filter_operators(filtering, filtering.path, estimate, context)
        steps = FilterSteps(top.done, reads, MeasuredStep(), MeasuredStep(), MeasuredStep())
        where = _conditions(filtering, context)
        if where and not exact:
            rest = _rest(where, taken_path(filtering.path, context)[0])
            rows = (top.rows or 0.0) * estimate.share_of(rest)
            conditions_text = sorted_texts(
                conjuncts(*(text for _, texts in where for text in texts))
            )
            top = Operator("Selection", rows, info=conditions_text, below=[top])
            top.done = steps.filtered
        order = _order_text(filtering, table, context)
        if order and not (filtering.follows and not is_unordered(filtering.path, context)):
            top = Operator("Sort", top.rows, info=order, below=[top])
            top.done = steps.sorted
        if filtering.limit is not None:
            info, most = _limit_text(filtering.limit, context)
            rows = min(top.rows or 0.0, most)
            if top.name == "Sort":  # Sort and Limit together
                top.name, top.info, top.rows = "TopN", f"{top.info}, {info}", rows
                steps = steps._replace(returned=steps.sorted)
            else:
                top = Operator("Limit", rows, info=info, below=[top])
                top.done = steps.returned
        if plan is not None and self.watch is not None:
            plan.filter = WatchedFilter(filtering, self.watch, steps)
        return top, steps


class _Kind(NamedTuple):
    """A kind of plan: its operators before it runs, and those of a run with its result."""

    planned: Callable[[Explaining, Any], Operator]
    ran: Callable[[Explaining, Any], tuple[Operator, Result]]


_WRITES = {
    UpdateRows: "Update",
    UpdateFound: "Update",
    DeleteRows: "Delete",
    DeleteFound: "Delete",
}
_WRITE = _Kind(Explaining._write, Explaining._write_ran)
_FILTERED = _Kind(Explaining._filtered_write, Explaining._filtered_write_ran)
_FOUND = _Kind(Explaining._found_write, Explaining._found_write_ran)
_INTO = _Kind(Explaining._into, Explaining._into_ran)
_KINDS: dict[type[Plan], _Kind] = {
    ReadRows: _Kind(Explaining._rows, Explaining._rows_ran),
    RelationalPlan: _Kind(planned_operators, measured_operators),
    UpdateRows: _FILTERED,
    DeleteRows: _FILTERED,
    UpdateFound: _FOUND,
    DeleteFound: _FOUND,
    InsertQuery: _Kind(Explaining._outer_write, Explaining._outer_write_ran),
    IntoVariables: _INTO,
    IntoFilePlan: _INTO,
    LockedQuery: _Kind(Explaining._locked, Explaining._locked_ran),
}


def _scope(visible: Sequence[Any], context: Context) -> Scope:
    return expressions.scope_of(visible, context.binding, "where clause")


# -- parts of a plan of one table ------------------------------------------------------------------


def _locked(below: Operator, clauses: Sequence[exp.Lock]) -> Operator:
    clause, seconds = clauses[0], "0"
    text = "for update" if clause.args.get("update") else "for share"
    wait = clause.args.get("wait")
    if wait is False:
        text += " skip locked"
    elif wait is True:
        text += " nowait"
    elif wait is not None:
        text, seconds = f"{text} wait", wait.name
    return Operator("SelectLock", below.rows, info=f"{text} {seconds}", below=[below])


def _is_point(operator: Operator) -> bool:
    return operator.name in ("Point_Get", "Batch_Point_Get")


def _naming(table: Table) -> Callable[[Column], ColumnText]:
    return lambda column: stored_column(table, column.position)


def _item_text(item: OutputItem, table: Table, context: Context) -> ExpressionText:
    if item.position is not None:
        return stored_column(table, item.position)
    return _bound_item(item, _naming(table), context)


def _bound_item(
    item: OutputItem, name: Callable[[Column], ColumnText], context: Context
) -> ExpressionText:
    if item.aggregate is not None:
        return of_bound(item.aggregate, name, context)
    if item.compiled is not None:
        return of_bound(item.compiled.bound, name, context)
    assert item.position is not None
    column = item.column
    return ColumnText(".".join(filter(None, (column.database, column.table, column.name))).lower())


def _computes(items: Sequence[OutputItem], filtering: Filter) -> bool:
    """Whether the columns of the result differ from the columns that are read."""
    selected = [item.position for item in items]
    info = filtering.source.table.info
    read = (
        filtering.path.path.used if isinstance(filtering.path, Everywhere) else filtering.path.used
    )
    if read is None:
        public = filtering.source.table.columns
        read = tuple(n for n, column in enumerate(info.cols) if column in public)
    return None in selected or selected != list(read)


def _limit_text(limit: Limit, context: Context) -> tuple[str, float]:
    first, last = limit.bounds(context)
    return f"offset:{first}, count:{last - first}", float(last - first)


def _order_text(filtering: Filter, table: Table, context: Context) -> str:
    keys_of = (
        of_bound(key.compiled.bound, _naming(table), context).text + ":desc" * key.descending
        for key in filtering.order
    )
    return ", ".join(keys_of)


Conditions = list[tuple[int, list[ExpressionText]]]


def _conditions(filtering: Filter, context: Context) -> Conditions:
    """The parts of the WHERE, with the numbers by which terms refer to them."""
    if filtering.where is None:
        return []
    scope, name = _scope([filtering.source.visible], context), _naming(filtering.source.table)
    return [
        (n, conjuncts(of_bound(bind_condition(part, scope), name, context)))
        for n, part in enumerate(conjuncts_of(filtering.where))
    ]


def _rest(where: Conditions, path: Path) -> list[ExpressionText]:
    """The parts of the WHERE that the path's ranges do not cover."""
    terms = (*path.match.equal, *path.match.range) if isinstance(path, Matched) else ()
    covered = {term.conjunct for term in terms if term.operator != LIKE}
    return conjuncts(*(text for n, texts in where if n not in covered for text in texts))


def _last(top: Operator, below: Operator) -> Operator | None:
    """The operator directly above `below`, or None."""
    while top is not below and top.below[0] is not below:
        top = top.below[0]
    return None if top is below else top


def _watch_cut(plan: ReadRows, step: MeasuredStep) -> None:
    """Make the plan count the rows before its last LIMIT. The plan belongs to this EXPLAIN
    alone."""
    cut = plan.cut

    def counted(rows: list[Row], context: Context) -> list[Row]:
        step.count(len(rows))
        return cut(rows, context)

    vars(plan)["cut"] = counted
