"""Logins of the status page: MySQL's accounts, authenticated as on the SQL port.

    log in    user and password -> the client's side of authentication.py's conversation
              -> a cookie that no script reads, and a token that every command sends in a header:
              a page of another site can send the cookie, but neither read nor send the token
    run       the account as it is now -> a session for one statement: only SQL's privileges decide
    end       IDLE_S after the last request (an open page sends requests all the time), LONGEST_S
              after it began, by logging out, with this process; and at once if the account is
              dropped or locked, or its password changed or expired

Guesses are limited, because verifying a password takes milliseconds of the serving process. An
address (a /64 of IPv6) has GUESSES failures, then one every GUESS_S. All addresses together have
ALL_GUESSES, then ALL_GUESSES every GUESS_S. Passwords are verified one at a time. A client above
the limit only gets the time of its next attempt, even if the password was right.
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
"""An account that may run this statement (SUPER) may read what the page shows of all databases."""
_log = logging.getLogger(__name__)
Values = dict[str, Any]
OpenSession = Callable[[int, str, Login], Any]


class TooManyGuesses(Exception):
    """The limit of guesses is reached. Try again in `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many logins have failed: try again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Guesses:
    """Limits wrong passwords with token buckets, one per address and one for all. Not
    thread-safe."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: left, at
        self._all = float(ALL_GUESSES), 0.0

    def take(self, host: str, now: float) -> None:
        """Use up one attempt. Raises TooManyGuesses."""
        place = _place(host)
        tokens, at = self._buckets.get(place, (float(GUESSES), now))
        tokens = min(GUESSES, tokens + (now - at) / GUESS_S)
        of_all = min(ALL_GUESSES, self._all[0] + (now - self._all[1]) / GUESS_S * ALL_GUESSES)
        if tokens < 1 or of_all < 1:
            raise TooManyGuesses(max(1.0, (1 - tokens) * GUESS_S))
        self._put(place, tokens - 1, now)
        self._all = of_all - 1, now

    def give_back(self, host: str) -> None:
        """Return the attempt, because the password was right."""
        place = _place(host)
        tokens, at = self._buckets.get(place, (0.0, 0.0))
        self._put(place, min(GUESSES, tokens + 1), at)
        self._all = min(ALL_GUESSES, self._all[0] + 1), self._all[1]

    def _put(self, place: str, tokens: float, at: float) -> None:
        self._buckets[place] = tokens, at
        self._buckets.move_to_end(place)
        while len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)


def _place(host: str) -> str:
    """The key of an address: for IPv6 its /64, since one client may use all of that."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return address.exploded[:19] if isinstance(address, IPv6Address) else host


class BrowserLogin(msgspec.Struct):
    """A login. `token`: sent with its commands. Times: s of the clock."""

    login: Login
    host: str
    token: str
    began: float
    used: float
    looks: tuple[int, bool] = (-1, False)  # version of the accounts, whether it may read the page

    @property
    def title(self) -> str:
        """user@host, as jobs record their submitter."""
        return f"{self.login.user}@{self.host}"


class Logins:
    """The logins of the page. Thread-safe."""

    def __init__(self, accounts: Accounts, open_session: OpenSession, clock: Clock) -> None:
        self._accounts = accounts
        self._open_session = open_session
        self._clock = clock
        self._guesses = Guesses()
        self._guessing = threading.Lock()
        self._lock = threading.Lock()
        self._by_cookie: OrderedDict[bytes, BrowserLogin] = OrderedDict()  # by the cookie's hash

    def log_in(
        self, user: str, password: str, host: str, is_encrypted: bool
    ) -> tuple[str, BrowserLogin]:
        """Log in. Returns (cookie, login). Raises 1045, 1862, 3118, 3159, 3955, TooManyGuesses."""
        now = self._clock.monotonic()
        with self._guessing:
            self._guesses.take(host, now)
            authenticated = _authenticated(self._accounts, user, password, host, self._clock)
            self._guesses.give_back(host)
        assert authenticated.account is not None
        if authenticated.account.attributes.require and not is_encrypted:
            raise ErrAccessDenied(user, host, "YES" if password else "NO")
        authenticated = authenticated._replace(secure=is_encrypted)
        self._open_session(0, host, authenticated).close()
        cookie = secrets.token_urlsafe(32)
        login = BrowserLogin(authenticated, host, secrets.token_urlsafe(32), now, now)
        with self._lock:
            self._by_cookie[_hashed(cookie)] = login
            while len(self._by_cookie) > MOST_LOGINS:
                self._by_cookie.popitem(last=False)
        _log.info("logged in on the page", extra={"by": login.title})
        return cookie, login

    def find(self, cookie: str) -> BrowserLogin | None:
        """The login of this cookie, or None. Counts as a request of the login."""
        now, place = self._clock.monotonic(), _hashed(cookie)
        with self._lock:
            login = self._by_cookie.get(place)
            if login is None:
                return None
            is_over = now - login.used > IDLE_S or now - login.began > LONGEST_S
            if is_over or self._account(login) is None:
                del self._by_cookie[place]
                return None
            login.used = now
            return login

    def watch(self, cookie: str) -> Callable[[], bool]:
        """A function that returns whether this login is unchanged. For streams, which send no
        requests."""
        login, version = self.find(cookie), self._accounts.version
        return lambda: self._accounts.version == version and self.find(cookie) is login

    def log_out(self, cookie: str) -> None:
        with self._lock:
            self._by_cookie.pop(_hashed(cookie), None)

    def _account(self, of: BrowserLogin) -> Account | None:
        """The account as it is now, or None if the login's proof is no longer valid."""
        before = of.login.account
        assert before is not None
        book, now_s = self._accounts.book, self._clock.wall_ns() // 10**9
        account = book.account(before.user, before.host)
        if account is None or account.is_locked or account[2:4] != before[2:4]:
            return None
        return None if book.is_expired(account, now_s) else account

    def may_look(self, of: BrowserLogin) -> bool:
        """Whether its account may read what the page shows. Raises Unavailable."""
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
        """Whether this is the login's token."""
        return hmac.compare_digest(of.token.encode(), token.encode())

    def run(self, of: BrowserLogin, statement: str) -> Result:
        """Run one statement in a session of its own. Raises Refused, Unavailable."""
        session = self._open_session(0, of.host, of.login)
        try:
            result = session.execute(statement)
        finally:
            session.close()
        assert isinstance(result, Result)
        return result

    # -- what an account sees ----------------------------------------------------------------------

    def definition(self, of: BrowserLogin, database: str, table: str) -> str:
        """SHOW CREATE TABLE. Raises Refused."""
        result = self.run(of, f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")
        return str(result.rows[0][1])

    def statistics(self, of: BrowserLogin, table_id: int) -> Values:
        """The columns and indexes with statistics. Raises Refused without access to mysql's
        tables."""
        rows = self.run(
            of,
            "SELECT is_index, hist_id, distinct_count, null_count, correlation"
            f" FROM mysql.stats_histograms WHERE table_id = {table_id} AND flag = 1"
            f" ORDER BY is_index, hist_id LIMIT {MOST_HISTOGRAMS}",
        ).rows
        names = ("index", "id", "distinct", "nulls", "correlation")
        return {"statistics": [dict(zip(names, row, strict=True)) for row in rows]}

    def histogram(self, of: BrowserLogin, table_id: int, index: int, hist_id: int) -> Values:
        """The buckets of a histogram, (rows, rows of the upper value, lower, upper), and the
        commonest values. Raises Refused."""
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
            "buckets": [
                [*row[:2], *(_bound(bound, index) for bound in row[2:])] for row in buckets
            ],
            "top": [[rows, _bound(value, index)] for rows, value in top],
        }


def _bound(raw: object, index: int) -> str:
    return display_text(raw, bool(index)) if isinstance(raw, bytes) else ""


def _hashed(cookie: str) -> bytes:
    """The stored form of a cookie. Looking it up takes the same time however much of it is
    right."""
    return sha256(cookie.encode()).digest()


# -- the client's side -----------------------------------------------------------------------------


def _authenticated(accounts: Accounts, user: str, password: str, host: str, clock: Clock) -> Login:
    """The login with its account. Raises 1045, 1862, 3118, 3955."""
    nonce, secret = new_nonce(), password.encode()
    proof = _proof(passwords.NATIVE, secret, nonce)
    # The password came over TLS or from this machine (http.py)
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
        login_result: Login = done.value
    if login_result.account is None:
        raise ErrAccessDenied(user, host, "YES" if password else "NO")
    return login_result


def _answer(question: bytes, secret: bytes, nonce: bytes) -> bytes:
    """The client's answer to a packet of the conversation."""
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
