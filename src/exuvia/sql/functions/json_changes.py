"""JSON functions that join, search and print documents (manual, "JSON Functions")."""

import json
import re
from typing import Any

from exuvia.base.mysql_errors import ErrInvalidJSONPathArrayCell, ErrJSONBadOneOrAllArg
from exuvia.sql import types
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


FUNCTIONS = {
    "json_merge": Function(2, -1, "j", _JSON, _merge),
    "json_merge_preserve": Function(2, -1, "j", _JSON, _merge),
    "json_overlaps": Function(2, 2, "j", _FLAG, _overlaps),
    "json_pretty": Function(1, 1, "j", always(types.text(65535)), _pretty),
    "json_search": Function(3, -1, "js", _JSON, _search),
    "json_storage_free": Function(1, 1, "j", always(types.BIGINT), lambda document: 0),
    "json_storage_size": Function(1, 1, "j", always(types.BIGINT), lambda document: len(document)),
}
