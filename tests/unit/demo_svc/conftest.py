"""A migrated database of each kind."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from services.storage.engine import create_engine
from services.storage.migrate import migrate


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(database_url)
    await migrate(engine, "demo_svc")
    yield engine
    await engine.dispose()
