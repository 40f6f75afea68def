"""The stores of three processes."""

from collections.abc import AsyncIterator

import pytest

from gateway.storage import RunStore
from services.storage.engine import Transactions, create_engine
from services.storage.migrate import migrate


@pytest.fixture
async def stores(database_url: str) -> AsyncIterator[list[RunStore]]:
    """Three processes' stores of one database."""
    engines = [create_engine(database_url) for _ in range(3)]
    await migrate(engines[0], "gateway")
    stores = [RunStore(Transactions(engine)) for engine in engines]
    yield stores
    for store, engine in zip(stores, engines, strict=True):
        store.close()
        await engine.dispose()
