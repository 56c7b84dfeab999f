"""Tokens of MySQL and TiDB that sqlglot would misread, changed before it reads them.

DEFAULT(c)             a call, not the word
NEXT VALUE FOR s       NEXTVAL(s)
DATE 'x', {d 'x'}      DATE_LITERAL('x'), so that it is not a CAST; TIME and TIMESTAMP alike
SIGNED INT             SIGNED, in casts
INTERVAL 1.5 SECOND    INTERVAL (1.5) SECOND
BINARY -1              BINARY (-1); a call of BINARY is its cast (bind/bind.py)
a JOIN b               a INNER JOIN b, so that a comma is the only join without a word

And what it would try in two ways, at every level again, so that 25 levels take minutes (with the
interpreter's lock held, no KILL gets through), is decided before:

YEAR(x), CHAR(x), ...  a call, not a type, but for CAST(.. AS CHAR(3)), CONVERT(.., CHAR(3)) and the
                       columns of JSON_TABLE
a JOIN b JOIN c        without ON: a CROSS JOIN b CROSS JOIN c. An ON belongs to the nearest JOIN
                       that has none; an outer join without ON is 1064
"""

import re

from sqlglot.parsers.mysql import MySQLParser
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.parse.syntax_error import syntax_error

_NEXT_VALUE_FOR = ["NEXT", "VALUE", "FOR"]
LITERALS = {"DATE": "DATE_LITERAL", "TIME": "TIME_LITERAL", "TIMESTAMP": "TIMESTAMP_LITERAL"}
_BRACED = {"D": "DATE_LITERAL", "T": "TIME_LITERAL", "TS": "TIMESTAMP_LITERAL"}
_WORDS = frozenset(
    ("DEFAULT", "NEXT", "{", "INT", "INTEGER", "INTERVAL", "JOIN", "BINARY", *LITERALS)
)
_JOIN_WORDS = {
    *(TokenType.INNER, TokenType.CROSS, TokenType.OUTER, TokenType.LEFT, TokenType.RIGHT),
    *(TokenType.FULL, TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI, TokenType.ASOF),
}
_TYPES = MySQLParser.TYPE_TOKENS - {
    *(TokenType.NULL, TokenType.SET, TokenType.INTERVAL, TokenType.UNION, TokenType.NAME),
}
_TYPE_FOLLOWS = {TokenType.VAR, TokenType.IDENTIFIER}  # a column of JSON_TABLE
_TYPE_FOLLOWS_WORD = {"AS", "RETURNING"}
_JOINS = {TokenType.JOIN, TokenType.STRAIGHT_JOIN}
_INNER = {TokenType.INNER, TokenType.CROSS}
_JOINS_END = {
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT),
    *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SET, TokenType.WINDOW),
    *(TokenType.COMMA, TokenType.SEMICOLON),
}
_UNIT = re.compile(
    "(MICROSECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR)(_[A-Z]+)?", re.IGNORECASE
)


def mended(tokens: list[Token]) -> list[Token]:
    """The tokens, every one at its place in the text."""
    places = [n for n, token in enumerate(tokens) if token.text.upper() in _WORDS]
    if not places:
        return tokens
    found: list[Token] = []
    end = 0  # of what was taken over
    for place in places:
        taken = _mended_at(tokens, place) if place >= end else None
        if taken is not None:
            found += tokens[end:place]
            found += taken[0]
            end = place + taken[1]
    return found + tokens[end:]


def decided(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens without what could be read in two ways, see the module. Raises 1064."""
    kinds = {token.token_type for token in tokens}
    if kinds & _TYPES:
        tokens = _calls(tokens)
    return _joins(text, tokens) if kinds & _JOINS else tokens


def _calls(tokens: list[Token]) -> list[Token]:
    """Words of types as names of functions where they are called."""
    found = list(tokens)
    within: list[str] = []  # whose parentheses are open
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            within.append(tokens[place - 1].text.upper() if place else "")
        elif kind is TokenType.R_PAREN:
            del within[-1:]
        elif kind in _TYPES and place and _is(tokens, place + 1, TokenType.L_PAREN):
            before = tokens[place - 1]
            is_type = (
                before.token_type in _TYPE_FOLLOWS
                or before.text.upper() in _TYPE_FOLLOWS_WORD
                or (before.token_type is TokenType.COMMA and within[-1:] == ["CONVERT"])
            )
            if not is_type:
                found[place] = _like(token, TokenType.VAR, token.text)
    return found


def _joins(text: str, tokens: list[Token]) -> list[Token]:
    """JOINs without ON as CROSS JOINs."""
    found = list(tokens)
    waiting: list[list[int]] = [[]]  # JOINs that have no ON yet, for each open parenthesis

    def end(place: int) -> None:
        for at in waiting[-1]:
            first = at
            while first and tokens[first - 1].token_type in _JOIN_WORDS:
                first -= 1
            if not {each.token_type for each in tokens[first:at]} <= _INNER:
                raise syntax_error(text, tokens[place].start if place < len(tokens) else len(text))
            found[first] = _like(tokens[first], TokenType.CROSS, "CROSS")
            if first == at:  # STRAIGHT_JOIN
                joins[at] = _like(tokens[at], TokenType.JOIN, "JOIN")
        waiting[-1].clear()

    joins: dict[int, Token] = {}
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            waiting.append([])
        elif kind is TokenType.R_PAREN:
            end(place)
            if len(waiting) > 1:
                waiting.pop()
        elif kind in _JOINS:
            if not _is_natural(tokens, place) and not _is_word(tokens, place - 1, "FOR"):
                waiting[-1].append(place)
        elif kind is TokenType.USING or kind is TokenType.ON:
            if _is_word(tokens, place + 1, "DUPLICATE"):
                end(place)
            del waiting[-1][-1:]
        elif kind in _JOINS_END and not _is_word(tokens, place - 1, "FOR"):
            end(place)
    while waiting:
        end(len(tokens))
        waiting.pop()
    if not joins:
        return found
    return [
        each
        for place, token in enumerate(found)
        for each in ((token, joins[place]) if place in joins else (token,))
    ]


def _is_natural(tokens: list[Token], place: int) -> bool:
    while place and tokens[place - 1].token_type in _JOIN_WORDS:
        place -= 1
        if tokens[place].token_type is TokenType.NATURAL:
            return True
    return False


def _is(tokens: list[Token], place: int, kind: TokenType) -> bool:
    return 0 <= place < len(tokens) and tokens[place].token_type is kind


def _is_word(tokens: list[Token], place: int, word: str) -> bool:
    return 0 <= place < len(tokens) and tokens[place].text.upper() == word


def _mended_at(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """(the tokens instead, how many they stand for); None where nothing is to mend."""
    token = tokens[place]
    word = token.text.upper() if token.token_type is not TokenType.IDENTIFIER else ""
    kinds = [each.token_type for each in tokens[place + 1 : place + 4]]
    if token.token_type is TokenType.DEFAULT and kinds[:1] == [TokenType.L_PAREN]:
        return [_like(token, TokenType.VAR, "DEFAULT")], 1
    if word in LITERALS and kinds[:1] == [TokenType.STRING]:
        return _called(token, LITERALS[word], [tokens[place + 1]]), 2
    if token.token_type is TokenType.JOIN and place and not _is_word(tokens, place - 1, "FOR"):
        if tokens[place - 1].token_type in _JOIN_WORDS:
            return None
        return [_like(token, TokenType.INNER, "INNER"), token], 1
    if token.token_type is TokenType.INTERVAL:
        return _interval(tokens, place)
    if token.token_type is TokenType.BINARY and kinds[:1] in ([TokenType.DASH], [TokenType.PLUS]):
        return _signed(tokens, place)
    if token.token_type is TokenType.L_BRACE:
        name = _BRACED.get(tokens[place + 1].text.upper()) if len(kinds) == 3 else None
        if name and kinds[1:] == [TokenType.STRING, TokenType.R_BRACE]:
            return _called(token, name, [tokens[place + 2]]), 4
    if word in ("INT", "INTEGER") and place:
        before = tokens[place - 1].text.upper()
        return ([], 1) if before in ("SIGNED", "UNSIGNED") else None
    if [each.text.upper() for each in tokens[place : place + 3]] == _NEXT_VALUE_FOR:
        end = _name_end(tokens, place + 3)
        return _called(token, "NEXTVAL", tokens[place + 3 : end]), end - place
    return None


def _signed(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """BINARY -1: the number with its signs in brackets."""
    end = place + 1
    while end < len(tokens) and tokens[end].token_type in (TokenType.DASH, TokenType.PLUS):
        end += 1
    if end >= len(tokens) or tokens[end].token_type is not TokenType.NUMBER:
        return None
    return _called(tokens[place], "BINARY", tokens[place + 1 : end + 1]), end + 1 - place


def _interval(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """INTERVAL 1.5 SECOND: in brackets the amount stays what it is, a number or a text."""
    end = place + 1
    while end < len(tokens) and tokens[end].token_type in (TokenType.DASH, TokenType.PLUS):
        end += 1
    behind = tokens[end + 1].text if end + 1 < len(tokens) else ""
    if end >= len(tokens) or not _UNIT.fullmatch(behind):
        return None
    if tokens[end].token_type not in (TokenType.NUMBER, TokenType.STRING):
        return None
    amount = tokens[place + 1 : end + 1]
    opened, closed = (
        _like(amount[0], TokenType.L_PAREN, "("),
        _like(amount[-1], TokenType.R_PAREN, ")"),
    )
    return [tokens[place], opened, *amount, closed], end + 1 - place


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _name_end(tokens: list[Token], place: int) -> int:
    """Behind `[db.]name`."""
    if place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.DOT:
        return min(place + 3, len(tokens))
    return min(place + 1, len(tokens))


def _called(head: Token, function: str, given: list[Token]) -> list[Token]:
    last = given[-1] if given else head
    opened = _like(head, TokenType.L_PAREN, "(")
    closed = _like(last, TokenType.R_PAREN, ")")
    return [_like(head, TokenType.VAR, function), opened, *given, closed]
