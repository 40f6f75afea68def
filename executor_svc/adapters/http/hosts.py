"""State of each upstream host: its circuit breaker, its retry budget and its load limits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from aiolimiter import AsyncLimiter
from yarl import URL

from executor_svc.adapters.http.lru import LruCache
from executor_svc.adapters.http.transport import SendFailed
from executor_svc.settings import ExecutorSettings, HostLimit
from services.contracts.operations import Breaker as BreakerStatus
from services.errors import Overloaded
from services.fair_slots import FairSlots

HostEvent = Literal["retry", "retry_refused", "circuit_opened", "circuit_closed", "circuit_refused"]
Observer = Callable[[HostEvent], None]
"""Called for each event, to count it. Gets no host: hosts come from imported documents, so they cannot be labels."""

_MAX_HOSTS: Final = 10_000
_MAX_LISTED: Final = 200
_RETRY_SHARE: Final = 0.2
_RETRY_RESERVE: Final = 10.0
_RESERVE_PER_S: Final = 1.0
_PATIENCE_S: Final = 5.0
_WAIT_S: Final = 7_200.0
"""Longer than any call waits. Its own deadline ends a call that waits for its turn."""


class CircuitOpen(Exception):
    """The host failed too often in a row; nothing is sent to it until the time in the message."""


class NoSlot(Exception):
    """The limits of a host left no room for the request before its deadline."""


class NoConnection(Exception):
    """The tenant's other calls had all connections that it may use until the deadline."""


class RetryBudget:
    """A token bucket as in Finagle's RetryBudget: retries are at most a fifth of the requests, plus a small reserve.

    Without it, retries would multiply the load of an overloaded host.
    """

    def __init__(self, now: float) -> None:
        self._tokens, self._at = _RETRY_RESERVE, now

    def earn(self, now: float) -> None:
        """Count a request that is not a retry."""
        refilled = self._tokens + (now - self._at) * _RESERVE_PER_S + _RETRY_SHARE
        self._tokens, self._at = min(refilled, _RETRY_RESERVE), now

    def spend(self) -> bool:
        """Whether one more retry is allowed. If so, its token is taken."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Breaker:
    """Opens after ``failures`` failures in a row. Then lets one request through every ``open_s`` seconds, as a probe.

    purgatory 3.0 does not fit: it counts only exceptions as failures (a 503 is an answer here), lets every waiting
    request through at once when it half-opens, uses the wall clock, and never drops a host.
    """

    def __init__(self, failures: int, open_s: float, observe: Observer) -> None:
        self._limit, self._open_s, self._observe = failures, open_s, observe
        self._failures, self._until = 0, 0.0

    def wait_s(self, now: float) -> float | None:
        """None if a request may be sent; otherwise the seconds until the next probe."""
        if self._failures < self._limit:
            return None
        if now < self._until:
            self._observe("circuit_refused")
            return self._until - now
        self._until = now + self._open_s
        return None

    def status(self, host: str, now: float) -> BreakerStatus | None:
        """Its state; None if the last request to the host did not fail."""
        if not self._failures:
            return None
        is_open = self._failures >= self._limit
        probe_in_s = max(0.0, self._until - now) if is_open else 0.0
        return BreakerStatus(
            host=host, state="open" if is_open else "closed", failures=self._failures, probe_in_s=round(probe_in_s, 3)
        )

    def record(self, now: float, *, healthy: bool) -> None:
        """Count the result of a request."""
        if healthy:
            if self._failures >= self._limit:
                self._observe("circuit_closed")
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= self._limit:
            self._until = now + self._open_s
            if self._failures == self._limit:
                self._observe("circuit_opened")


class HostLimits:
    """The load that the operator allows for one or more hosts. Tenants take turns; one alone may use all of it."""

    def __init__(self, limit: HostLimit) -> None:
        self._slots = FairSlots(limit.concurrency)
        self._next, rate = FairSlots(1), limit.per_second
        self._rate = AsyncLimiter(max(rate, 1.0), max(1.0, 1.0 / rate)) if rate else None

    @asynccontextmanager
    async def slot(self, tenant: str, deadline: float) -> AsyncIterator[None]:
        """Wait for the right of a tenant to send one request, and hold it until the answer.

        Raises:
            NoSlot: the limits left no room before ``deadline``, a reading of the loop's clock.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(deadline):
                    await stack.enter_async_context(self._slots.slot(tenant, _WAIT_S))
                    if self._rate is not None:
                        async with self._next.slot(tenant, _WAIT_S):
                            await self._rate.acquire()
            except TimeoutError:
                raise NoSlot from None
            yield


@dataclass(slots=True)
class Host:
    """One origin, as one tenant calls it. ``budget`` is asked before each retry; ``limits`` is None if there are none.

    ``slots``: the connections that the tenant may have to it, kept open and fresh ones.
    """

    name: str
    breaker: Breaker
    budget: RetryBudget
    limits: HostLimits | None
    slots: Mapping[bool, asyncio.Semaphore]

    def check(self) -> None:
        """Call before sending. Raises CircuitOpen."""
        wait_s = self.breaker.wait_s(asyncio.get_running_loop().time())
        if wait_s is not None:
            until = datetime.now(UTC) + timedelta(seconds=wait_s)
            raise CircuitOpen(
                f"{self.name} failed too often in a row; nothing is sent to it until {until:%Y-%m-%dT%H:%M:%SZ}"
            )

    def answered(self, status: int) -> None:
        """Count an answer. Any status but a 5xx counts as healthy."""
        self.breaker.record(asyncio.get_running_loop().time(), healthy=status < 500)

    def failed(self, error: SendFailed, took_s: float) -> None:
        """Count a request without an answer.

        A short deadline does not count against the host, nor does an address that the guard refuses.
        """
        if error.status is not None:
            self.answered(error.status)
        elif error.reason in ("connection", "bad_response") or (
            error.reason == "timeout" and error.sent and took_s >= _PATIENCE_S
        ):
            self.breaker.record(asyncio.get_running_loop().time(), healthy=False)


class Hosts:
    """All hosts, separately for each tenant. Keeps the state of the 10,000 most recently used.

    Whether a host fails can depend on what it is asked. So one tenant's failures do not stop another one's calls. Nor
    does an upstream that is slow for one tenant: each tenant may use half of the connections, in all and to a host.
    """

    def __init__(self, settings: ExecutorSettings, observe: Observer) -> None:
        self.observe = observe
        self._settings = settings
        self._known: LruCache[tuple[str | None, URL], Host] = LruCache(_MAX_HOSTS)
        # Never evicted, since requests wait in them. Bounded, since the keys come from the settings.
        most = settings.max_upstream_connections
        self._shared = {fresh: FairSlots(most, each=max(1, most // 2)) for fresh in (False, True)}
        self._limits: Mapping[str, HostLimits] = {
            name.lower(): HostLimits(limit) for name, limit in settings.host_limits.items()
        }

    def of(self, origin: URL, tenant: str | None) -> Host:
        """The host of an origin, for this tenant."""
        return self._known.get((tenant, origin), lambda: self._make(origin))

    @asynccontextmanager
    async def connection(self, host: Host, tenant: str | None, deadline: float, *, fresh: bool) -> AsyncIterator[None]:
        """Hold one of the connections that a tenant may use; of those that are kept open, or a ``fresh`` one.

        Raises:
            NoConnection: there was none before ``deadline``, a reading of the loop's clock.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(deadline):
                    await stack.enter_async_context(host.slots[fresh])  # first: it holds up no call to another host
                    left_s = max(0.0, deadline - asyncio.get_running_loop().time())
                    await stack.enter_async_context(self._shared[fresh].slot(tenant or "", left_s))
            except (TimeoutError, Overloaded):
                raise NoConnection from None
            yield

    def breakers(self) -> tuple[BreakerStatus, ...]:
        """The breakers of the hosts whose last request failed; open ones first. Of several of a host, the worst one."""
        now = asyncio.get_running_loop().time()
        known = (host.breaker.status(host.name, now) for host in self._known.values())
        ordered = sorted((one for one in known if one is not None), key=lambda one: (one.state == "open", one.failures))
        found = {one.host: one for one in ordered}.values()
        return tuple(sorted(found, key=lambda one: (one.state != "open", one.host))[:_MAX_LISTED])

    def _make(self, origin: URL) -> Host:
        name, settings = f"{origin.raw_host}:{origin.port}", self._settings
        breaker = Breaker(settings.circuit_failures, settings.circuit_open_s, self.observe)
        limits = self._limits.get(name) or self._limits.get(origin.raw_host or "")
        most = max(1, settings.max_connections_per_host // 2)
        slots = {fresh: asyncio.Semaphore(most) for fresh in (False, True)}
        return Host(name, breaker, RetryBudget(asyncio.get_running_loop().time()), limits, slots)
