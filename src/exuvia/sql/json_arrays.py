"""CAST(document AS type ARRAY): the array that the entries of a multi-valued index follow from.

    document            of UNSIGNED      of CHAR(3)
    [3, 1, 3]           [3, 1]           3903
    7                   [7]              3903
    "a"                 3903             ["a"]
    ["abcd"]            3903             3907
    []                  []               []
    NULL                NULL             NULL
    {}                  1235             1235

An element must be of the type: numbers are not read from strings, nor the other way round. JSON has
no dates here; a string that is exactly what CAST(date AS JSON) gives is one. An integer beyond its
type is 3752, more than MOST_ELEMENTS of them 3905. Each element is there once.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import UNSET, DecodeError, Meta, UnsetType, defstruct, json

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrExceededMVKeysNum,
    ErrFunctionalIndexDataIsTooLong,
    ErrInvalidJSONValueForFuncIndex,
    ErrNotSupportedYet,
    ErrWarnDataOutOfRangeFunctionalIndex,
)
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog import jsontext
from exuvia.catalog.convert.values import from_text, to_text
from exuvia.catalog.jsontext import Document
from exuvia.catalog.table import Many
from exuvia.sql.env import Env
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.expr import Call, Column, Constant, Expr
from exuvia.sql.functions.json_functions import MISSING, Step, find, is_many, legs, load

Compiled = Callable[[Sequence[Value], Env], Value]
Documents = Callable[[Sequence[Value], Env], Document]
"""The document of a row, or MISSING."""

MOST_ELEMENTS = 1 << 16
"""Of one row: all its entries are written by one transaction. TiDB has no such limit."""
_BOUNDS = {Family.INT: (-(1 << 63), (1 << 63) - 1), Family.UINT: (0, (1 << 64) - 1)}
_TYPES: dict[Family, frozenset[type]] = {
    Family.INT: frozenset({int}),
    Family.UINT: frozenset({int}),
    Family.FLOAT: frozenset({int, float}),
}
_STRING: frozenset[type] = frozenset({str})


def is_element(part: Document, kind: FieldType) -> bool:
    """Whether a part of a document can be an element of an array of that type."""
    if type(part) not in _TYPES.get(kind.family, _STRING):
        return False
    if kind.family in _BOUNDS:
        least, most = _BOUNDS[kind.family]
        return bool(least <= part <= most)
    if kind.family == Family.FLOAT:
        return True
    if kind.family == Family.STRING:
        return bool(len(part) <= kind.Flen)
    if kind.family == Family.BYTES:
        return len(part.encode("utf-8", "surrogatepass")) <= kind.Flen
    return _is_moment(part, kind)


def _is_moment(text: str, kind: FieldType) -> bool:
    try:
        return to_text(from_text(text, kind), kind) == text
    except Refused:
        return False


def documents_of(expr: Expr) -> Documents:
    """What computes the document of that expression. Of a place in a column's it is that place: no
    text is made of it to be read again."""
    place = _one_place(expr)
    if place is not None:
        return _place_of(*place)
    compiled = compile_expression(expr)

    def document(row: Sequence[Value], env: Env) -> Document:
        text = compiled(row, env)
        return MISSING if text is None else _read(text)

    return document


def _one_place(expr: Expr) -> tuple[int, list[Step]] | None:
    """The position of a column and the legs to one place in its documents, if that is all."""
    match expr:
        case Column() as column:
            return column.position, []
        case Call(
            function="json_extract", arguments=(Column() as column, Constant(value=str(path)))
        ):
            steps = legs(path)
            return None if is_many(steps) else (column.position, steps)
    return None


def _place_of(position: int, steps: list[Step]) -> Documents:
    names = [name for kind, name in steps if kind == "key"]
    is_plain = len(names) == len(steps)

    def document(row: Sequence[Value], env: Env) -> Document:
        text = row[position]
        if text is None:
            return MISSING
        found = _read(text)
        if not is_plain:
            places = find(found, steps)
            return places[0] if places else MISSING
        for name in names:
            if not isinstance(found, dict) or name not in found:
                return MISSING
            found = found[name]
        return found

    return document


def _read(text: str) -> Document:
    """As `load`, of a text that is JSON in MySQL's form. What is long is read piece by piece."""
    return load(text) if len(text) > jsontext.LONG else json.decode(text)


def array_maker(documents: Documents, kind: FieldType, index: str) -> Compiled:
    """What computes the array of a row, as text for catalog/multi_valued.py, from what computes the
    document. Raises 1235, 3752, 3903, 3905, 3907."""
    types = _TYPES.get(kind.family, _STRING)
    is_integer, is_float = kind.family in _BOUNDS, kind.family == Family.FLOAT
    least, most = _BOUNDS.get(kind.family, (0, 0))
    encode = json.Encoder().encode

    def array(row: Sequence[Value], env: Env) -> Value:
        found = documents(row, env)
        if found is MISSING:
            return None
        if isinstance(found, dict):
            raise ErrNotSupportedYet("CAST-ing JSON OBJECT type to array")
        parts = found if isinstance(found, list) else [found]
        if len(parts) > MOST_ELEMENTS:
            raise ErrExceededMVKeysNum(index, len(parts) - MOST_ELEMENTS)
        if not types.issuperset(map(type, parts)):
            raise ErrInvalidJSONValueForFuncIndex(index)
        if is_integer:
            if parts and (min(parts) < least or max(parts) > most):
                raise ErrWarnDataOutOfRangeFunctionalIndex(index, 1)
        elif is_float:
            parts = [float(part) + 0.0 for part in parts]  # -0.0 is 0.0
        elif not all(is_element(part, kind) for part in parts):
            if kind.family in (Family.STRING, Family.BYTES):
                raise ErrFunctionalIndexDataIsTooLong(index)
            raise ErrInvalidJSONValueForFuncIndex(index)
        try:
            return encode(list(dict.fromkeys(parts))).decode()
        except UnicodeEncodeError:  # half of a character
            raise ErrInvalidJSONValueForFuncIndex(index) from None

    return array


# -- many rows at once -----------------------------------------------------------------------------
#
# One call reads the documents of a thousand rows as what they mostly are: arrays, of the type, at
# that place. Where one of them is anything else the rows are looked at one by one, as ever.

_ROWS = 1_000
_ELEMENTS: dict[Family, Any] = {
    Family.INT: Annotated[int, Meta(ge=_BOUNDS[Family.INT][0], le=_BOUNDS[Family.INT][1])],
    Family.UINT: Annotated[int, Meta(ge=0)],
    Family.FLOAT: float,
}


def many_maker(expr: Expr, kind: FieldType) -> Many | None:
    """What computes the arrays of many rows from the one column that the documents are in: the same
    texts as `array_maker`, or None where it cannot tell. None for an expression or a type of which
    it never can."""
    place = _one_place(expr)
    element: Any = _ELEMENTS.get(kind.family)
    if kind.family == Family.STRING:
        element = Annotated[str, Meta(max_length=kind.Flen)]
    if place is None or element is None:
        return None
    names = [str(name) for step, name in place[1] if step == "key"]
    if len(names) < len(place[1]):
        return None
    shape: Any = list[element]
    for name in reversed(names):
        shape = defstruct("Place", [("found", shape | UnsetType, UNSET)], rename={"found": name})
    read, encode = json.Decoder(list[shape]).decode, json.Encoder().encode
    is_integer = kind.family in _BOUNDS

    def once(elements: list[Any]) -> str:
        return encode(list(dict.fromkeys(elements))).decode()

    def piece(texts: list[str]) -> list[Value] | None:
        if max(map(len, texts)) > jsontext.LONG:
            return None
        try:
            found: list[Any] = read(f"[{','.join(texts)}]")
        except DecodeError:
            return None
        for _ in names:
            found = [each if each is UNSET else each.found for each in found]
        lists = [each for each in found if each is not UNSET]
        if not _are_arrays(lists, kind):
            return None
        if is_integer and not names:
            return [
                text.replace(" ", "") if len(set(each)) == len(each) else once(each)
                for text, each in zip(texts, lists, strict=True)
            ]
        made = map(once, lists)
        return [None if each is UNSET else next(made) for each in found]

    def arrays(documents: Sequence[Any]) -> list[Value] | None:
        whole: list[Value] = []
        for at in range(0, len(documents), _ROWS):
            some = documents[at : at + _ROWS]
            texts = [text for text in some if text is not None]
            if texts:
                found = piece(texts)
                if found is None:
                    return None
                made = iter(found)
                whole += [None if text is None else next(made) for text in some]
            else:
                whole += some
        return whole

    return arrays


def _are_arrays(lists: list[list[Any]], kind: FieldType) -> bool:
    """Whether these are arrays as `array_maker` makes them, but for elements that stand twice: what
    the types that they were read by do not say. (An integer of more than 64 bits is a double in a
    document.)"""
    if max(map(len, lists), default=0) > MOST_ELEMENTS:
        return False
    return kind.family != Family.FLOAT or all(map(all, lists))  # 0.0 and -0.0 are one


def element_of(part: Document, kind: FieldType) -> tuple[Value, ...]:
    """The value by which entries with this element stand in the index; none where it can be no
    element, or is a number that only compares like one."""
    if kind.family in _BOUNDS and isinstance(part, float) and part.is_integer():
        part = int(part)
    if not is_element(part, kind):
        return ()
    if kind.family == Family.FLOAT:
        return (float(part),)
    if kind.family in _BOUNDS or kind.family == Family.STRING:
        return (part,)
    return (part.encode() if kind.family == Family.BYTES else from_text(part, kind),)
