"""The error 1064 with TiDB's text: line, column and the following text.

    CREATE TABL t (a int)    ->    ... use line 1 column 11 near "TABL t (a int)"

The column is the number of bytes up to the end of the wrong word, plus 1 on lines after the first.
"""

import re

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrParse

MARK = "\x02"
"""Marks a word in a statement's text that sql_mode gives another meaning (sql_mode.py)."""
NEAR_BYTES = 2048
_LONGEST_WORD = 1 << 16  # `re` holds the interpreter's lock while it matches
_SEARCHED = 1 << 16
_WORD = re.compile(
    r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'?"
    r'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"?'
    r"|`[^`]*`?|[\w$]+(?:\.\d+)?|<=>|->>|<<|>>|<=|>=|<>|!=|:=|->|\|\||&&|.",
    re.DOTALL,
)


def unmarked(text: str) -> str:
    """The text without its marks, as its client wrote it."""
    return text.replace("!" + MARK, "").replace(MARK, "") if MARK in text else text


class Misplaced(Refused):
    """A syntax error that is found after parsing. `word`: the wrong word as written."""

    def __init__(self, word: str) -> None:
        super().__init__(ErrParse.code, ErrParse.state, ErrParse.text % f'near "{word}" ')
        self.word = word

    def __reduce__(self) -> tuple[object, ...]:
        return (Misplaced, (self.word,))


def syntax_error(text: str, position: int) -> Refused:
    """The error 1064 for the word at this position of the text, or for its end."""
    word = _WORD.match(text, position, position + _LONGEST_WORD)
    end = word.end() if word else len(text)
    head = text[:end]
    line = head.count("\n") + 1
    column = len(head[head.rfind("\n") + 1 :].encode()) + (line > 1)
    rest = text[position:].encode()
    total = ""
    if len(rest) > NEAR_BYTES:
        total = f"(total length {len(rest)})"
    near = unmarked(rest[:NEAR_BYTES].decode(errors="ignore"))
    return ErrParse(f'line {line} column {column} near "{near}" {total}')


def placed(error: Refused, text: str) -> Refused:
    """The error for the client: a Misplaced gets the position of its word in the text."""
    if not isinstance(error, Misplaced):
        return error
    before = r"(?<![\w$])" if error.word[:1].isalnum() else ""
    behind = r"(?![\w$])" if error.word[-1:].isalnum() else ""
    word = before + re.escape(error.word) + behind
    match = re.search(word, text[:_SEARCHED], re.IGNORECASE) if word else None
    return syntax_error(text, match.start() if match else len(text))


def after(text: str, position: int) -> int:
    """The position of the next word, after white space."""
    return position + len(text[position:]) - len(text[position:].lstrip())
