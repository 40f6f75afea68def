"""Sends spans to a collector (OTLP over HTTP) without delaying requests.

Spans wait in a bounded queue; a thread sends them. If the collector is slow or down, the queue fills, and new spans
are dropped and counted (``nestor_spans_total``). The collector is not trusted: only the status and headers of its
answers are read, it can neither redirect nor set cookies, and the process waits at most a few seconds for it at exit.
"""

import io
import os
import threading
from collections.abc import Sequence
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer
from requests.adapters import HTTPAdapter

from services.app import version
from services.tracing import SPANS

_QUEUE_SIZE: Final = 2048
_SHUTDOWN_S: Final = 3.0
"""Seconds that the process waits at exit for the last spans to be sent."""


class TraceExport:
    """The tracers of this process's services. Their spans are sent until `close`.

    Raises:
        ValueError: one of OpenTelemetry's environment variables cannot be used.
    """

    def __init__(self) -> None:
        self._processor = _BoundedProcessor(OTLPSpanExporter(session=_session()))
        self._tracers: dict[str, Tracer] = {}

    def tracer(self, service: str) -> Tracer:
        """The tracer of a service. Each service has its own name in traces, even if all share one process."""
        if service not in self._tracers:
            named = {"service.namespace": "nestor", "service.name": service, "service.version": version()}
            provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            self._tracers[service] = provider.get_tracer("nestor", version())
        return self._tracers[service]

    def close(self) -> None:
        """Send the waiting spans; give up after ``_SHUTDOWN_S``."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_SHUTDOWN_S)


class _CountingExporter(SpanExporter):
    """Counts exported and failed spans, and tells the queue how many have left it."""

    def __init__(self, exporter: OTLPSpanExporter, queue: "_QueueCounter") -> None:
        self._exporter, self._queue = exporter, queue

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self._queue.release(len(spans))
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            SPANS.labels("exported" if result is SpanExportResult.SUCCESS else "failed").inc(len(spans))
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()


class _QueueCounter:
    """Counts the waiting spans, up to a maximum."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._waiting, self._lock = capacity, 0, threading.Lock()

    def reserve(self) -> bool:
        """Reserve a place for one span. Returns False if there is no room."""
        with self._lock:
            if self._waiting >= self._capacity:
                return False
            self._waiting += 1
            return True

    def release(self, count: int) -> None:
        """Free the places of ``count`` spans."""
        with self._lock:
            self._waiting -= count


class _BoundedProcessor(BatchSpanProcessor):
    """Drops and counts new spans when the queue is full. The SDK's own processor drops the oldest and counts none."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        capacity = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUE_SIZE)
        self._queue = _QueueCounter(capacity)
        super().__init__(_CountingExporter(exporter, self._queue), max_queue_size=capacity)

    def on_end(self, span: ReadableSpan) -> None:
        """Queue an ended span if its trace is sampled."""
        if not span.get_span_context().trace_flags.sampled:
            return
        if self._queue.reserve():
            super().on_end(span)
        else:
            SPANS.labels("dropped").inc()


class _HeadersOnlyAdapter(HTTPAdapter):
    """Never reads the body of an answer, which could be long or slow."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send, and close the connection after the headers. Raises TooManyRedirects for a redirect."""
        response = super().send(request, *args, **{**kwargs, "stream": True})
        response.close()
        response.raw = io.BytesIO()
        if 300 <= response.status_code < 400:
            raise requests.TooManyRedirects("redirects are not followed")
        return response


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # use exactly the configured address: no proxy, no login from .netrc
    for scheme in ("http://", "https://"):
        session.mount(scheme, _HeadersOnlyAdapter())
    return session
