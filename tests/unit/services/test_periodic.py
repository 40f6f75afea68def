"""Work that is repeated in the background."""

import asyncio

import pytest

from services.errors import ServiceUnavailable
from services.periodic import repeating


@pytest.mark.parametrize("error", [ZeroDivisionError(), ServiceUnavailable("It is away.", service="database")])
async def test_neither_a_bug_nor_an_outage_ends_it(error: Exception) -> None:
    times = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal times
        times += 1
        if times == 1:
            raise error
        again.set()

    async with repeating(work, 0.01), asyncio.timeout(10):
        await again.wait()


async def test_work_under_way_is_finished_and_nothing_begins_after_it() -> None:
    begun, finished = asyncio.Event(), 0

    async def work() -> None:
        nonlocal finished
        begun.set()
        await asyncio.sleep(0.05)
        finished += 1

    async with repeating(work, 0.0):
        await begun.wait()
    assert finished == 1
    await asyncio.sleep(0.1)
    assert finished == 1
