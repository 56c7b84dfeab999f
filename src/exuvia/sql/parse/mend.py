"""Tokens of MySQL and TiDB that sqlglot would misread, changed before it reads them.

DEFAULT(c)             a call, not the word
NEXT VALUE FOR s       NEXTVAL(s)
DATE 'x', {d 'x'}      DATE_LITERAL('x'), so that it is not a CAST; TIME and TIMESTAMP alike
SIGNED INT             SIGNED, in casts
INTERVAL 1.5 SECOND    INTERVAL (1.5) SECOND
BINARY -1              BINARY (-1); a call of BINARY is its cast (bind/bind.py)
a JOIN b               a INNER JOIN b, so that a comma is the only join without a word
"""

import re

from sqlglot.tokenizer_core import Token, TokenType

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
_UNIT = re.compile("(MICROSECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR)(_[A-Z]+)?", re.I)


def mended(tokens: list[Token]) -> list[Token]:
    """The tokens, every one at its place in the text."""
    if not any(token.text.upper() in _WORDS for token in tokens):
        return tokens
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        taken = _mended_at(tokens, place)
        if taken is None:
            found.append(tokens[place])
            place += 1
        else:
            found += taken[0]
            place += taken[1]
    return found


def _mended_at(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """(the tokens instead, how many they stand for); None where nothing is to mend."""
    token = tokens[place]
    word = token.text.upper() if token.token_type is not TokenType.IDENTIFIER else ""
    kinds = [each.token_type for each in tokens[place + 1 : place + 4]]
    if token.token_type is TokenType.DEFAULT and kinds[:1] == [TokenType.L_PAREN]:
        return [_like(token, TokenType.VAR, "DEFAULT")], 1
    if word in LITERALS and kinds[:1] == [TokenType.STRING]:
        return _called(token, LITERALS[word], [tokens[place + 1]]), 2
    if token.token_type is TokenType.JOIN and place:
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
