"""Types of results by MySQL's rules (manual, "Expression evaluation", "Precision math").

    + -      decimal: scale max(s1, s2), digits max(i1, i2) + 1 + scale
    *        decimal: scale s1 + s2, precision p1 + p2
    /        decimal: scale s1 + 4 (div_precision_increment), also for integers
    DIV      integer; MOD as the operands
    a FLOAT, string or JSON operand in arithmetic: DOUBLE

The precision is in `Flen`, the scale in `Decimal`, as in a column's FieldType.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace as evolve

from exuvia.base.mysql_errors import ErrDataOutOfRange
from exuvia.base.types import INTEGER_BITS, Family, FieldType, Flag, TypeCode
from exuvia.sql.expr import Expr

MOST_DIGITS = 65
MOST_SCALE = 30
DIVISION_DIGITS = 4
_BINARY = int(Flag.BINARY)
INTEGER_DIGITS = {
    TypeCode.TINY: 3,
    TypeCode.SHORT: 5,
    TypeCode.INT24: 8,
    TypeCode.LONG: 10,
    TypeCode.LONGLONG: 19,
}

NULL = FieldType(Tp=TypeCode.NULL, Flag=_BINARY, Flen=0, Decimal=0)
BIGINT = FieldType(Tp=TypeCode.LONGLONG, Flag=_BINARY, Flen=20, Decimal=0)
UNSIGNED = FieldType(Tp=TypeCode.LONGLONG, Flag=_BINARY | Flag.UNSIGNED, Flen=20, Decimal=0)
BOOLEAN = FieldType(Tp=TypeCode.LONGLONG, Flag=_BINARY, Flen=1, Decimal=0)
DOUBLE = FieldType(Tp=TypeCode.DOUBLE, Flag=_BINARY, Flen=22, Decimal=-1)
FLOAT = FieldType(Tp=TypeCode.FLOAT, Flag=_BINARY, Flen=12, Decimal=-1)
DATE = FieldType(Tp=TypeCode.DATE, Flag=_BINARY, Flen=10, Decimal=0)
JSON = FieldType(Tp=TypeCode.JSON, Flag=_BINARY, Flen=-1, Charset="utf8mb4", Collate="utf8mb4_bin")


def finite(value: float, expression: str) -> float:
    """Returns the value if it is finite, else raises 1690 with the text of the expression."""
    if not math.isfinite(value):
        raise ErrDataOutOfRange("DOUBLE", expression)
    return value


def integer(digits: int = 20, unsigned: bool = False) -> FieldType:
    """BIGINT with this number of digits."""
    return evolve(UNSIGNED if unsigned else BIGINT, Flen=digits)


def decimal(precision: int, scale: int, unsigned: bool = False) -> FieldType:
    """DECIMAL, limited to MySQL's maximum precision and scale."""
    scale = max(0, min(scale, MOST_SCALE))
    precision = max(1, scale, min(precision, MOST_DIGITS))
    flag = _BINARY | (Flag.UNSIGNED if unsigned else 0)
    return FieldType(Tp=TypeCode.NEWDECIMAL, Flag=flag, Flen=precision, Decimal=scale)


def text(characters: int, charset: str = "utf8mb4", collate: str = "utf8mb4_bin") -> FieldType:
    flag = _BINARY if charset == "binary" else 0
    kind = TypeCode.LONG_BLOB if characters > 16383 else TypeCode.VAR_STRING
    return FieldType(Tp=kind, Flag=flag, Flen=characters, Charset=charset, Collate=collate)


def blob(length: int) -> FieldType:
    return text(length, "binary", "binary")


def datetime(digits: int = 0) -> FieldType:
    """DATETIME with this number of fractional digits."""
    flen = 19 + (digits + 1 if digits else 0)
    return FieldType(Tp=TypeCode.DATETIME, Flag=_BINARY, Flen=flen, Decimal=digits)


def time(digits: int = 0) -> FieldType:
    """TIME with this number of fractional digits."""
    flen = 10 + (digits + 1 if digits else 0)
    return FieldType(Tp=TypeCode.TIME, Flag=_BINARY, Flen=flen, Decimal=digits)


# -- facts about types -----------------------------------------------------------------------------

TEMPORAL = frozenset((Family.DATE, Family.DATETIME, Family.TIME))
WHOLE = frozenset((Family.INT, Family.UINT))
NUMERIC = WHOLE | {Family.DECIMAL, Family.FLOAT}
TEXTUAL = frozenset((Family.STRING, Family.BYTES))


def family_of(kind: FieldType) -> Family | None:
    """The family of the values; None for NULL."""
    return None if kind.Tp == TypeCode.NULL else kind.family


def is_text_like(kind: FieldType) -> bool:
    """Whether values are read as strings: strings, ENUM and SET."""
    return kind.Tp in (TypeCode.ENUM, TypeCode.SET) or family_of(kind) in TEXTUAL


def listed_collation(kind: FieldType) -> str:
    """The collation of the texts of an ENUM or SET; "" for bytes and for other types."""
    is_listed = kind.Tp in (TypeCode.ENUM, TypeCode.SET) and kind.Collate != "binary"
    return kind.Collate if is_listed else ""


def fraction_digits(kind: FieldType) -> int:
    """The number of fractional digits of a temporal type."""
    return max(0, kind.Decimal) if family_of(kind) in (Family.DATETIME, Family.TIME) else 0


def numeric_form(kind: FieldType) -> FieldType:
    """The operand type in arithmetic: temporal values become integers or decimals."""
    family = family_of(kind)
    if kind.Tp == TypeCode.NULL:
        return BIGINT
    if family in TEMPORAL:
        digits = fraction_digits(kind)
        return decimal(14 + digits, digits) if digits else BIGINT
    if is_text_like(kind) or family in (Family.JSON, Family.FLOAT):
        return DOUBLE
    if kind.Tp in (TypeCode.BIT, TypeCode.YEAR):
        return UNSIGNED
    return kind


def precision_of(kind: FieldType) -> tuple[int, int]:
    """(precision, scale) of a number as DECIMAL."""
    if kind.Tp == TypeCode.NEWDECIMAL:
        scale = max(0, kind.Decimal)
        return (max(kind.Flen, scale, 1) if kind.Flen >= 0 else 10), scale
    if kind.Tp in INTEGER_BITS:
        digits = INTEGER_DIGITS[TypeCode(kind.Tp)]
        if kind.Tp == TypeCode.LONGLONG and 0 < kind.Flen < digits:
            digits = kind.Flen
        return digits + (kind.Tp == TypeCode.LONGLONG and kind.unsigned and kind.Flen >= 20), 0
    return 20, 0


def as_decimal(kind: FieldType) -> FieldType:
    """The DECIMAL type of a number of this type."""
    if kind.Tp == TypeCode.NEWDECIMAL:
        return kind
    return decimal(*precision_of(kind), kind.unsigned)


def arithmetic(
    operator: str, left: FieldType, right: FieldType, more: int = DIVISION_DIGITS
) -> FieldType:
    """The result type of + - * / DIV % for operands in their numeric forms.

    `more`: the digits that `/` adds (div_precision_increment)."""
    left, right = numeric_form(left), numeric_form(right)
    families = {family_of(left), family_of(right)}
    unsigned = left.unsigned or right.unsigned
    if operator == "DIV":
        return integer(20, unsigned)
    if Family.FLOAT in families:
        return DOUBLE
    if Family.DECIMAL not in families and operator != "/":
        return integer(20, left.unsigned if operator == "%" else unsigned)
    (p1, s1), (p2, s2) = precision_of(left), precision_of(right)
    if operator == "*":
        return decimal(p1 + p2, s1 + s2)
    if operator == "/":
        return decimal(p1 - s1 + s2 + min(s1 + more, MOST_SCALE), s1 + more)
    if operator == "%":
        return decimal(max(p1, p2), max(s1, s2))
    scale = max(s1, s2)
    return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


# -- several branches, one type (CASE, IF, COALESCE, UNION, GREATEST) ------------------------------


def merged(kinds: Iterable[FieldType], collate: tuple[str, str] | None = None) -> FieldType:
    """The common type of these types (manual, "Flow control functions").

    `collate`: (charset, collation)."""
    present = [kind for kind in kinds if kind.Tp != TypeCode.NULL]
    if not present:
        return NULL
    families = {family_of(kind) for kind in present}
    textual = any(is_text_like(kind) for kind in present)
    first = present[0]
    listed = first.Tp in (TypeCode.ENUM, TypeCode.SET)
    if not listed and collate is None and len({_without_key(kind) for kind in present}) == 1:
        return first
    if families == {Family.JSON}:
        return JSON
    if textual or Family.JSON in families or _mixed_temporal(families):
        width = max(width_of(kind) for kind in present)
        binary = any(is_bytes(kind) for kind in present)
        return blob(width) if binary else text(width, *(collate or ("utf8mb4", "utf8mb4_bin")))
    if families <= TEMPORAL:
        digits = max(fraction_digits(kind) for kind in present)
        if families == {Family.DATE}:
            return DATE
        if all(kind.Tp == TypeCode.TIMESTAMP for kind in present):
            return evolve(datetime(digits), Tp=TypeCode.TIMESTAMP)
        return time(digits) if families == {Family.TIME} else datetime(digits)
    if Family.FLOAT in families:
        return FLOAT if all(kind.Tp in _SINGLE for kind in present) else DOUBLE
    sizes = [precision_of(kind) for kind in present]
    if families <= WHOLE:
        if len(families) == 1:
            return integer(max(p for p, _ in sizes), Family.UINT in families)
        if any(k.Tp == TypeCode.LONGLONG and k.unsigned and k.Flen >= 20 for k in present):
            return decimal(20, 0)
        return integer(max(p for p, _ in sizes))
    scale = max(s for _, s in sizes)
    return decimal(max(p - s for p, s in sizes) + scale, scale)


_SINGLE = (TypeCode.FLOAT, TypeCode.TINY, TypeCode.SHORT, TypeCode.INT24, TypeCode.YEAR)
_OF_TYPE = Flag.UNSIGNED | Flag.ZEROFILL


def _without_key(kind: FieldType) -> FieldType:
    """The type without its column's flags: NOT NULL, keys, AUTO_INCREMENT."""
    return evolve(kind, Flag=kind.Flag & _OF_TYPE)


def is_bytes(kind: FieldType) -> bool:
    """Whether values are bytes as text; this includes BIT."""
    return kind.Tp == TypeCode.BIT or family_of(kind) is Family.BYTES


def _mixed_temporal(families: set[Family | None]) -> bool:
    temporal = families & TEMPORAL
    return bool(temporal) and bool(families - TEMPORAL)


def width_of(kind: FieldType) -> int:
    """The number of characters of a value of this type as text."""
    family = family_of(kind)
    if kind.Tp == TypeCode.NEWDECIMAL:
        return kind.Flen + 2
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET):
        lengths = [len(elem) for elem in kind.Elems or ()]
        return sum(lengths) + len(lengths) if kind.Tp == TypeCode.SET else max(lengths, default=1)
    if family is Family.FLOAT:
        return 23
    if family is Family.DATE:
        return 10
    if family in (Family.DATETIME, Family.TIME):
        digits = fraction_digits(kind)
        return (19 if family is Family.DATETIME else 10) + (digits + 1 if digits else 0)
    if family in WHOLE:
        return 20
    return kind.Flen if kind.Flen >= 0 else 65535


def widest(arguments: Sequence[Expr]) -> int:
    """The number of characters of all arguments together, limited to 2**26."""
    return min(sum(width_of(argument.type) for argument in arguments), 1 << 26)
