"""Operators of expressions: which types their operands get, and the type of the result.

comparison of            happens as
two strings              strings, in the winning collation
two whole numbers        integers
exact numbers            DECIMAL
a date or time with a string, or with a number that is constant     the date or time
everything else          DOUBLE
"""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.base.mysql import refuse
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.sql import bind_types as types
from exuvia.sql.bind_cast import (
    cast,
    condition,
    fold,
    merged_collation,
    to_bytes,
    to_date,
    to_datetime,
    to_double,
    to_integer,
    to_json,
    to_number,
    to_text,
    to_time,
)
from exuvia.sql.bind_scope import Scope
from exuvia.sql.expr import Call, Constant, Expr, Subquery, is_constant

_SIGNS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
}
_BITS: dict[type[exp.Expression], str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_LOGIC: dict[type[exp.Expression], str] = {exp.And: "and", exp.Or: "or", exp.Xor: "xor"}


def boolean(name: str, *arguments: Expr, extra: tuple[object, ...] = ()) -> Expr:
    """A call whose result is 1, 0 or NULL."""
    return fold(Call(type=types.BOOLEAN, function=name, arguments=arguments, extra=extra))


# -- logic -----------------------------------------------------------------------------------------


def _logic(tree: exp.Expression, scope: Scope) -> Expr:
    operands = list(tree.flatten(unnest=False)) if isinstance(tree, exp.Connector) else []
    bound = [condition(scope.bind(each)) for each in operands]
    name = _LOGIC[type(tree)]
    found = bound[0]
    for each in bound[1:]:
        found = boolean(name, found, each)
    return found


def _not(tree: exp.Not, scope: Scope) -> Expr:
    return boolean("not", condition(scope.bind(tree.this)))


def _is(tree: exp.Is, scope: Scope) -> Expr:
    operand = scope.bind(tree.this)
    wanted = tree.expression
    if isinstance(wanted, exp.Null):
        return boolean("is null", operand)
    if isinstance(wanted, exp.Boolean):
        name = "is true" if wanted.this else "is false"
        return boolean(name, condition(operand))
    raise refuse(1235, "IS " + wanted.key.upper())


# -- comparison ------------------------------------------------------------------------------------


def comparable(arguments: Sequence[Expr], operation: str) -> tuple[tuple[Expr, ...], str]:
    """The arguments in the domain in which they compare, and the collation they compare in."""
    present = [each for each in arguments if each.type.Tp != TypeCode.NULL]
    families = {each.family for each in present}
    if families & types.TEMPORAL:
        found = _temporal(arguments, present, families)
        if found is not None:
            return found, "binary"
    if Family.JSON in families:
        return tuple(_as_json(each) for each in arguments), "binary"
    if present and all(types.is_text_like(each.type) for each in present):
        return _texts(arguments, operation)
    if families <= types.WHOLE:
        return tuple(arguments), "binary"
    numbers = [to_number(each) for each in arguments]
    if any(each.family is Family.FLOAT for each in numbers):
        return tuple(to_double(each) for each in numbers), "binary"
    return tuple(numbers), "binary"


def _texts(arguments: Sequence[Expr], operation: str) -> tuple[tuple[Expr, ...], str]:
    collate, _ = merged_collation(arguments, operation, needed=True)
    if collate == "binary":
        return tuple(to_bytes(each) for each in arguments), "binary"
    return tuple(to_text(each, collate) for each in arguments), collate


def _temporal(
    arguments: Sequence[Expr], present: Sequence[Expr], families: set[Family | None]
) -> tuple[Expr, ...] | None:
    others = [each for each in present if each.family not in types.TEMPORAL]
    readable = all(types.is_text_like(each.type) or is_constant(each) for each in others)
    if not readable:
        return None
    temporal = families & types.TEMPORAL
    if temporal == {Family.DATE} and not others:
        return tuple(arguments)
    if temporal == {Family.DATE} and all(_is_day(each) for each in others):
        return tuple(to_date(each) for each in arguments)
    if temporal == {Family.TIME}:
        if any(not types.is_text_like(each.type) for each in others):
            return None
        return tuple(to_time(each) for each in arguments)
    return tuple(to_datetime(each) for each in arguments)


def _is_day(expr: Expr) -> bool:
    """Whether a constant text is a date without a time, so that DATE columns compare as they stand."""
    if not isinstance(expr, Constant):
        return False
    moment = to_datetime(expr)
    day_only = isinstance(moment, Constant) and isinstance(moment.value, int)
    return day_only and moment.value & ((1 << 37) - 1) == 0  # type: ignore[attr-defined]


def _as_json(expr: Expr) -> Expr:
    if types.is_text_like(expr.type):
        quoted = Call(type=types.text(65535), function="json_quote", arguments=(to_text(expr),))
        return to_json(fold(quoted))
    return to_json(expr)


def compare(name: str, left: Expr, right: Expr) -> Expr:
    """A comparison of two expressions."""
    operands, collate = comparable((left, right), name)
    return boolean(name, *operands, extra=(collate,))


def _comparison(tree: exp.Binary, scope: Scope) -> Expr:
    name = _SIGNS[type(tree)]
    left, right = tree.this, tree.expression
    if isinstance(right, exp.Any | exp.All):
        return _quantified(name, tree, scope)
    if is_row(left) or is_row(right):
        return _rows(name, left, right, scope)
    return compare(name, scope.bind(left), scope.bind(right))


def is_row(tree: exp.Expression) -> bool:
    """(a, b) or ROW(a, b)."""
    named = isinstance(tree, exp.Anonymous) and tree.name.upper() == "ROW"
    return isinstance(tree, exp.Tuple) or named


def _rows(name: str, left: exp.Expression, right: exp.Expression, scope: Scope) -> Expr:
    """(a, b) = (c, d) is a = c AND b = d; < and > compare part by part."""
    lefts, rights = parts_of(left), parts_of(right)
    if len(lefts) != len(rights):
        raise refuse(1241, len(lefts))
    bound = [(scope.bind(a), scope.bind(b)) for a, b in zip(lefts, rights, strict=True)]
    if name in ("=", "<=>"):
        found = compare(name, *bound[0])
        for pair in bound[1:]:
            found = boolean("and", found, compare(name, *pair))
        return found
    if name == "!=":
        return boolean("not", _rows("=", left, right, scope))
    strict = name[0]
    found = compare(name, *bound[-1])
    for a, b in reversed(bound[:-1]):
        same = boolean("and", compare("=", a, b), found)
        found = boolean("or", compare(strict, a, b), same)
    return found


def parts_of(tree: exp.Expression) -> list[exp.Expression]:
    """The members of a row, or the expression alone."""
    return list(tree.expressions) if is_row(tree) else [tree]


def _quantified(name: str, tree: exp.Binary, scope: Scope) -> Expr:
    right = tree.expression
    kind = "any" if isinstance(right, exp.Any) else "all"
    return _membership(kind, name, [scope.bind(tree.this)], right.this, scope)


def _membership(
    kind: str, sign: str, operands: list[Expr], inner: exp.Expression, scope: Scope
) -> Expr:
    while isinstance(inner, exp.Paren | exp.Subquery) and not inner.args.get("alias"):
        inner = inner.this
    if scope.query is None or not isinstance(inner, exp.Query):
        raise refuse(1235, "subquery here")
    planned = scope.query(inner, scope)
    if len(planned.columns) != len(operands):
        raise refuse(1241, len(operands))
    return Subquery(
        type=types.BOOLEAN, kind=kind, query=planned, operands=tuple(operands), operator=sign
    )


def _in(tree: exp.In, scope: Scope) -> Expr:
    inner = tree.args.get("query")
    if inner is not None:
        operands = [scope.bind(each) for each in parts_of(tree.this)]
        return _membership("in", "=", operands, inner, scope)
    items = tree.expressions
    if not items:
        raise refuse(1064, "near ')' at line 1")
    if is_row(tree.this):
        found = _rows("=", tree.this, items[0], scope)
        for item in items[1:]:
            found = boolean("or", found, _rows("=", tree.this, item, scope))
        return found
    return membership(scope.bind(tree.this), [scope.bind(item) for item in items])


def membership(needle: Expr, items: Sequence[Expr]) -> Expr:
    """needle IN (items): one domain where all agree, else a chain of comparisons."""
    kinds = {types.is_text_like(each.type) for each in items if each.type.Tp != TypeCode.NULL}
    if len(kinds) > 1:
        found = compare("=", needle, items[0])
        for item in items[1:]:
            found = boolean("or", found, compare("=", needle, item))
        return found
    operands, collate = comparable((needle, *items), "in")
    fixed = all(is_constant(item) for item in operands[1:])
    return boolean("in", *operands, extra=(collate, fixed))


def _between(tree: exp.Between, scope: Scope) -> Expr:
    value, low, high = (
        scope.bind(each) for each in (tree.this, tree.args["low"], tree.args["high"])
    )
    (value, low, high), collate = comparable((value, low, high), "between")
    least = boolean(">=", value, low, extra=(collate,))
    most = boolean("<=", value, high, extra=(collate,))
    return boolean("and", least, most)


# -- arithmetic and bits ---------------------------------------------------------------------------


def arithmetic(sign: str, left: Expr, right: Expr) -> Expr:
    """left sign right, of numbers."""
    left, right = to_number(left), to_number(right)
    kind = types.arithmetic(sign.upper(), left.type, right.type)
    if kind.Tp == TypeCode.DOUBLE:
        left, right = to_double(left), to_double(right)
    elif kind.Tp == TypeCode.NEWDECIMAL:
        left, right = _exact(left), _exact(right)
    return fold(Call(type=kind, function=sign, arguments=(left, right)))


def _exact(expr: Expr) -> Expr:
    if expr.family is Family.DECIMAL:
        return expr
    return cast(expr, types.decimal(20, 0))


def _arithmetic(tree: exp.Binary, scope: Scope) -> Expr:
    sign = _ARITHMETIC[type(tree)]
    left, right = tree.this, tree.expression
    if sign in "+-" and isinstance(right, exp.Interval):
        return moved(scope.bind(left), right, -1 if sign == "-" else 1, scope)
    if sign == "+" and isinstance(left, exp.Interval):
        return moved(scope.bind(right), left, 1, scope)
    return arithmetic(sign, scope.bind(left), scope.bind(right))


def _negative(tree: exp.Neg, scope: Scope) -> Expr:
    inner = tree.this
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name == str(1 << 63):
        return Constant(type=types.integer(19), value=-(1 << 63))
    operand = to_number(scope.bind(inner))
    if isinstance(operand, Constant) and isinstance(operand.value, int):
        if not -(1 << 63) <= -operand.value < 1 << 63:
            operand = cast(operand, types.decimal(20, 0))
    kind = operand.type if operand.family is not Family.UINT else types.BIGINT
    if kind.Tp == TypeCode.NULL or operand.family is Family.INT:
        kind = types.integer(operand.type.Flen)
    return fold(Call(type=kind, function="negative", arguments=(operand,)))


def _bitwise(tree: exp.Binary, scope: Scope) -> Expr:
    operands = tuple(to_integer(scope.bind(each)) for each in (tree.this, tree.expression))
    return fold(Call(type=types.UNSIGNED, function=_BITS[type(tree)], arguments=operands))


def _inverted(tree: exp.BitwiseNot, scope: Scope) -> Expr:
    operand = to_integer(scope.bind(tree.this))
    return fold(Call(type=types.UNSIGNED, function="~", arguments=(operand,)))


def moved(moment: Expr, interval: exp.Interval, sign: int, scope: Scope) -> Expr:
    """moment + INTERVAL amount unit."""
    from exuvia.sql.functions.interval import CLOCK_UNITS, UNITS, digits_of

    unit = interval.args["unit"].name.upper() if interval.args.get("unit") else ""
    if unit not in UNITS or interval.this is None:
        raise refuse(1064, f"near '{interval.sql(dialect='mysql')}' at line 1")
    size = scope.bind(interval.this)
    digits = max(digits_of(unit), types.fraction_digits(moment.type))
    kind: FieldType
    if moment.family is Family.TIME:
        kind = types.time(digits)
    elif moment.family is Family.DATE and unit not in CLOCK_UNITS:
        kind = types.DATE
    else:
        text = types.is_text_like(moment.type)
        moment = to_datetime(moment)
        kind = types.datetime(6 if unit == "SECOND" and size.family is Family.DECIMAL else digits)
        if text:
            return _moved_text(moment, size, unit, sign)
    call = Call(type=kind, function="date_add", arguments=(moment, size), extra=(unit, sign))
    return fold(call)


def _moved_text(moment: Expr, size: Expr, unit: str, sign: int) -> Expr:
    """'2020-01-31' + INTERVAL: a text, a date alone if it was one and the unit is of days."""
    from exuvia.sql.functions.interval import CLOCK_UNITS

    day_only = (
        isinstance(moment, Constant)
        and isinstance(moment.value, int)
        and moment.value & ((1 << 37) - 1) == 0
        and unit not in CLOCK_UNITS
    )
    fraction = isinstance(moment, Constant) and moment.value is not None and moment.value & 0xFFFFF
    digits = 6 if fraction or "MICROSECOND" in unit else 0
    kind = types.DATE if day_only else types.datetime(digits)
    source = to_date(moment) if day_only else moment
    call = Call(type=kind, function="date_add", arguments=(source, size), extra=(unit, sign))
    return to_text(fold(call))


BINDERS = {
    **dict.fromkeys(_LOGIC, _logic),
    **dict.fromkeys(_SIGNS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_BITS, _bitwise),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Neg: _negative,
    exp.BitwiseNot: _inverted,
}
