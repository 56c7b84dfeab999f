"""Logins of the page with MySQL's accounts, as browsers and as attackers use them."""

import http.client
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Refused
from exuvia.server import logins as browser_logins
from exuvia.server.authentication import Errand, conversation
from exuvia.server.http import JobCommand
from exuvia.server.logins import (
    ALL_GUESSES,
    GUESSES,
    IDLE_S,
    LONGEST_S,
    Guesses,
    Logins,
    TooManyGuesses,
)
from exuvia.server.packets import Login
from exuvia.sql.privileges import passwords
from exuvia.sql.privileges.accounts import Account, Book
from support.node_processes import NodeProcess, running_nodes, until

ASK, READS = "operator", "reader"


class Answer:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers = answer.status, answer.headers
        is_json = self.headers.get_content_type() == "application/json"  # a stream has no end
        self.body: dict[str, Any] = json.loads(answer.read()) if is_json else {}


class Person:
    """A browser's state: a cookie and a token, if it has logged in."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port, self.tls = port, tls
        self.cookie = self.token = ""

    def ask(self, path: str, body: object = None, /, method: str = "", **headers: str) -> Answer:
        request_headers: dict[str, str] = {"Cookie": self.cookie} if self.cookie else {}
        if self.token:
            request_headers["X-Exuvia-Token"] = self.token
        if body is not None:
            request_headers["Content-Type"] = "application/json"
        request_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        way: http.client.HTTPConnection = http.client.HTTPConnection("127.0.0.1", self.port)
        if self.tls is not None:
            way = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls)
        way.timeout = 60
        with closing(way):
            text = None if body is None else json.dumps(body)
            way.request(method or ("GET" if body is None else "POST"), path, text, request_headers)
            return Answer(way.getresponse())

    def log_in(self, user: str, password: str, **headers: str) -> Answer:
        answer = self.ask("/page/login", {"user": user, "password": password}, **headers)
        if answer.status == 200:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            self.token = answer.body["token"]
        return answer

    def command(self, what: str, job: int, **more: object) -> Answer:
        return self.ask("/page/command", {"what": what, "job": job} | more)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node on which only this module fails to log in."""
    with running_nodes(tmp_path_factory.mktemp("logins")) as [node]:
        with node.connect(autocommit=True) as client:
            client.query("CREATE DATABASE app")
            client.query("CREATE TABLE app.t (id INT PRIMARY KEY, a INT)")
            client.query(f"CREATE USER {ASK} IDENTIFIED WITH caching_sha2_password BY 'sesame'")
            client.query(f"GRANT SUPER ON *.* TO {ASK}")
            client.query(f"CREATE USER {READS} IDENTIFIED WITH mysql_native_password BY 'open'")
            client.query(f"GRANT SELECT ON app.* TO {READS}")
        until(lambda: Person(node.status_port).log_in(ASK, "sesame").status == 200)
        yield node


@contextmanager
def held_job(node: NodeProcess) -> Iterator[int]:
    """A job that is held at its start."""
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        cursor.execute("SET exuvia_ddl_async = ON, exuvia_ddl_hold = 'start'")
        cursor.execute("ALTER TABLE app.t ADD INDEX (a)")
        [(job, *_)] = cursor.fetchall()
        until(lambda: state_of(node, job) == "held")
        try:
            yield job
        finally:
            cursor.execute(f"ADMIN CANCEL DDL JOBS {job}")
            until(lambda: node.status()["jobs_unfinished"] == 0)


def state_of(node: NodeProcess, job: int) -> str:
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        cursor.execute(f"SELECT STATE FROM information_schema.ddl_jobs WHERE JOB_ID = {job}")
        rows = cursor.fetchall()
        return str(rows[0][0]) if rows else ""


def test_both_plugins_accept_the_password(own: NodeProcess) -> None:
    for user, password in ((ASK, "sesame"), (READS, "open"), ("root", "")):
        person = Person(own.status_port)
        assert person.ask("/page/session").body == {}
        answer = person.log_in(user, password)
        assert answer.status == 200, (user, answer.body)
        assert answer.body["user"] == f"{user}@127.0.0.1"
        cookie = answer.headers["Set-Cookie"]
        assert re.match(rf"exuvia_{own.status_port}=[\w-]{{43}};", cookie)
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
        assert answer.headers["Cache-Control"] == "no-store"
        assert person.ask("/page/session").body == {"user": answer.body["user"]}
        person.ask("/page/logout", {})
        assert person.ask("/page/session").body == {}
        assert person.command("pause", 1).status == 401


def test_a_cookie_that_another_port_of_this_host_was_sent_is_nothing(own: NodeProcess) -> None:
    person, thief = Person(own.status_port), Person(own.status_port)
    person.log_in("root", "")
    thief.cookie = person.cookie
    assert thief.ask("/page/session").body == {}
    assert thief.ask("/page/statistics?id=1").status == 401
    assert thief.command("pause", 1).status == 401
    thief.ask("/page/logout", {})
    assert person.ask("/page/session").body == {"user": "root@127.0.0.1"}
    assert thief.ask("/page/session", None, X_Exuvia_Token=person.token[:-1]).body == {}


def test_errors_of_jobs_quote_rows_only_after_a_login(own: NodeProcess) -> None:
    with own.connect(autocommit=True) as client:
        client.query("CREATE TABLE app.quoted (id INT PRIMARY KEY, v VARCHAR(20))")
        client.query("INSERT INTO app.quoted VALUES (1, 'confidential'), (2, 'confidential')")
        client.query("SET GLOBAL exuvia_preflight_rows = 0")  # or no job would begin
        with pytest.raises(pymysql.err.IntegrityError, match="confidential"):
            client.query("ALTER TABLE app.quoted ADD UNIQUE (v)")
        client.query("SET GLOBAL exuvia_preflight_rows = DEFAULT")
    nobody, reader, root = (Person(own.status_port) for _ in range(3))
    reader.log_in(READS, "open")
    root.log_in("root", "")
    for path in ("/page/history", "/page/table?database=app&table=quoted"):
        for person in (nobody, reader):
            errors = [job["error"] for job in person.ask(path).body.get("jobs", [])]
            assert not any("confidential" in text for text in errors)
            assert any("1062" in text for text in errors) or person is reader
        assert any("confidential" in job["error"] for job in root.ask(path).body["jobs"])
    assert all("confidential" not in str(nobody.ask(path).body) for path in SHOWN)


def test_a_wrong_password_is_refused_as_on_the_wire_and_only_so_often(own: NodeProcess) -> None:
    person = Person(own.status_port)
    answers = [person.log_in(ASK, "wrong") for _ in range(3)]
    answers += [person.log_in("nobody", "x") for _ in range(GUESSES + 1 - len(answers))]
    assert [answer.status for answer in answers[:-1]] == [403] * GUESSES
    assert answers[0].body["code"] == 1045
    assert answers[-1].status == 429 and int(answers[-1].headers["Retry-After"]) >= 1
    assert person.log_in(ASK, "sesame").status == 429, "it must not say that this one is right"
    with own.connect(autocommit=True) as client:
        client.query("DO 1")  # SQL is not held up by that
    until(lambda: person.log_in(ASK, "sesame").status == 200)


def test_a_command_is_what_sql_lets_the_account_do(own: NodeProcess) -> None:
    reader, operator = Person(own.status_port), Person(own.status_port)
    assert reader.log_in(READS, "open").status == operator.log_in(ASK, "sesame").status == 200
    with held_job(own) as job:
        refused = reader.command("complete", job)
        assert (refused.status, refused.body["code"]) == (403, 1227)
        assert state_of(own, job) == "held"
        done = operator.command("pause", job)
        assert done.body["statement"] == f"ADMIN PAUSE DDL JOBS {job}"
        assert done.body["said"].startswith("error: [ddl:8262]"), "held: SQL's own answer"
        assert operator.command("complete", job).body["said"] == "successful"
        until(lambda: state_of(own, job) == "synced")
    with own.connect(autocommit=True) as client:
        client.query("ALTER TABLE app.t DROP INDEX a")
        assert "a command from the page" in own.log.read_text()


def test_another_sites_page_cannot_command(own: NodeProcess) -> None:
    """A browser may send the cookie, but the page cannot read the token or set headers."""
    person = Person(own.status_port)
    person.log_in(ASK, "sesame")
    with held_job(own) as job:
        body = {"what": "complete", "job": job}
        here = f"http://127.0.0.1:{own.status_port}"
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://127.0.0.1:{own.port}"},
            {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
            {"Sec_Fetch_Site": "same-site"},
            {"Host": "evil.example"},
        ):
            assert person.ask("/page/command", body, **headers).status == 403, headers
        for token in ("", person.token[:-1]):
            assert person.ask("/page/command", body, X_Exuvia_Token=token).status == 401
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            assert person.ask("/page/command", body, Content_Type=kind).status == 415
        stranger = Person(own.status_port)
        stranger.token = person.token
        assert stranger.ask("/page/command", body).status == 401
        assert state_of(own, job) == "held"
        assert person.ask("/page/command", body, method="GET").status == 405
        assert person.ask("/page/command", body, Origin=here).status == 200
        until(lambda: state_of(own, job) == "synced")
    with own.connect(autocommit=True) as client:
        client.query("ALTER TABLE app.t DROP INDEX a")


@pytest.mark.parametrize(
    "body",
    [
        {"what": "drop", "job": 1},
        {"what": "cancel", "job": "1; DROP TABLE app.t"},
        {"what": "cancel", "job": 0},
        {"what": "cancel", "job": 1 << 63},
        {"what": "cancel"},
        {"what": "cancel", "job": 1, "sql": "x"},
        {"what": "alter", "job": 1},
        {"what": "alter", "job": 1, "thread": "4"},
        {"what": "alter", "job": 1, "max_write_speed": "1', thread = '9"},
        {"what": "alter", "job": 1, "max_write_speed": "9\n"},
        {"what": "cancel", "job": 1, "x": "y" * 5000},
        [],
    ],
)
def test_an_invalid_command(own: NodeProcess, body: object) -> None:
    person = Person(own.status_port)
    person.log_in("root", "")
    assert person.ask("/page/command", body).status == 400


def test_what_is_run_for_a_button() -> None:
    assert JobCommand("cancel", 7).statement == "ADMIN CANCEL DDL JOBS 7"
    altered = JobCommand("alter", 7, thread=4, max_write_speed="10MiB")
    assert altered.statement == "ADMIN ALTER DDL JOBS 7 THREAD = 4, MAX_WRITE_SPEED = '10MiB'"


def test_a_login_ends_with_its_account(own: NodeProcess) -> None:
    with own.connect(autocommit=True) as client:
        for change in (
            "ALTER USER brief IDENTIFIED BY 'other'",
            "ALTER USER brief ACCOUNT LOCK",
            "DROP USER brief",
        ):
            client.query("DROP USER IF EXISTS brief")
            client.query("CREATE USER brief IDENTIFIED BY 'word'")
            person = Person(own.status_port)
            until(lambda login=person: login.log_in("brief", "word").status == 200)
            assert person.ask("/page/session").body
            client.query(change)
            until(lambda login=person: not login.ask("/page/session").body, about=change)


def test_a_table_is_shown_as_its_reader_may_see_it(own: NodeProcess) -> None:
    with own.connect(autocommit=True) as client:
        client.query("CREATE DATABASE IF NOT EXISTS secret")
        client.query("CREATE TABLE IF NOT EXISTS secret.t (a INT)")
        client.query("INSERT INTO app.t VALUES (1, 10), (2, 10), (3, 30)")
        client.query("ANALYZE TABLE app.t")
    reader, nobody = Person(own.status_port), Person(own.status_port)
    reader.log_in(READS, "open")
    assert reader.ask("/page/table?database=app&table=t").status == 200
    refused = reader.ask("/page/table?database=secret&table=t")
    assert refused.status == 404 and "denied" in refused.body["error"]
    table = nobody.ask("/page/table?database=app&table=t").body["parts"]
    where = f"/page/statistics?id={table['id']}"
    assert nobody.ask(where).status == 401, "bounds are values of rows"
    assert reader.ask(where).status == 403
    root = Person(own.status_port)
    root.log_in("root", "")
    listed = root.ask(where).body["statistics"]
    [column] = [row for row in listed if table["columns"][str(row["id"])] == "a"]
    assert (column["distinct"], column["nulls"]) == (2, 0)
    drawn = root.ask(f"{where}&index=0&of={column['id']}").body
    rows = sum(bucket[0] for bucket in (*drawn["buckets"], *drawn["top"]))
    assert rows == 3
    assert {bucket[-1] for bucket in (*drawn["buckets"], *drawn["top"])} <= {"10", "30"}
    assert root.ask(f"{where}&index=0&of=x").status == 400


# -- on other addresses than loopback --------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-keyout", str(files[1]), "-out", str(files[0]), "-subj", "/CN=node"]
    subprocess.run(command, check=True, capture_output=True)
    return files


@contextmanager
def elsewhere(folder: Path, *options: str) -> Iterator[NodeProcess]:
    """A node whose status port listens on all addresses."""
    node = NodeProcess(
        f"lmdb://{folder / 'store'}", folder / "log", options=("--status-host", "0.0.0.0", *options)
    )
    try:
        assert node.process.stdout is not None
        line = node.process.stdout.readline().decode()
        ports = re.search(r"mysql [\d.]+:(\d+), status http://[\d.]+:(\d+),", line)
        assert ports, node.log.read_text()[-2000:]
        node.port, node.status_port = int(ports[1]), int(ports[2])
        yield node
    finally:
        node.stop()


SHOWN = ("/", "/app.js", "/status", "/stats/priority-queue", "/events", "/page/live")
SHOWN += ("/page/history", "/page/tables?name=a", "/page/cluster", "/page/session")


def test_beyond_loopback_nothing_is_shown_in_clear_text(tmp_path: Path) -> None:
    with elsewhere(tmp_path) as node:
        person = Person(node.status_port)
        assert {person.ask(path).status for path in SHOWN} == {403}
        assert person.log_in("root", "").status == 403
        assert "--ssl-cert" in person.ask("/").body["error"]
        open_to_all = [person.ask(path).status for path in ("/livez", "/readyz", "/metrics")]
        assert open_to_all == [200, 200, 200]


def test_beyond_loopback_tls_and_a_login_are_required(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    files = ("--ssl-cert", str(certificate[0]), "--ssl-key", str(certificate[1]))
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    trusting.check_hostname = False
    with elsewhere(tmp_path, *files) as node:
        plain, person = Person(node.status_port), Person(node.status_port, trusting)
        moved = plain.ask("/", Host=f"node:{node.status_port}")
        assert (moved.status, moved.headers["Location"]) == (
            307,
            f"https://node:{node.status_port}/",
        )
        assert {plain.ask(path).status for path in SHOWN[1:]} == {403}
        assert plain.log_in("root", "").status == 403
        assert [person.ask(path).status for path in ("/", "/app.js", "/page/session")] == [200] * 3
        assert {person.ask(path).status for path in SHOWN[2:-1]} == {401}
        with node.connect(autocommit=True) as client:
            client.query("CREATE USER reader IDENTIFIED BY 'open'")
            client.query("CREATE USER operator IDENTIFIED BY 'sesame'")
            client.query("GRANT SUPER ON *.* TO operator")
        until(lambda: person.log_in("reader", "open").status == 200)
        assert {person.ask(path).status for path in SHOWN[2:-1]} == {403}
        assert person.log_in("operator", "sesame").status == 200
        cookie = person.log_in("operator", "sesame").headers["Set-Cookie"]
        assert "Secure" in cookie
        assert cookie.startswith(f"__Host-exuvia_{node.status_port}=")
        assert "Path=/" in cookie and "Domain" not in cookie
        assert person.ask("/page/live").body["version"] > 0
        assert person.ask("/status").body["members"]
        stolen = Person(node.status_port)
        stolen.cookie = person.cookie
        assert stolen.ask("/page/live").status == 403, "never in clear text"
        with node.connect(autocommit=True) as client:
            client.query("REVOKE SUPER ON *.* FROM operator")
        until(lambda: person.ask("/page/live").status == 403)


def test_a_stream_ends_with_its_login(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    files = ("--ssl-cert", str(certificate[0]), "--ssl-key", str(certificate[1]))
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    trusting.check_hostname = False
    with elsewhere(tmp_path, *files) as node:
        person = Person(node.status_port, trusting)
        assert person.log_in("root", "").status == 200
        way = http.client.HTTPSConnection(
            "127.0.0.1", node.status_port, context=trusting, timeout=60
        )
        with closing(way):
            way.request("GET", "/events", headers={"Cookie": person.cookie})
            stream = way.getresponse()
            assert b"retry" in stream.readline()
            person.ask("/page/logout", {})
            while stream.readline():
                pass


@pytest.mark.long
def test_a_silent_client_of_the_status_port_is_disconnected(own: NodeProcess) -> None:
    with socket.create_connection(("127.0.0.1", own.status_port), timeout=60) as silent:
        silent.sendall(b"GET / HT")
        assert silent.recv(1) == b""


# -- without a node --------------------------------------------------------------------------------


class ByHand(SystemClock):
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class OneAccount:
    """A book with one account that has no password."""

    def __init__(self) -> None:
        self.version = 1
        self.book = Book((Account("a", "%", "mysql_native_password", "", frozenset()),), (), ())


class NoSession:
    def close(self) -> None:
        pass


def logins_with(clock: ByHand) -> Logins:
    accounts: Any = OneAccount()
    return Logins(accounts, lambda number, host, login: NoSession(), clock)


def test_a_login_ends_when_nobody_uses_it_and_some_day_anyway() -> None:
    clock = ByHand()
    logins = logins_with(clock)
    idle, _ = logins.log_in("a", "", "10.0.0.1", True)
    used, login = logins.log_in("a", "", "10.0.0.1", True)
    for _ in range(int(LONGEST_S / IDLE_S) * 2):
        assert logins.find(used) is login
        clock.now += IDLE_S / 2
    assert logins.find(idle) is None
    clock.now += 1
    assert logins.find(used) is None
    assert logins.find("") is None


def test_only_so_many_are_logged_in() -> None:
    logins = logins_with(ByHand())
    cookies = [
        logins.log_in("a", "", "10.0.0.1", True)[0] for _ in range(browser_logins.MOST_LOGINS + 1)
    ]
    assert logins.find(cookies[0]) is None
    assert all(logins.find(cookie) for cookie in cookies[1:])


def test_a_guess_costs_its_address_and_all() -> None:
    guesses = Guesses()
    for _ in range(GUESSES):
        guesses.take("10.0.0.1", 0.0)
    with pytest.raises(TooManyGuesses):
        guesses.take("10.0.0.1", 9.0)
    guesses.take("10.0.0.1", 11.0)
    for n in range(GUESSES):
        guesses.take(f"2001:db8::{n}", 11.0)
    with pytest.raises(TooManyGuesses):
        guesses.take("2001:db8::ffff", 11.0)
    guesses.take("2001:db8:0:1::1", 11.0)
    with pytest.raises(TooManyGuesses):
        for n in range(ALL_GUESSES + 1):
            guesses.take(f"10.1.0.{n}", 11.0)


def test_nobody_is_let_in_by_another_ones_name() -> None:
    with pytest.raises(Refused) as refused:
        logins_with(ByHand()).log_in("b", "x", "10.0.0.1", True)
    assert refused.value.code == 1045


class SeveralAccounts:
    """A book with accounts of these plugins, whose passwords no client has sent yet."""

    def __init__(self, *plugins: str) -> None:
        self.book = Book(
            tuple(
                Account(f"known{n}", "%", plugin, passwords.stored(plugin, "sesame"), frozenset())
                for n, plugin in enumerate(plugins)
            ),
            (),
            (),
        )

    def remembered(self, account: Account) -> bytes:
        return b""


def talk_with(accounts: Any, user: str, plugin: str, secure: bool) -> tuple[list[bytes], str]:
    """The server's packets and error for a login with a wrong password."""
    login = Login(user, "", "utf-8", 0, b"x" * 20, plugin, secure=secure)
    talk = conversation(accounts, login, "10.0.0.1", b"n" * 20, SystemClock())
    packets_sent: list[bytes] = []
    answer: bytes | None = None
    try:
        while True:
            question = talk.send(answer)  # type: ignore[arg-type]
            if isinstance(question, Errand):
                question.run()
                packets_sent.append(b"an errand")
            else:
                packets_sent.append(question)
            answer = b"wrong\0"
    except Refused as error:
        return packets_sent, str(error).replace(user, "?")


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("offered", passwords.PLUGINS)
@pytest.mark.parametrize("plugin", passwords.PLUGINS)
def test_a_name_without_an_account_is_answered_as_one_with(
    plugin: str, offered: str, secure: bool
) -> None:
    accounts = SeveralAccounts(plugin)
    expected = talk_with(accounts, "known0", offered, secure)
    assert talk_with(accounts, "unknown", offered, secure) == expected


def test_a_password_without_end_is_never_hashed() -> None:
    """SHA-256 crypt takes quadratic time, and clients without an account may request it."""
    accounts = SeveralAccounts(passwords.CACHING)
    for user in ("known0", "unknown"):
        login = Login(user, "", "utf-8", 0, b"x" * 32, passwords.CACHING, secure=True)
        talk = conversation(accounts, login, "10.0.0.1", b"n" * 20, SystemClock())  # type: ignore[arg-type]
        assert next(talk) == b"\x01\x04"
        errand = talk.send(b"x" * (1 << 24) + b"\0")
        assert isinstance(errand, Errand)
        errand.run()  # 2**48 bytes would be repeated
        with pytest.raises(Refused):
            talk.send(b"")
    with pytest.raises(Refused, match="256 bytes"):
        passwords.stored(passwords.CACHING, "x" * 257)
    longest = "x" * 256
    assert passwords.is_of(passwords.stored(passwords.CACHING, longest), longest)


def test_a_name_without_an_account_has_always_the_same_plugin() -> None:
    accounts = SeveralAccounts(*passwords.PLUGINS)
    for n in range(20):
        plugins = [accounts.book.stand_in(f"u{n}").plugin for _ in range(3)]
        assert len(set(plugins)) == 1
    assert {accounts.book.stand_in(f"u{n}").plugin for n in range(20)} == set(passwords.PLUGINS)


def test_a_password_for_an_account_without_one_is_asked_for_likewise() -> None:
    accounts = SeveralAccounts(passwords.CACHING)
    [one] = accounts.book.accounts
    accounts.book = accounts.book._replace(accounts=(one, one._replace(user="open", stored="")))
    assert talk_with(accounts, "open", passwords.NATIVE, True) == talk_with(
        accounts, "known0", passwords.NATIVE, True
    )
