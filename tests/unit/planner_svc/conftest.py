"""What the tests of the planner's service share."""

from collections.abc import AsyncIterator

import pytest

from services.compute import ComputePool


@pytest.fixture
async def pool() -> AsyncIterator[ComputePool]:
    """One worker; eight may wait."""
    pool = ComputePool(1, 8)
    yield pool
    await pool.close()
