"""INSERT and REPLACE: from cells to rows (inserting.py puts them).

VALUES        each cell planned once: literal, `?`, DEFAULT or expression; the plan is kept by shape
SELECT        rows of another plan, converted column by column
"""

from collections.abc import Callable, Sequence

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.base.types import FieldType
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import expressions
from exuvia.sql.assignments import Assignments
from exuvia.sql.bounds import constant_of
from exuvia.sql.cells import NARROWED, assign_to, narrowed
from exuvia.sql.column_sources import default_for
from exuvia.sql.context import Context
from exuvia.sql.duplicate_values import with_new_row
from exuvia.sql.expressions import Visible
from exuvia.sql.insert_target import Target
from exuvia.sql.inserting import Inserting
from exuvia.sql.nodes import Insert, Tree
from exuvia.sql.parse import is_default
from exuvia.sql.plans import KeptPlan, Plan
from exuvia.sql.relational import relational
from exuvia.sql.result import Result, Row, Value
from exuvia.sql.single_table import Source, check_writable

Cell = Callable[[Row, Context, int], Value]


def _target(node: Insert, context: Context) -> Target:
    table = context.table(node.table.db or "", node.table.name)
    check_writable(table, "REPLACE" if node.replace else "INSERT", context)
    return Target(table, node.columns)


def _policy(node: Insert) -> str:
    if node.replace:
        return "replace"
    if node.on_duplicate:
        return "update"
    return "ignore" if node.ignore else "insert"


def _changes(node: Insert, target: Target, context: Context) -> Assignments | None:
    """ON DUPLICATE KEY UPDATE: it sees the row that is there and, behind it, the new one."""
    if not node.on_duplicate:
        return None
    table, name = target.table, node.table.name
    source = Source(table, node.table.db or "", name, name, ())
    pairs, new_row = with_new_row(node.on_duplicate, name, node.row_alias)
    width = len(table.info.cols)
    visible = [source.visible, Visible(new_row, "", table.info.cols, table.columns, width)]
    return Assignments(pairs, source, visible, context, node.ignore)


def plan(node: Insert, context: Context) -> KeptPlan | None:
    """The plan of INSERT ... VALUES; None for INSERT ... SELECT."""
    return None if node.rows is None else InsertValues(node, node.rows, context)


class InsertValues(KeptPlan):
    """INSERT ... VALUES."""

    def __init__(self, node: Insert, rows: Sequence[Sequence[Tree]], context: Context) -> None:
        target = _target(node, context)
        super().__init__(target.table, node.table.db or "", node.table.name)
        self.short = target.auto < 0 and not target.is_hidden_id
        self._target = target
        self._policy = _policy(node)
        self._ignore = node.ignore
        self._changes = _changes(node, target, context)
        source = Source(target.table, "", node.table.name, node.table.name, ())
        self._rows = [
            self._cells(n + 1, row, source.visible, context) for n, row in enumerate(rows)
        ]

    def _cells(
        self, number: int, row: Sequence[Tree], visible: Visible, context: Context
    ) -> list[tuple[int, Cell]]:
        named = self._target.named
        if not row:
            return [
                (position, _default_cell(column))
                for position, column in named
                if position != self._target.auto
            ]
        if len(row) != len(named):
            raise refuse(1136, number)
        return [
            (position, self._cell(position, column, tree, visible, context))
            for (position, column), tree in zip(named, row, strict=True)
        ]

    def _cell(
        self, position: int, column: ColumnInfo, tree: Tree, visible: Visible, context: Context
    ) -> Cell:
        is_auto = position == self._target.auto
        if is_default(tree):
            return (lambda row, at, n: None) if is_auto else _default_cell(column)
        constant = constant_of(tree)
        if constant is not None:
            kind = expressions.constant_type(tree, context)
            store = _storer(column, kind, is_auto, self._ignore)
            return lambda row, at, n: store(constant(at), at, n)
        if tree.find(exp.Query):
            self.short = False
            return _nested_cell(column, tree, is_auto, self._ignore)
        compiled = expressions.compiled(tree, [visible], context)
        call, store = compiled.call, _storer(column, compiled.type, is_auto, self._ignore)
        return lambda row, at, n: store(call(row, at), at, n)

    def run(self, context: Context) -> Result:
        """Put every row."""
        context.strict = not self._ignore
        inserting = Inserting(self._target, self._policy, context, self._changes)
        inserting.reserve(len(self._rows))
        fresh = self._target.row
        for number, cells in enumerate(self._rows, 1):
            row = fresh(context)
            for position, cell in cells:
                row[position] = cell(row, context, number)
            inserting.add(row, number)
        return inserting.result(len(self._rows) > 1)


def _nested_cell(column: ColumnInfo, tree: Tree, is_auto: bool, ignore: bool) -> Cell:
    """A value that a subquery gives, planned when it is wanted."""
    query = exp.Select(expressions=[tree.copy()])

    def cell(row: Row, context: Context, number: int) -> Value:
        found = relational(query, context)
        kind = found.columns[0].type
        return _storer(column, kind, is_auto, ignore)(found.rows[0][0], context, number)

    return cell


def _default_cell(column: ColumnInfo) -> Cell:
    return lambda row, context, n: default_for(column, context)


Storer = Callable[[Value, Context, int], Value]


def _storer(column: ColumnInfo, kind: FieldType, is_auto: bool, ignore: bool) -> Storer:
    """Convert and check one value; IGNORE turns a refusal into a warning and the nearest value."""
    assign = assign_to(column, kind)

    def store(value: Value, context: Context, number: int) -> Value:
        if is_auto and value is None:
            return None
        try:
            return assign(value, number)
        except Refused as error:
            if not ignore or error.code not in NARROWED:
                raise
            context.note(error.code, error.message)
            return narrowed(value, kind, column)

    return store


class InsertQuery(Plan):
    """INSERT ... SELECT: the rows are read before the first is put."""

    def __init__(self, node: Insert, query: Plan, context: Context) -> None:
        self._target = _target(node, context)
        self._query = query
        self._ignore = node.ignore
        self._policy = _policy(node)
        self._changes = _changes(node, self._target, context)
        if len(query.columns) != len(self._target.named):
            raise refuse(1136, 1)
        self._storers = [
            (position, _storer(column, each.type, position == self._target.auto, node.ignore))
            for (position, column), each in zip(self._target.named, query.columns, strict=True)
        ]

    def run(self, context: Context) -> Result:
        """Read, then put every row."""
        context.strict = not self._ignore
        rows = list(self._query.run(context).rows)
        inserting = Inserting(self._target, self._policy, context, self._changes)
        for number, values in enumerate(rows, 1):
            row = self._target.row(context)
            for (position, store), value in zip(self._storers, values, strict=True):
                row[position] = store(value, context, number)
            inserting.add(row, number)
        return inserting.result(True)
