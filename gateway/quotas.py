"""What one tenant may use of this gateway: requests a second, runs under way, streams and imports.

A tenant that has reached one of its limits gets 429, whatever the others do. Below its limits, a run waits if all slots
are taken, and tenants take turns. Usage is counted per process: several gateways allow several times as much.

Response headers of draft-ietf-httpapi-ratelimit-headers-11 say how much is left. The partition is the caller's tenant.
"""

import asyncio
import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NoReturn

from gateway.metrics import GatewayMetrics
from gateway.settings import GatewaySettings, Limits
from services.contracts.operations import Allowance, QuotaUse, TenantUse
from services.errors import Overloaded, QuotaExceeded
from services.fair_slots import FairSlots

WINDOW_S: Final = 10
"""Burst size, in seconds: an idle tenant may send this many seconds' worth of requests at once."""
_ONE_SECOND: Final = 1
_FREE_BYTES: Final = 65_536
_BYTES_A_REQUEST: Final = 30_000
"""Stored JSON beyond the free bytes that counts as one further request."""
_MOST_BUCKETS: Final = 10_000
_MAX_LISTED: Final = 100
Held = Literal["streams", "imports"]


class Quotas:
    """Counts what each tenant uses.

    Args:
        settings: the limits.
        metrics: where refusals are counted.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, settings: GatewaySettings, metrics: GatewayMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._limits = {
            tenant: settings.limits.model_copy(update=own.model_dump(exclude_unset=True))
            for tenant, own in settings.tenant_limits.items()
        }
        self._named = frozenset({"default", *settings.tenant_limits, *(p.tenant for p in settings.principals)})
        self._buckets: dict[str, tuple[float, float]] = {}
        self._held: Counter[tuple[Held, str]] = Counter()
        self._runs = FairSlots(settings.max_concurrent_runs, settings.max_waiting_runs, what="runs")

    def limits(self, tenant: str) -> Limits:
        """The limits of a tenant: its own, and the defaults where it has none."""
        return self._limits.get(tenant, self._settings.limits)

    def count_request(self, tenant: str) -> None:
        """Count a request of a tenant. Raises QuotaExceeded if it is one too many."""
        rate = self.limits(tenant).requests_per_s
        if rate is None:
            return
        left = self._left(tenant, rate)
        if left < 1:
            self._refuse(tenant, "requests", f"More than {rate:g} requests a second.", (1 - left) / rate)
        self._buckets.pop(tenant, None)  # keeps the dict in order of use: the first is the least recently used
        self._buckets[tenant] = (left - 1, self._clock())
        if len(self._buckets) > _MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]

    def charge(self, tenant: str, size: int) -> None:
        """Count reading large stored JSON (``size`` in bytes) as further requests. It refuses only later requests.

        A run may hold several megabytes. Each time it is shown, it is parsed and written on the event loop.
        """
        rate = self.limits(tenant).requests_per_s
        if rate is None or size <= _FREE_BYTES:
            return
        left = max(self._left(tenant, rate) - size / _BYTES_A_REQUEST, -_burst(rate))
        self._buckets.pop(tenant, None)
        self._buckets[tenant] = (left, self._clock())

    def read(self, tenant: str, size: int) -> None:
        """The same, but refuse it if what the tenant read before has used up its requests.

        Requests that arrive together are all let in before the first of them counts what it reads. A size of 0 is not
        known yet.

        Raises:
            QuotaExceeded: the tenant has to wait.
        """
        rate = self.limits(tenant).requests_per_s
        if rate is not None and not 0 < size <= _FREE_BYTES and (left := self._left(tenant, rate)) < 0:
            self._refuse(tenant, "requests", "Too much was read or sent within the last seconds.", (1 - left) / rate)
        self.charge(tenant, size)

    async def pace(self, tenant: str, size: int) -> None:
        """Charge it, then wait until half of the tenant's requests are there again, for its other work.

        For long reads, which would otherwise keep all other requests of the tenant out until they end.
        """
        self.charge(tenant, size)
        rate = self.limits(tenant).requests_per_s
        if rate is not None and size > _FREE_BYTES and (lacks := _burst(rate) / 2 - self._left(tenant, rate)) > 0:
            await asyncio.sleep(lacks / rate)

    @property
    def room(self) -> int:
        """How many more runs may be under way at once."""
        return self._runs.free

    @property
    def waiting_runs(self) -> int:
        """How many runs are waiting to begin."""
        return self._runs.waiting

    async def begin_run(self, tenant: str, wait_s: float) -> None:
        """Take a slot for a run; wait in turn if all are taken. :meth:`end_run` gives it back.

        Raises:
            QuotaExceeded: the tenant has as many runs under way as it may.
            Overloaded: too many runs are under way, and none ended in time.
        """
        most = self.limits(tenant).runs
        if most is not None and self._runs.held(tenant) >= most:
            self._refuse(tenant, "runs", f"This tenant already has {most} active runs.", _ONE_SECOND)
        try:
            with self._metrics.waiting_runs.track_inprogress():
                await self._runs.enter(tenant, min(wait_s, self._settings.run_wait_s))
        except Overloaded:
            self._metrics.refused.labels("all_runs", self._label(tenant)).inc()
            raise

    def count_under_way(self, tenant: str) -> int:
        """How many runs and imports of a tenant are under way or waiting. All of them may still store something."""
        return self._runs.held(tenant) + self._held["imports", tenant]

    def full(self) -> list[str]:
        """The tenants that have as many runs under way as they may. One that may have none still gets one continued."""
        most = {tenant: self.limits(tenant).runs for tenant in self._runs.tenants}
        return [name for name, runs in most.items() if runs is not None and self._runs.held(name) >= max(runs, 1)]

    def take_run(self, tenant: str) -> None:
        """Take a slot for an existing run that continues in this process, even if all are taken."""
        self._runs.take(tenant)

    def end_run(self, tenant: str) -> None:
        """Give a run's slot back."""
        self._runs.leave(tenant)

    def check(self, what: Held, tenant: str) -> None:
        """Raise QuotaExceeded if the tenant has reached its limit of streams or imports."""
        most = getattr(self.limits(tenant), what)
        if most is not None and self._held[what, tenant] >= most:
            self._refuse(tenant, what, f"This tenant already has {most} active {what}.", _ONE_SECOND)

    @contextmanager
    def holding(self, what: Held, tenant: str) -> Iterator[None]:
        """Count an open stream or a running import until the end of the context."""
        self._held[what, tenant] += 1
        try:
            yield
        finally:
            self._held[what, tenant] -= 1
            if not self._held[what, tenant]:
                del self._held[what, tenant]

    def fields(self, tenant: str) -> dict[str, str]:
        """The response headers with a tenant's limits on requests and runs, and what is left of them."""
        limits, policies, left = self.limits(tenant), list[str](), list[str]()
        if (rate := limits.requests_per_s) is not None:
            tokens = self._left(tenant, rate)
            policies.append(f'"requests";q={math.floor(_burst(rate))};w={WINDOW_S}')
            window_s = WINDOW_S if tokens >= 1 else math.ceil((1 - tokens) / rate)
            left.append(f'"requests";r={max(math.floor(tokens), 0)};t={window_s}')
        if limits.runs is not None:
            policies.append(f'"runs";q={limits.runs};qu="concurrent-requests"')
            left.append(f'"runs";r={max(limits.runs - self._runs.held(tenant), 0)}')
        return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)} if policies else {}

    def used(self, tenant: str | None = None) -> QuotaUse:
        """Current usage of a tenant, or, if None, of the tenants nearest to a limit."""
        if tenant is None:
            names = {*self._named, *self._buckets, *self._runs.tenants, *(name for _, name in self._held)}
        else:
            names = {tenant}
        nearest = heapq.nsmallest(_MAX_LISTED, names, key=lambda name: (-self._nearness(name), name))
        settings = self._settings
        return QuotaUse(
            runs=Allowance(used=max(settings.max_concurrent_runs - self.room, 0), most=settings.max_concurrent_runs),
            waiting=Allowance(used=self.waiting_runs, most=settings.max_waiting_runs),
            tenants=tuple(map(self._use, nearest)),
            others=len(names) - len(nearest),
        )

    def _use(self, tenant: str) -> TenantUse:
        requests, runs, streams, imports = (Allowance(used=used, most=most) for used, most in self._counts(tenant))
        return TenantUse(
            tenant=tenant,
            requests=requests,
            requests_per_s=self.limits(tenant).requests_per_s,
            runs=runs,
            waiting=self._runs.waits(tenant),
            streams=streams,
            imports=imports,
        )

    def _counts(self, tenant: str) -> tuple[tuple[int, int | None], ...]:
        """A tenant's usage of requests, runs, streams and imports, each with its limit."""
        limits = self.limits(tenant)
        rate, burst, spent = limits.requests_per_s, None, 0
        if rate is not None:
            burst = math.floor(_burst(rate))
            spent = burst - math.floor(self._left(tenant, rate))
        return (
            (spent, burst),
            (self._runs.held(tenant), limits.runs),
            (self._held["streams", tenant], limits.streams),
            (self._held["imports", tenant], limits.imports),
        )

    def _nearness(self, tenant: str) -> float:
        """The highest used share of any of a tenant's limits."""
        return max((used / max(most, 1) for used, most in self._counts(tenant) if most is not None), default=0.0)

    def _left(self, tenant: str, rate: float) -> float:
        """The tokens in a tenant's bucket."""
        now = self._clock()
        tokens, at = self._buckets.get(tenant, (_burst(rate), now))
        return min(tokens + (now - at) * rate, _burst(rate))

    def _refuse(self, tenant: str, limit: str, detail: str, retry_after_s: float) -> NoReturn:
        self._metrics.refused.labels(limit, self._label(tenant)).inc()
        error = QuotaExceeded(detail, limit=limit, retry_after_s=round(retry_after_s, 3))
        error.headers = self.fields(tenant)
        raise error

    def _label(self, tenant: str) -> str:
        """The tenant's name if the settings name it, else `other`, which bounds the number of labels."""
        return tenant if tenant in self._named else "other"


def _burst(rate: float) -> float:
    return max(rate * WINDOW_S, 1.0)
