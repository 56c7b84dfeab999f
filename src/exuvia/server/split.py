"""The statements of one text, as clients send several at once."""

import re

_PIECES = re.compile(
    r"""'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+"|`[^`]*+`"""
    r"""|--(?=\s)[^\n]*+|\#[^\n]*+|/\*.*?\*/|;""",
    re.DOTALL,
)
_BLANK = re.compile(r"(?:\s++|--(?=\s)[^\n]*+|#[^\n]*+|/\*(?!!).*?\*/)*+", re.DOTALL)


def split(text: str) -> list[str]:
    """The statements of a text, at the semicolons outside of strings, names and comments."""
    if ";" not in text.rstrip("; \n\t\r"):
        return [text]
    pieces, start = [], 0
    for token in _PIECES.finditer(text):
        if token.group() == ";":
            pieces.append(text[start : token.start()])
            start = token.end()
    pieces.append(text[start:])
    return [each for each in pieces if not _BLANK.fullmatch(each)] or [text]
