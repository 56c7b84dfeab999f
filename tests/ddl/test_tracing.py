"""A job as a trace: what is told of each step, and what a collector gets of a real node's."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exuvia.catalog.model import SchemaState, evolve
from exuvia.ddl.job import MOST_REACHED, ActionCode, Binlog, Job, JobError, JobState, timestamp
from exuvia.ddl.tracing import JobSpan, spans_of
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
