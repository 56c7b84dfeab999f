"""A query's tree row by row, in Python: for queries that read few rows.

DuckDB takes ten milliseconds to set up a query, whatever its size. So a query runs here first, up
to MOST_STEPS rows read or combined, and is left to DuckDB if that is not enough. It is left to
DuckDB at once if a table that it has to read whole is larger. Only DuckDB computes windows, ROLLUP,
recursive common table expressions and some aggregates.

A query without FROM, or of one computed table (information_schema), without subqueries, is never
left for its size: nothing is saved by that. So it may have effects, as in `SELECT SLEEP(1)`.

Both engines run the same tree with the same typed expressions, so they give the same rows.
tests/sql/test_two_engines.py compares them.

A row of a block:

    [ row of the block around it | columns of its FROM | grouping expressions | aggregates ]

An Outer column is thus a position in the same row. Items of FROM are read in nested loops. Each
fills its own part of the row, so they may be read in any order: first the item with the best key.

    a.x = b.id, a is read          b by a key, for each row of a
    a.x = b.y, no key              b once, into a dictionary by y
    anything else                  b once, into a list
    LEFT JOIN, RIGHT JOIN          the preserved side first, then the other in the same ways

Conditions are evaluated as soon as the columns that they name are read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import islice, takewhile
from sys import maxsize
from typing import Any, NamedTuple

from msgspec.structs import replace as evolve

from exuvia.base.errors import Refused
from exuvia.base.interruption import Interruption, checked, current
from exuvia.base.memory import VALUE_BYTES, size_of_rows
from exuvia.base.mysql_errors import ErrMemoryExceedForQuery, ErrSubqueryNo1Row
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.sql import types
from exuvia.sql.access.choose import Shares, WantedOrder, choose
from exuvia.sql.access.filtering import long_columns
from exuvia.sql.access.paths import Path, has_equality, over_partitions
from exuvia.sql.access.ranger import Term, Terms
from exuvia.sql.bind.operators import boolean, comparable, compare
from exuvia.sql.bind.scope import local
from exuvia.sql.env import Compiled, Env, Execution
from exuvia.sql.evaluate.compile import compile_expression, may_be_long, predicate
from exuvia.sql.expr import (
    MEMBER,
    SEMI,
    Aggregate,
    Assign,
    Call,
    Column,
    ComputedValue,
    Constant,
    Expr,
    Outer,
    Parameter,
    Subquery,
    Windowed,
    columns_of,
    divides,
    replaced,
    walk,
)
from exuvia.sql.expressions import ConstantOf, equal_key
from exuvia.sql.expressions import comparable as keys_to_sort_by
from exuvia.sql.functions import FUNCTIONS
from exuvia.sql.parse.literals import TypedValue
from exuvia.sql.result import Row
from exuvia.sql.select.folding import Fold, distinct, fold_of, in_digits, row_keys
from exuvia.sql.select.scan import RowsScan, TableScan
from exuvia.sql.select.trace import (
    LoopCondition,
    LoopKey,
    ReadLoop,
    Test,
    Trace,
    conjuncts_of,
    subqueries_in,
)
from exuvia.sql.select.tree import (
    ROW_ID_AT,
    Block,
    CommonRef,
    CommonTable,
    Cross,
    DerivedRef,
    Frame,
    FromItem,
    FromLeaf,
    Join,
    OneColumn,
    OrderedQuery,
    PlaceKey,
    QueryTree,
    RowLimit,
    RowValues,
    SetOperation,
    TableRef,
    With,
)
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.measure import MeasuredStep

MOST_STEPS = 3000
"""Rows that are read or combined before DuckDB takes over: what both do in ten milliseconds."""
MOST_BYTES = 8 << 20
"""Bytes of rows with long values before DuckDB takes over, which can write them to disk."""
INTERRUPT_ROWS = 1024
MOST_IDLE = 8
"""Compiled queries of one tree that are kept: for sessions that run it at the same time."""
_REPEATABLE = frozenset(
    ("random_bytes", "sysdate", "tidb_is_ddl_owner", "uuid", "validate_password_strength")
)
_WITHOUT_ARGUMENTS = frozenset(("rand", "last_insert_id"))
_VOLATILE = -1  # among offsets of outer frames: the query has another value each time, by RAND()
Rows = Callable[[Row], Iterable[Row]]
"""From the row of the block around a query to the rows of the query."""
Extend = Callable[[Row], Iterator[Row]]
"""From a row of a block to rows with more of its columns."""


class _LeftToDuckDB(Exception):
    """The query is not for this engine. Its text, which EXPLAIN shows, names the reason."""


def streamed(query: QueryTree, context: Context, trace: Trace | None = None) -> list[Row] | None:
    """The rows of a query; None, without any effect, if DuckDB has to run it.

    `trace` is filled. If it has no watch, the query is only compiled: the rows are []."""
    compiled = CompiledQuery(query, trace)
    try:
        return compiled.run(context)
    finally:
        compiled.clear()


class CompiledQueries:
    """The compiled queries of one tree: one for each thread that runs it at the same time."""

    def __init__(self, query: QueryTree) -> None:
        self._query = query
        self._idle: list[CompiledQuery] = []
        self._is_for_duckdb = False

    def run(self, context: Context) -> list[Row] | None:
        """As `streamed`."""
        if self._is_for_duckdb:
            return None
        try:
            compiled = self._idle.pop()
        except IndexError:
            compiled = CompiledQuery(self._query)
        try:
            return compiled.run(context)
        finally:
            self._is_for_duckdb = compiled.is_for_duckdb
            if compiled.is_reusable and len(self._idle) < MOST_IDLE:
                self._idle.append(compiled)
            else:
                compiled.clear()


class _Common(NamedTuple):
    """The rows of a common table expression, from the first `start` values of a row. `outer`: the
    offsets of the frames that it depends on."""

    rows: Rows
    start: int
    outer: frozenset[int]


class _Condition(NamedTuple):
    """A part of WHERE or ON. `needs`: the places of the columns that it names; `is_whole`: it is
    evaluated when all are read, whatever it names. `bound`: as it was bound."""

    expr: Expr
    bound: Expr
    needs: frozenset[int]
    is_whole: bool
    holds: Callable[[Row, Env], bool]


class _Item(NamedTuple):
    """An item of FROM: `places` are those of its columns in the row."""

    item: FromItem
    places: range


class CompiledQuery:
    """A compiled query. One run at a time.

    `is_for_duckdb`: no run can be one of this engine. `is_reusable`: it is compiled, and no value
    of the first run is part of it."""

    _context: Context
    _interruption: Interruption

    def __init__(self, query: QueryTree, trace: Trace | None = None) -> None:
        self._query = query
        self._trace = trace
        self._is_run = trace is None or trace.watch is not None  # else it is only compiled
        self._rows: Rows | None = None
        self.is_reusable = self.is_for_duckdb = False
        self._has_values = False
        self._completes = False  # no run is given up for its size
        self._assigns = False  # it gives user variables values
        self._caches: list[list[Any]] = []  # rows that are read once in a run
        self._left = 0
        self._bytes = 0
        self._offsets: dict[Frame, int] = {}
        self._bases: dict[CommonTable, _Common] = {}
        self._compiled: dict[tuple[QueryTree, int], tuple[Rows, frozenset[int]]] = {}
        self._served: _Condition | None = None  # by the dictionary that was made last
        self._outer = [set[int]()]  # offsets of outer frames, used by the queries being compiled
        self._used: dict[FromLeaf, set[int]] = {}

    def run(self, context: Context) -> list[Row] | None:
        """The rows; None, without any effect, if DuckDB has to run the query."""
        warnings, tracker = len(context.warnings), context.tracker
        variables = dict(context.session.user_variables)
        claimed, passing = tracker.kept, tracker.passing
        self._context, self._interruption = context, current()
        self._left, self._bytes, reason = MOST_STEPS, 0, "memory"
        try:
            if self._rows is None:
                self._compile()
                assert self._rows is not None
            return list(self._rows([])) if self._is_run else []
        except _LeftToDuckDB as left:
            reason = str(left)
        except Refused as error:
            if error.code != ErrMemoryExceedForQuery.code or self._completes:
                raise  # else DuckDB may need less memory
            tracker.passing = passing
        finally:
            tracker.kept = claimed
            for cache in self._caches:
                cache.clear()
            if self._trace is not None:
                self._trace.steps = MOST_STEPS - self._left
            del self._context, self._interruption
        del context.warnings[warnings:]
        if self._assigns:
            context.session.restore_variables(variables)
        if self._trace is not None:
            self._trace.loops.clear()
            self._trace.leave(reason)
        return None

    def _compile(self) -> None:
        try:
            self._rows = self.query(self._query, 0)
        except _LeftToDuckDB:
            self.is_for_duckdb = not self._has_values
            raise
        self.is_reusable = not self._has_values

    def _cache(self) -> list[Any]:
        """A list that is empty when a run begins."""
        cache: list[Any] = []
        self._caches.append(cache)
        return cache

    def clear(self) -> None:
        """Drop the compiled queries. They refer to each other, and would wait for the collector."""
        self._rows = None
        for memory in (self._offsets, self._bases, self._compiled, self._used):
            memory.clear()

    def _step(self, count: int = 1) -> None:
        self._left -= count
        if self._left < 0 and not self._completes:
            raise _LeftToDuckDB(f"more than {MOST_STEPS} rows were read or combined")
        if self._interruption.reason is not None:
            raise self._interruption.reason

    def _leave(self, reason: str) -> None:
        """DuckDB has to run the query. EXPLAIN goes on, to show it whole."""
        if self._is_run or self._trace is None:
            raise _LeftToDuckDB(reason)
        self._trace.leave(reason)

    # -- queries -----------------------------------------------------------------------------------

    def query(self, query: QueryTree, base: int) -> Rows:
        """The rows of a query. `base`: the length of the row around it."""
        rows, trace = self._plain_query(query, base), self._trace
        return rows if trace is None else trace.rows(trace.step(query), rows)

    def _plain_query(self, query: QueryTree, base: int) -> Rows:
        if isinstance(query, Block):
            return self._block(query, base)
        if isinstance(query, SetOperation):
            return self._set_operation(query, base)
        if isinstance(query, With):
            if query.recursive and any(table.recursion for table in query.tables):
                raise _LeftToDuckDB("a recursive common table expression")
            for table in query.tables:
                assert table.query is not None
                rows, outer = self._once(table.query, base)
                self._bases[table] = _Common(rows, base, outer)
            return self.query(query.body, base)
        if isinstance(query, RowValues):
            return self._row_values(query, base)
        if isinstance(query, OrderedQuery):
            inner = self.query(query.inner, base)
            return lambda row: self._ordered(list(inner(row)), query, query.order, query.limit)
        assert isinstance(query, OneColumn)
        inner, place = self.query(query.inner, base), query.place
        return lambda row: ([values[place]] for values in inner(row))

    def _once(self, query: QueryTree, base: int) -> tuple[Rows, frozenset[int]]:
        """As `_correlated`; a query that does not depend on the row around it is computed once.

        So are the rows of FROM, even if they have RAND()."""
        rows, outer = self._correlated(query, base)
        if outer - {_VOLATILE}:
            return rows, outer
        cached: list[list[Row]] = self._cache()

        def remembered(row: Row) -> Iterable[Row]:
            if not cached:
                cached.append(list(rows(row)))
            return cached[0]

        return remembered, outer

    def _correlated(self, query: QueryTree, base: int) -> tuple[Rows, frozenset[int]]:
        """The rows of a query, and the offsets of the frames around it that it depends on."""
        compiled = self._compiled.get((query, base))
        if compiled is None:
            self._outer.append(set())
            rows = self.query(query, base)
            offsets = self._outer.pop()
            compiled = rows, frozenset(offset for offset in offsets if offset < base)
            self._compiled[query, base] = compiled
        self._outer[-1] |= compiled[1]
        return compiled

    def _set_operation(self, query: SetOperation, base: int) -> Rows:
        parts = []
        for part, converted in zip(query.parts, query.converted, strict=True):
            calls = [compile_expression(expr) for expr, _ in converted]
            parts.append((self.query(part, base), calls))

        def run(row: Row) -> Iterable[Row]:
            lists = [
                [[call(values, self._context) for call in calls] for values in rows(row)]
                for rows, calls in parts
            ]
            result = lists[0]
            for n, (step, more) in enumerate(zip(query.steps, lists[1:], strict=True)):
                if step.word == "UNION":
                    result = result + more
                else:
                    result = self._matched(result, more, query, step.word, step.distinct)
                    self._count(query, f"matched {n}", result)
                if step.distinct:
                    result = distinct(result, query.columns)
                self._count(query, str(n), result)
            return self._ordered(result, query, query.order, query.limit)

        return run

    def _matched(
        self, rows: list[Row], others: list[Row], query: SetOperation, word: str, once: bool
    ) -> list[Row]:
        """The rows that are among the others (INTERSECT), or are not (EXCEPT). NULL equals NULL.
        Without `once` the second of two equal rows needs a second other one."""
        keys = row_keys([*rows, *others], query.columns)
        count = Counter(keys[len(rows) :])
        result = []
        for row, key in zip(rows, keys, strict=False):
            is_there = count[key] > 0
            if is_there and not once:
                count[key] -= 1
            if is_there == (word == "INTERSECT"):
                result.append(row)
        return result

    def _count(self, query: QueryTree, part: str, rows: Sequence[Row]) -> None:
        if self._trace is not None:
            self._trace.step(query, part).count(len(rows))

    def _row_values(self, query: RowValues, base: int) -> Rows:
        if not all(_is_repeatable(expr) for row in query.rows for expr in row):
            raise _LeftToDuckDB("a function with an effect")
        self._note_volatile([expr for row in query.rows for expr in row])
        self._offsets[query.frame] = base
        place = self._placing(query.frame, {}, base)
        rows = [[compile_expression(place(expr)) for expr in row] for row in query.rows]

        def run(row: Row) -> Iterable[Row]:
            result = [[call(row, self._context) for call in calls] for calls in rows]
            return self._ordered(result, query, query.order, query.limit)

        return run

    def _note_volatile(self, exprs: Sequence[Expr]) -> None:
        """Notes that the expressions may have other values each time, or assign variables."""
        if any(map(_is_volatile, exprs)):
            self._outer[-1].add(_VOLATILE)
            nodes = (node for expr in exprs for node in walk(expr))
            self._assigns |= any(isinstance(node, Assign) for node in nodes)

    def _ordered(
        self, rows: list[Row], query: QueryTree, order: Sequence[PlaceKey], limit: RowLimit
    ) -> Iterable[Row]:
        for place, descending in reversed(order):
            rows = _sorted(
                rows, query.columns[place].type, [row[place] for row in rows], descending
            )
        return islice(rows, *_bounds(limit, self._context)) if limit else rows

    # -- blocks ------------------------------------------------------------------------------------

    def _block(self, block: Block, base: int) -> Rows:
        frame = block.frame
        exprs = [item.expr for item in block.items] + [key for key, _ in block.order]
        exprs += [expr for expr in (block.where, block.having) if expr is not None] + block.group
        if block is self._query:
            self._completes = _is_of_computed(block, exprs)
            if self._trace is not None:
                self._trace.completes = self._completes
        if block.rollup:
            raise _LeftToDuckDB("ROLLUP")
        if not self._completes and not all(_is_repeatable(expr) for expr in exprs):
            raise _LeftToDuckDB("a function with an effect")
        self._note_volatile(exprs)
        selected = [item.expr for item in block.items]
        if any(key in selected and _is_volatile(key) for key, _ in block.order):
            # the value that is shown is the one to sort by
            raise _LeftToDuckDB("ORDER BY a function without a fixed value")
        self._offsets[frame] = base
        width = base + len(frame.fields)
        extend = self._source(block, base, width)
        places: dict[Expr, int] = {}
        groups: Callable[[Iterable[Row], Row], Iterable[Row]] | None = None
        if block.grouped:
            groups = self._groups(block, exprs, places, base, width)
            width += len(places)
        place = self._placing(frame, places, width)
        having: Test | None = None if block.having is None else predicate(place(block.having))
        trace = self._trace
        if trace is not None:
            groups = groups and trace.rows(trace.step(block, "groups"), groups)
            having = having and trace.test(trace.step(block, "having"), having)
        items = [place(item.expr) for item in block.items]
        calls = [_finished(item, own.expr) for item, own in zip(items, block.items, strict=True)]
        longs = [n for n, item in enumerate(items) if may_be_long(item)]
        order = [(place(key), descending) for key, descending in block.order]
        keys = [(key.type, compile_expression(key), descending) for key, descending in order]
        padding = [None] * len(frame.fields)
        limit = block.limit

        def run(outer: Row) -> Iterable[Row]:
            env = self._context
            first = [*outer[:base], *padding]
            rows: Iterable[Row] = extend(first)
            if groups is not None:
                rows = groups(rows, first)
            if having is not None:
                rows = (row for row in rows if having(row, env))
            if keys:
                rows = list(rows)
                for kind, call, descending in reversed(keys):
                    rows = _sorted(rows, kind, [call(row, env) for row in rows], descending)
            if limit and not block.distinct:
                rows = islice(rows, *_bounds(limit, env))
            result = self._projected(rows, calls, longs)
            if not block.distinct:
                return result
            unique = distinct(result, block.columns)
            self._count(block, "distinct", unique)
            return islice(unique, *_bounds(limit, env)) if limit else unique

        return run

    def _projected(
        self, rows: Iterable[Row], calls: Sequence[Compiled], longs: Sequence[int]
    ) -> Iterator[Row]:
        env, tracker = self._context, self._context.tracker
        for row in checked(rows):
            passing = tracker.passing
            values = [call(row, env) for call in calls]
            if longs:
                tracker.passing = passing
                self._claim(size_of_rows([values], longs))
            yield values

    def _groups(
        self, block: Block, exprs: Sequence[Expr], places: dict[Expr, int], base: int, width: int
    ) -> Callable[[Iterable[Row], Row], Iterable[Row]]:
        """From rows to one row a group; no rows are one group, of the row without columns, if
        there is no GROUP BY. Fills `places`: where the values of grouping expressions and
        aggregates are in that row."""
        place = self._placing(block.frame, {}, width)
        group = [place(key) for key in block.group]
        calls = [_finished(key, own) for key, own in zip(group, block.group, strict=True)]
        kinds = [equal_key(key.type) for key in group]
        folds: list[Fold] = []
        for key in block.group:
            if not isinstance(key, Column | Outer):
                places[key] = width + len(places)
        computed = [n for n, key in enumerate(block.group) if not isinstance(key, Column | Outer)]
        for node in dict.fromkeys(node for expr in exprs for node in walk(expr)):
            if isinstance(node, Aggregate) and node not in places:
                fold = fold_of(self._of_rows(node, place))
                if fold is None:
                    raise _LeftToDuckDB(f"{node.function.upper()} of a group")
                places[node] = width + len(places)
                folds.append(fold)
        if len(places) != len(set(places.values())) or len(places) != len(computed) + len(folds):
            raise _LeftToDuckDB("GROUP BY of two equal expressions")

        def run(rows: Iterable[Row], first: Row) -> Iterator[Row]:
            env = self._context
            groups: dict[tuple[Value, ...], tuple[list[Value], list[Row]]] = {}
            empty: list[Value] = []
            for row in rows:
                values = [call(row, env) for call in calls]
                key = tuple([kind(value) for kind, value in zip(kinds, values, strict=True)])
                entry = groups.get(key)
                if entry is None:
                    groups[key] = [values[n] for n in computed], [row]
                else:
                    entry[1].append(row)
            if not groups and not group:
                yield [*first, *(fold(empty, env) for fold in folds)]
            for values, members in groups.values():
                yield [*members[0], *values, *(fold(members, env) for fold in folds)]

        return run

    def _of_rows(self, node: Aggregate, place: Callable[[Expr], Expr]) -> Aggregate:
        """The aggregate with its arguments over rows of the block."""
        return Aggregate(
            type=node.type,
            coercibility=node.coercibility,
            function=node.function,
            arguments=tuple(place(argument) for argument in node.arguments),
            distinct=node.distinct,
            order=tuple((place(key), descending) for key, descending in node.order),
            separator=node.separator,
        )

    # -- expressions -------------------------------------------------------------------------------

    def _placing(self, frame: Frame, places: dict[Expr, int], width: int) -> Callable[[Expr], Expr]:
        """Expressions of a block over its rows, which are `width` long. `places`: expressions that
        are computed already."""
        return partial(replaced, leaf=partial(self._placed, frame, places, width))

    def _placed(self, frame: Frame, places: dict[Expr, int], width: int, expr: Expr) -> Expr | None:
        if places and expr in places:
            return _at(expr, places[expr])
        if isinstance(expr, Column | Outer):
            owner: Frame | None = frame
            for _ in range(expr.depth if isinstance(expr, Outer) else 0):
                owner = None if owner is None else owner.parent
            offset = None if owner is None else self._offsets.get(owner)
            if owner is None or offset is None:
                raise _LeftToDuckDB("a column of a query further out")
            item, source = owner.sources[expr.position]
            self._used.setdefault(item, set()).add(source)
            self._outer[-1].add(offset)
            return _at(expr, offset + expr.position)
        if isinstance(expr, Subquery):
            return self._subquery(expr, self._placing(frame, places, width), width)
        if isinstance(expr, Aggregate | Windowed):
            is_window = isinstance(expr, Windowed)
            raise _LeftToDuckDB("a window function" if is_window else "an aggregate of a window")
        return None

    def _subquery(self, expr: Subquery, place: Callable[[Expr], Expr], width: int) -> Expr:
        query: QueryTree = expr.query
        rows, outer = self._correlated(query, width)
        if not outer:
            rows, _ = self._once(query, width)
        if expr.kind == "scalar":

            def scalar(row: Row, env: Env) -> Value:
                first = list(islice(rows(row), 2))
                if len(first) > 1:
                    raise ErrSubqueryNo1Row()
                return first[0][0] if first else None

            return ComputedValue(type=expr.type, coercibility=expr.coercibility, call=scalar)
        if expr.kind == "exists":

            def exists(row: Row, env: Env) -> Value:
                return int(next(iter(rows(row)), None) is not None)

            return ComputedValue(type=expr.type, call=exists)
        return ComputedValue(type=expr.type, call=self._quantified(expr, rows, place, width))

    def _quantified(
        self, expr: Subquery, rows: Rows, place: Callable[[Expr], Expr], width: int
    ) -> Compiled:
        """IN, ANY and ALL: each row of the query is compared, as a part of the row around it."""
        query: QueryTree = expr.query
        if expr.operator == MEMBER or expr.kind not in ("in", SEMI, "any", "all"):
            raise _LeftToDuckDB("a row compared with a query")
        sign = "=" if expr.kind in ("in", SEMI) else expr.operator
        zone = self._context.zone
        terms = []
        for n, operand in enumerate(expr.operands):
            column = Column(
                type=query.columns[n].type, coercibility=query.levels[n], position=width + n
            )
            terms.append(compare(sign, place(operand), local(column, zone)))
        test = terms[0]
        for term in terms[1:]:
            test = boolean("and", test, term)
        call = compile_expression(test)
        ends = 0 if expr.kind == "all" else 1  # the outcome of a comparison that decides

        def run(row: Any, env: Env) -> Value:
            is_unknown = False
            for other in rows(row):
                self._step()
                outcome = call([*row, *other], env)
                if outcome is None:
                    is_unknown = True
                elif bool(outcome) == bool(ends):
                    return ends
            return None if is_unknown else 1 - ends

        return run

    # -- FROM --------------------------------------------------------------------------------------

    def _source(self, block: Block, base: int, width: int) -> Extend:
        """From a row without columns of the block to those that WHERE keeps."""
        place = self._placing(block.frame, {}, width)
        conditions = []
        for part in [] if block.where is None else conjuncts_of(block.where):
            conditions += self._conditions(place(self._listed(part, width)), base, part)
        if block.source is None:
            tests = [condition.holds for condition in conditions]
            if self._trace is not None:
                tests = self._trace.tests(self._traced_loop(block, None, conditions, None), tests)
            return self._filtered(lambda row: iter((row,)), tests)
        items = [_Item(block.source, range(base, width))]
        return self._loops(items, conditions, block, base, frozenset())

    def _listed(self, expr: Expr, width: int) -> Expr:
        """`a IN (SELECT ..)` with the values of a query that does not depend on the row: a key may
        serve them. Other expressions as they are."""
        is_plain = isinstance(expr, Subquery) and expr.kind in ("in", SEMI)
        if not isinstance(expr, Subquery) or not is_plain or len(expr.operands) > 1:
            return expr
        query: QueryTree = expr.query
        rows, outer = self._correlated(query, width)
        if outer:
            return expr
        kind, level = query.columns[0].type, query.levels[0]
        self._has_values = True
        warnings = len(self._context.warnings)
        try:
            values = [row[0] for row in rows([None] * width)] if self._is_run else [None]
        except Refused:  # an error only if a row needs the list
            if self._interruption.reason is not None:
                raise
            del self._context.warnings[warnings:]
            return expr
        if not values:
            return Constant(type=types.BOOLEAN, value=0)
        # compared as a column: literals compared with years and dates have other rules
        column = Column(type=kind, coercibility=level, position=-1)
        (needle, item), collate = comparable(
            (expr.operands[0], local(column, self._context.zone)), "in"
        )

        def item_of(value: Value) -> Expr:
            constant: Expr = Constant(type=kind, coercibility=level, value=value)
            if not self._is_run:
                constant = Parameter(type=kind, coercibility=level, index=-1)
            return replaced(item, lambda node: constant if node == column else None)

        return boolean("in", needle, *map(item_of, values), extra=(collate, True))

    def _conditions(self, expr: Expr, base: int, bound: Expr) -> list[_Condition]:
        """The parts of a condition that all must be true."""
        conditions = []
        for part in conjuncts_of(expr):
            needs = frozenset(position for position in columns_of(part) if position >= base)
            is_whole = any(
                isinstance(node, ComputedValue) or _has_own_value(node) for node in walk(part)
            )
            conditions.append(_Condition(part, bound, needs, is_whole, predicate(part)))
        return conditions

    def _traced_loop(
        self,
        key: LoopKey,
        item: FromItem | None,
        conditions: Sequence[_Condition],
        access: "_Access | None",
    ) -> ReadLoop:
        """The next loop in the trace."""
        assert self._trace is not None
        checked = [LoopCondition(c.bound, c.is_whole, MeasuredStep()) for c in conditions]
        path, by = (None, ()) if access is None else (access.path, access.by)
        return self._trace.add(key, ReadLoop(item, checked, path, by))

    def _loops(
        self,
        items: Sequence[_Item],
        conditions: Sequence[_Condition],
        block: Block,
        base: int,
        read: frozenset[int],
    ) -> Extend:
        """Nested loops over items, in the best order. `read`: places that are read already."""
        key, trace = items[0].item, self._trace
        items, conditions = self._flat(items, list(conditions), block, base)
        owner = {place: n for n, item in enumerate(items) for place in item.places}
        missing = [{owner[place] for place in c.needs if place in owner} for c in conditions]
        touching: list[list[int]] = [[] for _ in items]  # conditions, by item
        for c, owners in enumerate(missing):
            if any(place not in owner and place not in read for place in conditions[c].needs):
                raise _LeftToDuckDB("a condition on columns that are read later")
            for n in owners:
                touching[n].append(c)
        linked = [{m for c in touching[n] for m in missing[c]} for n in range(len(items))]
        ready: dict[int, _Access] = {}
        waiting, loops = list(range(len(items))), list[Extend]()
        while waiting:
            for n in waiting:
                if n not in ready:
                    own = [conditions[c] for c in touching[n]]
                    ready[n] = self._access(items[n], own, block, base, read)
            best = min(waiting, key=lambda n: ready[n].rank)
            waiting.remove(best)
            own = (
                conditions
                if isinstance(items[best].item, Join)
                else [conditions[c] for c in touching[best]]
            )
            now = [c for c in range(len(conditions)) if not loops and not missing[c]]
            for c in touching[best]:
                missing[c].discard(best)
                if not missing[c]:
                    now.append(c)
            places, access = frozenset(items[best].places), ready[best]
            tests = [conditions[c] for c in now if not conditions[c].is_whole]
            tests.sort(key=lambda condition: not condition.needs <= places)
            if not waiting:
                tests += [condition for condition in conditions if condition.is_whole]
            holds = [condition.holds for condition in tests]
            is_read_once = access.current is None and not isinstance(items[best].item, Join)
            early = 0
            if is_read_once and (loops or read):  # else each row is met once
                alone = (set() < columns_of(test.expr) <= places for test in tests)
                early = sum(takewhile(bool, alone))
            note = None
            if trace is not None:
                note = self._traced_loop(key, items[best].item, tests, access)
                note.early, note.is_repeated = early, access.current is not None
                holds = trace.tests(note, holds)
            loop = self._loop(items[best], access, own, block, base, read, holds[:early])
            if note is not None and trace is not None:
                loop = trace.rows(note.joined, loop)
            read |= places
            for n in linked[best]:
                ready.pop(n, None)  # more of its conditions may serve a key
            late = [
                _quiet(test) if condition is self._served else test
                for condition, test in zip(tests[early:], holds[early:], strict=True)
            ]
            loops.append(self._filtered(loop, late))
        return _nested(loops)

    def _filtered(self, loop: Extend, tests: Sequence[Test]) -> Extend:
        if not tests:
            return loop
        first, *others = tests

        def filtered(outer: Row) -> Iterator[Row]:
            env = self._context
            for row in loop(outer):
                if first(row, env) and all(test(row, env) for test in others):
                    yield row

        return filtered

    def _flat(
        self, items: Sequence[_Item], conditions: list[_Condition], block: Block, base: int
    ) -> tuple[list[_Item], list[_Condition]]:
        """Inner joins and comma lists as their items; conditions of ON are added to the others."""
        flat: list[_Item] = []
        for item in items:
            parts: list[FromItem]
            if isinstance(item.item, Cross):
                parts = item.item.items
            elif isinstance(item.item, Join) and not item.item.side:
                parts = [item.item.left, item.item.right]
                conditions += self._on(item.item, block, base)
            else:
                flat.append(item)
                continue
            end, inner = item.places.stop, []
            for part in reversed(parts):
                is_first = part is parts[0]
                start = item.places.start if is_first else end - _width(part, block.frame)
                inner.append(_Item(part, range(start, end)))
                end = start
            inner.reverse()
            more, conditions = self._flat(inner, conditions, block, base)
            flat += more
        return flat, conditions

    def _on(self, join: Join, block: Block, base: int) -> list[_Condition]:
        place = self._placing(block.frame, {}, base + len(block.frame.fields))
        conditions = [
            condition
            for expr in join.conditions
            for part in conjuncts_of(expr)
            for condition in self._conditions(place(part), base, part)
        ]
        if any(condition.is_whole for condition in conditions):
            raise _LeftToDuckDB("a subquery in ON")
        return conditions

    def _bounded(
        self, pairs: Iterator[tuple[bytes, Row]], longs: Sequence[int]
    ) -> Iterator[tuple[bytes, Row]]:
        """The rows of a table; those with long values are claimed."""
        if not longs:
            return pairs

        def claimed() -> Iterator[tuple[bytes, Row]]:
            for pair in pairs:
                self._claim(size_of_rows([pair[1]], longs))
                yield pair

        return claimed()

    def _claim(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MOST_BYTES and not self._completes:
            raise _LeftToDuckDB(f"more than {MOST_BYTES >> 20} MB of long values")
        self._context.tracker.keep(size)

    def _access(
        self,
        item: _Item,
        conditions: Sequence[_Condition],
        block: Block,
        base: int,
        read: frozenset[int],
    ) -> "_Access":
        """How an item is read after the places `read`."""
        leaf = item.item
        if not isinstance(leaf, TableRef):
            return _Access(3 if isinstance(leaf, Join) else 2)
        if not isinstance(leaf.scan, TableScan):
            return _Access(2)
        scan, places, current = leaf.scan, block.frame.places_of(leaf), _Current()
        terms, by = [], []
        for number, condition in enumerate(conditions):
            before = frozenset(place for place in condition.needs if place not in item.places)
            if not condition.is_whole and before <= read:
                term = _term(condition.expr, item.places, places, current, number)
                if term is not None and term.position < scan.handle_position:
                    terms.append(term)
                    if not columns_of(condition.expr) <= set(item.places) or subqueries_in(
                        condition.bound
                    ):
                        by.append((term.position, condition.bound))
        if terms:
            static: Terms = scan.terms
            more = Terms((*static.usable, *terms), static.conjuncts + len(terms) + 1, static.others)
            shares = Shares(self._context.txn, scan.table)
            path = choose(scan.table, more, scan.hints, WantedOrder(), shares)
            if path.short or has_equality(path):
                if scan.choice is not None:
                    path = over_partitions(path, scan.choice)
                return _Access(0 if path.short else 1, path, current, by)
        path = scan.candidate
        if path.short or has_equality(path):
            return _Access(0 if path.short else 1, path)
        return _Access(2 if path.narrows else 4, path)

    def _loop(
        self,
        item: _Item,
        access: "_Access",
        conditions: Sequence[_Condition],
        block: Block,
        base: int,
        read: frozenset[int],
        early: Sequence[Test],
    ) -> Extend:
        leaf = item.item
        if isinstance(leaf, Join):
            return self._outer_join(item, leaf, conditions, block, base, read)
        assert not isinstance(leaf, Cross)
        start, end = item.places.start, item.places.stop
        if access.current is not None:
            assert isinstance(leaf, TableRef) and access.path is not None
            return self._by_key(leaf, access.path, access.current, item.places, block)
        rows = self._rows_of(leaf, access.path, block, base)
        if early:
            rows = self._selected(rows, item.places, early)
        lookup = self._lookup(rows, item, conditions, read, base)
        if lookup is not None:
            return lookup

        def loop(row: Row) -> Iterator[Row]:
            for values in rows(row):
                self._step()
                new = row.copy()
                new[start:end] = values
                yield new

        return loop

    def _selected(self, rows: Rows, places: range, tests: Sequence[Test]) -> Rows:
        """The rows of an item that its own conditions keep, selected once."""
        cached: list[tuple[Iterable[Row], list[Row]]] = self._cache()

        def selected(row: Row) -> Iterable[Row]:
            env, values = self._context, rows(row)
            if not cached or cached[0][0] is not values:
                matches, new = [], row.copy()
                for own in values:
                    new[places.start : places.stop] = own
                    if all(test(new, env) for test in tests):
                        matches.append(own)
                cached[:] = [(values, matches)]
            return cached[0][1]

        return selected

    def _lookup(
        self,
        rows: Rows,
        item: _Item,
        conditions: Sequence[_Condition],
        read: frozenset[int],
        base: int,
    ) -> Extend | None:
        """By a dictionary over an equality of a column with what is read; None without one. The
        condition itself is evaluated again."""
        start, end = item.places.start, item.places.stop
        for condition in conditions:
            sides = None if condition.is_whole else _equality(condition.expr)
            for own, other in (sides, sides[::-1]) if sides else ():
                mine = columns_of(own)  # without outer ones: the dictionary serves all outer rows
                theirs = {place for place in columns_of(other) if place >= base}
                if not mine or not mine <= set(item.places) or not theirs or not theirs <= read:
                    continue
                assert isinstance(condition.expr, Call)
                collate = condition.expr.extra[0] if condition.expr.extra else ""
                self._served = condition
                return self._by_dictionary(rows, start, end, own, other, collate)
        return None

    def _by_dictionary(
        self, rows: Rows, start: int, end: int, own: Expr, other: Expr, collate: str
    ) -> Extend:
        mine, theirs = compile_expression(own), compile_expression(other)
        key_of, key_of_other = _key(own.type, collate), _key(other.type, collate)
        cached: list[tuple[Iterable[Row], dict[Value, list[Row]]]] = self._cache()

        def loop(row: Row) -> Iterator[Row]:
            env, values = self._context, rows(row)
            if not cached or cached[0][0] is not values:
                table: dict[Value, list[Row]] = {}
                for match in values:
                    self._step()
                    new = row.copy()
                    new[start:end] = match
                    value = mine(new, env)
                    if value is not None:
                        table.setdefault(key_of(value), []).append(match)
                cached[:] = [(values, table)]
            value = theirs(row, env)
            for match in () if value is None else cached[0][1].get(key_of_other(value), ()):
                self._step()
                new = row.copy()
                new[start:end] = match
                yield new

        return loop

    def _outer_join(
        self,
        item: _Item,
        join: Join,
        conditions: Sequence[_Condition],
        block: Block,
        base: int,
        read: frozenset[int],
    ) -> Extend:
        middle = item.places.start + _width(join.left, block.frame)
        left = _Item(join.left, range(item.places.start, middle))
        right = _Item(join.right, range(middle, item.places.stop))
        preserved, other = (left, right) if join.side == "LEFT" else (right, left)
        places = read | frozenset(preserved.places)
        early = [
            condition
            for condition in conditions
            if condition.needs <= places and not condition.is_whole
        ]
        rows = self._loops([preserved], early, block, base, read)
        matches = self._loops([other], self._on(join, block, base), block, base, places)

        def loop(row: Row) -> Iterator[Row]:
            for left in rows(row):
                is_matched = False
                for match in matches(left):
                    is_matched = True
                    yield match
                if not is_matched:
                    self._step()
                    yield left

        return loop

    # -- items of FROM -----------------------------------------------------------------------------

    def _rows_of(self, leaf: FromLeaf, path: Path | None, block: Block, base: int) -> Rows:
        """The rows of an item, read once."""
        if isinstance(leaf, DerivedRef):
            columns = block.frame.places_of(leaf)
            inner, _ = self._once(leaf.query, base)
            cached: list[tuple[Iterable[Row], list[Row]]] = self._cache()

            def derived(row: Row) -> Iterable[Row]:
                values = inner(row[:base])
                if not cached or cached[0][0] is not values:
                    cached[:] = [(values, [[row[n] for n in columns] for row in values])]
                return cached[0][1]

            return derived
        if isinstance(leaf, CommonRef):
            if leaf.table not in self._bases:
                raise _LeftToDuckDB("a recursive common table expression")
            common, start, outer = self._bases[leaf.table]
            self._outer[-1] |= outer  # a reader depends on the same frames
            return lambda row: common(row[:start])
        scan = leaf.scan
        if isinstance(scan, RowsScan):
            if self._trace is not None:
                return self._read_once(partial(self._trace.computed, leaf, scan))
            if self._completes:
                return lambda row: self._computed(scan.compute(), holds=_needs_all(block))
            return self._read_once(lambda: scan.rows)
        assert path is not None
        own_path = path

        def read() -> Iterator[Row]:
            self._check_size(scan.title, own_path)
            return self._read(leaf, own_path, block)

        if not self._is_run:
            self._check_size(scan.title, path)
        return self._read_once(read)

    def _check_size(self, title: str, path: Path) -> None:
        count = path.count(self._context, self._left)
        if count is not None and count > self._left:
            self._leave(f"{title} has more than {self._left} rows")

    def _read_once(self, read: Callable[[], Iterable[Row]]) -> Rows:
        cached: list[list[Row]] = self._cache()

        def rows(row: Row) -> Iterable[Row]:
            if not cached:
                values = []
                for own in read():
                    self._step()
                    values.append(own)
                cached.append(values)
            return cached[0]

        return rows

    def _computed(self, rows: Iterable[Row], holds: bool) -> Iterator[Row]:
        """Rows that are computed one by one. `holds`: the query keeps them all for a time."""
        for number, row in enumerate(checked(rows)):
            if holds and number % INTERRUPT_ROWS == 0:
                self._context.tracker.keep(INTERRUPT_ROWS * len(row) * VALUE_BYTES)
            yield row

    def _by_key(
        self, leaf: TableRef, path: Path, current: "_Current", places: range, block: Block
    ) -> Extend:
        """By a path whose constants are values of the row that is being built."""
        start, end = places.start, places.stop

        def loop(row: Row) -> Iterator[Row]:
            current.row = row
            for values in list(self._read(leaf, path, block)):
                self._step()
                new = row.copy()
                new[start:end] = values
                yield new

        return loop

    def _read(self, leaf: TableRef, path: Path, block: Block) -> Iterator[Row]:
        """The columns of the rows that a path finds."""
        scan = leaf.scan
        assert isinstance(scan, TableScan)
        places = block.frame.places_of(leaf)
        used = self._used.get(leaf, set())
        stored = tuple(sorted(place for place in used if 0 <= place < scan.handle_position))
        if path.used != stored:
            path = copy(path)
            path.used = stored
        if self._trace is not None:
            path = self._trace.path(leaf, path)
        get = [_getter(place, scan.handle_position) for place in places]
        plain = [place if 0 <= place < scan.handle_position else None for place in places]
        opened = path.open(self._context)
        pairs = self._bounded(opened.rows, long_columns(scan.table, stored))
        if None not in plain and plain == list(range(len(scan.table.info.cols))):
            for _, row in pairs:
                yield row
            return
        for handle, row in pairs:
            yield [call(row, handle) for call in get]


class _Current:
    """The row whose values are the constants of a path."""

    row: Row = []


class _Access(NamedTuple):
    """How an item is read. `rank`: 0 for points, 1 for equalities, 4 for a whole table. `current`:
    where the path takes its constants from, None if they are the same for all rows. `by`: key parts
    and the conditions on other items that give their values."""

    rank: int
    path: Path | None = None
    current: _Current | None = None
    by: Sequence[tuple[int, Expr]] = ()


def _term(
    expr: Expr, own: range, places: Sequence[int], current: _Current, number: int
) -> Term | None:
    """The condition as a term of a key: a plain column that is equal to a value, or IN a list. None
    if the values are no bounds of the column's keys, or are not read yet."""
    if not isinstance(expr, Call) or expr.function not in ("=", "in"):
        return None
    first, *rest = expr.arguments
    sides = [(first, rest)] if expr.function == "in" else [(first, rest), (rest[0], [first])]
    for column, values in sides:
        if not isinstance(column, Column) or column.position not in own:
            continue
        place = places[column.position - own.start]
        if place < 0 or any(p in own for value in values for p in columns_of(value)):
            continue
        if not all(_is_bound(column.type, value.type) for value in values):
            continue
        if column.family is Family.STRING and expr.extra[:1] != (column.type.Collate,):
            continue
        constants = tuple(_constant(value, current) for value in values)
        return Term(place, expr.function, constants, number)
    return None


def _constant(expr: Expr, current: _Current) -> ConstantOf:
    call, kind = compile_expression(expr), expr.type

    def constant(context: Execution) -> Value:
        value = call(current.row, context)
        is_typed = value is not None and kind.family in _TEMPORAL
        return TypedValue(value, kind) if is_typed else value

    return constant


_TEMPORAL = (Family.DATE, Family.DATETIME, Family.TIME)
_NUMBERS = (Family.INT, Family.UINT, Family.DECIMAL)
_BY_NUMBER = (TypeCode.ENUM, TypeCode.SET, TypeCode.YEAR, TypeCode.BIT, TypeCode.TIMESTAMP)


def _is_bound(column: FieldType, other: FieldType) -> bool:
    if column.Tp in _BY_NUMBER or other.Tp in _BY_NUMBER or TypeCode.NULL in (column.Tp, other.Tp):
        return False
    if column.family in _NUMBERS:
        return other.family in _NUMBERS
    return column.family == other.family and column.family is not Family.JSON


def _equality(expr: Expr) -> tuple[Expr, Expr] | None:
    if isinstance(expr, Call) and expr.function == "=":
        return expr.arguments[0], expr.arguments[1]
    return None


def _key(kind: FieldType, collate: str) -> Callable[[Value], Value]:
    """The key of values that are compared under a collation."""
    if kind.Tp != TypeCode.NULL and kind.family is Family.STRING and collate:
        return equal_key(evolve(kind, Collate=collate))
    return equal_key(kind)


def _quiet(holds: Test) -> Test:
    """A condition without warnings, which the dictionary of its values has given already."""

    def run(row: Row, env: Env) -> bool:
        warnings = len(env.warnings)
        outcome = holds(row, env)
        del env.warnings[warnings:]
        return outcome

    return run


def _is_volatile(expr: Expr) -> bool:
    """Whether it may have another value each time."""
    return any(_has_own_value(node) for node in walk(expr))


def _has_own_value(node: Expr) -> bool:
    if isinstance(node, Call):
        function = FUNCTIONS.get(node.function)
        return function is not None and function.volatile
    return isinstance(node, Assign)


def _is_repeatable(expr: Expr) -> bool:
    """Whether a run that was given up leaves no trace."""
    for node in walk(expr):
        if not _has_own_value(node):
            continue
        if not isinstance(node, Call):
            continue  # an assignment: the variables get their earlier values
        is_bare = node.function in _WITHOUT_ARGUMENTS and not node.arguments
        if node.function not in _REPEATABLE and not is_bare:
            return False
    return True


def _is_of_computed(block: Block, exprs: Sequence[Expr]) -> bool:
    """Whether it has no FROM, or one computed table, and no subqueries."""
    source = block.source
    if source is not None and not (
        isinstance(source, TableRef) and isinstance(source.scan, RowsScan)
    ):
        return False
    return not any(isinstance(node, Subquery) for expr in exprs for node in walk(expr))


def _needs_all(block: Block) -> bool:
    return bool(block.grouped or block.distinct or block.order)


def _at(expr: Expr, position: int) -> Column:
    if not isinstance(expr, Column | Outer):
        return Column(type=expr.type, coercibility=expr.coercibility, position=position)
    return Column(
        type=expr.type,
        coercibility=expr.coercibility,
        position=position,
        name=expr.name,
        table=expr.table,
        full=expr.full,
    )


def _width(item: FromItem, frame: Frame) -> int:
    """The number of columns of an item."""
    if isinstance(item, Cross):
        return sum(_width(part, frame) for part in item.items)
    if isinstance(item, Join):
        return _width(item.left, frame) + _width(item.right, frame)
    return len(frame.places_of(item))


def _getter(place: int, handle_position: int) -> Callable[[Row, bytes], Value]:
    if place == ROW_ID_AT:
        return lambda row, handle: int.from_bytes(handle[-8:], "big") - (1 << 63)
    if place == handle_position:
        return lambda row, handle: handle
    return lambda row, handle: row[place]


def _nested(loops: Sequence[Extend]) -> Extend:
    """One loop inside the other."""
    if len(loops) == 1:
        return loops[0]
    first, rest = loops[0], _nested(loops[1:])

    def loop(row: Row) -> Iterator[Row]:
        for outer in first(row):
            yield from rest(outer)

    return loop


def _finished(placed: Expr, expr: Expr) -> Compiled:
    """The value of a column of the result: a quotient is rounded to the digits of its type.
    `placed`: the same expression over the block's rows."""
    call = compile_expression(placed)
    if expr.family is not Family.DECIMAL or not divides(expr):
        return call
    return lambda row, env: in_digits(call(row, env), expr)


def _sorted(
    rows: list[Row], kind: FieldType, values: Sequence[Value], descending: bool
) -> list[Row]:
    keys = keys_to_sort_by(kind, values)
    places = sorted(range(len(rows)), key=keys.__getitem__, reverse=descending)
    return [rows[place] for place in places]


def _bounds(limit: RowLimit, context: Context) -> tuple[int, int]:
    most, skip = limit.at(context)
    end = maxsize if most is None else min(skip + most, maxsize)
    return min(skip, maxsize), end
