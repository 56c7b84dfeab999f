"""JSON functions (manual, "JSON Functions"); documents are texts, see json_values.py."""

import json
import re
from collections.abc import Sequence
from typing import Any

from exuvia.base.mysql_errors import (
    ErrInvalidJSONPathArrayCell,
    ErrJSONBadOneOrAllArg,
    ErrJSONDocumentNULLKey,
    ErrJSONVacuousPath,
)
from exuvia.base.types import Family, FieldType
from exuvia.sql import types
from exuvia.sql.expr import Expr
from exuvia.sql.functions import json_values as values
from exuvia.sql.functions.table import Function, always
from exuvia.sql.matching import Matcher, like_matcher

_JSON = always(types.JSON)
_FLAG = always(types.BOOLEAN)


def _listed(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


def _joined(left: Any, right: Any) -> Any:
    if isinstance(left, dict) and isinstance(right, dict):
        both = {key: _joined(left[key], right[key]) for key in left if key in right}
        return {**left, **right, **both}
    return [*_listed(left), *_listed(right)]


def _merge(*documents: str) -> str:
    """JSON_MERGE_PRESERVE."""
    found = values.load(documents[0])
    for each in documents[1:]:
        found = _joined(found, values.load(each))
    return values.dump(found)


def _overlaps(left: str, right: str) -> int:
    one, other = values.load(left), values.load(right)
    if isinstance(one, dict) and isinstance(other, dict):
        return int(any(key in other and other[key] == one[key] for key in one))
    if isinstance(one, list) or isinstance(other, list):
        return int(any(a == b for a in _listed(one) for b in _listed(other)))
    return int(one == other)


def _pretty(document: str) -> str:
    ordered = values.load(values.dump(values.load(document)))
    return json.dumps(ordered, indent=2, ensure_ascii=False)


def _search(document: str, how: str, wanted: str, escape: str = "\\", *paths: str) -> str | None:
    """JSON_SEARCH: paths of the strings that are LIKE the text."""
    if how.lower() not in ("one", "all"):
        raise ErrJSONBadOneOrAllArg()
    pattern = like_matcher(wanted, escape or "\\")
    place = values.load(document)
    roots = [
        (path, part) for path in paths or ("$",) for part in values.find(place, values.legs(path))
    ]
    found = list(dict.fromkeys(hit for path, part in roots for hit in _hits(part, path, pattern)))
    if not found:
        return None
    return values.dump(found[0] if how.lower() == "one" or len(found) == 1 else found)


def _hits(place: Any, path: str, pattern: Matcher) -> list[str]:
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


def append(document: str, *pairs: Any) -> str:
    """JSON_ARRAY_APPEND(document, path, value, ...); values are documents already loaded."""
    place = values.load(document)
    for path, value in zip(pairs[::2], pairs[1::2], strict=True):
        steps = values.legs(path)
        if not steps:
            place = [*_listed(place), value]
            continue
        for holder in values.find(place, steps[:-1]):
            _append_in(holder, steps[-1], value)
    return values.dump(place)


def _append_in(holder: Any, step: tuple[str, Any], value: Any) -> None:
    kind, detail = step
    if kind == "key" and isinstance(holder, dict) and detail in holder:
        holder[detail] = [*_listed(holder[detail]), value]
    elif kind in ("index", "last") and isinstance(holder, list):
        index = detail if kind == "index" else len(holder) - 1 - detail
        if 0 <= index < len(holder):
            holder[index] = [*_listed(holder[index]), value]


def insert(document: str, *pairs: Any) -> str:
    """JSON_ARRAY_INSERT(document, path, value, ...)."""
    place = values.load(document)
    for path, value in zip(pairs[::2], pairs[1::2], strict=True):
        steps = values.legs(path)
        if not steps or steps[-1][0] not in ("index", "last"):
            raise ErrInvalidJSONPathArrayCell()
        for holder in values.find(place, steps[:-1]):
            if isinstance(holder, list):
                kind, detail = steps[-1]
                index = detail if kind == "index" else max(0, len(holder) - 1 - detail)
                holder.insert(min(index, len(holder)), value)
    return values.dump(place)


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
    steps = [values.legs(path) for path in paths]
    place = values.load(document)
    found = [part for one in steps for part in values.find(place, one)]
    if len(steps) == 1 and not values.is_many(steps[0]):
        return values.dump(found[0]) if found else None
    return values.dump(found) if found else None


def unquote(text: str) -> str:
    """JSON_UNQUOTE: the text of a JSON string; everything else as it is."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    found = values.load(text)
    return found if isinstance(found, str) else text


def _unquoted_extract(document: str, path: str) -> str | None:
    found = extract(document, path)
    return None if found is None else unquote(found)


def _length(document: str, path: str = "$") -> int | None:
    found = values.find(values.load(document), values.one_leg(path))
    if not found:
        return None
    return len(found[0]) if isinstance(found[0], dict | list) else 1


def _depth(document: Any) -> int:
    if isinstance(document, dict):
        return 1 + max(map(_depth, document.values()), default=0)
    if isinstance(document, list):
        return 1 + max(map(_depth, document), default=0)
    return 1


def _keys(document: str, path: str = "$") -> str | None:
    found = values.find(values.load(document), values.one_leg(path))
    if not found or not isinstance(found[0], dict):
        return None
    ordered = values.load(values.dump(found[0]))
    return values.dump(list(ordered))


def _contains(document: str, candidate: str, path: str = "$") -> int | None:
    found = values.find(values.load(document), values.one_leg(path))
    return int(values.contains(found[0], values.load(candidate))) if found else None


def _contains_path(document: str, how: str, *paths: str) -> int:
    place = values.load(document)
    hits = [bool(values.find(place, values.legs(path))) for path in paths]
    return int(all(hits) if how.lower() == "all" else any(hits))


def build_object(pairs: Sequence[Any], kinds: Sequence[FieldType]) -> str:
    """JSON_OBJECT of (key, value, key, value ...) with the types of all."""
    built = {}
    for n in range(0, len(pairs), 2):
        if pairs[n] is None:
            raise ErrJSONDocumentNULLKey()
        key = values.scalar(pairs[n], kinds[n])
        built[key if isinstance(key, str) else values.dump(key)] = values.scalar(
            pairs[n + 1], kinds[n + 1]
        )
    return values.dump(built)


def build_array(parts: Sequence[Any], kinds: Sequence[FieldType]) -> str:
    """JSON_ARRAY."""
    return values.dump([values.scalar(v, k) for v, k in zip(parts, kinds, strict=True)])


def _change(document: str, pairs: Sequence[Any], creates: bool, replaces: bool) -> str:
    place = values.load(document)
    for n in range(0, len(pairs), 2):
        steps = values.one_leg(pairs[n])
        if not steps:
            place = pairs[n + 1] if replaces else place
            continue
        for holder in values.find(place, steps[:-1]):
            _put(holder, steps[-1], pairs[n + 1], creates, replaces)
    return values.dump(place)


def _put(holder: Any, step: tuple[str, Any], value: Any, creates: bool, replaces: bool) -> None:
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


def changed(name: str, document: str, pairs: Sequence[Any], kinds: Sequence[FieldType]) -> str:
    """JSON_SET, JSON_INSERT, JSON_REPLACE, JSON_ARRAY_APPEND, JSON_ARRAY_INSERT."""
    ready = [
        value if n % 2 == 0 else values.scalar(value, kind)
        for n, (value, kind) in enumerate(zip(pairs, kinds, strict=True))
    ]
    if name in _LISTS:
        return _LISTS[name](document, *ready)
    return _change(document, ready, name != "json_replace", name != "json_insert")


_LISTS = {"json_array_append": append, "json_array_insert": insert}


def _remove(document: str, *paths: str) -> str:
    place = values.load(document)
    for path in paths:
        steps = values.one_leg(path)
        if not steps:
            raise ErrJSONVacuousPath()
        for holder in values.find(place, steps[:-1]):
            kind, detail = steps[-1]
            if kind == "key" and isinstance(holder, dict):
                holder.pop(detail, None)
            elif kind in ("index", "last") and isinstance(holder, list) and detail < len(holder):
                del holder[detail if kind == "index" else len(holder) - 1 - detail]
    return values.dump(place)


def _merge_patch(*documents: str) -> str:
    merged = values.load(documents[0])
    for text in documents[1:]:
        merged = _patched(merged, values.load(text))
    return values.dump(merged)


def _patched(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _patched(found.get(key), value)
    return found


def _value_type(arguments: Sequence[Expr]) -> FieldType:
    return types.text(types.width_of(arguments[0].type))


def is_json(argument: Expr) -> bool:
    """Whether an argument is a document already."""
    return types.family_of(argument.type) is Family.JSON


FUNCTIONS = {
    "json_contains": Function(2, 3, "jjs", _FLAG, _contains),
    "json_contains_path": Function(3, -1, "js", _FLAG, _contains_path),
    "json_depth": Function(1, 1, "j", _FLAG, lambda d: _depth(values.load(d))),
    "json_extract": Function(2, -1, "js", _JSON, extract),
    "json_keys": Function(1, 2, "js", _JSON, _keys),
    "json_length": Function(1, 2, "js", always(types.integer(10)), _length),
    "json_merge_patch": Function(2, -1, "j", _JSON, _merge_patch),
    "json_quote": Function(1, 1, "s", _value_type, values.quote),
    "json_remove": Function(2, -1, "js", _JSON, _remove),
    "json_type": Function(
        1, 1, "j", always(types.text(51)), lambda d: values.type_name(values.load(d))
    ),
    "json_unquote": Function(1, 1, "s", _value_type, unquote),
    "json_unquoted_extract": Function(2, 2, "js", _value_type, _unquoted_extract),
    "json_valid": Function(1, 1, "s", _FLAG, lambda text: int(values.is_valid(text))),
}
