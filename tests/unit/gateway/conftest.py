"""The stores of three processes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.storage import RunStore
from services.storage.engine import Transactions, create_engine
from services.storage.migrate import migrate


@pytest.fixture(params=["sqlite", "postgresql"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[RunStore]]:
    """Three processes' stores of one database."""
    url = f"sqlite+aiosqlite:///{tmp_path}/runs.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    engines = [create_engine(url) for _ in range(3)]
    await migrate(engines[0], "gateway")
    stores = [RunStore(Transactions(engine)) for engine in engines]
    yield stores
    for store, engine in zip(stores, engines, strict=True):
        store.close()
        await engine.dispose()
