"""JSON as MySQL prints and walks it (manual, "The JSON Data Type").

A JSON value is its text: objects with keys ordered by length, then bytes; ", " and ": " between
parts. Numbers with a point or exponent are doubles. Paths: $, .key, ."key", [n], [last], [last-n],
.*, [*], **.

Their order (manual, "Comparison and Ordering of JSON Values").

    NULL < numbers < strings < objects < arrays < booleans

A key is bytes: equal values have equal keys, and the keys' order is the values'.
"""

import json
import re
import struct
from decimal import Decimal
from typing import Any

from msgspec.structs import replace as evolve

from exuvia.base import interruption
from exuvia.base.mysql_errors import (
    ErrInvalidJSONPath,
    ErrInvalidJSONPathMultipleSelection,
    ErrInvalidJSONText,
    ErrJSONDocumentTooDeep,
    ErrTruncatedWrongValue,
)
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog import jsontext
from exuvia.catalog.convert.mode import EMPTY_DOCUMENT, NO_DOCUMENT
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.decimals import whole

Document = Any


class Missing:
    """What a path leads to where nothing is."""


MISSING = Missing()


def load(text: str) -> Document:
    """The document of a JSON text. Raises Refused 3140."""
    try:
        return jsontext.read(text)
    except jsontext.TooDeep:
        raise ErrJSONDocumentTooDeep() from None
    except ValueError as error:
        raise ErrInvalidJSONText(NO_DOCUMENT if text else EMPTY_DOCUMENT) from error


def is_valid(text: str) -> bool:
    """Whether a text is JSON."""
    try:
        jsontext.read(text)
    except ValueError:
        return False
    return True


def _key_order(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data


def dump(document: Document) -> str:
    """MySQL's text of a document; decimals, which only SQL values bring in, keep their digits."""
    interruption.check()
    if isinstance(document, dict):
        keys = sorted(document, key=_key_order)
        return "{" + ", ".join(f"{quote(key)}: {dump(document[key])}" for key in keys) + "}"
    if isinstance(document, list):
        return "[" + ", ".join(map(dump, document)) + "]"
    return format(document, "f") if isinstance(document, Decimal) else jsontext.write(document)


def quote(text: str) -> str:
    """A JSON string."""
    return jsontext.write(text)


def normalised(text: str) -> str:
    """A JSON text in MySQL's form."""
    return dump(load(text))


def from_value(value: Any, source: FieldType) -> str:
    """The JSON of an SQL value: numbers stay numbers, strings are read as JSON."""
    if source.family is Family.STRING:
        return normalised(value)
    return dump(scalar(value, source))


def scalar(value: Any, source: FieldType) -> Document:
    """An SQL value as a part of a document; text becomes a JSON string, JSON stays a document."""
    if value is None or source.Tp == TypeCode.NULL:
        return None
    family = source.family
    if family is Family.JSON:
        return load(value)
    if family in (Family.INT, Family.UINT) and source.Tp not in (TypeCode.ENUM, TypeCode.SET):
        return bool(value) if source.Flen == 1 and source.Tp == TypeCode.LONGLONG else value
    if family in (Family.FLOAT, Family.DECIMAL):
        return float(value)
    if family in (Family.DATETIME, Family.TIME):
        source = evolve(source, Decimal=6)
    return value if isinstance(value, str) else to_text(value, source)


def number(text: str, env: Any) -> float:
    """A JSON value as a number."""
    document = load(text)
    if isinstance(document, bool | int | float):
        return float(document)
    if isinstance(document, str):
        found = re.match(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", document)
        return float(found.group()) if found else 0.0
    env.warn(ErrTruncatedWrongValue, "DOUBLE", text)
    return 0.0


# -- paths -----------------------------------------------------------------------------------------

_LEG = re.compile(
    r"\s*(?:\.\s*(?:(\*)|\"((?:[^\"\\]|\\.)*)\"|([^\W\d][\w$]*|\d\w*))"
    r"|\[\s*(?:(\*)|(\d+)|last(?:\s*-\s*(\d+))?)\s*\]|(\*\*))"
)


def legs(path: str) -> list[tuple[str, Any]]:
    """The legs of a path:

    ('key', name), ('index', n), ('last', n), ('keys', 0), ('items', 0), ('deep', 0)."""
    text = path.strip()
    if not text.startswith("$"):
        raise ErrInvalidJSONPath(1)
    found, at = [], 1
    while at < len(text):
        leg = _LEG.match(text, at)
        if leg is None:
            raise ErrInvalidJSONPath(at)
        found.append(_leg(leg))
        at = leg.end()
    return found


def _leg(leg: "re.Match[str]") -> tuple[str, Any]:
    every, quoted, plain, items, index, back, deep = leg.groups()
    if every:
        return "keys", 0
    if quoted is not None:
        return "key", json.loads(f'"{quoted}"')
    if plain is not None:
        return "key", plain
    if items:
        return "items", 0
    if index is not None:
        return "index", whole(index)
    if deep:
        return "deep", 0
    return "last", whole(back or "0")


def is_many(steps: list[tuple[str, Any]]) -> bool:
    """Whether a path can lead to several values."""
    return any(kind in ("keys", "items", "deep") for kind, _ in steps)


def one_leg(path: str) -> list[tuple[str, Any]]:
    """The legs of a path to one place. Raises 3149 for one to many."""
    steps = legs(path)
    if is_many(steps):
        raise ErrInvalidJSONPathMultipleSelection()
    return steps


def find(document: Document, steps: list[tuple[str, Any]]) -> list[Document]:
    """All that a path leads to."""
    places = [document]
    for kind, detail in steps:
        if kind == "deep":
            places = _deep(places)
            continue
        before = interruption.checked(places)
        places = [found for place in before for found in _step(place, kind, detail)]
    return places


def _deep(places: list[Document]) -> list[Document]:
    """The places and all inside them, every container once: `**` behind `**` finds nothing new."""
    found: list[Document] = []
    seen: set[int] = set()
    waiting = places[::-1]
    while waiting:
        interruption.check()
        place = waiting.pop()
        if isinstance(place, dict | list):
            if id(place) in seen:
                continue
            seen.add(id(place))
            inside = list(place.values()) if isinstance(place, dict) else place
            waiting += inside[::-1]
        found.append(place)
    return found


def _step(place: Document, kind: str, detail: Any) -> list[Document]:
    if kind == "key":
        return [place[detail]] if isinstance(place, dict) and detail in place else []
    if kind == "keys":
        keys = sorted(place, key=_key_order) if isinstance(place, dict) else []
        return [place[key] for key in keys]
    if kind == "items":
        return list(place) if isinstance(place, list) else []
    items = place if isinstance(place, list) else [place]
    index = detail if kind == "index" else len(items) - 1 - detail
    return [items[index]] if 0 <= index < len(items) else []


def contains(target: Document, candidate: Document) -> bool:
    """JSON_CONTAINS."""
    if isinstance(target, list):
        if isinstance(candidate, list):
            return all(contains(target, item) for item in candidate)
        return any(contains(item, candidate) for item in target)
    if isinstance(target, dict):
        return isinstance(candidate, dict) and all(
            key in target and contains(target[key], value) for key, value in candidate.items()
        )
    same_kind = isinstance(target, bool) == isinstance(candidate, bool)
    return (
        same_kind and type(target) in _COMPARABLE.get(type(candidate), ()) and target == candidate
    )


_COMPARABLE: dict[type, tuple[type, ...]] = {
    int: (int, float),
    float: (int, float),
    str: (str,),
    bool: (bool,),
    type(None): (type(None),),
}


def type_name(document: Document) -> str:
    """JSON_TYPE."""
    for kind, name in (
        (bool, "BOOLEAN"),
        (dict, "OBJECT"),
        (list, "ARRAY"),
        (str, "STRING"),
        (int, "INTEGER"),
        (float, "DOUBLE"),
        (Decimal, "DECIMAL"),
    ):
        if isinstance(document, kind):
            return name
    return "NULL"


# -- json order ------------------------------------------------------------------------------------

_NULL, _NUMBER, _STRING, _OBJECT, _ARRAY, _BOOLEAN = (bytes([rank]) for rank in range(1, 7))
_SIGN = 1 << 63


def key(text: str) -> bytes:
    """The key of a JSON text."""
    return _key(load(text))


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
