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

_QUEUE: Final = 2048
_LAST_S: Final = 3.0
"""Seconds that the process waits at exit for the last spans to be sent."""


class Exporting:
    """The tracers of this process's services. Their spans are sent until `close`.

    Raises:
        ValueError: one of OpenTelemetry's environment variables cannot be used.
    """

    def __init__(self) -> None:
        self._processor = _Bounded(OTLPSpanExporter(session=_session()))
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
        """Send the waiting spans; give up after ``_LAST_S``."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_LAST_S)


class _Counting(SpanExporter):
    """Counts exported and failed spans, and tells the queue how many have left it."""

    def __init__(self, exporter: OTLPSpanExporter, queue: "_Waiting") -> None:
        self._exporter, self._queue = exporter, queue

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self._queue.left(len(spans))
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            SPANS.labels("exported" if result is SpanExportResult.SUCCESS else "failed").inc(len(spans))
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()


class _Waiting:
    """Counts the waiting spans, up to a maximum."""

    def __init__(self, room: int) -> None:
        self._room, self._waiting, self._lock = room, 0, threading.Lock()

    def came(self) -> bool:
        """Reserve a place for one span. Returns False if there is no room."""
        with self._lock:
            if self._waiting >= self._room:
                return False
            self._waiting += 1
            return True

    def left(self, count: int) -> None:
        """Free the places of ``count`` spans."""
        with self._lock:
            self._waiting -= count


class _Bounded(BatchSpanProcessor):
    """Drops and counts new spans when the queue is full. The SDK's own processor drops the oldest and counts none."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        room = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUE)
        self._queue = _Waiting(room)
        super().__init__(_Counting(exporter, self._queue), max_queue_size=room)

    def on_end(self, span: ReadableSpan) -> None:
        """Queue an ended span if its trace is sampled."""
        if not span.get_span_context().trace_flags.sampled:
            return
        if self._queue.came():
            super().on_end(span)
        else:
            SPANS.labels("dropped").inc()


class _HeadersOnly(HTTPAdapter):
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
        session.mount(scheme, _HeadersOnly())
    return session
