"""A job as a trace: what is told of each step, and what a collector gets of a real node's."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path

import pymysql
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exuvia.catalog.model import SchemaState, evolve
from exuvia.ddl.job import MOST_REACHED, ActionCode, Binlog, Job, JobError, JobState, timestamp
from exuvia.ddl.tracing import JobSpan, spans_of
from exuvia.server.traces import Parent, parent_of, share_of, without_literals
from support.node_processes import NodeProcess, until

ASKED_NS = 10**18
ASKED = Job(id=7, type=ActionCode.ADD_INDEX, start_ts=timestamp(ASKED_NS))


def at(state: SchemaState, job_state: JobState = JobState.RUNNING, **more: object) -> Job:
    return evolve(ASKED, schema_state=state, state=job_state, **more)


def walked(*jobs: Job) -> list[JobSpan]:
    """The trace of a job that was in these states, each a second after the one before."""
    reached: tuple[tuple[str, int], ...] = ()
    for second, job in enumerate(jobs, 1):
        now = timestamp(ASKED_NS + second * 10**9)
        reached = evolve(job, exuvia_reached=reached).at(now).exuvia_reached
    ended = evolve(jobs[-1], exuvia_reached=reached, binlog=Binlog(FinishedTS=now))
    return spans_of(ended)


def test_a_span_for_each_state_and_one_for_all() -> None:
    whole, *states = walked(
        at(SchemaState.DELETE_ONLY),
        at(SchemaState.WRITE_ONLY),
        at(SchemaState.WRITE_REORG),
        at(SchemaState.WRITE_REORG),
        at(SchemaState.WRITE_REORG, exuvia_held=True),
        at(SchemaState.PUBLIC, JobState.DONE),
        at(SchemaState.PUBLIC, JobState.SYNCED),
    )
    names = ["queueing", "delete only", "write only", "write reorganization", "held", "public"]
    assert [each.name for each in states] == names
    assert [(each.ended_ns - each.began_ns) // 10**9 for each in states] == [1, 1, 1, 2, 1, 1]
    assert whole.name == "add index" and not whole.error
    assert {each.trace for each in states} == {whole.trace}
    assert {each.parent for each in states} == {whole.id}
    assert len({each.id for each in (whole, *states)}) == len(names) + 1
    for one, other in pairwise(states):
        assert one.ended_ns == other.began_ns
    assert states[0].began_ns == whole.began_ns == ASKED_NS
    assert states[-1].ended_ns == whole.ended_ns


def test_what_failed_says_why() -> None:
    error = JobError(1062, "23000", "Duplicate entry '1' for key 't.u'")
    whole, *states = walked(
        at(SchemaState.WRITE_REORG),
        at(SchemaState.DELETE_ONLY, JobState.ROLLINGBACK, err=error),
        at(SchemaState.ABSENT, JobState.ROLLBACK_DONE, err=error),
    )
    assert [each.name for each in states] == ["queueing", "write reorganization", "rollingback"]
    assert whole.error == error.message
    assert whole.attributes["exuvia.job.state"] == "rollback done"


def test_what_is_paused_for_ever_stays_small() -> None:
    job = ASKED
    for n in range(3 * MOST_REACHED):
        state = JobState.PAUSED if n % 2 else JobState.RUNNING
        job = evolve(job, state=state, schema_state=SchemaState.WRITE_REORG).at(n + 1)
    assert len(job.exuvia_reached) == MOST_REACHED


class Collector(HTTPServer):
    """Takes traces over HTTP, as OpenTelemetry's collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.spans: list[Span] = []


class Taking(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        """One export."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = ExportTraceServiceRequest.FromString(body)
        for resource in asked.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{found.server_address[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield found
        found.shutdown()
        thread.join()


def test_a_collector_gets_the_changes_of_a_node(tmp_path: Path, collector: Collector) -> None:
    node = NodeProcess(f"lmdb://{tmp_path / 'store'}", tmp_path / "log")
    try:
        with node.wait_ready().connect(autocommit=True) as client, client.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (a INT)")
            cursor.execute("INSERT INTO shop.t VALUES (1), (1)")
            cursor.execute("ALTER TABLE shop.t ADD INDEX (a)")
        names = ["create schema", "create table", "add index"]
        until(lambda: [each.name for each in list(collector.spans) if is_whole(each)] == names)
    finally:
        node.stop()
    (index,) = (each for each in collector.spans if each.name == "add index")
    about = {each.key: each.value for each in index.attributes}
    assert about["db.namespace"].string_value == "shop"
    assert about["db.query.text"].string_value == "ALTER TABLE shop.t ADD INDEX (a)"
    below = [each.name for each in collector.spans if each.parent_span_id == index.span_id]
    assert below[0] == "queueing" and "write reorganization" in below


def is_whole(span: Span) -> bool:
    return not span.parent_span_id


TRACE, CLIENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def comment(sampled: bool, trace: str = TRACE) -> str:
    return f"/*db_driver='x',traceparent='00-{trace}-{CLIENT}-0{int(sampled)}'*/"


PARENTS = [
    (f"SELECT 1 {comment(True)}", Parent(int(TRACE, 16), int(CLIENT, 16), True)),
    (f"SELECT 1 {comment(False)} ;\n", Parent(int(TRACE, 16), int(CLIENT, 16), False)),
    (f"  {comment(True)} SELECT 1", Parent(int(TRACE, 16), int(CLIENT, 16), True)),
    (f"SELECT '{comment(True)[:-2]}'", None),
    (f"SELECT 1 {comment(True, '0' * 32)}", None),
    (f"SELECT 1 {comment(True, 'x' * 32)}", None),
    ("SELECT 1 /* traceparent */", None),
    ("*/", None),
]


@pytest.mark.parametrize(("text", "parent"), PARENTS)
def test_the_parent_of_a_statement_is_in_its_outer_comments(
    text: str, parent: Parent | None
) -> None:
    assert parent_of(text) == parent


def test_a_span_has_no_literal_and_no_password() -> None:
    for text, query in (
        ("SELECT a1 FROM t2 WHERE b = 'x''y' AND c IN (1, 2.5e3)", None),
        (f"{comment(True)} SELECT 'a /* b */' /* secret */ FROM t", "SELECT ? FROM t"),
        ('INSERT INTO t VALUES ("it\'s", 0x1F, -3)', "INSERT INTO t VALUES (?, ?, -?)"),
        ("SELECT 'not closed", "SELECT ?"),
    ):
        wanted = query or "SELECT a1 FROM t2 WHERE b = ? AND c IN (?, ?)"
        assert without_literals(text) == wanted
    assert "hunter2" not in without_literals("CREATE USER a IDENTIFIED BY 'hunter2'")


@pytest.mark.parametrize(
    ("text", "share"), [("off", None), ("parent", 0.0), ("0.25", 0.25), ("1", 1.0)]
)
def test_what_is_asked_for(text: str, share: float | None) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["", "on", "1.1", "-0.1", "nan"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        share_of(text)


def spans_of_statements(collector: Collector) -> list[Span]:
    return [each for each in list(collector.spans) if each.kind == Span.SPAN_KIND_SERVER]


def test_sampled_statements_have_spans_below_their_clients(
    tmp_path: Path, collector: Collector
) -> None:
    """Of 40 statements without a parent each second one is expected: none or all is a fault."""
    options = ("--trace-statements", "0.5")
    node = NodeProcess(f"lmdb://{tmp_path / 'store'}", tmp_path / "log", options=options)
    try:
        with node.wait_ready().connect("test", autocommit=True) as client:
            cursor = client.cursor()
            cursor.execute("CREATE TABLE t (a INT PRIMARY KEY)" + comment(False))
            cursor.execute(f"{comment(True)} INSERT INTO t VALUES (7)")
            with pytest.raises(pymysql.Error):
                cursor.execute(f"INSERT INTO t VALUES (7) {comment(True)}")
            cursor.execute(f"SELECT a FROM t WHERE a = 7 {comment(True)}")
            for _ in range(40):
                cursor.execute("SELECT 42")
        until(lambda: len(below(collector)) == 3)
    finally:
        node.stop()
    texts = [text_of(each) for each in below(collector)]
    insert = "INSERT INTO t VALUES (?)"
    assert texts == [insert, insert, "SELECT a FROM t WHERE a = ?"]
    first, failed, last = below(collector)
    assert (first.name, failed.name, last.name) == ("INSERT", "INSERT", "SELECT")
    assert failed.status.code == 2 and not first.status.code and not last.status.code
    about = {each.key: each.value.string_value for each in failed.attributes}
    assert about["db.response.status_code"] == "1062"
    assert first.end_time_unix_nano > first.start_time_unix_nano
    assert not any("CREATE TABLE" in text_of(each) for each in spans_of_statements(collector))
    alone = [each for each in spans_of_statements(collector) if not each.parent_span_id]
    alone = [each for each in alone if text_of(each) == "SELECT ?"]
    assert 0 < len(alone) < 40, len(alone)
    assert len({each.trace_id for each in alone}) == len(alone)


def test_statements_have_no_spans_unless_asked_for(tmp_path: Path, collector: Collector) -> None:
    node = NodeProcess(f"lmdb://{tmp_path / 'store'}", tmp_path / "log")
    try:
        with node.wait_ready().connect("test", autocommit=True) as client:
            client.query(f"SELECT 1 {comment(True)}")
            client.query("CREATE TABLE u (a INT)")
        until(lambda: any(is_whole(each) for each in list(collector.spans)))
    finally:
        node.stop()
    assert spans_of_statements(collector) == []


def below(collector: Collector) -> list[Span]:
    """Spans of the client's trace, in their order."""
    found = [each for each in spans_of_statements(collector) if each.trace_id.hex() == TRACE]
    assert {each.parent_span_id.hex() for each in found} <= {CLIENT}
    return sorted(found, key=lambda each: each.start_time_unix_nano)


def text_of(span: Span) -> str:
    found = {each.key: each.value.string_value for each in span.attributes}
    return found.get("db.query.text", "")
