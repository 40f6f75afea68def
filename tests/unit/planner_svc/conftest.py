"""What the tests of the planner's service share."""

from collections.abc import AsyncIterator

import pytest

from planner_svc.backends import load_backends
from planner_svc.backends.compact import CompactBackend
from services.compute import ComputePool


@pytest.fixture
async def pool() -> AsyncIterator[ComputePool]:
    """One worker; eight may wait."""
    pool = ComputePool(1, 8)
    yield pool
    await pool.close()


@pytest.fixture(scope="module")
def backend() -> CompactBackend:
    """The trained planner that ships."""
    found = load_backends(ComputePool(1))["compact"]
    assert isinstance(found, CompactBackend)
    return found
