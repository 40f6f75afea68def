"""A house for each kind of database."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.storage.engine import create_engine
from tests.stateful.clocks import SteppedClock
from tests.stateful.machine import House


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    engine = create_engine(url)
    with asyncio.Runner() as runner:
        clock = runner.run(SteppedClock.over(engine, tmp_path / "clock"))
        yield House(runner, url, engine, tmp_path, clock)
        runner.run(engine.dispose())
