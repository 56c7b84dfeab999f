"""Rules of passwords without a socket: time moves by hand, and what is written is counted."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha1
from typing import Any

import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Refused
from exuvia.catalog import login_failures
from exuvia.catalog.account_attributes import DAY_S, UNBOUNDED, AccountAttributes
from exuvia.catalog.login_failures import NONE, LoginFailures
from exuvia.catalog.model import evolve
from exuvia.cluster import member
from exuvia.server.authentication import Errand, conversation
from exuvia.server.packets import HANDLES_EXPIRED, Login
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

NONCE = bytes(range(20))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as found:
        yield found


@pytest.fixture
def session(world: World) -> Iterator[Session]:
    found = world.session("")
    yield found
    for user in ("u", "v"):
        run(found, f"DROP USER IF EXISTS {user}")
    found.close()


class DaysAhead(SystemClock):
    """Its wall clock stands, and is moved by hand."""

    def __init__(self) -> None:
        self.wall_s = 1_700_000_000

    def wall_ns(self) -> int:
        return self.wall_s * 10**9

    def advance(self, seconds: int) -> None:
        self.wall_s += seconds


class Door:
    """Logins over a node's accounts, at a time that moves by hand."""

    def __init__(self, world: World) -> None:
        self.accounts = Accounts(world.store)
        self.clock = DaysAhead()
        self.world = world

    def enter(self, password: str, capabilities: int = 0) -> Login:
        """Raises what refuses it."""
        self.accounts.load()
        once = sha1(password.encode()).digest()
        mask = sha1(NONCE + sha1(once).digest()).digest()
        proof = bytes(a ^ b for a, b in zip(once, mask, strict=True))
        login = Login("u", "", "utf-8", capabilities, proof, "mysql_native_password")
        talk = conversation(self.accounts, login, "10.0.0.1", NONCE, self.clock)
        try:
            question = next(talk)
            while isinstance(question, Errand):
                question.run()
                question = talk.send(b"")
        except StopIteration as done:
            found: Login = done.value
            return found
        raise AssertionError(question)

    def code(self, password: str, capabilities: int = 0) -> int:
        try:
            self.enter(password, capabilities)
        except Refused as refused:
            return refused.code
        return 0

    @property
    def commits(self) -> int:
        return int(self.world.store.snapshot().sequence)


@pytest.fixture
def door(world: World) -> Door:
    return Door(world)


def test_days_of_a_lock() -> None:
    rule = AccountAttributes(failed_attempts=2, lock_days=3)
    locked = LoginFailures(2, 1_000_000)
    assert locked.locks(rule, 1_000_000 + 3 * DAY_S)
    assert not locked.locks(rule, 1_000_001 + 3 * DAY_S)
    assert locked.locks(rule, 999_000)  # another node's clock
    assert locked.locks(evolve(rule, lock_days=UNBOUNDED), 1 << 40)
    for free in (evolve(rule, lock_days=0), evolve(rule, failed_attempts=0)):
        assert not locked.locks(free, 1_000_000)
    assert NONE.after(rule, False, 5) == LoginFailures(1, 0)
    assert LoginFailures(1, 0).after(rule, False, 5) == LoginFailures(2, 5)
    assert LoginFailures(1, 0).after(rule, True, 5) == NONE
    assert locked.after(rule, False, 9) == LoginFailures(1, 0)  # its days are over


def test_only_accounts_that_count_are_written_and_no_locked_one(
    session: Session, door: Door
) -> None:
    run(session, "CREATE USER u IDENTIFIED BY 'right'")
    for options in ("", "FAILED_LOGIN_ATTEMPTS 2", "FAILED_LOGIN_ATTEMPTS 0 PASSWORD_LOCK_TIME 2"):
        if options:
            run(session, f"ALTER USER u {options}")
        before = door.commits
        assert [door.code(each) for each in ("wrong", "wrong", "wrong", "right")] == [
            *(1045, 1045, 1045),
            0,
        ]
        assert door.commits == before, options
    run(session, "ALTER USER u FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1")
    before = door.commits
    assert door.code("right") == 0
    assert door.commits == before
    assert [door.code("wrong") for _ in range(6)] == [1045, 3955, 3955, 3955, 3955, 3955]
    assert door.code("right") == 3955
    assert door.commits == before + 2
    door.clock.advance(DAY_S + 1)
    assert door.code("right") == 0
    assert door.commits == before + 3
    assert rows(session, "SELECT * FROM mysql.exuvia_login_failures") == []


@pytest.mark.parametrize(
    ("statement", "unlocks"),
    [
        ("ALTER USER u ACCOUNT UNLOCK", True),
        ("ALTER USER u FAILED_LOGIN_ATTEMPTS 2", True),
        ("ALTER USER u PASSWORD_LOCK_TIME 7", True),
        ("ALTER USER u IDENTIFIED BY 'right'", False),
        ("ALTER USER u PASSWORD EXPIRE NEVER", False),
    ],
)
def test_what_unlocks(session: Session, door: Door, statement: str, unlocks: bool) -> None:
    run(session, "CREATE USER u IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1")
    assert door.code("wrong") == 3955
    run(session, statement)
    assert door.code("right") == (0 if unlocks else 3955)


def test_a_lock_goes_with_its_account(session: Session, world: World, door: Door) -> None:
    run(session, "CREATE USER v IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1")
    with pytest.raises(Refused):
        login_failures.record(world.store, "v", "%", False, 10)
    run(session, "RENAME USER v TO u")
    assert door.code("right") == 0  # locked in 1970, for a day
    with pytest.raises(Refused):
        login_failures.record(world.store, "u", "%", False, 10)
    run(session, "DROP USER u")
    assert rows(session, "SELECT * FROM mysql.exuvia_login_failures") == []


def test_failures_at_once_are_all_counted(session: Session, world: World) -> None:
    run(
        session,
        "CREATE USER u IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 1000 PASSWORD_LOCK_TIME 1",
    )

    def fail() -> None:
        for _ in range(10):
            login_failures.record(world.store, "u", "%", False, 10)

    threads = [threading.Thread(target=fail) for _ in range(8)]
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # or each has done all of its own before the next begins
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(usual_s)
    assert rows(session, "SELECT failures FROM mysql.exuvia_login_failures") == [[80]]


def test_ages_of_passwords(session: Session, door: Door) -> None:
    session.services = replace(session.services, clock=door.clock)
    try:
        run(session, "CREATE USER u IDENTIFIED BY 'right' PASSWORD EXPIRE INTERVAL 2 DAY")
        door.clock.advance(2 * DAY_S)
        assert door.code("right") == 0
        door.clock.advance(1)
        assert door.code("right") == 1862
        assert door.code("wrong") == 1045
        assert door.enter("right", HANDLES_EXPIRED).must_change_password
        run(session, "ALTER USER u PASSWORD EXPIRE DEFAULT")
        assert not door.enter("right", HANDLES_EXPIRED).must_change_password
        run(session, "SET GLOBAL default_password_lifetime = 2")
        assert door.code("right") == 1862
        run(session, "ALTER USER u PASSWORD EXPIRE NEVER")
        assert door.code("right") == 0
        run(session, "ALTER USER u IDENTIFIED BY 'right' PASSWORD EXPIRE")
        assert door.code("right") == 1862
    finally:
        run(session, "SET GLOBAL default_password_lifetime = DEFAULT")


def test_an_account_that_must_encrypt(session: Session, door: Door) -> None:
    run(session, "CREATE USER u IDENTIFIED BY 'right' REQUIRE SSL")
    assert door.code("right") == 1045
    run(session, "ALTER USER u REQUIRE NONE")
    assert door.code("right") == 0


def test_a_node_that_would_not_enforce_them_is_waited_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [evolve(each, release="0.3.0") for each in honest(txn)]
    )
    run(session, "CREATE USER u IDENTIFIED BY 'a' PASSWORD EXPIRE DEFAULT REQUIRE NONE")
    run(session, "CREATE ROLE v")
    run(session, "SET PASSWORD FOR u = 'a'")
    for option in (
        "PASSWORD EXPIRE",
        "PASSWORD EXPIRE NEVER",
        "PASSWORD HISTORY 2",
        "PASSWORD REUSE INTERVAL 2 DAY",
        "FAILED_LOGIN_ATTEMPTS 2",
        "PASSWORD_LOCK_TIME 2",
        "REQUIRE SSL",
    ):
        code, said = error(session, f"ALTER USER u {option}"), session.warnings[0].message
        assert code == (8200, "HY000") and "of an older release serves" in said, option
    assert rows(session, "SELECT * FROM mysql.exuvia_user_attributes") == []


def test_a_session_that_must_change_the_password_runs_kept_plans_neither(
    session: Session,
) -> None:
    run(session, "CREATE DATABASE IF NOT EXISTS test")
    run(session, "CREATE TABLE test.kept (id INT PRIMARY KEY)")
    text = "SELECT * FROM test.kept WHERE id = 1"
    prepared: Any = session.prepare("SELECT * FROM test.kept WHERE id = ?")
    for _ in range(3):
        run(session, text)
    session.must_change_password = True
    assert error(session, text)[0] == 1820
    assert error(session, f"SET @a = 1; {text}")[0] == 1820
    with pytest.raises(Refused) as refused:
        session.execute_prepared(prepared, [1])
    assert refused.value.code == 1820
    run(session, "SET @a = 1")
    session.must_change_password = False
    run(session, "DROP TABLE test.kept")
