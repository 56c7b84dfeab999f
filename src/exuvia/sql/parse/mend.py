"""Tokens of MySQL and TiDB that sqlglot would misread, changed before it reads them.

DEFAULT(c)          a call, not the word
NEXT VALUE FOR s    NEXTVAL(s)
"""

from sqlglot.tokenizer_core import Token, TokenType

_NEXT_VALUE_FOR = ["NEXT", "VALUE", "FOR"]


def mended(tokens: list[Token]) -> list[Token]:
    """The tokens, every one at its place in the text."""
    if not any(token.text.upper() in ("DEFAULT", "NEXT") for token in tokens):
        return tokens
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        following = tokens[place + 1].token_type if place + 1 < len(tokens) else None
        if token.token_type is TokenType.DEFAULT and following is TokenType.L_PAREN:
            token = _like(token, TokenType.VAR, "DEFAULT")
        elif [each.text.upper() for each in tokens[place : place + 3]] == _NEXT_VALUE_FOR:
            end = _name_end(tokens, place + 3)
            found += _called(tokens[place], tokens[place + 3 : end])
            place = end
            continue
        found.append(token)
        place += 1
    return found


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _name_end(tokens: list[Token], place: int) -> int:
    """Behind `[db.]name`."""
    if place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.DOT:
        return min(place + 3, len(tokens))
    return min(place + 1, len(tokens))


def _called(head: Token, name: list[Token]) -> list[Token]:
    last = name[-1] if name else head
    opened = _like(head, TokenType.L_PAREN, "(")
    closed = _like(last, TokenType.R_PAREN, ")")
    return [_like(head, TokenType.VAR, "NEXTVAL"), opened, *name, closed]
