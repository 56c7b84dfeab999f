"""`?` by number: sqlglot's trees do not keep the order of a text, so each `?` is given its place.

    parse:                 Placeholder(this = offset of the sign in the text)
    number_placeholders:   Placeholder(this = "0", "1", ... from left to right)

The parser is compiled and has no subclasses; its table of placeholder readers is changed in place.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlglot import exp
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.tokenizer_core import TokenType

from exuvia.base.interruption import check
from exuvia.sql.nodes.session import Statement


def _read_placeholder(parser: Any) -> exp.Placeholder:
    check()
    return exp.Placeholder(this=str(parser._prev.start))


MySQLParser.PLACEHOLDER_PARSERS[TokenType.PLACEHOLDER] = _read_placeholder


def number_placeholders(statement: Statement) -> int:
    """Number the `?` of a statement just parsed; how many there are."""
    found = sorted(_placeholders(statement), key=lambda each: int(each.this))
    for number, each in enumerate(found):
        each.set("this", str(number))
    return len(found)


def _placeholders(value: object) -> Iterator[exp.Placeholder]:
    if isinstance(value, exp.Expression):
        yield from value.find_all(exp.Placeholder)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _placeholders(getattr(value, name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _placeholders(each)


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
    return frozenset(position_of(each) for each in _placeholders(statement) if _is_typing(each))


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
