"""Logs and metrics: one request id through all services, and one metrics registry per app."""

import contextvars
import logging
import sys
import time
import uuid
from collections.abc import Iterable, Sequence

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger, Processor

from services.tracing import trace_id

REQUEST_ID_HEADER = "X-Request-ID"
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("nestor_request_id", default="")
"""The id of the request being served; typed clients pass it on."""


def new_request_id() -> str:
    """A fresh request id."""
    return uuid.uuid4().hex


def get_logger(name: str) -> FilteringBoundLogger:
    """A structured logger; events carry the current request id."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def _add_request_id(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    current = request_id.get()
    if current:
        event.setdefault("request_id", current)
    return event


def _add_trace_id(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if current := trace_id():
        event.setdefault("trace_id", current)
    return event


def _to_stderr(*_args: object) -> structlog.PrintLogger:
    """Looks standard error up for each line: a host program may have replaced and closed an earlier one."""
    return structlog.PrintLogger(sys.stderr)


def configure_logging(*, level: str, json: bool) -> None:
    """Send structured logs to standard error. Called once by the code that starts a process, never by a library.

    Logs of libraries go to the same place in the same form, from WARNING up (at level DEBUG: all of them).
    """
    renderer: Processor = structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer()
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request_id,
        _add_trace_id,
        structlog.processors.format_exc_info,
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=[remove_meta, renderer], foreign_pre_chain=shared)
    )
    # The handler gets the level too, because some libraries set their own levels on their loggers.
    foreign = number if number <= logging.DEBUG else max(number, logging.WARNING)
    handler.setLevel(foreign)
    logging.basicConfig(level=foreign, handlers=[handler], force=True)


class HttpMetrics:
    """The metrics of every service, labelled by route template (never by raw path, which callers choose)."""

    def __init__(self, registry: CollectorRegistry, service: str) -> None:
        self.requests = Counter(
            "nestor_http_requests_total",
            "Requests served.",
            ["service", "method", "route", "status"],
            registry=registry,
        )
        self.duration = Histogram(
            "nestor_http_request_seconds",
            "Duration until the last byte of the answer, in seconds.",
            ["service", "method", "route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )
        self.in_flight = Gauge("nestor_http_in_flight", "Requests in progress.", ["service"], registry=registry)
        self._service = service

    def observe(self, *, method: str, route: str, status: int, started: float) -> None:
        """Record one answered request; ``started`` is a ``time.perf_counter()`` reading."""
        self.requests.labels(self._service, method, route, str(status)).inc()
        self.duration.labels(self._service, method, route).observe(time.perf_counter() - started)


class MergedCollector(Collector):
    """The merged metrics of several apps of one process.

    Samples of the same name are grouped, as the text format requires. If two samples have the same labels, such as
    those about the process, the first is used.
    """

    def __init__(self, registries: Sequence[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        """The merged metrics."""
        found: dict[str, Metric] = {}
        for registry in self._registries:
            for family in registry.collect():
                whole = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                known = {(sample.name, tuple(sample.labels.items())) for sample in whole.samples}
                new = [one for one in family.samples if (one.name, tuple(one.labels.items())) not in known]
                whole.samples = [*whole.samples, *new]
        return found.values()
