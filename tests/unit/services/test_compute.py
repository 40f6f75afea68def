"""The bounded thread pool."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from typing import Any

import numpy  # noqa: F401 - brings the linear algebra that is limited
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from services.compute import ComputePool, checkpoint
from services.errors import DeadlineExceeded, Overloaded
from tests.support.pools import TIMEOUT_S, burn, run_for, until


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
        await until(pool, 0)
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
        await until(pool, 0)
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
    tasks = [asyncio.create_task(run_for(tenant, pool, lambda: gate.wait(TIMEOUT_S))) for tenant in "aab"]
    await until(pool, 3)
    with pytest.raises(Overloaded):
        await run_for("c", pool, gate.wait)
    gate.set()
    assert await asyncio.gather(*tasks) == [True] * 3
    await until(pool, 0)
    assert await pool.run(abs, -1) == 1
    await pool.close()


async def test_cancelling_a_waiting_call_drops_it() -> None:
    gate, ran = threading.Event(), threading.Event()
    pool = ComputePool(max_workers=1, max_waiting=1)
    running = asyncio.create_task(pool.run(gate.wait, TIMEOUT_S))
    await until(pool, 1)
    waiting = asyncio.create_task(pool.run(ran.set))
    await until(pool, 2)
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
    await until(pool, 0)
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
    await until(pool, 2)
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
    await until(pool, 0)
    await pool.close()


async def test_closing_ends_a_call_that_has_paused() -> None:
    pool, gate, begun = ComputePool(1, 10), threading.Event(), threading.Event()

    def long() -> None:
        burn(0.1)
        begun.set()
        while True:
            checkpoint()

    paused = asyncio.create_task(run_for("a", pool, long))
    await asyncio.to_thread(begun.wait, TIMEOUT_S)
    entered = threading.Event()

    def short() -> None:
        entered.set()
        gate.wait(TIMEOUT_S)

    running = asyncio.create_task(run_for("b", pool, short))
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
    await until(pool, 0)
    pool._progress_at -= 1_000
    assert pool.stuck_s == 0  # nothing is to do
    await pool.close()


async def test_a_call_that_waited_in_vain_is_no_progress() -> None:
    pool, gate, begun = ComputePool(1, 2), threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)

    task = asyncio.create_task(pool.run(long))
    assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
    pool._progress_at -= 1_000
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pool.run(abs, -1), 0.05)
    assert pool.stuck_s >= 1_000
    gate.set()
    await task
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
