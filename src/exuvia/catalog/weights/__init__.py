"""Weights of collations as tables: what each character weighs.

    unicode_520.bin    UCA 5.2.0: of each character its primary weights, without those that follow
                       from the code point (implicit)
    LATIN1_GENERAL_..  of each byte of latin1 (cp1252)
    single_byte.bin    lines `name hex`: the characters of MySQL's character sets of one byte each
                       (UTF-16, U+FFFE for none) and, of their collations, what each byte weighs

The weights are those that MariaDB 10.11 returns as WEIGHT_STRING. The file is compressed with zlib
and has little-endian numbers:

    u32          number of characters
    u32 each     distance of the code point from the previous one
    u8 each      number of its weights
    u16 each     distance of a weight from the previous one, modulo 65536
"""

import zlib
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

LATIN1_GENERAL_CI = bytes.fromhex(
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
    "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40415153575b6567696b7577797b7d81"
    "8f919395989aa4a6a8aaafb3b4b5b6b7b8415153575b6567696b7577797b7d818f919395989aa4a6"
    "a8aaafb9babbbcbfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
    "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff434547494b4d4f55"
    "5d5f61636d6f7173597f838587898bbd8d9c9ea0a2acb197434547494b4d4f555d5f61636d6f7173"
    "597f838587898bbe8d9c9ea0a2acb1ae"
)
LATIN1_GENERAL_CS = bytes.fromhex(
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
    "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40415153575b6567696b7577797b7d81"
    "8f919395989aa4a6a8aaafb3b4b5b6b7b8425254585c66686a6c76787a7c7e8290929496999ba5a7"
    "a9abb0b9babbbcbfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
    "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff434547494b4d4f55"
    "5d5f61636d6f7173597f838587898bbd8d9c9ea0a2acb1974446484a4c4e50565e6062646e707274"
    "5a808486888a8cbe8e9d9fa1a3adb2ae"
)
_UNIFIED = (
    range(0x4E00, 0x9FA6),
    *(
        range(code_point, code_point + 1)
        for code_point in (0xFA0E, 0xFA0F, 0xFA11, 0xFA13, 0xFA14, 0xFA1F, 0xFA21)
    ),
    *(range(code_point, code_point + 1) for code_point in (0xFA23, 0xFA24, 0xFA27, 0xFA28, 0xFA29)),
)
_EXTENDED = range(0x3400, 0x4DB6)


class SingleByte(NamedTuple):
    """Single-byte character sets: name -> 256 characters, and collation -> 256 weights."""

    characters: dict[str, str]
    weights: dict[str, bytes]


@lru_cache(1)
def single_byte() -> SingleByte:
    """The tables of single_byte.bin, which has no LATIN1_GENERAL_..."""
    raw = zlib.decompress(files(__name__).joinpath("single_byte.bin").read_bytes())
    tables = [line.split() for line in raw.decode().splitlines()]
    texts: dict[str, str] = {}
    weights: dict[str, bytes] = {}
    for name, table in tables:
        if len(table) == 1024:
            texts[name] = bytes.fromhex(table).decode("utf-16-le")
        else:
            weights[name] = bytes.fromhex(table)
    return SingleByte(texts, weights)


def single_byte_collations() -> list[str]:
    """The names of all their collations, `_bin` too."""
    tables = single_byte()
    return [*tables.weights, *(f"{charset}_bin" for charset in tables.characters)]


@lru_cache(1)
def unicode_520() -> dict[int, tuple[int, ...]]:
    """Code point -> primary weights. An ignored character has the empty tuple."""
    raw = zlib.decompress(files(__name__).joinpath("unicode_520.bin").read_bytes())
    number = int.from_bytes(raw[:4], "little")
    ends = 4, 4 + 4 * number, 4 + 5 * number
    codes = np.cumsum(np.frombuffer(raw[ends[0] : ends[1]], "<u4").astype(np.int64)) - 1
    lengths = np.frombuffer(raw[ends[1] : ends[2]], np.uint8)
    weights = np.cumsum(np.frombuffer(raw[ends[2] :], "<u2").astype(np.int64)) % 0x10000
    parts = np.split(weights, np.cumsum(lengths)[:-1])
    return {int(code): tuple(part.tolist()) for code, part in zip(codes, parts, strict=True)}


def weights_520(code: int) -> tuple[int, ...]:
    """Primary weights of a character in UCA 5.2.0."""
    known_weights = unicode_520().get(code)
    if known_weights is not None:
        return known_weights
    base = 0xFBC0
    if any(code in span for span in _UNIFIED):
        base = 0xFB40
    elif code in _EXTENDED:
        base = 0xFB80
    return base + (code >> 15), code & 0x7FFF | 0x8000
