"""Expressions in TiDB's notation, for EXPLAIN.

    a = 1 AND b LIKE 'x%'      eq(test.t.a, 1)  like(test.t.b, "x%", 92)
    c IS NOT NULL              not(isnull(test.t.c))
    b = 3, b a text            eq(cast(test.t.b, double BINARY), 3)
    COUNT(*), SUM(DISTINCT a)  count(1)         sum(distinct test.t.a)

They are made from bound expressions (`of_bound`) and from DuckDB's texts (`of_duckdb`). In DuckDB's
texts a string is compared by its collation's key, which is omitted here. A moment is a number
there, and printed as a moment here. DuckDB's texts in an unknown form are not changed.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp
from sqlglot import parse_one as parse_duckdb
from sqlglot.errors import SqlglotError

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.table import Table
from exuvia.sql import walks
from exuvia.sql.access.ranger import shown_value
from exuvia.sql.duck.render import FITS
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


# -- from bound expressions ------------------------------------------------------------------------

Naming = Callable[[Column], ExpressionText]

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


def of_bound(expr: Expr, name: Naming, context: Context) -> ExpressionText:
    """The text of a bound expression; parameters are replaced by their values.

    An expression nested beyond the interpreter's depth (a sum of a thousand terms) becomes
    `name(...)`."""
    try:
        return _require_shallow(_of_bound(expr, name, context))
    except RecursionError:
        called = expr.function if isinstance(expr, Call) else type(expr).__name__.lower()
        return ConstantText(f"{_NAMES.get(called, called)}(...)")


def _of_bound(expr: Expr, name: Naming, context: Context) -> ExpressionText:
    def of(part: Expr) -> ExpressionText:
        return _of_bound(part, name, context)

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
        if expr.function in ("at_zone", "place_of_number"):
            return of(expr.arguments[0])
        arguments = tuple(map(of, expr.arguments))
        if expr.function == "like":
            escape = expr.arguments[2]
            if isinstance(escape, Constant) and isinstance(escape.value, str) and escape.value:
                arguments = (*arguments[:2], ConstantText(str(ord(escape.value[0]))))
        called = _NAMES.get(expr.function, expr.function)
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


# -- from DuckDB's texts ---------------------------------------------------------------------------

Resolve = Callable[[str], ExpressionText | None]

_OPERATORS: dict[type, str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.And: "and",
    exp.Or: "or",
    exp.Not: "not",
    exp.Add: "plus",
    exp.Sub: "minus",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.IntDiv: "intdiv",
    exp.Mod: "mod",
    exp.Neg: "unaryminus",
    exp.NullSafeEQ: "nulleq",
    exp.NullSafeNEQ: "ne",
    exp.DPipe: "concat",
}
_LIKE = {"prefix": "{}%", "suffix": "%{}", "contains": "%{}%"}
_REFERENCE = re.compile(r"#(\d+)")
_PLACE = "exuvia_place_"
_MOMENTS = (Family.DATE, Family.DATETIME, Family.TIME)


def of_duckdb(text: str, resolve: Resolve) -> ExpressionText:
    """Convert DuckDB's text. `resolve` returns the column of a name, or of #n, the input's n-th
    column."""
    try:
        return _require_shallow(_of_tree(_parsed(text), resolve))
    except (SqlglotError, RecursionError):
        return ConstantText(text)


def compared_by_duckdb(text: str, resolve_left: Resolve, resolve_right: Resolve) -> ExpressionText:
    """Convert a comparison in a join. Each side resolves names of its own."""
    try:
        tree = _parsed(text)
        while isinstance(tree, exp.Paren):
            tree = tree.this
        name = _OPERATORS.get(type(tree))
        if name is None or tree.args.get("expression") is None:
            return ConstantText(text)
        sides = _of_tree(tree.this, resolve_left), _of_tree(tree.expression, resolve_right)
        return _require_shallow(CallText(name, sides))
    except (SqlglotError, RecursionError):
        return ConstantText(text)


def _parsed(text: str) -> exp.Expr:
    return parse_duckdb(_REFERENCE.sub(rf"{_PLACE}\1", text), dialect="duckdb")


def _of_tree(tree: exp.Expr, resolve: Resolve) -> ExpressionText:
    if isinstance(tree, exp.Paren | exp.Alias | exp.IgnoreNulls):
        return _of_tree(tree.this, resolve)
    if isinstance(tree, exp.Column):
        name = tree.name.replace(_PLACE, "#")
        return resolve(name) or ColumnText(name)
    if isinstance(tree, exp.Literal):
        return ConstantText(f'"{tree.name}"' if tree.is_string else tree.name)
    if isinstance(tree, exp.Null):
        return ConstantText("NULL", is_null=True)
    if isinstance(tree, exp.Boolean):
        return ConstantText("1" if tree.this else "0")
    if isinstance(tree, exp.Cast):
        inner = _of_tree(tree.this, resolve)
        if isinstance(inner, ConstantText):
            return inner
        return CallText("cast", (inner, ConstantText(f"{tree.to.sql('duckdb').lower()} BINARY")))
    if isinstance(tree, exp.Is):
        return CallText("isnull", (_of_tree(tree.this, resolve),))
    if isinstance(tree, exp.Case):
        return _case(tree, resolve)
    if isinstance(tree, exp.In):
        operands = (tree.this, *tree.expressions)
        return _as_moments(
            CallText("in", tuple(_of_tree(operand, resolve) for operand in operands))
        )
    if isinstance(tree, exp.Between):
        column = _of_tree(tree.this, resolve)
        sides = (("ge", tree.args["low"]), ("le", tree.args["high"]))
        parts = (CallText(name, (column, _of_tree(bound, resolve))) for name, bound in sides)
        return CallText("and", tuple(map(_as_moments, parts)))
    if isinstance(tree, exp.DPipe) and tree.expression == exp.Literal.string(" "):
        return _of_tree(tree.this, resolve)  # the key of a collation, for sorting
    operator = _OPERATORS.get(type(tree))
    if isinstance(tree, exp.Connector) and operator is not None:
        return CallText(operator, tuple(_of_tree(operand, resolve) for operand in tree.flatten()))
    if operator is not None:
        operands = (tree.this, tree.args.get("expression"))
        converted = tuple(_of_tree(operand, resolve) for operand in operands if operand is not None)
        return _as_moments(CallText(operator, converted))
    if isinstance(tree, exp.Distinct):
        listed = ", ".join(_of_tree(part, resolve).text for part in tree.expressions)
        return ConstantText(f"distinct {listed}")
    if isinstance(tree, exp.Func):
        return _function(tree, resolve)
    named = tree.transform(
        lambda node: (
            exp.to_identifier(_of_tree(node, resolve).text)
            if isinstance(node, exp.Column)
            else node
        )
    )
    return ConstantText(named.sql("duckdb").replace('"', "").lower())


def _function(tree: exp.Func, resolve: Resolve) -> ExpressionText:
    name = (tree.name if isinstance(tree, exp.Anonymous) else tree.sql_name()).lower()
    arguments = [argument for argument in tree.iter_expressions() if isinstance(argument, exp.Expr)]
    if isinstance(tree, exp.Trim):
        return _of_tree(tree.this, resolve)  # part of a collation's key
    if name.startswith("exuvia_") and arguments:
        return _of_tree(arguments[0], resolve)
    if name in ("count_star", "count") and not arguments:
        return ConstantText("count(1)")
    if name == "starts_with":
        name = "prefix"
    converted = tuple(_of_tree(argument, resolve) for argument in arguments)
    if name in _LIKE and len(converted) == 2 and isinstance(converted[1], ConstantText):
        pattern = _LIKE[name].format(converted[1].text.strip('"'))
        return CallText("like", (converted[0], ConstantText(f'"{pattern}"'), ConstantText("92")))
    return CallText(name, converted)


def _case(tree: exp.Case, resolve: Resolve) -> ExpressionText:
    first = tree.args["ifs"][0]
    condition = first.this.unnest()
    if isinstance(condition, exp.Anonymous) and condition.name.lower().startswith(FITS):
        return _of_tree(first.args["true"], resolve)  # the value if it fits into memory
    pairs = [part for branch in tree.args["ifs"] for part in (branch.this, branch.args["true"])]
    calls = walks.find_all(tree, exp.Func)
    tells_length = any("strlen" in (call.sql_name().lower(), call.name) for call in calls)
    if tells_length and tree.args.get("default") is not None:
        return _of_tree(tree.args["default"], resolve)  # a collation's key
    default = tree.args.get("default")
    every = pairs if default is None else [*pairs, default]
    return CallText("case", tuple(_of_tree(part, resolve) for part in every))


def _as_moments(call: CallText) -> CallText:
    """Convert integers that are compared with a column of moments to moments."""
    columns = [
        argument
        for argument in call.arguments
        if isinstance(argument, ColumnText) and argument.table
    ]
    if len(columns) != 1 or columns[0].table is None:
        return call
    kind = columns[0].table.info.cols[columns[0].position].type
    if kind.family not in _MOMENTS:
        return call
    arguments = tuple(
        ConstantText(to_text(int(argument.text), kind))
        if isinstance(argument, ConstantText) and argument.text.lstrip("-").isdigit()
        else argument
        for argument in call.arguments
    )
    return call._replace(arguments=arguments)
