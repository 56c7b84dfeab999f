"""The page at the status port: access, content and cost."""

import asyncio
import http.client
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import ActionCode, Job, JobState
from exuvia.pipeline.measures import WaveReport
from exuvia.server import http as http_server
from exuvia.server.http import is_loopback
from exuvia.server.page import pace_of, path_of, shown_query
from exuvia.server.watchers import MOST, Watchers, difference, pause_s
from support.node_processes import ANSWER_S, READY_S, NodeProcess, end_all, until

FILES = {
    "/": "text/html",
    "/app.css": "text/css",
    "/app.js": "text/javascript",
    "/commands.js": "text/javascript",
    "/elements.js": "text/javascript",
    "/histogram.js": "text/javascript",
    "/chart.js": "text/javascript",
    "/feed.js": "text/javascript",
    "/icon.svg": "image/svg+xml",
}
EVIL = "<img src=x onerror=alert(1)>"
SOON_S = 2.0
LATE_S = 20.0  # on a machine that is busy with something else


def request(
    node: NodeProcess, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", node.status_port, timeout=60)) as way:
        way.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = way.getresponse()
        return answer.status, answer.headers, answer.read().decode()


class Stream:
    """One watcher."""

    def __init__(self, node: NodeProcess) -> None:
        self._way = http.client.HTTPConnection("127.0.0.1", node.status_port, timeout=ANSWER_S)
        self._way.request("GET", "/events")
        self.answer = self._way.getresponse()

    def next(self, *names: str) -> tuple[str, dict[str, Any]]:
        """(name, values) of the next event of those names."""
        while True:
            line = self.answer.readline()
            assert line, "it has ended"
            name = line.decode().strip()
            if name.startswith("event: "):
                values = json.loads(self.answer.readline().decode().removeprefix("data: "))
                if not names or name.removeprefix("event: ") in names:
                    return name.removeprefix("event: "), values

    def close(self) -> None:
        self.answer.close()
        self._way.close()


@contextmanager
def held_jobs(node: NodeProcess, *statements: str) -> Iterator[None]:
    """Submit these statements and hold their jobs until the end."""
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        cursor.execute("SET exuvia_ddl_async = ON, exuvia_ddl_hold = 'start'")
        for statement in statements:
            cursor.execute(statement)
    try:
        yield
    finally:
        with node.connect(autocommit=True) as client, client.cursor() as cursor:
            cursor.execute("SELECT JOB_ID FROM information_schema.ddl_jobs WHERE STATE = 'held'")
            jobs = [str(row[0]) for row in cursor.fetchall()]
            if jobs:
                cursor.execute(f"ADMIN CANCEL DDL JOBS {', '.join(jobs)}")
        until(lambda: node.status()["jobs_unfinished"] == 0)


# -- access ----------------------------------------------------------------------------------------


def test_the_page_is_its_own_files_and_nothing_else(node: NodeProcess) -> None:
    for path, kind in FILES.items():
        status, headers, text = request(node, path)
        assert (status, headers.get_content_type()) == (200, kind), path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        policy = headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy)
        assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} <= set(policy)
        assert not any("unsafe" in source or "http" in source for source in policy)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
        named = re.findall(r"""(?:src|href|from|import)[=( ]+["']([^"'#]+)["']""", text)
        assert all(name in FILES for name in named), (path, named)
    _, _, page = request(node, "/")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", page)
    assert page.count("<table") == page.count("<caption") == page.count("<thead")


def test_nothing_but_get_and_head(node: NodeProcess) -> None:
    for path in ("/", "/events", "/page/live", "/status"):
        assert request(node, path, "HEAD")[0] == 200
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            kind = {"Content_Type": "application/json"}
            assert request(node, path, method, **kind)[0] == 405, (path, method)


def test_a_request_for_loopback_by_another_name_is_refused(node: NodeProcess) -> None:
    port = node.status_port
    for host in (f"127.0.0.1:{port}", "localhost", f"LOCALHOST:{port}", "[::1]", f"[::1]:{port}"):
        assert request(node, "/status", Host=host)[0] == 200, host
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
        for path in ("/", "/status", "/events", "/page/live"):
            assert request(node, path, Host=host)[0] == 403, (host, path)


def test_a_page_of_another_site_may_lead_here_and_not_ask(node: NodeProcess) -> None:
    def ask(mode: str) -> int:
        headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": mode}
        return request(node, "/", **headers)[0]

    assert (ask("navigate"), ask("no-cors"), ask("cors")) == (200, 403, 403)


def started(folder: Path, *options: str) -> tuple[NodeProcess, str, int, str, int]:
    """(node, MySQL's host and port, the status port's), as its first line has them."""
    node = NodeProcess(f"lmdb://{folder / 'store'}", folder / "log", options=options)
    assert node.process.stdout is not None
    line = node.process.stdout.readline().decode()
    match = re.search(r"mysql ([\d.]+):(\d+), status http://([\d.]+):(\d+),", line)
    assert match, (line, node.log.read_text()[-2000:])
    node.status_port = int(match[4])
    return node, match[1], int(match[2]), match[3], int(match[4])


def test_the_status_port_listens_on_loopback_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    nodes = []
    try:
        one = started(tmp_path / "a", "--host", "0.0.0.0")
        nodes.append(one[0])
        other = started(tmp_path / "b", "--status-host", "0.0.0.0")
        nodes.append(other[0])
        assert (one[1], one[3]) == ("0.0.0.0", "127.0.0.1")
        with socket.create_connection(("127.0.0.2", one[2]), READY_S):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", one[4]), READY_S)
        assert (other[1], other[3]) == ("127.0.0.1", "0.0.0.0")
        with socket.create_connection(("127.0.0.2", other[4]), READY_S):
            pass
        assert request(other[0], "/readyz", Host="balancer.example")[0] == 200
        assert request(other[0], "/status")[0] == 403
        with closing(Stream(one[0])) as stream:  # a watcher does not delay the node's end
            stream.next("all")
            one[0].stop()
        assert "Traceback" not in one[0].log.read_text()
    finally:
        end_all(nodes)


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "db1")),
    ],
)
def test_what_is_loopback(host: str, is_one: bool) -> None:
    assert is_loopback(host) == is_one


# -- content ---------------------------------------------------------------------------------------


def test_a_watcher_sees_a_job_come_and_go(node: NodeProcess) -> None:
    with closing(Stream(node)) as stream:
        assert stream.answer.headers.get_content_type() == "text/event-stream"
        name, first = stream.next("all", "change")
        assert name == "all" and first["version"] > 0
        with held_jobs(node, "CREATE TABLE test.seen (a INT)"):
            began = time.monotonic()
            jobs: list[dict[str, Any]] = []
            while not any(job["state"] == "held" for job in jobs):
                jobs = stream.next("change")[1]["jobs"]
                assert time.monotonic() - began < LATE_S
            [job] = jobs
            assert (job["database"], job["table"]) == ("test", "seen")
            assert (job["path"], job["at"]) == (["none", "public"], 0)
            assert "ADMIN COMPLETE DDL JOBS" in job["wait"]
            assert job["by"].startswith("root@")
            told_s = time.monotonic() - began
        removed: list[int] = []
        while job["id"] not in removed:
            removed = stream.next("change")[1]["gone"]
        assert time.monotonic() - began < LATE_S
        cluster = stream.next("cluster")[1]
    assert told_s < SOON_S
    assert {member["kind"] for member in cluster["nodes"]} == {"front", "back"}
    assert sorted(role for member in cluster["nodes"] for role in member["roles"]) == [
        "ddl", "gc", "stats",
    ]  # fmt: skip
    assert [handler["name"] for handler in cluster["handlers"]] == [
        "stats meta", "priority queue", "feed",
    ]  # fmt: skip


def test_a_name_that_holds_html_is_a_name(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as client:
        client.query(f"CREATE TABLE test.`{EVIL}` (`<b>` INT)")
    for path in (
        "history",
        "tables?name=%3Cimg",
        "table?database=test&table=%3Cimg%20src%3Dx%20on",
    ):
        whole = path.replace("x%20on", "x%20onerror%3Dalert(1)%3E")
        status, headers, text = request(node, f"/page/{whole}")
        assert (status, headers.get_content_type()) == (200, "application/json"), text
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert EVIL in text
    table = json.loads(text)
    assert table["create"].startswith(f"CREATE TABLE `{EVIL}` (\n  `<b>` int")
    assert [job["type"] for job in table["jobs"]] == ["create table"]
    assert request(node, "/page/table?database=test&table=missing")[0] == 404
    assert request(node, "/page/table")[0] == 404


def test_history_is_read_a_page_at_a_time(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as client:
        for n in range(60):
            client.query(f"CREATE TABLE test.paged{n} (a INT)")
    first = json.loads(request(node, "/page/history")[2])
    second = json.loads(request(node, f"/page/history?below={first['more']}")[2])
    ids = [job["id"] for job in (*first["jobs"], *second["jobs"])]
    assert len(first["jobs"]) == 50 and len(ids) > 60
    assert ids == sorted(set(ids), reverse=True)
    newest = first["jobs"][0]
    assert newest["table"] == "paged59" and newest["state"] == "synced"
    assert newest["created_ms"] <= newest["started_ms"] <= newest["ended_ms"]
    assert newest["stays"][0][0] == "queueing"
    assert sum(ms for _, ms in newest["stays"]) == newest["ended_ms"] - newest["created_ms"]
    answer = json.loads(request(node, "/page/tables?name=test.paged5")[2])
    assert answer["tables"] == [["test", f"paged5{n}"] for n in ("", *range(10))]
    assert not answer["more"]


def test_tables_are_read_a_page_at_a_time(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as client:
        for database in ("b2", "a1"):
            client.query(f"CREATE DATABASE {database}")
            for n in range(60):
                client.query(f"CREATE TABLE {database}.Twig{n:02} (a INT)")
    path, pages = "/page/tables?name=twIg", []
    while path:
        answer = json.loads(request(node, path)[2])
        pages.append([tuple(pair) for pair in answer["tables"]])
        more = answer["more"]
        path = more and f"/page/tables?name=twIg&database={more[0]}&table={more[1]}"
    assert [len(page) for page in pages] == [50, 50, 20]
    expected = [(base, f"twig{n:02}") for base in ("a1", "b2") for n in range(60)]
    assert [name for page in pages for name in page] == expected
    last = json.loads(request(node, "/page/tables?name=b2.twig&database=b2&table=TWIG57")[2])
    assert last == {"tables": [["b2", "twig58"], ["b2", "twig59"]], "more": None}


def test_passwords_in_statements_are_hidden() -> None:
    assert shown_query("ALTER TABLE t ADD INDEX (a)") == "ALTER TABLE t ADD INDEX (a)"
    assert len(shown_query("x" * 10_000)) < 400
    for text in (
        "CREATE USER a IDENTIFIED BY 'word'",
        "CREATE TABLE t (a INT) COMMENT 'postgresql://me:word@db1/app'",
        "ALTER TABLE t MODIFY a INT DEFAULT PASSWORD('word')",
    ):
        assert "word'" not in shown_query(text) and "me:word" not in shown_query(text)


def test_every_kind_of_job_has_a_path_or_none() -> None:
    for code in (*ACTIONS, ActionCode.MULTI_SCHEMA_CHANGE):
        names, at = path_of(Job(type=code))
        assert -1 <= at < max(1, len(names))
    walked = Job(type=ActionCode.ADD_INDEX, schema_state=3)
    forth, at = path_of(walked)
    assert forth == ["none", "delete only", "write only", "write reorganization", "public"]
    assert forth[at] == "write reorganization"
    back, _ = path_of(Job(type=ActionCode.ADD_INDEX, state=JobState.ROLLINGBACK, schema_state=1))
    assert (back[0], back[-1]) == ("public", "none")


def test_figures_in_the_note_of_a_reorg() -> None:
    note = "fill, 545 rows/s, 68 s left, clients' p99 4.1 ms of 6.2 allowed, share 45%; spans: 0"
    assert pace_of(note) == {
        "rows_per_s": 545, "left_s": 68, "p99_ms": 4.1, "allowed_ms": 6.2, "share": 0.45,
    }  # fmt: skip
    assert pace_of("waiting: room on the disk") == {}
    report = WaveReport("spark", 2, total=16, done=3, running=2, failed=1, retried=1, slowest_s=4.5)
    assert pace_of(f"fill, spans done: 3; {report.text()}") == {
        "tasks": {
            "engine": "spark", "executors": 2, "total": 16, "done": 3, "running": 2, "failed": 1,
            "retried": 1, "slowest_s": 4.5, "read": 0, "spilled": 0, "written": 0, "page": "",
        }
    }  # fmt: skip


# -- cost ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_thousand_jobs_take_few_bytes(node: NodeProcess) -> None:
    statements = [f"CREATE TABLE test.many{n} (a INT, b VARCHAR(20))" for n in range(1000)]
    with held_jobs(node, *statements), closing(Stream(node)) as stream:
        until(lambda: stream.next("all", "change")[1]["unfinished"] == 1000)
        began = time.monotonic()
        status, _, text = request(node, "/page/live")
        assert status == 200 and time.monotonic() - began < 5
        assert len(json.loads(text)["jobs"]) == 1000
        assert len(text) < 1_000_000
        quiet = until(lambda: (event := stream.next("change")[1])["jobs"] == [] and event)
        assert quiet["unfinished"] == 1000 and quiet["gone"] == []


@pytest.mark.parametrize(
    ("took_s", "pause"), [(0.0, 1.0), (0.1, 0.9), (0.2, 0.8), (2.0, 8.0), (12.0, 10.0)]
)
def test_a_slow_look_does_not_silence_the_page(took_s: float, pause: float) -> None:
    assert pause_s(1.0, took_s) == pytest.approx(pause)


def test_the_number_of_watchers_is_limited(node: NodeProcess) -> None:
    streams = []
    try:
        until(lambda: opened(streams, node) == MOST)
        status, headers, _ = request(node, "/events")
        assert status == 503 and headers["Retry-After"]
        assert request(node, "/page/live")[0] == 200
        streams.pop().close()
        until(lambda: opened(streams, node) == MOST)
        assert all(stream.next("all", "change") for stream in streams)
    finally:
        for stream in streams:
            stream.close()


def opened(streams: list[Stream], node: NodeProcess) -> int:
    """Open one more stream if allowed. Returns the number of watchers."""
    if len(streams) < MOST:
        stream = Stream(node)
        if stream.answer.status == 200:
            streams.append(stream)
        else:
            stream.close()
    return len(streams)


def test_one_look_serves_all_watchers_and_stops_without_any() -> None:
    class Counted:
        looks = 0

        def live(self) -> dict[str, Any]:
            self.looks += 1
            return {"n": self.looks, "jobs": [{"id": 1, "rows": self.looks}, {"id": 2}]}

        def cluster(self) -> dict[str, Any]:
            return {}

    async def watch() -> None:
        watchers = Watchers(page)
        leave = asyncio.Event()
        sent_bytes: list[bytes] = []

        async def receive() -> dict[str, Any]:
            await leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent_bytes.append(message.get("body", b""))

        async def changes(most: int) -> int:
            while (count := sum(b"event: change" in chunk for chunk in sent_bytes)) < most:
                await asyncio.wait([asyncio.create_task(receive())], timeout=0.05)
            return count

        scope = {"type": "http", "method": "GET", "headers": []}
        answers = [watchers.answer(head=False) for _ in range(20)]
        assert page.looks == 0
        each_of_them = asyncio.gather(*(answer(scope, receive, send) for answer in answers))
        assert await changes(20) == 20 and page.looks == 2
        change = next(chunk for chunk in sent_bytes if b"event: change" in chunk)
        values = json.loads(change.split(b"data: ")[1])
        assert (values["n"], [job["id"] for job in values["jobs"]]) == (2, [1])
        leave.set()
        await each_of_them
        await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=1.5)
        assert page.looks == 2

    page: Any = Counted()
    asyncio.run(watch())


def test_a_difference_is_what_changed_and_what_went() -> None:
    before = {"n": 1, "jobs": [{"id": 1, "rows": 5}, {"id": 2}, {"id": 3}]}
    now = {"n": 2, "jobs": [{"id": 1, "rows": 6}, {"id": 3}, {"id": 4}]}
    assert difference(before, now) == {
        "n": 2, "jobs": [{"id": 1, "rows": 6}, {"id": 4}], "gone": [2],
    }  # fmt: skip


# -- slow clients, without a node ------------------------------------------------------------------

HALF = b"POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"
WHOLE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def status_port(**limits: float) -> Iterator[http_server.Http]:
    """A status port with pages of its own, and these limits."""

    async def livez(request: Request) -> Response:
        return Response("alive")

    async def large(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(1000):
                yield b"x" * 100_000

        return StreamingResponse(pieces())

    posted = http_server.posted(http_server.NoForm, lambda request, form: Response())
    routes = [Route("/livez", livez), Route("/large", large)]
    app = Starlette(routes=[*routes, Route("/form", posted, methods=["POST"])])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(http_server, name, value)
        server = http_server.Http("127.0.0.1", 0)
        server.start(app, lambda: None)
        try:
            yield server
        finally:
            server.stop(SOON_S)


def opened_with(port: int, *parts: bytes) -> socket.socket:
    """A client that sends these parts, each after the answer to the one before."""
    client = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
    for n, part in enumerate(parts):
        client.sendall(part)
        if n < len(parts) - 1:
            assert is_alive(client)
    return client


def is_alive(client: socket.socket) -> bool:
    """Whether /livez is answered."""
    answer = b""
    while not answer.endswith(b"alive") and (piece := client.recv(4096)):
        answer += piece
    return answer.startswith(b"HTTP/1.1 200")


def is_ended(client: socket.socket) -> bool:
    """Wait until the server has closed the connection."""
    with closing(client):
        try:
            return client.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.mark.parametrize(
    "parts", [(b"GET / HT",), (HALF,), (WHOLE, b"GET / HT"), (WHOLE, HALF), (WHOLE + HALF[:9],)]
)
def test_a_request_that_does_not_come_whole_is_ended(
    parts: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), status_port(REQUEST_S=0.2) as server:
        client = opened_with(server.port, *parts)
        if len(parts) == 1 and parts[0].startswith(WHOLE):
            assert is_alive(client)
            client.sendall(HALF[9:])
        assert is_ended(client)
        with closing(opened_with(server.port, WHOLE, WHOLE)) as quick:
            assert is_alive(quick)
    assert not any(record.exc_info for record in caplog.records)
    broken = [record for record in caplog.records if record.message == "a request was broken off"]
    assert len(broken) == (parts[-1] == HALF or parts[0].startswith(WHOLE + b"POST"))


BODY = b"POST /form HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = BODY + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        BODY + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}   ",
        BODY + b"Content-Length: +5\r\n\r\n{}   ",
        BODY + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"2\r\n{}}\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\n12345",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 300_000 + b"\r\n\r\n",
    ],
)
def test_a_request_that_is_no_http_is_400_and_one_line(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), status_port() as server:
        with closing(opened_with(server.port, request_bytes)) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 400 ")
        until(lambda: not server.connections)
        with closing(opened_with(server.port, WHOLE)) as next_client:
            assert is_alive(next_client)
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert [record.message for record in caplog.records].count("a request was broken off") == 1


@pytest.mark.parametrize("path", ["/livez", "/page/login"])
def test_two_lengths_of_a_body_are_400(node: NodeProcess, path: str) -> None:
    """A proxy may read one length and this server the other: request smuggling."""
    lengths = "Content-Length: 5", "Transfer-Encoding: chunked"
    for first, second in (lengths, lengths[::-1]):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{first}\r\n{second}\r\n\r\n"
        with closing(opened_with(node.status_port, head.encode() + b"0\r\n\r\n" + WHOLE)) as client:
            answer = b""
            while piece := client.recv(4096):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1


def test_a_client_that_does_not_read_is_ended() -> None:
    with status_port(STALL_S=0.2) as server:
        client = opened_with(server.port, LARGE)
        until(lambda: server.connections)
        until(lambda: not server.connections)
        size = 0
        with closing(client):
            try:
                while piece := client.recv(1 << 20):
                    size += len(piece)
            except ConnectionResetError:
                pass
        assert size < 100_000_000


@pytest.mark.parametrize("part", [b"", b"GET / HT", HALF, WHOLE, LARGE])
def test_a_probe_is_answered_when_slow_clients_have_all_places(part: bytes) -> None:
    with status_port(MOST_CONNECTIONS=4) as server:
        slow = [opened_with(server.port, part) for _ in range(8)]
        until(lambda: sum(connection.waits_for_client() for connection in server.connections) >= 4)
        for _ in range(3):
            with closing(opened_with(server.port, WHOLE)) as probe:
                assert is_alive(probe)
        for client in slow:
            client.close()


@pytest.mark.parametrize("number", ["9" * 26, "9" * 5000, str(1 << 63), "-1", "x", "%D9%A3"])
def test_an_invalid_number_in_a_query_is_400(node: NodeProcess, number: str) -> None:
    status, _, body = request(node, f"/page/history?below={number}")
    assert status == 400 and "is not the number of a job" in body
