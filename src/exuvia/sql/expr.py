"""Typed expressions: the output of `bind`, and the input of both evaluators.

    Column      a position in the row of its scope        Call        a function or operator
    Outer       a position in the row of an outer scope   Cast        a change of type
    Constant    a value                                   Aggregate   COUNT, SUM, ... of a group
    Parameter   a `?`, by its place                       Windowed    a call OVER (...)
    Variable    @user or @@system                         Subquery    (SELECT ...), bound
    ComputedValue    a value computed by a Python function

Every node has its MySQL type and its collation's *coercibility* (0 explicit COLLATE ... 6 NULL).
Evaluators do not decide about types again. Values follow the family table of base/types.py."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace as evolve

from exuvia.base.types import Family, FieldType, TypeCode, Value

EXPLICIT, NO_COLLATION, IMPLICIT, SYSTEM, COERCIBLE, NUMERIC, IGNORABLE = range(7)


class Expr(msgspec.Struct, frozen=True, kw_only=True):
    """Root. `type` is never None; NULL itself has TypeCode.NULL."""

    type: FieldType
    coercibility: int = NUMERIC

    @property
    def family(self) -> Family | None:
        """The family of its values; None for the literal NULL."""
        return None if self.type.Tp == TypeCode.NULL else self.type.family


class Column(Expr, frozen=True, kw_only=True):
    """A column of the nearest scope. `full` is database.table.column, as used in errors."""

    position: int
    name: str = ""
    table: str = ""
    full: str = ""


class Outer(Expr, frozen=True, kw_only=True):
    """A column of an enclosing scope; `depth` 1 is the next one."""

    depth: int
    position: int
    name: str = ""
    table: str = ""
    full: str = ""


class Constant(Expr, frozen=True, kw_only=True):
    """A value.

    `hexadecimal`: x'41' and b'01' literals, which are numbers in a numeric context."""

    value: Value
    hexadecimal: bool = False


class Parameter(Expr, frozen=True, kw_only=True):
    """A `?`; the environment has its value."""

    index: int


class VariableRef(Expr, frozen=True, kw_only=True):
    """@name (scope 'user'), @@name (scope '', 'session' or 'global')."""

    name: str
    scope: str


class Assign(Expr, frozen=True, kw_only=True):
    """@name := value."""

    name: str
    value: Expr


class Cast(Expr, frozen=True, kw_only=True):
    """The argument in another type. `explicit` is CAST / CONVERT."""

    argument: Expr
    explicit: bool = False


class Call(Expr, frozen=True, kw_only=True):
    """A function applied.

    `extra` has parts that are not values: an interval unit, a comparison's collation. A chain of
    thousands of calls is not nested: it is compared and hashed as a list of its parts."""

    function: str
    arguments: tuple[Expr, ...]
    extra: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Call) and _parts(self) == _parts(other)

    def __hash__(self) -> int:
        return hash(tuple(_parts(self)))


def _parts(expr: Expr) -> list[Any]:
    parts: list[Any] = []
    pending = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, Call):
            size = len(node.arguments)
            parts.append((node.type, node.coercibility, node.function, size, node.extra))
            pending += node.arguments
        elif isinstance(node, Cast):
            parts.append((node.type, node.coercibility, node.explicit))
            pending.append(node.argument)
        else:
            parts.append(node)
    return parts


class Aggregate(Expr, frozen=True, kw_only=True):
    """An aggregate over the rows of a group. `order`: (expression, descending) of GROUP_CONCAT."""

    function: str
    arguments: tuple[Expr, ...]
    distinct: bool = False
    order: tuple[tuple[Expr, bool], ...] = ()
    separator: str = ","


class FrameBound(msgspec.Struct, frozen=True):
    """One end of a window's frame.

    side      UNBOUNDED PRECEDING, PRECEDING, CURRENT ROW, FOLLOWING, UNBOUNDED FOLLOWING
    amount    the constant in front of PRECEDING or FOLLOWING; for an interval, the number of units
    moved     with an interval: the ORDER BY value, moved by it
    """

    side: str
    amount: Expr | None = None
    moved: Expr | None = None


class WindowFrame(msgspec.Struct, frozen=True):
    """ROWS or RANGE BETWEEN start AND end, in the window of this name.

    `key` is the ORDER BY value that a RANGE with amounts measures, else None."""

    kind: str
    start: FrameBound
    end: FrameBound
    window: str
    key: Expr | None = None


class Windowed(Expr, frozen=True, kw_only=True):
    """`call` OVER (PARTITION BY ... ORDER BY ... frame)."""

    function: str
    arguments: tuple[Expr, ...]
    partition: tuple[Expr, ...] = ()
    order: tuple[tuple[Expr, bool], ...] = ()
    frame: WindowFrame | None = None
    distinct: bool = False


SEMI = "semi"  # IN where NULL counts as false
MEMBER = "member"  # one column of a row from a query


class Subquery(Expr, frozen=True, kw_only=True):
    """A nested query. kind: 'scalar', 'exists', 'in' (SEMI), 'any', 'all'; `operator` for any/all,
    or MEMBER."""

    kind: str
    query: Any
    operands: tuple[Expr, ...] = ()
    operator: str = "="
    collate: str = "binary"

    def __hash__(self) -> int:
        """Without the query, which has lists."""
        return hash((self.kind, self.operands, self.operator))


class ComputedValue(Expr, frozen=True, kw_only=True):
    """The value of `call(row, env)`: a subquery in the row engine."""

    call: Any

    def __hash__(self) -> int:
        return id(self.call)


def is_equivalent(one: Expr, other: Expr) -> bool:
    """Whether two bindings of one tree have the same values and comparisons.

    They do if all nodes except literals have the same type and collation."""
    one, other = _without_date_check(one), _without_date_check(other)
    if isinstance(one, Constant) and isinstance(other, Constant):
        return one.value == other.value and one.type.Decimal == other.type.Decimal
    if type(one) is not type(other) or _facts(one.type) != _facts(other.type):
        return False
    if _operation(one) != _operation(other):
        return False
    mine, theirs = children(one), children(other)
    if len(mine) != len(theirs):
        return False
    return all(is_equivalent(a, b) for a, b in zip(mine, theirs, strict=True))


def _without_date_check(expr: Expr) -> Expr:
    """The argument of CAST before NO_ZERO_DATE applies, because indexes contain the zero date."""
    if isinstance(expr, Call) and expr.function == "nonzero_moment":
        return expr.arguments[0]
    return expr


def _operation(expr: Expr) -> tuple[Any, ...]:
    return (expr.function, expr.extra) if isinstance(expr, Call) else ()


def _facts(kind: FieldType) -> tuple[Any, ...]:
    return kind.Tp, kind.unsigned, kind.Decimal, kind.Collate


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions."""
    if isinstance(expr, Call):
        return expr.arguments
    if isinstance(expr, Cast):
        return (expr.argument,)
    if isinstance(expr, Aggregate):
        return expr.arguments + tuple(key for key, _ in expr.order)
    if isinstance(expr, Windowed):
        keys = tuple(key for key, _ in expr.order)
        return expr.arguments + expr.partition + keys + _frame_parts(expr.frame)
    if isinstance(expr, Subquery):
        return expr.operands
    if isinstance(expr, Assign):
        return (expr.value,)
    return ()


def _frame_parts(frame: WindowFrame | None) -> tuple[Expr, ...]:
    if frame is None:
        return ()
    parts = (frame.start.amount, frame.start.moved, frame.end.amount, frame.end.moved, frame.key)
    return tuple(part for part in parts if part is not None)


def replaced(expr: Expr, leaf: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with some nodes replaced: `leaf` returns the new node, or None to descend."""
    replacement = leaf(expr)
    if replacement is not None:
        return replacement
    if isinstance(expr, Cast):
        return evolve(expr, argument=replaced(expr.argument, leaf))
    calls = chain(expr)
    if calls:
        result = replaced(calls[-1].arguments[0], leaf)
        for call in reversed(calls):
            result = evolve(call, arguments=(result, replaced(call.arguments[1], leaf)))
        return result
    if isinstance(expr, Call):
        return evolve(expr, arguments=tuple(replaced(part, leaf) for part in expr.arguments))
    if isinstance(expr, Assign):
        return evolve(expr, value=replaced(expr.value, leaf))
    return expr


LONG_CHAIN = 64
_CHAINED = frozenset(("+", "-", "*", "/", "div", "%", "&", "|", "^", "<<", ">>"))


def chain(expr: Expr) -> list[Call]:
    """The calls of a + b - c ..., the outermost first; [] for at most LONG_CHAIN calls.

    Code that walks expressions handles such a chain in a loop, without recursion."""
    calls: list[Call] = []
    while isinstance(expr, Call) and expr.function in _CHAINED and len(expr.arguments) == 2:
        calls.append(expr)
        expr = expr.arguments[0]
    return calls if len(calls) > LONG_CHAIN else []


def divides(expr: Expr) -> bool:
    """Whether a decimal is a quotient, which has more digits than its type shows."""
    if isinstance(expr, Constant) and isinstance(expr.value, Decimal):
        exponent = expr.value.as_tuple().exponent
        return isinstance(exponent, int) and -exponent > max(0, expr.type.Decimal)
    if isinstance(expr, Aggregate | Windowed):
        is_exact = expr.family is Family.DECIMAL and expr.function in _EXACT_FOLDS
        return is_exact and (expr.function == "avg" or divides(expr.arguments[0]))
    calls = chain(expr)
    if calls:
        parts = [calls[-1].arguments[0], *(call.arguments[1] for call in calls)]
        return any(call.function == "/" for call in calls) or any(map(divides, parts))
    if isinstance(expr, Call) and expr.family is Family.DECIMAL:
        return expr.function == "/" or any(divides(part) for part in expr.arguments)
    return isinstance(expr, Cast) and expr.family is Family.DECIMAL and divides(expr.argument)


_EXACT_FOLDS = frozenset(("sum", "avg", "min", "max", "any_value"))


def walk(expr: Expr) -> "list[Expr]":
    """The expression and all its subexpressions, outermost first."""
    nodes = [expr]
    for node in nodes:
        nodes.extend(children(node))
    return nodes


def columns_of(expr: Expr) -> set[int]:
    """The positions that the expression reads in its own scope."""
    return {node.position for node in walk(expr) if isinstance(node, Column)}


def is_constant(expr: Expr) -> bool:
    """Whether it has the same value in every row of one statement (parameters included)."""
    return not any(
        isinstance(node, Column | Outer | Aggregate | Windowed | Subquery | Assign | ComputedValue)
        for node in walk(expr)
    )
