"""What a value becomes where a strict mode would refuse it: the nearest, else the type's zero.

number out of range    the bound           text too long    cut
text with rubbish      the leading number  no such element  0 of the ENUM or SET
no moment, no JSON     the type's zero     NULL             the type's zero
"""

from decimal import Decimal
from typing import Any

from exuvia.base.errors import Refused
from exuvia.base.types import INTEGER_BITS, TEXT_BLOBS, Family, FieldType, TypeCode
from exuvia.catalog import assign_numbers, decimals, values

Value = Any

_MOST_SINGLE = 3.4028234663852886e38
_MOST_DOUBLE = 1.7976931348623157e308


def narrowed(value: Value, source: FieldType, target: FieldType) -> Value:
    """What is written where strict mode refuses: the nearest value, else the type's zero."""
    if value is None or source.Tp == TypeCode.NULL:
        return values.zero_of(target)
    if target.Tp in (TypeCode.ENUM, TypeCode.SET):
        return 0
    if target.Tp == TypeCode.BIT:
        return (1 << max(1, target.Flen)) - 1
    if target.Tp in INTEGER_BITS:
        least, most = assign_numbers.bounds_of(target)
        return min(max(int(decimals.rounded(_number(value, source), 0)), least), most)
    if target.family in (Family.DECIMAL, Family.FLOAT):
        return _nearest(_number(value, source), target)
    if target.family in (Family.STRING, Family.BYTES) and target.Flen >= 0:
        whole = values.to_text(value, source) if not isinstance(value, str | bytes) else value
        if isinstance(whole, bytes) and target.family is Family.STRING:
            whole = whole.decode("utf-8", "replace")
        return _cut(whole, target)
    return values.zero_of(target)


def _cut(whole: str | bytes, target: FieldType) -> str | bytes:
    """As much as a column holds: characters, or bytes of a TEXT; no character is halved."""
    if target.Tp not in TEXT_BLOBS or isinstance(whole, bytes):
        return whole[: target.Flen]
    return whole.encode()[: target.Flen].decode(errors="ignore")


def _number(value: Value, source: FieldType) -> Decimal:
    """The number a value begins with; 0 where it is none."""
    text = value if isinstance(value, str) else values.to_text(value, source)
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    try:
        return assign_numbers.leading_number(text, "")[0]
    except Refused:
        return Decimal(0)


def _nearest(number: Decimal, target: FieldType) -> Value:
    scale = decimals.scale_of(target)
    if target.family == Family.DECIMAL:
        most = decimals.unscaled(10 ** decimals.precision_of(target) - 1, scale)
        number = decimals.rounded(number, scale)
    elif 0 <= target.Decimal < 31 and target.Flen > 0:
        most = Decimal(10**target.Flen - 1).scaleb(-target.Decimal)
    else:
        most = Decimal(_MOST_SINGLE if target.Tp == TypeCode.FLOAT else _MOST_DOUBLE)
    least = Decimal(0) if target.unsigned else -most
    number = min(max(number, least), most)
    return number if target.family == Family.DECIMAL else float(number)
