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


@pytest.fixture
async def either(database_url: str) -> AsyncIterator[Gateway]:
    """A gateway on a database of each kind."""
    async with open_gateway(database_url) as running:
        yield running
