"""Who may do something on the page: MySQL's accounts, let in as on the wire.

    log in    user and password -> the conversation of authentication.py, its client plays here
              -> a cookie that no script reads, and a token that every command brings in a header:
              another site's page can send the one, and neither read nor send the other
    do        the account as it is now -> a session of its own, one statement, closed: what an
              account may do is decided by SQL alone
    it ends   IDLE_S after its last request (a page that is open asks all the time), LONGEST_S after
              it began, by logging out, with this process; and at once where its account is
              dropped, locked, or has another password or an expired one

Guessing costs: an address (a /64 of IPv6) has GUESSES failures, then one every GUESS_S; all have
ALL_GUESSES, then as many every GUESS_S, since looking at a password takes milliseconds of the
process that serves. One at a time is looked at. Who has failed too often is told when to come again
and nothing else, also where this one was right.
"""

import hmac
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha1, sha256
from ipaddress import IPv6Address, ip_address
from typing import Any

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrAccessDenied
from exuvia.server.authentication import PROVED, Errand, conversation
from exuvia.server.packets import Login, new_nonce
from exuvia.server.statements import quoted
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import Account, Accounts
from exuvia.sql.result import Result
from exuvia.stats.records import display_text

IDLE_S = 30 * 60.0
LONGEST_S = 12 * 3600.0
MOST_LOGINS = 256
GUESSES, GUESS_S = 5, 10.0
ALL_GUESSES = 50
MOST_ADDRESSES = 4096
MOST_HISTOGRAMS, MOST_BUCKETS, MOST_COMMON = 300, 1024, 10
LOOKS = "ADMIN SHOW DDL JOB QUERIES 0"
"""Who may run this may see what the page shows of all databases: SUPER."""
_log = logging.getLogger(__name__)
Values = dict[str, Any]
OpenSession = Callable[[int, str, Login], Any]


class TooManyGuesses(Exception):
    """Come again in `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many logins have failed: try again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Guesses:
    """How often a password may be wrong: buckets that fill up by themselves. Not thread-safe."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by address: left, at
        self._all = float(ALL_GUESSES), 0.0

    def take(self, host: str, now: float) -> None:
        """One attempt. Raises TooManyGuesses."""
        place = _place(host)
        left, at = self._left.get(place, (float(GUESSES), now))
        left = min(GUESSES, left + (now - at) / GUESS_S)
        of_all = min(ALL_GUESSES, self._all[0] + (now - self._all[1]) / GUESS_S * ALL_GUESSES)
        if left < 1 or of_all < 1:
            raise TooManyGuesses(max(1.0, (1 - left) * GUESS_S))
        self._put(place, left - 1, now)
        self._all = of_all - 1, now

    def give_back(self, host: str) -> None:
        """It was right."""
        place = _place(host)
        left, at = self._left.get(place, (0.0, 0.0))
        self._put(place, min(GUESSES, left + 1), at)
        self._all = min(ALL_GUESSES, self._all[0] + 1), self._all[1]

    def _put(self, place: str, left: float, at: float) -> None:
        self._left[place] = left, at
        self._left.move_to_end(place)
        while len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)


def _place(host: str) -> str:
    """Whoever has an address of IPv6 has 2**64 of them."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return address.exploded[:19] if isinstance(address, IPv6Address) else host


class BrowserLogin(msgspec.Struct):
    """One. `token`: what its commands bring; times: s of the clock."""

    login: Login
    host: str
    token: str
    began: float
    used: float
    looks: tuple[int, bool] = (-1, False)  # version of the accounts, whether it may look

    @property
    def shown(self) -> str:
        """user@host, as a job says by whom it was asked for."""
        return f"{self.login.user}@{self.host}"


class Logins:
    """Thread-safe."""

    def __init__(self, accounts: Accounts, open_session: OpenSession, clock: Clock) -> None:
        self._accounts = accounts
        self._open_session = open_session
        self._clock = clock
        self._guesses = Guesses()
        self._guessing = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, BrowserLogin] = OrderedDict()  # by the cookie's hash

    def log_in(
        self, user: str, password: str, host: str, is_encrypted: bool
    ) -> tuple[str, BrowserLogin]:
        """(cookie, login). Raises 1045, 1862, 3118, 3159, 3955, TooManyGuesses."""
        now = self._clock.monotonic()
        with self._guessing:
            self._guesses.take(host, now)
            found = _authenticated(self._accounts, user, password, host, self._clock)
            self._guesses.give_back(host)
        assert found.account is not None
        if found.account.attributes.require and not is_encrypted:
            raise ErrAccessDenied(user, host, "YES" if password else "NO")
        found = found._replace(secure=is_encrypted)
        self._open_session(0, host, found).close()
        cookie = secrets.token_urlsafe(32)
        made = BrowserLogin(found, host, secrets.token_urlsafe(32), now, now)
        with self._lock:
            self._known[_hashed(cookie)] = made
            while len(self._known) > MOST_LOGINS:
                self._known.popitem(last=False)
        _log.info("logged in on the page", extra={"by": made.shown})
        return cookie, made

    def find(self, cookie: str) -> BrowserLogin | None:
        """Whose cookie this is; it has been used now."""
        now, place = self._clock.monotonic(), _hashed(cookie)
        with self._lock:
            found = self._known.get(place)
            if found is None:
                return None
            is_over = now - found.used > IDLE_S or now - found.began > LONGEST_S
            if is_over or self._account(found) is None:
                del self._known[place]
                return None
            found.used = now
            return found

    def watch(self, cookie: str) -> Callable[[], bool]:
        """Whether this login is still what it is now. Asked by who is told without asking."""
        login, version = self.find(cookie), self._accounts.version
        return lambda: self._accounts.version == version and self.find(cookie) is login

    def log_out(self, cookie: str) -> None:
        with self._lock:
            self._known.pop(_hashed(cookie), None)

    def _account(self, of: BrowserLogin) -> Account | None:
        """As it is now, if it may still be let in by what was proved."""
        before = of.login.account
        assert before is not None
        book, now_s = self._accounts.book, self._clock.wall_ns() // 10**9
        account = book.account(before.user, before.host)
        if account is None or account.is_locked or account[2:4] != before[2:4]:
            return None
        return None if book.is_expired(account, now_s) else account

    def may_look(self, of: BrowserLogin) -> bool:
        """Whether its account may see what the page shows. Raises Unavailable."""
        version = self._accounts.version
        if of.looks[0] != version:
            try:
                self.run(of, LOOKS)
            except Refused:
                of.looks = version, False
            else:
                of.looks = version, True
        return of.looks[1]

    def may(self, of: BrowserLogin, token: str) -> bool:
        """Whether a command brings the login's token."""
        return hmac.compare_digest(of.token.encode(), token.encode())

    def run(self, of: BrowserLogin, statement: str) -> Result:
        """One statement in a session of its own. Raises Refused, Unavailable."""
        session = self._open_session(0, of.host, of.login)
        try:
            found = session.execute(statement)
        finally:
            session.close()
        assert isinstance(found, Result)
        return found

    # -- what an account sees ----------------------------------------------------------------------

    def definition(self, of: BrowserLogin, database: str, table: str) -> str:
        """SHOW CREATE TABLE. Raises Refused."""
        shown = self.run(of, f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")
        return str(shown.rows[0][1])

    def statistics(self, of: BrowserLogin, table_id: int) -> Values:
        """What columns and indexes have them. Raises Refused: who may not read mysql's tables."""
        rows = self.run(
            of,
            "SELECT is_index, hist_id, distinct_count, null_count, correlation"
            f" FROM mysql.stats_histograms WHERE table_id = {table_id} AND flag = 1"
            f" ORDER BY is_index, hist_id LIMIT {MOST_HISTOGRAMS}",
        ).rows
        names = ("index", "id", "distinct", "nulls", "correlation")
        return {"statistics": [dict(zip(names, row, strict=True)) for row in rows]}

    def histogram(self, of: BrowserLogin, table_id: int, index: int, hist_id: int) -> Values:
        """The buckets of one, (rows, rows of the upper value, lower, upper), and its commonest
        values. Raises Refused."""
        which = f"WHERE table_id = {table_id} AND is_index = {index} AND hist_id = {hist_id}"
        buckets = self.run(
            of,
            "SELECT count, repeats, lower_bound, upper_bound"
            f" FROM mysql.stats_buckets {which} ORDER BY bucket_id LIMIT {MOST_BUCKETS}",
        ).rows
        top = self.run(
            of,
            f"SELECT count, value FROM mysql.stats_top_n {which}"
            f" ORDER BY count DESC LIMIT {MOST_COMMON}",
        ).rows
        return {
            "buckets": [[*row[:2], *(_bound(each, index) for each in row[2:])] for row in buckets],
            "top": [[rows, _bound(value, index)] for rows, value in top],
        }


def _bound(raw: object, index: int) -> str:
    return display_text(raw, bool(index)) if isinstance(raw, bytes) else ""


def _hashed(cookie: str) -> bytes:
    """What is kept of it: looking one up takes as long whatever is right of it."""
    return sha256(cookie.encode()).digest()


# -- the client's side -----------------------------------------------------------------------------


def _authenticated(accounts: Accounts, user: str, password: str, host: str, clock: Clock) -> Login:
    """The login with its account. Raises 1045, 1862, 3118, 3955."""
    nonce, secret = new_nonce(), password.encode()
    proof = _proof(passwords.NATIVE, secret, nonce)
    # Whoever gets here has said the password over TLS, or on this machine (http.py)
    login = Login(user, "", "utf-8", 0, proof, passwords.NATIVE, secure=True)
    talk = conversation(accounts, login, host, nonce, clock)
    try:
        question = next(talk)
        while True:
            if isinstance(question, Errand):
                question.run()
                question = talk.send(b"")
            else:
                question = talk.send(_answer(question, secret, nonce))
    except StopIteration as done:
        found: Login = done.value
    if found.account is None:
        raise ErrAccessDenied(user, host, "YES" if password else "NO")
    return found


def _answer(question: bytes, secret: bytes, nonce: bytes) -> bytes:
    """What a client says to a packet of the conversation."""
    if question == PROVED:
        return b""
    if question[:1] == b"\xfe":  # another plugin
        return _proof(question[1:].split(b"\0")[0].decode(), secret, nonce)
    return secret + b"\0"


def _proof(plugin: str, secret: bytes, nonce: bytes) -> bytes:
    if not secret:
        return b""
    if plugin == passwords.NATIVE:
        once = sha1(secret).digest()
        mask = sha1(nonce + sha1(sha1(secret).digest()).digest()).digest()
    else:
        once = sha256(secret).digest()
        mask = sha256(passwords.twice_hashed(secret) + nonce).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))
