"""Slots that tenants share."""

import asyncio

import pytest

from services.errors import Overloaded
from services.turns import Turns

LONG_S = 60.0


async def queued(turns: Turns, tenants: str, order: list[str]) -> list["asyncio.Task[None]"]:
    """Tasks that wait for a slot each, give it back at once, and say who had it."""

    async def visit(tenant: str) -> None:
        async with turns.slot(tenant, LONG_S):
            order.append(tenant)

    tasks = []
    for tenant in tenants:
        tasks.append(asyncio.create_task(visit(tenant)))
        await asyncio.sleep(0)
    return tasks


async def test_tenants_take_turns() -> None:
    turns, order = Turns(1, 100), list[str]()
    turns.take("a")
    tasks = await queued(turns, "aaaabbc", order)
    assert (turns.waiting, turns.held("a"), turns.free) == (7, 5, 0)
    turns.leave("a")
    await asyncio.gather(*tasks)
    assert "".join(order) == "abcabaa"
    assert (turns.waiting, turns.free) == (0, 1)


async def test_one_tenant_holds_no_more_than_its_share() -> None:
    turns, order = Turns(4, 100, each=2), list[str]()
    turns.take("a")
    turns.take("a")
    waiting = await queued(turns, "aa", order)
    await asyncio.gather(*await queued(turns, "bb", order))
    assert order == ["b", "b"]
    turns.leave("a")
    await asyncio.gather(*waiting)
    assert order == ["b", "b", "a", "a"]


async def test_the_queue_is_bounded() -> None:
    turns, order = Turns(1, 2), list[str]()
    turns.take("a")
    tasks = await queued(turns, "ab", order)
    with pytest.raises(Overloaded):
        await turns.enter("c", LONG_S)
    turns.leave("a")
    await asyncio.gather(*tasks)


async def test_who_does_not_wait_any_longer_takes_no_slot() -> None:
    turns, order = Turns(1, 10), list[str]()
    turns.take("a")
    with pytest.raises(Overloaded):
        await turns.enter("b", 0)
    tasks = await queued(turns, "bcb", order)
    tasks[0].cancel()
    tasks[2].cancel()
    turns.leave("a")  # before the cancelled ones have noticed
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["c"]
    assert (turns.free, turns.waiting) == (1, 0)


async def test_a_slot_granted_to_one_that_leaves_goes_to_the_next() -> None:
    turns, order = Turns(1, 10), list[str]()
    turns.take("a")
    tasks = await queued(turns, "bc", order)
    turns.leave("a")
    tasks[0].cancel()  # it has the slot, and does not know yet
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["c"]
    assert (turns.free, turns.waiting) == (1, 0)
