"""Waiting for, and working in, a pool of threads."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from services.compute import ComputePool, for_tenant

T = TypeVar("T")
TIMEOUT_S: Final = 10


async def until(pool: ComputePool, in_flight: int) -> None:
    """Wait until so many calls of the pool are under way."""
    async with asyncio.timeout(TIMEOUT_S):
        while pool.in_flight != in_flight:  # noqa: ASYNC110 - a counter of the pool, no event to wait for
            await asyncio.sleep(0.001)


def burn(seconds: float) -> None:
    """Use that much processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def run_for(tenant: str, pool: ComputePool, work: Callable[[], T]) -> T:
    """Do the work in the pool, for a tenant."""
    for_tenant.set(tenant)
    return await pool.run(work)
