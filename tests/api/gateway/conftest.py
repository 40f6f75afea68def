"""A gateway with fakes behind it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.gateways import Gateway, open_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path) as running:
        yield running
