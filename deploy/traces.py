"""Decides from OpenTelemetry's environment variables whether this process sends traces, and where to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from services.telemetry import get_logger
from services.tracing import use

_log = get_logger(__name__)


@contextmanager
def sending_traces() -> Iterator[None]:
    """Create and send spans until the context ends, if ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set.

    If that fails, the reason is logged and the process runs without traces.
    """
    if not _wanted():
        yield
        return
    try:
        from deploy.otlp import TraceExport  # imports OpenTelemetry's SDK, an optional dependency

        export = TraceExport()
    except ImportError:
        _log.warning("no traces: OpenTelemetry's SDK is not installed (pip install -r requirements/traces.txt)")
        yield
        return
    except ValueError as error:
        _log.warning("no traces: a setting of OpenTelemetry's cannot be used", why=str(error))
        yield
        return
    use(export.tracer)
    try:
        yield
    finally:
        use(None)
        export.close()


def _wanted() -> bool:
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    refused = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not refused and os.environ.get("OTEL_TRACES_EXPORTER") != "none" and any(map(os.environ.get, names))
