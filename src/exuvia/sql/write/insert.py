"""INSERT and REPLACE: cells become rows, and rows are put one after another.

    VALUES        each cell planned once: literal, `?`, DEFAULT or expression; the plan is kept by
                  shape
    rows alike    VALUES of many rows that are written alike (parse/literals.py): one row is
                  planned, and the values come by column. Where no row can meet anything, all are
                  converted, encoded and written column by column. The least doubt, and they are
                  put one after another, nothing having been written: so errors, warnings and row
                  numbers are what they are
    SELECT        rows of another plan, converted column by column

What happens where a key is taken:

    INSERT          1062, the statement is undone      REPLACE             the other row goes
    INSERT IGNORE   a warning, the row is left out     ON DUPLICATE KEY    the other row is changed

AUTO_INCREMENT: NULL and 0 take the next id; a value given raises the counter.

VALUES(column) in ON DUPLICATE KEY UPDATE: what the row would have had, as a second table.

    c = c + VALUES(c)               c = t.c + `new row`.c
    ... AS n ... c = c + n.c        the same, under the name given

INSERT .. SELECT .. ON DUPLICATE KEY UPDATE may read the query's tables, not only its columns.

    INSERT INTO a SELECT x FROM b ON DUPLICATE KEY UPDATE a.x = b.y
      -> SELECT x, b.y FROM b       what is read stands behind what is inserted

A name that both the table written and the query's FROM have is ambiguous (1052).
"""

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from typing import NamedTuple, Self

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.errors import Broken, Duplicate, Refused
from exuvia.base.mysql_errors import (
    ErrAutoincReadFailed,
    ErrAutoRandReadFailed,
    ErrBadField,
    ErrBadGeneratedColumn,
    ErrDataOutOfRange,
    ErrFieldSpecifiedTwice,
    ErrInvalidAutoRandom,
    ErrNonUniq,
    ErrWrongValueCountOnRow,
)
from exuvia.base.types import INTEGER_BITS, Family, TypeCode, Value
from exuvia.catalog import writer
from exuvia.catalog.autoid import counter_bits, random_column, scattered
from exuvia.catalog.convert import values
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.model import name as named
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.sql import expressions, walks
from exuvia.sql.access.single_table import TableSource, check_writable, written_table
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.literals import asks_generated_default, is_own_default
from exuvia.sql.bind.scope import stored
from exuvia.sql.cells import (
    AssignMany,
    assign_many_to,
    meant_for,
)
from exuvia.sql.expr import Column, walk
from exuvia.sql.expressions import Compiled, Visible, constant_of
from exuvia.sql.nodes import Insert, Tree
from exuvia.sql.parse.literals import position_of
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.select.relational import plan as plan_relational
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan, Plan
from exuvia.sql.write.assignments import (
    Assignments,
    ColumnSource,
    constant_default,
    default_for,
    source_of,
)
from exuvia.sql.write.rows import SKIPPED, RowWriter
from exuvia.sql.write.strictness import (
    INTEGERS,
    Storer,
    Strictness,
    loads_a_dump,
    loss_of,
    storer,
    strictness,
)

READ_ROW = "\x01read row"
MOST_SHORT_ROWS = 16
"""Inserted no later than a statement that is short by its keys."""


# -- INSERT .. SELECT .. ON DUPLICATE KEY UPDATE ---------------------------------------------------


class Selected(NamedTuple):
    """The statement with the longer query, and how many columns were added."""

    node: Insert
    more: int = 0


def with_selected(node: Insert, context: Context) -> Selected:
    """Add to the query what the assignments read of its tables. Raises 1052, 1054."""
    query = node.query
    while isinstance(query, exp.Subquery | exp.Paren):
        query = query.this
    if not node.on_duplicate or not isinstance(query, exp.Select) or query.args.get("distinct"):
        return Selected(node)
    table = written_table(node.table.db or "", node.table.name, "INSERT", context.binding)
    target = TableSource(table, node.table.db or "", node.table.name, node.table.name, ())
    for assigned, _ in node.on_duplicate:
        target.position(assigned)
    reads = _Reads(query, target, node.row_alias, context)
    pairs = tuple((assigned, reads.rewritten(tree)) for assigned, tree in node.on_duplicate)
    if not reads.found:
        return Selected(node)
    longer = walks.copy(query)
    longer.set("expressions", [*longer.expressions, *(reads.item(n) for n in range(reads.count))])
    return Selected(evolve(node, query=longer, on_duplicate=pairs), reads.count)


def with_numbers(node: Insert, binding: Binding) -> Insert:
    """The statement with hexadecimal and bit literals of its select list as the columns mean them.
    Raises 1054, 1110."""
    query = node.query
    if not isinstance(query, exp.Select) or query.is_star:
        return node
    items = [expression.unalias() for expression in query.expressions]
    if not any(isinstance(each, exp.HexString | exp.BitString) for each in items):
        return node
    columns = [column for _, column in _target(node, binding).named]
    found = query.copy()
    for item, column in zip(found.expressions, columns, strict=False):
        literal = item.unalias()
        literal.replace(meant_for(column, literal.copy()))
    return evolve(node, query=found)


def visible_of(columns: Sequence[OutputColumn], offset: int) -> Visible:
    """What was read, as a table behind the rows."""
    found = tuple(
        ColumnInfo(id=n + 1, name=named(f"r{n}"), offset=n, type=column.type)
        for n, column in enumerate(columns)
    )
    return Visible.of_columns(READ_ROW, "", found, offset)


class _Reads:
    """The columns of the query's FROM that assignments name."""

    def __init__(
        self, query: exp.Select, target: TableSource, alias: str | None, context: Context
    ) -> None:
        self._query = query
        self._target = target
        self._alias = (alias or "").lower()
        self._context = context
        self.found: list[exp.Column] = []

    @property
    def count(self) -> int:
        return len(self.found)

    def item(self, place: int) -> exp.Expression:
        """The added item of the select list."""
        return exp.Alias(
            this=walks.copy(self.found[place]), alias=exp.to_identifier(f"\x01r{place}")
        )

    def rewritten(self, tree: Tree) -> Tree:
        """The value with every column of the query named by its place."""
        return walks.copy(tree).transform(self._column)

    def _column(self, node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or is_default(node) or _is_nested(node):
            return node
        if node.table and node.table.lower() == self._alias:
            return node
        is_ours = self._target.resolve(node) is not None
        if is_ours and node.table:
            return node
        if not self._is_read(node):
            return node
        if is_ours:
            raise ErrNonUniq(node.name, "field list")
        if node not in self.found:
            self.found.append(walks.copy(node))
        name = exp.to_identifier(f"r{self.found.index(node)}", quoted=True)
        return exp.Column(this=name, table=exp.to_identifier(READ_ROW, quoted=True))

    def _is_read(self, column: exp.Column) -> bool:
        """Whether the query's FROM has the column. Raises 1052."""
        keys = ("from_", "from", "joins", "with_", "with")
        parts = {key: part for key in keys if (part := self._query.args.get(key))}
        probe = exp.Select(expressions=[walks.copy(column)])
        for key, part in parts.items():
            probe.set(
                key, [walks.copy(e) for e in part] if isinstance(part, list) else walks.copy(part)
            )
        try:
            plan_relational(probe, self._context)
        except Refused as error:
            if error.code == ErrBadField.code:
                return False
            raise
        return True


def _is_nested(column: exp.Column) -> bool:
    """Whether it stands in VALUES(..) or in a query of its own."""
    parent = column.parent
    while parent is not None:
        if isinstance(parent, exp.Query | exp.Values):
            return True
        if isinstance(parent, exp.Anonymous) and str(parent.this).upper() in ("VALUES", "DEFAULT"):
            return True
        parent = parent.parent
    return False


# -- VALUES(column) --------------------------------------------------------------------------------

NEW_ROW = "\x01new row"
Pairs = tuple[tuple[exp.Column, Tree], ...]


def with_new_row(
    pairs: Sequence[tuple[exp.Column, Tree]], table: str, alias: str | None, known: AbstractSet[str]
) -> tuple[Pairs, str]:
    """The assignments with every column named by its row, and the name of the new row.

    A column without a table is that of the row that is there; `known` are the table's columns, in
    lower case. Raises 1054."""
    name = alias or NEW_ROW

    def replaced(node: exp.Expression) -> exp.Expression:
        column = _values_of(node)
        if column is not None:
            if column.name.lower() not in known:
                raise ErrBadField(column.name, "field list")
            return _of(column, name)
        if isinstance(node, exp.Column) and not node.table and not is_default(node):
            return _of(node, table) if node.name.lower() in known else node
        return node

    return tuple((target, walks.copy(tree).transform(replaced)) for target, tree in pairs), name


def _of(column: exp.Column, table: str) -> exp.Column:
    return exp.Column(this=walks.copy(column.this), table=exp.to_identifier(table, quoted=True))


def _values_of(node: exp.Expression) -> exp.Column | None:
    """The column of VALUES(column), None for any other tree."""
    if (isinstance(node, exp.Anonymous) and str(node.this).upper() == "VALUES") or isinstance(
        node, exp.Values
    ):
        arguments = node.expressions
    else:
        return None
    if len(arguments) != 1:
        return None
    inner = arguments[0]
    while isinstance(inner, exp.Paren | exp.Tuple):
        inner = inner.this if isinstance(inner, exp.Paren) else inner.expressions[0]
    if isinstance(inner, exp.Identifier):
        return exp.Column(this=inner)
    return inner if isinstance(inner, exp.Column) else None


# -- the columns named, and what the others get ----------------------------------------------------


class InsertTarget:
    """Planned once. `named`: (position, column) in the order of the statement's values."""

    def __init__(
        self, table: Table, names: tuple[str, ...] | None, partitions: tuple[str, ...] = ()
    ) -> None:
        self.partitions = partitions
        self.table = table
        public = {column.name.L: column for column in table.columns}
        wanted = tuple(public) if names is None else tuple(name.lower() for name in names)
        self.named: list[tuple[int, ColumnInfo]] = []
        for shown, lower in zip(names or wanted, wanted, strict=True):
            if lower not in public:
                raise ErrBadField(shown, "field list")
            self.named.append((table.position(lower), public[lower]))
        positions = [position for position, _ in self.named]
        if len(set(positions)) < len(positions):
            twice = next(name for n, name in enumerate(wanted) if name in wanted[:n])
            raise ErrFieldSpecifiedTwice(twice)
        self.random = random_column(table.info)
        numbered = [table.position(c.name.L) for c in public.values() if c.auto_increment]
        if self.random is not None:
            numbered.insert(0, table.position(self.random.name.L))
        # AUTO_RANDOM, else AUTO_INCREMENT; if a table has both they get the same number
        self.auto, self.beside, *_ = (*numbered, -1, -1)
        self.numbered = frozenset(numbered)
        self.auto_is_named = self.auto in positions
        self.greatest_id = math.inf  # that the column holds which takes ids
        if self.auto >= 0:
            kind = table.info.cols[self.auto].type
            bits = INTEGER_BITS.get(TypeCode(kind.Tp), 0)
            if bits:
                self.greatest_id = (1 << (bits if kind.unsigned else bits - 1)) - 1
        self.is_hidden_id = not table.handle_positions
        self.ids_are_handles = (
            table.info.pk_is_handle
            and table.handle_positions == (self.auto,)
            and not (table.handle_is_unsigned or table.is_partitioned)
        )
        self._template, self._sources = _others(table, frozenset(positions), self.auto)

    @property
    def has_sources(self) -> bool:
        """Whether something that is not named is no constant."""
        return bool(self._sources)

    def constants(self) -> Row:
        """A row with what is not named, where it `has_sources` not."""
        return self._template.copy()

    def row(self, context: Context) -> Row:
        """A row with what is not named: defaults, the time, NULL. Raises 1364."""
        row = self._template.copy()
        for position, source in self._sources:
            row[position] = source(context)
        return row


def _others(
    table: Table, named: frozenset[int], auto: int
) -> tuple[Row, list[tuple[int, ColumnSource]]]:
    template: Row = [None] * len(table.info.cols)
    sources = []
    for column in table.columns:
        position = table.position(column.name.L)
        template[position] = constant_default(column)
        if position == auto:
            continue
        if position in named:  # until it has its value, expressions read its default or zero
            if column.not_null and template[position] is None:
                template[position] = values.zero_of(column.type)
            continue
        source = source_of(column)
        if source is not None:
            sources.append((position, source))
    return template, sources


Cell = Callable[[Row, Context, int], Value]


# -- the statement ---------------------------------------------------------------------------------


def _target(node: Insert, binding: Binding, table: Table | None = None) -> InsertTarget:
    verb = "REPLACE" if node.replace else "INSERT"
    table = table or written_table(node.table.db or "", node.table.name, verb, binding)
    check_writable(table, verb, binding)
    return InsertTarget(table, node.columns, node.partitions)


def _demand(node: Insert, target: InsertTarget, context: Context) -> None:
    """Raises 1142, 1143."""
    named = [column.name.O for _, column in target.named]
    context.demand_columns(target.table, "INSERT", named)
    if node.on_duplicate:
        assigned = [column.name for column, _ in node.on_duplicate]
        context.demand_columns(target.table, "UPDATE", assigned)
    if node.replace:
        context.demand(target.table, "DELETE")


def _policy(node: Insert) -> str:
    if node.replace:
        return "replace"
    if node.on_duplicate:
        return "update"
    return "ignore" if node.ignore else "insert"


def _changes(
    node: Insert,
    target: InsertTarget,
    binding: Binding,
    rules: Strictness,
    read: Sequence[OutputColumn] = (),
) -> Assignments | None:
    """ON DUPLICATE KEY UPDATE: it sees the row that is there and, behind it, the new one, and what
    was `read` of the query's tables."""
    if not node.on_duplicate:
        return None
    table, name = target.table, node.table.name
    source = TableSource(table, node.table.db or "", name, name, ())
    known = {column.name.L for column in table.columns}
    pairs, new_row = with_new_row(node.on_duplicate, name, node.row_alias, known)
    width = len(table.info.cols)
    new = Visible(new_row, "", table.info.cols, table.public_positions, width)
    visible = [source.visible, new, visible_of(read, 2 * width)]
    return Assignments(pairs, source, visible, binding, rules, in_turn=True)


def plan(node: Insert, binding: Binding) -> KeptPlan | None:
    """The plan of INSERT ... VALUES; None for INSERT ... SELECT."""
    return None if node.rows is None else InsertValues(node, node.rows, binding)


class InsertValues(KeptPlan):
    locks = True

    def __init__(
        self,
        node: Insert,
        rows: Sequence[Sequence[Tree]],
        binding: Binding,
        several: bool | None = None,
    ) -> None:
        target = _target(node, binding)
        super().__init__(target.table, node.table.db or "", node.table.name)
        # ids that have run out are waited for in the pool; not where that is in each statement
        self.short = len(rows) <= MOST_SHORT_ROWS and (
            target.table.info.auto_id_cache != 1 or (target.auto < 0 and not target.is_hidden_id)
        )
        self._target = target
        self._names_columns = bool(node.columns)
        self._node = evolve(node, rows=None)  # the plan is kept, and they are the most of it
        self._policy = _policy(node)
        several = len(rows) > 1 if several is None else several
        self._rules = strictness(binding, node.ignore, not several)
        self._changes = _changes(node, target, binding, self._rules)
        source = TableSource(target.table, "", node.table.name, node.table.name, ())
        self._has_generated = any(column.is_generated for column in target.table.info.cols)
        self._storers: dict[tuple[int, int, int, int, str], Storer] = {}
        self._rows = [
            self._cells(n + 1, row, source.visible, binding) for n, row in enumerate(rows)
        ]

    def on(self, table: Table) -> Self | None:
        made = super().on(table)
        if made is not None:
            made._target = copy(self._target)
            made._target.table = table
        return made

    def check(self, context: Context) -> None:
        """Raises 1142, 1143."""
        _demand(self._node, self._target, context)

    def _cells(
        self, number: int, row: Sequence[Tree], visible: Visible, binding: Binding
    ) -> list[tuple[int, Cell]]:
        named = self._target.named
        if not row and not self._names_columns:
            return [
                (position, default_cell(column))
                for position, column in named
                if position not in self._target.numbered
            ]
        if len(row) != len(named):
            raise ErrWrongValueCountOnRow(number)
        return [
            (position, self._cell(position, column, tree, visible, binding))
            for (position, column), tree in zip(named, row, strict=True)
        ]

    def _cell(
        self, position: int, column: ColumnInfo, tree: Tree, visible: Visible, binding: Binding
    ) -> Cell:
        is_auto = position in self._target.numbered
        if is_default(tree):
            return (lambda row, at, n: None) if is_auto else default_cell(column)
        if column.is_generated and is_own_default(tree, column.name.L):
            return default_cell(column)
        if self._has_generated and (
            column.is_generated or asks_generated_default(tree, self.table.info)
        ):
            if column.is_generated and loads_a_dump(binding):
                return default_cell(column)
            raise ErrBadGeneratedColumn(column.name.O, self.table.info.name.O)
        tree = meant_for(column, tree)
        constant = constant_of(tree)
        if constant is not None:
            # one for all constants of a type in that column; a text's length decides nothing, else
            # no plan could serve another text
            kind = expressions.constant_type(tree, binding)
            asked = position, kind.Tp, kind.Flag, kind.Decimal, kind.Charset
            kept = self._storers.get(asked)
            if kept is None:
                kept = self._storers[asked] = storer(column, kind, is_auto, self._rules)
            put = kept
            return lambda row, at, n: put(constant(at), at, n)
        if walks.find(tree, exp.Query):
            self.short = False
            return _nested_cell(column, tree, is_auto, self._rules)
        compiled = expressions.compiled_bound(stored(expressions.bound(tree, [visible], binding)))
        call = _reads_zeros(compiled, self.table)
        store = storer(column, compiled.type, is_auto, self._rules)
        return lambda row, at, n: store(call(row, at), at, n)

    def run(self, context: Context) -> Result:
        self._rules.begin(context)
        inserting = RowInserter(self._target, self._policy, context, self._changes)
        inserting.reserve(len(self._rows))
        fresh = self._target.row
        for number, cells in enumerate(self._rows, 1):
            row = fresh(context)
            for position, cell in cells:
                row[position] = cell(row, context, number)
            inserting.add(row, number)
        return inserting.result(len(self._rows) > 1)


def plan_alike(node: Insert, binding: Binding) -> "InsertAlike | None":
    """The plan of rows that are written as the one row of the statement."""
    return None if node.rows is None or len(node.rows) != 1 else InsertAlike(node, binding)


class InsertAlike(InsertValues):
    """INSERT ... VALUES of many rows that are written alike; see the module."""

    def __init__(self, node: Insert, binding: Binding) -> None:
        rows = node.rows or []
        super().__init__(node, rows, binding, several=True)
        self.short = False
        self._by_column = self._column_cells(rows[0], binding)

    def on(self, table: Table) -> Self | None:
        is_as_plain = writer.is_plain(table) == writer.is_plain(self.table)
        return super().on(table) if is_as_plain else None

    def _column_cells(self, row: Sequence[Tree], binding: Binding) -> "list[ColumnCell] | None":
        """How each named column is made of the values; None where rows go one by one."""
        target, table = self._target, self.table
        if target.random is not None or target.has_sources or not writer.is_plain(table):
            return None
        cells = []
        for (position, column), tree in zip(target.named, row, strict=True):
            if is_default(tree) or column.is_generated or constant_of(tree) is None:
                return None
            tree = meant_for(column, tree)
            kind = expressions.constant_type(tree, binding)
            loss = loss_of(column, kind, True)
            if loss is not None and column.type.family != Family.STRING:
                return None
            place = position_of(tree) if isinstance(tree, exp.Placeholder) else None
            if place is None and not isinstance(tree, exp.Null):
                return None
            cells.append(
                ColumnCell(position, place, assign_many_to(column, kind, self._rules.mode))
            )
        return cells

    def run_alike(self, context: Context, columns: Sequence[Sequence[Value]]) -> Result:
        self._rules.begin(context)
        inserting = RowInserter(self._target, self._policy, context, self._changes)
        count = len(columns[0])
        inserting.reserve(count)
        if self._by_column is None or not inserting.add_new(self._by_column, columns):
            fresh, cells = self._target.row, self._rows[0]
            for number, values_of_row in enumerate(zip(*columns, strict=True), 1):
                context.parameters = values_of_row
                row = fresh(context)
                for position, cell in cells:
                    row[position] = cell(row, context, number)
                inserting.add(row, number)
        return inserting.result(True)


class ColumnCell(NamedTuple):
    """A named column of rows that are written alike: of which `?`, None for NULL, and how it is
    converted."""

    position: int
    place: int | None
    assign: AssignMany


def _nested_cell(column: ColumnInfo, tree: Tree, is_auto: bool, rules: Strictness) -> Cell:
    """A value that a subquery gives, planned when it is wanted."""
    query = exp.Select(expressions=[walks.copy(tree)])

    def cell(row: Row, context: Context, number: int) -> Value:
        found = plan_relational(query, context, stored=True).run(context)
        kind = found.columns[0].type
        return storer(column, kind, is_auto, rules)(found.rows[0][0], context, number)

    return cell


def _reads_zeros(compiled: Compiled, table: Table) -> Callable[[Row, Context], Value]:
    """The call; a column that cannot be NULL and has no value yet (an id to come, a generated one)
    reads as its type's zero."""
    columns = table.info.cols
    read = {each.position for each in walk(compiled.bound) if isinstance(each, Column)}
    zeros = {n: values.zero_of(columns[n].type) for n in read if columns[n].not_null}
    call = compiled.call
    if not zeros:
        return call

    def seen(row: Row, context: Context) -> Value:
        row = [zeros[n] if n in zeros and v is None else v for n, v in enumerate(row)]
        return call(row, context)

    return seen


def default_cell(column: ColumnInfo) -> Cell:
    """A cell without a value of its own. Raises 1364 where the column has no default."""
    return lambda row, context, n: default_for(column, context)


class InsertQuery(Plan):
    """INSERT ... SELECT: the rows are read before the first is put."""

    def __init__(
        self,
        node: Insert,
        query: Plan,
        context: Context,
        more: int = 0,
        table: Table | None = None,
    ) -> None:
        """`more`: how many of the query's columns are only read. `table`: where they go, if that is
        another than the one of the statement's name."""
        self._target = _target(node, context.binding, table)
        _demand(node, self._target, context)
        self.query = query
        self._rules = strictness(context.binding, node.ignore)
        self._policy = _policy(node)
        self._width = len(query.columns) - more
        read = query.columns[self._width :]
        self._changes = _changes(node, self._target, context.binding, self._rules, read)
        if self._width != len(self._target.named):
            raise ErrWrongValueCountOnRow(1)
        for _, column in self._target.named:
            if column.is_generated:
                raise ErrBadGeneratedColumn(column.name.O, self._target.table.info.name.O)
        self._storers = [
            (
                position,
                storer(column, each.type, position in self._target.numbered, self._rules, True),
            )
            for (position, column), each in zip(self._target.named, query.columns, strict=False)
        ]

    def run(self, context: Context) -> Result:
        """Read, then put every row. Changes of the table wait from before the read."""
        self._rules.begin(context)
        inserting = RowInserter(self._target, self._policy, context, self._changes)
        rows = list(self.query.run(context).rows)
        inserting.reserve(len(rows))
        for number, found in enumerate(rows, 1):
            row = self._target.row(context)
            for (position, store), value in zip(self._storers, found, strict=False):
                row[position] = store(value, context, number)
            inserting.add(row, number, found[self._width :])
        return inserting.result(True)


# -- putting rows ----------------------------------------------------------------------------------


MOST_REPLACED = 64
MANY_IDS = 1 << 30


class RowInserter:
    """One run of an INSERT. `policy`: insert, ignore, replace or update."""

    def __init__(
        self, target: InsertTarget, policy: str, context: Context, changes: Assignments | None
    ) -> None:
        self._target = target
        self._table: Table = target.table
        self._policy = policy
        self._context = context
        self._changes = changes
        self._ids = context.ids_of(self._table.info)
        settings = context.session.settings
        is_random = target.random is not None
        self._spacing = settings.random_spacing if is_random else settings.id_spacing
        self._first_id = 0
        self._written_id = 0
        self._drawn = 0
        self._reserved = 0
        self._rows = 0
        self._affected = 0
        self._duplicates = 0
        self._zero_is_an_id = settings.zero_is_an_id
        self._forced_id = settings.forced_id
        self._writer = RowWriter(self._table, context, target.partitions)
        is_alone = target.ids_are_handles and policy == "insert" and not context.txn.locks
        self._alone = context.locks if is_alone else None

    def reserve(self, rows: int) -> None:
        """Take consecutive ids for a statement of several rows that names none."""
        if (
            rows > 1
            and self._target.auto >= 0
            and not (self._target.auto_is_named or self._forced_id)
        ):
            self._reserved = self._ids.next("auto", rows, self._spacing)

    def add_new(self, cells: "Sequence[ColumnCell]", columns: Sequence[Sequence[Value]]) -> bool:
        """Put many complete rows at once, given by column, none of which meets anything. False,
        and nothing is written, where that is not certain."""
        if not self._writer.takes_new:
            return False
        count = len(columns[0])
        made: list[Sequence[Value]] = [[value] * count for value in self._target.constants()]
        try:
            for position, place, assign in cells:
                if place is not None:
                    made[position] = assign(columns[place])
                elif position == self._target.auto:
                    made[position] = [None] * count
                else:
                    made[position] = list(assign([None])) * count
        except Refused:
            return False
        numbered = self._number_new(made, count)
        if numbered is None:
            return False
        ids = None
        if self._target.is_hidden_id:
            start = self._ids.next("rowid", count)
            ids = range(start, start + count)
        if not self._writer.insert_new(made, ids):
            return False
        self._rows += count
        self._affected += count
        self._first_id, self._written_id = numbered
        return True

    def _number_new(self, made: list[Sequence[Value]], count: int) -> tuple[int, int] | None:
        """Fill in the AUTO_INCREMENT column: the first id given, and the last that the rows had of
        their own; 0 where there is none. None where each row is to be looked at."""
        position = self._target.auto
        if position < 0:
            return 0, 0
        own = made[position]
        step = self._spacing.increment
        if self._reserved or own[0] is None:
            if self._forced_id:
                return None
            if not self._reserved and self._target.greatest_id < MANY_IDS:
                return None  # ids run out soon: whoever fails has taken no more than its own
            first = self._reserved or self._ids.next("auto", count, self._spacing)
            self._reserved = first  # what is put one by one has the same
            if first + (count - 1) * step > self._target.greatest_id:
                return None
            made[position] = range(first, first + count * step, step)
            return first, 0
        if set(map(type, own)) != {int} or min(own) <= 0:
            return None
        self._ids.rebase_all(own)
        return 0, int(own[-1])

    def add(self, row: Row, number: int, read: Row | tuple[()] = ()) -> None:
        """Put one complete row; `read` is what ON DUPLICATE KEY UPDATE may read beside it.

        Raises Duplicate, 1467; with IGNORE a row that breaks a constraint is left out."""
        try:
            self._rows += 1
            given = self._number(row) if self._target.auto >= 0 else 0
            if self._target.beside >= 0:
                self._number_beside(row)
            handle = None
            if self._target.is_hidden_id:
                handle = keys.i64(self._ids.next("rowid"))
            try:
                self._writer.insert(row, handle)
                self._affected += 1
                self._first_id = self._first_id or given
                if given and self._alone is not None:
                    self._alone.add_new_key(self._table.row_prefix + keys.i64(given))
            except Duplicate as taken:
                if self._policy == "insert":
                    raise
                if self._policy == "ignore":
                    self._duplicates += 1
                    self._writer.keep(taken.handle)
                    self._context.note(taken.code, taken.message)
                elif self._policy == "replace":
                    self._replace(taken, row, handle)
                else:
                    self._update(taken, row, number, read)
        except Refused as refused:
            if not self._context.ignores or refused.code not in SKIPPED:
                raise
            self._context.note(refused.code, refused.message)

    def _number(self, row: Row) -> int:
        """Fill in the AUTO_INCREMENT column; the id it was given, 0 where the row had its own."""
        position = self._target.auto
        value = row[position]
        self._drawn = 0
        if value is None or (value == 0 and not self._zero_is_an_id):
            if self._forced_id:
                value, self._forced_id = self._forced_id, 0
                self._ids.rebase(value)
            elif self._reserved:
                value = self._reserved
                self._reserved += self._spacing.increment
            else:
                value = self._ids.next(spacing=self._spacing)
            self._drawn = value
            if self._target.random is not None:
                info = self._table.info
                bits = counter_bits(info, self._target.random)
                if value >> bits:
                    raise ErrAutoRandReadFailed()
                value = scattered(value, info.auto_random_bits, bits)
            if value > self._target.greatest_id:
                value = self._held(value)
            row[position] = value
            return int(value)
        self._written_id = int(value)
        if self._target.random is not None:
            if self._context.variable("allow_auto_random_explicit_insert") != "ON":
                said = "Explicit insertion on auto_random column is disabled. "
                said += "Try to set @@allow_auto_random_explicit_insert = true."
                raise ErrInvalidAutoRandom(said)
            if value > 0:  # the counter's part of it
                value = int(value) & (1 << counter_bits(self._table.info, self._target.random)) - 1
        if value > 0:
            self._ids.rebase(int(value))
        return 0

    def _number_beside(self, row: Row) -> None:
        """Fill in the AUTO_INCREMENT column of a table whose rows AUTO_RANDOM leads."""
        position = self._target.beside
        value = row[position]
        if value is not None and (value or self._zero_is_an_id):
            if value > 0:
                self._ids.rebase(int(value))
            return
        value = self._drawn or self._ids.next(spacing=self._spacing)
        if value > values.bounds_of(self._table.info.cols[position].type)[1]:
            raise ErrAutoincReadFailed()
        row[position] = value

    def _held(self, value: int) -> int:
        """An id beyond its column, held to it with IGNORE. Raises 1690, 1467 where not strict."""
        bits = INTEGER_BITS[TypeCode(self._table.info.cols[self._target.auto].type.Tp)]
        failed = ErrAutoincReadFailed()
        beyond = ErrDataOutOfRange.with_text(f"constant {value} overflows {INTEGERS[bits]}")
        if not self._context.ignores:
            raise beyond if self._context.strict else failed
        self._context.note(beyond.code, beyond.message)
        self._context.note(failed.code, failed.message)
        return int(self._target.greatest_id)

    def _replace(self, taken: Duplicate, row: Row, handle: bytes | None) -> None:
        """The row goes where the other was; one that is the same already stays."""
        for _ in range(MOST_REPLACED + 1):
            old = self._holder(taken)
            if old == row:
                self._writer.keep(taken.handle)
                self._affected += 1
                return
            self._writer.delete(taken.handle, old)
            self._affected += 1
            self._duplicates += 1
            try:
                self._writer.insert(row, handle)
                self._affected += 1
                return
            except Duplicate as another:
                taken = another
        raise Broken(f"a row of {self._table.info.name.O} is taken by more rows than it has keys")

    def _update(self, taken: Duplicate, row: Row, number: int, read: Row | tuple[()]) -> None:
        if self._changes is None:
            raise taken
        old = self._holder(taken)
        new = self._changes.apply(old, [*row, *read], self._context, number)
        if new != old:
            self._writer.update(taken.handle, old, new)
            self._affected += 2
            self._duplicates += 1
            if self._target.auto >= 0:
                self._written_id = int(new[self._target.auto])
            return
        self._writer.keep(taken.handle)
        if self._context.session.client_found_rows:
            self._affected += 1
            self._duplicates += 1

    def _holder(self, taken: Duplicate) -> Row:
        found = self._writer.read(taken.handle)
        if found is None and self._table.info.global_indexes:
            raise taken  # of a partition that is being dropped, or that this plan does not know
        if found is None:
            raise Broken(f"an entry of {self._table.info.name.O} has no row")
        return found

    def result(self, several: bool) -> Result:
        """Counts, and the first id given, once the rows' foreign keys are settled."""
        self._writer.finish()
        info = ""
        if several:
            warnings = len(self._context.warnings)
            info = f"Records: {self._rows}  Duplicates: {self._duplicates}  Warnings: {warnings}"
        return Result(
            affected=self._affected,
            last_insert_id=self._first_id,
            info=info,
            written_id=self._written_id if self._affected else 0,
        )
