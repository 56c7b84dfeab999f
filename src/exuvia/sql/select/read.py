"""SELECT from one table, row by row: by key, in the table's or an index's order, or sorted.

    path -> WHERE -> ORDER BY -> select list -> DISTINCT -> LIMIT          or one row of aggregates

What needs more (joins, GROUP BY, HAVING, windows, subqueries) is not for this module: `plan` says
None. A big table read without a key and not in its order is left to DuckDB too. FOR UPDATE: the
rows found must not change before the transaction commits, nor be locked by another one (FOR SHARE:
but FOR SHARE). SKIP LOCKED leaves out rows that another session holds, before LIMIT counts
them.

The select list of a simple query: names, types and how to get each value from a row.

    *, t.*          every public column            a            a plain column, by position
    a + 1 AS b      an expression                  COUNT(*)     an aggregate

A column without alias is named by its own name, an expression by its text as written.

COUNT, SUM, AVG, MIN, MAX over all rows found, without grouping, and with DISTINCT.

    COUNT    int, 0 of no rows                 SUM, AVG    Decimal of exact numbers, else float;
                                                           NULL of none
    MIN MAX  by the argument's collation       anything else: not here (DuckDB has it)
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import islice
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import WouldWait
from exuvia.base.interruption import checked
from exuvia.base.limits import RESULT_COLUMNS
from exuvia.base.memory import VALUE_BYTES, size_of, size_of_rows
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrBadTable,
    ErrInvalidGroupFuncUse,
    ErrNoTablesUsed,
    ErrTooManyFields,
)
from exuvia.base.types import Flag, Value
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.temporal import shift_zone
from exuvia.sql import expressions, types, walks
from exuvia.sql.access.filtering import Filter, FilteredPlan, Limit, SortKey, limit_of
from exuvia.sql.access.single_table import ROW_ID, TableSource, source_of, tree_of
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.scope import is_shifted, labelled, stored
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.expr import (
    Aggregate,
    Column,
    Constant,
    Outer,
    Subquery,
    Windowed,
    walk,
)
from exuvia.sql.expressions import Compiled, Visible, equal_key
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import item_texts
from exuvia.sql.result import OutputColumn, PlanColumns, Result, Row
from exuvia.sql.select import relational as engine
from exuvia.sql.select.folding import FOLDS, distinct, in_digits
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan


class OutputItem(NamedTuple):
    """One output column. `position` is set for a plain column, `compiled` for other expressions,
    `aggregate` for COUNT, SUM, ... `zone`: in which the answer shows a stored TIMESTAMP."""

    column: OutputColumn
    tree: Tree
    position: int | None = None
    compiled: Compiled | None = None
    aggregate: Aggregate | None = None
    zone: tzinfo | None = None


_NOT_SIMPLE = (Subquery, Windowed, Outer)


def items_of(
    node: exp.Select, visible: list[Visible], binding: Binding, kept_stored: bool = False
) -> list[OutputItem] | None:
    """The items; None where one of them needs more than a row at a time. Raises 1054, 1064, 1117.
    `kept_stored`: TIMESTAMPs are answered as they are stored."""
    if not node.expressions:
        raise Misplaced("")
    texts = item_texts(node)
    found: list[OutputItem] = []
    for n, tree in enumerate(node.expressions):
        text = texts[n] if len(texts) == len(node.expressions) else tree.sql("mysql")
        expanded = _star(tree, visible, binding)
        if expanded is not None:
            found += expanded
            if len(found) > RESULT_COLUMNS:
                raise ErrTooManyFields()
            continue
        item = _item(tree, text, visible, binding)
        if item is None:
            return None
        found.append(item)
    if not kept_stored:
        found = [_in_zone(item, binding.zone) for item in found]
    aggregates = sum(item.aggregate is not None for item in found)
    return found if aggregates in (0, len(found)) else None


def _star(tree: Tree, visible: list[Visible], binding: Binding) -> list[OutputItem] | None:
    """The columns of * or t.*, None for anything else. Raises 1051, 1096."""
    if isinstance(tree, exp.Star):
        if not visible:
            raise ErrNoTablesUsed()
        wanted = visible
    elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
        wanted = [each for each in visible if each.alias.lower() == tree.table.lower()]
        if not wanted:
            raise ErrBadTable(tree.table)
    else:
        return None
    items = []
    for table in wanted:
        for position in sorted(table.positions.values()):
            column = table.columns[position]
            binding.check_column(column)
            tree, output = exp.column(column.name.O), output_of(column, table)
            items.append(OutputItem(output, tree, table.offset + position))
    return items


def _in_zone(item: OutputItem, zone: tzinfo | None) -> OutputItem:
    """A stored TIMESTAMP as the session's zone shows it."""
    kind = item.column.type
    if not is_shifted(kind, zone):
        return item
    local = types.datetime(types.fraction_digits(kind))
    return item._replace(column=item.column._replace(type=local, shown=kind), zone=zone)


def output_of(column: ColumnInfo, table: Visible, name: str = "") -> OutputColumn:
    """What a client is told of a table's column."""
    return OutputColumn(
        name or column.name.O,
        column.type,
        table.alias,
        table.origin or table.alias,
        column.name.O,
        table.database,
    )


def _item(tree: Tree, text: str, visible: list[Visible], binding: Binding) -> OutputItem | None:
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    name = tree.alias if isinstance(tree, exp.Alias) else ""
    if walks.find(inner, exp.Select, exp.Window):
        return None
    bound = expressions.bound(inner, visible, binding, "field list", aggregates=True)
    if any(isinstance(node, _NOT_SIMPLE) for node in walk(bound)):
        return None
    bound = stored(bound)
    if isinstance(bound, Column):
        return _plain(bound, inner, name, visible, binding)
    literal = inner.expression if isinstance(inner, exp.Introducer) else inner
    if isinstance(literal, exp.Literal) and literal.is_string:
        text = literal.name
    column = OutputColumn(name or text, bound.type)
    if isinstance(bound, Aggregate):
        return OutputItem(column, inner, aggregate=bound)
    if any(isinstance(node, Aggregate) for node in walk(bound)):
        return None
    return OutputItem(column, inner, compiled=expressions.compiled_bound(bound))


def _plain(
    bound: Column, tree: Tree, name: str, visible: list[Visible], binding: Binding
) -> OutputItem:
    for each in visible:
        position = bound.position - each.offset
        if 0 <= position < len(each.columns):
            shown = name or (tree.name if isinstance(tree, exp.Column) else "")
            if each.is_view and not name:
                shown = labelled(shown, each.columns[position].name.O.upper(), binding)
            column = output_of(each.columns[position], each, shown)
            return OutputItem(column, tree, bound.position)
    return OutputItem(OutputColumn(name or bound.name, bound.type), tree, bound.position)


# -- read aggregates -------------------------------------------------------------------------------

_SUPPORTED = frozenset(("count", "sum", "avg", "min", "max"))
INTERRUPT_ROWS = 1024


def is_supported(found: Aggregate | None) -> bool:
    """Whether the aggregate is one of this module's (or none at all)."""
    if found is None:
        return True
    return found.function in _SUPPORTED and len(found.arguments) <= 1


class Accumulators:
    """One run over the rows."""

    def __init__(self, items: Sequence[OutputItem]) -> None:
        self._aggregates = [item.aggregate for item in items if item.aggregate is not None]
        self._calls = [_call(each) for each in self._aggregates]
        self._zones = [item.zone for item in items if item.aggregate is not None]
        self._values: list[list[Value]] = [[] for _ in items]
        self._count = 0

    def of_columns(self, rows: Sequence[Row]) -> list[Row]:
        """The one row of the answer, from rows of the arguments' values, one beside the other."""
        self._count = len(rows)
        place = 0
        for found, call in zip(self._values, self._calls, strict=True):
            if call is not None:
                found += [row[place] for row in rows if row[place] is not None]
                place += 1
        return self._answer()

    def rows(self, pairs: Iterator[tuple[bytes, Row]], context: Context) -> list[Row]:
        """The one row of the answer."""
        wanted = [
            (call, found.append) for call, found in zip(self._calls, self._values, strict=True)
        ]
        used = [(call, append) for call, append in wanted if call is not None]
        count = 0
        for count, (_, row) in enumerate(pairs, 1):
            for call, append in used:
                value = call(row, context)
                if value is not None:
                    append(value)
            if count % INTERRUPT_ROWS == 0:
                context.tracker.keep(INTERRUPT_ROWS * len(used) * VALUE_BYTES)
        self._count = count
        return self._answer()

    def _answer(self) -> list[Row]:
        found = [
            self._result(each, values)
            for each, values in zip(self._aggregates, self._values, strict=True)
        ]
        return [
            [
                value if zone is None or value is None else shift_zone(value, None, zone)
                for value, zone in zip(found, self._zones, strict=True)
            ]
        ]

    def _result(self, aggregate: Aggregate, found: list[Value]) -> Value:
        if not aggregate.arguments:
            return self._count
        if aggregate.distinct:
            key = equal_key(aggregate.arguments[0].type)
            found = list({key(value): value for value in found}.values())
        if aggregate.function == "count":
            return len(found)
        value = FOLDS[aggregate.function](aggregate, found) if found else None
        return in_digits(value, aggregate)


def _call(aggregate: Aggregate) -> Callable[[Row, Context], Value] | None:
    return compile_expression(aggregate.arguments[0]) if aggregate.arguments else None


# -- one table -------------------------------------------------------------------------------------

MOST_ROWS = 20_000
FEW_ROWS = 256
"""Rows of a range that the wire's own thread reads for one client: half a millisecond."""
_SIMPLE = frozenset(
    ("expressions", "from_", "from", "where", "order", "limit", "offset", "distinct", "locks")
)


def is_simple(node: exp.Select) -> bool:
    """Whether it has only the clauses this module does."""
    used = {name for name, value in node.args.items() if value}
    distinct = node.args.get("distinct")
    if used - _SIMPLE or (distinct is not None and distinct.args.get("on")):
        return False
    where, order = node.args.get("where"), node.args.get("order")
    return not any(part is not None and walks.find(part, exp.Select) for part in (where, order))


def plan(node: exp.Select, binding: Binding, kept_stored: bool = False) -> "ReadRows | None":
    """The plan of a simple query on one table that is stored; None for any other. `kept_stored`:
    TIMESTAMPs are answered as they are stored.

    Raises Refused."""
    tree = tree_of(node)
    if tree is None or not is_simple(node) or binding.is_computed(tree.db, tree.name):
        return None
    source = source_of(tree, binding)
    if not source.table.info.is_stored or _asks_row_ids(node) or not _orders_selected(node):
        return None
    items = items_of(node, [source.visible], binding, kept_stored)
    if items is None or not all(is_supported(item.aggregate) for item in items):
        return None
    return ReadRows(node, source, items, binding, kept_stored)


def _orders_selected(node: exp.Select) -> bool:
    """Whether DISTINCT rows are ordered by what they have: select/block.py judges the others."""
    order = node.args.get("order")
    if order is None or node.args.get("distinct") is None:
        return True
    items = [item.unalias() for item in node.expressions]
    names = {item.alias_or_name.lower() for item in node.expressions}
    return all(
        isinstance(key, exp.Literal)
        or key in items
        or (isinstance(key, exp.Column) and not key.table and key.name.lower() in names)
        for key in (each.this for each in order.expressions)
    )


def _asks_row_ids(node: exp.Select) -> bool:
    return any(column.name.lower() == ROW_ID for column in walks.find_all(node, exp.Column))


class ReadRows(FilteredPlan):
    """See the module."""

    def __init__(
        self,
        node: exp.Select,
        source: TableSource,
        items: Sequence[OutputItem],
        binding: Binding,
        kept_stored: bool,
    ) -> None:
        super().__init__(source.table, source.database, source.name)
        self.columns = PlanColumns(item.column for item in items)
        self.node = node
        self.items = items
        self._kept_stored = kept_stored
        self._zones = zones_of(items)
        self.is_aggregated = items[0].aggregate is not None
        self.is_distinct = node.args.get("distinct") is not None
        self._clauses: list[exp.Lock] = node.args.get("locks") or []
        self.locks = bool(self._clauses)
        self._exclusive = any(clause.args.get("update") for clause in self._clauses)
        limit = limit_of(clause_value(node, "limit"), clause_value(node, "offset"))
        late = self.is_distinct or self.is_aggregated
        order = [] if self.is_aggregated else order_keys(node, items, source, binding)
        where = node.args.get("where")
        self.filter = Filter(
            source,
            where.this if where else None,
            order,
            None if late else limit,
            binding,
            _used(node, source),
        )
        self.by_statistics = self.filter.by_statistics
        self.late_limit: Limit | None = limit if late else None
        self._always_short = self.filter.path.short
        self.short = self._always_short or (self.filter.path.bounded and limit is None)
        self._counts = where is None and not self.locks and all(map(_counts_rows, items))
        self._project = None if self.is_aggregated else projection(items)
        self._plain = (
            None if self.locks or self.filter.path.table.is_partitioned else _plain_of(items)
        )
        shown = [item.position for item in items if item.position in self.filter.texts]
        self._texts = [position for position in shown if position is not None]
        self._computes = any(item.compiled is not None for item in items)
        self._select = None if self._plain is None else source.table.selecting(self._plain)
        self.reads_few = (
            self.short and limit is None and self._plain is not None and self.filter.is_exact
        )

    def check(self, context: Context) -> None:
        super().check(context)
        if self._exclusive:
            context.demand_locking(self.table)

    @property
    def lock_clauses(self) -> Sequence[exp.Lock]:
        """Its FOR UPDATE, FOR SHARE."""
        return self._clauses

    def leaves(self, context: Context) -> bool:
        """Whether it is known before it runs that the relational engine has to run it."""
        few = self.locks or not self.filter.meets_all or self.counts(context)
        return not few and self.filter.is_beyond(MOST_ROWS, context)

    def counts(self, context: Context) -> bool:
        """Whether the store counts rows, and none is read."""
        return self._counts and self.filter.path.count(context, 0) is not None

    def run(self, context: Context) -> Result:
        """The rows; through the relational engine where there are too many for this one."""
        found = self.here(context)
        return self._relational(context).run(context) if found is None else found

    def _relational(self, context: Context) -> Plan:
        return engine.plan(self.node, context, stored=self._kept_stored)

    def batches(self, context: Context) -> Iterator[Sequence[Row]]:
        found = self.here(context)
        if found is None:
            yield from self._relational(context).batches(context)
        else:
            yield found.rows

    def here(self, context: Context) -> Result | None:
        """The answer; None where there are too many rows."""
        if self._counts:
            number = self.filter.path.count(context)
            if number is not None:
                answer: list[Row] = [[number] * len(self.items)]
                return Result(self.columns, self.cut(answer, context))
        skipped = None
        if self.locks:
            context.demand_writable(self.table, writes=False)
            context.writing(self.table, not self._exclusive)
            skipped = self._be_patient(context)
        at_once = 0
        if not self._always_short and context.session.services.row_locks.is_unwaiting():
            at_once = FEW_ROWS
        try:
            opened = self.filter.rows(context, -1 if self.locks else MOST_ROWS, skipped, at_once)
        except WouldWait:
            self.short = self.reads_few = False  # it is no short one, as it turns out
            raise
        if opened is None:
            return None
        pairs, found = opened
        if self.locks:
            asked = () if skipped is not None else found.keys
            pairs = self._locked(pairs, asked, context)
        if self._computes:
            pairs = checked(pairs)
        project = self._project
        if project is None:
            rows = Accumulators(self.items).rows(pairs, context)
        elif self._texts and not self.filter.meets_all:  # nobody has claimed them
            rows = []
            for _, row in pairs:
                rows.append(project(row, context))
                context.tracker.keep(sum([size_of(row[position]) for position in self._texts]))
        else:
            rows = [project(row, context) for _, row in pairs]
        if len(rows) > FEW_ROWS:
            context.tracker.keep(size_of_rows(rows, ()))
        if self.is_distinct:
            rows = distinct(rows, self.columns)
        rows = self.cut(rows, context)
        return Result(self.columns, in_zones(rows, self._zones) if self._zones else rows)

    def few(self, context: Context) -> Result | None:
        if self._plain is None or self._select is None:
            return None
        rows = self.filter.few(context, FEW_ROWS, self._plain, self._select)
        if rows is None:
            return None
        if self.is_aggregated:
            rows = Accumulators(self.items).of_columns(rows)
        elif self.is_distinct:
            rows = distinct(rows, self.columns)
        return Result(self.columns, in_zones(rows, self._zones) if self._zones else rows)

    def cut(self, rows: list[Row], context: Context) -> list[Row]:
        """What LIMIT leaves where it can only come last."""
        limit = self.late_limit
        return rows if limit is None else list(islice(rows, *limit.bounds(context)))

    def _be_patient(self, context: Context) -> Callable[[bytes], bool] | None:
        """NOWAIT, WAIT n, SKIP LOCKED; for the last, which handles to leave out."""
        locks, key = context.locks, self.table.row_key
        if locks is None:
            return None
        for clause in self._clauses:
            wait = clause.args.get("wait")
            if wait is False:
                others = locks.others(shared=not self._exclusive)
                return lambda handle: others(key(handle))
            if wait is not None:
                locks.wait_s = 0.0 if wait is True else float(wait.name)
        return None

    def _locked(
        self, pairs: Iterator[tuple[bytes, Row]], asked: Iterable[bytes], context: Context
    ) -> Iterator[tuple[bytes, Row]]:
        lock, row_key = context.txn.lock, self.table.row_key
        exclusive = self._exclusive
        for key in asked:
            lock(key, exclusive)
        for handle, row in pairs:
            lock(row_key(handle), exclusive)
            yield handle, row


def _counts_rows(item: OutputItem) -> bool:
    """COUNT(*), or COUNT of what is never NULL."""
    found = item.aggregate
    if found is None or found.function != "count" or found.distinct:
        return False
    for each in found.arguments:
        if isinstance(each, Column):
            if not Flag(each.type.Flag) & Flag.NOT_NULL:
                return False
        elif not isinstance(each, Constant) or each.value is None:
            return False
    return True


def _plain_of(items: Sequence[OutputItem]) -> tuple[int, ...] | None:
    """Positions of the columns that the items, or their aggregates, are of; None where one of them
    is computed."""
    found: list[int] = []
    for item in items:
        if item.aggregate is None:
            found += [] if item.position is None else [item.position]
            computed = item.position is None
        else:
            arguments = item.aggregate.arguments
            found += [each.position for each in arguments if isinstance(each, Column)]
            computed = not all(isinstance(each, Column) for each in arguments)
        if computed:
            return None
    return tuple(found)


def _used(node: exp.Select, source: TableSource) -> tuple[int, ...] | None:
    """Positions of the columns that the query names, all that are shown where it has a star; None
    where a name may be something else."""
    columns = walks.find_all(node, exp.Column)
    found = {source.resolve(column) for column in columns if not column.is_star}
    if any(not isinstance(star.parent, exp.Count) for star in walks.find_all(node, exp.Star)):
        found.update(n for n, each in enumerate(source.table.info.cols) if not each.hidden)
    return None if None in found else tuple(sorted(n for n in found if n is not None))


def clause_value(node: exp.Select, name: str) -> Tree | None:
    """What LIMIT or OFFSET is given."""
    clause = node.args.get(name)
    return None if clause is None else clause.expression


Project = Callable[[Row, Context], Row]


def projection(items: Sequence[OutputItem]) -> Project:
    """A function from a table's row to the row of the answer."""
    positions = [item.position for item in items]
    if None not in positions:
        plain = [position for position in positions if position is not None]
        if len(plain) == 1:
            (only,) = plain
            return lambda row, context: [row[only]]
        return lambda row, context: [row[position] for position in plain]
    getters = [_getter(item) for item in items]
    return lambda row, context: [getter(row, context) for getter in getters]


def _getter(item: OutputItem) -> Callable[[Row, Context], Value]:
    if item.position is not None:
        position = item.position
        return lambda row, context: row[position]
    if item.compiled is None:
        raise ErrInvalidGroupFuncUse()
    return item.compiled.call


Zones = list[tuple[int, tzinfo]]


def zones_of(items: Sequence[OutputItem]) -> Zones:
    """Places of stored TIMESTAMPs that are shown in a zone; aggregates are shown already."""
    return [
        (place, item.zone)
        for place, item in enumerate(items)
        if item.zone is not None and item.aggregate is None
    ]


def in_zones(rows: list[Row], zones: Zones) -> list[Row]:
    """The rows with stored TIMESTAMPs as the session's zone shows them."""
    for place, zone in zones:
        for row in rows:
            if row[place] is not None:
                row[place] = shift_zone(row[place], None, zone)
    return rows


def order_keys(
    node: exp.Select, items: Sequence[OutputItem], source: TableSource, binding: Binding
) -> list[SortKey]:
    """ORDER BY: a position in the select list, an alias, or an expression. Raises 1054."""
    order = node.args.get("order")
    found = []
    for each in order.expressions if order is not None else ():
        tree = each.this if isinstance(each, exp.Ordered) else each
        descending = bool(isinstance(each, exp.Ordered) and each.args.get("desc"))
        item = named_item(tree, items)
        tree = tree if item is None else item.tree
        bound = expressions.bound(tree, [source.visible], binding, "order clause")
        position = source.resolve(tree) if isinstance(tree, exp.Column) else None
        found.append(SortKey(expressions.compiled_bound(stored(bound)), descending, position))
    return found


def named_item(tree: Tree, items: Sequence[OutputItem]) -> OutputItem | None:
    """The item of the select list that a part of ORDER BY means. Raises 1054 for a bad position."""
    if isinstance(tree, exp.Literal) and not tree.is_string:
        number = whole(tree.name) if tree.name.isdigit() else 0
        if not 1 <= number <= len(items):
            raise ErrBadField(tree.name, "order clause")
        return items[number - 1]
    if not isinstance(tree, exp.Column) or tree.table:
        return None
    wanted = tree.name.lower()
    return next((item for item in items if item.column.name.lower() == wanted), None)
