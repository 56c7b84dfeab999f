"""Logging a client in: a generator that yields packets and is sent the client's answers.

    greeting (nonce, mysql_native_password) -> login (user, proof of some plugin)
        the account's plugin is another one     <- switch, nonce       -> proof
        caching_sha2_password, seen before      <- 3, it is proved
        ... not seen, and encrypted             <- 4, say it           -> the password
        ... not seen, and not encrypted         1045: the password must not cross in clear text

Verifying a password takes milliseconds, so that is an errand, too.

A name without an account takes the same path and the same time, and gets the same error. It is
checked against a substitute account (accounts.py), whose plugin is always the same for that name. A
password for an account without one is refused in the same way. root without a password may log in
only from this machine.

Then the account's rules, in TiDB's order:

    FAILED_LOGIN_ATTEMPTS   counted in the store, which may take a while. So the generator yields an
                            errand instead of a packet; its driver runs that where it may wait.
                            3955, even with the right password; otherwise a wrong one gets 1045
    ACCOUNT LOCK            3118
    REQUIRE SSL             1045
    an expired password     a client that can handle it may change it and nothing else, others 1862
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrAccessDenied,
    ErrAccountHasBeenLocked,
    ErrMustChangePasswordLogin,
)
from exuvia.server.packets import HANDLES_EXPIRED, Login
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import Account, Accounts, is_loopback


class Errand(NamedTuple):
    """Work for another thread because it may take long. Raises the error that refuses the login."""

    run: Callable[[], None]


Conversation = Generator[bytes | Errand, bytes, Login]
_SWITCH, _MORE = b"\xfe", b"\x01"
_SAY_IT, _PUBLIC_KEY = b"\x04", b"\x02"
PROVED = _MORE + b"\x03"
_ROOT = "root"


def conversation(
    accounts: Accounts, login: Login, host: str, nonce: bytes, clock: Clock
) -> Conversation:
    """Authenticate a client. Returns the login with its account.

    Raises 1045, 3118, 1862; its errands raise 3955."""
    own_account = accounts.book.find(login.user, host)
    account = own_account or accounts.book.stand_in(login.user)
    plugin = account.plugin
    proof = login.proof
    if login.plugin != plugin:
        proof = yield _SWITCH + plugin.encode() + b"\0" + nonce + b"\0"
    has_password = bool(proof.rstrip(b"\0"))
    checked = account if account.stored else account._replace(stored=passwords.unmatched(plugin))
    if not account.stored and not has_password:
        is_proved = True
    elif plugin == passwords.CACHING:
        is_proved = yield from _cached(accounts, checked, login, proof, nonce)
    else:
        is_proved = passwords.proves_native(proof, nonce, checked.stored)
    if own_account is None:
        raise _denied(login, host, has_password)
    now_s = clock.wall_ns() // 10**9
    if account.attributes.counts_failures:
        yield Errand(partial(accounts.record_login, account, is_proved, now_s))
    only_here = account.user == _ROOT and not account.stored
    if not is_proved or (only_here and not is_loopback(host)):
        raise _denied(login, host, has_password)
    if account.is_locked:
        raise ErrAccountHasBeenLocked(login.user, host)
    if account.attributes.require and not login.secure:
        raise _denied(login, host, has_password)
    is_expired = accounts.book.is_expired(account, now_s)
    if is_expired and not login.capabilities & HANDLES_EXPIRED:
        raise ErrMustChangePasswordLogin()
    return login._replace(account=account, must_change_password=is_expired)


def _denied(login: Login, host: str, has_password: bool) -> Refused:
    return ErrAccessDenied(login.user, host, "YES" if has_password else "NO")


def _cached(
    accounts: Accounts, account: Account, login: Login, proof: bytes, nonce: bytes
) -> Generator[bytes | Errand, bytes, bool]:
    twice = accounts.remembered(account)
    if twice and passwords.proves_cached(proof, nonce, twice):
        yield PROVED
        return True
    if not proof.rstrip(b"\0"):
        return False
    answer = yield _MORE + _SAY_IT
    if not login.secure or answer == _PUBLIC_KEY:
        return False
    password = answer.removesuffix(b"\0")
    looks = list[bool]()
    yield Errand(lambda: looks.append(passwords.is_password(password, account.stored)))
    if looks != [True]:
        return False
    accounts.remember(account, passwords.twice_hashed(password))
    return True
