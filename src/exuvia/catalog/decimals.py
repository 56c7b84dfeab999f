"""DECIMAL as integers: scaled in rows, one order-preserving form in keys.

    in a row     value * 10**scale, two's complement, little-endian:
                 8 bytes up to 18 digits, 16 up to 38, 32 beyond
    in a key     does not know precision or scale, so 1.0 and 1.00 are one key:

        head          0x80 + number of integer groups          1 byte
        group         (9 digits << 1) | another group follows  4 bytes, big-endian
                      integer groups first (at least one, no leading zero group), then
                      fraction groups (no trailing zero group); the lowest bit tells whether
                      another follows, so a key has an end
        negative      every byte of the magnitude's key inverted

    12.34 -> 81 | 12 << 1 | 1 | 340000000 << 1          -12.34 -> the same, inverted

A longer fraction is larger (positive), as the lowest bit requires. Source for limits: MySQL manual,
DECIMAL: 65 digits, 30 of them after the point."""

from decimal import ROUND_HALF_UP, Context, Decimal
from struct import Struct

from exuvia.base.types import FieldType

MOST_DIGITS = 65
MOST_SCALE = 30
SMALL_DIGITS = 18
MIDDLE_DIGITS = 38
GROUP_DIGITS = 9
GROUP = 10**GROUP_DIGITS
LITERAL_DIGITS = 81
LARGEST = Decimal("9" * MOST_DIGITS)
MOST_EXPONENT = 400  # a double has 308; no type distinguishes numbers beyond this
WIDE = Context(prec=MOST_EXPONENT + 2 * MOST_SCALE, rounding=ROUND_HALF_UP)
_LITERAL = Context(prec=LITERAL_DIGITS, rounding=ROUND_HALF_UP)

_U32 = Struct(">I")
_INVERT = bytes(range(255, -1, -1))


def precision_of(field: FieldType) -> int:
    """Total digits of a DECIMAL column; 10, as in MySQL, if not declared."""
    return field.Flen if field.Flen > 0 else 10


def scale_of(field: FieldType) -> int:
    """Digits of a DECIMAL column after the point."""
    return max(0, field.Decimal)


def width_of(field: FieldType) -> int:
    """Bytes of the scaled integer in a row: 8, 16 or 32."""
    precision = precision_of(field)
    if precision <= SMALL_DIGITS:
        return 8
    return 16 if precision <= MIDDLE_DIGITS else 32


def scaled(value: Decimal, scale: int) -> int:
    """value * 10**scale; digits beyond the scale are cut (assignment has rounded before)."""
    return int(WIDE.scaleb(value, scale))


def unscaled(integer: int, scale: int) -> Decimal:
    """Inverse of `scaled`; keeps the scale's trailing zeros."""
    return WIDE.scaleb(Decimal(integer), -scale) if scale else Decimal(integer)


def rounded(value: Decimal, scale: int) -> Decimal:
    """The value with exactly `scale` digits after the point, halves away from zero."""
    return value.quantize(Decimal(1).scaleb(-scale), context=WIDE)


def parsed(text: str) -> Decimal:
    """The number of digits, point and exponent.

    A number too large or too small for any type is cut and stays finite: 1e99999 is 1e400, 1e-99999
    is 0."""
    mantissa, _, exponent = text.lower().partition("e")
    digits = exponent.lstrip("+-0")
    power = int(exponent[: len(exponent) - len(digits) + 9] or 0)  # nine digits suffice
    number = Decimal(mantissa)
    if not number:
        return number
    if -MOST_EXPONENT <= number.adjusted() + power <= MOST_EXPONENT:
        return Decimal(text)
    sign = int(number.is_signed())
    return Decimal((sign, (1,), MOST_EXPONENT)) if number.adjusted() + power > 0 else Decimal(0)


def literal(text: str) -> Decimal:
    """The DECIMAL of a statement's literal, with or without a point.

    More than 81 integer digits give the largest DECIMAL, as in TiDB; a longer fraction is cut."""
    if len(text) <= LITERAL_DIGITS:
        return Decimal(text)
    number = _LITERAL.create_decimal(text)
    return LARGEST if number.adjusted() >= LITERAL_DIGITS else number


def whole(digits: str) -> int:
    """The integer of a client's digits, of any number; beyond every type it is cut to 1e400.

    (Python refuses more than 4,300 digits, and is slow long before.)"""
    if len(digits) <= MOST_EXPONENT:
        return int(digits)
    return int(parsed(digits))


def key_of(value: Decimal) -> bytes:
    """The key form. Raises OverflowError beyond 72 integer or 36 fraction digits."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise OverflowError(f"{value} has no key")
    magnitude = int("".join(map(str, digits)))
    places = max(0, -exponent)
    width = -(-places // GROUP_DIGITS)
    magnitude *= 10 ** (max(0, exponent) + width * GROUP_DIGITS - places)
    whole, fraction = divmod(magnitude, 10 ** (width * GROUP_DIGITS))
    groups: list[int] = []  # nine digits each, the least significant first
    for _ in range(width):
        fraction, group = divmod(fraction, GROUP)
        if group or groups:  # without trailing zero groups
            groups.append(group)
    integer_groups = 1
    groups.append(whole % GROUP)
    while whole >= GROUP:
        whole //= GROUP
        groups.append(whole % GROUP)
        integer_groups += 1
    key = bytes([0x80 + integer_groups]) + b"".join(
        [_U32.pack(group << 1 | (n > 0)) for n, group in reversed(list(enumerate(groups)))]
    )
    return key.translate(_INVERT) if sign and magnitude else key


def read_key(encoded: bytes, start: int) -> tuple[Decimal, int]:
    """The value whose key begins at `start`, and the end of the key. Raises IndexError."""
    negative = encoded[start] < 0x80
    head = encoded[start] ^ 0xFF if negative else encoded[start]
    groups: list[int] = []
    at, more = start + 1, True
    while more or len(groups) < head - 0x80:
        word = int.from_bytes(encoded[at : at + 4], "big")
        if at + 4 > len(encoded):
            raise IndexError(at)
        word = word ^ 0xFFFFFFFF if negative else word
        groups.append(word >> 1)
        more = bool(word & 1)
        at += 4
    number = 0
    for group in groups:
        number = number * GROUP + group
    scale = GROUP_DIGITS * (len(groups) - (head - 0x80))
    return unscaled(-number if negative else number, scale), at
