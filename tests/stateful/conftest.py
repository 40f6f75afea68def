"""A house for each kind of database."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.storage.engine import create_engine
from tests.stateful.clocks import SteppedClock
from tests.stateful.machine import House


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    engine = create_engine(database_url)
    with asyncio.Runner() as runner:
        clock = runner.run(SteppedClock.over(engine, tmp_path / "clock"))
        yield House(runner, database_url, engine, tmp_path, clock)
        runner.run(engine.dispose())
