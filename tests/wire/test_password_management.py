"""Passwords that expire and accounts that lock, with real clients on two nodes whose clock the
tests move."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT

from support.node_processes import NodeProcess, running_nodes, until

DAY_S = 86400
ANSWER_S = 20
SERVE = """
import time
from pathlib import Path
from exuvia.base import clock
ahead = Path({ahead!r})
clock.SystemClock.wall_ns = lambda self: time.time_ns() + int(ahead.read_text()) * 10**9
from exuvia.cli.main import main
main()
"""
EXPIRED, LOCKED, BLOCKED, DENIED, CHANGE_FIRST = 1862, 3118, 3955, 1045, 1820


class Nodes:
    """Two nodes, and the number of seconds that their wall clock is ahead."""

    def __init__(self, nodes: list[NodeProcess], ahead: Path) -> None:
        self.one, self.other = nodes
        self._ahead = ahead

    def move(self, seconds: int) -> None:
        now = int(self._ahead.read_text()) + seconds
        beside = self._ahead.with_suffix(".new")
        beside.write_text(str(now))
        beside.rename(self._ahead)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("passwords")
    ahead = folder / "ahead"
    ahead.write_text("0")
    program = ("-c", SERVE.format(ahead=str(ahead)))
    with running_nodes(folder, 2, program=program) as started:
        yield Nodes(started, ahead)


@pytest.fixture
def root(nodes: Nodes) -> Iterator[pymysql.Connection]:
    with nodes.one.connect(autocommit=True) as client:
        yield client


def enter(node: NodeProcess, user: str, password: str, **more: object) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=node.port, user=user, password=password, autocommit=True, **more
    )  # type: ignore[call-overload, no-any-return]


def refusal(node: NodeProcess, user: str, password: str, **more: object) -> tuple[int, str]:
    """(code, text) of a login; (0, "") if it succeeds."""
    try:
        enter(node, user, password, **more).close()
    except pymysql.MySQLError as error:
        code, text = error.args
        return code, text
    return 0, ""


def rows(connection: pymysql.Connection, text: str) -> list[list[object]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return [list(row) for row in cursor.fetchall()]


def code(connection: pymysql.Connection, text: str) -> int:
    with pytest.raises(pymysql.MySQLError) as caught:
        connection.cursor().execute(text)
    return int(caught.value.args[0])


HANDLES = {"client_flag": CLIENT.HANDLE_EXPIRED_PASSWORDS}


def wait_for_account(node: NodeProcess, text: str, expected: object) -> None:
    """Wait until the node has read the accounts again, which takes milliseconds."""
    with node.connect(autocommit=True) as root:
        until(lambda: rows(root, text) == [[expected]])


# -- expiry ----------------------------------------------------------------------------------------


def test_an_expired_password_allows_only_its_change(nodes: Nodes, root: pymysql.Connection) -> None:
    root.query("CREATE USER ann IDENTIFIED BY 'sesame' PASSWORD EXPIRE")
    root.query("CREATE USER other")
    root.query("GRANT ALL ON *.* TO ann")
    error = refusal(nodes.one, "ann", "sesame")
    assert error == (
        EXPIRED,
        "Your password has expired. To log in you must change it using a client that supports "
        "expired passwords.",
    )
    assert refusal(nodes.one, "ann", "wrong", **HANDLES)[0] == DENIED
    with enter(nodes.one, "ann", "sesame", database="mysql", **HANDLES) as ann:
        for text in (
            "SELECT 1",
            "SHOW DATABASES",
            "ALTER USER other IDENTIFIED BY 'x'",
            "ALTER USER USER() PASSWORD EXPIRE NEVER",
            "SET PASSWORD FOR other = 'x'",
            "DROP USER other",
            "PREPARE p FROM 'SELECT 1'",
            "BEGIN",
            "DO 1",
            "SET GLOBAL validate_password.enable = OFF",
        ):
            assert code(ann, text) == CHANGE_FIRST, text
        with pytest.raises(pymysql.MySQLError) as caught:
            ann.select_db("test")
        assert caught.value.args[0] == CHANGE_FIRST
        ann.query("SET NAMES utf8mb4")
        ann.query("ALTER USER USER() IDENTIFIED BY 'new'")
        assert rows(ann, "SELECT CURRENT_USER()") == [["ann@%"]]
    assert refusal(nodes.one, "ann", "new") == (0, "")
    root.query("DROP USER ann, other")


def test_ways_to_change_a_password_and_new_connections(
    nodes: Nodes, root: pymysql.Connection
) -> None:
    node = nodes.one
    root.query("CREATE USER bob IDENTIFIED BY 'a' PASSWORD EXPIRE")
    with mysql.connector.connect(
        host="127.0.0.1",
        port=node.port,
        user="bob",
        password="a",
        use_pure=True,
        client_flags=[mysql.connector.constants.ClientFlag.CAN_HANDLE_EXPIRED_PASSWORDS],
    ) as bob:
        bob.cmd_reset_connection()
        with pytest.raises(mysql.connector.Error) as caught:
            bob.cursor(prepared=True).execute("SELECT 1")
        assert caught.value.errno == CHANGE_FIRST
        bob.cmd_query("SET PASSWORD = 'b'")
        bob.cmd_reset_connection()
        bob.cmd_query("SELECT 1")
        bob.get_rows()
    root.query("ALTER USER bob PASSWORD EXPIRE")
    client = ["mysql", "-h", "127.0.0.1", "-P", str(node.port), "-u", "bob", "-pb"]
    client += ["--connect-expired-password", "-e"]
    refused = subprocess.run([*client, "SELECT 1"], capture_output=True, text=True)
    assert refused.returncode and "ERROR 1820" in refused.stderr, refused.stderr
    subprocess.run([*client, "ALTER USER CURRENT_USER() IDENTIFIED BY 'c'"], check=True)
    assert refusal(node, "bob", "c") == (0, "")
    root.query("DROP USER bob")


def test_a_password_expires_by_its_age(nodes: Nodes, root: pymysql.Connection) -> None:
    root.query("CREATE USER young IDENTIFIED BY 'a' PASSWORD EXPIRE INTERVAL 30 DAY")
    root.query("CREATE USER never IDENTIFIED BY 'a' PASSWORD EXPIRE NEVER")
    root.query("CREATE USER usual IDENTIFIED BY 'a'")
    nodes.move(31 * DAY_S)
    try:
        for node in (nodes.one, nodes.other):
            until(lambda node=node: refusal(node, "young", "a")[0] == EXPIRED)  # type: ignore[misc]
            assert refusal(node, "never", "a") == refusal(node, "usual", "a") == (0, "")
        root.query("SET GLOBAL default_password_lifetime = 20")
        until(lambda: refusal(nodes.other, "usual", "a")[0] == EXPIRED)
        assert refusal(nodes.other, "never", "a") == (0, "")
        root.query("ALTER USER usual IDENTIFIED BY 'b'")
        assert refusal(nodes.one, "usual", "b") == (0, "")
    finally:
        root.query("SET GLOBAL default_password_lifetime = DEFAULT")
        root.query("DROP USER young, never, usual")


# -- locks by failures -----------------------------------------------------------------------------


def test_failures_on_all_nodes_lock_an_account_for_days(
    nodes: Nodes, root: pymysql.Connection
) -> None:
    root.query("CREATE USER cat IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2")
    wait_for_account(nodes.other, "SELECT count(*) FROM mysql.user WHERE user = 'cat'", 1)
    until(lambda: refusal(nodes.other, "cat", "right") == (0, ""))
    assert refusal(nodes.one, "cat", "wrong")[0] == DENIED
    assert refusal(nodes.other, "cat", "wrong")[0] == DENIED
    message = (
        "Access denied for user 'cat'@'%'. Account is blocked for 2 day(s) (2 day(s) remaining) "
        "due to 3 consecutive failed logins."
    )
    assert refusal(nodes.one, "cat", "wrong") == (BLOCKED, message)
    table = "SELECT * FROM mysql.exuvia_login_failures"
    before = rows(root, table)
    assert before[0][:3] == ["%", "cat", 3]
    for node in (nodes.one, nodes.other):
        for password in ("right", "wrong"):
            assert refusal(node, "cat", password) == (BLOCKED, message)
    assert rows(root, table) == before
    nodes.move(DAY_S + 60)
    assert refusal(nodes.other, "cat", "right") == (
        BLOCKED,
        message.replace("2 day(s) remaining", "1 day(s) remaining"),
    )
    nodes.move(DAY_S)
    assert refusal(nodes.other, "cat", "wrong")[0] == DENIED  # the first of a new row of three
    assert refusal(nodes.other, "cat", "right") == (0, "")
    assert rows(root, table) == []
    root.query("DROP USER cat")


def test_a_successful_login_resets_the_count_of_failures(
    nodes: Nodes, root: pymysql.Connection
) -> None:
    root.query(
        "CREATE USER dan IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME UNBOUNDED"
    )
    for _ in range(3):
        assert refusal(nodes.one, "dan", "wrong")[0] == DENIED
        assert refusal(nodes.one, "dan", "right") == (0, "")
    refusal(nodes.one, "dan", "wrong")
    text = refusal(nodes.one, "dan", "wrong")[1]
    assert "blocked for unlimited day(s) (unlimited day(s) remaining)" in text
    nodes.move(1000 * DAY_S)
    assert refusal(nodes.other, "dan", "right")[0] == BLOCKED
    attributes = rows(root, "SELECT user_attributes FROM mysql.user WHERE user = 'dan'")[0][0]
    locking = json.loads(str(attributes))["Password_locking"]
    assert locking["auto_account_locked"] == "Y" and locking["failed_login_count"] == 2
    root.query("ALTER USER dan ACCOUNT UNLOCK")
    assert refusal(nodes.other, "dan", "right") == (0, "")
    root.query("DROP USER dan")


def test_guesses_at_once_have_no_more_tries(nodes: Nodes, root: pymysql.Connection) -> None:
    tries, guesses = 5, 40
    root.query(
        f"CREATE USER eve IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS {tries} PASSWORD_LOCK_TIME 1"
    )
    until(lambda: refusal(nodes.other, "eve", "right") == (0, ""))
    places = [nodes.one, nodes.other] * (guesses // 2)
    with ThreadPoolExecutor(16) as threads:
        codes = list(threads.map(lambda node: refusal(node, "eve", "wrong")[0], places))
    assert codes.count(DENIED) == tries - 1
    assert codes.count(BLOCKED) == guesses - tries + 1
    assert refusal(nodes.one, "eve", "right")[0] == BLOCKED
    root.query("DROP USER eve")


def test_change_user_counts_too(nodes: Nodes, root: pymysql.Connection) -> None:
    root.query("CREATE USER fay IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1")
    for expected in (DENIED, BLOCKED):
        client = mysql.connector.connect(
            host="127.0.0.1", port=nodes.one.port, user="root", use_pure=True
        )
        with pytest.raises(mysql.connector.Error) as caught:
            client.cmd_change_user("fay", "wrong")
        assert caught.value.errno == expected
    root.query("ALTER USER fay ACCOUNT UNLOCK")
    with mysql.connector.connect(
        host="127.0.0.1", port=nodes.one.port, user="root", use_pure=True
    ) as client:
        client.cmd_change_user("fay", "right")
        client.cmd_query("SELECT CURRENT_USER()")
        assert client.get_rows()[0] == [("fay@%",)]
    root.query("DROP USER fay")


def test_a_login_that_waits_for_the_store_holds_up_nobody(
    nodes: Nodes, root: pymysql.Connection
) -> None:
    root.query("CREATE USER gil IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 5 PASSWORD_LOCK_TIME 1")
    root.query("CREATE TABLE test.gil (id INT PRIMARY KEY)")
    path = nodes.one.store.removeprefix("lmdb://")
    other = enter(nodes.one, "root", "", read_timeout=ANSWER_S)
    with other, ThreadPoolExecutor(1) as thread, lmdb.open(path, map_size=1 << 40) as store:
        with store.begin(write=True):  # commits have to wait
            guess = thread.submit(refusal, nodes.one, "gil", "wrong")
            for _ in range(50):
                assert rows(other, "SELECT * FROM test.gil WHERE id = 1") == []
            assert refusal(nodes.one, "root", "", read_timeout=ANSWER_S) == (0, "")
            assert not guess.done()
        assert guess.result()[0] == DENIED
    root.query("DROP TABLE test.gil")
    root.query("DROP USER gil")


# -- the page --------------------------------------------------------------------------------------


def page_login(node: NodeProcess, user: str, password: str) -> tuple[int, dict[str, object]]:
    way = http.client.HTTPConnection("127.0.0.1", node.status_port, timeout=60)
    body = json.dumps({"user": user, "password": password})
    way.request("POST", "/page/login", body, {"Content-Type": "application/json"})
    answer = way.getresponse()
    answered = answer.status, json.loads(answer.read())
    way.close()
    return answered


def test_the_page_has_the_same_rules(nodes: Nodes, root: pymysql.Connection) -> None:
    root.query("CREATE USER hal IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1")
    node = nodes.one
    assert page_login(node, "hal", "right")[0] == 200
    root.query("ALTER USER hal PASSWORD EXPIRE")
    status, body = page_login(node, "hal", "right")
    assert (status, body["code"]) == (403, EXPIRED) and "has expired" in str(body["error"])
    root.query("ALTER USER hal IDENTIFIED BY 'right'")
    assert page_login(node, "hal", "wrong")[1]["code"] == DENIED
    assert refusal(nodes.other, "hal", "wrong")[0] == BLOCKED
    status, body = page_login(node, "hal", "right")
    assert (status, body["code"]) == (403, BLOCKED) and "blocked for 1 day(s)" in str(body["error"])
    root.query("ALTER USER hal ACCOUNT UNLOCK ACCOUNT LOCK")
    assert page_login(node, "hal", "right")[1]["code"] == BLOCKED
    root.query("ALTER USER hal FAILED_LOGIN_ATTEMPTS 0")
    assert page_login(node, "hal", "right")[1]["code"] == LOCKED
    root.query("DROP USER hal")
