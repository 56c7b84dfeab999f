r"""Collations: a text's sort key is bytes whose order and equality are those of the text.

    collation                        order by           case, accents   trailing spaces   fold
    binary, utf8mb4_0900_bin         bytes              differ          count (NO PAD)    none
    *_bin                            code points        differ          no (PAD SPACE)    none
    *_general_ci, *_swedish_ci       one weight each    are ignored     no (PAD SPACE)    general
    *_unicode_ci                     about the UCA      are ignored     no (PAD SPACE)    unicode
    *_unicode_520_ci                 the UCA 5.2        are ignored     no (PAD SPACE)    520
    latin1_general_ci, _cs           one weight each    ignored, differ no (PAD SPACE)    latin1
    utf8mb4_0900_as_cs               about the UCA      differ          count (NO PAD)    as_cs
    *_0900_ai_ci                     about the UCA      are ignored     count (NO PAD)    unicode
    gbk_bin, gb18030_bin             its bytes          differ          no (PAD SPACE)    GBK, ..

A sort key is the folded text in UTF-8 (its order is that of code points). It is escaped so that it
has an end of its own and composite keys sort correctly:

    NO PAD       00 -> 00 FF, end 00 00
    PAD SPACE    a text compares as if spaces followed for ever. Trailing spaces are dropped and
                     end                                          20 01
                     a space, next other character < space        20 00
                     a space, next other character > space        20 02
                 so 'a' = 'a ', 'a' > 'a\t', 'a' < 'a b', and no byte needs an escape

The unicode fold approximates the UCA. It removes case, accents and compatibility forms; ASCII sorts
in the UCA's order, other scripts by code point. Source: MySQL manual, "Unicode Character Sets";
Unicode TR 10.

Folds of case-insensitive collations: every character is replaced by a representative of its equals.

    general fold    one character for one: upper case of the letter without its accent; outside the
                    basic multilingual plane every character is U+FFFD, so all are equal. Equal to
                    the weights MariaDB 10.11 prints for every character of that plane
    unicode fold    compatibility forms, accents and case removed (one character may become
                    several); ASCII is renumbered to the order of the Unicode collation:
                    control < space < punctuation < 0-9 < a-z

    520             each character's primary weights of UCA 5.2.0 (catalog/weights), as MariaDB
                    10.11 prints them, shifted so that a space has 20
    latin1          the weight of each byte of cp1252, from the same source
    latin2 and its  the weight of each byte, by tables (catalog/weights); of _bin the byte itself
    like
    as_cs           the unicode fold, then accents, then case, lower before upper: each level
                    decides if those before it are equal

    GBK, GB18030    exact: different texts stay different. A byte is its code point, a pair of bytes
                    one beyond U+10000, so texts sort as their bytes in that charset. What GBK
                    lacks is its question mark, as in TiDB

Folded texts sort by code point and are used for sort keys only. The _chinese_ci collations, whose
order is a table of pinyin, are not supported.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache

import numpy as np

from exuvia.base.interruption import PIECE, in_pieces
from exuvia.base.long_text import joined
from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrUnknownCollation
from exuvia.catalog.convert.charset_codecs import SINGLE_BYTE
from exuvia.catalog.weights import (
    LATIN1_GENERAL_CI,
    LATIN1_GENERAL_CS,
    single_byte,
    weights_520,
)

Fold = Callable[[str], str]

_OLD = unicodedata.ucd_3_2_0  # the version of MySQL's table
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
    """The fold of each character, cached."""

    def __missing__(self, code: int) -> str:
        if code > 0xFFFF:  # too many characters for the cache
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
    """The form of the text that utf8mb4_general_ci compares."""
    if len(text) <= PIECE:
        return _general_piece(text)
    return joined("", in_pieces(text, _general_piece))


def _general_piece(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_GENERAL)


def unicode_fold(text: str) -> str:
    """The approximate form of the text that utf8mb4_unicode_ci and utf8mb4_0900_ai_ci compare."""
    if len(text) <= PIECE:
        return _unicode_piece(text)
    return joined("", in_pieces(text, _unicode_piece))


def _unicode_piece(text: str) -> str:
    """The fold of any piece of a text: compatibility forms depend on single characters, and marks,
    whose order depends on the piece, are removed."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text.casefold())
        text = "".join([c for c in apart if not unicodedata.combining(c)]).casefold()
    return text.lower().translate(_UNICODE_ASCII)


class _Weights520(dict[int, str]):
    """A cache of the weights of characters, as text; cleared when it is large."""

    MOST = 1 << 16
    SPACE = 0x20A

    def __missing__(self, code: int) -> str:
        less = self.SPACE - 0x20
        if len(self) >= self.MOST:
            self.clear()
        weights = self[code] = "".join(chr(weight - less) for weight in weights_520(code))
        return weights


_WEIGHTS_520 = _Weights520()


def unicode_520_fold(text: str) -> str:
    """The form of the text that utf8mb4_unicode_520_ci compares."""
    return joined("", in_pieces(text, lambda piece: piece.translate(_WEIGHTS_520)))


def _latin1_fold(weights: bytes) -> Fold:
    """A function to the sort key in a latin1 collation. Characters outside latin1 sort last."""
    table = {n: chr(weights[n]) for n in range(256)}
    for n in range(0x80, 0xA0):
        sign = bytes([n]).decode("cp1252", "ignore")
        table |= {ord(sign): chr(weights[n])} if sign else {}
    return lambda text: joined("", in_pieces(text, lambda piece: piece.translate(table)))


def as_cs_fold(text: str) -> str:
    """The approximate sort key in utf8mb4_0900_as_cs."""
    apart = unicodedata.normalize("NFD", text)
    marks = "".join(character if unicodedata.combining(character) else "\2" for character in apart)
    case = "".join(map(_other_case, apart))
    return f"{unicode_fold(text)}\1{marks.rstrip(chr(2))}\1{case}"


def _other_case(sign: str) -> str:
    """The character in the other case, so that lower case sorts before upper case."""
    swapped = sign.swapcase()
    return swapped if len(swapped) == 1 else sign


class _Pairs(dict[int, str]):
    """Code point -> its bytes in a charset as a pair of characters, cached (see the module)."""

    MOST = 1 << 16

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def __missing__(self, code: int) -> str:
        raw = chr(code).encode(self._codec, "replace")
        if len(raw) == 1:
            signs = chr(raw[0])
        else:
            pairs = (raw[at : at + 2] for at in range(0, len(raw), 2))
            signs = "".join(chr(0x10000 + int.from_bytes(pair, "big")) for pair in pairs)
        if len(self) >= self.MOST:
            self.clear()
        self[code] = signs
        return signs


_GBK, _GB18030 = _Pairs("gbk"), _Pairs("gb18030")


def gbk_fold(text: str) -> str:
    """The sort order of gbk_bin."""
    return (
        text if text.isascii() else joined("", in_pieces(text, lambda piece: piece.translate(_GBK)))
    )


def gb18030_fold(text: str) -> str:
    """The sort order of gb18030_bin."""
    if text.isascii():
        return text
    return joined("", in_pieces(text, lambda piece: piece.translate(_GB18030)))


# -- collation -------------------------------------------------------------------------------------

_CONTROL = re.compile(rb"[\x00-\x1f]")
_SPACES = re.compile(rb" +([\x00-\x1f])?")
MANY = 16  # texts that are checked together
SPACE = 0x20
END_PAD = b" \x01"
END_NO_PAD = b"\x00\x00"


class _OneForOne(dict[int, str]):
    """A cache of the one-character fold of each character; cleared when it is large.

    A character that folds to several, as the sharp s to `ss`, equals only those with the same fold.
    It is replaced by a private character. These are not cleared, since patterns keep them."""

    MOST = 1 << 16

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._several: dict[str, str] = {}  # characters that represent several weights

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        if len(self) >= self.MOST:
            self.clear()
        folded = self._fold(sign) or sign
        if len(folded) > 1:
            sign_of_fold = self._several.setdefault(folded, chr(0xF0000 + len(self._several)))
        else:
            sign_of_fold = folded[0]
        self[code] = sign_of_fold
        return sign_of_fold


class Collation:
    """One collation.

    `fold`: None if the text itself is compared. `pads`: PAD SPACE. `is_exact`: equal texts are
    identical, except for trailing spaces."""

    __slots__ = ("_one_for_one", "fold", "is_exact", "name", "pads")

    def __init__(self, name: str, fold: Fold | None, pads: bool, is_exact: bool = False) -> None:
        self.name = name
        self.fold = fold
        self.pads = pads
        self.is_exact = fold is None or is_exact
        self._one_for_one = _OneForOne(fold or str)

    @property
    def keeps_text(self) -> bool:
        """Whether a text can be decoded from its sort key (without trailing spaces, if it pads)."""
        return self.fold is None

    @property
    def is_short(self) -> bool:
        """Whether a character takes at most four bytes of a key."""
        return self.fold not in (unicode_fold, unicode_520_fold, as_cs_fold, gb18030_fold)

    @property
    def keeps_prefixes(self) -> bool:
        """Whether the keys of all texts that begin with a text begin with its key, without its end
        and without trailing spaces."""
        return self.fold is not as_cs_fold

    @property
    def folds_bytes(self) -> bool:
        """Whether ASCII is folded to ASCII, byte for byte."""
        return self.fold in (general_fold, unicode_fold, gbk_fold, gb18030_fold)

    def fold_each(self, text: str) -> str:
        """The text folded to one character for each, as LIKE and LOCATE compare it."""
        if self.is_exact:
            return text
        if len(text) <= PIECE:
            return text.translate(self._one_for_one)
        return joined("", in_pieces(text, lambda piece: piece.translate(self._one_for_one)))

    def sort_key(self, text: str) -> bytes:
        """The key, which has an end of its own."""
        folded = (text if self.fold is None else self.fold(text)).encode("utf-8", "surrogatepass")
        return pad_space_key(folded) if self.pads else no_pad_key(folded)

    def sort_keys_of(self, texts: Sequence[str]) -> Sequence[str] | list[bytes]:
        """Keys that order these texts among each other as `sort_key` does.

        Unfolded texts are their own keys if every character sorts after the ends of keys."""
        if self.fold is None and len(texts) >= MANY:
            with suppress(UnicodeEncodeError):  # a lone surrogate
                whole = np.frombuffer("".join(texts).encode(), np.uint8)
                if not len(whole) or whole.min() > SPACE:
                    return texts
        return [self.sort_key(text) for text in texts]


def no_pad_key(data: bytes) -> bytes:
    """Bytes that compare unchanged, as a key with an end of its own."""
    return (data.replace(b"\0", b"\0\xff") if b"\0" in data else data) + END_NO_PAD


def pad_space_key(data: bytes) -> bytes:
    """UTF-8 that compares as if followed by infinite spaces, as a key with an end of its own."""
    data = data.rstrip(b" ")
    if b" " in data:
        if _CONTROL.search(data):
            data = _SPACES.sub(_mark_run, data)
        else:
            data = data.replace(b" ", b" \x02")
    return data + END_PAD


def _mark_run(run: "re.Match[bytes]") -> bytes:
    control = run[1]
    if control is None:
        return b" \x02" * len(run[0])
    return b" \x00" * (len(run[0]) - 1) + control


def read_no_pad(encoded: bytes, start: int) -> tuple[bytes, int]:
    """The bytes whose NO PAD key begins at `start`, and its end. Raises IndexError if it has no
    end."""
    at = start
    while True:
        at = encoded.find(b"\0", at)
        if at < 0 or at + 1 >= len(encoded):
            raise IndexError(start)
        if encoded[at + 1] == 0:
            return encoded[start:at].replace(b"\0\xff", b"\0"), at + 2
        at += 2


def read_pad_space(encoded: bytes, start: int) -> tuple[bytes, int]:
    """The bytes (without trailing spaces) whose PAD SPACE key begins at `start`, and its end.
    Raises IndexError."""
    parts, at = [], start
    while True:
        space = encoded.find(b" ", at)
        if space < 0 or space + 1 >= len(encoded):
            raise IndexError(start)
        parts.append(encoded[at:space])
        at = space + 2
        if encoded[space + 1] == 1:
            return b"".join(parts), at
        parts.append(b" ")


_LATIN1 = {
    "latin1_general_ci": _latin1_fold(LATIN1_GENERAL_CI),
    "latin1_general_cs": _latin1_fold(LATIN1_GENERAL_CS),
}
_BY_BYTES: dict[str, Fold] = {"gbk_bin": gbk_fold, "gb18030_bin": gb18030_fold}


@cache
def single_byte_folds() -> dict[str, Fold]:
    """Collation -> function to its sort key, for single-byte character sets, `_bin` included.

    A character outside the set sorts as the question mark."""
    characters, of_bytes = single_byte()
    orders = {f"{charset}_bin": bytes(range(256)) for charset in characters}
    return {
        name: _byte_fold(characters[name.partition("_")[0]], weights)
        for name, weights in (orders | of_bytes).items()
    }


def _byte_fold(characters: str, weights: bytes) -> Fold:
    table = _Weighed({ord(sign): chr(weights[n]) for n, sign in enumerate(characters)})
    table.other = chr(weights[ord("?")])
    return lambda text: joined("", in_pieces(text, lambda piece: piece.translate(table)))


class _Weighed(dict[int, str]):
    other = "?"

    def __missing__(self, code: int) -> str:
        return self.other


@lru_cache(maxsize=256)
def collation(name: str) -> Collation:
    """The collation of that name. Raises 1273."""
    lower = name.lower()
    if lower in ("binary", "utf8mb4_0900_bin"):
        return Collation(lower, None, pads=False)
    if lower in _BY_BYTES:
        return Collation(lower, _BY_BYTES[lower], pads=True, is_exact=True)
    if lower in _LATIN1:
        return Collation(lower, _LATIN1[lower], pads=True)
    if lower.partition("_")[0] in SINGLE_BYTE and lower in single_byte_folds():
        is_bin = lower.endswith("_bin")
        return Collation(lower, single_byte_folds()[lower], pads=True, is_exact=is_bin)
    if lower == "utf8mb4_0900_as_cs":
        return Collation(lower, as_cs_fold, pads=False, is_exact=True)
    if lower.endswith("_bin"):
        return Collation(lower, None, pads=True)
    if lower.endswith(("_general_ci", "_swedish_ci")):
        return Collation(lower, general_fold, pads=True)
    if lower.endswith("_unicode_520_ci"):
        return Collation(lower, unicode_520_fold, pads=True)
    if lower.endswith("_unicode_ci"):
        return Collation(lower, unicode_fold, pads=True)
    if lower.endswith("_0900_ai_ci"):
        return Collation(lower, unicode_fold, pads=False)
    raise ErrUnknownCollation(name)


def weights(text: str, collate: str) -> bytes:
    """WEIGHT_STRING: the weights as in TiDB; two bytes a character if case is ignored.

    Supports only the UCA weights that depend on the code point; raises 1235 for others."""
    order = collation(collate)
    text = text.rstrip(" ") if order.pads else text
    if order.fold is unicode_520_fold:
        code_weights = (weight for sign in text for weight in weights_520(ord(sign)))
        return b"".join(weight.to_bytes(2, "big") for weight in code_weights)
    if order.name in _LATIN1 or order.name.partition("_")[0] in SINGLE_BYTE:
        return order.fold(text).encode("latin-1", "replace") if order.fold else b""
    if order.fold is as_cs_fold:
        raise ErrNotSupportedYet(f"WEIGHT_STRING in {collate}")
    if order.is_exact:
        return text.encode(collate.partition("_")[0] if order.fold else "utf-8", "replace")
    if order.fold is general_fold:
        return b"".join(min(ord(sign), 0xFFFD).to_bytes(2, "big") for sign in general_fold(text))
    if not all("\u4e00" <= sign <= "\u9fff" for sign in text):
        raise ErrNotSupportedYet(f"WEIGHT_STRING in {collate}")
    return b"".join(
        (0xFB40 + (ord(sign) >> 15)).to_bytes(2, "big")
        + (ord(sign) & 0x7FFF | 0x8000).to_bytes(2, "big")
        for sign in text
    )


def sort_key(text: str, collate: str) -> bytes:
    """The text's key under the collation: equal texts have equal keys, order is the keys' order.
    Raises 1273."""
    return collation(collate).sort_key(text)


def compare(left: str, right: str, collate: str) -> int:
    """-1, 0 or 1 by the collation's order of the two texts. Raises 1273."""
    order = collation(collate)
    a, b = order.sort_key(left), order.sort_key(right)
    return (a > b) - (a < b)
