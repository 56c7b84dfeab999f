"""Expressions in TiDB's notation, for EXPLAIN.

a = 1 AND b LIKE 'x%'      eq(test.t.a, 1)  like(test.t.b, "x%", 92)
c IS NOT NULL              not(isnull(test.t.c))
b = 3, b a text            eq(cast(test.t.b, double BINARY), 3)
COUNT(*), SUM(DISTINCT a)  count(1)         sum(distinct test.t.a)

"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.table import Table
from exuvia.sql.access.ranger import shown_value
from exuvia.sql.expr import (
    Aggregate,
    Assign,
    Call,
    Cast,
    Column,
    Constant,
    Expr,
    Outer,
    Parameter,
    Subquery,
    VariableRef,
    Windowed,
)
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import type_text
from exuvia.sql.types import family_of


class ColumnText(NamedTuple):
    """A column; `table` is set for a stored table."""

    text: str
    table: Table | None = None
    position: int = -1


class ConstantText(NamedTuple):
    """A constant. `is_null`: NULL itself."""

    text: str
    is_null: bool = False


class CallText(NamedTuple):
    """A function call."""

    name: str
    arguments: "tuple[ExpressionText, ...]"

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(argument.text for argument in self.arguments)})"


ExpressionText = ColumnText | ConstantText | CallText


def conjuncts(*conditions: ExpressionText) -> list[ExpressionText]:
    """The conditions of a conjunction, without duplicates."""
    parts: dict[str, ExpressionText] = {}
    for condition in conditions:
        if isinstance(condition, CallText) and condition.name == "and":
            parts |= {part.text: part for part in conjuncts(*condition.arguments)}
        else:
            parts[condition.text] = condition
    return list(parts.values())


def _require_shallow(expression: ExpressionText) -> ExpressionText:
    """The expression itself. Raises RecursionError if its text is nested too deep to be built."""
    assert isinstance(expression.text, str)
    return expression


def sorted_texts(expressions: Sequence[ExpressionText]) -> str:
    """The texts in TiDB's order, which is alphabetical."""
    return ", ".join(sorted(expression.text for expression in expressions))


def stored_column(table: Table, position: int) -> ColumnText:
    """A column as database.table.column."""
    info = table.info
    place = f"{table.database.db_name.O}.{info.name.O}.{info.cols[position].name.O}"
    return ColumnText(place.lower(), table, position)


Naming = Callable[[Column], ExpressionText]
Leaf = Callable[[Expr], ExpressionText | None]

_NAMES = {
    "=": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "<=>": "nulleq",
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "div": "intdiv",
    "%": "mod",
    "&": "bitand",
    "|": "bitor",
    "^": "bitxor",
    "<<": "leftshift",
    ">>": "rightshift",
    "~": "bitneg",
    "negative": "unaryminus",
    "is null": "isnull",
    "is true": "istrue",
    "is false": "isfalse",
    "json_unquoted_extract": "json_unquote",
    "date_add_text": "date_add",
    "add_time": "addtime",
    "add_time_text": "addtime",
}


def function_name(function: str) -> str:
    """TiDB's name of a function or operator."""
    return _NAMES.get(function, function)


def of_bound(
    expr: Expr, name: Naming, context: Context, leaf: Leaf | None = None
) -> ExpressionText:
    """The text of a bound expression; parameters are replaced by their values.

    `leaf` is asked for the text of each part first; None: the part is converted here.

    An expression nested beyond the interpreter's depth (a sum of a thousand terms) becomes
    `name(...)`."""
    try:
        return _require_shallow(_of_bound(expr, name, context, leaf))
    except RecursionError:
        called = expr.function if isinstance(expr, Call) else type(expr).__name__.lower()
        return ConstantText(f"{function_name(called)}(...)")


def _of_bound(expr: Expr, name: Naming, context: Context, leaf: Leaf | None) -> ExpressionText:
    def of(part: Expr) -> ExpressionText:
        return _of_bound(part, name, context, leaf)

    own = None if leaf is None else leaf(expr)
    if own is not None:
        return own
    if isinstance(expr, Column):
        return name(expr)
    if isinstance(expr, Outer):
        return ColumnText(expr.full or expr.name)
    if isinstance(expr, Constant):
        return _constant(expr.value, expr.type)
    if isinstance(expr, Parameter):
        kind = context.parameter_types[expr.index]
        return _constant(context.parameters[expr.index], kind)
    if isinstance(expr, VariableRef):
        return ConstantText(f"@{'' if expr.scope == 'user' else '@'}{expr.name}")
    if isinstance(expr, Assign):
        return CallText("setvar", (ConstantText(f'"{expr.name}"'), of(expr.value)))
    if isinstance(expr, Cast):
        inner = of(expr.argument)
        if expr.argument.type.Tp in (TypeCode.ENUM, TypeCode.SET) and not expr.explicit:
            return inner
        return CallText("cast", (inner, ConstantText(_cast_type(expr.type))))
    if isinstance(expr, Aggregate):
        return ConstantText(_aggregate(expr, of))
    if isinstance(expr, Call):
        if expr.function in ("at_zone", "place_of_number", "exact_number"):
            return of(expr.arguments[0])
        arguments = tuple(map(of, expr.arguments))
        if expr.function == "like":
            escape = expr.arguments[2]
            if isinstance(escape, Constant) and isinstance(escape.value, str) and escape.value:
                arguments = (*arguments[:2], ConstantText(str(ord(escape.value[0]))))
        called = function_name(expr.function)
        if called == "date_add" and expr.extra:
            unit, sign = expr.extra[:2]
            called = "date_sub" if sign < 0 else called
            arguments = (*arguments, ConstantText(f'"{unit}"'))
        return CallText(called, arguments)
    if isinstance(expr, Windowed):
        return CallText(expr.function, tuple(map(of, expr.arguments)))
    return ConstantText("ScalarSubQuery" if isinstance(expr, Subquery) else type(expr).__name__)


def _constant(value: Value, kind: FieldType) -> ExpressionText:
    if value is None or kind.Tp == TypeCode.NULL:
        return ConstantText("NULL", is_null=True)
    if isinstance(value, float):
        return ConstantText(f"{value:.15g}")
    return ConstantText(shown_value(value, kind))


def _cast_type(kind: FieldType) -> str:
    if family_of(kind) is Family.STRING:
        return "var_string" if kind.Flen < 0 else f"var_string({kind.Flen})"
    return f"{type_text(kind)} BINARY"


def _aggregate(aggregate: Aggregate, of: Callable[[Expr], ExpressionText]) -> str:
    arguments = ", ".join(of(argument).text for argument in aggregate.arguments) or "1"
    if aggregate.order:
        keys = (f"{of(key).text}{' desc' if down else ''}" for key, down in aggregate.order)
        arguments += f" order by {', '.join(keys)}"
    if aggregate.function == "group_concat":
        arguments += f' separator "{aggregate.separator}"'
    return f"{aggregate.function}({'distinct ' if aggregate.distinct else ''}{arguments})"
