"""Operators: operand and result types of comparison, choice, logic, arithmetic and intervals.

Expressions are compared as values of a common type:

operands                 compared as
two strings              strings, in the winning collation
two whole numbers        integers
exact numbers            DECIMAL
a date or time with a string                        the date or time
a date with a number that is constant               the date: the number is that of a date, or has
                                                    its place among the dates as numbers
an exact number with a text that is constant        the exact number, with all digits of the text
all others               DOUBLE

Choices are CASE, IF, COALESCE and similar calls: several values, one type.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrOperandColumns,
    ErrWrongParamcountToNativeFct,
)
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.sql import types
from exuvia.sql.bind.cast import (
    cast,
    charset_of,
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
from exuvia.sql.bind.scope import Binder, Scope, all_stored, local, stored
from exuvia.sql.expr import (
    COERCIBLE,
    NUMERIC,
    Call,
    Column,
    Constant,
    Expr,
    Outer,
    Parameter,
    Subquery,
    divides,
    is_constant,
)
from exuvia.sql.parse.syntax_error import Misplaced

_SIGNS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}


def boolean(name: str, *arguments: Expr, extra: tuple[object, ...] = ()) -> Expr:
    """A call with the result 1, 0 or NULL."""
    return fold(Call(type=types.BOOLEAN, function=name, arguments=arguments, extra=extra))


def joined(name: str, terms: Sequence[Expr]) -> Expr:
    """AND, OR or XOR of all terms in their order, as a balanced tree."""
    while len(terms) > 1:
        pairs = range(0, len(terms) - 1, 2)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [*(boolean(name, terms[n], terms[n + 1]) for n in pairs), *odd]
    return terms[0]


def comparable(arguments: Sequence[Expr], operation: str) -> tuple[tuple[Expr, ...], str]:
    """The arguments converted to a common type, and the collation of their comparison."""
    arguments, _ = all_stored(arguments)
    if any(isinstance(argument, Subquery) for argument in arguments):
        arguments = [_in_digits(argument) for argument in arguments]
    of_years = arguments[:1] if operation in ("in", "between") else arguments
    if any(is_year(argument) for argument in of_years):
        arguments = [
            argument if is_year(argument) else _whole_year(argument) for argument in arguments
        ]
    if any(
        isinstance(argument, Column | Outer) and argument.type.Tp == TypeCode.BIT
        for argument in arguments
    ):
        arguments = [_as_bits(argument) for argument in arguments]
    present = [argument for argument in arguments if argument.type.Tp != TypeCode.NULL]
    families = {argument.family for argument in present}
    if families & types.TEMPORAL:
        moments = _temporal(arguments, present, families)
        if moments is not None:
            return moments, "binary"
    if Family.JSON in families:
        return tuple(_as_json(argument) for argument in arguments), "binary"
    if present and all(types.is_text_like(argument.type) for argument in present):
        collate, _ = merged_collation(arguments, operation, needed=True)
        if collate == "binary":
            return tuple(to_bytes(argument) for argument in arguments), "binary"
        return tuple(to_text(argument, collate) for argument in arguments), collate
    if families <= types.WHOLE:
        return tuple(arguments), "binary"
    numbers = [to_number(argument) for argument in _in_full(arguments)]
    if any(argument.family is Family.FLOAT for argument in numbers):
        return tuple(to_double(argument) for argument in numbers), "binary"
    return tuple(numbers), "binary"


def _in_digits(expr: Expr) -> Expr:
    """A quotient as a column of a query has it, with the digits of its type: AVG(x) equals
    (SELECT AVG(x) ..)."""
    if not divides(expr):
        return expr
    places = Constant(type=types.BIGINT, value=max(0, expr.type.Decimal))
    arguments = (expr, places)
    return fold(
        Call(type=expr.type, coercibility=expr.coercibility, function="round", arguments=arguments)
    )


def _in_full(arguments: Sequence[Expr]) -> Sequence[Expr]:
    """Constant texts as exact numbers, if an exact number that is not constant is compared.

    As DOUBLEs, neighbours of a BIGINT beyond 2**53 would be equal to its text."""
    sizes = [
        _WHOLE_SIZE if argument.family in types.WHOLE else types.precision_of(argument.type)
        for argument in arguments
        if argument.family in _EXACT and not is_constant(argument)
    ]
    if not sizes or any(argument.family is Family.FLOAT for argument in arguments):
        return arguments
    most = max(precision - scale for precision, scale in sizes) + 1
    scale = max(scale for _, scale in sizes)
    precision = _FEW_DIGITS if most + scale <= _FEW_DIGITS else types.MOST_DIGITS
    kind = types.decimal(precision, max(scale, min(types.MOST_SCALE, precision - most)))
    return [_exact_number(argument, kind) for argument in arguments]


_EXACT = (*types.WHOLE, Family.DECIMAL)
_WHOLE_SIZE = 20, 0
_FEW_DIGITS = 38  # DuckDB's longest DECIMAL


def _exact_number(expr: Expr, kind: FieldType) -> Expr:
    if expr.family not in (Family.STRING, Family.BYTES) or not is_constant(expr):
        return expr
    if isinstance(expr, Constant) and expr.hexadecimal:
        return expr
    number = fold(Call(type=kind, function="exact_number", arguments=(expr,)))
    value = number.value if isinstance(number, Constant) else None
    if not isinstance(value, Decimal) or value != value.to_integral_value():
        return number
    digits = int(value)
    if not -(1 << 63) <= digits < 1 << 64:
        return number
    return Constant(type=types.UNSIGNED if digits >> 63 > 0 else types.BIGINT, value=digits)


def is_year(expr: Expr) -> bool:
    """Whether this is a YEAR column."""
    return isinstance(expr, Column | Outer) and expr.type.Tp == TypeCode.YEAR


def _as_bits(expr: Expr) -> Expr:
    """Constant bytes compared with a BIT column are bits, like a hexadecimal literal."""
    if not isinstance(expr, Constant | Parameter) or expr.family is not Family.BYTES:
        return expr
    if isinstance(expr, Constant) and expr.hexadecimal:
        return expr
    return fold(Call(type=types.integer(20, True), function="bits_of", arguments=(expr,)))


def _whole_year(expr: Expr) -> Expr:
    """The year that a YEAR column would store for a constant number or text.

    1 to 69 are 2001 to 2069, 70 to 99 are 1970 to 1999, `'0'` to `'000'` are 2000."""
    if not isinstance(expr, Constant | Parameter) or expr.type.Tp == TypeCode.NULL:
        return expr
    kind, arguments = types.DOUBLE, [to_double(expr)]
    if expr.family in types.WHOLE:
        kind, arguments = types.integer(20, expr.type.unsigned), [expr]
    elif expr.family is Family.STRING:
        arguments.append(expr)
    elif expr.family not in types.NUMERIC:
        return expr
    return fold(Call(type=kind, function="whole_year", arguments=tuple(arguments)))


def _temporal(
    arguments: Sequence[Expr], present: Sequence[Expr], families: set[Family | None]
) -> tuple[Expr, ...] | None:
    others = [argument for argument in present if argument.family not in types.TEMPORAL]
    readable = all(
        types.is_text_like(argument.type) or is_constant(argument) for argument in others
    )
    if not readable:
        return None
    temporal = families & types.TEMPORAL
    if temporal == {Family.DATE} and not others:
        return tuple(arguments)
    named = any(isinstance(stored(argument), Column | Outer) for argument in arguments)
    if temporal == {Family.DATE} and all(_is_day(argument, named) for argument in others):
        return tuple(to_date(argument) for argument in arguments)
    if temporal == {Family.TIME}:
        if any(not types.is_text_like(argument.type) for argument in others):
            return None
        return tuple(to_time(argument) for argument in arguments)
    of_days = Family.DATETIME not in temporal
    return tuple(_as_moment(argument, of_days, named) for argument in arguments)


def _as_moment(expr: Expr, of_days: bool, named: bool) -> Expr:
    """The expression as a DATETIME, or for a number its place among the moments as numbers.

    `of_days`: among the dates as numbers. `named`: it is compared with a column, so it is read as a
    date first."""
    if expr.family not in types.NUMERIC or types.is_text_like(expr.type):
        return to_datetime(expr)
    extra = (of_days, named)
    place = Call(type=types.datetime(6), function="place_of_number", arguments=(expr,), extra=extra)
    return fold(place) if named else place  # a constant must be a valid moment


def _is_day(expr: Expr, named: bool) -> bool:
    """Whether a constant is a date without a time: DATEs are then compared as dates."""
    if not isinstance(expr, Constant):
        return False
    moment = _as_moment(expr, True, named)
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
        kind = "any" if isinstance(right, exp.Any) else "all"
        return _membership(kind, name, [scope.bind(left)], right.this, scope)
    if is_row(left) or is_row(right):
        return _rows(name, left, right, scope)
    return compare(name, scope.bind(left), scope.bind(right))


def is_row(tree: exp.Expression) -> bool:
    """Whether this is (a, b) or ROW(a, b), also in parentheses."""
    inner: Any = tree.unnest()
    named = isinstance(inner, exp.Anonymous) and inner.name.upper() == "ROW"
    return isinstance(inner, exp.Tuple) or named


def _rows(name: str, left: exp.Expression, right: exp.Expression, scope: Scope) -> Expr:
    """(a, b) = (c, d) is a = c AND b = d; < and > compare the parts in order."""
    lefts, rights = _members(left, scope), _members(right, scope)
    same = not (is_row(left) and is_row(right)) or _shape(left) == _shape(right)
    if len(lefts) != len(rights) or not same:
        raise ErrOperandColumns(len(parts_of(left)))
    return _by_parts(name, list(zip(lefts, rights, strict=True)))


def _members(tree: exp.Expression, scope: Scope) -> list[Expr]:
    """The members of a row. Members of a query's only row are queries with one column."""
    inner = tree
    while isinstance(inner, exp.Paren | exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Query) or scope.query is None:
        return [scope.bind(part) for part in _leaves(tree)]
    planned = scope.query(inner, scope)
    return [planned.member(n, scope.zone) for n in range(len(planned.columns))]


def _by_parts(name: str, bound: list[tuple[Expr, Expr]]) -> Expr:
    if name in ("=", "<=>"):
        combined = compare(name, *bound[0])
        for pair in bound[1:]:
            combined = boolean("and", combined, compare(name, *pair))
        return combined
    if name == "!=":
        return boolean("not", _by_parts("=", bound))
    strict = name[0]
    combined = compare(name, *bound[-1])
    for a, b in reversed(bound[:-1]):
        same = boolean("and", compare("=", a, b), combined)
        combined = boolean("or", compare(strict, a, b), same)
    return combined


def parts_of(tree: exp.Expression) -> list[exp.Expression]:
    """The members of a row, or the expression alone."""
    return list(tree.unnest().expressions) if is_row(tree) else [tree]


def _leaves(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The members of a row, with nested rows expanded: (1, (2, 3)) is compared as (1, 2, 3)."""
    for part in parts_of(tree):
        if is_row(part):
            yield from _leaves(part)
        else:
            yield part


def _shape(tree: exp.Expression) -> tuple[Any, ...]:
    """The nesting of rows, which must be equal on both sides of a comparison."""
    return tuple(_shape(part) if is_row(part) else () for part in parts_of(tree))


def _membership(
    kind: str, sign: str, operands: list[Expr], inner: exp.Expression, scope: Scope
) -> Expr:
    while isinstance(inner, exp.Paren | exp.Subquery) and not inner.args.get("alias"):
        inner = inner.this
    if scope.query is None or not isinstance(inner, exp.Query):
        raise ErrNotSupportedYet("subquery here")
    planned = scope.query(inner, scope)
    if len(planned.columns) != len(operands):
        raise ErrOperandColumns(len(operands))
    return Subquery(
        type=types.BOOLEAN,
        kind=kind,
        query=planned,
        operands=tuple(map(_in_digits, operands)),
        operator=sign,
    )


def _in(tree: exp.In, scope: Scope) -> Expr:
    inner = tree.args.get("query")
    if inner is not None:
        operands = [scope.bind(part) for part in parts_of(tree.this)]
        return _membership("in", "=", operands, inner, scope)
    items = tree.expressions
    if not items:
        raise Misplaced(")")
    if is_row(tree.this):
        return joined("or", [_rows("=", tree.this, item, scope) for item in items])
    return membership(scope.bind(tree.this), [scope.bind(item) for item in items])


def membership(needle: Expr, items: Sequence[Expr]) -> Expr:
    """needle IN (items): one comparison if all items have the same kind of type, else several."""
    present = [item for item in items if item.type.Tp != TypeCode.NULL]
    kinds = {(types.is_text_like(item.type), item.family in types.TEMPORAL) for item in present}
    if len(kinds) > 1:
        return joined("or", [compare("=", needle, item) for item in items])
    operands, collate = comparable((needle, *items), "in")
    fixed = all(is_constant(item) for item in operands[1:])
    return boolean("in", *operands, extra=(collate, fixed))


def _between(tree: exp.Between, scope: Scope) -> Expr:
    value, low, high = (
        scope.bind(operand_tree)
        for operand_tree in (tree.this, tree.args["low"], tree.args["high"])
    )
    (value, low, high), collate = comparable((value, low, high), "between")
    least = boolean(">=", value, low, extra=(collate,))
    most = boolean("<=", value, high, extra=(collate,))
    return boolean("and", least, most)


COMPARISON: dict[type, Binder] = {
    **dict.fromkeys(_SIGNS, _comparison),
    exp.In: _in,
    exp.Between: _between,
}


# -- choice ----------------------------------------------------------------------------------------

Special = Callable[[str, list[Expr], Scope], Expr]


def branches(values: Sequence[Expr], operation: str) -> tuple[list[Expr], FieldType, int]:
    """The possible values of a choice, converted to their common type; (values, type, level)."""
    collate, coercibility = merged_collation(values, operation, needed=False)
    texts = any(
        value.family is Family.STRING or types.listed_collation(value.type) for value in values
    )
    pair = (charset_of(collate), collate) if texts and collate != "binary" else None
    kind = types.merged([value.type for value in values], pair)
    if kind.Tp == TypeCode.NULL:
        return list(values), kind, coercibility
    kind = evolve(kind, Flag=kind.Flag & ~(1 | 2 | 4 | 8 | 512))
    return [_into(value, kind) for value in values], kind, coercibility


def _into(value: Expr, kind: FieldType) -> Expr:
    family = types.family_of(kind)
    if family is Family.STRING:
        return to_text(value, kind.Collate)
    if family is Family.BYTES:
        return to_bytes(value)
    if value.family is family and family is not Family.DECIMAL:
        return value
    return cast(value, kind)


def _case(tree: exp.Case, scope: Scope) -> Expr:
    conditions: list[Expr] = []
    values: list[Expr] = []
    subject = None if tree.this is None else scope.bind(tree.this)
    for branch in tree.args["ifs"]:
        test = scope.bind(branch.this)
        if subject is None:
            conditions.append(condition(test))
        else:
            conditions.append(compare("=", _as_text(subject, test), test))
        values.append(scope.bind(branch.args["true"]))
    otherwise = tree.args.get("default")
    values.append(scope.bind(exp.Null() if otherwise is None else otherwise))
    return chosen(conditions, values)


def _as_text(subject: Expr, test: Expr) -> Expr:
    """CASE json WHEN 'text' compares texts in MySQL, so JSON's null equals 'null'."""
    if subject.family is Family.JSON and types.is_text_like(test.type):
        return to_text(subject, test.type.Collate)
    return subject


def chosen(conditions: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """CASE WHEN conditions THEN values ELSE the last value."""
    values, zone = all_stored(values)
    converted, kind, coercibility = branches(values, "case")
    arguments: list[Expr] = []
    for test, value in zip(conditions, converted, strict=False):
        arguments += [test, value]
    arguments.append(converted[-1])
    return local(
        fold(
            Call(type=kind, coercibility=coercibility, function="case", arguments=tuple(arguments))
        ),
        zone,
    )


def _if(tree: exp.If, scope: Scope) -> Expr:
    if tree.args.get("true") is None or tree.args.get("false") is None:
        raise ErrWrongParamcountToNativeFct("if")
    values = [scope.bind(tree.args["true"]), scope.bind(tree.args["false"])]
    return chosen([condition(scope.bind(tree.this))], values)


def _coalesce(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2 if name == "ifnull" else 1, 2 if name == "ifnull" else -1)
    arguments, zone = all_stored(arguments)
    converted, kind, coercibility = branches(arguments, name)
    parts = tuple(converted)
    call = Call(type=kind, coercibility=coercibility, function="coalesce", arguments=parts)
    return local(fold(call), zone)


def _null_if(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    same = compare("=", *arguments)
    (value,), zone = all_stored(arguments[:1])
    kind = evolve(value.type, Flag=value.type.Flag & ~1)
    level = value.coercibility
    call = Call(type=kind, coercibility=level, function="nullif", arguments=(value, same))
    return local(fold(call), zone)


def _is_null_call(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    return boolean("is null", arguments[0])


def _extreme(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, -1)
    families = {argument.family for argument in arguments}
    if families & _DATED and not families <= types.TEMPORAL and Family.JSON not in families:
        return _extreme_of_dates(name, arguments, Family.DATETIME not in families)
    arguments, zone = all_stored(arguments)
    if families <= types.TEMPORAL:
        operands, collate = comparable(arguments, name)
        converted, level = list(operands), NUMERIC
        kind = types.merged([operand.type for operand in operands])
    else:
        converted, kind, level = branches(arguments, name)
        _, collate = comparable(converted, name)
    parts = tuple(converted)
    call = Call(type=kind, coercibility=level, function=name, arguments=parts, extra=(collate,))
    return local(fold(call), zone)


_DATED = frozenset((Family.DATE, Family.DATETIME))


def _extreme_of_dates(name: str, arguments: list[Expr], of_days: bool) -> Expr:
    """GREATEST or LEAST of dates with texts or numbers: compares dates and returns a text.

    The result has the winner's fractional digits, as in TiDB. So it does not matter whether a text
    is known when the statement is planned."""
    convert = to_date if of_days else to_datetime
    moved = tuple(convert(x) if x.family in types.TEMPORAL else x for x in arguments)
    _, kind, level = branches(arguments, name)
    collate = kind.Collate if kind.Collate != "binary" else "utf8mb4_bin"
    result = types.text(max(types.width_of(kind), _MOMENT_WIDTH), charset_of(collate), collate)
    extra = (collate, of_days)
    extreme = Call(type=result, coercibility=level, function=name, arguments=moved, extra=extra)
    return fold(to_bytes(extreme) if types.is_bytes(kind) else extreme)


_MOMENT_WIDTH = 26  # characters of a DATETIME(6)


def expect(name: str, arguments: Sequence[object], least: int, most: int) -> None:
    """Raises 1582 for another number of arguments; `most` -1 means any number."""
    if len(arguments) < least or (most >= 0 and len(arguments) > most):
        raise ErrWrongParamcountToNativeFct(name)


CHOICE_CALLS: dict[str, Special] = {
    "coalesce": _coalesce,
    "greatest": _extreme,
    "ifnull": _coalesce,
    "isnull": _is_null_call,
    "least": _extreme,
    "nullif": _null_if,
}
CHOICE: dict[type, Binder] = {exp.Case: _case, exp.If: _if}


_ARITHMETIC: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
}
_BITS: dict[type, str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_LOGIC: dict[type, str] = {exp.And: "and", exp.Or: "or", exp.Xor: "xor"}


# -- logic -----------------------------------------------------------------------------------------


def _logic(tree: exp.Expression, scope: Scope) -> Expr:
    operands: list[Any] = list(tree.flatten(unnest=False))
    return joined(_LOGIC[type(tree)], [condition(scope.bind(operand)) for operand in operands])


def _not(tree: exp.Not, scope: Scope) -> Expr:
    return boolean("not", condition(scope.bind(tree.this)))


def _is(tree: exp.Is, scope: Scope) -> Expr:
    operand = scope.bind(tree.this)
    truth_value = tree.expression
    if isinstance(truth_value, exp.Null):
        return boolean("is null", operand)
    if isinstance(truth_value, exp.Boolean):
        name = "is true" if truth_value.this else "is false"
        return boolean(name, condition(operand))
    raise ErrNotSupportedYet("IS " + truth_value.key.upper())


# -- arithmetic and bits ---------------------------------------------------------------------------


def arithmetic(sign: str, left: Expr, right: Expr, scope: Scope) -> Expr:
    """`left` sign `right`, as numbers."""
    left, right = to_number(left), to_number(right)
    more = scope.division_digits if sign == "/" else types.DIVISION_DIGITS
    kind = types.arithmetic(sign.upper(), left.type, right.type, more)
    if sign == "-" and kind.unsigned and "NO_UNSIGNED_SUBTRACTION" in scope.setting("sql_mode", ""):
        kind = types.integer(kind.Flen)
    if kind.Tp == TypeCode.DOUBLE:
        left, right = to_double(left), to_double(right)
    elif kind.Tp == TypeCode.NEWDECIMAL:
        left, right = _exact(left), _exact(right)
    extra = () if more == types.DIVISION_DIGITS else (more,)
    return fold(Call(type=kind, function=sign, arguments=(left, right), extra=extra))


def _exact(expr: Expr) -> Expr:
    if expr.family is Family.DECIMAL:
        return expr
    return cast(expr, types.decimal(20, 0))


def _chain(step: Any, signs: dict[type, str]) -> Any:
    """The binder of a + b - c ..., without recursion for each operator."""

    def bind(tree: exp.Binary, scope: Scope) -> Expr:
        nodes: list[Any] = [tree]
        while type(nodes[-1].this) in signs:
            nodes.append(nodes[-1].this)
        result: Expr = step(nodes[-1], None, scope)
        for node in reversed(nodes[:-1]):
            result = step(node, result, scope)
        return result

    return bind


def _arithmetic(tree: exp.Binary, bound: Expr | None, scope: Scope) -> Expr:
    """`bound` is the bound left operand, or None if it is not bound yet."""
    sign = _ARITHMETIC[type(tree)]
    left, right = tree.this, tree.expression
    if isinstance(left, exp.Interval) and isinstance(right, exp.Interval):
        # added by the parser: x is no interval
        right = right if right.args.get("unit") else right.this
    if sign in "+-" and isinstance(right, exp.Interval):
        return moved(bound or scope.bind(left), right, -1 if sign == "-" else 1, scope)
    if sign == "+" and isinstance(left, exp.Interval):
        return moved(scope.bind(right), left, 1, scope)
    return arithmetic(sign, bound or scope.bind(left), scope.bind(right), scope)


def _negative(tree: exp.Neg, scope: Scope) -> Expr:
    inner = tree.this
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name == str(1 << 63):
        return Constant(type=types.integer(19), value=-(1 << 63))
    operand = to_number(scope.bind(inner))
    number = operand.value if isinstance(operand, Constant) else None
    if isinstance(number, int) and not -(1 << 63) <= -number < 1 << 63:
        operand = cast(operand, types.decimal(20, 0))
    kind = operand.type if operand.family is not Family.UINT else types.BIGINT
    if kind.Tp == TypeCode.NULL or operand.family is Family.INT:
        kind = types.integer(operand.type.Flen)
    if operand.family is Family.FLOAT:
        kind = types.DOUBLE
    return fold(Call(type=kind, function="negative", arguments=(operand,)))


def _bitwise(tree: exp.Binary, bound: Expr | None, scope: Scope) -> Expr:
    operands = (
        to_integer(bound or scope.bind(tree.this)),
        to_integer(scope.bind(tree.expression)),
    )
    return fold(Call(type=types.UNSIGNED, function=_BITS[type(tree)], arguments=operands))


def _inverted(tree: exp.BitwiseNot, scope: Scope) -> Expr:
    operand = to_integer(scope.bind(tree.this))
    return fold(Call(type=types.UNSIGNED, function="~", arguments=(operand,)))


def moved(moment: Expr, interval: exp.Interval, sign: int, scope: Scope) -> Expr:
    """The expression moment + INTERVAL amount unit."""
    from exuvia.sql.functions.moment import CLOCK_UNITS, UNITS, digits_of

    unit = interval.args["unit"].name.upper() if interval.args.get("unit") else ""
    if unit not in UNITS or interval.this is None:
        raise Misplaced("INTERVAL")
    size = scope.bind(interval.this)
    digits = max(digits_of(unit), types.fraction_digits(moment.type))
    if unit == "SECOND" and size.family not in types.WHOLE:
        digits = 6
    kind: FieldType
    if moment.family is Family.TIME:
        kind = types.time(digits)
    elif moment.family is Family.DATE and unit not in CLOCK_UNITS:
        kind = types.DATE
    elif moment.family in types.TEMPORAL:
        moment, kind = to_datetime(moment), types.datetime(digits)
    else:
        is_number = moment.family in types.NUMERIC and not types.is_text_like(moment.type)
        parts, extra = (moment if is_number else to_text(moment), size), (unit, sign)
        text = types.text(29, "utf8mb4", scope.collation)
        call = Call(type=text, function="date_add_text", arguments=parts, extra=extra)
        return fold(evolve(call, coercibility=COERCIBLE))
    call = Call(type=kind, function="date_add", arguments=(moment, size), extra=(unit, sign))
    return fold(call)


BINDERS: dict[type, Binder] = {
    **dict.fromkeys(_LOGIC, _logic),
    **COMPARISON,
    **dict.fromkeys(_ARITHMETIC, _chain(_arithmetic, _ARITHMETIC)),
    **dict.fromkeys(_BITS, _chain(_bitwise, _BITS)),
    exp.Not: _not,
    exp.Is: _is,
    exp.Neg: _negative,
    exp.BitwiseNot: _inverted,
}
