"""What case-insensitive collations see of a text: every character replaced by what it is equal to.

    general fold    one character for one: upper case of the letter without its accent; outside the basic
                    multilingual plane every character is U+FFFD (so all are equal, as in MySQL)
    unicode fold    compatibility forms, accents and case removed (one character may become several); ASCII
                    is renumbered to the order of the Unicode collation: control < space < punctuation < 0-9 < a-z

The results sort by code point and are used by nothing but sort keys.
"""

import unicodedata

_BEYOND = "\ufffd"
_UCA_ASCII = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_UNICODE_ORDER = {ord(c): chr(0x20 + n) for n, c in enumerate(_UCA_ASCII)}
_CONTROLS = {n: None for n in range(0x20) if not 9 <= n <= 13} | {0x7F: None}
_UNICODE_ASCII = _UNICODE_ORDER | _CONTROLS


class _General(dict[int, str]):
    """Fold of each character, found once."""

    def __missing__(self, code: int) -> str:
        folded = _general(code)
        self[code] = folded
        return folded


def _general(code: int) -> str:
    if code > 0xFFFF:
        return _BEYOND
    base = unicodedata.normalize("NFD", chr(code))[0]
    upper = base.upper()
    return upper if len(upper) == 1 and ord(upper) <= 0xFFFF else base


_GENERAL = _General()


def general_fold(text: str) -> str:
    """The text as utf8mb4_general_ci compares it."""
    return text.upper() if text.isascii() else text.translate(_GENERAL)


def unicode_fold(text: str) -> str:
    """The text as utf8mb4_unicode_ci and utf8mb4_0900_ai_ci compare it, about."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text.casefold())
        text = "".join([c for c in apart if not unicodedata.combining(c)]).casefold()
    return text.lower().translate(_UNICODE_ASCII)
