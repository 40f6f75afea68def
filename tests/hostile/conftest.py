"""A real upstream for every test."""

from collections.abc import AsyncIterator

import pytest

from tests.support.upstream import Upstream, serve_upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serve_upstream() as running:
        yield running
