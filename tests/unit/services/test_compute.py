"""The bounded thread pool."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy  # noqa: F401 - brings the linear algebra that is limited
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from services.compute import ComputePool, _Accounts, checkpoint, for_tenant
from services.errors import DeadlineExceeded, Overloaded

T = TypeVar("T")
TIMEOUT_S = 10


async def _until(pool: ComputePool, in_flight: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while pool.in_flight != in_flight:  # noqa: ASYNC110 - a counter of the pool, no event to wait for
            await asyncio.sleep(0.001)


async def test_runs_on_another_thread_with_arguments() -> None:
    pool = ComputePool()
    assert await pool.run(divmod, 17, 5) == (3, 2)
    assert await pool.run(sorted, [1, 3, 2], reverse=True) == [3, 2, 1]
    assert await pool.run(threading.get_ident) != threading.get_ident()
    await pool.close()


class _Large:
    """Stands for a large value."""


async def test_what_a_call_took_and_returned_is_freed_without_the_garbage_collector() -> None:
    """It may be a hundred megabytes, and the collector comes by rarely."""
    pool, taken = ComputePool(), _Large()
    gc.disable()
    try:
        returned = await pool.run(lambda _: _Large(), taken)
        refs = [weakref.ref(taken), weakref.ref(returned)]
        del taken, returned
        await _until(pool, 0)
        await pool.run(int)  # the thread has let go of its last call
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()
    await pool.close()


async def test_exceptions_come_back_and_free_the_slot() -> None:
    pool = ComputePool(max_workers=1, max_waiting=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await pool.run(divmod, 1, 0)
        await _until(pool, 0)
    await pool.close()


async def test_stop_iteration_does_not_hang() -> None:
    pool = ComputePool()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await pool.run(next, iter(()))
    await pool.close()


async def test_context_is_carried_over() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("request_id")
    variable.set("r-1")
    pool = ComputePool()
    assert await pool.run(variable.get) == "r-1"
    await pool.close()


async def test_refuses_beyond_the_bound() -> None:
    gate = threading.Event()
    pool = ComputePool(max_workers=1, max_waiting=2)
    tasks = [asyncio.create_task(_for(tenant, pool, lambda: gate.wait(TIMEOUT_S))) for tenant in "aab"]
    await _until(pool, 3)
    with pytest.raises(Overloaded):
        await _for("c", pool, gate.wait)
    gate.set()
    assert await asyncio.gather(*tasks) == [True] * 3
    await _until(pool, 0)
    assert await pool.run(abs, -1) == 1
    await pool.close()


async def test_a_flood_of_one_tenant_is_refused_and_nobody_else_is() -> None:
    gate, pool = threading.Event(), ComputePool(max_workers=2, max_waiting=10)
    flood = [asyncio.create_task(_for("flood", pool, lambda: gate.wait(TIMEOUT_S))) for _ in range(30)]
    await _until(pool, 7)
    desks = [asyncio.create_task(_for("desk", pool, lambda: 1)) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*desks) == [1] * 5
    ended = await asyncio.gather(*flood, return_exceptions=True)
    assert [type(one) for one in ended] == [bool] * 7 + [Overloaded] * 23
    await _until(pool, 0)
    assert not pool._by_tenant
    await pool.close()


async def test_places_of_cancelled_and_failed_calls_are_free_again() -> None:
    gate, pool = threading.Event(), ComputePool(max_workers=1, max_waiting=2)

    def fails() -> None:
        gate.wait(TIMEOUT_S)
        raise ZeroDivisionError

    for _ in range(3):
        gate.clear()
        first, second = (asyncio.create_task(_for("flood", pool, fails)) for _ in range(2))
        await _until(pool, 2)
        second.cancel()
        await asyncio.wait([second])
        gate.set()
        with pytest.raises(ZeroDivisionError):
            await first
        await _until(pool, 0)
    assert not pool._by_tenant
    await pool.close()


async def test_cancelling_a_waiting_call_drops_it() -> None:
    gate, ran = threading.Event(), threading.Event()
    pool = ComputePool(max_workers=1, max_waiting=1)
    running = asyncio.create_task(pool.run(gate.wait, TIMEOUT_S))
    await _until(pool, 1)
    waiting = asyncio.create_task(pool.run(ran.set))
    await _until(pool, 2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pool.in_flight == 1
    gate.set()
    await running
    await pool.close()
    assert not ran.is_set()


async def test_cancelling_a_running_call_keeps_its_slot_until_it_ends() -> None:
    gate, started = threading.Event(), threading.Event()
    pool = ComputePool(max_workers=1, max_waiting=0)

    def work() -> None:
        started.set()
        gate.wait(TIMEOUT_S)

    task = asyncio.create_task(pool.run(work))
    await asyncio.to_thread(started.wait, TIMEOUT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(Overloaded):
        await pool.run(abs, -1)
    gate.set()
    await _until(pool, 0)
    assert await pool.run(abs, -1) == 1
    await pool.close()


async def test_close_finishes_running_calls_and_refuses_waiting_and_new_ones() -> None:
    gate, started = threading.Event(), threading.Event()
    pool = ComputePool(max_workers=1, max_waiting=5)

    def work() -> str:
        started.set()
        gate.wait(TIMEOUT_S)
        return "done"

    running = asyncio.create_task(pool.run(work))
    await asyncio.to_thread(started.wait, TIMEOUT_S)
    waiting = asyncio.create_task(pool.run(abs, -1))
    await _until(pool, 2)
    closing = asyncio.create_task(pool.close())
    with pytest.raises(Overloaded, match="shutting down"):
        await waiting
    gate.set()
    assert await running == "done"
    await closing
    with pytest.raises(Overloaded, match="shutting down"):
        await pool.run(abs, -1)


@pytest.mark.parametrize(("workers", "waiting"), [(0, 1), (1, -1)])
def test_bounds_are_checked(workers: int, waiting: int) -> None:
    with pytest.raises(ValueError, match="max_w"):
        ComputePool(workers, waiting)


async def test_linear_algebra_takes_one_thread() -> None:
    with threadpool_limits(2, user_api="blas"):
        pool = ComputePool(1)
        threads = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
        await pool.close()
    assert threads == {1}


def _burn(seconds: float) -> None:
    """Use that much processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def _for(tenant: str, pool: ComputePool, work: Callable[[], T]) -> T:
    for_tenant.set(tenant)
    return await pool.run(work)


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_long_call_gives_way_to_another_tenants(workers: int) -> None:
    pool, over, begun = ComputePool(workers, 10), threading.Event(), threading.Semaphore(0)

    def long() -> None:
        _burn(0.1)
        begun.release()
        while not over.is_set():
            checkpoint()

    tasks = [asyncio.create_task(_for("a", pool, long)) for _ in range(3)]
    for _ in range(workers):
        await asyncio.to_thread(begun.acquire)
    async with asyncio.timeout(TIMEOUT_S):
        assert [await _for("b", pool, lambda: 1) for _ in range(3)] == [1, 1, 1]
    assert not any(task.done() for task in tasks)
    over.set()
    await asyncio.gather(*tasks)
    await _until(pool, 0)
    await pool.close()


async def test_of_those_that_wait_the_tenant_goes_first_that_used_least() -> None:
    gate, pool, order = threading.Event(), ComputePool(1, 10), list[str]()

    def work(tenant: str, seconds: float) -> None:
        _burn(seconds)
        order.append(tenant)

    await _for("c", pool, list)
    await _for("a", pool, lambda: _burn(0.1))
    first = asyncio.create_task(_for("c", pool, lambda: gate.wait(TIMEOUT_S)))
    await _until(pool, 1)
    tasks = [asyncio.create_task(_for(t, pool, partial(work, t, 0.1))) for t in "aaabb"]
    await _until(pool, 6)
    gate.set()
    await asyncio.gather(first, *tasks)
    assert "".join(order) in ("babaa", "bbaaa")
    await pool.close()


async def test_a_call_ends_when_its_processor_time_is_used_up() -> None:
    pool = ComputePool(1, 1, budget_s=0.05)

    def long() -> None:
        while True:
            checkpoint()

    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s of processor time"):
            await pool.run(long)
    assert await pool.run(abs, -1) == 1
    await pool.close()


async def test_a_call_that_nobody_waits_for_ends_at_its_next_checkpoint() -> None:
    pool = ComputePool(1, 1)
    begun = threading.Event()

    def long() -> None:
        begun.set()
        while True:
            checkpoint()

    task = asyncio.create_task(pool.run(long))
    await asyncio.to_thread(begun.wait, TIMEOUT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _until(pool, 0)
    await pool.close()


async def test_closing_ends_a_call_that_has_paused() -> None:
    pool, gate, begun = ComputePool(1, 10), threading.Event(), threading.Event()

    def long() -> None:
        _burn(0.1)
        begun.set()
        while True:
            checkpoint()

    paused = asyncio.create_task(_for("a", pool, long))
    await asyncio.to_thread(begun.wait, TIMEOUT_S)
    entered = threading.Event()

    def short() -> None:
        entered.set()
        gate.wait(TIMEOUT_S)

    running = asyncio.create_task(_for("b", pool, short))
    await asyncio.to_thread(entered.wait, TIMEOUT_S)
    closing = asyncio.create_task(pool.close())
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(Overloaded, match="shutting down"):
            await paused
    gate.set()
    await asyncio.gather(running, closing)


async def test_a_pool_is_stuck_while_a_call_must_get_on_and_none_does() -> None:
    pool, gate, over = ComputePool(1, 2), threading.Event(), threading.Event()
    begun, checked = threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)
        while not over.is_set():
            checkpoint()
            checked.set()

    assert pool.stuck_s == 0
    task = asyncio.create_task(pool.run(long))
    assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
    pool._progress_at -= 1_000
    assert pool.stuck_s >= 1_000
    gate.set()
    assert await asyncio.to_thread(checked.wait, TIMEOUT_S)
    assert 0 < pool.stuck_s < 1_000
    over.set()
    await task
    await _until(pool, 0)
    pool._progress_at -= 1_000
    assert pool.stuck_s == 0  # nothing is to do
    await pool.close()


async def test_a_pool_with_a_free_thread_is_not_stuck() -> None:
    pool, gate, begun = ComputePool(2, 2), threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)

    task = asyncio.create_task(pool.run(long))
    assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
    pool._progress_at -= 1_000
    assert pool.stuck_s == 0  # who comes now finds a thread
    assert await pool.run(abs, -1) == 1
    gate.set()
    await task
    await pool.close()


async def test_nobody_has_all_threads_while_others_come_now_and_then() -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def long() -> None:  # without a checkpoint
        begun.release()
        gate.wait(TIMEOUT_S)

    pool = ComputePool(max_workers=2)
    await _for("desk", pool, list)
    floods = [asyncio.create_task(_for("flood", pool, long)) for _ in range(3)]
    await _until(pool, 3)
    assert await asyncio.to_thread(begun.acquire, True, TIMEOUT_S)
    async with asyncio.timeout(TIMEOUT_S):
        await _for("desk", pool, list)
    assert not begun.acquire(blocking=False)
    gate.set()
    await asyncio.gather(*floods)
    await pool.close()


async def test_what_is_used_alone_is_free() -> None:
    pool = ComputePool(max_workers=1)
    await _for("desk", pool, partial(_burn, 0.1))
    assert pool._accounts.of("desk") == 0.0
    await _for("flood", pool, partial(_burn, 0.1))
    await _for("desk", pool, partial(_burn, 0.1))
    assert min(map(pool._accounts.of, ("desk", "flood"))) > 0.05
    await pool.close()


async def test_who_is_alone_has_all_threads() -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def long() -> None:
        begun.release()
        gate.wait(TIMEOUT_S)

    pool = ComputePool(max_workers=2)
    tasks = [asyncio.create_task(_for("flood", pool, long)) for _ in range(2)]
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


def test_a_checkpoint_outside_of_a_pool_is_nothing() -> None:
    checkpoint()


async def test_what_a_call_that_was_given_up_returned_is_freed_at_once() -> None:
    pool, begun, goes_on = ComputePool(1, 10), threading.Event(), threading.Event()
    gone = list[weakref.ref[Any]]()

    def work() -> Any:
        begun.set()
        assert goes_on.wait(5)
        returned = threading.Event()
        gone.append(weakref.ref(returned))
        return returned

    gc.disable()
    try:
        call = asyncio.create_task(pool.run(work))
        assert await asyncio.to_thread(begun.wait, 5)
        call.cancel()
        await asyncio.wait([call])
        goes_on.set()
        await pool.close()
        await asyncio.sleep(0)
        assert gone[-1]() is None
    finally:
        gc.enable()
