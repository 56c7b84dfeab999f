"""The shape of a statement's text: the text with `?` where its literals stood, and the literals.

    SELECT c FROM sbtest1 WHERE id=42 AND pad='x'   ->   SELECT c FROM sbtest1 WHERE id=? AND pad=?
                                                         [42, 'x'], signature "is"

Plans are kept by shape (statement/plan_cache.py), so this must cost a few microseconds: one
compiled pattern splits the text at its literals. Only what is certain is split: a text with
comments, quoted identifiers, hexadecimal or introduced literals has no shape, and is planned by
itself.

    letter   Python value      letter   Python value
    i        int < 2**63       s        str
    u        int beyond that   b        bytes
    d        Decimal           n        None (NULL as a value of a prepared statement)
    f        float             t        other (a date or time bound by a driver), as text

A `?` is numbered by its place in the text, which the parser left in it (tokens.py):

    parse                  Placeholder(this = offset of the sign in the text)
    number_placeholders    Placeholder(this = "0", "1", ... from left to right)
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec
from sqlglot import exp

from exuvia.base.types import FieldType, Flag, TypeCode, Value
from exuvia.catalog.decimals import literal, whole
from exuvia.sql.nodes import Statement
from exuvia.sql.result import BIGINT, BINARY, DOUBLE, NULL, UNSIGNED_BIGINT

_SLOT = "\x01"
_SPLIT = re.compile(
    r"((?<![\w$@.])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w$.])"
    r"|'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')",
    re.DOTALL,
).split
_UNCERTAIN = re.compile(
    r"""["'#?\0;{]|--|/\*|\w\x01|\b(?:DATE|TIME|TIMESTAMP)\s+\x01""", re.IGNORECASE
).search
_LIMITED = re.compile(r"\bLIMIT\s*\x01(?:\s*(?:,|\bOFFSET\b)\s*\x01)?", re.IGNORECASE).finditer
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_LONGEST = 1 << 20


def _unescape(match: re.Match[str]) -> str:
    sign = match.group(1)
    if sign is None:
        return "'"
    if sign in "%_":
        return "\\" + sign
    return _ESCAPED.get(sign, sign)


_RAW = re.compile("[\udc80-\udcff]").search


def bytes_of(text: str) -> bytes | None:
    """A literal whose bytes are no text: mysqldump and drivers write the bytes of a BLOB so.

    The wire hands such a byte on as a lone surrogate. None for every other text."""
    if text.isascii() or _RAW(text) is None:
        return None
    return text.encode("utf-8", "surrogateescape")


def read_literal(token: str) -> tuple[Value, str]:
    """Value and letter of one literal as it stands in the text."""
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
    """`split` for texts that read or write rows; None for all others."""
    text = text.strip(" \n\t\r;")
    return split(text, written) if text[:6].upper() in _HEADS else None


def split(text: str, written: frozenset[int] = frozenset()) -> tuple[str, list[Value], str] | None:
    """(shape, literals, their letters), or None for a text whose literals are not certain.

    The literals numbered `written` (from 0) stay in the shape as they are."""
    if len(text) > _LONGEST:
        return None
    parts = _SPLIT(text)
    tokens = parts[1::2]
    joined = _SLOT.join(parts[::2]) if tokens else text
    if _UNCERTAIN(joined) is not None or ("`" in joined and _slot_in_a_name(joined)):
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
        asked = [number for number in range(len(tokens)) if number not in written]
        return "".join(parts), [values[n] for n in asked], "".join([letters[n] for n in asked])
    return joined.replace(_SLOT, "?"), values, letters


def _odd_limit(joined: str, letters: str) -> bool:
    """Whether LIMIT is followed by what is no whole number: the text's own parser says so."""
    for match in _LIMITED(joined):
        first = joined.count(_SLOT, 0, match.start())
        if letters[first : first + match.group().count(_SLOT)].strip("iu"):
            return True
    return False


def _slot_in_a_name(joined: str) -> bool:
    names = joined.split("`")
    return len(names) % 2 == 0 or any(_SLOT in part for part in names[1::2])


_LETTERS = {int: "i", str: "s", Decimal: "d", float: "f", bytes: "b", type(None): "n", bool: "i"}


def letters_of(values: Sequence[Value]) -> str:
    """Letters of the values bound to a prepared statement."""
    return "".join(
        [
            "u" if type(value) is int and value >= 1 << 63 else _LETTERS.get(type(value), "t")
            for value in values
        ]
    )


_PLAIN_TYPES = {"i": BIGINT, "u": UNSIGNED_BIGINT, "f": DOUBLE, "n": NULL, "b": BINARY}


def type_of(value: Value, letter: str) -> FieldType:
    """MySQL's type of a literal or bound value."""
    if letter == "d":
        _, digits, exponent = value.as_tuple()
        scale = max(0, -exponent) if isinstance(exponent, int) else 0
        return FieldType(
            Tp=TypeCode.NEWDECIMAL,
            Flag=int(Flag.BINARY),
            Flen=max(len(digits), scale) + 2,
            Decimal=scale,
        )
    if letter in {"s", "t"}:
        return FieldType(
            Tp=TypeCode.VAR_STRING,
            Flen=max(1, len(str(value))),
            Charset="utf8mb4",
            Collate="utf8mb4_bin",
        )
    return _PLAIN_TYPES[letter]


# -- placeholders ----------------------------------------------------------------------------------


def number_placeholders(statement: Statement) -> int:
    """Number the `?` of a statement just parsed; how many there are."""
    signs = sorted(_placeholders(statement), key=lambda sign: int(sign.this))
    for number, sign in enumerate(signs):
        sign.set("this", str(number))
    return len(signs)


def _placeholders(value: object) -> Iterator[exp.Placeholder]:
    if isinstance(value, exp.Expression):
        yield from value.find_all(exp.Placeholder)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _placeholders(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _placeholders(item)


_TYPING = frozenset(  # functions whose type is decided by a literal: digits, a format
    (
        *("round", "truncate", "str_to_date", "time", "timestamp", "addtime", "subtime"),
        *("timediff", "unix_timestamp", "now", "sysdate", "curtime", "current_time"),
        *("current_timestamp", "localtime", "localtimestamp", "utc_time", "utc_timestamp"),
        *("currenttime", "currenttimestamp", "utctime", "utctimestamp"),
    )
)


def deciding_a_type(statement: Statement) -> frozenset[int]:
    """The numbers of the `?` that stand where a literal is part of a type: CHAR(?), ROUND(x, ?),
    NOW(?)."""
    return frozenset(position_of(sign) for sign in _placeholders(statement) if _is_typing(sign))


def _is_typing(placeholder: exp.Placeholder) -> bool:
    place = placeholder.parent
    while isinstance(place, exp.Paren | exp.Neg):
        place = place.parent
    if isinstance(place, exp.Anonymous):
        return place.name.lower() in _TYPING
    return isinstance(place, exp.DataTypeParam) or (place is not None and place.key in _TYPING)


def position_of(placeholder: exp.Placeholder) -> int:
    """Which parameter it stands for, from 0."""
    return int(placeholder.this)
