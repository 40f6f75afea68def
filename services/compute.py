"""Bounded thread offload for encoder and index work.

onnxruntime and faiss release the GIL while they compute, so threads are enough. What an event loop needs is a bound:
with an unbounded queue every request waits longer than its caller does, so work beyond the bound is refused at once.

Requests are what runs in parallel, so a library's own threads only get in their way: numpy's would spin after every
small product, for half of the processor time of a search.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from services.errors import Overloaded

P = ParamSpec("P")
T = TypeVar("T")


class ComputePool:
    """Runs blocking functions on a fixed number of threads, with a bound on how many may wait.

    From the first pool on, linear algebra that was loaded before it takes one thread for each call in this process.

    Args:
        max_workers: threads, at least 1.
        max_waiting: calls that may wait for a free thread, at least 0; the next one is refused.
        name: prefix of the thread names and word in the error message.

    Raises:
        ValueError: for a bound out of range.
    """

    def __init__(self, max_workers: int = 2, max_waiting: int = 64, name: str = "compute") -> None:
        if max_workers < 1 or max_waiting < 0:
            raise ValueError(f"need max_workers >= 1 and max_waiting >= 0, got {max_workers} and {max_waiting}")
        threadpool_limits(1, user_api="blas")
        self._executor = ThreadPoolExecutor(max_workers, thread_name_prefix=name)
        self._name = name
        self._workers = max_workers
        self._capacity = max_workers + max_waiting
        self._in_flight = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def workers(self) -> int:
        """Number of threads: calls that run at the same time."""
        return self._workers

    @property
    def in_flight(self) -> int:
        """Number of calls now running or waiting."""
        return self._in_flight

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn(*args, **kwargs)`` on a worker thread, in a copy of the caller's context, and return its result.

        When the awaiting task is cancelled, a call that still waits is dropped; one that already runs cannot be
        stopped, so it keeps its slot until it ends and its result is thrown away.

        Raises:
            Overloaded: too many calls are waiting, or the pool is closed.
            Exception: whatever ``fn`` raises.
        """
        future = self._submit(contextvars.copy_context(), lambda: fn(*args, **kwargs))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # close() cancels waiting calls. Their callers were not cancelled themselves: tell them what happened.
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise Overloaded(f"the {self._name} pool is shutting down", retry_after_s=1) from None
            raise

    async def close(self) -> None:
        """Refuse new calls, drop the waiting ones (their callers get ``Overloaded``) and wait for the running ones."""
        with self._lock:
            self._closed = True
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)

    def _submit(self, context: contextvars.Context, call: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._closed:
                raise Overloaded(f"the {self._name} pool is shutting down", retry_after_s=1)
            if self._in_flight >= self._capacity:
                raise Overloaded(
                    f"the {self._name} pool is full: {self._in_flight} calls are running or waiting", retry_after_s=1
                )
            future = self._executor.submit(context.run, _without_stop_iteration, call)
            self._in_flight += 1
        # Outside the lock: for a finished future the callback runs here and now, and it takes the lock itself.
        future.add_done_callback(self._release)
        return future

    def _release(self, _: Future[Any]) -> None:
        with self._lock:
            self._in_flight -= 1


def _without_stop_iteration(call: Callable[[], T]) -> T:
    """Asyncio futures cannot carry a StopIteration: the awaiting task would hang for ever."""
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("the function offloaded raised StopIteration") from error
