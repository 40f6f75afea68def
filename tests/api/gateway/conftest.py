"""Fixtures for a gateway in front of fakes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.console_pages import PRINCIPALS
from tests.support.gateways import Gateway, open_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path) as running:
        yield running


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway with tokens for two tenants."""
    async with open_gateway(tmp_path, principals=PRINCIPALS) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A gateway's database, one of each kind in turn."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite+aiosqlite:///{tmp_path}/gateway.db"
