"""What is known of each host: circuits, retry budgets, and the limits that an operator sets."""

import asyncio
import socket
import threading
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from yarl import URL

from executor_svc.adapters.http import open_http_adapter
from executor_svc.adapters.http.hosts import Breaker, CircuitOpen, HostEvent, Hosts, RetryBudget
from executor_svc.adapters.http.lru import LruCache
from executor_svc.metrics import ExecutorMetrics
from executor_svc.models import Call
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings, HostLimit
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api
from tests.support.upstream import Seen, Upstream, serve_upstream
from tests.unit.executor_svc.conftest import Opener


class TestBreaker:
    """Times are given, not measured."""

    def test_while_it_is_open_one_probe_goes_out_in_each_period(self) -> None:
        events: list[HostEvent] = []
        breaker = Breaker(2, 10.0, events.append)
        breaker.record(100.0, healthy=False)
        assert breaker.wait_s(100.0) is None
        breaker.record(101.0, healthy=False)
        assert breaker.wait_s(102.0) == 9.0
        assert breaker.wait_s(111.0) is None  # the probe
        assert breaker.wait_s(111.0) == 10.0
        breaker.record(112.0, healthy=False)
        assert breaker.wait_s(121.0) == 1.0
        assert breaker.wait_s(122.0) is None
        breaker.record(123.0, healthy=True)
        assert [breaker.wait_s(123.0) for _ in range(3)] == [None] * 3
        assert events == ["circuit_opened", *["circuit_refused"] * 3, "circuit_closed"]

    def test_it_tells_how_it_stands(self) -> None:
        breaker = Breaker(2, 10.0, lambda _: None)
        assert breaker.status("h:1", 0.0) is None
        breaker.record(0.0, healthy=False)
        closed = breaker.status("h:1", 1.0)
        assert closed is not None
        assert (closed.state, closed.failures, closed.probe_in_s) == ("closed", 1, 0)
        breaker.record(2.0, healthy=False)
        for now, probe_in_s in ((3.0, 9.0), (13.0, 0.0)):
            told = breaker.status("h:1", now)
            assert told is not None
            assert (told.state, told.failures, told.probe_in_s) == ("open", 2, probe_in_s)
        breaker.record(14.0, healthy=True)
        assert breaker.status("h:1", 15.0) is None

    def test_a_probe_of_which_nothing_is_heard_does_not_keep_it_open(self) -> None:
        breaker = Breaker(1, 10.0, lambda _: None)
        breaker.record(0.0, healthy=False)
        assert breaker.wait_s(10.0) is None
        assert breaker.wait_s(20.0) is None

    @given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
    def test_it_opens_after_so_many_failures_in_a_row_and_never_before(self, healths: list[bool], limit: int) -> None:
        breaker, in_a_row = Breaker(limit, 10.0, lambda _: None), 0
        for healthy in healths:
            breaker.record(0.0, healthy=healthy)
            in_a_row = 0 if healthy else in_a_row + 1
            assert (breaker.wait_s(0.0) is None) is (in_a_row < limit)


class TestRetryBudget:
    """Times are given, not measured."""

    @given(st.lists(st.integers(0, 5), max_size=200))
    def test_retries_are_a_fifth_of_the_requests_and_the_reserve(self, wanted: list[int]) -> None:
        budget, spent = RetryBudget(0.0), 0
        for retries in wanted:
            budget.earn(0.0)
            spent += sum(budget.spend() for _ in range(retries))
        assert spent <= 10 + 0.2 * len(wanted) + 1e-9

    def test_the_reserve_comes_back_with_time_and_no_further(self) -> None:
        budget = RetryBudget(0.0)
        assert sum(budget.spend() for _ in range(99)) == 10
        budget.earn(3.9)
        assert sum(budget.spend() for _ in range(99)) == 4
        budget.earn(10_000.0)
        assert sum(budget.spend() for _ in range(99)) == 10


async def test_hosts_are_remembered_up_to_a_number() -> None:
    hosts = Hosts(ExecutorSettings(), lambda _: None)
    first = hosts.of(URL("http://h0.example"), "red")
    assert hosts.of(URL("http://h0.example"), "red") is first
    for number in range(12_000):
        hosts.of(URL(f"http://h{number}.example"), "red")
    assert len(hosts._known) == 10_000
    assert hosts.of(URL("http://h0.example"), "red") is not first


async def test_failures_of_one_tenant_stop_no_other_one() -> None:
    hosts, origin = Hosts(ExecutorSettings(), lambda _: None), URL("http://h0.example")
    for times, tenant in ((20, "blue"), (1, "green")):
        for _ in range(times):
            hosts.of(origin, tenant).answered(500)
    with pytest.raises(CircuitOpen):
        hosts.of(origin, "blue").check()
    hosts.of(origin, "red").check()
    hosts.of(origin, "green").check()
    assert [(one.host, one.state, one.failures) for one in hosts.breakers()] == [("h0.example:80", "open", 20)]


def test_what_was_used_last_is_kept() -> None:
    recent: LruCache[int, int] = LruCache(2)
    made: list[int] = []

    def make(key: int) -> int:
        made.append(key)
        return key

    for key in (1, 2, 1, 3, 1, 2):
        assert recent.get(key, lambda key=key: make(key)) == key  # type: ignore[misc]
    assert made == [1, 2, 3, 2]


class Busy:
    """An upstream that knows how many requests it had at once."""

    def __init__(self, upstream: Upstream) -> None:
        self.now = self.most = 0
        upstream.answers["/busy"] = self.answer

    async def answer(self, _: Seen) -> web.StreamResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return web.json_response({})


@pytest.mark.parametrize("by_port", [True, False])
async def test_so_many_requests_at_a_time(upstream: Upstream, opened: Opener, by_port: bool) -> None:
    busy = Busy(upstream)
    name = upstream.host if by_port else "127.0.0.1"
    call = await opened(host_limits={name: HostLimit(concurrency=3)})
    results = await asyncio.gather(*(call(api(upstream.origin, "/busy")) for _ in range(20)))
    assert {type(result.outcome) for result in results} == {Succeeded}
    assert busy.most == 3


async def test_waiting_for_a_turn_ends_with_the_deadline_and_takes_none(upstream: Upstream, opened: Opener) -> None:
    release = asyncio.Event()

    @upstream.on("/slow")
    async def slow(_: Seen) -> web.StreamResponse:
        await release.wait()
        return web.json_response({})

    call = await opened(host_limits={upstream.host: HostLimit(concurrency=1)})
    first = asyncio.create_task(call(api(upstream.origin, "/slow")))
    await upstream.arrived.wait()
    late = await call(api(upstream.origin, "/x", method="POST"), within_s=0.1)
    assert isinstance(late.outcome, Failed)
    said = f"nothing was sent: the limits of {upstream.host} did not allow it before the deadline"
    assert (late.outcome.reason, late.outcome.message, late.attempts) == ("timeout", said, 0)
    release.set()
    assert isinstance((await first).outcome, Succeeded)
    assert isinstance((await call(api(upstream.origin, "/x"))).outcome, Succeeded)
    assert upstream.count("/x") == 1


async def test_so_many_requests_a_second(upstream: Upstream, opened: Opener) -> None:
    """At one in a hundred seconds only the first has its turn before its deadline."""
    call = await opened(host_limits={upstream.host: HostLimit(per_second=0.01)})
    results = await asyncio.gather(*(call(api(upstream.origin, "/x"), within_s=2) for _ in range(10)))
    reasons = [result.outcome.reason for result in results if isinstance(result.outcome, Failed)]
    assert reasons == ["timeout"] * 9
    assert upstream.count("/x") == 1


@pytest.mark.parametrize("limit", [HostLimit(concurrency=1), HostLimit(per_second=4)])
async def test_tenants_take_turns_at_a_host_with_a_limit(upstream: Upstream, opened: Opener, limit: HostLimit) -> None:
    Busy(upstream)
    call, ended = await opened(host_limits={upstream.host: limit}), list[str]()

    async def calling(tenant: str) -> None:
        assert isinstance((await call(api(upstream.origin, "/busy"), tenant=tenant)).outcome, Succeeded)
        ended.append(tenant)

    flood = [asyncio.create_task(calling("red")) for _ in range(12)]
    await upstream.arrived.wait()
    await calling("blue")
    await asyncio.gather(*flood)
    assert ended.index("blue") < 11


async def test_what_happens_to_hosts_is_counted(upstream: Upstream) -> None:
    upstream.replies("/b", web.Response(status=503))
    registry = CollectorRegistry()
    settings = ExecutorSettings(
        allowed_private_hosts=("127.0.0.1",), circuit_failures=3, circuit_open_s=60, retry_base_s=1e-6
    )
    observe = ExecutorMetrics(registry).upstream
    async with open_http_adapter(settings, SecretStore({}), observe) as adapter:
        for _ in range(2):
            deadline = asyncio.get_running_loop().time() + 20
            await adapter.call(Call(api(upstream.origin, "/b"), {}, "r/s", deadline))
    counted = {
        event: registry.get_sample_value("nestor_upstream_events_total", {"event": event})
        for event in ("retry", "retry_refused", "circuit_opened", "circuit_closed", "circuit_refused")
    }
    assert counted == {
        "retry": 2, "retry_refused": None, "circuit_opened": 1, "circuit_closed": None, "circuit_refused": 1
    }  # fmt: skip


def test_limits_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_EXECUTOR_HOST_LIMITS", '{"api.example.com": {"concurrency": 8, "per_second": 5}}')
    assert ExecutorSettings().host_limits == {"api.example.com": HostLimit(concurrency=8, per_second=5)}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_tenant_whose_upstream_is_silent_leaves_connections_to_others(
    method: str, upstream: Upstream, opened: Opener
) -> None:
    """Also to the same host: there, too, it may have half of the connections."""
    heard, go = asyncio.Semaphore(0), asyncio.Event()

    @upstream.on("/silent")
    async def silent(_: Seen) -> web.Response:
        heard.release()
        await go.wait()
        return web.json_response({})

    call = await opened(max_upstream_connections=4, max_connections_per_host=4)
    made = api(upstream.origin, "/silent", method=method)
    waiting = [asyncio.create_task(call(made, tenant="red")) for _ in range(8)]
    await asyncio.gather(heard.acquire(), heard.acquire())
    quick = await call(api(upstream.origin, "/x", method=method), within_s=5, tenant="blue")
    assert isinstance(quick.outcome, Succeeded)
    assert upstream.count("/silent") == 2
    go.set()
    assert all(isinstance(result.outcome, Succeeded) for result in await asyncio.gather(*waiting))


async def test_names_that_resolve_late_hold_up_one_tenant_only(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that tenant waits for the same name, behind its others; and calls that gave up still hold a thread."""
    look_up, answered = socket.getaddrinfo, threading.Event()

    def late(host: str, *given: Any) -> Any:
        if host.endswith(".late.example"):
            answered.wait()
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return look_up(host, *given)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    call = await opened(allowed_private_hosts=("localhost",), max_attempts=1)
    local = api(upstream.origin.replace("127.0.0.1", "localhost"), "/x")
    try:
        names = [api(f"http://{number}.late.example") for number in range(64)]
        given_up = await asyncio.gather(*(call(one, within_s=0.5, tenant="red") for one in names))
        assert all(isinstance(one.outcome, Failed) for one in given_up)
        waiting = [asyncio.create_task(call(one, tenant="red")) for one in (*names, local)]
        await asyncio.sleep(0.1)
        assert isinstance((await call(local, within_s=10, tenant="blue")).outcome, Succeeded)
    finally:
        answered.set()
    ended = await asyncio.gather(*waiting)
    assert isinstance(ended[-1].outcome, Succeeded)


async def test_the_connections_to_all_hosts_are_shared_by_tenants(opened: Opener) -> None:
    heard, go = asyncio.Semaphore(0), asyncio.Event()

    async def silent(_: Seen) -> web.Response:
        heard.release()
        await go.wait()
        return web.json_response({})

    async with serve_upstream() as one, serve_upstream() as two, serve_upstream() as well:
        call = await opened(max_upstream_connections=4, max_connections_per_host=4)
        waiting = []
        for upstream in (one, two):
            upstream.on("/silent")(silent)
            made = api(upstream.origin, "/silent")
            waiting += [asyncio.create_task(call(made, tenant="red")) for _ in range(4)]
        await asyncio.gather(heard.acquire(), heard.acquire())
        late = await call(api(well.origin, "/x"), within_s=0.2, tenant="red")
        assert isinstance(late.outcome, Failed)
        assert (late.outcome.reason, late.attempts) == ("timeout", 0)
        assert "the tenant's other calls had all its connections" in late.outcome.message
        quick = await call(api(well.origin, "/x"), within_s=5, tenant="blue")
        assert isinstance(quick.outcome, Succeeded)
        go.set()
        await asyncio.gather(*waiting)
