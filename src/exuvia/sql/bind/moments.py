"""Calls about dates and times whose arguments are not all expressions: units, intervals."""

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.types import Family
from exuvia.sql import types
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.choice import (
    Special,
    expect,
)
from exuvia.sql.bind.operators import moved
from exuvia.sql.bind.scope import Binder, Scope
from exuvia.sql.expr import Call, Constant, Expr
from exuvia.sql.functions import FUNCTIONS, interval
from exuvia.sql.parse.syntax_error import Misplaced


def _convert_now(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if not arguments:
        return Call(type=types.BIGINT, function="unix_timestamp_now", arguments=())
    function = FUNCTIONS[name]
    expect(name, arguments, 1, 1)
    operand = casts.to_datetime(arguments[0])
    digits = _digits_of(arguments[0])
    if not digits:
        return Call(type=function.type([operand]), function=name, arguments=(operand,))
    exact = f"{name}_exactly"
    found = Call(type=FUNCTIONS[exact].type([operand]), function=exact, arguments=(operand,))
    return casts.cast(found, types.decimal(12 + digits, digits))


def _digits_of(given: Expr) -> int:
    """Fractional digits of a moment: those written in a constant text, or its type's."""
    if isinstance(given, Constant) and isinstance(given.value, str):
        fraction = given.value.partition(".")[2]
        return min(6, len(fraction)) if fraction.isdigit() else 0
    return types.fraction_digits(given.type) if given.family in types.TEMPORAL else 0


_FORMATS = {
    "DATE": {"USA": "%m.%d.%Y", "JIS": "%Y-%m-%d", "ISO": "%Y-%m-%d", "EUR": "%d.%m.%Y"},
    "DATETIME": dict.fromkeys(("USA", "EUR"), "%Y-%m-%d %H.%i.%s"),
    "TIME": {"USA": "%h:%i:%s %p", "JIS": "%H:%i:%s", "ISO": "%H:%i:%s", "EUR": "%H.%i.%s"},
}
_FORMATS["DATE"]["INTERNAL"] = "%Y%m%d"
_FORMATS["TIME"]["INTERNAL"] = "%H%i%s"
_FORMATS["DATETIME"] |= dict.fromkeys(("JIS", "ISO"), "%Y-%m-%d %H:%i:%s")
_FORMATS["DATETIME"]["INTERNAL"] = "%Y%m%d%H%i%s"


def _get_format(trees: list[exp.Expression], scope: Scope) -> Expr:
    """GET_FORMAT(DATE | TIME | DATETIME | TIMESTAMP, place): its first argument is a word."""
    expect("get_format", trees, 2, 2)
    word = trees[0].name.upper().replace("TIMESTAMP", "DATETIME")
    if word not in _FORMATS:
        raise Misplaced(trees[0].name)
    place = casts.to_text(scope.bind(trees[1]))
    found: Expr = Constant(type=types.NULL, value=None)
    for name, text in _FORMATS[word].items():
        same = Call(type=types.BOOLEAN, function="=", arguments=(place, _text(name)), extra=(_CI,))
        parts = (same, _text(text), found)
        found = Call(type=types.text(17), function="case", arguments=parts)
    return casts.fold(found)


def _text(value: str) -> Constant:
    return Constant(type=types.text(17), value=value)


_CI = "utf8mb4_general_ci"


def _timestamp(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 2)
    moment = casts.to_datetime(arguments[0])
    if isinstance(moment, Constant) and moment.value is not None and not moment.value & 0xFFFFF:
        moment = evolve(moment, type=types.datetime(0))
    if len(arguments) == 1:
        return moment
    return _add_time("addtime", [moment, arguments[1]], scope)


def _add_time(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    moment, size = arguments
    amount = casts.to_time(size)
    if types.is_text_like(moment.type):
        written = moment.value if isinstance(moment, Constant) else ""
        clock = isinstance(written, str) and "-" not in written.lstrip("-")
        moment = casts.to_time(moment) if clock else casts.to_datetime(moment)
    elif moment.family is Family.DATE:
        moment = casts.to_datetime(moment)
    digits = max(types.fraction_digits(moment.type), types.fraction_digits(amount.type))
    kind = types.time(digits) if moment.family is Family.TIME else types.datetime(digits)
    sign = -1 if name == "subtime" else 1
    micros = Call(type=types.BIGINT, function="time_micros", arguments=(amount,))
    return Call(
        type=kind, function="date_add", arguments=(moment, micros), extra=("MICROSECOND", sign)
    )


def unit_of(tree: exp.Expression) -> str:
    """A unit written as a name."""
    unit = tree.name.upper().removeprefix("SQL_TSI_")
    if unit not in interval.UNITS:
        raise Misplaced(tree.name)
    return unit


def by_unit(name: str, trees: list[exp.Expression], scope: Scope) -> Expr:
    """TIMESTAMPDIFF, TIMESTAMPADD, DATE_ADD, DATE_SUB:

    calls whose arguments are not all expressions."""
    if name == "get_format":
        return _get_format(trees, scope)
    if name in ("date_add", "date_sub", "adddate", "subdate"):
        expect(name, trees, 2, 2)
        size = trees[1]
        if not isinstance(size, exp.Interval):
            size = exp.Interval(this=size, unit=exp.Var(this="DAY"))
        return moved(
            scope.bind(trees[0]), size, -1 if name in ("date_sub", "subdate") else 1, scope
        )
    expect(name, trees, 3, 3)
    unit = unit_of(trees[0])
    if name == "timestampadd":
        size = exp.Interval(this=trees[1], unit=exp.Var(this=unit))
        return moved(scope.bind(trees[2]), size, 1, scope)
    operands = tuple(casts.to_datetime(scope.bind(each)) for each in trees[1:])
    return casts.fold(
        Call(type=types.BIGINT, function="timestampdiff", arguments=operands, extra=(unit,))
    )


def _extract(tree: exp.Extract, scope: Scope) -> Expr:
    unit = unit_of(tree.this)
    operand = scope.bind(tree.expression)
    if operand.family is Family.TIME or (unit in interval.CLOCK_UNITS and _is_clock(operand)):
        return _extract_clock(unit, casts.to_time(operand))
    operand = casts.to_datetime(operand)
    return casts.fold(
        Call(type=types.integer(20), function="extract", arguments=(operand,), extra=(unit,))
    )


def _is_clock(operand: Expr) -> bool:
    """Whether a constant text is a time of day without a date."""
    if not (isinstance(operand, Constant) and isinstance(operand.value, str)):
        return False
    return ":" in operand.value and "-" not in operand.value.lstrip("-")


def _extract_clock(unit: str, operand: Expr) -> Expr:
    return casts.fold(
        Call(type=types.integer(20), function="extract_time", arguments=(operand,), extra=(unit,))
    )


UNIT_CALLS = frozenset(
    ("date_add", "date_sub", "adddate", "subdate", "timestampadd", "timestampdiff", "get_format")
)
SPECIAL: dict[str, Special] = {
    "addtime": _add_time,
    "subtime": _add_time,
    "timestamp": _timestamp,
    "unix_timestamp": _convert_now,
}
BINDERS: dict[type, Binder] = {exp.Extract: _extract}
