"""What the log says of an outage."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from services.errors import ServiceUnavailable
from services.outages import Outage
from services.periodic import repeating


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[MutableMapping[str, Any]]:
    """The lines that outages log."""
    captured = LogCapture()
    logger = structlog.wrap_logger(None, [captured], structlog.make_filtering_bound_logger(0))
    monkeypatch.setattr("services.outages._log", logger)
    return captured.entries


def away() -> ServiceUnavailable:
    """An outage as the storage names it: the driver's own error is its cause."""
    error = ServiceUnavailable("The database cannot be reached.", service="database")
    error.__cause__ = ConnectionError("password authentication failed\nDETAIL: a row")
    return error


def test_an_outage_is_told_once_then_every_minute_and_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, lines: list[MutableMapping[str, Any]]
) -> None:
    times = iter((1_000.0, 1_001.0, 1_059.0, 1_060.0, 1_061.0, 1_062.0, 1_063.0))
    monkeypatch.setattr("services.outages.time.monotonic", lambda: next(times))
    outage = Outage("writing")
    outage.worked()
    for _ in range(5):
        outage.failed(away())
    outage.worked()
    outage.worked()
    outage.failed(away())
    assert [(line["event"], line.get("for_s", line.get("after_s"))) for line in lines] == [
        ("writing fails", 0.0),
        ("writing fails", 60.0),
        ("writing works again", 62.0),
        ("writing fails", 0.0),
    ]
    assert lines[0]["why"] == "The database cannot be reached."
    assert lines[0]["cause"] == "password authentication failed"


async def test_work_that_is_repeated_tells_its_outage_once(
    monkeypatch: pytest.MonkeyPatch, lines: list[MutableMapping[str, Any]]
) -> None:
    monkeypatch.setattr("services.periodic._RETRY_S", 0.01)
    times, done = 0, asyncio.Event()

    async def work() -> None:
        nonlocal times
        times += 1
        if times < 4:
            raise away()
        done.set()

    async with repeating(work, 0.01), asyncio.timeout(10):
        await done.wait()
    assert [line["event"].rpartition("work ")[2] for line in lines] == ["fails", "works again"]
