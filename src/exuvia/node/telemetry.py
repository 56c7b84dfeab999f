"""Traces to a collector, by OpenTelemetry's protocol over HTTP.

    the back      a trace for each schema change                   (ddl/tracing.py)
    each front    a span for statements, off by default            (server/traces.py)

Tracing is on if the environment names a collector: OTEL_EXPORTER_OTLP_ENDPOINT or
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. It needs the extra `otel`, and reads OTEL_SERVICE_NAME and
OpenTelemetry's other variables. Spans are sent in the background, and dropped while the collector
does not accept them.
"""

import logging
import os
import random
from collections.abc import Callable

from exuvia import __version__
from exuvia.base.clock import Clock
from exuvia.cluster.member import Member
from exuvia.ddl.job import Job
from exuvia.ddl.tracing import JobSpan, spans_of, untraced
from exuvia.server.traces import StatementSpan, StatementTraces, share_of

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_log = logging.getLogger(__name__)


class Telemetry:
    """Sends spans. Call `trace` with each job that has ended, `statement` with each sampled
    statement."""

    def __init__(self, member: Member) -> None:
        self.trace: Callable[[Job], None] = untraced
        self.statement: Callable[[StatementSpan], None] | None = None
        self._end: Callable[[], None] = lambda: None
        if not any(map(os.environ.get, _ENDPOINTS)):
            return
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import ReadableSpan
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import (
                SpanContext,
                SpanKind,
                Status,
                StatusCode,
                TraceFlags,
            )
        except ImportError as error:
            reason = f"{error}: pip install 'exuvia[otel]'"
            _log.warning("traces cannot be sent", extra={"reason": reason})
            return
        name_attribute = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "exuvia")}
        resource = Resource.create(
            {**name_attribute, "service.version": __version__, "service.instance.id": member.id}
        )
        processor = BatchSpanProcessor(OTLPSpanExporter())

        def context_of(trace: int, span: int, is_remote: bool = False) -> SpanContext:
            return SpanContext(trace, span, is_remote, TraceFlags(TraceFlags.SAMPLED))

        def emit_job(span: JobSpan) -> None:
            readable = ReadableSpan(
                span.name,
                context=context_of(span.trace, span.id),
                parent=context_of(span.trace, span.parent) if span.parent else None,
                resource=resource,
                attributes=span.attributes,
                status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
                start_time=span.began_ns,
                end_time=span.ended_ns,
            )
            processor.on_end(readable)

        def trace(job: Job) -> None:
            for span in spans_of(job):
                emit_job(span)

        def statement(span: StatementSpan) -> None:
            parent = span.parent
            ended = ReadableSpan(
                span.name,
                context=context_of(span.trace, random.getrandbits(64) or 1),
                parent=context_of(span.trace, parent, is_remote=True) if parent else None,
                resource=resource,
                attributes=span.attributes,
                kind=SpanKind.SERVER,
                status=Status(StatusCode.ERROR, f"error {span.error}") if span.error else Status(),
                start_time=span.began_ns,
                end_time=span.ended_ns,
            )
            processor.on_end(ended)

        self.trace = trace
        self.statement = statement
        self._end = processor.shutdown

    def stop(self) -> None:
        """Send the remaining spans."""
        self._end()


def statement_traces(
    trace_statements: str, member: Member, clock: Clock
) -> tuple[StatementTraces | None, Callable[[], None]]:
    """The sampler of a front's statements, or None if it is off, and a function that sends the last
    spans."""
    share = share_of(trace_statements)
    if share is None:
        return None, lambda: None
    telemetry = Telemetry(member)
    if telemetry.statement is None:
        _log.warning("no statement is traced: OTEL_EXPORTER_OTLP_ENDPOINT is not set, or see above")
        return None, lambda: None
    return StatementTraces(share, clock, telemetry.statement, random.Random()), telemetry.stop
