"""Bounded thread offload for encoder and index work, shared fairly between tenants.

onnxruntime and faiss release the GIL while they compute, so threads are enough. The queue is bounded: with an
unbounded queue, every request would wait longer than its caller does. Work beyond the bound is refused at once. One
tenant has half of the queue, so that its flood does not refuse the work of others.

Requests run in parallel, so the threads of a library only compete with them. numpy's threads would spin after every
small product and use half of the processor time of a search.

Scheduling depends on processor time. Of the tenants with work, the one that has used least goes first. Time that a
tenant uses while no other has work is free. Once a call is long, its further time counts four times, so that short
calls need not wait for it.

Long work calls :func:`checkpoint` regularly. At a checkpoint it ends if nobody waits for its result or its budget is
used up, and it pauses while a tenant that has used less has work. It pauses even if a thread is free for that tenant:
two threads of Python code share the GIL, so each would slow the other down.

While several tenants are active, no tenant gets all threads at once. Work without checkpoints, such as a network's
run over a long request, would otherwise block the others until it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from services.errors import DeadlineExceeded, Overloaded

P = ParamSpec("P")
T = TypeVar("T")

for_tenant: contextvars.ContextVar[str] = contextvars.ContextVar("for_tenant", default="")
"""The tenant that offloaded work is charged to; unset: the service itself."""

_LAG_S: Final = 0.5
"""Largest difference between the accounts of two tenants with work, in processor seconds."""
_SLICE_S: Final = 0.05
"""How much more processor time than another a tenant may have used before it gives way to it."""
_LONG_S: Final = 0.25
"""Processor time after which a call counts as long."""
_LONG_WEIGHT: Final = 4.0
"""Factor by which the further processor time of a long call counts."""
_CHARGE_EVERY_S: Final = 0.002
_GRACE_S: Final = 0.05
"""How long paused work waits for the other tenant's next call: a request makes several calls in a row."""
_RECENT_S: Final = 5.0
"""How long after a tenant's last call a thread is kept free for it."""
_MAX_TENANTS: Final = 1_000
_working = threading.local()


def checkpoint() -> None:
    """Let long work pause or end here. Does nothing outside of a :class:`ComputePool`.

    Raises:
        DeadlineExceeded: the work has used up its processor time.
        Overloaded: nobody waits for its result any more.
    """
    job: _Job | None = getattr(_working, "job", None)
    if job is not None:
        job.pool.check(job)


def with_checkpoints(items: Iterable[T]) -> Iterator[T]:
    """The items, with a :func:`checkpoint` before each."""
    for item in items:
        checkpoint()
        yield item


@dataclass(eq=False, slots=True)
class _Job:
    """A call, from its acceptance to its end.

    Attributes:
        used_s: processor seconds so far, up to ``mark``.
        mark: the thread's processor time when ``used_s`` was last updated.
        state: "waiting", "running", "paused" or "over".
        resumed: set when it may continue after a pause.
        unwanted: why it has to end at its next checkpoint; empty if it need not.
        result: what it returned, until the caller takes it. A future and its callbacks refer to each other: a large
            result in it, or in ``work``, would take memory until the garbage collector comes by.
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
    result: Any = None


class _Accounts:
    """Processor seconds of tenants, used for scheduling.

    Only differences count. Between tenants with work, no difference is larger than ``_LAG_S``. So what a tenant used
    while it was alone delays it by at most ``_LAG_S``, and time that a tenant did not use does not delay others.
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}

    def of(self, tenant: str) -> float:
        """The tenant's account. The tenant with the lowest account goes first."""
        return self._used.get(tenant, 0.0)

    def add(self, tenant: str, seconds: float, busy: Iterable[str]) -> None:
        """Charge a tenant (0 seconds when it submits work). ``busy``: the tenants that have work."""
        used = self._used.pop(tenant, 0.0) + seconds
        lowest = min((self.of(other) for other in busy if other != tenant), default=used)
        self._used[tenant] = min(max(used, lowest - _LAG_S), lowest + _LAG_S)
        if len(self._used) > _MAX_TENANTS:
            del self._used[next(iter(self._used))]  # the one charged longest ago

    def gives_way(self, tenant: str, others: Iterable[str]) -> bool:
        """Whether one of the others has used so much less that this tenant lets it go first."""
        least = min((self.of(other) for other in others if other != tenant), default=math.inf)
        return self.of(tenant) > least + _SLICE_S


class ComputePool:
    """Runs blocking functions on a fixed number of threads at a time, with a bound on how many may wait.

    Creating a pool limits the BLAS libraries loaded so far to one thread per call, in the whole process.

    Args:
        max_workers: calls that run at the same time, at least 1.
        max_waiting: calls that may wait, at least 0, half of them of one tenant; further ones are refused.
        name: prefix of the thread names, also used in error messages.
        budget_s: processor seconds that one call may use, enforced at its checkpoints; None: no limit.

    Raises:
        ValueError: a bound is out of range.
    """

    def __init__(
        self, max_workers: int = 2, max_waiting: int = 64, name: str = "compute", budget_s: float | None = None
    ) -> None:
        if max_workers < 1 or max_waiting < 0:
            raise ValueError(f"need max_workers >= 1 and max_waiting >= 0, got {max_workers} and {max_waiting}")
        threadpool_limits(1, user_api="blas")
        # Paused calls keep their threads.
        self._executor = ThreadPoolExecutor(max_workers + max_waiting, thread_name_prefix=name)
        self._name = name
        self._workers = max_workers
        self._capacity = max_workers + max_waiting
        self._budget_s = budget_s
        self._each = max_workers + (max_waiting + 1) // 2
        self._in_flight = 0
        self._by_tenant: Counter[str] = Counter()
        self._closed = False
        self._lock = threading.Lock()
        self._queues: dict[str, deque[_Job]] = {}
        self._running: list[_Job] = []
        self._accounts = _Accounts()
        self._ended: dict[str, float] = {}
        self._progress_at = time.monotonic()

    @property
    def workers(self) -> int:
        """Calls that run at the same time."""
        return self._workers

    @property
    def in_flight(self) -> int:
        """Number of calls running or waiting."""
        return self._in_flight

    @property
    def stuck_s(self) -> float:
        """Seconds since a call last began, ended or reached a checkpoint; 0 if there is no call that has to.

        However busy the pool is, this is at most the time that a call takes between two checkpoints.
        """
        must = bool(self._queues) or len(self._running) == self._workers
        return time.monotonic() - self._progress_at if must else 0.0

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn(*args, **kwargs)`` on a worker thread, in a copy of the caller's context, and return its result.

        When the awaiting task is cancelled, a call that still waits is dropped. A running call ends at its next
        checkpoint. A running call without checkpoints keeps its slot until it ends, and its result is discarded.

        Raises:
            Overloaded: too many calls are waiting, in all or of the tenant, or the pool is closed.
            DeadlineExceeded: the call used up its processor time.
            Exception: whatever ``fn`` raises.
        """
        context = contextvars.copy_context()
        job = self._accept(lambda: context.run(_without_stop_iteration, lambda: fn(*args, **kwargs)))
        try:
            await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._give_up([job], "nobody waits for it now")
            job.result = None
            # close() cancels waiting calls. Their callers were not cancelled themselves, so they get the reason.
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise self._closing() from None
            raise
        result: T = job.result
        job.result = None
        return result

    async def close(self) -> None:
        """Refuse new calls, drop waiting and paused ones (their callers get ``Overloaded``), await the rest."""
        with self._lock:
            self._closed = True
            left = [job for queue in self._queues.values() for job in queue]
        for job in left:
            job.future.cancel()
        self._give_up(left, self._closing().detail)
        await asyncio.to_thread(self._executor.shutdown, wait=True)

    def check(self, job: _Job) -> None:
        """Handle a running call at a checkpoint. Return when it may continue.

        Raises:
            DeadlineExceeded: the call used up its processor time.
            Overloaded: the call has to end.
        """
        self._progress_at = time.monotonic()
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
            if self._in_flight >= self._capacity or self._by_tenant[job.tenant] >= self._each:
                raise Overloaded(
                    f"the {self._name} pool is full: {self._in_flight} calls are running or waiting, "
                    f"{self._by_tenant[job.tenant]} of them of this tenant",
                    retry_after_s=1,
                )
            self._in_flight += 1
            self._by_tenant[job.tenant] += 1
            self._accounts.add(job.tenant, 0.0, self._busy())
            self._queues.setdefault(job.tenant, deque()).append(job)
            self._dispatch()
        # Outside the lock: if the future is already done, the callback runs at once, and it takes the lock itself.
        job.future.add_done_callback(lambda _: self._release(job))
        return job

    def _dispatch(self) -> None:
        """Start or resume the calls whose turn it is. The caller holds the lock."""
        while self._queues and len(self._running) < self._workers and not self._closed:
            tenant = min(self._queues, key=lambda one: (self._leaves_free(one), self._accounts.of(one)))
            job = self._queues[tenant][0]
            others = [one.tenant for one in self._running]
            if self._leaves_free(tenant) or self._accounts.gives_way(
                tenant, [*others, *self._just_ended()] if job.state == "paused" else others
            ):
                return
            self._dequeue(job)
            self._start(job)

    def _leaves_free(self, tenant: str) -> bool:
        """Whether a tenant has all threads but one, and the last is kept for tenants with recent calls."""
        if self._workers == 1 or len(self._running) < self._workers - 1:
            return False
        alone = all(job.tenant == tenant for job in self._running)
        return alone and any(other != tenant for other in self._ended_within(_RECENT_S))

    def _busy(self) -> list[str]:
        """The tenants that have work."""
        return [*self._queues, *(job.tenant for job in self._running)]

    def _just_ended(self) -> list[str]:
        """The tenants whose last call has just ended. Their next call is likely to follow soon."""
        return self._ended_within(_GRACE_S)

    def _ended_within(self, seconds: float) -> list[str]:
        """The tenants whose last call ended within the last ``seconds``."""
        now = time.monotonic()
        self._ended = {tenant: at for tenant, at in self._ended.items() if now - at < _RECENT_S}
        return [tenant for tenant, at in self._ended.items() if now - at < seconds]

    def _start(self, job: _Job) -> None:
        before, job.state = job.state, "running"
        self._progress_at = time.monotonic()
        self._running.append(job)
        if before == "paused":
            job.resumed.set()
        else:
            self._executor.submit(self._work, job)

    def _pause(self, job: _Job) -> None:
        job.state = "paused"
        job.resumed.clear()
        self._running.remove(job)
        self._queues.setdefault(job.tenant, deque()).appendleft(job)  # ahead of calls that have not begun
        self._dispatch()

    def _dequeue(self, job: _Job) -> None:
        queue = self._queues[job.tenant]
        queue.remove(job)
        if not queue:
            del self._queues[job.tenant]

    def _charge(self, job: _Job) -> None:
        """Update a call's account, on its own thread. Time that a tenant uses while it is alone is free."""
        now = time.thread_time()
        weight = _LONG_WEIGHT if job.used_s > _LONG_S else 1.0
        alone = all(tenant == job.tenant for tenant in [*self._busy(), *self._ended_within(_RECENT_S)])
        self._accounts.add(job.tenant, 0.0 if alone else (now - job.mark) * weight, self._busy())
        job.used_s += now - job.mark
        job.mark = now

    def _give_up(self, jobs: Iterable[_Job], why: str) -> None:
        """Make calls end at their next checkpoint. Paused calls are at one, so they resume in order to end."""
        with self._lock:
            for job in jobs:
                job.unwanted = why
                if job.state == "paused":
                    self._dequeue(job)
                    self._start(job)

    def _work(self, job: _Job) -> None:
        """Run a call, on a worker thread."""
        if not job.future.set_running_or_notify_cancel():
            return
        _working.job, job.mark = job, time.thread_time()
        try:
            job.result = job.work()
        except BaseException as error:  # noqa: BLE001 - re-raised where the result is awaited
            self._account(job)
            job.future.set_exception(error)
        else:
            self._account(job)
            job.future.set_result(None)

    def _account(self, job: _Job) -> None:
        _working.job = None
        with self._lock:
            self._charge(job)

    def _release(self, job: _Job) -> None:
        """Handle the end of a call, or its cancellation before it began."""
        job.work = _over
        if job.unwanted:
            job.result = None
        with self._lock:
            self._in_flight -= 1
            self._by_tenant[job.tenant] -= 1
            if not self._by_tenant[job.tenant]:
                del self._by_tenant[job.tenant]
            before, job.state = job.state, "over"
            if before == "running":
                self._progress_at = time.monotonic()  # the end of one that waited in vain is none
                self._running.remove(job)
                self._ended[job.tenant] = time.monotonic()
                if len(self._ended) > _MAX_TENANTS:
                    self._ended.clear()
            else:
                self._dequeue(job)
            self._dispatch()


def _over() -> None:
    """The work of a call that has ended."""


def _without_stop_iteration(call: Callable[[], T]) -> T:
    """Convert StopIteration to RuntimeError. Asyncio futures cannot carry it: the awaiting task would hang forever."""
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("the function offloaded raised StopIteration") from error
