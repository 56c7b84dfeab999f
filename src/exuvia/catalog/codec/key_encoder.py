"""The encoding of one value in a key, which depends on its family only, and of the values of
several columns.

    family                     bytes                                             NULL
    INT                        01 | value + 2**63, 8 bytes big-endian            00 | 8 zero bytes
    UINT                       01 | value, 8 bytes big-endian                    00 | 8 zero bytes
    FLOAT                      01 | IEEE bits made to sort, -0 as 0              00 | 8 zero bytes
    DATE, DATETIME, TIME       01 | as INT                                       00 | 8 zero bytes
    DECIMAL                    01 | catalog/decimals.py                          00
    STRING                     01 | sort key of the collation                    00
    BYTES, JSON                01 | escaped, 00 00 at the end                    00

NULL sorts first. NOT NULL columns have the marker too, since NOT NULL can be added and dropped
without a change of the index. A number's NULL has the width of its values, so that keys of numbers
all have one width (catalog/codec/key_batch.py).

    whole <= limit - 20 bytes     unchanged
    longer                        its first limit - 20 bytes and a 20 byte hash of all of it

The engines' keys have at most 1,978 bytes, and a key has one index's values and one handle.
Equality stays exact (within the limits of BLAKE2b with 160 bits). Values that agree in the retained
bytes have no order: a range is widened and its rows are checked (docs/decisions/003-long-keys.md).
A prefix index cuts values before that.
"""

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from hashlib import blake2b
from struct import Struct

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals
from exuvia.catalog.collation import collation, no_pad_key, read_no_pad, read_pad_space

Encoder = Callable[[Value], bytes]
Decoder = Callable[[bytes, int], tuple[Value, int]]

HASH_BYTES = 20
VALUES_BYTES = 1044
HANDLE_BYTES = 920

NULL = b"\x00"
PRESENT = b"\x01"
NUMBER_BYTES = 9
NULL_NUMBER = bytes(NUMBER_BYTES)

_UNSIGNED = Struct(">BQ")
_FLOAT = Struct(">d")
_BITS = Struct(">Q")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_SIGNED_FAMILIES = (Family.INT, Family.DATE, Family.DATETIME, Family.TIME)
NUMBERS = frozenset({*_SIGNED_FAMILIES, Family.UINT, Family.FLOAT})


def _signed(value: int | None) -> bytes:
    return NULL_NUMBER if value is None else _UNSIGNED.pack(1, value + _SIGN)


def _unsigned(value: int | None) -> bytes:
    return NULL_NUMBER if value is None else _UNSIGNED.pack(1, value)


def _float(value: float | None) -> bytes:
    if value is None:
        return NULL_NUMBER
    (bits,) = _BITS.unpack(_FLOAT.pack(value + 0.0))
    return _UNSIGNED.pack(1, bits ^ _ALL if bits & _SIGN else bits | _SIGN)


def _decimal(value: Decimal | None) -> bytes:
    return NULL if value is None else PRESENT + decimals.key_of(value)


def _bytes(length: int) -> Encoder:
    end = None if length < 0 else length

    def encode(value: bytes | None) -> bytes:
        return NULL if value is None else PRESENT + no_pad_key(value[:end])

    return encode


def _string(collate: str, length: int) -> Encoder:
    sort_key = collation(collate).sort_key
    end = None if length < 0 else length

    def encode(value: str | None) -> bytes:
        return NULL if value is None else PRESENT + sort_key(value[:end])

    return encode


def _json(value: str | None) -> bytes:
    return NULL if value is None else PRESENT + no_pad_key(value.encode())


def encoder_of(field: FieldType, length: int = -1) -> Encoder:
    """The function that encodes one value of the type; `length` is an index prefix in characters or
    bytes."""
    family = field.family
    if family in _SIGNED_FAMILIES:
        return _signed
    if family == Family.STRING:
        return _string(field.Collate, length)
    if family == Family.BYTES:
        return _bytes(length)
    others: dict[Family, Encoder] = {
        Family.UINT: _unsigned,
        Family.FLOAT: _float,
        Family.DECIMAL: _decimal,
        Family.JSON: _json,
    }
    return others[family]


def cut(encoded: bytes, limit: int) -> bytes:
    """The encoding within its limit, as in the module's text."""
    most = limit - HASH_BYTES
    if len(encoded) <= most:
        return encoded
    return encoded[:most] + blake2b(encoded, digest_size=HASH_BYTES).digest()


# -- reading back ----------------------------------------------------------------------------------


def _read_signed(encoded: bytes, at: int) -> tuple[Value, int]:
    return _UNSIGNED.unpack_from(encoded, at)[1] - _SIGN, at + NUMBER_BYTES


def _read_unsigned(encoded: bytes, at: int) -> tuple[Value, int]:
    return _UNSIGNED.unpack_from(encoded, at)[1], at + NUMBER_BYTES


def _read_float(encoded: bytes, at: int) -> tuple[Value, int]:
    bits = _UNSIGNED.unpack_from(encoded, at)[1]
    raw = _BITS.pack(bits ^ _SIGN if bits & _SIGN else bits ^ _ALL)
    return _FLOAT.unpack(raw)[0], at + NUMBER_BYTES


def _read_decimal(scale: int) -> Decoder:
    def read(encoded: bytes, at: int) -> tuple[Value, int]:
        value, end = decimals.read_key(encoded, at + 1)
        return decimals.rounded(value, scale), end

    return read


def _read_bytes(encoded: bytes, at: int) -> tuple[Value, int]:
    return read_no_pad(encoded, at + 1)


def _read_text(pads: bool) -> Decoder:
    read_key = read_pad_space if pads else read_no_pad

    def read(encoded: bytes, at: int) -> tuple[Value, int]:
        data, end = read_key(encoded, at + 1)
        return data.decode("utf-8", "replace"), end

    return read


def decoder_of(field: FieldType) -> Decoder:
    """(encoded, position) -> (value, end), for a value that is not NULL. Returns a text as folded
    by its collation.

    Raises IndexError or struct.error if the value has no end."""
    family = field.family
    if family in _SIGNED_FAMILIES:
        return _read_signed
    if family == Family.STRING:
        return _read_text(collation(field.Collate).pads)
    if family == Family.DECIMAL:
        return _read_decimal(decimals.scale_of(field))
    if family == Family.JSON:
        return _read_text(pads=False)
    return {
        Family.UINT: _read_unsigned,
        Family.FLOAT: _read_float,
        Family.BYTES: _read_bytes,
    }[family]


def null_width(field: FieldType) -> int:
    """Width of the type's NULL in bytes."""
    return NUMBER_BYTES if field.family in NUMBERS else 1


def is_faithful(field: FieldType, length: int = -1) -> bool:
    """Whether the key has the stored value itself, not a prefix, a fold, or a text without spaces.

    CHAR never stores trailing spaces, so its PAD SPACE key loses nothing."""
    if length >= 0:
        return False
    if field.family == Family.FLOAT:
        return False
    if field.family != Family.STRING:
        return True
    text_collation = collation(field.Collate)
    return text_collation.keeps_text and (not text_collation.pads or field.Tp == TypeCode.STRING)


_DECIMAL_BYTES = 50
_UNBOUNDED = 1 << 30


def most_bytes(field: FieldType, length: int = -1) -> int:
    """The longest possible encoding of the type. A folded character may become many."""
    family = field.family
    if family in NUMBERS:
        return NUMBER_BYTES
    if family == Family.DECIMAL:
        return _DECIMAL_BYTES
    characters = length if length >= 0 else max(field.Flen, 0) or _UNBOUNDED
    if family != Family.STRING:
        return 3 + 2 * characters
    return 3 + 4 * characters if collation(field.Collate).is_short else _UNBOUNDED


class KeyForm:
    """The encoding of several columns: index parts or primary key parts. `limit` as in `cut`."""

    __slots__ = ("_decoders", "_encoders", "exact", "faithful", "limit", "null_widths")

    def __init__(self, parts: Sequence[tuple[FieldType, int]], limit: int) -> None:
        self._encoders = [encoder_of(field, length) for field, length in parts]
        self._decoders = [decoder_of(field) for field, _ in parts]
        self.null_widths = [null_width(field) for field, _ in parts]
        self.limit = limit
        self.exact = sum(most_bytes(*part) for part in parts) <= limit - HASH_BYTES
        self.faithful = all(is_faithful(*part) for part in parts)

    @property
    def one(self) -> Callable[[Value], bytes] | None:
        """The encoder for keys of one part that is never cut; None for others."""
        return self._encoders[0] if self.exact and len(self._encoders) == 1 else None

    def whole(self, values: Sequence[Value]) -> bytes:
        """All values (or the first few), not cut."""
        return b"".join([encode(v) for encode, v in zip(self._encoders, values, strict=False)])

    def encode(self, values: Sequence[Value]) -> bytes:
        """All values, within the limit."""
        encoded = self.whole(values)
        return encoded if len(encoded) <= self.limit - HASH_BYTES else cut(encoded, self.limit)

    def encode_many(self, columns: Sequence[Sequence[Value]]) -> list[bytes]:
        """`encode` for values given by column."""
        if not self.exact:
            return [self.encode(values) for values in zip(*columns, strict=True)]
        encoded = [map(one, column) for one, column in zip(self._encoders, columns, strict=True)]
        return list(map(b"".join, zip(*encoded, strict=True)))

    def decode(self, encoded: bytes, at: int) -> tuple[tuple[Value, ...] | None, int]:
        """The values from the position on, and their end. Returns None for cut values, which end at
        the limit."""
        start, most = at, at + self.limit - HASH_BYTES
        values: list[Value] = []
        for read, null in zip(self._decoders, self.null_widths, strict=True):
            if encoded[at : at + 1] == NULL:
                values.append(None)
                at += null
                continue
            try:
                value, at = read(encoded[:most], at)
            except (IndexError, ValueError, struct.error):
                return None, start + self.limit
            values.append(value)
        return (tuple(values), at) if at <= most else (None, start + self.limit)
