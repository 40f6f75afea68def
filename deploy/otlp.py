"""Sends spans to a collector (OTLP over HTTP), beside the requests and never in their way.

Spans wait in a bounded queue; a thread sends them. Where the collector is slow or down the queue fills, and what comes
then is dropped and counted (``nestor_spans_total``). The collector is not trusted: nothing of its answers is read but
status and headers, it can neither redirect nor set cookies, and the end of the process waits for it for seconds only.
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
"""Seconds that the end of the process waits for the last spans to be taken."""


class Exporting:
    """The tracers of this process's services, whose spans are sent until it is closed.

    Raises:
        ValueError: one of OpenTelemetry's environment variables cannot be used.
    """

    def __init__(self) -> None:
        self._processor = _Bounded(OTLPSpanExporter(session=_session()))
        self._tracers: dict[str, Tracer] = {}

    def tracer(self, service: str) -> Tracer:
        """The tracer of a service; each has a name of its own in traces, also where all are one process."""
        if service not in self._tracers:
            named = {"service.namespace": "nestor", "service.name": service, "service.version": version()}
            provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            self._tracers[service] = provider.get_tracer("nestor", version())
        return self._tracers[service]

    def close(self) -> None:
        """Send what is waiting, for as long as ``_LAST_S``."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_LAST_S)


class _Counting(SpanExporter):
    """Counts what becomes of spans that are sent, and how many have left the queue."""

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
        """Send nothing more."""
        self._exporter.shutdown()


class _Waiting:
    """How many spans wait, of as many as may."""

    def __init__(self, room: int) -> None:
        self._room, self._waiting, self._lock = room, 0, threading.Lock()

    def came(self) -> bool:
        """Whether there is room for one more, which takes it."""
        with self._lock:
            if self._waiting >= self._room:
                return False
            self._waiting += 1
            return True

    def left(self, count: int) -> None:
        """So many are sent."""
        with self._lock:
            self._waiting -= count


class _Bounded(BatchSpanProcessor):
    """Refuses and counts what finds no room, where the SDK's own would throw away what came first and count nothing."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        room = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUE)
        self._queue = _Waiting(room)
        super().__init__(_Counting(exporter, self._queue), max_queue_size=room)

    def on_end(self, span: ReadableSpan) -> None:
        """Have an ended span sent, if it is one of a trace that is."""
        if not span.get_span_context().trace_flags.sampled:
            return
        if self._queue.came():
            super().on_end(span)
        else:
            SPANS.labels("dropped").inc()


class _HeadersOnly(HTTPAdapter):
    """Reads no body of an answer, however long or slow it would be."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send, and hang up once the headers are there. Raises TooManyRedirects where they lead elsewhere."""
        response = super().send(request, *args, **{**kwargs, "stream": True})
        response.close()
        response.raw = io.BytesIO()
        if 300 <= response.status_code < 400:
            raise requests.TooManyRedirects("redirects are not followed")
        return response


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a collector is named exactly: no proxy, and no login of somebody's .netrc
    for scheme in ("http://", "https://"):
        session.mount(scheme, _HeadersOnly())
    return session
