"""A collector on a real port. It receives spans as OTLP over HTTP, and can misbehave on request."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True)
class SeenSpan:
    """A received span. ``parent`` is empty for the root span of a trace."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent: str
    attributes: dict[str, object]
    failed: bool


@dataclass
class Collector:
    """The received requests, as bytes and as spans, and how the collector answers them."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None
    going: threading.Event = field(default_factory=threading.Event)
    """Set when the collector ends, so that a waiting answer stops waiting."""
    _came: threading.Condition = field(default_factory=threading.Condition)

    def take(self, body: bytes) -> None:
        """Record a received body."""
        with self._came:
            self.bodies.append(body)
            self._came.notify_all()

    @property
    def spans(self) -> list[SeenSpan]:
        """All spans so far."""
        return [span for body in tuple(self.bodies) for span in _spans(body)]

    def until(self, enough: Callable[[list[SeenSpan]], bool]) -> list[SeenSpan]:
        """Wait until ``enough`` accepts the spans received so far. Raises TimeoutError after some time."""
        with self._came:
            if not self._came.wait_for(lambda: enough(self.spans), timeout=60):
                raise TimeoutError(f"only these came: {[(span.service, span.name) for span in self.spans]}")
        return self.spans


def _spans(body: bytes) -> Iterator[SeenSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = next(str(_value(one.value)) for one in resource.resource.attributes if one.key == "service.name")
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SeenSpan(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    {one.key: _value(one.value) for one in span.attributes},
                    span.status.code == 2,
                )


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def collecting() -> Iterator[Collector]:
    """Start a collector on a free port of the loopback interface."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(body)
            if collector.answer is not None:
                with suppress(OSError):  # the client has closed the connection
                    collector.answer(self)
                return
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing to standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.going.set()
        server.shutdown()
        server.server_close()
        thread.join()
