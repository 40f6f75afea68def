"""Slots that tenants share."""

import asyncio
from collections import Counter

import pytest

from services.errors import Overloaded
from services.fair_slots import FairSlots
from services.http import parsing_slots

LONG_S = 60.0


async def queued(slots: FairSlots, tenants: str, order: list[str]) -> list["asyncio.Task[None]"]:
    """Tasks that wait for a slot each, give it back at once, and say who had it."""

    async def visit(tenant: str) -> None:
        async with slots.slot(tenant, LONG_S):
            order.append(tenant)

    tasks = []
    for tenant in tenants:
        tasks.append(asyncio.create_task(visit(tenant)))
        await asyncio.sleep(0)
    return tasks


async def test_tenants_take_turns() -> None:
    slots, order = FairSlots(1, 100), list[str]()
    slots.take("a")
    tasks = await queued(slots, "aaaabbc", order)
    assert (slots.waiting, slots.held("a"), slots.free) == (7, 5, 0)
    slots.leave("a")
    await asyncio.gather(*tasks)
    assert "".join(order) == "abcabaa"
    assert (slots.waiting, slots.free) == (0, 1)


async def test_one_tenant_holds_no_more_than_its_share() -> None:
    slots, order = FairSlots(4, 100, each=2), list[str]()
    slots.take("a")
    slots.take("a")
    waiting = await queued(slots, "aa", order)
    await asyncio.gather(*await queued(slots, "bb", order))
    assert order == ["b", "b"]
    slots.leave("a")
    await asyncio.gather(*waiting)
    assert order == ["b", "b", "a", "a"]


async def test_the_queue_is_bounded() -> None:
    slots, order = FairSlots(1, 2), list[str]()
    slots.take("a")
    tasks = await queued(slots, "ab", order)
    with pytest.raises(Overloaded):
        await slots.enter("c", LONG_S)
    slots.leave("a")
    await asyncio.gather(*tasks)


async def test_who_does_not_wait_any_longer_takes_no_slot() -> None:
    slots, order = FairSlots(1, 10), list[str]()
    slots.take("a")
    with pytest.raises(Overloaded):
        await slots.enter("b", 0)
    tasks = await queued(slots, "bcb", order)
    tasks[0].cancel()
    tasks[2].cancel()
    slots.leave("a")  # before the cancelled ones have noticed
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["c"]
    assert (slots.free, slots.waiting) == (1, 0)


async def test_a_slot_granted_to_one_that_leaves_goes_to_the_next() -> None:
    slots, order = FairSlots(1, 10), list[str]()
    slots.take("a")
    tasks = await queued(slots, "bc", order)
    slots.leave("a")
    tasks[0].cancel()  # it has the slot, and does not know yet
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["c"]
    assert (slots.free, slots.waiting) == (1, 0)


async def test_bodies_of_one_tenant_that_wait_keep_no_others_from_waiting() -> None:
    slots, order = parsing_slots(), list[str]()
    for tenant in "ab":
        slots.take(tenant)
    tasks = await queued(slots, "a" * 1_000 + "b", order)
    for tenant in "ab":
        slots.leave(tenant)
    await asyncio.gather(*tasks)
    assert Counter(order) == {"a": 1_000, "b": 1}
