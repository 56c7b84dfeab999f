"""INSERT and REPLACE: from cells to rows (write/inserting.py puts them).

VALUES        each cell planned once: literal, `?`, DEFAULT or expression; the plan is kept by shape
SELECT        rows of another plan, converted column by column
"""

from collections.abc import Callable, Sequence

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrBadGeneratedColumn, ErrWrongValueCountOnRow
from exuvia.base.types import FieldType
from exuvia.catalog.convert import values
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.sql import expressions
from exuvia.sql.access.bounds import constant_of
from exuvia.sql.access.single_table import Source, check_writable
from exuvia.sql.bind.defaults import asks_generated_default, is_own_default
from exuvia.sql.expr import Column, walk
from exuvia.sql.expressions import Compiled, Visible
from exuvia.sql.nodes import Insert, Tree
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import OutputColumn, Result, Row, Value
from exuvia.sql.select.relational import relational
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan, Plan
from exuvia.sql.write.assignments import Assignments
from exuvia.sql.write.cells import assign_to, meant_for, narrowed
from exuvia.sql.write.column_sources import default_for
from exuvia.sql.write.duplicate_values import with_new_row
from exuvia.sql.write.insert_target import Target
from exuvia.sql.write.inserting import Inserting
from exuvia.sql.write.quiet import loss_of, overflowed
from exuvia.sql.write.selected import visible_of
from exuvia.sql.write.strictness import Strictness, loads_a_dump, strictness

Cell = Callable[[Row, Context, int], Value]


def _target(node: Insert, context: Context) -> Target:
    table = context.table(node.table.db or "", node.table.name)
    check_writable(table, "REPLACE" if node.replace else "INSERT", context)
    return Target(table, node.columns, node.partitions)


def _demand(node: Insert, target: Target, context: Context) -> None:
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
    target: Target,
    context: Context,
    rules: Strictness,
    read: Sequence[OutputColumn] = (),
) -> Assignments | None:
    """ON DUPLICATE KEY UPDATE: it sees the row that is there and, behind it, the new one, and what
    was `read` of the query's tables."""
    if not node.on_duplicate:
        return None
    table, name = target.table, node.table.name
    source = Source(table, node.table.db or "", name, name, ())
    known = {column.name.L for column in table.columns}
    pairs, new_row = with_new_row(node.on_duplicate, name, node.row_alias, known)
    width = len(table.info.cols)
    new = Visible(new_row, "", table.info.cols, table.columns, width)
    visible = [source.visible, new, visible_of(read, 2 * width)]
    return Assignments(pairs, source, visible, context, rules, in_turn=True)


def plan(node: Insert, context: Context) -> KeptPlan | None:
    """The plan of INSERT ... VALUES; None for INSERT ... SELECT."""
    return None if node.rows is None else InsertValues(node, node.rows, context)


class InsertValues(KeptPlan):
    """INSERT ... VALUES."""

    locks = True

    def __init__(self, node: Insert, rows: Sequence[Sequence[Tree]], context: Context) -> None:
        target = _target(node, context)
        super().__init__(target.table, node.table.db or "", node.table.name)
        self.short = target.auto < 0 and not target.is_hidden_id
        self._target = target
        self._names_columns = bool(node.columns)
        self._node = node
        self._policy = _policy(node)
        self._rules = strictness(context, node.ignore, len(rows) == 1)
        self._changes = _changes(node, target, context, self._rules)
        source = Source(target.table, "", node.table.name, node.table.name, ())
        self._rows = [
            self._cells(n + 1, row, source.visible, context) for n, row in enumerate(rows)
        ]

    def check(self, context: Context) -> None:
        """Raises 1142, 1143."""
        _demand(self._node, self._target, context)

    def _cells(
        self, number: int, row: Sequence[Tree], visible: Visible, context: Context
    ) -> list[tuple[int, Cell]]:
        named = self._target.named
        if not row and not self._names_columns:
            return [
                (position, default_cell(column))
                for position, column in named
                if position != self._target.auto
            ]
        if len(row) != len(named):
            raise ErrWrongValueCountOnRow(number)
        return [
            (position, self._cell(position, column, tree, visible, context))
            for (position, column), tree in zip(named, row, strict=True)
        ]

    def _cell(
        self, position: int, column: ColumnInfo, tree: Tree, visible: Visible, context: Context
    ) -> Cell:
        is_auto = position == self._target.auto
        if is_default(tree):
            return (lambda row, at, n: None) if is_auto else default_cell(column)
        if column.is_generated and is_own_default(tree, column.name.L):
            return default_cell(column)
        if column.is_generated or asks_generated_default(tree, self.table.info):
            if column.is_generated and loads_a_dump(context):
                return default_cell(column)
            raise ErrBadGeneratedColumn(column.name.O, self.table.info.name.O)
        tree = meant_for(column, tree)
        constant = constant_of(tree)
        if constant is not None:
            kind = expressions.constant_type(tree, context)
            store = storer(column, kind, is_auto, self._rules)
            return lambda row, at, n: store(constant(at), at, n)
        if tree.find(exp.Query):
            self.short = False
            return _nested_cell(column, tree, is_auto, self._rules)
        compiled = expressions.compiled(tree, [visible], context)
        call = _reads_zeros(compiled, self.table)
        store = storer(column, compiled.type, is_auto, self._rules)
        return lambda row, at, n: store(call(row, at), at, n)

    def run(self, context: Context) -> Result:
        """Put every row."""
        self._rules.begin(context)
        inserting = Inserting(self._target, self._policy, context, self._changes)
        inserting.reserve(len(self._rows))
        fresh = self._target.row
        for number, cells in enumerate(self._rows, 1):
            row = fresh(context)
            for position, cell in cells:
                row[position] = cell(row, context, number)
            inserting.add(row, number)
        return inserting.result(len(self._rows) > 1)


def _nested_cell(column: ColumnInfo, tree: Tree, is_auto: bool, rules: Strictness) -> Cell:
    """A value that a subquery gives, planned when it is wanted."""
    query = exp.Select(expressions=[tree.copy()])

    def cell(row: Row, context: Context, number: int) -> Value:
        found = relational(query, context)
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


Storer = Callable[[Value, Context, int], Value]


def storer(
    column: ColumnInfo, kind: FieldType, is_auto: bool, rules: Strictness, selected: bool = False
) -> Storer:
    """Convert and check one value; what is forgiven gives a warning and the nearest value.

    `selected`: it comes from a query, and warnings are worded so."""
    assign = assign_to(column, kind, rules.mode)
    loss = loss_of(column, kind, not selected)

    def store(value: Value, context: Context, number: int) -> Value:
        if is_auto and value is None:
            return None
        try:
            stored = assign(value, number)
        except Refused as error:
            if error.code not in rules.forgiven:
                raise
            said = overflowed(error, value, kind, column.type) if selected else error
            context.note(said.code, said.message)
            return narrowed(value, kind, column)
        if loss is not None:
            loss(value, stored, context, number)
        return stored

    return store


class InsertQuery(Plan):
    """INSERT ... SELECT: the rows are read before the first is put."""

    def __init__(self, node: Insert, query: Plan, context: Context, more: int = 0) -> None:
        """`more`: how many of the query's columns are only read (write/selected.py)."""
        self._target = _target(node, context)
        _demand(node, self._target, context)
        self._query = query
        self._rules = strictness(context, node.ignore)
        self._policy = _policy(node)
        self._width = len(query.columns) - more
        read = query.columns[self._width :]
        self._changes = _changes(node, self._target, context, self._rules, read)
        if self._width != len(self._target.named):
            raise ErrWrongValueCountOnRow(1)
        for _, column in self._target.named:
            if column.is_generated:
                raise ErrBadGeneratedColumn(column.name.O, self._target.table.info.name.O)
        self._storers = [
            (position, storer(column, each.type, position == self._target.auto, self._rules, True))
            for (position, column), each in zip(self._target.named, query.columns, strict=False)
        ]

    def run(self, context: Context) -> Result:
        """Read, then put every row."""
        self._rules.begin(context)
        rows = list(self._query.run(context).rows)
        inserting = Inserting(self._target, self._policy, context, self._changes)
        for number, found in enumerate(rows, 1):
            row = self._target.row(context)
            for (position, store), value in zip(self._storers, found, strict=False):
                row[position] = store(value, context, number)
            inserting.add(row, number, found[self._width :])
        return inserting.result(True)
