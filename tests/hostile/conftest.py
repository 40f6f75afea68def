"""A real upstream for every test, and executors whose database others can write."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from services.storage.engine import create_engine
from services.storage.migrate import migrate
from tests.support.durable import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """Executors on one database that others can write too."""
    url = f"sqlite+aiosqlite:///{tmp_path}/executor.db"
    engine = create_engine(url)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        await migrate(engine, "executor_svc")
        yield House(url, stack, engine)
