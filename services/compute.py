"""Bounded thread offload for encoder and index work, shared fairly between tenants.

onnxruntime and faiss release the GIL while they compute, so threads are enough. What an event loop needs is a bound:
with an unbounded queue every request waits longer than its caller does, so work beyond the bound is refused at once.

Requests are what runs in parallel, so a library's own threads only get in their way: numpy's would spin after every
small product, for half of the processor time of a search.

Whose turn it is depends on processor time: of the tenants with work, the one goes first that has used least; what one
uses while it is alone is free. What a call uses after it has become long counts four times, so that short ones need
not wait for it.
Work that takes long calls :func:`checkpoint` now and then. There it ends when nobody waits for it any more or its
budget is used up, and there it pauses while a tenant that has used less has work. It pauses also where a thread is free
for that other tenant: two threads of Python code share one interpreter lock, so each would slow the other down.

While several tenants have work now and then, none has all threads at once: what has no checkpoints, such as a network's
run over a long request, would keep the others waiting to its end.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from services.errors import DeadlineExceeded, Overloaded

P = ParamSpec("P")
T = TypeVar("T")

for_tenant: contextvars.ContextVar[str] = contextvars.ContextVar("for_tenant", default="")
"""For whom work is done that is offloaded from here on; unset: for the service itself."""

_LAG_S: Final = 0.5
"""How much less, or more, processor time a tenant may have on its account than another one with work."""
_SLICE_S: Final = 0.05
"""How much more processor time than another a tenant may have used without giving way to it."""
_LONG_S: Final = 0.25
"""Processor time from which on a call is a long one."""
_LONG_WEIGHT: Final = 4.0
"""How often its further processor time counts."""
_CHARGE_EVERY_S: Final = 0.002
_GRACE_S: Final = 0.05
"""How long work that has paused waits for the other tenant's next call: a request makes several in a row."""
_RECENT_S: Final = 5.0
"""So long after its last call a tenant finds a thread free, whatever others have to do."""
_MOST_TENANTS: Final = 1_000
_working = threading.local()


def checkpoint() -> None:
    """A place where long work may pause or end. Does nothing outside of a :class:`ComputePool`.

    Raises:
        DeadlineExceeded: the work has used up its processor time.
        Overloaded: nobody waits for its result any more.
    """
    job: _Job | None = getattr(_working, "job", None)
    if job is not None:
        job.pool.check(job)


@dataclass(eq=False, slots=True)
class _Job:
    """A call, from its acceptance to its end.

    Attributes:
        used_s: processor seconds so far, up to ``mark``.
        mark: the thread's processor time when that was last brought up to date.
        state: whether it waits to begin, runs, has paused, or is over.
        resumed: set when it may go on after a pause.
        unwanted: why it is to end at its next checkpoint.
    """

    pool: ComputePool
    tenant: str
    work: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)
    used_s: float = 0.0
    mark: float = 0.0
    state: str = "waiting"
    resumed: threading.Event = field(default_factory=threading.Event)
    unwanted: str = ""


class _Accounts:
    """Processor seconds of tenants, as far as they decide whose turn it is.

    Only their differences count, and between tenants with work none is larger than ``_LAG_S``. So what a tenant used
    while it was alone holds it up no longer than that once others come, and what it left unused holds up nobody.
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}

    def of(self, tenant: str) -> float:
        """Its account; the lower it is, the sooner is its turn."""
        return self._used.get(tenant, 0.0)

    def add(self, tenant: str, seconds: float, busy: Iterable[str]) -> None:
        """Charge a tenant, 0 where it comes with work; ``busy``: the tenants that have work."""
        used = self._used.pop(tenant, 0.0) + seconds
        lowest = min((self.of(other) for other in busy if other != tenant), default=used)
        self._used[tenant] = min(max(used, lowest - _LAG_S), lowest + _LAG_S)
        if len(self._used) > _MOST_TENANTS:
            del self._used[next(iter(self._used))]  # of the one that was charged longest ago

    def gives_way(self, tenant: str, others: Iterable[str]) -> bool:
        """Whether another one among these has used so much less that this one lets it go first."""
        least = min((self.of(other) for other in others if other != tenant), default=math.inf)
        return self.of(tenant) > least + _SLICE_S


class ComputePool:
    """Runs blocking functions on a fixed number of threads at a time, with a bound on how many may wait.

    From the first pool on, linear algebra that was loaded before it takes one thread for each call in this process.

    Args:
        max_workers: calls that run at the same time, at least 1.
        max_waiting: calls that may wait for their turn, at least 0; the next one is refused.
        name: prefix of the thread names and word in the error message.
        budget_s: processor seconds that one call may use, as far as it has checkpoints; None: any.

    Raises:
        ValueError: for a bound out of range.
    """

    def __init__(
        self, max_workers: int = 2, max_waiting: int = 64, name: str = "compute", budget_s: float | None = None
    ) -> None:
        if max_workers < 1 or max_waiting < 0:
            raise ValueError(f"need max_workers >= 1 and max_waiting >= 0, got {max_workers} and {max_waiting}")
        threadpool_limits(1, user_api="blas")
        # Calls that have paused keep their threads.
        self._executor = ThreadPoolExecutor(max_workers + max_waiting, thread_name_prefix=name)
        self._name = name
        self._workers = max_workers
        self._capacity = max_workers + max_waiting
        self._budget_s = budget_s
        self._in_flight = 0
        self._closed = False
        self._lock = threading.Lock()
        self._lines: dict[str, deque[_Job]] = {}
        self._running: list[_Job] = []
        self._accounts = _Accounts()
        self._ended: dict[str, float] = {}
        self._moved = time.monotonic()

    @property
    def workers(self) -> int:
        """Calls that run at the same time."""
        return self._workers

    @property
    def in_flight(self) -> int:
        """Number of calls now running or waiting."""
        return self._in_flight

    @property
    def stuck_s(self) -> float:
        """For how long no call has begun, ended or been at a checkpoint, while one must; 0 where none must.

        However busy the pool is, this stays as short as what its calls do without a checkpoint.
        """
        must = bool(self._lines) or len(self._running) == self._workers
        return time.monotonic() - self._moved if must else 0.0

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn(*args, **kwargs)`` on a worker thread, in a copy of the caller's context, and return its result.

        When the awaiting task is cancelled, a call that still waits is dropped; one that already runs ends at its next
        checkpoint, or where it has none keeps its slot until its own end, and its result is thrown away.

        Raises:
            Overloaded: too many calls are waiting, or the pool is closed.
            DeadlineExceeded: it used up its processor time.
            Exception: whatever ``fn`` raises.
        """
        context = contextvars.copy_context()
        job = self._accept(lambda: context.run(_without_stop_iteration, lambda: fn(*args, **kwargs)))
        try:
            result: T = await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._give_up([job], "nobody waits for it now")
            # close() cancels waiting calls. Their callers were not cancelled themselves: tell them what happened.
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise self._closing() from None
            raise
        return result

    async def close(self) -> None:
        """Refuse new calls, drop those that wait or have paused (their callers get ``Overloaded``), await the rest."""
        with self._lock:
            self._closed = True
            left = [job for line in self._lines.values() for job in line]
        for job in left:
            job.future.cancel()
        self._give_up(left, self._closing().detail)
        await asyncio.to_thread(self._executor.shutdown, wait=True)

    def check(self, job: _Job) -> None:
        """A running call is at a checkpoint. Raises what ends it; returns when it may go on."""
        self._moved = time.monotonic()
        unaccounted_s = time.thread_time() - job.mark
        if self._budget_s is not None and job.used_s + unaccounted_s > self._budget_s:
            raise DeadlineExceeded(f"It takes more than {self._budget_s:g} s of processor time.")
        if not job.unwanted and unaccounted_s >= _CHARGE_EVERY_S:
            with self._lock:
                self._charge(job)
                if paused := self._accounts.gives_way(job.tenant, self._busy()):
                    self._pause(job)
            while paused and not job.resumed.wait(_GRACE_S):
                with self._lock:
                    self._dispatch()
        if job.unwanted:
            raise Overloaded(job.unwanted, retry_after_s=1)

    def _closing(self) -> Overloaded:
        return Overloaded(f"the {self._name} pool is shutting down", retry_after_s=1)

    def _accept(self, work: Callable[[], Any]) -> _Job:
        job = _Job(self, for_tenant.get(), work)
        with self._lock:
            if self._closed:
                raise self._closing()
            if self._in_flight >= self._capacity:
                raise Overloaded(
                    f"the {self._name} pool is full: {self._in_flight} calls are running or waiting", retry_after_s=1
                )
            self._in_flight += 1
            self._accounts.add(job.tenant, 0.0, self._busy())
            self._lines.setdefault(job.tenant, deque()).append(job)
            self._dispatch()
        # Outside the lock: for a finished future the callback runs here and now, and it takes the lock itself.
        job.future.add_done_callback(lambda _: self._release(job))
        return job

    def _dispatch(self) -> None:
        """Let calls begin or go on that have their turn. The lock is held."""
        while self._lines and len(self._running) < self._workers and not self._closed:
            tenant = min(self._lines, key=lambda one: (self._leaves_free(one), self._accounts.of(one)))
            job = self._lines[tenant][0]
            others = [one.tenant for one in self._running]
            if self._leaves_free(tenant) or self._accounts.gives_way(
                tenant, [*others, *self._lately()] if job.state == "paused" else others
            ):
                return
            self._leave_line(job)
            self._go(job)

    def _leaves_free(self, tenant: str) -> bool:
        """Whether a tenant has all threads but the last one, which is left to those who came a short time ago."""
        if self._workers == 1 or len(self._running) < self._workers - 1:
            return False
        alone = all(job.tenant == tenant for job in self._running)
        return alone and any(other != tenant for other in self._since(_RECENT_S))

    def _busy(self) -> list[str]:
        """The tenants that have work."""
        return [*self._lines, *(job.tenant for job in self._running)]

    def _lately(self) -> list[str]:
        """The tenants whose last call is just over: the next one comes soon."""
        return self._since(_GRACE_S)

    def _since(self, seconds: float) -> list[str]:
        """The tenants whose last call has ended within this time."""
        now = time.monotonic()
        self._ended = {tenant: at for tenant, at in self._ended.items() if now - at < _RECENT_S}
        return [tenant for tenant, at in self._ended.items() if now - at < seconds]

    def _go(self, job: _Job) -> None:
        before, job.state = job.state, "running"
        self._moved = time.monotonic()
        self._running.append(job)
        if before == "paused":
            job.resumed.set()
        else:
            self._executor.submit(self._work, job)

    def _pause(self, job: _Job) -> None:
        job.state = "paused"
        job.resumed.clear()
        self._running.remove(job)
        self._lines.setdefault(job.tenant, deque()).appendleft(job)  # before those that have not begun
        self._dispatch()

    def _leave_line(self, job: _Job) -> None:
        line = self._lines[job.tenant]
        line.remove(job)
        if not line:
            del self._lines[job.tenant]

    def _charge(self, job: _Job) -> None:
        """Bring a call's account up to date, on its own thread. What a tenant uses while it is alone is free."""
        now = time.thread_time()
        weight = _LONG_WEIGHT if job.used_s > _LONG_S else 1.0
        alone = all(tenant == job.tenant for tenant in [*self._busy(), *self._since(_RECENT_S)])
        self._accounts.add(job.tenant, 0.0 if alone else (now - job.mark) * weight, self._busy())
        job.used_s += now - job.mark
        job.mark = now

    def _give_up(self, jobs: Iterable[_Job], why: str) -> None:
        """End calls at their next checkpoint; those that have paused are at one."""
        with self._lock:
            for job in jobs:
                job.unwanted = why
                if job.state == "paused":
                    self._leave_line(job)
                    self._go(job)

    def _work(self, job: _Job) -> None:
        """Run a call, on a worker thread."""
        if not job.future.set_running_or_notify_cancel():
            return
        _working.job, job.mark = job, time.thread_time()
        try:
            result = job.work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            self._account(job)
            job.future.set_exception(error)
        else:
            self._account(job)
            job.future.set_result(result)

    def _account(self, job: _Job) -> None:
        _working.job = None
        with self._lock:
            self._charge(job)

    def _release(self, job: _Job) -> None:
        """A call is over, or was cancelled before it began."""
        with self._lock:
            self._moved = time.monotonic()
            self._in_flight -= 1
            before, job.state = job.state, "over"
            if before == "running":
                self._running.remove(job)
                self._ended[job.tenant] = time.monotonic()
                if len(self._ended) > _MOST_TENANTS:
                    self._ended.clear()
            else:
                self._leave_line(job)
            self._dispatch()


def _without_stop_iteration(call: Callable[[], T]) -> T:
    """Asyncio futures cannot carry a StopIteration: the awaiting task would hang for ever."""
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("the function offloaded raised StopIteration") from error
