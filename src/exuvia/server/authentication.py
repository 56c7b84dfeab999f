"""Letting a client in: a conversation that yields packets and is sent the client's answers.

    greeting (nonce, mysql_native_password) -> login (user, proof of some plugin)
        the account's plugin is another one     <- switch, nonce       -> proof
        caching_sha2_password, seen before      <- 3, it is proved
        ... not seen, and encrypted             <- 4, say it           -> the password
        ... not seen, and not encrypted         1045: the password must not cross in clear text

Who is not known goes the whole way too and is refused in the end with the same words. root without
a password is let in on this machine only.
"""

from collections.abc import Generator

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrAccessDenied, ErrAccountHasBeenLocked
from exuvia.server.packets import Login
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import Account, Accounts, is_loopback

Conversation = Generator[bytes, bytes, Login]
_SWITCH, _MORE = b"\xfe", b"\x01"
_SAY_IT, _PUBLIC_KEY = b"\x04", b"\x02"
PROVED = _MORE + b"\x03"
_ROOT = "root"


def conversation(accounts: Accounts, login: Login, host: str, nonce: bytes) -> Conversation:
    """See the module. Returns the login with its account. Raises 1045, 3118."""
    account = accounts.book.find(login.user, host)
    plugin = passwords.NATIVE if account is None else account.plugin
    proof = login.proof
    if login.plugin != plugin:
        proof = yield _SWITCH + plugin.encode() + b"\0" + nonce + b"\0"
    given = bool(proof.rstrip(b"\0"))
    if account is None:
        raise _denied(login, host, given)
    if not account.stored:
        is_proved = not given
    elif plugin == passwords.CACHING:
        is_proved = yield from _cached(accounts, account, login, proof, nonce)
    else:
        is_proved = passwords.proves_native(proof, nonce, account.stored)
    only_here = account.user == _ROOT and not account.stored
    if not is_proved or (only_here and not is_loopback(host)):
        raise _denied(login, host, given)
    if account.is_locked:
        raise ErrAccountHasBeenLocked(login.user, host)
    return login._replace(account=account)


def _denied(login: Login, host: str, given: bool) -> Refused:
    return ErrAccessDenied(login.user, host, "YES" if given else "NO")


def _cached(
    accounts: Accounts, account: Account, login: Login, proof: bytes, nonce: bytes
) -> Generator[bytes, bytes, bool]:
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
    if not passwords.is_password(password, account.stored):
        return False
    accounts.remember(account, passwords.twice_hashed(password))
    return True
