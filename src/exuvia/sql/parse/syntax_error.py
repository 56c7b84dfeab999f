"""1064 in TiDB's words: line, column and what stands there.

    CREATE TABL t (a int)    ->    ... use line 1 column 11 near "TABL t (a int)"

The column counts bytes up to the end of the word at fault, from 1 on every line but the first.
"""

import re

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrParse

MARK = "\x02"
"""In the text of a statement: this word means what a mode of sql_mode makes of it (sql_mode.py)."""
NEAR_BYTES = 2048
_LONGEST_WORD = 1 << 16  # `re` holds the interpreter while it matches
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
    """A word that the grammar has no place for, found after parsing; `word` as it is written."""

    def __init__(self, word: str) -> None:
        super().__init__(ErrParse.code, ErrParse.state, ErrParse.text % f'near "{word}" ')
        self.word = word

    def __reduce__(self) -> tuple[object, ...]:
        return (Misplaced, (self.word,))


def syntax_error(text: str, position: int) -> Refused:
    """1064 for what stands at this position of the text; at its end nothing does."""
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
    """The error as the text's client reads it: a misplaced word is looked for in the text."""
    if not isinstance(error, Misplaced):
        return error
    before = r"(?<![\w$])" if error.word[:1].isalnum() else ""
    behind = r"(?![\w$])" if error.word[-1:].isalnum() else ""
    word = before + re.escape(error.word) + behind
    found = re.search(word, text[:_SEARCHED], re.IGNORECASE) if word else None
    return syntax_error(text, found.start() if found else len(text))


def after(text: str, position: int) -> int:
    """Where the next word begins: past white space."""
    return position + len(text[position:]) - len(text[position:].lstrip())
