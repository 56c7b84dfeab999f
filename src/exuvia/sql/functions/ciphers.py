"""AES_ENCRYPT, AES_DECRYPT (manual, "Encryption Functions"; FIPS 197).

    key      the given bytes folded by XOR into 16, 24 or 32
    mode     @@block_encryption_mode: ecb, cbc (padded by PKCS 7), ofb, cfb128 (not padded)
    state    16 bytes, column by column; a round is SubBytes, ShiftRows, MixColumns, AddRoundKey

The tables are computed from the field's arithmetic when the first value is encrypted. What does not
decrypt (a wrong key, a length that is no multiple of 16) is NULL.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

from exuvia.base.interruption import checked
from exuvia.base.mysql_errors import (
    ErrAesInvalidIv,
    ErrWrongParamcountToNativeFct,
    WarnOptionIgnored,
)
from exuvia.sql import types
from exuvia.sql.functions.table import Function, always

_BLOCK = 16
_ROWS = [0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11]  # ShiftRows: where a byte is from
_STREAMS = ("ofb", "cfb128")


def _times(a: int, b: int) -> int:
    """A product in GF(2^8), modulo x^8 + x^4 + x^3 + x + 1."""
    found = 0
    while b:
        if b & 1:
            found ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return found


@lru_cache(1)
def _boxes() -> tuple[bytes, bytes]:
    """SubBytes and its inverse."""
    power, powers = 1, []
    for _ in range(255):
        powers.append(power)
        power = _times(power, 3)
    box = bytearray(256)
    for value in range(256):
        inverse = powers[-powers.index(value) % 255] if value else 0
        turned = 0
        for n in range(5):  # the byte and its rotations by 1 to 4, added without carry
            turned ^= (inverse << n | inverse >> 8 - n) & 0xFF
        box[value] = turned ^ 0x63
    back = bytearray(256)
    for value, found in enumerate(box):
        back[found] = value
    return bytes(box), bytes(back)


@lru_cache(8)
def _product(factor: int) -> bytes:
    return bytes(_times(value, factor) for value in range(256))


@lru_cache(64)
def _round_keys(key: bytes) -> tuple[bytes, ...]:
    box, words = _boxes()[0], [key[n : n + 4] for n in range(0, len(key), 4)]
    size, factor = len(words), 1
    for n in range(size, 4 * (size + 7)):
        word = words[-1]
        if n % size == 0:
            word = bytes(box[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ factor]) + word[1:]
            factor = _times(factor, 2)
        elif size > 6 and n % size == 4:
            word = bytes(box[b] for b in word)
        words.append(_xor(words[-size], word))
    return tuple(b"".join(words[n : n + 4]) for n in range(0, len(words), 4))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=False))


def _mixed(state: bytes, factors: tuple[int, int, int, int]) -> bytes:
    tables = [_product(factor) for factor in factors]
    return bytes(
        tables[0][state[c + r]]
        ^ tables[1][state[c + (r + 1) % 4]]
        ^ tables[2][state[c + (r + 2) % 4]]
        ^ tables[3][state[c + (r + 3) % 4]]
        for c in (0, 4, 8, 12)
        for r in range(4)
    )


def _encrypt_block(block: bytes, keys: tuple[bytes, ...]) -> bytes:
    box, state = _boxes()[0], _xor(block, keys[0])
    for n, key in enumerate(keys[1:], 1):
        state = bytes(box[state[place]] for place in _ROWS)
        if n < len(keys) - 1:
            state = _mixed(state, (2, 3, 1, 1))
        state = _xor(state, key)
    return state


def _decrypt_block(block: bytes, keys: tuple[bytes, ...]) -> bytes:
    back, state = _boxes()[1], _xor(block, keys[-1])
    for n in range(len(keys) - 2, -1, -1):
        moved = bytearray(_BLOCK)
        for place, source in enumerate(_ROWS):
            moved[source] = back[state[place]]
        state = _xor(bytes(moved), keys[n])
        if n:
            state = _mixed(state, (14, 11, 13, 9))
    return state


def _blocks(raw: bytes) -> Iterator[bytes]:
    return checked(raw[n : n + _BLOCK] for n in range(0, len(raw), _BLOCK))


def _padded(raw: bytes) -> bytes:
    missing = _BLOCK - len(raw) % _BLOCK
    return raw + bytes([missing]) * missing


def _unpadded(raw: bytes) -> bytes | None:
    count = raw[-1] if raw else 0
    if not 1 <= count <= _BLOCK or raw[-count:] != bytes([count]) * count:
        return None
    return raw[:-count]


def _stream(raw: bytes, keys: tuple[bytes, ...], vector: bytes, mode: str, forth: bool) -> bytes:
    found = bytearray()
    for block in _blocks(raw):
        mask = _encrypt_block(vector, keys)
        out = _xor(block, mask)
        vector = mask if mode == "ofb" else out if forth else block
        found += out
    return bytes(found)


def _encrypt(env: Any, raw: bytes, password: bytes, vector: bytes | None = None) -> bytes:
    mode, keys, start = _asked(env, "aes_encrypt", password, vector)
    if mode in _STREAMS:
        return _stream(raw, keys, start, mode, True)
    found, last = [], start
    for block in _blocks(_padded(raw)):
        last = _encrypt_block(_xor(block, last) if mode == "cbc" else block, keys)
        found.append(last)
    return b"".join(found)


def _decrypt(env: Any, raw: bytes, password: bytes, vector: bytes | None = None) -> bytes | None:
    mode, keys, start = _asked(env, "aes_decrypt", password, vector)
    if mode in _STREAMS:
        return _stream(raw, keys, start, mode, False)
    if not raw or len(raw) % _BLOCK:
        return None
    plain = [_decrypt_block(block, keys) for block in _blocks(raw)]
    if mode == "cbc":
        before = pairwise([start, *_blocks(raw)])
        plain = [_xor(block, last) for block, (last, _) in zip(plain, before, strict=True)]
    return _unpadded(b"".join(plain))


def _asked(
    env: Any, name: str, password: bytes, vector: bytes | None
) -> tuple[str, tuple[bytes, ...], bytes]:
    """(mode, round keys, initialization vector). Raises 1582, 1882."""
    text = env.variable("block_encryption_mode") if hasattr(env, "variable") else "aes-128-ecb"
    _, bits, mode = text.lower().split("-")
    folded = bytearray(int(bits) // 8)
    for n, byte in enumerate(password):
        folded[n % len(folded)] ^= byte
    keys = _round_keys(bytes(folded))
    if mode == "ecb":
        if vector is not None:
            env.raise_or_note(WarnOptionIgnored("IV"))
        return mode, keys, bytes(_BLOCK)
    if vector is None:
        raise ErrWrongParamcountToNativeFct(name)
    if len(vector) < _BLOCK:
        raise ErrAesInvalidIv(name, _BLOCK)
    return mode, keys, vector[:_BLOCK]


FUNCTIONS = {
    "aes_decrypt": Function(2, 3, "b", always(types.blob(65535)), _decrypt, env=True),
    "aes_encrypt": Function(2, 3, "b", always(types.blob(65535)), _encrypt, env=True),
}
