"""Whether this process sends traces, and where to: OpenTelemetry's own environment variables say so."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from services.telemetry import get_logger
from services.tracing import use

_log = get_logger(__name__)


@contextmanager
def sending_traces() -> Iterator[None]:
    """Make spans and send them until the end of the context, where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says where to.

    Whatever keeps that from working is logged, and the process goes on without traces.
    """
    if not _wanted():
        yield
        return
    try:
        from deploy.otlp import Exporting  # OpenTelemetry's SDK, which is installed for this alone

        exporting = Exporting()
    except ImportError:
        _log.warning("no traces: OpenTelemetry's SDK is not installed (pip install -r requirements/traces.txt)")
        yield
        return
    except ValueError as error:
        _log.warning("no traces: a setting of OpenTelemetry's cannot be used", why=str(error))
        yield
        return
    use(exporting.tracer)
    try:
        yield
    finally:
        use(None)
        exporting.close()


def _wanted() -> bool:
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    refused = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not refused and os.environ.get("OTEL_TRACES_EXPORTER") != "none" and any(map(os.environ.get, names))
