"""Collects the finished spans of this process in memory. They are not exported."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_trace_id

from services import tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
GIVEN = f"00-{TRACE}-b7ad6b7169203331-01"
"""A caller's `traceparent`."""


@dataclass
class Made:
    """The spans that have ended so far."""

    kept: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        """All spans, in the order of their ends."""
        return tuple(self.kept.get_finished_spans())

    def of(self, name: str) -> list[dict[str, Any]]:
        """The attributes of the spans with that name in the caller's trace."""
        return [dict(one.attributes or {}) for one in self.all if one.name == name and trace_of(one) == TRACE]


def trace_of(span: ReadableSpan) -> str:
    """The id of the span's trace."""
    return format_trace_id(span.get_span_context().trace_id)


@contextmanager
def making_spans() -> Iterator[Made]:
    """Collect spans until the context ends."""
    made = Made()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made.kept))
    tracing.use(provider.get_tracer)
    try:
        yield made
    finally:
        tracing.use(None)
