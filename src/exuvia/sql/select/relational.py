"""Queries that one table's key does not answer: joins, groups, windows, sorts of many rows.

    few rows, or none of a table    row by row in Python (stream.py)
    everything else                 one DuckDB query over Arrow readers of the context's transaction

A plan belongs to its statement and runs once: literals, parameters and LIMIT are in it. What fails
inside a Python function or a reader comes out as it was raised; an overflow in DuckDB is 1690, a
scalar subquery of two rows 1242. DuckDB is imported when a plan first runs: point reads do not wait
for it.

`scalar_value` is an expression without a table: the value side of SET, KILL, DO and DEFAULT
(expression).

SELECT ... FOR UPDATE of several tables, or through the relational engine: two queries.

    SELECT a.x, SUM(b.y) FROM a JOIN b ON ... WHERE w GROUP BY 1 FOR UPDATE OF a
      -> SELECT a.<handle> FROM a JOIN b ON ... WHERE w       these rows are locked
      -> the query itself, in the same snapshot

With LIMIT only the rows that count are locked where the order is one of plain columns. Rows of
derived tables, views and common table expressions are not. SKIP LOCKED is refused (1235): which
rows a join would leave out is not known before it has run.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import tzinfo
from functools import cached_property
from typing import Any, NoReturn

from sqlglot import exp

from exuvia.base import interruption
from exuvia.base.errors import Refused
from exuvia.base.interruption import apart_until
from exuvia.base.memory import quota_of, size_of_rows
from exuvia.base.mysql_errors import (
    ErrDataOutOfRange,
    ErrNotSupportedYet,
    ErrQueryInterrupted,
    ErrStackOverrunNeedMore,
    ErrSubqueryNo1Row,
    ErrUnknown,
)
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone
from exuvia.sql import expressions, types, walks
from exuvia.sql.access.single_table import TableSource, is_dual, source_of
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.scope import Scope, is_shifted
from exuvia.sql.duck.render import size_of_text
from exuvia.sql.evaluate.compile import may_be_long
from exuvia.sql.expr import Column
from exuvia.sql.nodes import Tree
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.select import stream
from exuvia.sql.select.block import tell_scan
from exuvia.sql.select.duck_sql import DuckSql
from exuvia.sql.select.query import bind_query
from exuvia.sql.select.scan import HANDLE_NAME, Scan, name_columns
from exuvia.sql.select.stream import CompiledQueries, streamed
from exuvia.sql.select.trace import Trace
from exuvia.sql.select.tree import Block, Build, NamedTable, NotKept, QueryTree, With
from exuvia.sql.statement.context import INVOKER, Context
from exuvia.sql.statement.plan import KeptPlan, Plan

BATCH_ROWS, LONG_BATCH_ROWS = 2_000, 64  # the second where texts may be long
MANY_SCANS = 12
LONG_SQL = 1 << 14
LEFT_STEP = 64 << 20  # bytes of rows after which DuckDB may hold less
_TEXTS = (Family.STRING, Family.BYTES, Family.JSON)


def plan(
    node: exp.Expression, context: Context, handles: bool = False, stored: bool = False
) -> "RelationalPlan":
    """The plan of a query. Raises Refused. `handles`: stored tables have a column HANDLE_NAME.
    `stored`: TIMESTAMPs are answered as they are stored, not as the session's zone shows them."""
    build = Build(context, bind_query)
    build.handles = handles
    return RelationalPlan(bind_query(node, build, None, {}), build, stored)


def plan_of_shape(
    node: exp.Query, context: Context, binding: Binding, handles: bool = False
) -> "KeptQuery | None":
    """The plan of a query for all statements of its shape. None if the tree depends on literals or
    on rows that are computed, or if the query locks rows. `handles`: as `found_rows`. Raises
    Refused."""
    assert isinstance(node, exp.Expression)
    if walks.find(node, exp.Lock) is not None:
        return None
    if walks.find(node, exp.Table) is None and walks.find(node, exp.Placeholder) is not None:
        return None  # literals alone: a plan for each of them would fill the cache
    build = Build(context, bind_query, binding)
    build.handles = handles
    try:
        query = bind_query(node, build, None, {})
    except NotKept:
        return None
    kept_query = KeptQuery(node, query, build.tables, None if handles else binding.zone, handles)
    build.end()
    return kept_query


def found_rows(node: exp.Select, context: Context) -> tuple[Sequence[OutputColumn], list[Row]]:
    """Columns and rows of a query that may also ask for the handles of its tables; TIMESTAMPs as
    they are stored."""
    found = plan(node, context, handles=True, stored=True)
    return found.columns, collected(found, context)


def scope_of_from(node: exp.Select, context: Context) -> Scope:
    """The names that the FROM of a query has."""
    query = exp.Select(expressions=[exp.Literal.number(1)])
    for key in ("from_", "from", "joins", "with_", "with"):
        part = node.args.get(key)
        if part:
            query.set(key, [walks.copy(p) for p in part] if key == "joins" else walks.copy(part))
    tree = bind_query(query, Build(context, bind_query), None, {})
    block = tree.body if isinstance(tree, With) else tree
    assert isinstance(block, Block)
    return block.frame.scope()


def relational(node: exp.Expression, context: Context) -> Result:
    """Plan and run in one go."""
    return plan(node, context).run(context)


def collected(plan: Plan, context: Context) -> list[Row]:
    """All rows of a plan. Raises 8175 where they are more than the session may hold."""
    rows: list[Row] = []
    for batch in plan.batches(context):
        rows += _claimed(batch, plan.columns, context)
    return rows


def _claimed(
    rows: Sequence[Row], columns: Sequence[OutputColumn], context: Context
) -> Sequence[Row]:
    texts = [n for n, c in enumerate(columns) if types.family_of(c.type) in _TEXTS]
    context.tracker.keep(size_of_rows(rows, texts))
    return rows


class _Reading:
    """Whether a query has begun to read rows in its statement's snapshot, or never will."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_begun = self._is_over = False

    def begin(self) -> None:
        """Raises 1317 if the statement was interrupted and has abandoned the query."""
        with self._lock:
            if self._is_over:
                raise ErrQueryInterrupted()
            self._has_begun = True

    def never(self) -> bool:
        """From now on it may not begin; False where it has."""
        with self._lock:
            self._is_over = not self._has_begun
            return self._is_over


class RelationalPlan(Plan):
    """A query that DuckDB runs. It can run once."""

    def __init__(self, query: QueryTree, build: Build, stored: bool) -> None:
        zone = None if stored else build.context.zone
        self.query = query
        self.columns = [_shown(column, zone) for column in query.columns]
        self._shifted = [n for n, c in enumerate(query.columns) if is_shifted(c.type, zone)]
        self._build = build
        self._duck = DuckSql(build)
        self._is_profiled = False
        self.is_left = False  # to DuckDB: this run is not for the other engine
        self._profile = ""

    @property
    def scans(self) -> Sequence[Scan]:
        """What it reads of tables, in the order of their names."""
        return self._build.scans

    def run(self, context: Context) -> Result:
        """Collect every batch. Raises 8175."""
        return Result(self.columns, collected(self, context))

    @cached_property
    def sql(self) -> str:
        """Its SQL for DuckDB. Raises the errors of its constants."""
        for block in self._build.blocks:
            tell_scan(block, self._build.context)
        return self._duck.statement(self.query)

    @property
    def most_steps(self) -> int:
        """The rows that the row engine reads or combines before it leaves the query to DuckDB."""
        return stream.MOST_STEPS

    def trace(self) -> Trace:
        """How the row engine would read the query, and why DuckDB has to run it. Reads no rows."""
        trace, context = Trace(), self._build.context
        streamed(self.query, context, trace)
        for block in self._build.blocks:
            tell_scan(block, context)
        return trace

    def traced(self, trace: Trace) -> list[Row] | None:
        """The rows by the row engine, measured; None if DuckDB has to run the query."""
        rows = streamed(self.query, self._build.context, trace)
        if rows is not None:
            _shift(rows, self._shifted, self._build.context.zone)
        return rows

    def profiled(self, context: Context) -> tuple[list[Row], str]:
        """The rows by DuckDB, and its profile in JSON. Its columns have names to read."""
        self._is_profiled = True
        name_columns(self.scans)
        return collected(self, context), self._profile

    def batches(self, context: Context) -> Iterator[Sequence[Row]]:
        is_left = self.is_left or self._is_profiled
        rows = None if is_left else streamed(self.query, self._build.context)
        if rows is None:
            yield from self._by_duckdb()
            return
        _shift(rows, self._shifted, self._build.context.zone)
        yield rows

    def _by_duckdb(self) -> Iterator[Sequence[Row]]:
        from exuvia.sql.duck import engine as duck

        build = self._build
        quota = quota_of(build.context.variable)
        sql = self.sql if self._is_profiled else self._fitting()
        cursor = duck.cursor(quota)
        with ExitStack() as resources:
            resources.callback(duck.close, cursor)
            resources.callback(self._unregister, cursor)
            resources.enter_context(self._duck.functions.created_on(cursor))
            for scan in build.scans:
                cursor.register(scan.name, scan.reader(build.context))
            if self._is_profiled:
                cursor.execute("SET enable_profiling = 'no_output'")
            with interruption.current().telling(cursor.interrupt):
                yield from self._rows(cursor, resources, sql)
            if self._is_profiled:
                self._profile = cursor.get_profiling_information(format="json")

    def _fitting(self) -> str:
        """Its SQL, with the lengths of texts claimed before DuckDB copies them into the answer."""
        kinds = [column.type for column in self.query.columns]
        longs = [n for n, kind in enumerate(kinds) if may_be_long(Column(type=kind, position=n))]
        if not longs:
            return self.sql
        sizes = [size_of_text(f"o{n}", kinds[n]) for n in longs]
        items = [f"o{n}" for n in range(len(kinds))]
        fits = self._duck.functions.fits(sizes)
        items[longs[0]] = f"CASE WHEN {fits} THEN o{longs[0]} END AS o{longs[0]}"
        return f"SELECT {', '.join(items)} FROM ({self.sql}) q"

    def _unregister(self, cursor: Any) -> None:
        for scan in self._build.scans:
            with suppress(Exception):  # the cursor may have been interrupted
                cursor.unregister(scan.name)

    def _reader(self, cursor: Any, resources: ExitStack, sql: str) -> Any:
        """DuckDB's answer: a reader of its batches, once the first of them is there.

        DuckDB orders many joins, and unnests many subqueries, in time that grows by more than
        their number, and is not interrupted meanwhile. Then it does so in a thread that the
        statement may leave behind, up to the first row that it reads in the snapshot."""
        scans = self._build.scans
        # `sql` parses a text several times
        run = cursor.execute if len(sql) > LONG_SQL and not self._is_profiled else cursor.sql

        def begin() -> Any:
            return run(sql).to_arrow_reader(BATCH_ROWS if sql is self.sql else LONG_BATCH_ROWS)

        if len(scans) < MANY_SCANS:
            return begin()
        reading = _Reading()
        for scan in scans:
            scan.begin_reading = reading.begin
        return apart_until(begin, reading.never, resources)

    def _rows(self, cursor: Any, resources: ExitStack, sql: str) -> Iterator[list[Row]]:
        import duckdb

        from exuvia.sql.duck import engine as duck

        zone, tracker = self._build.context.zone, self._build.context.tracker
        given = tracker.left
        try:
            for batch in self._reader(cursor, resources, sql):
                columns = [column.to_pylist() for column in batch.columns]
                for n in self._shifted:
                    columns[n] = [_local(value, zone) for value in columns[n]]
                yield [list(row) for row in zip(*columns, strict=True)]
                if given - tracker.left > LEFT_STEP:
                    given = tracker.left
                    duck.lower(cursor, given)
        except (duckdb.Error, OSError, ValueError, RuntimeError) as error:
            self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        import duckdb

        interruption.check()  # whatever it made of it: that is why it ended

        build = self._build
        if self._duck.functions.failure is not None:
            raise self._duck.functions.failure from error
        for scan in build.scans:
            if scan.failure is not None:
                raise scan.failure from error
        text = str(error)
        if "More than one row returned" in text:
            raise ErrSubqueryNo1Row() from error
        if isinstance(error, duckdb.InterruptException):
            raise ErrQueryInterrupted() from error
        if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException):
            raise ErrDataOutOfRange(*_overflowed(text, self._duck.functions.operations)) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise build.context.tracker.exceeded() from error
        if "Max expression depth" in text or "Maximum tree depth" in text:
            raise ErrStackOverrunNeedMore() from error
        raise ErrUnknown(text.partition("\n")[0]) from error


class KeptQuery(KeptPlan):
    """A query whose tree serves all statements of its shape. It runs row by row. If that is not for
    it, the query is planned again for these literals and left to DuckDB.

    `zone`: of the TIMESTAMPs in its answer; None: as they are stored. `handles`: stored tables have
    a column HANDLE_NAME."""

    by_statistics = True

    def __init__(
        self,
        node: exp.Query,
        query: QueryTree,
        tables: Sequence[NamedTable],
        zone: tzinfo | None,
        handles: bool,
    ) -> None:
        self._node = node
        self._handles = handles
        self._compiled = CompiledQueries(query)
        self._tables = tables
        self.columns = [_shown(column, zone) for column in query.columns]
        self._shifted = [n for n, c in enumerate(query.columns) if is_shifted(c.type, zone)]

    def fresh(self, context: Context) -> bool:
        return all(
            _is_same_in_view(named, context)
            if named.views
            else context.means(named.database, named.name, named.table)
            for named in self._tables
        )

    def check(self, context: Context) -> None:
        for named in self._tables:
            if all(view.view_security == INVOKER for view in named.views):
                context.demand(named.table, *self.asks)

    @property
    def tables(self) -> Sequence[Table]:
        return [named.table for named in self._tables if named.table.info.view is None]

    def run(self, context: Context) -> Result:
        rows = self._compiled.run(context)
        if rows is None:
            assert isinstance(self._node, exp.Expression)
            own_plan = plan(self._node, context, self._handles, stored=self._handles)
            own_plan.is_left = True
            return own_plan.run(context)
        _shift(rows, self._shifted, context.zone)
        return Result(self.columns, _claimed(rows, self.columns, context))


def _is_same_in_view(named: NamedTable, context: Context) -> bool:
    """Whether a name in a view means the same table, which the definer may read. If not, the query
    is planned again, and that raises the view's error."""
    try:
        with context.within(named.views):
            if not context.means(named.database, named.name, named.table):
                return False
            if not context.definers:
                return True
            context.demand(named.table, "SELECT")
            return not context.rights.by_columns  # those are checked while a query is planned
    except Refused:
        return False


def _shift(rows: Sequence[Row], places: Sequence[int], zone: tzinfo | None) -> None:
    """Stored TIMESTAMPs as the session's zone shows them."""
    for n in places:
        for row in rows:
            row[n] = _local(row[n], zone)


def _shown(column: OutputColumn, zone: tzinfo | None) -> OutputColumn:
    """The column as the client meets it."""
    if not is_shifted(column.type, zone):
        return column
    kind = types.datetime(types.fraction_digits(column.type))
    return column._replace(type=kind, shown=column.type)


def _local(value: Value, zone: tzinfo | None) -> Value:
    return None if value is None else shift_zone(value, None, zone)


def _overflowed(text: str, operations: Sequence[tuple[str, bool, str]]) -> tuple[str, str]:
    """What 1690 says: the type that was left, and the operation where it is known."""
    found = re.search(r"\((-?[\d.]+ (\S+) -?[\d.]+)\)", text)
    shown = f"({found[1]})" if found else "an expression of the query"
    unsigned = "UINT" in text
    signs = {found[2]} if found else {"+", "-", "*"}
    for sign, is_unsigned, said in operations:
        if sign in signs and is_unsigned == unsigned:
            shown = said
            break
    if "DECIMAL" in text.upper():
        return "DECIMAL", shown
    return ("BIGINT UNSIGNED" if unsigned else "BIGINT"), shown


# -- one value -------------------------------------------------------------------------------------


def scalar_value(
    tree: Tree, context: Context, place: str = "field list"
) -> tuple[Value, FieldType]:
    """Value and type. Raises Refused (1054 with `place` where a column is named)."""
    if walks.find(tree, exp.Query):
        answer = relational(exp.Select(expressions=[walks.copy(tree)]), context)
        return answer.rows[0][0], answer.columns[0].type
    found = expressions.compiled(tree, (), context.binding, place)
    return found.call([], context), found.type


# -- FOR UPDATE ------------------------------------------------------------------------------------

_DROPPED = ("locks", "distinct", "group", "having", "windows", "qualify")
_ENDS = ("order", "limit", "offset")


class LockedQuery(Plan):
    """Locks the rows that the query reads, then runs it in the same snapshot."""

    def __init__(self, node: exp.Select, context: Context) -> None:
        self.clauses: list[exp.Lock] = node.args["locks"]
        named = {each.name.lower() for clause in self.clauses for each in clause.expressions}
        sources = [
            source
            for source in _sources(node, context)
            if not named or source.alias.lower() in named
        ]
        self._tables = [source.table for source in sources]
        if any(clause.args.get("update") for clause in self.clauses):
            for table in self._tables:
                context.demand_locking(table)
        self._handles = _handles(node, sources)
        query = walks.copy(node)
        query.set("locks", None)
        self.query: Plan = plan(query, context)
        self.columns = self.query.columns

    def run(self, context: Context) -> Result:
        for clause in self.clauses:
            wait = clause.args.get("wait")
            if wait is False:
                raise ErrNotSupportedYet("SKIP LOCKED in a query of several tables")
            if wait is not None and context.locks is not None:
                context.locks.wait_s = 0.0 if wait is True else float(wait.name)
        exclusive = any(clause.args.get("update") for clause in self.clauses)
        for table in self._tables:
            context.demand_writable(table, writes=False)
            context.writing(table, not exclusive)
        if self._tables:
            lock, width = context.txn.lock, len(self._tables)
            keys = [table.row_key for table in self._tables]
            for row in found_rows(self._handles, context)[1]:
                for key, handle in zip(keys, row[:width], strict=True):
                    if handle is not None:
                        lock(key(handle), exclusive)
        return self.query.run(context)


def _sources(node: exp.Select, context: Context) -> Iterator[TableSource]:
    """The stored tables of the FROM."""
    origin = node.args.get("from_") or node.args.get("from")
    clause = node.args.get("with_") or node.args.get("with")
    computed = {each.alias.lower() for each in clause.expressions} if clause is not None else set()
    trees = [origin.this] if origin is not None else []
    trees += [join.this for join in node.args.get("joins") or ()]
    for tree in trees:
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            continue
        if is_dual(tree) or (not tree.db and tree.name.lower() in computed):
            continue
        if context.virtual(tree.db, tree.name) is None and not _is_view(tree, context):
            yield source_of(tree, context.binding)


def _is_view(tree: exp.Table, context: Context) -> bool:
    return getattr(context.table(tree.db, tree.name).info, "view", None) is not None


def _handles(node: exp.Select, sources: list[TableSource]) -> exp.Select:
    """The query that finds the handles of the rows to lock."""
    found: exp.Select = walks.copy(node)
    for name in _DROPPED if _keeps_rows(node, sources) else (*_DROPPED, *_ENDS):
        found.set(name, None)
    handle = exp.to_identifier(HANDLE_NAME, quoted=True)
    items = [
        exp.Alias(
            this=exp.Column(
                this=walks.copy(handle), table=exp.to_identifier(source.alias, quoted=True)
            ),
            alias=exp.to_identifier(f"{HANDLE_NAME}{number}", quoted=True),
        )
        for number, source in enumerate(sources)
    ]
    found.set("expressions", items)
    return found


def _keeps_rows(node: exp.Select, sources: list[TableSource]) -> bool:
    """Whether each row of the answer is one of the join's, in an order that handles can have."""
    if any(node.args.get(name) for name in ("distinct", "group", "having")):
        return False
    if any(walks.find(item, exp.AggFunc, exp.Window) for item in node.expressions):
        return False
    order = node.args.get("order")
    names = {item.alias.lower() for item in node.expressions if isinstance(item, exp.Alias)}
    for each in order.expressions if order is not None else ():
        column = each.this if isinstance(each, exp.Ordered) else each
        if not isinstance(column, exp.Column) or column.name.lower() in names:
            return False
        if all(source.resolve(column) is None for source in sources):
            return False
    return True
