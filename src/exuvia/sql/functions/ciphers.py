"""AES_ENCRYPT, AES_DECRYPT (manual, "Encryption Functions"; FIPS 197).

    key      the given bytes folded by XOR into 16, 24 or 32
    mode     @@block_encryption_mode: ecb, cbc (padded by PKCS 7), ofb, cfb128 (not padded)

The cipher is OpenSSL's, through `cryptography`, which is loaded when the first value is encrypted.
A long value goes through it in pieces, so that a statement can be ended in between. What does not
decrypt (a wrong key, a length that is no multiple of 16) is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from exuvia.base.interruption import checked, in_pieces
from exuvia.base.mysql_errors import (
    ErrAesInvalidIv,
    ErrWrongParamcountToNativeFct,
    WarnOptionIgnored,
)
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.functions.table import Function, always

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext

_BLOCK = 16
_PADDED = ("ecb", "cbc")


def _encrypt(env: Env, raw: bytes, password: bytes, vector: bytes | None = None) -> bytes:
    mode, cipher = _cipher(env, "aes_encrypt", password, vector)
    if mode in _PADDED:
        missing = _BLOCK - len(raw) % _BLOCK
        raw += bytes([missing]) * missing
    return _through(cipher.encryptor(), raw)


def _decrypt(env: Env, raw: bytes, password: bytes, vector: bytes | None = None) -> bytes | None:
    mode, cipher = _cipher(env, "aes_decrypt", password, vector)
    if mode not in _PADDED:
        return _through(cipher.decryptor(), raw)
    if not raw or len(raw) % _BLOCK:
        return None
    padded = _through(cipher.decryptor(), raw)
    count = padded[-1]
    if not 1 <= count <= _BLOCK or padded[-count:] != bytes([count]) * count:
        return None
    return padded[:-count]


def _through(context: CipherContext, raw: bytes) -> bytes:
    return b"".join(in_pieces(raw, context.update)) + context.finalize()


def _cipher(env: Env, name: str, password: bytes, vector: bytes | None) -> tuple[str, Cipher[Any]]:
    """The mode and the cipher of a call of `name`. Raises 1582, 1882."""
    from cryptography.hazmat.decrepit.ciphers.modes import CFB, OFB
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    text = env.variable("block_encryption_mode")
    _, bits, mode = text.lower().split("-")
    folded = bytearray(int(bits) // 8)
    for n, byte in enumerate(checked(password)):
        folded[n % len(folded)] ^= byte
    aes = algorithms.AES(bytes(folded))
    if mode == "ecb":
        if vector is not None:
            env.raise_or_note(WarnOptionIgnored("IV"))
        return mode, Cipher(aes, modes.ECB())
    if vector is None:
        raise ErrWrongParamcountToNativeFct(name)
    if len(vector) < _BLOCK:
        raise ErrAesInvalidIv(name, _BLOCK)
    made: dict[str, Callable[[bytes], modes.Mode]] = {"cbc": modes.CBC, "ofb": OFB, "cfb128": CFB}
    return mode, Cipher(aes, made[mode](vector[:_BLOCK]))


FUNCTIONS = {
    "aes_decrypt": Function(2, 3, "b", always(types.blob(65535)), _decrypt, env=True),
    "aes_encrypt": Function(2, 3, "b", always(types.blob(65535)), _encrypt, env=True),
}
