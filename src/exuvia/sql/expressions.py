"""Expressions over the rows of a few tables: bound once, then called for each row.

    compiled(tree, visible, binding) -> Compiled      .type, .call(row, context)
    condition(tree, visible, binding) -> keeps(row, context)
    constant_of(tree) -> value(context)               for a literal or `?`

Statements use `bind` and `evaluate` only through this module.

Sort keys: NULL is first, text is ordered by the weights of its collation, others by value.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from sqlglot import exp

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.collation import collation
from exuvia.catalog.decimals import WIDE, whole
from exuvia.catalog.model import ColumnInfo
from exuvia.sql.bind.bind import bind, bind_condition
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.scope import Field, Scope
from exuvia.sql.env import Execution
from exuvia.sql.evaluate.compile import compile_expression, predicate
from exuvia.sql.expr import Expr
from exuvia.sql.functions import json_functions
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.literals import TYPED, bytes_of, letters_of, open_type, position_of
from exuvia.sql.parse.restore import without_charset
from exuvia.sql.result import Row


class Visible(NamedTuple):
    """A table whose columns an expression may name.

    Its `columns` are in rows from `offset` on. `positions`: the position of each public column, by
    lower-case name."""

    alias: str
    database: str
    columns: tuple[ColumnInfo, ...]
    positions: Mapping[str, int]
    offset: int = 0
    origin: str = ""
    is_view: bool = False

    @classmethod
    def of_columns(
        cls,
        alias: str,
        database: str,
        columns: tuple[ColumnInfo, ...],
        offset: int = 0,
        origin: str = "",
    ) -> "Visible":
        """A table all of whose columns are public."""
        positions = {column.name.L: n for n, column in enumerate(columns)}
        return cls(alias, database, columns, positions, offset, origin)

    def field(self, name: str) -> Field | None:
        """The public column of that lower-case name."""
        position = self.positions.get(name)
        if position is None:
            return None
        column = self.columns[position]
        return Field(
            self.offset + position,
            column.name.O,
            column.type,
            self.alias,
            self.database,
            column,
            self.origin or self.alias,
        )


class Compiled(NamedTuple):
    """A bound expression, ready to call."""

    bound: Expr
    type: FieldType
    call: Callable[[Row, Execution], Value]


def compiled(
    tree: Tree, visible: Sequence[Visible], binding: Binding | None, place: str = "field list"
) -> Compiled:
    """Binds and compiles. Raises 1054 with `place`, and the errors of `bind`."""
    return compiled_bound(bound(tree, visible, binding, place))


def compiled_bound(expr: Expr) -> Compiled:
    """Compiles a bound expression."""
    return Compiled(expr, expr.type, compile_expression(expr))


def bound(
    tree: Tree,
    visible: Sequence[Visible],
    binding: Binding | None,
    place: str = "field list",
    aggregates: bool = False,
) -> Expr:
    """The typed expression. With `aggregates` it may contain COUNT, SUM, ... (else 1111)."""
    scope = scope_of(visible, binding, place)
    if aggregates:
        scope.grouped = []
    return bind(tree, scope)


def condition(
    tree: Tree, visible: Sequence[Visible], binding: Binding | None, place: str = "where clause"
) -> Callable[[Row, Execution], bool]:
    """Returns a function that tests a row. Raises 1054 with `place`."""
    return predicate(bind_condition(tree, scope_of(visible, binding, place)))


def scope_of(visible: Sequence[Visible], binding: Binding | None, place: str) -> Scope:
    """The scope of an expression over these tables. Costs the same for any number of columns."""

    def named(name: str) -> list[Field]:
        return [field for table in visible if (field := table.field(name)) is not None]

    return Scope((), binding, clause=place, named=named)


# -- constants -------------------------------------------------------------------------------------

ConstantOf = Callable[[Execution], Value]
_NO_LITERAL: Final = object()


def constant_of(tree: Tree) -> ConstantOf | None:
    """Returns a function that gives the value of a literal or `?`; None for any other tree."""
    if isinstance(tree, exp.Paren):
        return constant_of(tree.this)
    if isinstance(tree, exp.Placeholder):
        position = position_of(tree)
        return lambda context: context.parameters[position]
    value = _literal(tree)
    return None if value is _NO_LITERAL else lambda context: value


def comparand_of(tree: Tree) -> ConstantOf | None:
    """As `constant_of`, for bounds of a key (access/ranger.py)."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Placeholder):
        position = position_of(tree)
        # in the hot path of each statement: most parameters need no TypedValue
        return lambda context: (
            context.comparand(position)
            if context.letters[position] in TYPED
            else context.parameters[position]
        )
    raw = bytes_of_literal(tree)
    return constant_of(tree) if raw is None else lambda context: raw


def bytes_of_literal(tree: Tree) -> bytes | None:
    """The bytes of x'41' or b'01'; None for any other tree."""
    if isinstance(tree, exp.HexString):
        return bytes.fromhex(tree.name.zfill((len(tree.name) + 1) // 2 * 2))
    if isinstance(tree, exp.BitString):
        return int(tree.name or "0", 2).to_bytes((len(tree.name) + 7) // 8, "big")
    return None


def literal_of(tree: Tree) -> tuple[Value, ...]:
    """The value of a literal as a tuple of one; () for any other tree."""
    value = _literal(tree)
    return () if value is _NO_LITERAL else (value,)


def _literal(tree: Tree) -> Value:
    """Value of a literal, in parentheses or not; _NO_LITERAL for any other tree."""
    if isinstance(tree, exp.Paren):
        return _literal(tree.this)
    if isinstance(tree, exp.Neg):
        inner = _literal(tree.this)
        if isinstance(inner, Decimal):
            return WIDE.minus(inner)  # Python's own minus rounds to 28 digits
        return -inner if isinstance(inner, int | float) else _NO_LITERAL
    if isinstance(tree, exp.Literal):
        return _text(tree.name) if tree.is_string else _number(tree.name)
    if isinstance(tree, exp.Boolean):
        return int(bool(tree.this))
    if isinstance(tree, (exp.Introducer, exp.National)):
        bare = without_charset(tree)
        return _NO_LITERAL if bare is tree else _literal(bare)
    return None if isinstance(tree, exp.Null) else _NO_LITERAL


def _text(text: str) -> str | bytes:
    raw = bytes_of(text)
    return text if raw is None else raw


def _number(text: str) -> int | Decimal | float:
    if text.isdigit():
        return whole(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def constant_type(tree: Tree, binding: Binding) -> FieldType:
    """The type of a literal or `?` that is stored in a column without a computation. Ignores
    parentheses."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Placeholder):
        return binding.constant_type(position_of(tree))
    return open_type(letters_of([_literal(tree)]))


# -- keys to sort by -------------------------------------------------------------------------------

_NULL = (0,)


def comparer(kind: FieldType) -> Callable[[Value], Any]:
    """A function from values of that type (and NULL) to sort keys."""
    if kind.Tp == TypeCode.NULL:
        return lambda value: _NULL
    if kind.family == Family.STRING:
        weights = collation(kind.Collate).sort_key
        return lambda value: _NULL if value is None else (1, weights(value))
    if kind.family == Family.JSON:
        return lambda value: _NULL if value is None else (1, json_functions.key(value))
    return lambda value: _NULL if value is None else (1, value)


def comparable(kind: FieldType, values: Sequence[Value]) -> Sequence[Any]:
    """A sort key for each value of that type or NULL. Equal values have equal keys.

    As `comparer`, but without the tuples if no value is NULL."""
    if None in values or kind.Tp == TypeCode.NULL or kind.family == Family.JSON:
        return list(map(comparer(kind), values))
    if kind.family == Family.STRING:
        return collation(kind.Collate).sort_keys_of(cast(Sequence[str], values))
    return values


def equal_key(kind: FieldType) -> Callable[[Value], Any]:
    """A function that gives equal values of that type the same hashable key (for DISTINCT)."""
    return comparer(kind)
