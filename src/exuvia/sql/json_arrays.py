"""CAST(document AS type ARRAY): the array that the entries of a multi-valued index come from.

    document            of UNSIGNED      of CHAR(3)
    [3, 1, 3]           [3, 1]           3903
    7                   [7]              3903
    "a"                 3903             ["a"]
    ["abcd"]            3903             3907
    []                  []               []
    NULL                NULL             NULL
    {}                  1235             1235

Elements must have the type: strings are not converted to numbers, nor numbers to strings. A date is
a string in exactly the form of CAST(date AS JSON). An integer outside its type is 3752, more than
MOST_ELEMENTS elements are 3905. Duplicates are removed.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import UNSET, DecodeError, Meta, UnsetType, defstruct, json

from exuvia.base.decoding import json_decoder
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
"""The limit for one row: one transaction writes all its entries. TiDB has no such limit."""
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
    """Returns the function that computes the document of the expression.

    For a path into a column it reads that path directly, without making text of it."""
    place = _one_place(expr)
    if place is not None:
        return _place_of(*place)
    compiled = compile_expression(expr)

    def document(row: Sequence[Value], env: Env) -> Document:
        text = compiled(row, env)
        return MISSING if text is None else _read(text)

    return document


def _one_place(expr: Expr) -> tuple[int, list[Step]] | None:
    """(position, path) if the expression is a single path into a column, else None."""
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
        node = _read(text)
        if not is_plain:
            places = find(node, steps)
            return places[0] if places else MISSING
        for name in names:
            if not isinstance(node, dict) or name not in node:
                return MISSING
            node = node[name]
        return node

    return document


def _read(text: str) -> Document:
    """As `load`, for JSON in MySQL's form. Long texts are read incrementally."""
    return load(text) if len(text) > jsontext.LONG else json.decode(text)


def array_maker(documents: Documents, kind: FieldType, index: str) -> Compiled:
    """Returns the function that computes a row's array as text for catalog/multi_valued.py.

    `documents` gives the document. The function raises 1235, 3752, 3903, 3905, 3907."""
    types = _TYPES.get(kind.family, _STRING)
    is_integer, is_float = kind.family in _BOUNDS, kind.family == Family.FLOAT
    least, most = _BOUNDS.get(kind.family, (0, 0))
    encode = json.Encoder().encode

    def array(row: Sequence[Value], env: Env) -> Value:
        document = documents(row, env)
        if document is MISSING:
            return None
        if isinstance(document, dict):
            raise ErrNotSupportedYet("CAST-ing JSON OBJECT type to array")
        parts = document if isinstance(document, list) else [document]
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
# Most documents are arrays of the right type at the path. One call decodes a thousand rows with
# that shape. If any row has another shape, all of them are decoded one by one.

_ROWS = 1_000
_ELEMENTS: dict[Family, Any] = {
    Family.INT: Annotated[int, Meta(ge=_BOUNDS[Family.INT][0], le=_BOUNDS[Family.INT][1])],
    Family.UINT: Annotated[int, Meta(ge=0)],
    Family.FLOAT: float,
}


def many_maker(expr: Expr, kind: FieldType) -> Many | None:
    """Returns the function that computes the arrays of many rows from their documents.

    Its texts are those of `array_maker`. It returns None if the documents have another shape.
    Returns None for expressions and types without such a function."""
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
    read, encode = json_decoder(list[shape]).decode, json.Encoder().encode
    is_integer = kind.family in _BOUNDS

    def once(elements: list[Any]) -> str:
        return encode(list(dict.fromkeys(elements))).decode()

    def piece(texts: list[str]) -> list[Value] | None:
        if max(map(len, texts)) > jsontext.LONG:
            return None
        try:
            nodes: list[Any] = read(f"[{','.join(texts)}]")
        except DecodeError:
            return None
        for _ in names:
            nodes = [node if node is UNSET else node.found for node in nodes]
        lists = [node for node in nodes if node is not UNSET]
        if not _are_arrays(lists, kind):
            return None
        if is_integer and not names:
            return [
                text.replace(" ", "") if len(set(elements)) == len(elements) else once(elements)
                for text, elements in zip(texts, lists, strict=True)
            ]
        encoded = map(once, lists)
        return [None if node is UNSET else next(encoded) for node in nodes]

    def arrays(documents: Sequence[Any]) -> list[Value] | None:
        whole: list[Value] = []
        for at in range(0, len(documents), _ROWS):
            some = documents[at : at + _ROWS]
            texts = [text for text in some if text is not None]
            if texts:
                values = piece(texts)
                if values is None:
                    return None
                decoded = iter(values)
                whole += [None if text is None else next(decoded) for text in some]
            else:
                whole += some
        return whole

    return arrays


def _are_arrays(lists: list[list[Any]], kind: FieldType) -> bool:
    """Whether `array_maker` accepts these decoded lists. Duplicate elements are allowed.

    Checks only what the decoder's types do not. An integer of more than 64 bits is a double in a
    document."""
    if max(map(len, lists), default=0) > MOST_ELEMENTS:
        return False
    return kind.family != Family.FLOAT or all(map(all, lists))  # 0.0 and -0.0 are one


def element_of(part: Document, kind: FieldType) -> tuple[Value, ...]:
    """The value of the index entries for this element, as a tuple of one.

    () if it cannot be an element, or is a number that only compares equal to one."""
    if kind.family in _BOUNDS and isinstance(part, float) and part.is_integer():
        part = int(part)
    if not is_element(part, kind):
        return ()
    if kind.family == Family.FLOAT:
        return (float(part),)
    if kind.family in _BOUNDS or kind.family == Family.STRING:
        return (part,)
    return (part.encode() if kind.family == Family.BYTES else from_text(part, kind),)
