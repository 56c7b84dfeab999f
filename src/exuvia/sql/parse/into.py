"""INTO @a, @b and INTO OUTFILE of a query, wherever it stands: sqlglot does not read them."""

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.nodes.files import IntoFile
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.files import into_file


def split_into(text: str, tokens: list[Token]) -> tuple[list[Token], tuple[str, ...] | IntoFile]:
    """The query's tokens without INTO, and the names or the file; none where it has no such
    clause."""
    depth = 0
    for start, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif token.token_type is TokenType.INTO and depth == 0:
            cursor = Cursor(text, tokens)
            cursor.position = start + 1
            file = into_file(cursor)
            if file is not None:
                return tokens[:start] + tokens[cursor.position :], file
            names, end = _names(tokens, start + 1)
            return (tokens[:start] + tokens[end:], names) if names else (tokens, ())
    return tokens, ()


def _names(tokens: list[Token], position: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    while position + 1 < len(tokens) and tokens[position].token_type is TokenType.PARAMETER:
        names.append(tokens[position + 1].text)
        position += 2
        if position >= len(tokens) or tokens[position].token_type is not TokenType.COMMA:
            break
        position += 1
    return tuple(names), position
