"""What DuckDB computes exactly as MySQL does: the forms of operators, functions and casts.

A maker answers None where the types at hand are not faithful; the call is then evaluated in Python.

    a + b        BIGINT and UBIGINT overflow is an error in both (1690)
    a % b        NULLIF(b, 0): MySQL's NULL for a zero divisor (without its warning 1365)
    YEAR(d)      d >> 9, the packed date
    a / b        evaluated: MySQL keeps whole words of digits
"""

from exuvia.base.types import Family, TypeCode
from exuvia.sql import types
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.conditions import CONDITIONS, Maker, divides
from exuvia.sql.duck.render import Renderer
from exuvia.sql.evaluate.shown import operation
from exuvia.sql.expr import Call, Cast, Constant, Expr
from exuvia.sql.functions import FUNCTIONS

_SMALL_DIGITS = 18


# -- arithmetic ------------------------------------------------------------------------------------


def _arithmetic(sign: str) -> Maker:
    def make(call: Call, renderer: Renderer) -> str | None:
        family = call.family
        said = (sign, family is Family.UINT, operation(call, sign))
        renderer.functions.operations.append(said)
        if family is Family.FLOAT:
            return None if sign == "*" else _plain(call, renderer, sign)
        if family is Family.DECIMAL:
            return _exact(call, renderer, sign)
        if all(part.family is Family.INT for part in call.arguments) and family is Family.INT:
            return _plain(call, renderer, sign)
        left, right = (f"CAST({renderer.value(part)} AS HUGEINT)" for part in call.arguments)
        return f"CAST(({left} {sign} {right}) AS {duck.type_of(call.type)})"

    return make


def _plain(call: Call, renderer: Renderer, sign: str) -> str:
    left, right = (renderer.value(part) for part in call.arguments)
    return f"({left} {sign} {right})"


def _exact(call: Call, renderer: Renderer, sign: str) -> str | None:
    scales = [max(0, part.type.Decimal) for part in call.arguments]
    if any(divides(part) for part in call.arguments):
        return None
    if sum(scales) > types.MOST_SCALE or max(scales) > duck.MOST_DIGITS:
        return None
    left, right = (renderer.value(part) for part in call.arguments)
    if call.type.Flen > _SMALL_DIGITS:  # DuckDB stays at 18 digits if both operands do
        left = f"CAST({left} AS DECIMAL({duck.MOST_DIGITS},{scales[0]}))"
    found = f"({left} {sign} {right})"
    if call.type.Flen <= duck.MOST_DIGITS:
        return f"CAST({found} AS {duck.type_of(call.type)})"
    return found


def _remainder(call: Call, renderer: Renderer) -> str | None:
    if call.family not in types.WHOLE:
        return None
    if any(part.family is not Family.INT for part in call.arguments):
        return None
    left, right = (renderer.value(part) for part in call.arguments)
    return f"({left} % nullif({right}, 0))"


def _negative(call: Call, renderer: Renderer) -> str | None:
    operand = call.arguments[0]
    if operand.family is Family.UINT or divides(operand):
        return None
    return f"(- {renderer.value(operand)})"


# -- choice ----------------------------------------------------------------------------------------


def _case(call: Call, renderer: Renderer) -> str | None:
    if any(divides(part) for part in call.arguments):
        return None
    parts = call.arguments
    whens = [
        f"WHEN {renderer.condition(parts[n])} THEN {_typed(renderer.value(parts[n + 1]), call)}"
        for n in range(0, len(parts) - 1, 2)
    ]
    return f"(CASE {' '.join(whens)} ELSE {_typed(renderer.value(parts[-1]), call)} END)"


def _typed(text: str, call: Call) -> str:
    """Every branch is cast: DuckDB's common type of two decimals may drop digits."""
    return f"CAST({text} AS {duck.type_of(call.type)})"


def _coalesce(call: Call, renderer: Renderer) -> str | None:
    if any(divides(part) for part in call.arguments):
        return None
    parts = ", ".join(_typed(renderer.value(part), call) for part in call.arguments)
    return f"coalesce({parts})"


def _null_if(call: Call, renderer: Renderer) -> str | None:
    value, same = call.arguments
    if divides(value):
        return None
    return f"CASE WHEN {renderer.condition(same)} THEN NULL ELSE {renderer.value(value)} END"


# -- functions -------------------------------------------------------------------------------------

_PARTS = {
    "YEAR": "({0} >> 46)",
    "MONTH": "(({0} >> 42) & 15)",
    "DAY": "(({0} >> 37) & 31)",
    "HOUR": "(({0} >> 32) & 31)",
    "MINUTE": "(({0} >> 26) & 63)",
    "SECOND": "(({0} >> 20) & 63)",
}


def _extract(call: Call, renderer: Renderer) -> str | None:
    template = _PARTS.get(call.extra[0])
    return None if template is None else template.format(renderer.value(call.arguments[0]))


def _templated(name: str, template: str) -> Maker:
    def make(call: Call, renderer: Renderer) -> str:
        return template.format(*[renderer.value(part) for part in call.arguments])

    return make


def _of_text(template: str) -> Maker:
    """Functions of text that are not those of bytes."""

    def make(call: Call, renderer: Renderer) -> str | None:
        if any(part.family is Family.BYTES for part in call.arguments):
            return None
        return template.format(*[renderer.value(part) for part in call.arguments])

    return make


def _substring(call: Call, renderer: Renderer) -> str | None:
    text, *sizes = call.arguments
    first = sizes[0]
    if text.family is not Family.STRING or not all(_is_count(size, 1) for size in sizes):
        return None
    shown = [renderer.value(text), str(first.value)]  # type: ignore[attr-defined]
    shown += [str(size.value) for size in sizes[1:]]  # type: ignore[attr-defined]
    return f"substring({', '.join(shown)})"


def _is_count(expr: Expr, least: int) -> bool:
    return isinstance(expr, Constant) and isinstance(expr.value, int) and expr.value >= least


def _left(call: Call, renderer: Renderer) -> str | None:
    text, size = call.arguments
    if text.family is not Family.STRING or not _is_count(size, 0):
        return None
    return f"left({renderer.value(text)}, {size.value})"  # type: ignore[attr-defined]


def _concat(call: Call, renderer: Renderer) -> str | None:
    if any(part.family is not Family.STRING for part in call.arguments):
        return None
    return "(" + " || ".join(renderer.value(part) for part in call.arguments) + ")"


def _absolute(call: Call, renderer: Renderer) -> str | None:
    operand = call.arguments[0]
    if divides(operand) or operand.family not in (Family.DECIMAL, Family.FLOAT):
        return None
    return f"abs({renderer.value(operand)})"


def _collated(call: Call, renderer: Renderer) -> str:
    return renderer.value(call.arguments[0])


NATIVE: dict[str, Maker] = {
    "+": _arithmetic("+"),
    "-": _arithmetic("-"),
    "*": _arithmetic("*"),
    "%": _remainder,
    "negative": _negative,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _null_if,
    "extract": _extract,
    "abs": _absolute,
    "char_length": _of_text("length({0})"),
    "character_length": _of_text("length({0})"),
    "length": _of_text("strlen({0})"),
    "octet_length": _of_text("strlen({0})"),
    "concat": _concat,
    "substring": _substring,
    "substr": _substring,
    "mid": _substring,
    "left": _left,
    "collate": _collated,
    **{
        name: _templated(name, function.duck)
        for name, function in FUNCTIONS.items()
        if function.duck and name not in ("bit_length",)
    },
}


# -- casts -----------------------------------------------------------------------------------------


def native_cast(cast: Cast, renderer: Renderer) -> str | None:
    """A change of type that DuckDB makes alike, or None."""
    source, wanted = cast.argument, types.family_of(cast.type)
    family = source.family
    if source.type.Tp in (TypeCode.ENUM, TypeCode.SET, TypeCode.BIT) or divides(source):
        return None
    if family is wanted and family in (Family.STRING, Family.JSON) and cast.type.Tp != 254:
        return renderer.value(source)
    if family is Family.DATE and wanted is Family.DATETIME:
        return f"({renderer.value(source)} * 137438953472)"
    if family is Family.DATETIME and wanted is Family.DATE:
        return f"({renderer.value(source)} >> 37)"
    if wanted is Family.FLOAT and family in (Family.INT, Family.UINT):
        return f"CAST({renderer.value(source)} AS DOUBLE)"
    if wanted is Family.DECIMAL and _fits(source, cast):
        return f"CAST({renderer.value(source)} AS {duck.type_of(cast.type)})"
    whole = family in (Family.INT, Family.UINT) and not source.type.Flag & 64
    if wanted is Family.STRING and whole and cast.type.Tp != 254 and source.type.Tp != 13:
        return f"CAST({renderer.value(source)} AS VARCHAR)"
    return None


def _fits(source: Expr, cast: Cast) -> bool:
    """Whether every value of an exact number fits into the DECIMAL as it is."""
    if source.family not in (Family.INT, Family.UINT, Family.DECIMAL):
        return False
    precision, scale = types.precision_of(source.type)
    return (
        cast.type.Flen <= duck.MOST_DIGITS
        and cast.type.Decimal >= scale
        and cast.type.Flen - cast.type.Decimal >= precision - scale
    )


__all__ = ["CONDITIONS", "NATIVE", "native_cast"]
