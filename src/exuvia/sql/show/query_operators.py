"""The operators of a query with joins, groups or subqueries: its tree (select/tree.py) in TiDB's
terms. Both engines run this tree.

    FROM, in the order of the row engine's loops
      a table                       TableReader, IndexLookUp, Point_Get ... (access_operators.py)
      read by a key of others       IndexJoin: its Probe side has `range: decided by [...]`
      read once                     HashJoin
      derived table, CTE            its own operators, CTEFullScan
    conditions                      Selection, on one item, or in the join that has all columns
    subqueries
      IN, EXISTS as a condition     HashJoin semi join, anti semi join
      (SELECT ..) in an expression  HashJoin left outer join
      naming columns further out    Apply instead of HashJoin: it runs for each row
    GROUP BY, DISTINCT              HashAgg; StreamAgg without GROUP BY
    OVER (..)                       Window
    ORDER BY, LIMIT                 Sort, TopN, Limit
    select list                     Projection, if it computes anything
    UNION, INTERSECT, EXCEPT        Union, HashJoin semi join, HashJoin anti semi join
    WITH                            trees of their own: CTE_0, CTE_1 ...

If DuckDB runs the query, the tree is the same, but no item is read by a key of others. DuckDB may
join in another order: EXPLAIN ANALYZE shows its profile (duck_profile.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from exuvia.catalog.table import Table
from exuvia.sql.access.paths import Everywhere, Matched, Path
from exuvia.sql.expr import (
    SEMI,
    Aggregate,
    Call,
    Column,
    Expr,
    Outer,
    Subquery,
    Windowed,
    children,
    columns_of,
    walk,
)
from exuvia.sql.select.scan import TableScan
from exuvia.sql.select.trace import (
    LoopCondition,
    LoopKey,
    ReadLoop,
    Trace,
    conjuncts_of,
    subqueries_in,
)
from exuvia.sql.select.tree import (
    Block,
    CommonRef,
    CommonTable,
    Converted,
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
from exuvia.sql.show.access_operators import ScanOrder, keyed_operators, path_operators
from exuvia.sql.show.expression_text import (
    CallText,
    ColumnText,
    ExpressionText,
    conjuncts,
    function_name,
    of_bound,
    sorted_texts,
    stored_column,
)
from exuvia.sql.show.operators import (
    DUCKDB,
    ROOT,
    ExplainedStatement,
    Operator,
    distinct_info,
    lookup,
)
from exuvia.sql.show.query_parts import (
    SemiJoin,
    column_name,
    columns_outside,
    conditions_of,
    equal_to_constant,
    is_correlated,
    is_distinct_later,
    over_text,
    semi_join_of,
    sides_of,
    sides_of_equality,
    unchecked,
)
from exuvia.sql.show.row_estimates import (
    DISTINCT,
    OTHER,
    PSEUDO_ROWS,
    TableEstimate,
    grouped,
    joined,
)
from exuvia.sql.statement.measure import MeasuredStep, Reads

_READS = ("TableReader", "IndexLookUp", "IndexMerge", "Point_Get", "Batch_Point_Get")
_JOINS = ("HashJoin", "IndexJoin", "Apply")


class Printed(NamedTuple):
    """The operators of a query, and the texts of its columns."""

    operator: Operator
    columns: list[ExpressionText]


class _Item(NamedTuple):
    """One side of a join. `linked`: conditions that name columns of the other side; `by`: those
    that give the values of its key, if it is read by one."""

    operator: Operator
    linked: list[LoopCondition]
    by: list[Expr]


class _Conditions(NamedTuple):
    """The conditions of one loop.

    own           on its item alone
    links         on its item and those before
    elsewhere     on the other side of an outer join
    whole         after all items
    """

    own: list[LoopCondition]
    links: list[LoopCondition]
    elsewhere: list[LoopCondition]
    whole: list[LoopCondition]


class _Read(NamedTuple):
    """The operators that read one table. `scan`: the one with the range, if other rows decide
    it."""

    top: Operator
    scan: Operator | None = None


class QueryOperators:
    """Converts the tree of one query. `trace`: the loops of the row engine, measured if it has a
    watch. A reason in it means that DuckDB runs the query."""

    def __init__(self, explaining: ExplainedStatement, trace: Trace) -> None:
        self._explaining = explaining
        self._context = explaining.context
        self.trace = trace
        self._is_duck = bool(trace.reason)
        self._task = DUCKDB if trace.reason else ROOT
        self._is_measured = trace.watch is not None
        self._loops: dict[LoopKey, list[ReadLoop]] = {}
        self._reads: dict[ReadLoop, _Read] = {}
        self._names: dict[Frame, dict[int, ExpressionText]] = {}
        self._places: dict[Frame, dict[FromLeaf, list[int]]] = {}
        self._fixed: dict[Frame, set[int]] = {}  # columns that are equal to a constant
        self._commons: dict[str, tuple[int, Printed]] = {}  # CTEs by name, with their numbers
        self._estimates: dict[int, TableEstimate] = {}  # by table id
        self._estimate_of: dict[int, TableEstimate] = {}  # by the id of an operator
        self._decided: dict[Expr, str] = {}  # IN (SELECT ..) as an equality of a key
        self._keyed: set[int] = set()  # ids of the operators that read by a key of others
        self._first_table: Table | None = None
        self._steps = 0.0

    def steps(self) -> float | None:
        """The estimated number of rows read or combined; None if a table was not analyzed."""
        if any(estimate.is_pseudo for estimate in self._estimates.values()):
            return None
        return self._steps

    def of(self, query: QueryTree, is_tested: bool = False) -> Printed:
        """The operators of a query. `is_tested`: only whether it has rows counts (EXISTS)."""
        printed = _QUERIES[type(query)](self, query)
        if is_tested and printed.operator.name == "Projection":
            return Printed(printed.operator.below[0], printed.columns)
        return printed

    def _make(
        self,
        name: str,
        rows: float,
        info: str = "",
        below: Sequence[Operator] = (),
        access: str = "",
        step: MeasuredStep | None = None,
        actual: int | None = None,
    ) -> Operator:
        """An operator of the engine. `step` measured it; without one it had `actual` rows, None if
        it never ran."""
        operator = Operator(name, rows, self._task, access, info, below)
        if self._is_measured:
            if step is not None:
                step.count(0)
                step.loops = step.loops or 1
                operator.done = step
            else:
                operator.done.rows = actual or 0
                operator.done.loops = int(actual is not None)
        if name in _JOINS:
            self._steps += rows
        return operator

    # -- queries -----------------------------------------------------------------------------------

    def _block(self, block: Block) -> Printed:
        step = self.trace.step(block)
        frame, computed = block.frame, dict[Expr, ExpressionText]()
        below = self._source(block)
        exprs = [item.expr for item in block.items] + [key for key, _ in block.order]
        above = exprs if block.having is None else [*exprs, block.having]
        if block.grouped:
            below = self._grouped(block, below, above, computed)
        if block.having is not None:
            after = self.trace.step(block, "having")
            checks = [LoopCondition(part, False, after) for part in conjuncts_of(block.having)]
            below = self._checked(frame, below, checks, computed)
        below = self._windows(frame, below, exprs, computed)
        for key, _ in block.order:
            below = self._applied(frame, below, key, computed)
        limit = block.limit
        keys = [
            self._text(frame, key, computed).text + ":desc" * descending
            for key, descending in block.order
        ]
        late = RowLimit() if block.distinct else limit
        below = self._ordered(below, keys, late, None if block.distinct else step)
        for item in block.items:
            below = self._applied(frame, below, item.expr, computed)
        texts = [self._text(frame, item.expr, computed) for item in block.items]
        below, columns = self._projected(below, texts)
        if block.distinct:
            rows = grouped(texts, below.rows or 0.0, self._estimates)
            distinct = self.trace.step(block, "distinct")
            info = distinct_info(columns)
            below = self._make("HashAgg", rows, info, [below], step=distinct)
            below = self._ordered(below, [], limit, step)
        return Printed(below, columns)

    def _projected(
        self, below: Operator, texts: Sequence[ExpressionText]
    ) -> tuple[Operator, list[ExpressionText]]:
        """A Projection, if a text is not that of a column. Returns the columns."""
        if all(isinstance(text, ColumnText) for text in texts):
            return below, list(texts)
        columns, info = list[ExpressionText](), []
        for text in texts:
            column = text if isinstance(text, ColumnText) else self._new_column()
            columns.append(column)
            info.append(text.text if text is column else f"{text.text}->{column.text}")
        rows, actual = below.rows or 0.0, below.done.rows
        return self._make("Projection", rows, ", ".join(info), [below], actual=actual), columns

    def _ordered(
        self, below: Operator, keys: Sequence[str], limit: RowLimit, step: MeasuredStep | None
    ) -> Operator:
        """Sort, Limit, or TopN. `step`: measured the rows after them."""
        rows, info = below.rows or 0.0, list(keys)
        if limit:
            most, skip = limit.at(self._context)
            rows = rows if most is None else min(rows, float(most))
            info.append(f"offset:{skip}, count:{'all' if most is None else most}")
        if not info:
            return below
        name = "Limit" if not keys else "TopN" if limit else "Sort"
        if step is None:
            return self._make(name, rows, ", ".join(info), [below], actual=below.done.rows)
        return self._make(name, rows, ", ".join(info), [below], step=step)

    def _set_operation(self, query: SetOperation) -> Printed:
        parts = [
            self._converted(self.of(part), converted)
            for part, converted in zip(query.parts, query.converted, strict=True)
        ]
        columns: list[ExpressionText] = [self._new_column() for _ in query.columns]
        run, top = [parts[0].operator], parts[0].operator
        left = parts[0].columns
        for n, (set_step, part) in enumerate(zip(query.steps, parts[1:], strict=True)):
            after = self.trace.step(query, str(n))
            if set_step.word == "UNION":
                run.append(part.operator)
                rows = sum(operator.rows or 0.0 for operator in run)
                numbers = [operator.done.rows for operator in run]
                actual = None if None in numbers else sum(number or 0 for number in numbers)
                top = self._make("Union", rows, "", run, actual=actual)
                left = columns
            else:
                word = "anti semi join" if set_step.word == "EXCEPT" else "semi join"
                both = zip(left, part.columns, strict=True)
                pairs = (f"nulleq({a.text}, {b.text})" for a, b in both)
                matched = self.trace.step(query, f"matched {n}")
                rows = (top.rows or 0.0) * DISTINCT
                info = f"{word}, equal:[{' '.join(pairs)}]"
                join = self._make("HashJoin", rows, info, step=matched)
                top = lookup(join, [part.operator], top)
            if set_step.distinct and not is_distinct_later(query, n):
                rows = grouped(left, top.rows or 0.0, self._estimates)
                top = self._make("HashAgg", rows, distinct_info(left), [top], step=after)
            if set_step.word != "UNION" or top.name == "HashAgg":
                run = [top]
        return self._placed(query, Printed(top, left), query.order, query.limit)

    def _converted(self, part: Printed, converted: Sequence[Converted]) -> Printed:
        """A part of a set operation, in the types of the whole."""

        def leaf(expr: Expr) -> ExpressionText | None:
            return part.columns[expr.position] if isinstance(expr, Column) else None

        texts = [of_bound(expr, column_name, self._context, leaf) for expr, _ in converted]
        return Printed(*self._projected(part.operator, texts))

    def _placed(
        self, query: QueryTree, inner: Printed, order: Sequence[PlaceKey], limit: RowLimit
    ) -> Printed:
        keys = [inner.columns[place].text + ":desc" * down for place, down in order]
        top = self._ordered(inner.operator, keys, limit, self.trace.step(query))
        return Printed(top, inner.columns)

    def _with(self, query: With) -> Printed:
        for table in query.tables:
            self._common(table)
        return self.of(query.body)

    def _common(self, table: CommonTable) -> None:
        """A tree of its own for a common table expression."""
        number = len(self._explaining.commons)
        top = self._make(f"CTE_{number}", 0.0, "Non-Recursive CTE")
        top.is_numbered = False
        self._explaining.commons.append(top)
        recursion = table.recursion
        inner = table.query if recursion is None else recursion.seed
        assert inner is not None
        seed = self.of(inner)
        seed.operator.side = "(Seed Part)"
        columns, rows = seed.columns, seed.operator.rows or 0.0
        top.below.append(seed.operator)
        top.rows = rows
        if recursion is not None:
            assert recursion.step is not None
            columns = [ColumnText(column.name.lower()) for column in table.columns]
            self._commons[table.name] = number, Printed(top, columns)
            step = self.of(recursion.step)
            step.operator.side = "(Recursive Part)"
            top.below.append(step.operator)
            top.info = "Recursive CTE"
            top.rows = rows + (step.operator.rows or 0.0)
        elif self._is_measured:
            top.done.rows, top.done.loops = self.trace.step(inner).rows or 0, 1
        self._commons[table.name] = number, Printed(top, columns)

    def _row_values(self, query: RowValues) -> Printed:
        number = len(query.rows)
        top = self._make("TableDual", number, f"rows:{number}", actual=number)
        columns: list[ExpressionText] = [ColumnText(c.name.lower()) for c in query.columns]
        return self._placed(query, Printed(top, columns), query.order, query.limit)

    def _ordered_query(self, query: OrderedQuery) -> Printed:
        return self._placed(query, self.of(query.inner), query.order, query.limit)

    def _one_column(self, query: OneColumn) -> Printed:
        inner = self.of(query.inner)
        return Printed(inner.operator, [inner.columns[query.place]])

    # -- groups and windows ------------------------------------------------------------------------

    def _grouped(
        self,
        block: Block,
        below: Operator,
        above: Sequence[Expr],
        computed: dict[Expr, ExpressionText],
    ) -> Operator:
        """HashAgg or StreamAgg. `computed` gets the columns of aggregates and of GROUP BY."""
        frame = block.frame
        for expr in (*block.group, *above):
            for node in walk(expr):
                if isinstance(node, Aggregate):
                    for argument in children(node):
                        below = self._applied(frame, below, argument, computed)
        text = partial(self._text, frame, computed=computed)
        groups = [text(key) for key in block.group]
        funcs, folded = [], dict[Expr, ExpressionText]()
        for node in dict.fromkeys(node for expr in above for node in walk(expr)):
            if isinstance(node, Aggregate):
                folded[node] = self._new_column()
                funcs.append(f"funcs:{text(node).text}->{folded[node].text}")
        for key, key_text in zip(block.group, groups, strict=True):
            if not isinstance(key, Column | Outer):
                folded[key] = self._new_column()
                funcs.append(f"funcs:firstrow({key_text.text})->{folded[key].text}")
        others = dict.fromkeys(
            text(column).text for expr in above for column in columns_outside(expr, folded)
        )
        funcs += [f"funcs:firstrow({column})->{column}" for column in others]
        computed |= folded
        step = self.trace.step(block, "groups")
        if not block.group:
            return self._make("StreamAgg", 1.0, ", ".join(funcs), [below], step=step)
        rows = grouped(groups, below.rows or 0.0, self._estimates)
        info = [f"group by:{sorted_texts(groups)}", *["with rollup"] * block.rollup, *funcs]
        return self._make("HashAgg", rows, ", ".join(info), [below], step=step)

    def _windows(
        self,
        frame: Frame,
        below: Operator,
        exprs: Iterable[Expr],
        computed: dict[Expr, ExpressionText],
    ) -> Operator:
        """A Window for each definition of one, with all its functions."""
        definitions: dict[tuple[Any, ...], list[Windowed]] = {}
        for node in dict.fromkeys(node for expr in exprs for node in walk(expr)):
            if isinstance(node, Windowed):
                key = node.partition, node.order, repr(node.frame)
                definitions.setdefault(key, []).append(node)
        text = partial(self._text, frame, computed=computed)
        columns = dict[Expr, ExpressionText]()
        for nodes in definitions.values():
            funcs = []
            for node in nodes:
                columns[node] = self._new_column()
                funcs.append(f"{text(node).text}->{columns[node].text}")
            info = f"{', '.join(funcs)} over({over_text(nodes[0], text)})"
            below = self._make("Window", below.rows or 0.0, info, [below], actual=below.done.rows)
        computed |= columns
        return below

    # -- FROM and conditions -----------------------------------------------------------------------

    def _source(self, block: Block) -> Operator:
        """FROM and WHERE."""
        frame = block.frame
        self._names[frame] = {}
        self._fixed[frame] = set()
        self._places[frame] = {}
        for position, (leaf, _) in enumerate(frame.sources):
            self._places[frame].setdefault(leaf, []).append(position)
        where = [] if block.where is None else conjuncts_of(block.where)
        for part in where:
            self._fixed[frame] |= set(equal_to_constant(part))
        key: LoopKey = block if block.source is None else block.source
        traced = self.trace.loops.get(key)
        if traced is None:
            checks = [unchecked(part) for part in where]
            items = [] if block.source is None else [block.source]
            self._write(key, items, checks, frame, frozenset())
        else:
            self._loops |= self.trace.loops
        if block.source is None:
            top = self._make("TableDual", 1.0, "rows:1", actual=1)
            return self._checked(frame, top, self._loops[block][0].conditions, {})
        return self._nested(frame, block.source).operator

    def _write(
        self,
        key: LoopKey,
        items: Sequence[FromItem],
        conditions: list[LoopCondition],
        frame: Frame,
        read: frozenset[int],
    ) -> None:
        """Loops in the order of the text, for a block that the row engine cannot read."""
        waiting, flat = list(conditions), list[FromItem]()
        remaining = list(items)
        while remaining:
            item = remaining.pop(0)
            if isinstance(item, Cross):
                remaining[:0] = item.items
            elif isinstance(item, Join) and not item.side:
                remaining[:0] = [item.left, item.right]
                waiting += conditions_of(item)
            else:
                flat.append(item)
        loops = [ReadLoop(item) for item in flat] or [ReadLoop(None)]
        for loop in loops:
            before, own = read, frozenset[int]()
            if loop.item is not None:
                own = self._places_of(frame, loop.item)
                read |= own
            ready = [
                check
                for check in waiting
                if (not check.is_whole and columns_of(check.expr) <= read) or loop is loops[-1]
            ]
            ready.sort(key=lambda check: (check.is_whole, not columns_of(check.expr) <= own))
            waiting = [check for check in waiting if check not in ready]
            loop.conditions = ready
            loop.early = sum(columns_of(c.expr) <= own and not c.is_whole for c in ready)
            if isinstance(loop.item, Join):
                preserved, other = sides_of(loop.item)
                places = self._places_of(frame, preserved)
                early = [c for c in ready if columns_of(c.expr) <= places and not c.is_whole]
                self._write(preserved, [preserved], early, frame, before)
                places |= before
                self._write(other, [other], conditions_of(loop.item), frame, places)
        self._loops[key] = loops

    def _places_of(self, frame: Frame, item: FromItem) -> frozenset[int]:
        """The positions of an item's columns in the row of the frame."""
        leaves, places = [item], frozenset[int]()
        while leaves:
            leaf = leaves.pop()
            if isinstance(leaf, Cross):
                leaves += leaf.items
            elif isinstance(leaf, Join):
                leaves += [leaf.left, leaf.right]
            else:
                places |= frozenset(self._places[frame].get(leaf, ()))
        return places

    def _nested(self, frame: Frame, key: FromItem) -> _Item:
        """The loops over an item, as joins from the left to the right."""
        loops = self._loops[key]
        places = [self._places_of(frame, loop.item) for loop in loops if loop.item is not None]
        every = frozenset[int]().union(*places)
        top: Operator | None = None
        linked, first_by = list[LoopCondition](), list[Expr]()
        for loop, own in zip(loops, places, strict=True):
            assert loop.item is not None
            item = _ITEMS[type(loop.item)](self, frame, loop, loop.item)
            conditions = self._conditions(loop, own, every, is_alone=top is None)
            linked += conditions.elsewhere
            side = self._checked(frame, item.operator, conditions.own, {}, item.by)
            self._decide(frame, loop, item.by)
            whole = conditions.whole
            if top is None:
                top, first_by = side, item.by
                whole = conditions.links + whole  # they name no columns
            else:
                links = conditions.links
                tested = conditions.own[0 if loop.is_repeated else loop.early :] + links
                actual = tested[-1].after.rows if tested else loop.joined.rows
                top = self._join(frame, top, side, "inner join", links, item.by, own, actual)
                top.done.own_s += loop.joined.own_s
            top = self._checked(frame, top, whole, {})
        assert top is not None
        return _Item(top, linked, first_by)

    def _conditions(
        self, loop: ReadLoop, own: frozenset[int], every: frozenset[int], is_alone: bool
    ) -> _Conditions:
        """The conditions of a loop by where they are printed.

        `own` and `every`: the columns of its item, and of all items around it. `is_alone`: no item
        is read before it."""
        checks = loop.conditions
        if isinstance(loop.item, Join):  # the preserved item was checked before
            inner = self._loops[sides_of(loop.item)[0]]
            early = {check.expr for other in inner for check in other.conditions}
            checks = [check for check in checks if check.expr not in early]
        is_alone = is_alone or loop.is_repeated or self._is_duck
        parts = _Conditions([], [], [], [])
        for n, check in enumerate(checks):
            columns = columns_of(check.expr)
            if check.is_whole:
                parts.whole.append(check)
            elif not columns <= every:
                parts.elsewhere.append(check)
            elif columns <= own and (is_alone or n < loop.early):
                parts.own.append(check)
            else:
                parts.links.append(check)
        return parts

    def _leaf(self, frame: Frame, loop: ReadLoop, item: FromLeaf) -> _Item:
        columns, operator, by = _LEAVES[type(item)](self, frame, loop, item)
        for position in self._places[frame].get(item, ()):
            self._names[frame][position] = columns(frame.sources[position][1])
        return _Item(operator, [], by)

    def _outer_join(self, frame: Frame, loop: ReadLoop, join: Join) -> _Item:
        preserved, other = sides_of(join)
        left, right = self._nested(frame, preserved), self._nested(frame, other)
        places = self._places_of(frame, other)
        side = f"{join.side.lower()} outer join"
        sides, actual = (left.operator, right.operator), loop.joined.rows
        top = self._join(frame, *sides, side, right.linked, right.by, places, actual)
        top.done.own_s += loop.joined.own_s
        top.rows = max(top.rows or 0.0, left.operator.rows or 0.0)
        return _Item(top, left.linked, left.by)

    def _join(
        self,
        frame: Frame,
        left: Operator,
        right: Operator,
        kind: str,
        links: Sequence[LoopCondition],
        by: Sequence[Expr],
        own: frozenset[int],
        actual: int | None,
    ) -> Operator:
        """The join of what was read before with an item, whose columns are `own`. `by`: the
        conditions that give the values of its key."""
        equal, others, different = dict[str, None](), dict[str, None](), list[float]()
        keys: list[tuple[str, str]] = []
        for check in links:
            for part in conjuncts_of(check.expr):
                text = self._text(frame, part)
                sides = sides_of_equality(part, own)
                if sides is None:
                    others |= dict.fromkeys(one.text for one in conjuncts(text))
                    continue
                theirs, mine = (self._text(frame, side) for side in sides)
                assert isinstance(part, Call)
                name = "nulleq" if part.function == "<=>" else "eq"
                equal[CallText(name, (theirs, mine)).text] = None
                keys.append((theirs.text, mine.text))
                outside = self._different(frame, sides[0], theirs, left)
                inside = self._different(frame, sides[1], mine, right)
                different += [max(outside, inside)] * (part not in by)
        info = [kind if equal or others else f"CARTESIAN {kind}"]
        if by:
            info.append(f"inner:{right.name}")
            for title, texts in zip(("outer", "inner"), zip(*keys, strict=True), strict=False):
                info.append(f"{title} key:{', '.join(dict.fromkeys(texts))}")
            info += [f"equal cond:{', '.join(equal)}"] if equal else []
        elif equal:
            info.append(f"equal:[{' '.join(equal)}]")
        if others:
            info.append(f"other cond:{', '.join(sorted(others))}")
        left_rows, right_rows = left.rows or 0.0, right.rows or 0.0
        rows = joined(left_rows, right_rows, different)
        if by:
            return self._by_key(left, right, ", ".join(info), rows, actual)
        join = self._make("HashJoin", rows, ", ".join(info), actual=actual)
        return lookup(join, [right], left)

    def _by_key(
        self, left: Operator, right: Operator, info: str, rows: float, actual: int | None
    ) -> Operator:
        """An IndexJoin: the right side is read for each row of the left one."""
        scaled = [right]
        for operator in scaled:  # estimates were for one row
            operator.rows = (operator.rows or 0.0) * (left.rows or 0.0)
            self._steps += operator.rows * (operator.name in _READS)
            scaled += operator.below[operator.name == "HashJoin" :]  # without what is read once
        return lookup(self._make("IndexJoin", rows, info, actual=actual), [left], right)

    def _different(self, frame: Frame, expr: Expr, text: ExpressionText, side: Operator) -> float:
        """The number of distinct values of one side of an equality; 1 for a constant."""
        rows = side.rows or 0.0
        if not columns_of(expr):
            return 1.0
        if isinstance(expr, Column) and expr.position in self._fixed[frame]:
            return 1.0
        if isinstance(text, ColumnText) and text.table is not None:
            estimate = self._estimates.get(text.table.info.id)
            if estimate is not None:
                return estimate.different(text.position)
        return DISTINCT * rows

    # -- items of FROM -----------------------------------------------------------------------------

    def _table(
        self, frame: Frame, loop: ReadLoop, item: TableRef
    ) -> tuple[Callable[[int], ExpressionText], Operator, list[Expr]]:
        scan = item.scan
        if not isinstance(scan, TableScan):
            place = f"table:{scan.title.rpartition('.')[2]}"
            top = Operator("MemTableScan", PSEUDO_ROWS, access=place)
            top.done = loop.read
            return lambda n: ColumnText(f"{scan.title}.{scan.names[n]}".lower()), top, []
        table = scan.table
        self._first_table = self._first_table or table
        if loop not in self._reads:
            self.begin(loop)
        read = self._reads[loop]
        if self._is_measured and read.top.done.rows is None:  # it was never read
            for operator in (read.top, *read.top.below):
                operator.done.count(0)

        def name(place: int) -> ExpressionText:
            if 0 <= place < scan.handle_position:
                return stored_column(table, place)
            title = f"{table.database.db_name.O}.{table.info.name.O}._tidb_rowid"
            return ColumnText(title.lower())

        by = [] if read.scan is None else _used(loop)
        return name, read.top, by

    def begin(self, loop: ReadLoop) -> None:
        """The operators that read a stored table in a loop; its steps become theirs."""
        item = loop.item
        assert isinstance(item, TableRef) and isinstance(item.scan, TableScan)
        scan = item.scan
        estimate = table_estimate(scan, self._explaining)
        self._estimates.setdefault(scan.table.info.id, estimate)
        if self._is_duck or loop.path is None:
            read, reads = _Read(scan_operators(scan, estimate, self._explaining)[0]), Reads()
        elif _used(loop):
            keyed = keyed_operators(loop.path, scan.title, estimate, self._context)
            read, reads = _Read(keyed.top, keyed.scan), keyed.reads
            self._keyed.add(id(read.top))
        else:
            order = ScanOrder(scan.title)
            top, reads, _ = path_operators(loop.path, order, estimate, self._context)
            read = _Read(top)
        self._reads[loop] = read
        self._estimate_of[id(read.top)] = estimate
        loop.read, loop.reads = read.top.done, reads
        if read.scan is None:
            self._steps += read.top.rows or 0.0

    def _decide(self, frame: Frame, loop: ReadLoop, by: Sequence[Expr]) -> None:
        """Print the conditions that give the values of a key."""
        read = self._reads.get(loop)
        if read is None or read.scan is None:
            return
        texts, columns = [], []
        own = frozenset[int]() if loop.item is None else self._places_of(frame, loop.item)
        for expr in by:
            texts.append(self._decided.get(expr) or self._text(frame, expr).text)
            sides = sides_of_equality(expr, own)
            if sides is not None:
                columns.append(self._text(frame, sides[0]).text)
        if columns and read.scan.key is not None:
            read.scan.key = read.scan.key._replace(columns=",".join(columns))
        read.scan.info = f"range: decided by [{' '.join(texts)}], {read.scan.info}"

    def _derived(
        self, frame: Frame, loop: ReadLoop, item: DerivedRef
    ) -> tuple[Callable[[int], ExpressionText], Operator, list[Expr]]:
        printed = self.of(item.query)
        return printed.columns.__getitem__, printed.operator, []

    def _common_ref(
        self, frame: Frame, loop: ReadLoop, item: CommonRef
    ) -> tuple[Callable[[int], ExpressionText], Operator, list[Expr]]:
        number, printed = self._commons[item.table.name]
        position = self._places[frame].get(item, [0])[0]
        title = frame.fields[position].table if frame.fields else item.name
        rows, actual = printed.operator.rows or 0.0, printed.operator.done.rows
        if item.table.is_round:
            top = self._make("CTETable", rows, f"Scan on CTE_{number}")
        else:
            place = f"CTE:{title}"
            top = self._make("CTEFullScan", rows, f"data:CTE_{number}", (), place, actual=actual)
        if item.table.recursion is not None:
            return lambda n: ColumnText(f"{title}.{item.table.columns[n].name}".lower()), top, []
        return printed.columns.__getitem__, top, []

    # -- conditions and subqueries -----------------------------------------------------------------

    def _checked(
        self,
        frame: Frame,
        below: Operator,
        checks: Sequence[LoopCondition],
        computed: dict[Expr, ExpressionText],
        by: Sequence[Expr] = (),
    ) -> Operator:
        """Conditions, one after another: Selections, and joins with the queries in them."""
        waiting: list[LoopCondition] = []
        computed = dict(computed)

        def selected() -> Operator:
            if not waiting:
                return below
            texts = conjuncts(*(self._text(frame, check.expr, computed) for check in waiting))
            others = [self._text(frame, c.expr, computed) for c in waiting if c.expr not in by]
            rows, actual = self._selected_rows(below, others), waiting[-1].after.rows
            top = self._make("Selection", rows, sorted_texts(texts), [below], actual=actual)
            top.done.own_s = sum(check.after.own_s for check in waiting)
            waiting.clear()
            return top

        for check in checks:
            semi = semi_join_of(check.expr)
            if semi is not None:
                below = selected()
                below = self._semi_joined(frame, below, check, semi, computed, check.expr in by)
                continue
            if subqueries_in(check.expr):
                below = self._applied(frame, selected(), check.expr, computed)
            waiting.append(check)
        return selected()

    def _selected_rows(self, below: Operator, conditions: Sequence[ExpressionText]) -> float:
        """Estimated rows after conditions. An access path has counted its own ones already."""
        rows, estimate = below.rows or 0.0, self._estimate_of.get(id(below))
        if estimate is None:
            return rows * OTHER
        share = estimate.share_of(conjuncts(*conditions))
        if id(below) in self._keyed:
            return rows * share
        remaining = estimate.rows * share
        return min(rows, remaining) if rows < estimate.rows else remaining

    def _semi_joined(
        self,
        frame: Frame,
        below: Operator,
        check: LoopCondition,
        semi: SemiJoin,
        computed: dict[Expr, ExpressionText],
        by_key: bool,
    ) -> Operator:
        """[NOT] IN (SELECT ..) or [NOT] EXISTS (..) as a condition."""
        subquery, word = semi
        for operand in subquery.operands:
            below = self._applied(frame, below, operand, computed)
        inner = self.of(subquery.query, is_tested=subquery.kind == "exists")
        operands = [self._text(frame, operand, computed).text for operand in subquery.operands]
        texts = [column.text for column in inner.columns[: len(operands)]]
        pairs = [f"eq({a}, {b})" for a, b in zip(operands, texts, strict=True)]
        self._decided[check.expr] = " ".join(pairs)
        rows, actual = (below.rows or 0.0) * DISTINCT, check.after.rows
        if by_key:
            info = [word, f"inner:{below.name}", f"outer key:{', '.join(texts)}"]
            info += [f"inner key:{', '.join(operands)}", f"equal cond:{', '.join(pairs)}"]
            number = (inner.operator.rows or 0.0) * (below.rows or 0.0)
            return self._by_key(inner.operator, below, ", ".join(info), number, actual)
        info = [word if pairs else f"CARTESIAN {word}"]
        info += [f"equal:[{' '.join(pairs)}]"] * bool(pairs)
        top = self._with_subquery(subquery, below, inner.operator, ", ".join(info), rows, actual)
        top.done.own_s = check.after.own_s
        return top

    def _applied(
        self, frame: Frame, below: Operator, expr: Expr, computed: dict[Expr, ExpressionText]
    ) -> Operator:
        """Queries in an expression, whose values become columns: `computed` gets them."""
        for subquery in reversed(subqueries_in(expr)):
            if subquery in computed:
                continue
            inner = self.of(subquery.query, is_tested=subquery.kind == "exists")
            is_scalar = subquery.kind == "scalar"
            value = inner.columns[0] if is_scalar else None
            operands = [self._text(frame, operand, computed).text for operand in subquery.operands]
            computed[subquery] = value if isinstance(value, ColumnText) else self._new_column()
            name = function_name(subquery.operator)
            pairs = [
                f"{name}({a}, {b.text})" for a, b in zip(operands, inner.columns, strict=False)
            ]
            word = "left outer join" if is_scalar else "left outer semi join"
            title = "equal" if subquery.kind in ("in", SEMI) else subquery.kind
            info = f"{word}, {title}:[{' '.join(pairs)}]" if pairs else f"CARTESIAN {word}"
            rows, actual = below.rows or 0.0, below.done.rows
            below = self._with_subquery(subquery, below, inner.operator, info, rows, actual)
        return below

    def _with_subquery(
        self,
        subquery: Subquery,
        below: Operator,
        inner: Operator,
        info: str,
        rows: float,
        actual: int | None,
    ) -> Operator:
        """An Apply if the query depends on the row, else a HashJoin with its only result."""
        if is_correlated(subquery.query):
            return lookup(self._make("Apply", rows, info, actual=actual), [below], inner)
        return lookup(self._make("HashJoin", rows, info, actual=actual), [inner], below)

    # -- texts -------------------------------------------------------------------------------------

    def _new_column(self) -> ColumnText:
        return ColumnText(self._explaining.column(self._first_table))

    def _text(
        self, frame: Frame, expr: Expr, computed: Mapping[Expr, ExpressionText] | None = None
    ) -> ExpressionText:
        """An expression over the rows of a frame. `computed`: parts of it that are columns now."""
        kinds = {type(part) for part in computed or ()}

        def leaf(node: Expr) -> ExpressionText | None:
            if computed and type(node) in kinds and node in computed:
                return computed[node]
            if not isinstance(node, Column | Outer):
                return None
            owner: Frame | None = frame
            for _ in range(node.depth if isinstance(node, Outer) else 0):
                owner = None if owner is None else owner.parent
            names = {} if owner is None else self._names.get(owner, {})
            return names.get(node.position) or ColumnText((node.full or node.name).lower())

        return of_bound(expr, column_name, self._context, leaf)


_QUERIES: dict[type, Callable[[QueryOperators, Any], Printed]] = {
    Block: QueryOperators._block,
    SetOperation: QueryOperators._set_operation,
    RowValues: QueryOperators._row_values,
    OrderedQuery: QueryOperators._ordered_query,
    OneColumn: QueryOperators._one_column,
    With: QueryOperators._with,
}
_ITEMS: dict[type, Callable[[QueryOperators, Frame, ReadLoop, Any], _Item]] = {
    TableRef: QueryOperators._leaf,
    DerivedRef: QueryOperators._leaf,
    CommonRef: QueryOperators._leaf,
    Join: QueryOperators._outer_join,
}
_LEAVES: dict[
    type,
    Callable[
        [QueryOperators, Frame, ReadLoop, Any],
        tuple[Callable[[int], ExpressionText], Operator, list[Expr]],
    ],
] = {
    TableRef: QueryOperators._table,
    DerivedRef: QueryOperators._derived,
    CommonRef: QueryOperators._common_ref,
}


# -- tables ----------------------------------------------------------------------------------------


def table_estimate(scan: TableScan, explaining: ExplainedStatement) -> TableEstimate:
    """The estimates of a table in FROM, for the partitions that are read."""
    context = explaining.context
    parts = scan.table.parts if scan.choice is None else scan.choice.parts(context)
    return TableEstimate(scan.table, parts, context)


def scan_operators(
    scan: TableScan, estimate: TableEstimate, explaining: ExplainedStatement
) -> tuple[Operator, Reads]:
    """The operators that read a stored table for DuckDB, and their reads."""
    top = ""
    if scan.top is not None:
        top = f"first {scan.top.rows} by {stored_column(scan.table, scan.top.position).text}"
    path = scan.path
    if path is None:
        path = Path(scan.table, covers=False)
        path = path if scan.choice is None else Everywhere(path, scan.choice)
    order = ScanOrder(scan.title, top=top)
    operator, reads, _ = path_operators(path, order, estimate, explaining.context)
    return operator, reads


def _inner(path: Path) -> Path:
    """The path of the logical table."""
    return path.path if isinstance(path, Everywhere) else path


def _used(loop: ReadLoop) -> list[Expr]:
    """The conditions on other items and queries that give the values of the key."""
    inner = None if loop.path is None else _inner(loop.path)
    if not isinstance(inner, Matched):
        return []
    positions = {term.position for term in (*inner.match.equal, *inner.match.range)}
    return [condition for position, condition in loop.by if position in positions]
