"""WITH x AS (..) UPDATE ..; WITH x AS (..) DELETE ..: the clause goes to the source of the rows.
WITH x AS (..) SELECT ..: where the query itself begins.
"""

from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.nodes import Delete, Update
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.syntax_error import syntax_error
from exuvia.sql.parse.tokens import read

_WRITES = ("UPDATE", "DELETE")


def written_at(tokens: list[Token]) -> int:
    """Where the UPDATE or DELETE behind a WITH begins; 0 where a query follows."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0 and token.text.upper() == "SELECT":
            return 0
        elif depth == 0 and token.text.upper() in _WRITES:
            return place
    return 0


def skip_with(cursor: Cursor) -> None:
    """[RECURSIVE] x [(a, ..)] AS (..), ..., behind WITH."""
    cursor.accept("RECURSIVE")
    while True:
        cursor.take()
        if cursor.at("("):
            cursor.skip_parentheses()
        if not cursor.accept("AS"):
            return
        cursor.skip_parentheses()
        if not cursor.accept(","):
            return


def with_written(text: str, clause: list[Token], node: Any) -> Update | Delete:
    """The statement, its source with the clause. Raises 1064."""
    if not isinstance(node, Update | Delete):
        raise syntax_error(text, clause[0].start)
    last = clause[-1]
    place = (last.line, last.col, last.start, last.end)
    tail = [Token(TokenType.SELECT, "SELECT", *place), Token(TokenType.NUMBER, "1", *place)]
    tree = read(text, [*clause, *tail])
    node.source.set("with_", tree.args.get("with_"))
    return node
