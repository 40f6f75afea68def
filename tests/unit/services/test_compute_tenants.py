"""How tenants share the thread pool."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from services.compute import ComputePool, _Accounts, checkpoint
from services.errors import Overloaded
from tests.support.pools import TIMEOUT_S, burn, run_for, until


async def test_a_flood_of_one_tenant_is_refused_and_nobody_else_is() -> None:
    gate, pool = threading.Event(), ComputePool(max_workers=2, max_waiting=10)
    flood = [asyncio.create_task(run_for("flood", pool, lambda: gate.wait(TIMEOUT_S))) for _ in range(30)]
    await until(pool, 7)
    desks = [asyncio.create_task(run_for("desk", pool, lambda: 1)) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*desks) == [1] * 5
    ended = await asyncio.gather(*flood, return_exceptions=True)
    assert [type(one) for one in ended] == [bool] * 7 + [Overloaded] * 23
    await until(pool, 0)
    assert not pool._by_tenant
    await pool.close()


async def test_places_of_cancelled_and_failed_calls_are_free_again() -> None:
    gate, pool = threading.Event(), ComputePool(max_workers=1, max_waiting=2)

    def fails() -> None:
        gate.wait(TIMEOUT_S)
        raise ZeroDivisionError

    for _ in range(3):
        gate.clear()
        first, second = (asyncio.create_task(run_for("flood", pool, fails)) for _ in range(2))
        await until(pool, 2)
        second.cancel()
        await asyncio.wait([second])
        gate.set()
        with pytest.raises(ZeroDivisionError):
            await first
        await until(pool, 0)
    assert not pool._by_tenant
    await pool.close()


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_long_call_gives_way_to_another_tenants(workers: int) -> None:
    pool, over, begun = ComputePool(workers, 10), threading.Event(), threading.Semaphore(0)

    def long() -> None:
        burn(0.1)
        begun.release()
        while not over.is_set():
            checkpoint()

    tasks = [asyncio.create_task(run_for("a", pool, long)) for _ in range(3)]
    for _ in range(workers):
        await asyncio.to_thread(begun.acquire)
    async with asyncio.timeout(TIMEOUT_S):
        assert [await run_for("b", pool, lambda: 1) for _ in range(3)] == [1, 1, 1]
    assert not any(task.done() for task in tasks)
    over.set()
    await asyncio.gather(*tasks)
    await until(pool, 0)
    await pool.close()


async def test_of_those_that_wait_the_tenant_goes_first_that_used_least() -> None:
    gate, pool, order = threading.Event(), ComputePool(1, 10), list[str]()

    def work(tenant: str, seconds: float) -> None:
        burn(seconds)
        order.append(tenant)

    await run_for("c", pool, list)
    await run_for("a", pool, lambda: burn(0.1))
    first = asyncio.create_task(run_for("c", pool, lambda: gate.wait(TIMEOUT_S)))
    await until(pool, 1)
    tasks = [asyncio.create_task(run_for(t, pool, partial(work, t, 0.1))) for t in "aaabb"]
    await until(pool, 6)
    gate.set()
    await asyncio.gather(first, *tasks)
    assert "".join(order) in ("babaa", "bbaaa")
    await pool.close()


async def test_nobody_has_all_threads_while_others_come_now_and_then() -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def long() -> None:  # without a checkpoint
        begun.release()
        gate.wait(TIMEOUT_S)

    pool = ComputePool(max_workers=2)
    await run_for("desk", pool, list)
    floods = [asyncio.create_task(run_for("flood", pool, long)) for _ in range(3)]
    await until(pool, 3)
    assert await asyncio.to_thread(begun.acquire, True, TIMEOUT_S)
    async with asyncio.timeout(TIMEOUT_S):
        await run_for("desk", pool, list)
    assert not begun.acquire(blocking=False)
    gate.set()
    await asyncio.gather(*floods)
    await pool.close()


async def test_what_is_used_alone_is_free() -> None:
    pool = ComputePool(max_workers=1)
    await run_for("desk", pool, partial(burn, 0.1))
    assert pool._accounts.of("desk") == 0.0
    await run_for("flood", pool, partial(burn, 0.1))
    await run_for("desk", pool, partial(burn, 0.1))
    assert min(map(pool._accounts.of, ("desk", "flood"))) > 0.05
    await pool.close()


async def test_who_is_alone_has_all_threads() -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def long() -> None:
        begun.release()
        gate.wait(TIMEOUT_S)

    pool = ComputePool(max_workers=2)
    tasks = [asyncio.create_task(run_for("flood", pool, long)) for _ in range(2)]
    for _ in tasks:
        assert await asyncio.to_thread(begun.acquire, True, TIMEOUT_S)
    gate.set()
    await asyncio.gather(*tasks)
    await pool.close()


def test_what_a_tenant_used_alone_does_not_hold_it_up_when_others_come() -> None:
    """It asked for half a minute's work while nobody else was there; then another one sends without an end."""
    accounts, busy = _Accounts(), ["desk", "flood"]
    for _ in range(300):
        accounts.add("desk", 0.1, ["desk"])
    for tenant in ("flood", "desk"):
        accounts.add(tenant, 0.0, busy)
    floods = 0.0
    while not accounts.of("desk") < accounts.of("flood"):
        accounts.add("flood", 0.01, busy)
        floods += 0.01
    assert floods < 1.0


def test_a_tenant_that_was_away_has_no_more_than_a_little_before_those_at_work() -> None:
    accounts, busy = _Accounts(), ["desk", "flood"]
    for _ in range(300):
        accounts.add("flood", 0.1, ["flood"])
    accounts.add("desk", 0.0, busy)
    desks = 0.0
    while not accounts.gives_way("desk", busy):
        accounts.add("desk", 0.01, busy)
        desks += 0.01
    assert 0.4 < desks < 1.0


def test_accounts_are_forgotten_in_the_order_of_their_last_use() -> None:
    accounts = _Accounts()
    for number in range(1_500):
        accounts.add("desk", 0.01, ["desk"])
        accounts.add(f"t{number}", 0.01, [])
    assert (accounts.of("t0"), accounts.of("desk") > 0) == (0.0, True)
