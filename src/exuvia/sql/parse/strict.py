"""What sqlglot lets pass and MySQL does not. Every check raises 1064."""

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.parse.syntax_error import syntax_error

_LACKING = {(TokenType.L_PAREN, TokenType.COMMA)} | {
    (TokenType.COMMA, after)
    for after in (TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE)
}

_OPERATORS = {
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD),
    *(TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.DIV),
}


def check_commas(text: str, tokens: Sequence[Token]) -> None:
    """sqlglot reads `a,, b` and `(, a)` as if the comma too many were not there."""
    for token, following in pairwise([*tokens, tokens[-1]]):
        if (token.token_type, following.token_type) in _LACKING:
            raise syntax_error(text, following.start)


def whole_number(token: Token | None) -> bool:
    """Whether LIMIT takes it: digits or a placeholder."""
    if token is None:
        return False
    number = token.token_type is TokenType.NUMBER and token.text.isdigit()
    return number or token.token_type is TokenType.PLACEHOLDER


def check_limits(text: str, tokens: Sequence[Token]) -> None:
    """LIMIT takes no expressions: `LIMIT n`, `LIMIT n, m`, `LIMIT n OFFSET m`."""
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.LIMIT or _is(tokens, place - 1, TokenType.DOT):
            continue
        wanted = [place + 1]
        if _is(tokens, place + 2, TokenType.COMMA) or _is(tokens, place + 2, TokenType.OFFSET):
            wanted.append(place + 3)
        for each in wanted:
            if each >= len(tokens):
                raise syntax_error(text, len(text))
            if not whole_number(tokens[each]):
                raise syntax_error(text, tokens[each].start)
            if each + 1 < len(tokens) and tokens[each + 1].token_type in _OPERATORS:
                raise syntax_error(text, tokens[each + 1].start)


def _is(tokens: Sequence[Token], place: int, kind: TokenType) -> bool:
    return 0 <= place < len(tokens) and tokens[place].token_type is kind
