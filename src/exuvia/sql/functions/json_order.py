"""The order of JSON values (manual, "Comparison and Ordering of JSON Values").

    NULL < numbers < strings < objects < arrays < booleans

A key is bytes: equal values have equal keys, and the keys' order is the values'."""

import struct
from typing import Any

from exuvia.sql.functions import json_values

_NULL, _NUMBER, _STRING, _OBJECT, _ARRAY, _BOOLEAN = (bytes([rank]) for rank in range(1, 7))
_SIGN = 1 << 63


def key(text: str) -> bytes:
    """The key of a JSON text."""
    return _key(json_values.load(text))


def _key(document: Any) -> bytes:
    if document is None:
        return _NULL
    if isinstance(document, bool):
        return _BOOLEAN + bytes([document])
    if isinstance(document, str):
        return _STRING + _ended(document.encode("utf-8", "surrogatepass"))
    if isinstance(document, dict):
        size = len(document).to_bytes(4, "big")
        parts = [_ended(name.encode()) + _key(value) for name, value in sorted(document.items())]
        return _OBJECT + size + b"".join(parts)
    if isinstance(document, list):
        return _ARRAY + b"".join(b"\x01" + _key(value) for value in document) + b"\x00"
    return _NUMBER + _number(document)


def _ended(data: bytes) -> bytes:
    return data.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _number(value: Any) -> bytes:
    """The nearest double, then what an integer has beyond it."""
    double = float(value) + 0.0
    bits = struct.unpack(">Q", struct.pack(">d", double))[0]
    bits = ~bits & ((1 << 64) - 1) if bits & _SIGN else bits | _SIGN
    rest = value - int(double) if isinstance(value, int) else 0
    return struct.pack(">QQ", bits, rest + _SIGN)
