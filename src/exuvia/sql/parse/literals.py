"""The shape of a statement's text: the text with `?` in place of its literals, and the literals.

    SELECT c FROM sbtest1 WHERE id=42 AND pad='x'   ->   SELECT c FROM sbtest1 WHERE id=? AND pad=?
                                                         [42, 'x'], signature "is"

Plans are cached by shape (statement/plan_cache.py), so this must cost only a few microseconds:
one compiled pattern splits the text at its literals. Uncertain texts have no shape and are planned
separately: those with comments inside, quoted identifiers, hexadecimal or introduced literals.

    letter   Python value      letter   Python value
    i        int < 2**63       s        str
    u        int beyond that   b        bytes
    d        Decimal       XX
The type of a user variable (EXECUTE ... USING) may not follow from its Python value. Such types
have their own letters (`TYPED`): D is a DATE, F a FLOAT, J a JSON document.
The digits 0 to 6 are DATETIMEs and T to Z are TIMEs, with 0 to 6 fractional digits. A text whose
collation differs from the connection's has the letter of its collation (`COLLATED`).

INSERT .. VALUES (1, 'a'), (2, 'b'), .. with rows of one form has the shape of its first row, with
the values by column (`rows_of`). So any number of rows shares one plan, and Python does not handle
each row. The text is split at its quotes. The parts between strings may differ only in numbers.

A `?` is numbered by its position in the text, which the parser stored in it (tokens.py):

    parse                  Placeholder(this = offset of the sign in the text)
    number_placeholders    Placeholder(this = "0", "1", ... from left to right)
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.decoding import json_decoder
from exuvia.base.interruption import lengthen
from exuvia.base.long_work import WINDOW
from exuvia.base.types import Family, FieldType, Flag, TypeCode, Value
from exuvia.catalog.decimals import literal, whole
from exuvia.sql import types, walks
from exuvia.sql.charsets import COLLATIONS
from exuvia.sql.nodes import Statement
from exuvia.sql.result import BIGINT, BINARY, DOUBLE, NULL, UNSIGNED_BIGINT

_SLOT = "\x01"
_LITERAL = re.compile(
    r"((?<![\w$@.])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w$.])"
    r"|'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')",
    re.DOTALL,
)
_SPLIT, _LITERALS = _LITERAL.split, _LITERAL.finditer
_UNCERTAIN = re.compile(
    r"""["'#?\0;{]|--|/\*|\w\x01|\b(?:DATE|TIME|TIMESTAMP)\s+\x01""", re.IGNORECASE
).search
_LIMITED = re.compile(r"\bLIMIT\s*\x01(?:\s*(?:,|\bOFFSET\b)\s*\x01)?", re.IGNORECASE).finditer
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_LONGEST = 1 << 20
_LONGEST_QUERY = 1 << 16  # a cached plan has an object for each literal
_ROWS = ("INSERT", "REPLAC")
_EXECUTED = ("!", "+", "T", "M")  # /*! .. */, /*+ .. */, /*T! .. */, /*M! .. */


def _unescape(match: re.Match[str]) -> str:
    sign = match.group(1)
    if sign is None:
        return "'"
    if sign in "%_":
        return "\\" + sign
    return _ESCAPED.get(sign, sign)


_RAW = re.compile("[\udc80-\udcff]").search


def bytes_of(text: str) -> bytes | None:
    """The bytes of a literal that is not valid text, as mysqldump and drivers write a BLOB.

    The wire protocol represents such bytes as lone surrogates. None for valid text."""
    if text.isascii() or _RAW(text) is None:
        return None
    return text.encode("utf-8", "surrogateescape")


def read_literal(token: str) -> tuple[Value, str]:
    """Value and letter of one literal, given as in the text."""
    if token[0] == "'":
        body = token[1:-1]
        if "\\" in body or "'" in body:
            body = _ESCAPE.sub(_unescape, body)
        raw = bytes_of(body)
        return (body, "s") if raw is None else (raw, "b")
    if token.isdigit():
        value = whole(token)
        if value < 1 << 63:
            return value, "i"
        return (value, "u") if value < 1 << 64 else (literal(token), "d")
    if "e" in token or "E" in token:
        return float(token), "f"
    return literal(token), "d"


_HEADS = ("SELECT", "INSERT", "UPDATE", "DELETE", "REPLAC")


def shape_of(
    text: str, written: frozenset[int] = frozenset()
) -> tuple[str, list[Value], str] | None:
    """`split` for texts that read or write rows; None for all others.

    A comment before or after the statement is removed: drivers write a trace there."""
    text = text.strip(" \n\t\r;")
    if text[-2:] == "*/" or text[:2] == "/*":
        text = _without_outer_comments(text)
    head = text[:6].upper()
    return split(text, written) if head in _HEADS or head[:5] == "WITH " else None


def _without_outer_comments(text: str) -> str:
    """The text without its first and its last comment, except hints and executable comments.

    If this cuts a string that looks like a comment, `split` refuses the remaining text."""
    if text[:2] == "/*" and text[2:3] not in _EXECUTED:
        end = text.find("*/", 2)
        text = text[end + 2 :].lstrip() if end > 0 else text
    begin = text.rfind("/*") if text[-2:] == "*/" else 0
    if 0 < begin < len(text) - 3 and text[begin + 2 : begin + 3] not in _EXECUTED:
        text = text[:begin].rstrip(" \n\t\r;")
    return text


def split(text: str, written: frozenset[int] = frozenset()) -> tuple[str, list[Value], str] | None:
    """(shape, literals, their letters), or None if the literals are uncertain.

    The literals numbered `written` (from 0) stay in the shape as they are."""
    if len(text) <= WINDOW:
        parts = _SPLIT(text)
    elif len(text) <= (_LONGEST if text[:6].upper() in _ROWS else _LONGEST_QUERY):
        parts = _parts(text)
    else:
        return None
    tokens = parts[1::2]
    joined = _SLOT.join(parts[::2]) if tokens else text
    uncertain = _UNCERTAIN(joined) if len(joined) <= WINDOW else _uncertain_part(parts)
    if uncertain is not None or ("`" in joined and _slot_in_a_name(joined)):
        return None
    if joined.count(_SLOT) != len(tokens):
        return None
    values = []
    letters = ""
    for token in tokens:
        value, letter = read_literal(token)
        values.append(value)
        letters += letter
    if letters.strip("iu") and _odd_limit(joined, letters):
        return None
    if written:
        for number, token in enumerate(tokens):
            parts[2 * number + 1] = token if number in written else "?"
        remaining = [number for number in range(len(tokens)) if number not in written]
        return (
            "".join(parts),
            [values[n] for n in remaining],
            "".join([letters[n] for n in remaining]),
        )
    return joined.replace(_SLOT, "?"), values, letters


def _parts(text: str) -> list[str]:
    """As `_SPLIT`, but literal by literal, so that other threads can run in between."""
    lengthen()
    parts, at = list[str](), 0
    for match in _LITERALS(text):
        parts += (text[at : match.start()], match[0])
        at = match.end()
    return [*parts, text[at:]]


def _uncertain_part(parts: list[str]) -> re.Match[str] | None:
    """As `_UNCERTAIN`, but applied to the parts between literals one by one."""
    *before, last = parts[::2]
    matches = (_UNCERTAIN(part + _SLOT) for part in before)
    return next(filter(None, matches), None) or _UNCERTAIN(last)


def _odd_limit(joined: str, letters: str) -> bool:
    """Whether LIMIT has a literal that is not a whole number: the parser then raises the error."""
    for match in _LIMITED(joined):
        first = joined.count(_SLOT, 0, match.start())
        if letters[first : first + match.group().count(_SLOT)].strip("iu"):
            return True
    return False


def _slot_in_a_name(joined: str) -> bool:
    names = joined.split("`")
    return len(names) % 2 == 0 or any(_SLOT in part for part in names[1::2])


# -- rows of one form ------------------------------------------------------------------------------

MANY_ROWS = 1024
"""The least number of characters of a text for which `rows_of` is worth its time."""
_LONGEST_ROWS = 1 << 22
_ROWS_HEAD = re.compile(
    r"""\s*((?:INSERT|REPLACE)\b[^'"#;?\0/{-]*?\bVALUES?\s*)\(""", re.IGNORECASE
).match
_BETWEEN_ROWS = re.compile(r"\)\s*,\s*\(").search
_WHOLE_NUMBER = re.compile("(-?[0-9]+)")
_SAME_ROW = re.compile(r"\(\s*(?:\?|NULL)\s*(?:,\s*(?:\?|NULL)\s*)*\)", re.IGNORECASE).fullmatch
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class RowsAlike(NamedTuple):
    """`shape` and `letters` of the statement with only its first row. `columns`: for each `?` its
    values in all rows."""

    shape: str
    letters: str
    columns: list[Sequence[Value]]


def rows_of(text: str) -> RowsAlike | None:
    """The rows of an INSERT or REPLACE with several rows of the form of the first, else None.

    They contain strings without escapes, whole numbers and NULL, with the same text in between."""
    head = _ROWS_HEAD(text) if len(text) <= _LONGEST_ROWS else None
    if head is None:
        return None
    body = text[head.end() :].rstrip(" \n\t\r;")
    between = _BETWEEN_ROWS(body)
    if between is None or body[-1:] != ")" or "\\" in body or "\0" in body:
        return None
    if not text.isascii() and _RAW(text) is not None:
        return None
    sign = between[0]
    pieces = body[:-1].split("'")
    outside = pieces[::2]
    width = next((n for n, piece in enumerate(outside) if ")" in piece), 0)  # strings in a row
    rows = len(pieces) // 2 // width if width else 0
    if not width:
        segments = [body[:-1].split(sign)] if len(pieces) == 1 else []
    elif len(pieces) == 2 * rows * width + 1 and rows > 1:
        edges = outside[width:-1:width]
        ends = "\0".join(edges)
        if ends.count(sign) != rows - 1 or not all(sign in edge for edge in edges):
            return None
        cut = ends.replace(sign, "\0").split("\0")
        tails, heads = [*cut[::2], outside[-1]], [outside[0], *cut[1::2]]
        segments = [heads, *(outside[n::width][:rows] for n in range(1, width)), tails]
    else:
        return None
    row, letters, columns = "", "", list[Sequence[Value]]()
    for place, segment in enumerate(segments):
        parsed = _numbers(segment)
        if parsed is None:
            return None
        row += ("?" if place else "") + parsed[0]
        if place:
            letters += "s"
            columns.append(pieces[2 * place - 1 :: 2 * width])
        letters += "i" * len(parsed[1])
        columns += parsed[1]
    row = f"({row})"
    if not columns or _SAME_ROW(row) is None:
        return None
    return RowsAlike(head[1] + row, letters, columns)


def _numbers(segments: list[str]) -> tuple[str, list[Sequence[Value]]] | None:
    """The common text of one segment of every row, with `?` for whole numbers, and these by column.

    A segment is the part between two strings. None if the rows differ in more than numbers."""
    parts = _WHOLE_NUMBER.split(segments[0])
    count = len(parts) // 2
    if not count:
        is_same = segments.count(segments[0]) == len(segments)
        return (segments[0], []) if is_same else None
    signs = parts[::2]
    joined = "\0".join(segments)
    if not joined.startswith(signs[0]) or not joined.endswith(signs[-1]):
        return None
    if "." in joined or "e" in joined or "E" in joined:
        return None
    numbers = joined[len(signs[0]) : len(joined) - len(signs[-1])]
    edge = "," if count == 1 else "],["
    numbers = numbers.replace(f"{signs[-1]}\0{signs[0]}", edge)
    numbers = f"[{numbers}]" if count == 1 else f"[[{numbers}]]"
    try:
        decoded = _decoder(count).decode(numbers)
    except msgspec.MsgspecError:
        return None
    columns = [decoded] if count == 1 else list(zip(*decoded, strict=True))
    if len(decoded) != len(segments) or any(
        min(column) < _LEAST or max(column) > _MOST for column in columns
    ):
        return None
    return "?".join(signs), columns


@lru_cache
def _decoder(count: int) -> "msgspec.json.Decoder[Any]":
    kind: Any = int if count == 1 else tuple[(int,) * count]  # type: ignore[misc]
    return json_decoder(list[kind])


DECIMAL, OTHER = "d", "t"
_LETTERS = {int: "i", str: "s", Decimal: "d", float: "f", bytes: "b", type(None): "n", bool: "i"}


def letters_of(values: Sequence[Value]) -> str:
    """The letters of values that are bound to a prepared statement."""
    return "".join(
        [
            "u" if type(value) is int and value >= 1 << 63 else _LETTERS.get(type(value), OTHER)
            for value in values
        ]
    )


TYPED = {
    "D": types.DATE,
    **{letter: types.datetime(digits) for digits, letter in enumerate("0123456")},
    **{letter: types.time(digits) for digits, letter in enumerate("TUVWXYZ")},
    "F": types.FLOAT,
    "J": types.JSON,
}
_LETTER_OF_TYPE = {(kind.Tp, max(0, kind.Decimal)): letter for letter, kind in TYPED.items()}
COLLATED = {
    chr(0xE000 + number): types.text(-1, charset, collate)
    for collate, (charset, number) in COLLATIONS.items()
    if charset != "binary"
}
_LETTER_OF_COLLATION = {kind.Collate: letter for letter, kind in COLLATED.items()}
_LETTER_OF_FAMILY = {
    Family.INT: "i",
    Family.UINT: "u",
    Family.DECIMAL: "d",
    Family.FLOAT: "f",
    Family.STRING: "s",
    Family.BYTES: "b",
}


class TypedValue(NamedTuple):
    """A value with one of the types in `TYPED`."""

    value: Value
    type: FieldType


def letter_of(value: Value, kind: FieldType, connection: str = "") -> str:
    """The letter of a value with a known type, such as a user variable.

    `connection`: the connection's collation; texts are converted to its character set. "": texts
    keep their own."""
    if value is None or kind.Tp == TypeCode.NULL:
        return "n"
    if kind.family is Family.STRING and kind.Collate != connection:
        charset, _ = COLLATIONS.get(connection, ("", 0))
        if kind.Charset == charset:
            return _LETTER_OF_COLLATION.get(kind.Collate, "s")
    typed = _LETTER_OF_TYPE.get((TypeCode(kind.Tp), max(0, kind.Decimal)))
    return typed or _LETTER_OF_FAMILY[kind.family]


def bound_values(values: Sequence[Value]) -> tuple[Sequence[Value], str]:
    """The values bound by a driver, and their letters. A TypedValue has the letter of its type."""
    letters = letters_of(values)
    if OTHER not in letters:
        return values, letters
    typed = [value if isinstance(value, TypedValue) else None for value in values]
    pairs = zip(letters, typed, strict=True)
    return (
        [value if of is None else of.value for value, of in zip(values, typed, strict=True)],
        "".join([letter if of is None else letter_of(*of) for letter, of in pairs]),
    )


_OPEN_TEXT = FieldType(Tp=TypeCode.VAR_STRING, Charset="utf8mb4", Collate="utf8mb4_bin")
_OPEN_TYPES = {
    **TYPED,
    **COLLATED,
    "i": BIGINT,
    "u": UNSIGNED_BIGINT,
    "f": DOUBLE,
    "n": NULL,
    "b": BINARY,
    DECIMAL: FieldType(Tp=TypeCode.NEWDECIMAL, Flag=int(Flag.BINARY)),
    "s": _OPEN_TEXT,
    "t": _OPEN_TEXT,
}


def open_type(letter: str) -> FieldType:
    """MySQL's type for literals and bound values of this letter, without length and scale."""
    return _OPEN_TYPES[letter]


def type_of(value: Value, letter: str) -> FieldType:
    """MySQL's type of a literal or bound value."""
    kind = _OPEN_TYPES[letter]
    if letter == DECIMAL:
        _, digits, exponent = Decimal(value).as_tuple()
        places = exponent if isinstance(exponent, int) else 0
        scale = max(0, -places)
        return evolve(kind, Flen=max(len(digits) + max(0, places), scale), Decimal=scale)
    is_text = kind is _OPEN_TEXT or letter in COLLATED
    return evolve(kind, Flen=max(1, len(str(value)))) if is_text else kind


# -- placeholders ----------------------------------------------------------------------------------


def number_placeholders(statement: Statement) -> int:
    """Number the `?` of a parsed statement; returns their count."""
    signs = sorted(found_in(statement, exp.Placeholder), key=lambda sign: int(sign.this))
    for number, sign in enumerate(signs):
        sign.set("this", str(number))
    return len(signs)


def found_in(value: object, kind: type[walks.Found]) -> Iterator[walks.Found]:
    """The trees of a class in a statement."""
    if isinstance(value, exp.Expression):
        yield from walks.find_all(value, kind)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from found_in(getattr(value, name), kind)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from found_in(item, kind)


_TYPING = frozenset(  # functions whose type is decided by a literal: digits, a format
    (
        *("round", "truncate", "str_to_date", "time", "timestamp", "addtime", "subtime"),
        *("timediff", "unix_timestamp", "now", "sysdate", "curtime", "current_time"),
        *("current_timestamp", "localtime", "localtimestamp", "utc_time", "utc_timestamp"),
        *("currenttime", "currenttimestamp", "utctime", "utctimestamp", "extract"),
    )
)


def deciding_a_type(statement: Statement, letters: str) -> frozenset[int]:
    """The numbers of the `?` whose literal decides a type: CHAR(?), ROUND(x, ?), NOW(?).

    Includes -? of a number beyond BIGINT: -9223372036854775808 is a BIGINT, but the negative of a
    greater number is a DECIMAL."""
    signs = list(found_in(statement, exp.Placeholder))
    negative = {position_of(sign) for sign in signs if isinstance(_place_of(sign), exp.Neg)}
    large = {number for number in negative if letters[number] == "u"}
    return frozenset(position_of(sign) for sign in signs if _is_typing(sign)) | large


def _place_of(placeholder: exp.Placeholder) -> exp.Expr | None:
    place = placeholder.parent
    while isinstance(place, exp.Paren):
        place = place.parent
    return place


def _is_typing(placeholder: exp.Placeholder) -> bool:
    place = _place_of(placeholder)
    while isinstance(place, exp.Paren | exp.Neg):
        place = place.parent
    if isinstance(place, exp.Anonymous):
        return place.name.lower() in _TYPING
    return isinstance(place, exp.DataTypeParam) or (place is not None and place.key in _TYPING)


def position_of(placeholder: exp.Placeholder) -> int:
    """The number of the parameter, from 0."""
    return int(placeholder.this)
