"""JSON functions (manual, "JSON Functions", "The JSON Data Type").

A JSON value is stored as text: objects with keys ordered by length, then bytes; ", " and ": "
between parts. Numbers with a point or exponent are doubles. Paths: $, .key, ."key", [n], [last],
[last-n], .*, [*], **.

The order of JSON values (manual, "Comparison and Ordering of JSON Values"):

    NULL < numbers < strings < objects < arrays < booleans

The key of a value is bytes: equal values have equal keys, and keys are ordered like values.
"""

import json
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace as evolve

from exuvia.base import interruption
from exuvia.base.mysql_errors import (
    ErrInvalidJSONPath,
    ErrInvalidJSONPathArrayCell,
    ErrInvalidJSONPathMultipleSelection,
    ErrInvalidJSONText,
    ErrJSONBadOneOrAllArg,
    ErrJSONDocumentNULLKey,
    ErrJSONDocumentTooDeep,
    ErrJSONVacuousPath,
    ErrTruncatedWrongValue,
)
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog import jsontext
from exuvia.catalog.convert.values import EMPTY_DOCUMENT, NO_DOCUMENT, to_text
from exuvia.catalog.decimals import whole
from exuvia.catalog.jsontext import Document
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.expr import Expr
from exuvia.sql.functions.table import Function, always
from exuvia.sql.matching import Matcher, like_matcher

Step = tuple[str, Any]
"""A leg of a path: its kind, and the key, the index, or None."""


class Missing:
    """The value at a path that does not exist."""


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
    """MySQL's text of a document. Decimals, which come only from SQL values, keep their digits."""
    interruption.check()
    if isinstance(document, dict):
        keys = sorted(document, key=_key_order)
        return "{" + ", ".join(f"{quote(key)}: {dump(document[key])}" for key in keys) + "}"
    if isinstance(document, list):
        return "[" + ", ".join(interruption.in_pieces(document, _dump_items, _ITEMS)) + "]"
    return format(document, "f") if isinstance(document, Decimal) else jsontext.write(document)


def _dump_items(items: list[Document]) -> str:
    if all(item.__class__ is int and -_BEYOND_INT <= item < _BEYOND_INT for item in items):
        return ", ".join(map(str, items))
    return ", ".join(map(dump, items))


_ITEMS, _BEYOND_INT = 1024, 1 << 63


def quote(text: str) -> str:
    """A JSON string."""
    return jsontext.write(text)


def normalised(text: str) -> str:
    """A JSON text in MySQL's form."""
    return dump(load(text))


def from_value(value: Value, source: FieldType) -> str:
    """The JSON text of an SQL value: numbers stay numbers, strings are parsed as JSON."""
    if source.family is Family.STRING:
        return normalised(value)
    return dump(scalar(value, source))


def scalar(value: Value, source: FieldType) -> Document:
    """An SQL value as part of a document: text becomes a JSON string, JSON is parsed."""
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


def number(text: str, env: Env) -> float:
    """The value of a JSON text as a number."""
    document = load(text)
    if isinstance(document, bool | int | float):
        return float(document)
    if isinstance(document, str):
        number_match = re.match(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", document)
        return float(number_match.group()) if number_match else 0.0
    env.warn(ErrTruncatedWrongValue, "DOUBLE", text)
    return 0.0


# -- paths -----------------------------------------------------------------------------------------

_LEG = re.compile(
    r"\s*(?:\.\s*(?:(\*)|\"((?:[^\"\\]|\\.)*)\"|([^\W\d][\w$]*|\d\w*))"
    r"|\[\s*(?:(\*)|(\d+)|last(?:\s*-\s*(\d+))?)\s*\]|(\*\*))"
)


def legs(path: str) -> list[Step]:
    """The steps of a path.

    ('key', name), ('index', n), ('last', n), ('keys', 0), ('items', 0), ('deep', 0)."""
    text = path.strip()
    if not text.startswith("$"):
        raise ErrInvalidJSONPath(1)
    steps, at = [], 1
    while at < len(text):
        leg = _LEG.match(text, at)
        if leg is None:
            raise ErrInvalidJSONPath(at)
        steps.append(_leg(leg))
        at = leg.end()
    return steps


def _leg(leg: "re.Match[str]") -> Step:
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


def is_many(steps: list[Step]) -> bool:
    """Whether a path can lead to several values."""
    return any(kind in ("keys", "items", "deep") for kind, _ in steps)


def one_leg(path: str) -> list[Step]:
    """The steps of a path to a single place. Raises 3149 for other paths."""
    steps = legs(path)
    if is_many(steps):
        raise ErrInvalidJSONPathMultipleSelection()
    return steps


def find(document: Document, steps: list[Step]) -> list[Document]:
    """All parts of a document at a path."""
    places = [document]
    for kind, detail in steps:
        if kind == "deep":
            places = _deep(places)
            continue
        before = interruption.checked(places)
        places = [child for place in before for child in _step(place, kind, detail)]
    return places


def _deep(places: list[Document]) -> list[Document]:
    """The places and all parts inside them, without repeated containers, as for `**` after `**`."""
    inside_places: list[Document] = []
    visited: set[int] = set()
    waiting = places[::-1]
    while waiting:
        interruption.check()
        place = waiting.pop()
        if isinstance(place, dict | list):
            if id(place) in visited:
                continue
            visited.add(id(place))
            inside = list(place.values()) if isinstance(place, dict) else place
            waiting += inside[::-1]
        inside_places.append(place)
    return inside_places


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
    """The key of a JSON text, by which values are compared."""
    return _member_key(load(text))


def _member_key(document: Document) -> bytes:
    if document is None:
        return _NULL
    if isinstance(document, bool):
        return _BOOLEAN + bytes([document])
    if isinstance(document, str):
        return _STRING + _ended(document.encode("utf-8", "surrogatepass"))
    if isinstance(document, dict):
        size = len(document).to_bytes(4, "big")
        parts = [
            _ended(name.encode()) + _member_key(value) for name, value in sorted(document.items())
        ]
        return _OBJECT + size + b"".join(parts)
    if isinstance(document, list):
        return _ARRAY + b"".join(b"\x01" + _member_key(value) for value in document) + b"\x00"
    return _NUMBER + _number(document)


def _ended(data: bytes) -> bytes:
    return data.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _number(value: Value) -> bytes:
    """The nearest double, then the rest of an integer."""
    double = float(value) + 0.0
    bits = struct.unpack(">Q", struct.pack(">d", double))[0]
    bits = ~bits & ((1 << 64) - 1) if bits & _SIGN else bits | _SIGN
    rest = value - int(double) if isinstance(value, int) else 0
    return struct.pack(">QQ", bits, rest + _SIGN)


# -- json functions --------------------------------------------------------------------------------

_JSON = always(types.JSON)
_FLAG = always(types.BOOLEAN)


def _listed(document: Document) -> list[Document]:
    return document if isinstance(document, list) else [document]


def _joined(left: Document, right: Document) -> Document:
    if isinstance(left, dict) and isinstance(right, dict):
        both = {key: _joined(left[key], right[key]) for key in left if key in right}
        return {**left, **right, **both}
    return [*_listed(left), *_listed(right)]


def _merge(*documents: str) -> str:
    """JSON_MERGE_PRESERVE."""
    merged = load(documents[0])
    for text in documents[1:]:
        merged = _joined(merged, load(text))
    return dump(merged)


def _overlaps(left: str, right: str) -> int:
    one, other = load(left), load(right)
    if isinstance(one, dict) and isinstance(other, dict):
        return int(any(key in other and other[key] == one[key] for key in one))
    if isinstance(one, list) or isinstance(other, list):
        return int(any(a == b for a in _listed(one) for b in _listed(other)))
    return int(one == other)


def _pretty(document: str) -> str:
    ordered = load(dump(load(document)))
    return json.dumps(ordered, indent=2, ensure_ascii=False)


def _search(document: str, how: str, searched: str, escape: str = "\\", *paths: str) -> str | None:
    """JSON_SEARCH: paths of the strings that are LIKE the text."""
    if how.lower() not in ("one", "all"):
        raise ErrJSONBadOneOrAllArg()
    pattern = like_matcher(searched, escape or "\\")
    place = load(document)
    roots = [(path, part) for path in paths or ("$",) for part in find(place, legs(path))]
    paths_found = list(
        dict.fromkeys(hit for path, part in roots for hit in _hits(part, path, pattern))
    )
    if not paths_found:
        return None
    return dump(paths_found[0] if how.lower() == "one" or len(paths_found) == 1 else paths_found)


def _hits(place: Document, path: str, pattern: Matcher) -> list[str]:
    if isinstance(place, str):
        return [path] if pattern(place) else []
    if isinstance(place, list):
        inside = [(f"{path}[{n}]", part) for n, part in enumerate(place)]
    elif isinstance(place, dict):
        inside = [(f"{path}.{_key(key)}", part) for key, part in place.items()]
    else:
        inside = []
    return [hit for inner, part in inside for hit in _hits(part, inner, pattern)]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[^\W\d][\w$]*", key) else json.dumps(key, ensure_ascii=False)


def append(document: str, *pairs: Value) -> str:
    """JSON_ARRAY_APPEND(document, path, value, ...); values are parsed documents."""
    place = load(document)
    for path, value in zip(pairs[::2], pairs[1::2], strict=True):
        steps = legs(path)
        if not steps:
            place = [*_listed(place), value]
            continue
        for holder in find(place, steps[:-1]):
            kind, detail = steps[-1]
            if kind == "key" and isinstance(holder, dict) and detail in holder:
                holder[detail] = [*_listed(holder[detail]), value]
            elif kind in ("index", "last") and isinstance(holder, list):
                index = detail if kind == "index" else len(holder) - 1 - detail
                if 0 <= index < len(holder):
                    holder[index] = [*_listed(holder[index]), value]
    return dump(place)


def insert(document: str, *pairs: Value) -> str:
    """JSON_ARRAY_INSERT(document, path, value, ...)."""
    place = load(document)
    for path, value in zip(pairs[::2], pairs[1::2], strict=True):
        steps = legs(path)
        if not steps or steps[-1][0] not in ("index", "last"):
            raise ErrInvalidJSONPathArrayCell()
        for holder in find(place, steps[:-1]):
            if isinstance(holder, list):
                kind, detail = steps[-1]
                index = detail if kind == "index" else max(0, len(holder) - 1 - detail)
                holder.insert(min(index, len(holder)), value)
    return dump(place)


CHANGES = {
    "json_merge": Function(2, -1, "j", _JSON, _merge),
    "json_merge_preserve": Function(2, -1, "j", _JSON, _merge),
    "json_overlaps": Function(2, 2, "j", _FLAG, _overlaps),
    "json_pretty": Function(1, 1, "j", always(types.text(65535)), _pretty),
    "json_search": Function(3, -1, "js", _JSON, _search),
    "json_storage_free": Function(1, 1, "j", always(types.BIGINT), lambda document: 0),
    "json_storage_size": Function(1, 1, "j", always(types.BIGINT), lambda document: len(document)),
}


# -- json functions --------------------------------------------------------------------------------


def extract(document: str, *paths: str) -> str | None:
    """JSON_EXTRACT."""
    steps = [legs(path) for path in paths]
    place = load(document)
    matches = [part for one in steps for part in find(place, one)]
    if len(steps) == 1 and not is_many(steps[0]):
        return dump(matches[0]) if matches else None
    return dump(matches) if matches else None


def unquote(text: str) -> str:
    """JSON_UNQUOTE: the text of a JSON string; other values unchanged."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    document = load(text)
    return document if isinstance(document, str) else text


def _unquoted_extract(document: str, path: str) -> str | None:
    part = extract(document, path)
    return None if part is None else unquote(part)


def _length(document: str, path: str = "$") -> int | None:
    matches = find(load(document), one_leg(path))
    if not matches:
        return None
    return len(matches[0]) if isinstance(matches[0], dict | list) else 1


def _depth(document: Document) -> int:
    if isinstance(document, dict):
        return 1 + max(map(_depth, document.values()), default=0)
    if isinstance(document, list):
        return 1 + max(map(_depth, document), default=0)
    return 1


def _keys(document: str, path: str = "$") -> str | None:
    matches = find(load(document), one_leg(path))
    if not matches or not isinstance(matches[0], dict):
        return None
    ordered = load(dump(matches[0]))
    return dump(list(ordered))


def _contains(document: str, candidate: str, path: str = "$") -> int | None:
    matches = find(load(document), one_leg(path))
    return int(contains(matches[0], load(candidate))) if matches else None


def _member_of(value: str, document: str) -> int:
    """Whether an array has an element equal to the value.

    A document that is not an array counts as its only element."""
    parsed, value_key = load(document), key(value)
    elements = parsed if isinstance(parsed, list) else [parsed]
    return int(any(key(dump(element)) == value_key for element in elements))


def _contains_path(document: str, how: str, *paths: str) -> int:
    place = load(document)
    hits = [bool(find(place, legs(path))) for path in paths]
    return int(all(hits) if how.lower() == "all" else any(hits))


def build_object(pairs: Sequence[Value], kinds: Sequence[FieldType]) -> str:
    """JSON_OBJECT of (key, value, key, value ...), with all their types."""
    built = {}
    for n in range(0, len(pairs), 2):
        if pairs[n] is None:
            raise ErrJSONDocumentNULLKey()
        key = scalar(pairs[n], kinds[n])
        built[key if isinstance(key, str) else dump(key)] = scalar(pairs[n + 1], kinds[n + 1])
    return dump(built)


def build_array(parts: Sequence[Value], kinds: Sequence[FieldType]) -> str:
    """JSON_ARRAY."""
    return dump([scalar(v, k) for v, k in zip(parts, kinds, strict=True)])


def _put(holder: Document, step: Step, value: Value, creates: bool, replaces: bool) -> None:
    kind, detail = step
    if kind == "key" and isinstance(holder, dict):
        if replaces if detail in holder else creates:
            holder[detail] = value
    elif kind in ("index", "last") and isinstance(holder, list):
        index = detail if kind == "index" else len(holder) - 1 - detail
        if 0 <= index < len(holder):
            if replaces:
                holder[index] = value
        elif creates:
            holder.append(value)


def changed(name: str, document: str, pairs: Sequence[Value], kinds: Sequence[FieldType]) -> str:
    """JSON_SET, JSON_INSERT, JSON_REPLACE, JSON_ARRAY_APPEND, JSON_ARRAY_INSERT."""
    ready = [
        value if n % 2 == 0 else scalar(value, kind)
        for n, (value, kind) in enumerate(zip(pairs, kinds, strict=True))
    ]
    if name in _LISTS:
        return _LISTS[name](document, *ready)
    creates = name != "json_replace"
    replaces = name != "json_insert"
    place = load(document)
    for n in range(0, len(ready), 2):
        steps = one_leg(ready[n])
        if not steps:
            place = ready[n + 1] if replaces else place
            continue
        for holder in find(place, steps[:-1]):
            _put(holder, steps[-1], ready[n + 1], creates, replaces)
    return dump(place)


_LISTS = {"json_array_append": append, "json_array_insert": insert}


def _remove(document: str, *paths: str) -> str:
    place = load(document)
    for path in paths:
        steps = one_leg(path)
        if not steps:
            raise ErrJSONVacuousPath()
        for holder in find(place, steps[:-1]):
            kind, detail = steps[-1]
            if kind == "key" and isinstance(holder, dict):
                holder.pop(detail, None)
            elif kind in ("index", "last") and isinstance(holder, list) and detail < len(holder):
                del holder[detail if kind == "index" else len(holder) - 1 - detail]
    return dump(place)


def _merge_patch(*documents: str) -> str:
    merged = load(documents[0])
    for text in documents[1:]:
        merged = _patched(merged, load(text))
    return dump(merged)


def _patched(target: Document, patch: Document) -> Document:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _patched(merged.get(key), value)
    return merged


def _value_type(arguments: Sequence[Expr]) -> FieldType:
    return types.text(types.width_of(arguments[0].type))


def is_json(argument: Expr) -> bool:
    """Whether an argument has the type JSON."""
    return types.family_of(argument.type) is Family.JSON


FUNCTIONS = {
    "json_contains": Function(2, 3, "jjs", _FLAG, _contains),
    "json_contains_path": Function(3, -1, "js", _FLAG, _contains_path),
    "json_depth": Function(1, 1, "j", _FLAG, lambda d: _depth(load(d))),
    "json_extract": Function(2, -1, "js", _JSON, extract),
    "json_memberof": Function(2, 2, "j", _FLAG, _member_of),
    "json_keys": Function(1, 2, "js", _JSON, _keys),
    "json_length": Function(1, 2, "js", always(types.integer(10)), _length),
    "json_merge_patch": Function(2, -1, "j", _JSON, _merge_patch),
    "json_quote": Function(1, 1, "s", _value_type, quote),
    "json_remove": Function(2, -1, "js", _JSON, _remove),
    "json_type": Function(1, 1, "j", always(types.text(51)), lambda d: type_name(load(d))),
    "json_unquote": Function(1, 1, "s", _value_type, unquote),
    "json_unquoted_extract": Function(2, 2, "js", _value_type, _unquoted_extract),
    "json_valid": Function(1, 1, "s", _FLAG, lambda text: int(is_valid(text))),
}
