"""Expressions in TiDB's words, as EXPLAIN has them.

    a = 1 AND b LIKE 'x%'      eq(test.t.a, 1)  like(test.t.b, "x%", 92)
    c IS NOT NULL              not(isnull(test.t.c))
    b = 3, b a text            eq(cast(test.t.b, double BINARY), 3)
    COUNT(*), SUM(DISTINCT a)  count(1)         sum(distinct test.t.a)

Two ways lead here: from what was bound (`of_bound`), and from the text in which DuckDB says what it
does (`of_duckdb`). There a text compares by its collation's key, which is left out, and a moment is
a number, which is shown as a moment. What DuckDB says in a form that is not known stays as it is.
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
    """A column, of a stored table where `table` is there."""

    text: str
    table: Table | None = None
    position: int = -1


class ConstantText(NamedTuple):
    """A constant. `is_null`: NULL itself."""

    text: str
    is_null: bool = False


class CallText(NamedTuple):
    """A function of others."""

    name: str
    arguments: "tuple[ExpressionText, ...]"

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(each.text for each in self.arguments)})"


ExpressionText = ColumnText | ConstantText | CallText


def conjuncts(*found: ExpressionText) -> list[ExpressionText]:
    """The conditions of a conjunction, without duplicates."""
    parts: dict[str, ExpressionText] = {}
    for each in found:
        if isinstance(each, CallText) and each.name == "and":
            parts |= {part.text: part for part in conjuncts(*each.arguments)}
        else:
            parts[each.text] = each
    return list(parts.values())


def _shallow(found: ExpressionText) -> ExpressionText:
    """The same. Raises RecursionError where its text is nested too deep to be made."""
    assert isinstance(found.text, str)
    return found


def sorted_texts(found: Sequence[ExpressionText]) -> str:
    """A list as TiDB has it: by the texts."""
    return ", ".join(sorted(each.text for each in found))


def stored_column(table: Table, position: int) -> ColumnText:
    """database.table.column."""
    info = table.info
    place = f"{table.database.db_name.O}.{info.name.O}.{info.cols[position].name.O}"
    return ColumnText(place.lower(), table, position)


# -- from what was bound ---------------------------------------------------------------------------

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
}


def of_bound(expr: Expr, name: Naming, context: Context) -> ExpressionText:
    """The text of a bound expression; parameters by their values. Of one that is nested beyond the
    interpreter's depth, as a sum of a thousand terms is, only what it is."""
    try:
        return _shallow(_of_bound(expr, name, context))
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
        if expr.function == "at_zone":
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


def _aggregate(found: Aggregate, of: Callable[[Expr], ExpressionText]) -> str:
    given = ", ".join(of(each).text for each in found.arguments) or "1"
    if found.order:
        keys = (f"{of(key).text}{' desc' if down else ''}" for key, down in found.order)
        given += f" order by {', '.join(keys)}"
    if found.function == "group_concat":
        given += f' separator "{found.separator}"'
    return f"{found.function}({'distinct ' if found.distinct else ''}{given})"


# -- from DuckDB's own text ------------------------------------------------------------------------

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
    """`resolve` says what a name means, or #n, the n-th column of what is below."""
    try:
        return _shallow(_of_tree(_parsed(text), resolve))
    except (SqlglotError, RecursionError):
        return ConstantText(text)


def compared_by_duckdb(text: str, left: Resolve, right: Resolve) -> ExpressionText:
    """A comparison of a join, whose sides have names of their own."""
    try:
        tree = _parsed(text)
        while isinstance(tree, exp.Paren):
            tree = tree.this
        name = _OPERATORS.get(type(tree))
        if name is None or tree.args.get("expression") is None:
            return ConstantText(text)
        sides = _of_tree(tree.this, left), _of_tree(tree.expression, right)
        return _shallow(CallText(name, sides))
    except (SqlglotError, RecursionError):
        return ConstantText(text)


def _parsed(text: str) -> exp.Expr:
    return parse_duckdb(_REFERENCE.sub(rf"{_PLACE}\1", text), dialect="duckdb")


def _of_tree(tree: exp.Expr, resolve: Resolve) -> ExpressionText:
    if isinstance(tree, exp.Paren | exp.Alias | exp.IgnoreNulls):
        return _of_tree(tree.this, resolve)
    if isinstance(tree, exp.Column):
        shown = tree.name.replace(_PLACE, "#")
        return resolve(shown) or ColumnText(shown)
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
        given = (tree.this, *tree.expressions)
        return _as_moments(CallText("in", tuple(_of_tree(each, resolve) for each in given)))
    if isinstance(tree, exp.Between):
        column = _of_tree(tree.this, resolve)
        sides = (("ge", tree.args["low"]), ("le", tree.args["high"]))
        parts = (CallText(name, (column, _of_tree(each, resolve))) for name, each in sides)
        return CallText("and", tuple(map(_as_moments, parts)))
    if isinstance(tree, exp.DPipe) and tree.expression == exp.Literal.string(" "):
        return _of_tree(tree.this, resolve)  # of a collation's key, for sorting
    operator = _OPERATORS.get(type(tree))
    if isinstance(tree, exp.Connector) and operator is not None:
        return CallText(operator, tuple(_of_tree(each, resolve) for each in tree.flatten()))
    if operator is not None:
        given = (tree.this, tree.args.get("expression"))
        made = tuple(_of_tree(each, resolve) for each in given if each is not None)
        return _as_moments(CallText(operator, made))
    if isinstance(tree, exp.Distinct):
        listed = ", ".join(_of_tree(each, resolve).text for each in tree.expressions)
        return ConstantText(f"distinct {listed}")
    if isinstance(tree, exp.Func):
        return _function(tree, resolve)
    named = tree.transform(
        lambda each: (
            exp.to_identifier(_of_tree(each, resolve).text)
            if isinstance(each, exp.Column)
            else each
        )
    )
    return ConstantText(named.sql("duckdb").replace('"', "").lower())


def _function(tree: exp.Func, resolve: Resolve) -> ExpressionText:
    name = (tree.name if isinstance(tree, exp.Anonymous) else tree.sql_name()).lower()
    given = [each for each in tree.iter_expressions() if isinstance(each, exp.Expr)]
    if isinstance(tree, exp.Trim):
        return _of_tree(tree.this, resolve)  # of a collation's key
    if name.startswith("exuvia_") and given:
        return _of_tree(given[0], resolve)
    if name in ("count_star", "count") and not given:
        return ConstantText("count(1)")
    if name == "starts_with":
        name = "prefix"
    made = tuple(_of_tree(each, resolve) for each in given)
    if name in _LIKE and len(made) == 2 and isinstance(made[1], ConstantText):
        pattern = _LIKE[name].format(made[1].text.strip('"'))
        return CallText("like", (made[0], ConstantText(f'"{pattern}"'), ConstantText("92")))
    return CallText(name, made)


def _case(tree: exp.Case, resolve: Resolve) -> ExpressionText:
    first = tree.args["ifs"][0]
    condition = first.this.unnest()
    if isinstance(condition, exp.Anonymous) and condition.name.lower().startswith(FITS):
        return _of_tree(first.args["true"], resolve)  # computed where it fits into memory
    pairs = [part for each in tree.args["ifs"] for part in (each.this, each.args["true"])]
    calls = walks.find_all(tree, exp.Func)
    tells_length = any("strlen" in (call.sql_name().lower(), call.name) for call in calls)
    if tells_length and tree.args.get("default") is not None:
        return _of_tree(tree.args["default"], resolve)  # a collation's key
    default = tree.args.get("default")
    every = pairs if default is None else [*pairs, default]
    return CallText("case", tuple(_of_tree(each, resolve) for each in every))


def _as_moments(found: CallText) -> CallText:
    """Beside a column of moments whole numbers are moments."""
    columns = [each for each in found.arguments if isinstance(each, ColumnText) and each.table]
    if len(columns) != 1 or columns[0].table is None:
        return found
    kind = columns[0].table.info.cols[columns[0].position].type
    if kind.family not in _MOMENTS:
        return found
    made = tuple(
        ConstantText(to_text(int(each.text), kind))
        if isinstance(each, ConstantText) and each.text.lstrip("-").isdigit()
        else each
        for each in found.arguments
    )
    return found._replace(arguments=made)
