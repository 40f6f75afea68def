"""Quotas: the limits of one tenant, and the capacity that stays free for others."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from gateway.principals import Principal
from gateway.solve import Clock
from gateway.storage import RunStore
from gateway.waiting import Waiting
from services.contracts.api import ImportRequest
from services.contracts.constants import ConstantsRequest
from services.contracts.event import RunEvent
from services.contracts.outcome import Succeeded
from services.contracts.run import RunStatus
from services.errors import InvalidRequest, Overloaded, QuotaExceeded, ValidationFailed
from services.turns import MOST
from tests.support.console_pages import get, log_in
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOKING,
    HOLIDAYS,
    Fakes,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)

PRINCIPALS = (
    {"name": "kiosk", "tenant": "guests", "token": "kiosk-token"},
    {"name": "desk", "tenant": "office", "token": "desk-token"},
)
DOCUMENT = '{"openapi": "3.1.0", "info": {"title": "Zoo", "version": "1"}, "paths": {}}'
LATER = ask(ASK_HOLIDAYS).model_copy(update={"wait": False})


def two_tenants(folder: Path, **settings: Any) -> Any:
    return open_gateway(folder, principals=PRINCIPALS, **settings)


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with two_tenants(tmp_path) as running:
        running.fakes.executor.gate = asyncio.Event()
        yield running
        running.fakes.executor.gate.set()


@contextmanager
def gated(gateway: Gateway) -> Iterator[None]:
    """Runs stay under way until the end of the context."""
    gateway.fakes.executor.gate = asyncio.Event()
    try:
        yield
    finally:
        gateway.fakes.executor.gate.set()


async def asked(gateway: Gateway, token: str, path: str, **body: Any) -> Any:
    return await gateway.http.post(
        path, json={"query": ASK_HOLIDAYS} | body, headers={"Authorization": f"Bearer {token}"}
    )


async def test_one_tenants_slow_runs_leave_room_for_others(shared: Gateway) -> None:
    answers = [await asked(shared, "kiosk-token", "/solve", wait=False) for _ in range(260)]
    assert Counter(answer.status_code for answer in answers) == {202: 100, 429: 160}
    for path in ("/solve", "/solve:stream", "/plan"):
        refused = await asked(shared, "kiosk-token", path)
        assert (refused.status_code, refused.json()["limit"], refused.headers["retry-after"]) == (429, "runs", "1")
    planned = await asked(shared, "desk-token", "/plan")
    assert (planned.status_code, planned.json()["status"]) == (200, "planned")


async def test_a_tenant_that_reads_a_large_run_again_and_again_is_refused(tmp_path: Path) -> None:
    fakes = Fakes()
    fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": ["x" * 1_000] * 1_000}, status=200)
    async with two_tenants(tmp_path, fakes=fakes, limits={"requests_per_s": 10}) as gateway:
        kiosk = {"Authorization": "Bearer kiosk-token"}
        run = (await asked(gateway, "kiosk-token", "/solve")).json()["id"]
        paths = (f"/runs/{run}", f"/runs/{run}/events", f"/runs/{run}/compare/{run}", f"/v1/runs/{run}:cancel")
        for path in paths:
            gateway.app.state.service.quotas._buckets.clear()
            method = "POST" if path.endswith("cancel") else "GET"
            answers = [await gateway.http.request(method, path, headers=kiosk) for _ in range(14)]
            statuses = Counter(answer.status_code for answer in answers)
            assert 1 <= statuses[429] <= 13, (path, statuses)
            assert all(answer.json()["limit"] == "requests" for answer in answers if answer.status_code == 429)
        assert (await asked(gateway, "desk-token", "/solve")).status_code == 200


async def test_what_was_done_is_told_whatever_was_read_meanwhile(shared: Gateway) -> None:
    """A refusal would have the caller ask again for what is done already."""
    gateway, headers = shared, {"Authorization": "Bearer kiosk-token"}
    left = 0

    def read(_tenant: str, size: int) -> None:
        nonlocal left
        left -= size > 0
        if left < 0:
            raise QuotaExceeded("Too much.", limit="requests", retry_after_s=1)

    gateway.app.state.service._store._on_read = read
    begun = await asked(gateway, "kiosk-token", "/solve", wait=False)
    assert begun.status_code == 202
    left = 1  # for what is read before it is cancelled
    cancelled = await gateway.http.post(f"/runs/{begun.json()['id']}:cancel", headers=headers)
    assert cancelled.status_code in (200, 202)


async def test_who_began_a_run_is_told_how_it_ended_wherever_it_did() -> None:
    store, live = MagicMock(spec=RunStore), MagicMock(outcome=asyncio.get_running_loop().create_future())
    live.outcome.set_result(None)  # another process has taken it over
    waiting = Waiting(store, MagicMock(), MagicMock())
    await waiting.for_outcome(live, "guests", Clock(0))
    assert store.get.await_args.kwargs == {"further": True}
    await waiting.for_end("run-1", "guests", Clock(0))
    assert store.get.await_args.kwargs == {"further": False}


async def test_events_of_an_earlier_run_count_alike_wherever_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes, charged = Fakes(), list[int]()
    fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": ["x" * 1_000] * 1_000}, status=200)
    async with two_tenants(tmp_path, fakes=fakes) as gateway:
        kiosk = gateway.as_principal("kiosk-token")
        run = await kiosk.solve(ask(ASK_HOLIDAYS), idempotency_key="k")
        monkeypatch.setattr(gateway.app.state.service._store, "_on_read", lambda tenant, size: charged.append(size))
        events = [event.event async for event in kiosk.events(run.id)]
        follows = sum(charged)
        assert [event async for event in kiosk.solve_events(ask(ASK_HOLIDAYS), idempotency_key="k")] == events
        assert sum(charged) - follows >= follows > 4_000_000


async def test_an_approval_counts_as_a_run(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, limits={"runs": 1}) as gateway:
        kiosk = gateway.as_principal("kiosk-token")
        waiting = await kiosk.solve(ask(ASK_ROOM))
        gateway.fakes.executor.gate = asyncio.Event()
        run = await kiosk.solve(LATER)
        with pytest.raises(QuotaExceeded, match="1 active runs"):
            await kiosk.approve(waiting.id, BOOKING.id)
        gateway.fakes.executor.gate.set()
        await ended(kiosk, run.id)
        assert (await kiosk.approve(waiting.id, BOOKING.id)).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("settings", [{"limits": {"streams": 2}}, {"max_followers": 2}])
async def test_streams_that_are_opened_at_once_are_no_more_than_allowed(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """A response begins later than the stream is granted: all that are granted before the first begins count."""
    async with two_tenants(tmp_path, **settings) as gateway:
        with gated(gateway):
            service, kiosk = gateway.app.state.service, Principal("kiosk", "guests")
            run = await gateway.as_principal("kiosk-token").solve(LATER)
            found = await asyncio.gather(*(service.follow(run.id, kiosk, 0) for _ in range(9)), return_exceptions=True)
            assert all(isinstance(one, QuotaExceeded | Overloaded) for one in found if isinstance(one, BaseException))
            streams = [one for one in found if not isinstance(one, BaseException)]
            assert len(streams) == 2
            assert (await anext(streams[0])).event.kind == "planned"
            for stream in streams:  # the second as if its reader had gone before the response began
                await stream.aclose()
            assert not service.quotas._held
            again = await service.follow(run.id, kiosk, 0)
            assert (await anext(again)).event.kind == "planned"
            del again  # nobody closes it: the request was cancelled before its response was made
            await until(lambda: not service.quotas._held)


async def test_repetitions_that_wait_for_a_run_count_as_streams(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, limits={"streams": 2}) as gateway:
        with gated(gateway):
            kiosk, quotas = gateway.as_principal("kiosk-token"), gateway.app.state.service.quotas
            first = asyncio.create_task(kiosk.solve(ask(ASK_HOLIDAYS), idempotency_key="k"))
            await until(lambda: gateway.fakes.executor.calls.count("execute") == 1)
            again = [asyncio.create_task(kiosk.solve(ask(ASK_HOLIDAYS), idempotency_key="k")) for _ in range(2)]
            await until(lambda: quotas._held["streams", "guests"] == 2)
            with pytest.raises(QuotaExceeded, match="2 active streams"):
                await kiosk.solve(ask(ASK_HOLIDAYS), idempotency_key="k")
        assert {(await one).id for one in (first, *again)} == {(await first).id}
        assert not quotas._held


async def test_followers_of_one_run_are_charged_for_its_large_end(tmp_path: Path) -> None:
    fakes = Fakes()
    fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": ["x" * 1_000] * 1_000}, status=200)
    async with two_tenants(tmp_path, fakes=fakes, limits={"requests_per_s": 50}) as gateway:
        with gated(gateway):
            service, kiosk = gateway.app.state.service, Principal("kiosk", "guests")
            run = await gateway.as_principal("kiosk-token").solve(LATER)
            streams = [await service.follow(run.id, kiosk, 0) for _ in range(9)]
        ended = await asyncio.gather(*map(_read, streams), return_exceptions=True)
    refused = [one for one in ended if isinstance(one, QuotaExceeded)]
    assert 1 <= len(refused) <= 8
    assert [one for one in ended if one not in refused] == ["finished"] * (9 - len(refused))


async def _read(stream: AsyncGenerator[RunEvent, None]) -> str:
    """The kind of a stream's last event."""
    return [event.event.kind async for event in stream][-1]


async def test_a_run_is_begun_for_no_more_streams_than_allowed(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, limits={"streams": 2}) as gateway:
        with gated(gateway):
            service, kiosk = gateway.app.state.service, Principal("kiosk", "guests")
            asked = (service.solve_events(ask(ASK_HOLIDAYS), kiosk) for _ in range(9))
            found = await asyncio.gather(*asked, return_exceptions=True)
            streams = [one for one in found if not isinstance(one, BaseException)]
            assert len(streams) == 2
            with pytest.raises(QuotaExceeded):
                await service.solve_events(ask(ASK_HOLIDAYS), kiosk)
            assert (await anext(streams[0])).kind == "planned"
            for stream in streams:
                await stream.aclose()
            assert not service.quotas._held


async def test_one_tenants_streams_leave_room_for_others(shared: Gateway) -> None:
    kiosk, desk = shared.as_principal("kiosk-token"), shared.as_principal("desk-token")
    mine, theirs = await kiosk.solve(LATER), await desk.solve(LATER)
    streams = [kiosk.events(mine.id) for _ in range(250)]
    for stream in streams:
        assert (await anext(stream)).event.kind == "planned"
    with pytest.raises(QuotaExceeded, match="250 active streams"):
        await anext(kiosk.events(mine.id))
    with pytest.raises(QuotaExceeded, match="250 active streams"):
        await anext(kiosk.solve_events(ask(ASK_HOLIDAYS)))
    followed = desk.events(theirs.id)
    assert (await anext(followed)).event.kind == "planned"
    for stream in (*streams, followed):
        await stream.aclose()
    again = kiosk.events(mine.id)
    assert (await anext(again)).event.kind == "planned"
    await again.aclose()


async def test_imports_are_bounded(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, limits={"imports": 1}) as gateway:
        gateway.fakes.retriever.delay_s = 0.2
        kiosk, desk = gateway.as_principal("kiosk-token"), gateway.as_principal("desk-token")
        first = asyncio.create_task(_imported(kiosk, "zoo"))
        await until(lambda: "import_document" in gateway.fakes.retriever.calls)
        with pytest.raises(QuotaExceeded, match="1 active imports"):
            await _imported(kiosk, "zoo")
        await asyncio.gather(first, _imported(desk, "park"))
        await _imported(kiosk, "zoo")


async def test_setting_constants_counts_as_an_import(tmp_path: Path) -> None:
    """It reads and writes all APIs of the provider."""
    async with two_tenants(tmp_path, limits={"imports": 1}) as gateway:
        kiosk = gateway.as_principal("kiosk-token")
        await _imported(kiosk, "zoo")
        gateway.fakes.retriever.delay_s = 0.2
        wanted = ConstantsRequest(constants={"keeper": "7"})
        first = asyncio.create_task(kiosk.set_constants("zoo", wanted))
        await until(lambda: "set_constants" in gateway.fakes.retriever.calls)
        with pytest.raises(QuotaExceeded, match="1 active imports"):
            await kiosk.set_constants("zoo", wanted)
        with pytest.raises(ValidationFailed):
            await first
        with pytest.raises(ValidationFailed):
            await kiosk.set_constants("zoo", wanted)


async def _imported(client: Any, provider: str) -> None:
    async for _ in client.import_apis(ImportRequest(document=DOCUMENT, provider=provider)):
        pass


async def test_requests_a_second_are_bounded(tmp_path: Path) -> None:
    own = {"guests": {"requests_per_s": 0.3, "runs": 7}}
    async with two_tenants(tmp_path, tenant_limits=own) as gateway:
        answers = [await asked(gateway, "kiosk-token", "/plan") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[0].headers["ratelimit-policy"] == '"requests";q=3;w=10, "runs";q=7;qu="concurrent-requests"'
        assert answers[0].headers["ratelimit"] == '"requests";r=2;t=10, "runs";r=7'
        refused = answers[-1]
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["ratelimit"].startswith('"requests";r=0;t=')
        assert int(refused.headers["ratelimit"].partition("t=")[2].partition(",")[0]) <= 4
        assert 1 <= int(refused.headers["retry-after"]) <= 4
        assert refused.json()["type"] == "urn:nestor:problem:quota-exceeded"
        other = await asked(gateway, "desk-token", "/plan")
        assert other.status_code == 200
        assert other.headers["ratelimit-policy"].startswith('"requests";q=1000;w=10, "runs";q=100;')
        metrics = (await gateway.http.get("/metrics")).text
        assert 'nestor_quota_refused_total{limit="requests",tenant="guests"} 1.0' in metrics


@pytest.mark.parametrize("path", ["/solve", "/plan", "/solve:stream"])
async def test_answers_say_what_is_left(tmp_path: Path, path: str) -> None:
    async with two_tenants(tmp_path) as gateway:
        answer = await asked(gateway, "desk-token", path)
        assert answer.status_code == 200
        assert answer.headers["ratelimit"].startswith('"requests";r=')
    none = dict.fromkeys(("requests_per_s", "runs", "streams", "imports"))
    async with two_tenants(tmp_path, limits=none) as gateway:
        answer = await asked(gateway, "desk-token", path)
        assert answer.status_code == 200
        assert "ratelimit" not in answer.headers


async def test_runs_wait_for_a_slot_and_tenants_take_turns(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, max_concurrent_runs=1, max_waiting_runs=4, run_wait_s=60) as gateway:
        kiosk, desk = gateway.as_principal("kiosk-token"), gateway.as_principal("desk-token")
        gateway.fakes.executor.gate = asyncio.Event()
        first = await kiosk.solve(LATER)
        order: list[str] = []

        async def solve(client: Any, name: str) -> None:
            await client.solve(ask(ASK_HOLIDAYS))
            order.append(name)

        quotas = gateway.app.state.service.quotas
        tasks = []
        for number, (client, name) in enumerate([(kiosk, "kiosk")] * 3 + [(desk, "desk")], start=1):
            tasks.append(asyncio.create_task(solve(client, name)))
            await until(lambda n=number: quotas.waiting_runs == n)  # type: ignore[misc]
        with pytest.raises(Overloaded):
            await kiosk.solve(ask(ASK_HOLIDAYS))
        gateway.fakes.executor.gate.set()
        await asyncio.gather(*tasks)
        assert order == ["kiosk", "desk", "kiosk", "kiosk"]
        assert (await ended(kiosk, first.id)).status is RunStatus.SUCCEEDED
        assert quotas.room == 1


async def test_who_leaves_the_queue_leaves_no_trace(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, max_concurrent_runs=1, run_wait_s=0) as gateway:
        gateway.fakes.executor.gate = asyncio.Event()
        kiosk, desk = gateway.as_principal("kiosk-token"), gateway.as_principal("desk-token")
        first = await kiosk.solve(LATER)
        with pytest.raises(Overloaded):
            await desk.solve(ask(ASK_HOLIDAYS))
        assert len((await desk.runs()).runs) == 0
        gateway.fakes.executor.gate.set()
        await ended(kiosk, first.id)
        await until(lambda: gateway.app.state.service.quotas.room == 1)
        assert (await desk.solve(ask(ASK_HOLIDAYS))).status is RunStatus.SUCCEEDED


async def test_authorised_requests_do_not_wait_for_those_without_a_token(
    shared: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, kiosk = ({"Authorization": f"Bearer {one}-token"} for one in ("desk", "kiosk"))
    cookie, _ = await log_in(shared, "desk-token")
    assert (await shared.http.get("/runs", headers=desk)).status_code == 200
    assert (await get(shared, "ops", cookie)).status_code == 200
    monkeypatch.setattr("services.turns.REST_TIMES", 1e12)  # a turn that was not accepted comes back after a minute
    monkeypatch.setattr("services.turns.MOST_REST_S", 60)
    flood = [asyncio.create_task(shared.http.get("/healthz", headers=h)) for h in ({}, {"Authorization": "x"}) * 20]
    async with asyncio.timeout(30):
        for _ in range(3 * MOST):
            assert (await shared.http.get("/runs", headers=desk)).status_code == 200
            assert (await get(shared, "ops", cookie)).status_code == 200
    assert sum(one.done() for one in flood) <= 2 * MOST
    # A tenant beyond its quota waits in its own line: the others' requests do not notice.
    monkeypatch.setattr(shared.app.state.service.quotas, "_left", lambda tenant, _rate: 1000 * (tenant == "office"))
    late = [asyncio.create_task(shared.http.get("/runs", headers=kiosk)) for _ in range(20)]
    async with asyncio.timeout(30):
        for _ in range(3 * MOST):
            assert (await shared.http.get("/runs", headers=desk)).status_code == 200
    for one in (*flood, *late):
        one.cancel()


async def test_a_refused_body_counts_by_its_size(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, limits={"requests_per_s": 5}) as gateway:
        more = b'{"query": "x", "more": 1, "rest": "' + b"x" * 900_000 + b'"}'
        for path, kind, body in (
            ("/solve", "application/json", more),
            ("/solve", "application/json", b"[" * 900_000),
            ("/solve", "text/plain", b"x" * 900_000),
            ("/apis:import", "text/plain", b"x" * 900_000),
        ):
            gateway.app.state.service.quotas._buckets.clear()
            headers = {"Authorization": "Bearer kiosk-token", "Content-Type": kind}
            answers = [await gateway.http.post(path, content=body, headers=headers) for _ in range(5)]
            assert [answer.status_code for answer in answers[2:]] == [429] * 3
            assert answers[0].status_code in (400, 422)


async def test_a_large_body_counts_by_its_size_before_it_is_parsed(tmp_path: Path) -> None:
    """Also one that is what the route takes, and those that arrive together."""
    async with two_tenants(tmp_path, limits={"requests_per_s": 5}) as gateway:
        call = {"name": "a.b", "arguments": {"a": [[] for _ in range(49_000)]}}
        body = json.dumps({"query": "x", "calls": [call]}).encode() + b" " * 800_000
        headers = {"Authorization": "Bearer kiosk-token", "Content-Type": "application/json"}
        answers = await asyncio.gather(*(gateway.http.post("/runs", content=body, headers=headers) for _ in range(6)))
        assert Counter(answer.status_code for answer in answers) == {422: 2, 429: 4}


async def test_tenants_take_turns_where_large_bodies_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that parse share the interpreter with the event loop: many of them would leave it no time."""
    parsed, most = list[bytes](), 0
    under_way = set[bytes]()

    def parse(body: bytes, **_: object) -> object:
        nonlocal most
        under_way.add(body)
        most = max(most, len(under_way))
        time.sleep(0.05)
        under_way.remove(body)
        parsed.append(body[:4])
        raise InvalidRequest("It is no request.")

    monkeypatch.setattr("services.http.loads_strict", parse)
    async with two_tenants(tmp_path, limits={"requests_per_s": None}) as gateway:
        answers = await asyncio.gather(
            *(
                gateway.http.post(
                    "/solve",
                    content=f"{tenant}{number}".encode() + b" " * 70_000,
                    headers={"Authorization": f"Bearer {tenant}-token", "Content-Type": "application/json"},
                )
                for tenant, number in [*(("kiosk", n) for n in range(6)), ("desk", 0)]
            )
        )
    assert {answer.status_code for answer in answers} == {400}
    assert most <= 2, "one of a tenant"
    assert parsed.index(b"desk") <= 2


async def test_reading_apis_demonstrations_documents_and_credentials_counts_by_size(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged = list[int]()
    monkeypatch.setattr(gateway.app.state.service.quotas, "charge", lambda tenant, size: charged.append(size))
    paths = ("/demos", "/documents", f"/apis/{HOLIDAYS.id}", "/providers/world/credentials")
    answers = [await gateway.http.get(path) for path in paths]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [size for size in charged if size] == [len(answer.content) for answer in answers]
