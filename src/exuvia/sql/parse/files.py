"""LOAD DATA [LOCAL] INFILE, and INTO @a, @b or INTO OUTFILE of a query, wherever it stands: sqlglot
does not read them.
"""

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrWrongFieldTerminators
from exuvia.sql.nodes import Node
from exuvia.sql.nodes.rows import IntoFile, LoadData, TextFormat
from exuvia.sql.parse.columns import charset_name
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.dml import assignments


def load(cursor: TokenCursor) -> Node:
    """LOAD DATA ..."""
    cursor.take()
    if cursor.accept("XML"):
        raise ErrNotSupportedYet("LOAD XML")
    cursor.expect("DATA")
    cursor.accept_any("LOW_PRIORITY", "CONCURRENT")
    facts: dict[str, object] = {"local": cursor.accept("LOCAL")}
    cursor.expect("INFILE")
    facts["path"] = cursor.string()
    facts["policy"] = cursor.accept_any("REPLACE", "IGNORE").lower() or "insert"
    cursor.expect("INTO", "TABLE")
    facts["table"] = cursor.table()
    if cursor.accept("PARTITION"):
        facts["partitions"] = cursor.names()
    if cursor.at_any(("CHARACTER", "CHARSET", "CHARACTER SET")):
        facts["charset"] = charset_name(cursor)
    facts["format"] = text_format(cursor)
    if cursor.accept("IGNORE"):
        facts["skipped"] = cursor.integer()
        if not cursor.accept_any("LINES", "ROWS"):
            raise cursor.error()
    if cursor.accept("("):
        empty = cursor.at(")")
        facts["columns"] = () if empty else cursor.listed(lambda: _item(cursor))
        cursor.expect(")")
    if cursor.accept("SET"):
        facts["assignments"] = tuple((c.name, tree) for c, tree in assignments(cursor))
    return LoadData(**facts)  # type: ignore[arg-type]


def _item(cursor: TokenCursor) -> str:
    if cursor.accept("@"):
        return "@" + cursor.take().text
    return cursor.name()


def text_format(cursor: TokenCursor) -> TextFormat:
    """[FIELDS ...] [LINES ...]."""
    facts: dict[str, object] = {}
    if cursor.accept_any("FIELDS", "COLUMNS"):
        _fields(cursor, facts)
    if cursor.accept("LINES"):
        _lines(cursor, facts)
    return TextFormat(**facts)  # type: ignore[arg-type]


def _fields(cursor: TokenCursor, facts: dict[str, object]) -> None:
    before = cursor.position
    while True:
        if cursor.accept("TERMINATED", "BY"):
            facts["terminated"] = cursor.string()
        elif cursor.at_any(("OPTIONALLY", "ENCLOSED")):
            facts["optionally"] = cursor.accept("OPTIONALLY")
            cursor.expect("ENCLOSED", "BY")
            facts["enclosed"] = _one_sign(cursor)
        elif cursor.accept("ESCAPED", "BY"):
            facts["escaped"] = _one_sign(cursor)
        else:
            break
    if cursor.position == before:
        raise cursor.error()


def _one_sign(cursor: TokenCursor) -> str:
    found = cursor.string()
    if len(found) > 1:
        raise ErrWrongFieldTerminators()
    return found


def _lines(cursor: TokenCursor, facts: dict[str, object]) -> None:
    before = cursor.position
    while True:
        if cursor.accept("STARTING", "BY"):
            facts["starting"] = cursor.string()
        elif cursor.accept("TERMINATED", "BY"):
            facts["lines"] = cursor.string()
        else:
            break
    if cursor.position == before:
        raise cursor.error()


def into_file(cursor: TokenCursor) -> IntoFile | None:
    """What follows INTO, where it is a file."""
    if cursor.accept("DUMPFILE"):
        return IntoFile(cursor.string(), raw=True)
    if not cursor.accept("OUTFILE"):
        return None
    path = cursor.string()
    if cursor.at_any(("CHARACTER", "CHARSET", "CHARACTER SET")):
        charset_name(cursor)
    return IntoFile(path, text_format(cursor))


# -- into ------------------------------------------------------------------------------------------


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
            cursor = TokenCursor(text, tokens)
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
