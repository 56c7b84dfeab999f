"""Digests, ciphers, encodings and numbers in other bases.

AES_ENCRYPT, AES_DECRYPT (manual, "Encryption Functions"; FIPS 197).

    key      the given bytes folded by XOR into 16, 24 or 32 bytes
    mode     @@block_encryption_mode: ecb, cbc (padded by PKCS 7), ofb, cfb128 (not padded)

The cipher is OpenSSL's, through `cryptography`, which is imported for the first encryption. Long
values are processed in pieces, so that a statement can be interrupted. A value that cannot be
decrypted (wrong key, a length that is no multiple of 16) becomes NULL.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from exuvia.base.interruption import checked, in_pieces
from exuvia.base.long_text import encoded, joined, part_of
from exuvia.base.mysql_errors import (
    ErrAesInvalidIv,
    ErrInvalidCharacterString,
    ErrUnknownCharacterSet,
    ErrWrongParamcountToNativeFct,
    WarnOptionIgnored,
)
from exuvia.base.types import Value
from exuvia.catalog.convert.charset_codecs import CODECS, WIDE_CODECS
from exuvia.catalog.convert.values import of_latin1
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.functions.table import Function, always


def _hex(value: Value) -> str:
    if isinstance(value, int):
        return f"{value & ((1 << 64) - 1):X}"
    data = value if isinstance(value, bytes) else encoded(value)
    return joined("", in_pieces(data, lambda piece: piece.hex().upper()))


def _unhex(text: str) -> bytes | None:
    try:
        head = bytes.fromhex("0" + text[0]) if len(text) % 2 else b""
        return joined(b"", [head, *in_pieces(part_of(text, len(head)), bytes.fromhex)])
    except ValueError:
        return None


def _sha2(data: bytes, bits: int) -> str | None:
    algorithm = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if algorithm is None else hashlib.new(algorithm, data).hexdigest()


def char_of(*codes: int | None) -> bytes:
    """CHAR(65, 66): the bytes of the numbers, without leading zero bytes."""
    raw = b""
    for code in codes:
        if code is not None:
            code &= 0xFFFFFFFF
            raw += code.to_bytes(max(1, (code.bit_length() + 7) // 8), "big")
    return raw


def _text_of_bytes(env: Env, raw: bytes, charset: str, is_strict: int) -> str | None:
    """The text whose bytes in the charset are `raw`: CHAR(.. USING ..), CONVERT(.. USING ..), CAST.

    Invalid bytes give NULL and warning 1300. Without a strict mode they end the text."""
    if charset == "latin1":
        return of_latin1(raw)
    if charset not in (*WIDE_CODECS, *CODECS, "utf8mb4", "utf8mb3", "utf8", "ascii"):
        raise ErrUnknownCharacterSet(charset)
    codec = WIDE_CODECS.get(charset) or CODECS.get(charset) or charset.partition("mb")[0]
    if charset in WIDE_CODECS:
        unit = 4 if charset == "utf32" else 2
        raw = bytes(-len(raw) % unit) + raw
    try:
        return raw.decode(codec)
    except UnicodeDecodeError as error:
        env.warn(ErrInvalidCharacterString, charset, raw[error.start :].hex().upper())
        return None if is_strict else raw[: error.start].decode(codec)


def _to_base64(data: bytes) -> str:
    def lines(piece: bytes) -> str:
        encoded_text = base64.b64encode(piece).decode()
        return "\n".join(encoded_text[n : n + 76] for n in range(0, len(encoded_text), 76))

    return joined("\n", in_pieces(data, lines, 57 << 10))  # 57 bytes become a line


def _from_base64(text: str) -> bytes | None:
    rest, is_padded = "", False

    def read(piece: str) -> bytes:
        nonlocal rest, is_padded
        signs = rest + "".join(piece.split())
        whole = len(signs) // 4 * 4
        if is_padded and whole:
            raise ValueError("signs after the end")
        rest, is_padded = signs[whole:], is_padded or "=" in signs
        return base64.b64decode(signs[:whole], validate=True)

    try:
        pieces = in_pieces(text, read)
        return joined(b"", [*pieces, base64.b64decode(rest, validate=True)])
    except (ValueError, binascii.Error):
        return None


def _soundex(text: str) -> str:
    codes = "01230120022455012623010202"
    code_letters: list[str] = []
    last = ""

    def listen(piece: str) -> None:
        nonlocal last
        for letter in piece:
            sign = letter.upper()
            if not "A" <= sign <= "Z" or len(sign) > 1:
                continue
            code = codes[ord(sign) - 65]
            if not code_letters:
                code_letters.append(sign)
            elif code not in ("0", last):
                code_letters.append(code)
            elif sign in "HW":
                continue
            if sign not in "HW" or len(code_letters) == 1:
                last = code

    in_pieces(text, listen)
    return "".join(code_letters).ljust(4, "0") if code_letters else ""


def _quote(text: str | None) -> str:
    if text is None:
        return "NULL"
    return joined("", ["'", *in_pieces(text, _escaped), "'"])


def _escaped(text: str) -> str:
    for sign, escape_sequence in (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0"), ("\x1a", "\\Z")):
        text = text.replace(sign, escape_sequence)
    return text


def _binary(value: int) -> str:
    return f"{value & ((1 << 64) - 1):b}"


def _octal(value: int) -> str:
    return f"{value & ((1 << 64) - 1):o}"


ENCODINGS = {
    "bin": Function(1, 1, "i", always(types.text(64)), _binary),
    "from_base64": Function(1, 1, "s", lambda a: types.blob(types.widest(a)), _from_base64),
    "md5": Function(1, 1, "b", always(types.text(32)), lambda b: hashlib.md5(b).hexdigest()),
    "oct": Function(1, 1, "i", always(types.text(64)), _octal),
    "quote": Function(1, 1, "s", lambda a: types.text(2 * types.widest(a) + 2), _quote, nulls=True),
    "sha": Function(1, 1, "b", always(types.text(40)), lambda b: hashlib.sha1(b).hexdigest()),
    "sha1": Function(1, 1, "b", always(types.text(40)), lambda b: hashlib.sha1(b).hexdigest()),
    "sha2": Function(2, 2, "bi", always(types.text(128)), _sha2),
    "soundex": Function(1, 1, "s", always(types.text(255)), _soundex),
    "to_base64": Function(1, 1, "b", always(types.text(65535)), _to_base64),
    "unhex": Function(1, 1, "s", lambda a: types.blob(types.widest(a)), _unhex),
    "text_of_bytes": Function(
        3, 3, "bsi", lambda a: types.text(types.widest(a)), _text_of_bytes, env=True
    ),
    "char": Function(1, -1, "i", lambda a: types.blob(4 * len(a)), char_of, nulls=True),
    "hex": Function(1, 1, "h", always(types.text(65535)), _hex),
}


# -- ciphers ---------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext

_BLOCK = 16
_PADDED = ("ecb", "cbc")


def _encrypt(env: Env, raw: bytes, password: bytes, vector: bytes | None = None) -> bytes:
    mode, cipher = _cipher(env, "aes_encrypt", password, vector)
    if mode in _PADDED:
        missing = _BLOCK - len(raw) % _BLOCK
        raw = joined(b"", [raw, bytes([missing]) * missing])
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
    return part_of(padded, 0, len(padded) - count)


def _through(context: CipherContext, raw: bytes) -> bytes:
    return joined(b"", [*in_pieces(raw, context.update), context.finalize()])


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
    mode_makers: dict[str, Callable[[bytes], modes.Mode]] = {
        "cbc": modes.CBC,
        "ofb": OFB,
        "cfb128": CFB,
    }
    return mode, Cipher(aes, mode_makers[mode](vector[:_BLOCK]))


CIPHERS = {
    "aes_decrypt": Function(2, 3, "b", always(types.blob(65535)), _decrypt, env=True),
    "aes_encrypt": Function(2, 3, "b", always(types.blob(65535)), _encrypt, env=True),
}
