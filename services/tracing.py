"""Traces: what a request does in every service as spans of one trace, with W3C Trace Context between them.

Nothing here sends spans: whoever starts a process says where they go (``deploy.traces``). Until then there are none.

A span tells names, ids, counts, how long it took and how it ended: never what was asked or answered, and of an error
its type alone, since the text may quote both. Of a caller's Trace Context the ids are taken; ``tracestate`` and
baggage, which are the caller's own text, go no further.
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
"""``exported``; ``dropped``: too many were waiting; ``failed``: the collector did not take them."""
for _outcome in ("exported", "dropped", "failed"):
    SPANS.labels(_outcome)

Attributes = Mapping[str, AttributeValue]
MakeTracer = Callable[[str], Tracer]
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_MAX_TRACEPARENT: Final = 512
_NONE: Final = nullcontext(INVALID_SPAN)
_make_tracer: MakeTracer | None = None
_tracer: ContextVar[Tracer | None] = ContextVar("nestor_tracer", default=None)
"""Of the service that is at work; what no request and no run is worked on for has none, and makes no spans."""


def use(make_tracer: MakeTracer | None) -> None:
    """Make spans with the tracer of each service, by its name; None: make no more."""
    global _make_tracer
    _make_tracer = make_tracer


@contextmanager
def request_span(service: str, scope: Scope) -> Iterator[Span]:
    """The span of a request to a service. It goes on with the caller's trace where there is one."""
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
    """Go on with the trace of this ``traceparent``, be it of another process; without one, with the present trace."""
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
    """A part of the present work; what begins inside is part of it.

    Not for generators: they may be left where another span is the present one. They take :func:`peer_span`.
    """
    tracer = _tracer.get()
    return _NONE if tracer is None else _present(tracer, name, attributes, kind)


def peer_span(service: str, method: str, headers: MutableMapping[str, str]) -> AbstractContextManager[Span]:
    """A request to another service; its headers are told of the trace."""
    tracer = _tracer.get()
    return _NONE if tracer is None else _to_peer(tracer, service, method, headers)


@contextmanager
def _present(tracer: Tracer, name: str, attributes: Attributes | None, kind: SpanKind) -> Iterator[Span]:
    with _begun(tracer, name, attributes, kind) as current:
        token = context.attach(trace.set_span_in_context(current))
        try:
            yield current
        finally:
            context.detach(token)


@contextmanager
def _to_peer(tracer: Tracer, service: str, method: str, headers: MutableMapping[str, str]) -> Iterator[Span]:
    attributes = {"http.request.method": method, "server.address": service}
    with _begun(tracer, f"{method} {service}", attributes, SpanKind.CLIENT) as current:
        inject(headers, current)
        yield current


@contextmanager
def _begun(tracer: Tracer, name: str, attributes: Attributes | None, kind: SpanKind) -> Iterator[Span]:
    current = tracer.start_span(name, kind=kind, attributes=attributes)
    try:
        yield current
    except (GeneratorExit, CancelledError):
        raise  # whoever waited has all that was wanted, or wants no more: no failure
    except BaseException as error:
        fail(current, _kind(error))
        raise
    finally:
        current.end()


def _kind(error: BaseException) -> str:
    kind = error.slug if isinstance(error, ServiceError) else getattr(error, "error_type", None)
    return kind or type(error).__name__


def fail(failed: Span, kind: str) -> None:
    """Say that what a span stands for failed, and of which kind the failure is: a name, not a text."""
    failed.set_attribute("error.type", kind)
    failed.set_status(StatusCode.ERROR)


def answered(asked: Span, status: int, *, bad_from: int = 400) -> None:
    """Say which HTTP status came of what a span stands for, and that it failed where that is as high as this."""
    asked.set_attribute("http.response.status_code", status)
    if status >= bad_from:
        fail(asked, str(status))


def inject(headers: MutableMapping[str, str], of: Span | None = None) -> None:
    """Add the `traceparent` of a span, or of the present one, where there is any."""
    _PROPAGATOR.inject(headers, context=None if of is None else trace.set_span_in_context(of))


def traceparent() -> str | None:
    """The present span, to go on with later or elsewhere; None where there is none."""
    headers = dict[str, str]()
    inject(headers)
    return headers.get(TRACEPARENT)


def trace_id() -> str:
    """The id of the present trace, in hexadecimal; empty where there is none."""
    present = trace.get_current_span().get_span_context()
    return trace.format_trace_id(present.trace_id) if present.is_valid else ""
