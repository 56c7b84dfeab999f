"""INSERT and REPLACE: cells become rows, and rows are written one after another.

    VALUES        each cell is planned once: literal, `?`, DEFAULT or expression; the plan is cached
                  by shape
    equal rows    VALUES of many rows of equal form (parse/literals.py): one row is planned, and
                  the values come by column. If no row can cause an error or a warning, all rows
                  are converted, encoded and written by columns. In doubt nothing is written, and
                  rows are written one after another, with their errors, warnings and numbers
    SELECT        rows of another plan, converted by columns

If a key is already in use:

    INSERT          1062, the statement is undone      REPLACE             deletes the other row
    INSERT IGNORE   a warning, the row is left out     ON DUPLICATE KEY    changes the other row
    KeyRule         leaves the row out or changes the other row, for one unique key; other unique
                    keys are 1062 (upserts by Spark)

AUTO_INCREMENT: NULL and 0 take the next id; an explicit value raises the counter.

VALUES(column) in ON DUPLICATE KEY UPDATE is the column of the new row, as a second table.

    c = c + VALUES(c)               c = t.c + `new row`.c
    ... AS n ... c = c + n.c        the same, with the given name

INSERT .. SELECT .. ON DUPLICATE KEY UPDATE may read all columns of the query's tables.

    INSERT INTO a SELECT x FROM b ON DUPLICATE KEY UPDATE a.x = b.y
      -> SELECT x, b.y FROM b       the columns to read are after the columns to insert

A name of a column in both the written table and the query's FROM is ambiguous (1052).
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
from exuvia.catalog.model import ColumnInfo, IndexInfo
from exuvia.catalog.model import name as named
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.sql import expressions, walks
from exuvia.sql.access.single_table import TableSource, check_writable, written_table
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.literals import asks_generated_default, is_own_default
from exuvia.sql.bind.scope import Scope, stored
from exuvia.sql.cells import (
    AssignMany,
    assign_many_to,
    literal_for,
)
from exuvia.sql.expr import Column, walk
from exuvia.sql.expressions import Compiled, Visible, constant_of
from exuvia.sql.nodes import Insert, Tree
from exuvia.sql.parse.literals import position_of
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.select.relational import plan as plan_relational
from exuvia.sql.select.relational import scope_of_from
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan, KeptTablePlan, Plan
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
"""The most rows whose INSERT takes no longer than a statement with short keys."""


# -- INSERT .. SELECT .. ON DUPLICATE KEY UPDATE ---------------------------------------------------


class Selected(NamedTuple):
    """The statement with the extended query, and the number of added columns."""

    node: Insert
    more: int = 0


def with_selected(node: Insert, context: Context) -> Selected:
    """Adds the columns that the assignments read to the query. Raises 1052, 1054."""
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
    if not reads.columns:
        return Selected(node)
    longer = walks.copy(query)
    longer.set("expressions", [*longer.expressions, *(reads.item(n) for n in range(reads.count))])
    return Selected(evolve(node, query=longer, on_duplicate=pairs), reads.count)


def with_numbers(node: Insert, binding: Binding) -> Insert:
    """The statement with hexadecimal and bit literals of its select list as the columns need them.

    Raises 1054, 1110."""
    query = node.query
    if not isinstance(query, exp.Select) or query.is_star:
        return node
    items = [expression.unalias() for expression in query.expressions]
    if not any(isinstance(item, exp.HexString | exp.BitString) for item in items):
        return node
    columns = [column for _, column in _target(node, binding).named]
    copied = query.copy()
    for item, column in zip(copied.expressions, columns, strict=False):
        literal = item.unalias()
        literal.replace(literal_for(column, literal.copy()))
    return evolve(node, query=copied)


def visible_of(columns: Sequence[OutputColumn], offset: int) -> Visible:
    """The columns to read, as a table after the rows."""
    read_columns = tuple(
        ColumnInfo(id=n + 1, name=named(f"r{n}"), offset=n, type=column.type)
        for n, column in enumerate(columns)
    )
    return Visible.of_columns(READ_ROW, "", read_columns, offset)


class _Reads:
    """The columns of the query's FROM in assignments."""

    def __init__(
        self, query: exp.Select, target: TableSource, alias: str | None, context: Context
    ) -> None:
        self._query = query
        self._target = target
        self._alias = (alias or "").lower()
        self._context = context
        self._scope: Scope | None = None
        self.columns: list[exp.Column] = []

    @property
    def count(self) -> int:
        return len(self.columns)

    def item(self, place: int) -> exp.Expression:
        """The added item of the select list."""
        return exp.Alias(
            this=walks.copy(self.columns[place]), alias=exp.to_identifier(f"\x01r{place}")
        )

    def rewritten(self, tree: Tree) -> Tree:
        """The value with each column of the query replaced by its added column."""
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
        if node not in self.columns:
            self.columns.append(walks.copy(node))
        name = exp.to_identifier(f"r{self.columns.index(node)}", quoted=True)
        return exp.Column(this=name, table=exp.to_identifier(READ_ROW, quoted=True))

    def _is_read(self, column: exp.Column) -> bool:
        """Whether the query's FROM has the column. Raises 1052."""
        if self._scope is None:
            self._scope = scope_of_from(self._query, self._context)
        return self._scope.find(column.name, column.table, column.db) is not None


def _is_nested(column: exp.Column) -> bool:
    """Whether the column is in VALUES(..) or in a nested query."""
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
    pairs: Sequence[tuple[exp.Column, Tree]],
    table: str,
    alias: str | None,
    column_names: AbstractSet[str],
) -> tuple[Pairs, str]:
    """The assignments with all columns qualified by their row, and the name of the new row.

    A column without a table is that of the existing row. `column_names` are the table's columns,
    in lower case. Raises 1054."""
    name = alias or NEW_ROW

    def replaced(node: exp.Expression) -> exp.Expression:
        column = _values_of(node)
        if column is not None:
            if column.name.lower() not in column_names:
                raise ErrBadField(column.name, "field list")
            return _of(column, name)
        if isinstance(node, exp.Column) and not node.table and not is_default(node):
            return _of(node, table) if node.name.lower() in column_names else node
        return node

    return tuple((target, walks.copy(tree).transform(replaced)) for target, tree in pairs), name


def _of(column: exp.Column, table: str) -> exp.Column:
    return exp.Column(this=walks.copy(column.this), table=exp.to_identifier(table, quoted=True))


def _values_of(node: exp.Expression) -> exp.Column | None:
    """The column of VALUES(column); None for any other tree."""
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


# -- the named columns, and values for the others --------------------------------------------------


class InsertTarget:
    """The planned target. `named`: (position, column) in the order of the statement's values."""

    def __init__(
        self, table: Table, names: tuple[str, ...] | None, partitions: tuple[str, ...] = ()
    ) -> None:
        self.partitions = partitions
        self.table = table
        public = {column.name.L: column for column in table.columns}
        lower_names = tuple(public) if names is None else tuple(name.lower() for name in names)
        self.named: list[tuple[int, ColumnInfo]] = []
        for written_name, lower in zip(names or lower_names, lower_names, strict=True):
            if lower not in public:
                raise ErrBadField(written_name, "field list")
            self.named.append((table.position(lower), public[lower]))
        positions = [position for position, _ in self.named]
        if len(set(positions)) < len(positions):
            twice = next(name for n, name in enumerate(lower_names) if name in lower_names[:n])
            raise ErrFieldSpecifiedTwice(twice)
        self.random = random_column(table.info)
        numbered = [table.position(c.name.L) for c in public.values() if c.auto_increment]
        if self.random is not None:
            numbered.insert(0, table.position(self.random.name.L))
        # AUTO_RANDOM, else AUTO_INCREMENT; if a table has both they get the same number
        self.auto, self.second_auto, *_ = (*numbered, -1, -1)
        self.numbered = frozenset(numbered)
        self.auto_is_named = self.auto in positions
        self.greatest_id = math.inf  # the greatest value of the column with generated ids
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
        """Whether the value of a column that is not named is not constant."""
        return bool(self._sources)

    def constants(self) -> Row:
        """A new row with the values of columns that are not named, if not `has_sources`."""
        return self._template.copy()

    def row(self, context: Context) -> Row:
        """A new row with the values of columns that are not named. Raises 1364."""
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
        if position in named:  # before its value is set, expressions read its default or zero
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
    """The assignments of ON DUPLICATE KEY UPDATE.

    They read the existing row, the new one, and the columns `read` from the query's tables."""
    if not node.on_duplicate:
        return None
    table, name = target.table, node.table.name
    source = TableSource(table, node.table.db or "", name, name, ())
    column_names = {column.name.L for column in table.columns}
    pairs, new_row = with_new_row(node.on_duplicate, name, node.row_alias, column_names)
    width = len(table.info.cols)
    new = Visible(new_row, "", table.info.cols, table.public_positions, width)
    visible = [source.visible, new, visible_of(read, 2 * width)]
    return Assignments(pairs, source, visible, binding, rules, duplicate=True)


def plan(node: Insert, binding: Binding) -> KeptPlan | None:
    """The plan of INSERT ... VALUES; None for INSERT ... SELECT."""
    return None if node.rows is None else InsertValues(node, node.rows, binding)


class InsertValues(KeptTablePlan):
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
        # ids may run out and block, so only in the pool, unless each statement takes an id
        self.short = len(rows) <= MOST_SHORT_ROWS and (
            target.table.info.auto_id_cache != 1 or (target.auto < 0 and not target.is_hidden_id)
        )
        self._target = target
        self._names_columns = bool(node.columns)
        # the plan is cached without its rows, which are most of it
        self._node = evolve(node, rows=None)
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
        plan = super().on(table)
        if plan is not None:
            plan._target = copy(self._target)
            plan._target.table = table
        return plan

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
        tree = literal_for(column, tree)
        constant = constant_of(tree)
        if constant is not None:
            # one storer for all constants of a type in a column. The length of a text is not part
            # of the key, so that the plan can be used for other texts
            kind = expressions.constant_type(tree, binding)
            storer_key = position, kind.Tp, kind.Flag, kind.Decimal, kind.Charset
            cached = self._storers.get(storer_key)
            if cached is None:
                cached = self._storers[storer_key] = storer(column, kind, is_auto, self._rules)
            put = cached
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
    """The plan of rows that have the same form as the row of the statement."""
    return None if node.rows is None or len(node.rows) != 1 else InsertAlike(node, binding)


class InsertAlike(InsertValues):
    """INSERT ... VALUES of many rows of equal form; see the module head."""

    def __init__(self, node: Insert, binding: Binding) -> None:
        rows = node.rows or []
        super().__init__(node, rows, binding, several=True)
        self.short = False
        self._by_column = self._column_cells(rows[0], binding)

    def on(self, table: Table) -> Self | None:
        is_as_plain = writer.is_plain(table) == writer.is_plain(self.table)
        return super().on(table) if is_as_plain else None

    def _column_cells(self, row: Sequence[Tree], binding: Binding) -> "list[ColumnCell] | None":
        """The conversion of each named column; None if rows must be written one by one."""
        target, table = self._target, self.table
        if target.random is not None or target.has_sources or not writer.is_plain(table):
            return None
        cells = []
        for (position, column), tree in zip(target.named, row, strict=True):
            if is_default(tree) or column.is_generated or constant_of(tree) is None:
                return None
            tree = literal_for(column, tree)
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
    """A named column of rows of equal form.

    `place`: the index of its `?`, None for NULL. `assign`: the conversion."""

    position: int
    place: int | None
    assign: AssignMany


def _nested_cell(column: ColumnInfo, tree: Tree, is_auto: bool, rules: Strictness) -> Cell:
    """A cell with a subquery, planned when the row is written."""
    query = exp.Select(expressions=[walks.copy(tree)])

    def cell(row: Row, context: Context, number: int) -> Value:
        answer = plan_relational(query, context, stored=True).run(context)
        kind = answer.columns[0].type
        return storer(column, kind, is_auto, rules)(answer.rows[0][0], context, number)

    return cell


def _reads_zeros(compiled: Compiled, table: Table) -> Callable[[Row, Context], Value]:
    """Returns the call, with the type's zero for NOT NULL columns without a value yet.

    Those are columns with generated ids, and generated columns."""
    columns = table.info.cols
    read = {node.position for node in walk(compiled.bound) if isinstance(node, Column)}
    zeros = {n: values.zero_of(columns[n].type) for n in read if columns[n].not_null}
    call = compiled.call
    if not zeros:
        return call

    def call_with_zeros(row: Row, context: Context) -> Value:
        row = [zeros[n] if n in zeros and v is None else v for n, v in enumerate(row)]
        return call(row, context)

    return call_with_zeros


def default_cell(column: ColumnInfo) -> Cell:
    """A cell with the column's default. Raises 1364 if it has no default."""
    return lambda row, context, n: default_for(column, context)


class InsertQuery(Plan):
    """INSERT ... SELECT: all rows are read before the first is written.

    `target`: the planned target."""

    def __init__(
        self,
        node: Insert,
        query: Plan,
        context: Context,
        more: int = 0,
        table: Table | None = None,
        rule: "KeyRule | None" = None,
    ) -> None:
        """`more`: the number of the query's columns that are only read. `table`: the target, if it
        is not the table of the statement's name. `rule` replaces the statement's reaction to
        duplicates."""
        self.target = _target(node, context.binding, table)
        _demand(node, self.target, context)
        self.query = query
        self._rules = strictness(context.binding, node.ignore)
        self._policy = _policy(node) if rule is None else "insert"
        self._rule = rule
        self._width = len(query.columns) - more
        read = query.columns[self._width :]
        self._changes = _changes(node, self.target, context.binding, self._rules, read)
        if self._width != len(self.target.named):
            raise ErrWrongValueCountOnRow(1)
        for _, column in self.target.named:
            if column.is_generated:
                raise ErrBadGeneratedColumn(column.name.O, self.target.table.info.name.O)
        self._storers = [
            (
                position,
                storer(column, selected.type, position in self.target.numbered, self._rules, True),
            )
            for (position, column), selected in zip(self.target.named, query.columns, strict=False)
        ]

    def run(self, context: Context) -> Result:
        """Reads all rows, then writes them. The metadata lock is taken before the read."""
        self._rules.begin(context)
        inserting = RowInserter(self.target, self._policy, context, self._changes, self._rule)
        rows = list(self.query.run(context).rows)
        inserting.reserve(len(rows))
        for number, selected_row in enumerate(rows, 1):
            row = self.target.row(context)
            for (position, store), value in zip(self._storers, selected_row, strict=False):
                row[position] = store(value, context, number)
            inserting.add(row, number, selected_row[self._width :])
        return inserting.result(True)


# -- writing rows ----------------------------------------------------------------------------------


MOST_REPLACED = 64
MANY_IDS = 1 << 30


class KeyRule(NamedTuple):
    """The reaction to rows whose key in one unique index is taken.

    `by`: None for the clustered primary key. `updates`: whether the other row is changed by the
    statement's assignments; otherwise the new row is left out."""

    by: IndexInfo | None
    updates: bool


class RowInserter:
    """One run of an INSERT. `policy`: insert, ignore, replace or update."""

    def __init__(
        self,
        target: InsertTarget,
        policy: str,
        context: Context,
        changes: Assignments | None,
        rule: KeyRule | None = None,
    ) -> None:
        self._target = target
        self._table: Table = target.table
        self._policy = policy
        self._context = context
        self._changes = changes
        self._rule = rule
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
        is_alone = target.ids_are_handles and policy == "insert" and rule is None
        is_alone = is_alone and not context.txn.locks
        self._alone = context.locks if is_alone else None

    def reserve(self, rows: int) -> None:
        """Takes consecutive ids for a statement of several rows without explicit ids."""
        if (
            rows > 1
            and self._target.auto >= 0
            and not (self._target.auto_is_named or self._forced_id)
        ):
            self._reserved = self._ids.next("auto", rows, self._spacing)

    def add_new(self, cells: "Sequence[ColumnCell]", columns: Sequence[Sequence[Value]]) -> bool:
        """Writes many complete rows at once, by columns, if they are certain to cause no error.

        Returns False, with nothing written, if this is not certain."""
        if not self._writer.takes_new:
            return False
        count = len(columns[0])
        new_columns: list[Sequence[Value]] = [[value] * count for value in self._target.constants()]
        try:
            for position, place, assign in cells:
                if place is not None:
                    new_columns[position] = assign(columns[place])
                elif position == self._target.auto:
                    new_columns[position] = [None] * count
                else:
                    new_columns[position] = list(assign([None])) * count
        except Refused:
            return False
        numbered = self._number_new(new_columns, count)
        if numbered is None:
            return False
        ids = None
        if self._target.is_hidden_id:
            start = self._ids.next("rowid", count)
            ids = range(start, start + count)
        if not self._writer.insert_new(new_columns, ids):
            return False
        self._rows += count
        self._affected += count
        self._first_id, self._written_id = numbered
        return True

    def _number_new(self, new_columns: list[Sequence[Value]], count: int) -> tuple[int, int] | None:
        """Sets the AUTO_INCREMENT column. Returns (first generated id, last explicit id).

        A missing id is 0. Returns None if each row must be checked."""
        position = self._target.auto
        if position < 0:
            return 0, 0
        own = new_columns[position]
        step = self._spacing.increment
        if self._reserved or own[0] is None:
            if self._forced_id:
                return None
            if not self._reserved and self._target.greatest_id < MANY_IDS:
                return None  # ids run out soon: a failing statement must not take more than its own
            first = self._reserved or self._ids.next("auto", count, self._spacing)
            self._reserved = first  # also for rows that are written one by one
            if first + (count - 1) * step > self._target.greatest_id:
                return None
            new_columns[position] = range(first, first + count * step, step)
            return first, 0
        if set(map(type, own)) != {int} or min(own) <= 0:
            return None
        self._ids.rebase_all(own)
        return 0, int(own[-1])

    def add(self, row: Row, number: int, read: Row | tuple[()] = ()) -> None:
        """Writes one complete row; `read` are more columns for ON DUPLICATE KEY UPDATE.

        Raises Duplicate, 1467. With IGNORE a row that violates a constraint is left out."""
        try:
            self._rows += 1
            new_id = self._number(row) if self._target.auto >= 0 else 0
            if self._target.second_auto >= 0:
                self._number_second(row)
            if self._rule is not None and self._meets(self._rule, row, number, read):
                return
            handle = None
            if self._target.is_hidden_id:
                handle = keys.i64(self._ids.next("rowid"))
            try:
                self._writer.insert(row, handle)
                self._affected += 1
                self._first_id = self._first_id or new_id
                if new_id and self._alone is not None:
                    self._alone.add_new_key(self._table.row_prefix + keys.i64(new_id))
            except Duplicate as duplicate:
                if self._policy == "insert":
                    raise
                if self._policy == "ignore":
                    self._duplicates += 1
                    self._writer.keep(duplicate.handle)
                    self._context.note(duplicate.code, duplicate.message)
                elif self._policy == "replace":
                    self._replace(duplicate, row, handle)
                else:
                    self._update(duplicate, row, number, read)
        except Refused as refused:
            if not self._context.ignores or refused.code not in SKIPPED:
                raise
            self._context.note(refused.code, refused.message)

    def _meets(self, rule: KeyRule, row: Row, number: int, read: Row | tuple[()]) -> bool:
        """Whether the row's key is taken, and the rule has been applied."""
        duplicate = self._writer.holder(row, rule.by)
        if duplicate is None:
            return False
        if rule.updates and self._changes is not None:
            self._update(duplicate, row, number, read)
        else:
            self._duplicates += 1
            self._writer.keep(duplicate.handle)
        return True

    def _number(self, row: Row) -> int:
        """Sets the AUTO_INCREMENT column. Returns the generated id, or 0 for an explicit one."""
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
                value = self._limited_id(value)
            row[position] = value
            return int(value)
        self._written_id = int(value)
        if self._target.random is not None:
            if self._context.variable("allow_auto_random_explicit_insert") != "ON":
                message = "Explicit insertion on auto_random column is disabled. "
                message += "Try to set @@allow_auto_random_explicit_insert = true."
                raise ErrInvalidAutoRandom(message)
            if value > 0:  # only the counter's part
                value = int(value) & (1 << counter_bits(self._table.info, self._target.random)) - 1
        if value > 0:
            self._ids.rebase(int(value))
        return 0

    def _number_second(self, row: Row) -> None:
        """Sets the AUTO_INCREMENT column of a table that also has an AUTO_RANDOM key."""
        position = self._target.second_auto
        value = row[position]
        if value is not None and (value or self._zero_is_an_id):
            if value > 0:
                self._ids.rebase(int(value))
            return
        value = self._drawn or self._ids.next(spacing=self._spacing)
        if value > values.bounds_of(self._table.info.cols[position].type)[1]:
            raise ErrAutoincReadFailed()
        row[position] = value

    def _limited_id(self, value: int) -> int:
        """The greatest id, for one beyond it with IGNORE. Raises 1690, or 1467 if lenient."""
        bits = INTEGER_BITS[TypeCode(self._table.info.cols[self._target.auto].type.Tp)]
        failed = ErrAutoincReadFailed()
        beyond = ErrDataOutOfRange.with_text(f"constant {value} overflows {INTEGERS[bits]}")
        if not self._context.ignores:
            raise beyond if self._context.strict else failed
        self._context.note(beyond.code, beyond.message)
        self._context.note(failed.code, failed.message)
        return int(self._target.greatest_id)

    def _replace(self, duplicate: Duplicate, row: Row, handle: bytes | None) -> None:
        """Writes the row in place of the other rows; an equal row stays."""
        for _ in range(MOST_REPLACED + 1):
            old = self._holder(duplicate)
            if old == row:
                self._writer.keep(duplicate.handle)
                self._affected += 1
                return
            self._writer.delete(duplicate.handle, old)
            self._affected += 1
            self._duplicates += 1
            try:
                self._writer.insert(row, handle)
                self._affected += 1
                return
            except Duplicate as another:
                duplicate = another
        raise Broken(f"a row of {self._table.info.name.O} is taken by more rows than it has keys")

    def _update(self, duplicate: Duplicate, row: Row, number: int, read: Row | tuple[()]) -> None:
        if self._changes is None:
            raise duplicate
        old = self._holder(duplicate)
        new = self._changes.apply(old, [*row, *read], self._context, number)
        if new != old:
            self._writer.update(duplicate.handle, old, new)
            self._affected += 2
            self._duplicates += 1
            if self._target.auto >= 0:
                self._written_id = int(new[self._target.auto])
            return
        self._writer.keep(duplicate.handle)
        if self._context.session.client_found_rows:
            self._affected += 1
            self._duplicates += 1

    def _holder(self, duplicate: Duplicate) -> Row:
        row = self._writer.read(duplicate.handle)
        if row is None and self._table.info.global_indexes:
            raise duplicate  # from a partition being dropped, or unknown to this plan
        if row is None:
            raise Broken(f"an entry of {self._table.info.name.O} has no row")
        return row

    def result(self, several: bool) -> Result:
        """Runs the checks of foreign keys; returns the counts and the first generated id."""
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
