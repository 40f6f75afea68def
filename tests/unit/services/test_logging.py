"""Where log lines go."""

import io
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from services.telemetry import configure_logging, get_logger


@pytest.fixture
def restored() -> Iterator[None]:
    """Give back the logging of the tests afterwards."""
    config, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    yield
    structlog.configure(**config)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.usefixtures("restored")
def test_a_standard_error_that_was_closed_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    log, former, now = get_logger(__name__), io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", former)
    configure_logging(level="INFO", json=True)
    log.info("one")
    assert '"event": "one"' in former.getvalue()
    former.close()
    monkeypatch.setattr(sys, "stderr", now)
    log.info("two")
    assert '"event": "two"' in now.getvalue()
