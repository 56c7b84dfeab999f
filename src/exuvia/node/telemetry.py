"""Traces of schema changes to a collector, by OpenTelemetry's protocol over HTTP.

It is on where the environment names a collector as OpenTelemetry's programs read it
(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; OTEL_SERVICE_NAME and the others
likewise), and needs the extra `otel`. A collector that is silent costs nothing but its spans.
"""

import logging
import os
from collections.abc import Callable

from exuvia import __version__
from exuvia.cluster.member import Member
from exuvia.ddl.job import Job
from exuvia.ddl.tracing import JobSpan, spans_of, untraced

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_log = logging.getLogger(__name__)


class Telemetry:
    """`trace` is told of each job that has ended."""

    def __init__(self, member: Member) -> None:
        self.trace: Callable[[Job], None] = untraced
        self._end: Callable[[], None] = lambda: None
        if not any(map(os.environ.get, _ENDPOINTS)):
            return
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import ReadableSpan
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
        except ImportError as error:
            reason = f"{error}: pip install 'exuvia[otel]'"
            _log.warning("traces are wanted and cannot be sent", extra={"reason": reason})
            return
        named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "exuvia")}
        resource = Resource.create(
            {**named, "service.version": __version__, "service.instance.id": member.id}
        )
        processor = BatchSpanProcessor(OTLPSpanExporter())

        def context_of(span: JobSpan, number: int) -> SpanContext:
            return SpanContext(span.trace, number, False, TraceFlags(TraceFlags.SAMPLED))

        def emit(span: JobSpan) -> None:
            told = ReadableSpan(
                span.name,
                context=context_of(span, span.id),
                parent=context_of(span, span.parent) if span.parent else None,
                resource=resource,
                attributes=span.attributes,
                status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
                start_time=span.began_ns,
                end_time=span.ended_ns,
            )
            processor.on_end(told)

        def trace(job: Job) -> None:
            for span in spans_of(job):
                emit(span)

        self.trace = trace
        self._end = processor.shutdown

    def stop(self) -> None:
        """Send what is left."""
        self._end()
