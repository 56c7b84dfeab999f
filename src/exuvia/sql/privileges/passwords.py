"""The stored forms of passwords, and the proofs that clients send.

    mysql_native_password    stored  *HEX(SHA1(SHA1(password)))
                             proof   SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))
    caching_sha2_password    stored  $A$005$ salt digest      SHA-256 crypt of 5,000 rounds
                             proof   SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)

A node can check the second proof only after it has received the password once over an encrypted
connection. It then stores SHA256(SHA256(password)) in memory. SHA-256 crypt takes quadratic time,
and any client may request it. So passwords of this plugin have at most MOST_BYTES, as in MySQL.
Sources: MySQL protocol, "Authentication Methods"; U. Drepper, "Unix crypt using SHA-256".
"""

import hmac
import secrets
from hashlib import sha1, sha256

from exuvia.base.mysql_errors import ErrNotValidPassword

NATIVE = "mysql_native_password"
CACHING = "caching_sha2_password"
PLUGINS = (NATIVE, CACHING)
MOST_BYTES = 256
_ROUNDS = 5000
_SALT_BYTES = 20
_HEAD = "$A$005$"
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def stored(plugin: str, password: str) -> str:
    """The form stored in mysql.user; "" for no password. Raises 1819 for one that is too long."""
    if not password:
        return ""
    if plugin == NATIVE:
        return "*" + sha1(sha1(password.encode()).digest()).hexdigest().upper()
    if len(password.encode()) > MOST_BYTES:
        raise ErrNotValidPassword(f"{plugin} takes at most {MOST_BYTES} bytes")
    salt = "".join(secrets.choice(_ALPHABET) for _ in range(_SALT_BYTES))
    return _HEAD + salt + crypted(password.encode(), salt.encode())


def unmatched(plugin: str) -> str:
    """A text in the format of `stored` that no known password produces."""
    return "*" + "0" * 40 if plugin == NATIVE else _HEAD + "." * (_SALT_BYTES + 43)


def is_stored(plugin: str, text: str) -> bool:
    """Whether the text is in the format of `stored`."""
    if not text:
        return True
    if plugin == NATIVE:
        digits = text[1:].upper()
        return len(text) == 41 and text[0] == "*" and set(digits) <= set("0123456789ABCDEF")
    return text.startswith(_HEAD) and len(text) == len(_HEAD) + _SALT_BYTES + 43


def proves_native(proof: bytes, nonce: bytes, text: str) -> bool:
    """Whether the proof belongs to the password with the stored form `text`."""
    if not text or not proof:
        return not text and not proof
    if len(proof) != 20 or not is_stored(NATIVE, text):
        return False
    twice = bytes.fromhex(text[1:])
    once = _xor(proof, sha1(nonce + twice).digest())
    return hmac.compare_digest(sha1(once).digest(), twice)


def proves_cached(proof: bytes, nonce: bytes, twice: bytes) -> bool:
    """Whether the proof belongs to the password with the double SHA-256 `twice`."""
    if len(proof) != 32:
        return False
    once = _xor(proof, sha256(twice + nonce).digest())
    return hmac.compare_digest(sha256(once).digest(), twice)


def twice_hashed(password: bytes) -> bytes:
    """The double SHA-256 that `proves_cached` needs."""
    return sha256(sha256(password).digest()).digest()


def is_password(password: bytes, text: str) -> bool:
    """Whether `text` is the stored form of the password in caching_sha2_password."""
    if not text or not is_stored(CACHING, text):
        return not text and not password
    if len(password) > MOST_BYTES:
        return False
    salt, digest = text[len(_HEAD) : len(_HEAD) + _SALT_BYTES], text[len(_HEAD) + _SALT_BYTES :]
    return hmac.compare_digest(crypted(password, salt.encode()), digest)


def is_of(text: str, password: str) -> bool:
    """Whether `text` is the stored form of the password in either plugin."""
    if text.startswith(_HEAD):
        return is_password(password.encode(), text)
    return text == stored(NATIVE, password)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# -- SHA-256 crypt ---------------------------------------------------------------------------------


def crypted(password: bytes, salt: bytes) -> str:
    """The digest of SHA-256 crypt, 43 characters."""
    last = _first(password, salt)
    p = _repeated(sha256(password * len(password)).digest(), len(password))
    s = _repeated(sha256(salt * (16 + last[0])).digest(), len(salt))
    for n in range(_ROUNDS):
        head, tail = (p, last) if n & 1 else (last, p)
        last = sha256(head + (s if n % 3 else b"") + (p if n % 7 else b"") + tail).digest()
    return _in_letters(last)


def _first(password: bytes, salt: bytes) -> bytes:
    other = sha256(password + salt + password).digest()
    text = password + salt + _repeated(other, len(password))
    bits = len(password)
    while bits:
        text += other if bits & 1 else password
        bits >>= 1
    return sha256(text).digest()


def _repeated(digest: bytes, size: int) -> bytes:
    return (digest * (size // len(digest) + 1))[:size]


def _in_letters(digest: bytes) -> str:
    parts = []
    a, b, c = 0, 10, 20
    for _ in range(10):
        parts.append(_letters(digest[a] << 16 | digest[b] << 8 | digest[c], 4))
        a, b, c = c + 1, a + 1, b + 1
    return "".join(parts) + _letters(digest[31] << 8 | digest[30], 3)


def _letters(number: int, count: int) -> str:
    return "".join(_ALPHABET[number >> 6 * n & 63] for n in range(count))
