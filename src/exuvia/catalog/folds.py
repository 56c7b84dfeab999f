"""What case-insensitive collations see of a text: every character replaced by what it is equal to.

    general fold    one character for one: upper case of the letter without its accent; outside the
                    basic multilingual plane every character is U+FFFD, so all are equal. Equal to
                    the weights MariaDB 10.11 prints for every character of that plane
    unicode fold    compatibility forms, accents and case removed (one character may become
                    several); ASCII is renumbered to the order of the Unicode collation:
                    control < space < punctuation < 0-9 < a-z

The results sort by code point and are used by nothing but sort keys.
"""

import unicodedata

from exuvia.base.interruption import PIECE, in_pieces

_OLD = unicodedata.ucd_3_2_0  # MySQL's table is of that age
_BEYOND = "\ufffd"
_ACCENTED = (range(0x600), range(0x1E00, 0x2000))  # Latin, Greek and Cyrillic
_ALONE = "\u0419\u019e\u03d9\u03f5\u048b\u04c6\u04ca\u04ce" + "".join(
    map(chr, range(0x501, 0x510, 2))
)
_EXCEPTIONS = {"\u00df": "S", "\u03f2": "\u03a3", "\u0439": "\u0419"} | {c: c for c in _ALONE}
_UCA_ASCII = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_UNICODE_ORDER = {ord(c): chr(0x20 + n) for n, c in enumerate(_UCA_ASCII)}
_CONTROLS = {n: None for n in range(0x20) if not 9 <= n <= 13} | {0x7F: None}
_UNICODE_ASCII = _UNICODE_ORDER | _CONTROLS


class _General(dict[int, str]):
    """Fold of each character, found once."""

    def __missing__(self, code: int) -> str:
        if code > 0xFFFF:  # as many as there are: not worth the room
            return _BEYOND
        folded = _general(code)
        self[code] = folded
        return folded


def _general(code: int) -> str:
    if code > 0xFFFF:
        return _BEYOND
    character = chr(code)
    if character in _EXCEPTIONS:
        return _EXCEPTIONS[character]
    base = _without_accent(character)
    upper = base.upper()
    is_known = len(upper) == 1 and _OLD.category(upper) != "Cn" and _OLD.category(base) != "Cn"
    return upper if is_known else base


def _without_accent(character: str) -> str:
    parts = _OLD.decomposition(character).split()
    is_accented = len(parts) == 2 and not parts[0].startswith("<")
    if not is_accented or not _OLD.category(character).startswith("L"):
        return character
    if not any(ord(character) in span for span in _ACCENTED):
        return character
    return _OLD.normalize("NFD", character)[0]


_GENERAL = _General()


def general_fold(text: str) -> str:
    """The text as utf8mb4_general_ci compares it."""
    if len(text) <= PIECE:
        return _general_piece(text)
    return "".join(in_pieces(text, _general_piece))


def _general_piece(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_GENERAL)


def unicode_fold(text: str) -> str:
    """The text as utf8mb4_unicode_ci and utf8mb4_0900_ai_ci compare it, about."""
    if len(text) <= PIECE:
        return _unicode_piece(text)
    return "".join(in_pieces(text, _unicode_piece))


def _unicode_piece(text: str) -> str:
    """Of any piece: compatibility forms are by character, and marks, whose order the pieces could
    change, go."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text.casefold())
        text = "".join([c for c in apart if not unicodedata.combining(c)]).casefold()
    return text.lower().translate(_UNICODE_ASCII)
