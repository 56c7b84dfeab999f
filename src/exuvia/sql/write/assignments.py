"""`SET a = x, b = y`: new values of a row.

    UPDATE             all expressions read the old row, as in TiDB
    ... in mysql mode  each expression reads the assignments before it, if it has no subquery
    ON DUPLICATE KEY   each expression reads the assignments before it

    apply(old row, more, context) -> new row    `more`: values after the row for the expressions
                                                (the new row of ON DUPLICATE KEY UPDATE)

A column with ON UPDATE CURRENT_TIMESTAMP that is not assigned is set to the time if another column
changed.

The value of a column that a statement does not name is its default, the time, or an id:

constant default    the same value in every row
CURRENT_TIMESTAMP   the statement's time, truncated to the column's digits
DEFAULT (expr)      evaluated for each row
AUTO_INCREMENT      set later (write/insert.py)
generated           NULL here; computed before the row is written (write/rows.py)
no default          NULL; for NOT NULL 1364, and with IGNORE a warning and the type's zero
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadGeneratedColumn,
    ErrNoDefaultForField,
    WarnDataTruncated,
)
from exuvia.base.types import FieldType, Flag, TypeCode, Value
from exuvia.catalog.convert import values
from exuvia.catalog.convert.values import LENIENT, STRICT, Mode
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import expressions
from exuvia.sql.access.single_table import TableSource
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.literals import is_own_default
from exuvia.sql.bind.scope import stored
from exuvia.sql.cells import (
    MOMENT,
    NARROWED,
    Assign,
    assign_to,
    is_dated,
    literal_for,
    narrowed,
    on_day,
)
from exuvia.sql.env import Execution
from exuvia.sql.expressions import Visible, constant_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.text import is_default, parse_expression
from exuvia.sql.result import Row
from exuvia.sql.select import relational
from exuvia.sql.type_text import is_now_default
from exuvia.sql.write.strictness import Strictness, loss_of, overflowed, updated

ColumnSource = Callable[[Execution], Value]


def now_for(column: ColumnInfo, context: Execution) -> Value:
    """The statement's time as stored in the column."""
    if column.type.Tp not in (TypeCode.DATETIME, TypeCode.TIMESTAMP):
        return None
    now = context.utc_now if column.type.Tp == TypeCode.TIMESTAMP else context.now
    return now - (now & 0xFFFFF) % 10 ** (6 - max(0, column.type.Decimal))


def constant_default(column: ColumnInfo) -> Value:
    """The default if it is the same value for all rows, else None."""
    if column.auto_increment or column.default_is_expr or is_now_default(column):
        return None
    return values.default_of(column)


def source_of(column: ColumnInfo) -> ColumnSource | None:
    """Returns the function that computes the default; None if `constant_default` is enough."""
    if column.auto_increment or column.is_generated:
        return None
    if is_now_default(column):
        return lambda context: now_for(column, context)
    if column.default_is_expr:
        return _expression(column)
    if column.not_null and column.type.Tp == TypeCode.ENUM and column.default is None:
        return lambda context: 1  # MySQL's default: the first element
    lacks = column.not_null or column.type.Flag & Flag.NO_DEFAULT_VALUE
    if lacks and values.default_of(column) is None:
        return _missing(column)
    return None


def _expression(column: ColumnInfo) -> ColumnSource:
    tree = parse_expression(str(column.default))

    def source(context: Execution) -> Value:
        whole: Any = context  # an expression is planned with its whole statement
        value, kind = relational.scalar_value(tree, whole, "expression")
        mode = (STRICT if context.strict else LENIENT)._replace(zone=context.zone)
        try:
            return assign_to(column, kind, mode)(value, 1)
        except Refused as error:
            cast_error = _as_cast(error, value, kind, column)
            if context.strict or error.code not in NARROWED:
                raise cast_error from None
            context.note(cast_error.code, cast_error.message)
            return narrowed(value, kind, column, mode)

    return source


def _as_cast(error: Refused, value: Value, kind: FieldType, column: ColumnInfo) -> Refused:
    """The error of a DEFAULT expression, with TiDB's text for casts and its unfilled blanks."""
    cast_error = updated(error, value, kind, column.type)
    if cast_error is error and error.code == WarnDataTruncated.code:
        return WarnDataTruncated.with_text("Data truncated for column '%s' at row %d")
    return cast_error


def _missing(column: ColumnInfo) -> ColumnSource:
    def source(context: Execution) -> Value:
        missing = ErrNoDefaultForField(column.name.O)
        if context.strict:
            raise missing
        context.note(missing.code, missing.message)
        return values.zero_of(column.type) if column.not_null else None

    return source


def default_for(column: ColumnInfo, context: Execution) -> Value:
    """The value of DEFAULT. Raises 1364."""
    source = source_of(column)
    return constant_default(column) if source is None else source(context)


# -- assignments -----------------------------------------------------------------------------------

Getter = Callable[[Row, Execution], Value]


class Given(NamedTuple):
    """A value that the query has computed: its position after the row, and its type."""

    place: int
    type: FieldType


class AssignmentStep:
    __slots__ = ("assign", "column", "getter", "kind", "loss", "position")

    def __init__(
        self,
        position: int,
        column: ColumnInfo,
        getter: Getter,
        kind: FieldType | None,
        mode: Mode = STRICT,
    ) -> None:
        if kind is not None and is_dated(kind, column.type):
            time = getter
            getter, kind = lambda row, context: on_day(time(row, context), context.now), MOMENT
        self.position = position
        self.column = column
        self.getter = getter
        self.kind = kind
        self.assign: Assign | None = None if kind is None else assign_to(column, kind, mode)
        self.loss = None if kind is None else loss_of(column, kind, named=False)


class Assignments:
    """All assignments of a statement. `duplicate`: those of ON DUPLICATE KEY UPDATE."""

    def __init__(
        self,
        pairs: Sequence[tuple[exp.Column, Tree | Given]],
        source: TableSource,
        visible: Sequence[Visible],
        binding: Binding,
        rules: Strictness,
        duplicate: bool = False,
    ) -> None:
        self._duplicate = duplicate
        self._in_turn = duplicate or binding.variable("exuvia_compatibility") == "mysql"
        self._forgiven, mode = rules.forgiven, rules.mode
        self._mode = mode
        self._steps = [_step(name, tree, source, visible, binding, mode) for name, tree in pairs]
        named = {step.position for step in self._steps}
        self._moments = [
            (position, column)
            for position, column in enumerate(source.table.info.cols)
            if column.type.Flag & Flag.ON_UPDATE_NOW and position not in named
        ]
        self.positions = frozenset(named)

    def apply(self, old: Row, more: Row, context: Execution, number: int) -> Row:
        """The row with its new values. Raises 1048, 1264, 1265, ... with column and row number."""
        width = len(old)
        row = [*old, *more] if more else list(old)
        read_from = row if self._in_turn or len(self._steps) == 1 else row.copy()
        for step in self._steps:
            value = step.getter(read_from, context)
            row[step.position] = self._assigned(step, value, context, number)
        if more:
            del row[width:]
        if self._moments and row != old:
            for position, column in self._moments:
                row[position] = now_for(column, context)
        return row

    def _assigned(
        self, step: AssignmentStep, value: Value, context: Execution, number: int
    ) -> Value:
        if step.assign is None or step.kind is None:
            return value
        try:
            stored = step.assign(value, number)
        except Refused as error:
            update_error = (
                error if self._duplicate else updated(error, value, step.kind, step.column.type)
            )
            if error.code not in self._forgiven:
                raise update_error from None
            update_error = overflowed(update_error, value, step.kind, step.column.type)
            context.note(update_error.code, update_error.message)
            return narrowed(value, step.kind, step.column, self._mode)
        if step.loss is not None:
            step.loss(value, stored, context, number)
        return stored


def _step(
    name: exp.Column,
    tree: Tree | Given,
    source: TableSource,
    visible: Sequence[Visible],
    binding: Binding,
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
    tree = literal_for(column, tree)
    constant = constant_of(tree)
    if constant is not None:
        kind = expressions.constant_type(tree, binding)
        return AssignmentStep(position, column, lambda row, at: constant(at), kind, mode)
    bound = expressions.bound(tree, visible, binding)
    compiled = expressions.compiled_bound(stored(bound))
    call = compiled.call

    def getter(row: Row, at: Execution) -> Value:
        return call(row, at)

    return AssignmentStep(position, column, getter, compiled.type, mode)
