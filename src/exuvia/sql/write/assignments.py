"""`SET a = x, b = y`: new values of a row.

    UPDATE             every expression sees the row as it was (TiDB; MySQL goes left to right)
    ON DUPLICATE KEY   each expression sees the assignments before it

    apply(old row, more, context) -> new row    `more`: values behind the row that expressions may
                                                read (ON DUPLICATE KEY UPDATE's new row)

A column with ON UPDATE CURRENT_TIMESTAMP that is not named takes the time when another one
changed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrBadGeneratedColumn
from exuvia.base.types import FieldType, Flag, Value
from exuvia.catalog.convert.values import STRICT, Mode
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import expressions
from exuvia.sql.access.single_table import TableSource
from exuvia.sql.bind.defaults import is_own_default
from exuvia.sql.cells import Assign, assign_to, meant_for, narrowed
from exuvia.sql.expressions import Visible, constant_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.column_sources import default_for, now_for
from exuvia.sql.write.strictness import Strictness, loss_of, overflowed, updated

Getter = Callable[[Row, Context], Value]


class Given(NamedTuple):
    """A value that was computed before: its place behind the row, and its type."""

    place: int
    type: FieldType


class AssignmentStep:
    """One assignment."""

    __slots__ = ("assign", "column", "getter", "kind", "loss", "position")

    def __init__(
        self,
        position: int,
        column: ColumnInfo,
        getter: Getter,
        kind: FieldType | None,
        mode: Mode = STRICT,
    ) -> None:
        self.position = position
        self.column = column
        self.getter = getter
        self.kind = kind
        self.assign: Assign | None = None if kind is None else assign_to(column, kind, mode)
        self.loss = None if kind is None else loss_of(column, kind, named=False)


class Assignments:
    """All assignments of a statement."""

    def __init__(
        self,
        pairs: Sequence[tuple[exp.Column, Tree | Given]],
        source: TableSource,
        visible: Sequence[Visible],
        context: Context,
        rules: Strictness,
        in_turn: bool = False,
    ) -> None:
        self._in_turn = in_turn
        self._forgiven, mode = rules.forgiven, rules.mode
        self._steps = [_step(name, tree, source, visible, context, mode) for name, tree in pairs]
        named = {step.position for step in self._steps}
        self._moments = [
            (position, column)
            for position, column in enumerate(source.table.info.cols)
            if column.type.Flag & Flag.ON_UPDATE_NOW and position not in named
        ]
        self.positions = frozenset(named)

    def apply(self, old: Row, more: Row, context: Context, number: int) -> Row:
        """The row with its new values. Raises 1048, 1264, 1265, ... with column and row number."""
        width = len(old)
        row = [*old, *more] if more else list(old)
        seen = row if self._in_turn or len(self._steps) == 1 else row.copy()
        for step in self._steps:
            value = step.getter(seen, context)
            row[step.position] = self._assigned(step, value, context, number)
        if more:
            del row[width:]
        if self._moments and row != old:
            for position, column in self._moments:
                row[position] = now_for(column, context)
        return row

    def _assigned(self, step: AssignmentStep, value: Value, context: Context, number: int) -> Value:
        if step.assign is None or step.kind is None:
            return value
        try:
            stored = step.assign(value, number)
        except Refused as error:
            said = error if self._in_turn else updated(error, value, step.kind, step.column.type)
            if error.code not in self._forgiven:
                raise said from None
            said = overflowed(said, value, step.kind, step.column.type)
            context.note(said.code, said.message)
            return narrowed(value, step.kind, step.column)
        if step.loss is not None:
            step.loss(value, stored, context, number)
        return stored


def _step(
    name: exp.Column,
    tree: Tree | Given,
    source: TableSource,
    visible: Sequence[Visible],
    context: Context,
    mode: Mode,
) -> AssignmentStep:
    position = source.position(name)
    column = source.table.info.cols[position]
    if column.is_generated:
        own = not isinstance(tree, Given) and is_own_default(tree, column.name.L)
        if not own and (isinstance(tree, Given) or not is_default(tree)):
            raise ErrBadGeneratedColumn(column.name.O, source.table.info.name.O)
        return AssignmentStep(position, column, lambda row, at: row[position], None)
    if isinstance(tree, Given):
        place = len(source.table.info.cols) + tree.place
        return AssignmentStep(position, column, lambda row, at: row[place], tree.type, mode)
    if is_default(tree):
        return AssignmentStep(position, column, lambda row, at: default_for(column, at), None)
    tree = meant_for(column, tree)
    constant = constant_of(tree)
    if constant is not None:
        kind = expressions.constant_type(tree, context)
        return AssignmentStep(position, column, lambda row, at: constant(at), kind, mode)
    compiled = expressions.compiled(tree, visible, context)
    call = compiled.call

    def getter(row: Row, at: Context) -> Value:
        return call(row, at)

    return AssignmentStep(position, column, getter, compiled.type, mode)
