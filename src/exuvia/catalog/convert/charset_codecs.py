"""Codecs between texts and the bytes of their MySQL character set.

Texts are stored as UTF-8. LENGTH, HEX, `_bin` collations and conversions to binary types use the
bytes of the column's character set, which these codecs compute.

The single-byte codecs are MySQL's tables. Python's codecs of the same name differ in some
characters (koi8u, cp866, greek, hebrew, cp1256). Bytes without a character are refused.
"""

import codecs
from functools import cache
from typing import Any

from exuvia.catalog.weights import single_byte

SINGLE_BYTE = (
    *("latin2", "latin5", "latin7", "greek", "hebrew", "cp1250", "cp1251", "cp1256", "cp1257"),
    *("koi8r", "koi8u", "cp850", "cp852", "cp866", "macroman", "macce"),
)
_PREFIX = "exuvia_"
CODECS = {"gbk": "gbk", "gb18030": "gb18030", **{name: _PREFIX + name for name in SINGLE_BYTE}}
LATIN1 = _PREFIX + "latin1"  # MySQL's: cp1252, and control characters for its five gaps
WIDE_CODECS = {
    "utf16": "utf-16-be",
    "ucs2": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
"""For CHAR(.. USING charset) only."""
NARROW_CODECS = {name: codec for name, codec in CODECS.items() if name != "gb18030"}


@cache
def _codec(name: str) -> codecs.CodecInfo | None:
    charset = name.removeprefix(_PREFIX)
    if charset == name or charset not in (*SINGLE_BYTE, "latin1"):
        return None
    if name == LATIN1:
        each_byte = (bytes((byte,)) for byte in range(256))
        characters = "".join(byte.decode("cp1252", "ignore") or chr(byte[0]) for byte in each_byte)
    else:
        characters = single_byte().characters[charset]
    table = codecs.charmap_build(characters)

    def encode(text: str, errors: str = "strict", /) -> tuple[bytes, int]:
        return codecs.charmap_encode(text, errors, table)

    def decode(raw: Any, errors: str = "strict", /) -> tuple[str, int]:
        return codecs.charmap_decode(raw, errors, characters)

    return codecs.CodecInfo(encode, decode, name=name)


codecs.register(_codec)
