"""Passwords: what is stored, and proofs of it, by vectors of others and by round trips."""

from hashlib import sha1, sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import Account, Book, is_loopback, specific

NONCE = bytes(range(40, 60))


def test_native_is_stored_as_mysql_stores_it() -> None:
    assert passwords.stored("mysql_native_password", "password") == (
        "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
    )
    assert passwords.stored("mysql_native_password", "") == ""


def test_sha_256_crypt_is_that_of_openssl() -> None:
    digest = passwords.crypted(b"Hello world!", b"saltstring")
    assert digest == "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"


@given(st.text(min_size=1, max_size=40), st.text(max_size=40))
def test_a_native_proof_is_good_for_its_password_alone(password: str, other: str) -> None:
    stored = passwords.stored("mysql_native_password", password)
    once = sha1(password.encode("utf-8", "surrogatepass")).digest()
    mask = sha1(NONCE + sha1(once).digest()).digest()
    proof = bytes(a ^ b for a, b in zip(once, mask, strict=True))
    assert passwords.proves_native(proof, NONCE, stored)
    assert not passwords.proves_native(proof, NONCE[::-1], stored)
    if other != password:
        assert not passwords.proves_native(
            proof, NONCE, passwords.stored("mysql_native_password", other)
        )


def test_a_cached_proof_is_good_for_its_password_alone() -> None:
    twice = passwords.twice_hashed(b"sesame")
    once = sha256(b"sesame").digest()
    proof = bytes(a ^ b for a, b in zip(once, sha256(twice + NONCE).digest(), strict=True))
    assert passwords.proves_cached(proof, NONCE, twice)
    assert not passwords.proves_cached(proof, NONCE, passwords.twice_hashed(b"other"))
    assert not passwords.proves_cached(b"", NONCE, twice)


def test_caching_sha2_is_stored_with_a_salt_of_its_own() -> None:
    first, second = (passwords.stored("caching_sha2_password", "sesame") for _ in range(2))
    assert first != second
    assert passwords.is_stored("caching_sha2_password", first)
    assert passwords.is_password(b"sesame", first)
    assert not passwords.is_password(b"sesam", first)


def _account(user: str, host: str) -> Account:
    return Account(user, host, "mysql_native_password", "", frozenset())


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("127.0.0.1", "localhost"), ("10.1.2.3", "10.1.0.0/16"), ("10.2.9.9", "10.2.%"),
        ("192.168.0.1", "192.168.0.1"), ("8.8.8.8", "%"),
    ],
)  # fmt: skip
def test_the_most_specific_host_wins(host: str, found: str) -> None:
    hosts = ("%", "10.1.0.0/16", "10.2.%", "10.%", "192.168.0.1", "localhost")
    accounts = sorted((_account("u", each) for each in hosts), key=specific)
    account = Book(tuple(accounts), (), ()).find("u", host)
    assert account is not None and account.host == found


def test_what_is_on_this_machine() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("")
    assert not is_loopback("10.0.0.1")
