"""Tracing: the work for a request in all services forms one trace, passed on with W3C Trace Context.

Nothing here exports spans. The code that starts a process configures the exporter (``deploy.traces``). Until then, no
spans are made.

A span records names, ids, counts, duration and outcome. It never records contents of requests or responses. Of an
error it records only the type, since the text may quote both. Only the ids of a caller's Trace Context are used;
``tracestate`` and baggage, which are the caller's own text, are not passed on.
"""

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from prometheus_client import Counter
from starlette.types import Scope

from services.errors import ServiceError

TRACEPARENT: Final = "traceparent"
SPANS: Final = Counter("nestor_spans", "Spans of this process, by result.", ["outcome"], registry=None)
"""``exported``; ``dropped``: the queue was full; ``failed``: the collector did not accept them."""
for _outcome in ("exported", "dropped", "failed"):
    SPANS.labels(_outcome)

Attributes = Mapping[str, AttributeValue]
MakeTracer = Callable[[str], Tracer]
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_MAX_TRACEPARENT: Final = 512
_NONE: Final = nullcontext(INVALID_SPAN)
_make_tracer: MakeTracer | None = None
_tracer: ContextVar[Tracer | None] = ContextVar("nestor_tracer", default=None)
"""The tracer of the current service. Unset outside of requests and runs; then no spans are made."""


def use(make_tracer: MakeTracer | None) -> None:
    """Make spans with the tracer that ``make_tracer`` returns for a service's name; None: stop making spans."""
    global _make_tracer
    _make_tracer = make_tracer


@contextmanager
def request_span(service: str, scope: Scope) -> Iterator[Span]:
    """The span of a request to a service. It continues the caller's trace if there is one."""
    if _make_tracer is None:
        yield INVALID_SPAN
        return
    given = [value for name, value in scope["headers"] if name == TRACEPARENT.encode()]
    usable = len(given) == 1 and len(given[0]) <= _MAX_TRACEPARENT
    with (
        _continued(_make_tracer(service), given[0].decode("latin-1") if usable else ""),
        span("request", kind=SpanKind.SERVER) as current,
    ):
        yield current


@contextmanager
def continued(service: str, traceparent: str | None) -> Iterator[None]:
    """Continue the trace of this ``traceparent``, which may come from another process; if None, the current trace."""
    if _make_tracer is None or not traceparent:
        yield
        return
    with _continued(_make_tracer(service), traceparent):
        yield


@contextmanager
def _continued(tracer: Tracer, traceparent: str) -> Iterator[None]:
    parent = _PROPAGATOR.extract({TRACEPARENT: traceparent}, context.Context())
    of_service, of_trace = _tracer.set(tracer), context.attach(parent)
    try:
        yield
    finally:
        context.detach(of_trace)
        _tracer.reset(of_service)


def span(
    name: str, attributes: Attributes | None = None, *, kind: SpanKind = SpanKind.INTERNAL
) -> AbstractContextManager[Span]:
    """A span of the current work. Spans that begin inside it are its children.

    Not for generators: they may be closed while another span is current. They use :func:`peer_span`.
    """
    tracer = _tracer.get()
    return _NONE if tracer is None else _current_span(tracer, name, attributes, kind)


def peer_span(service: str, method: str, headers: MutableMapping[str, str]) -> AbstractContextManager[Span]:
    """The span of a request to another service. Adds the trace to the request's headers."""
    tracer = _tracer.get()
    return _NONE if tracer is None else _client_span(tracer, service, method, headers)


@contextmanager
def _current_span(tracer: Tracer, name: str, attributes: Attributes | None, kind: SpanKind) -> Iterator[Span]:
    with _started_span(tracer, name, attributes, kind) as current:
        token = context.attach(trace.set_span_in_context(current))
        try:
            yield current
        finally:
            context.detach(token)


@contextmanager
def _client_span(tracer: Tracer, service: str, method: str, headers: MutableMapping[str, str]) -> Iterator[Span]:
    attributes = {"http.request.method": method, "server.address": service}
    with _started_span(tracer, f"{method} {service}", attributes, SpanKind.CLIENT) as current:
        inject(headers, current)
        yield current


@contextmanager
def _started_span(tracer: Tracer, name: str, attributes: Attributes | None, kind: SpanKind) -> Iterator[Span]:
    current = tracer.start_span(name, kind=kind, attributes=attributes)
    try:
        yield current
    except (GeneratorExit, CancelledError):
        raise  # not a failure: the consumer has what it wanted, or stopped waiting
    except BaseException as error:
        fail(current, _kind(error))
        raise
    finally:
        current.end()


def _kind(error: BaseException) -> str:
    kind = error.slug if isinstance(error, ServiceError) else getattr(error, "error_type", None)
    return kind or type(error).__name__


def fail(failed: Span, kind: str) -> None:
    """Mark a span as failed. ``kind`` is the name of the error type, not its text."""
    failed.set_attribute("error.type", kind)
    failed.set_status(StatusCode.ERROR)


def answered(asked: Span, status: int, *, bad_from: int = 400) -> None:
    """Record the HTTP status of a span. Statuses from ``bad_from`` up mark it as failed."""
    asked.set_attribute("http.response.status_code", status)
    if status >= bad_from:
        fail(asked, str(status))


def inject(headers: MutableMapping[str, str], of: Span | None = None) -> None:
    """Add the `traceparent` of a span to the headers; by default that of the current span, if there is one."""
    _PROPAGATOR.inject(headers, context=None if of is None else trace.set_span_in_context(of))


def traceparent() -> str | None:
    """The `traceparent` of the current span, to continue later or elsewhere; None if there is none."""
    headers = dict[str, str]()
    inject(headers)
    return headers.get(TRACEPARENT)


def trace_id() -> str:
    """The id of the current trace, in hexadecimal; empty if there is none."""
    present = trace.get_current_span().get_span_context()
    return trace.format_trace_id(present.trace_id) if present.is_valid else ""
