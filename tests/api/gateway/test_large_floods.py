"""One tenant sends large bodies, or has or reads large runs, or reads often, many at once: others have turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from starlette.types import Message

from services.byte_budget import Share
from services.compute import for_tenant
from services.contracts.api import Api
from services.contracts.demo import Demo
from services.contracts.event import RunEvent
from services.contracts.execution import StepFinished
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.run import Run, RunPage, RunStatus, RunSummary
from services.errors import NotFound
from services.storage.engine import read
from tests.api.gateway.test_quotas import two_tenants
from tests.support.console_pages import log_in, post
from tests.support.gateways import ASK_HOLIDAYS, HOLIDAYS, Gateway, ask, until

LARGE = Succeeded(value=["x" * 1_000] * 100, status=200)
KIOSK, DESK = {"Authorization": "Bearer kiosk-token"}, {"Authorization": "Bearer desk-token"}
MANY = 100


class _Upload:
    """A request whose body comes in chunks of 50 kB, and stops before its end."""

    def __init__(self, gateway: Gateway, token: str, chunks: int) -> None:
        self.read, self._chunks = 0, chunks
        headers = {"host": "localhost", "authorization": f"Bearer {token}", "content-type": "application/json"}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/apis:import",
            "raw_path": b"/apis:import",
            "query_string": b"",
            "scheme": "http",
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        self.task = asyncio.create_task(gateway.app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self.read == self._chunks:
            await asyncio.Event().wait()
        self.read += 1
        return {"type": "http.request", "body": b" " * 50_000, "more_body": True}

    async def _send(self, message: Message) -> None:
        """Drop the answer."""


async def test_half_sent_bodies_of_a_tenant_are_read_as_far_as_it_has_room(tmp_path: Path) -> None:
    async with two_tenants(tmp_path) as gateway:
        gateway.app.state.bodies.limit = 1_000_000
        uploads = [_Upload(gateway, "kiosk-token", 6) for _ in range(40)]
        await until(lambda: all(one.read for one in uploads))
        other = _Upload(gateway, "desk-token", 6)
        await until(lambda: other.read == 6)
        assert sum(one.read for one in uploads) < 100, "of 240"
        for one in (*uploads, other):
            one.task.cancel()
        await asyncio.gather(*(one.task for one in (*uploads, other)), return_exceptions=True)
        assert gateway.app.state.bodies._held == 0


async def test_a_console_form_takes_room_of_its_session(tmp_path: Path) -> None:
    async with two_tenants(tmp_path) as gateway:
        cookie, csrf = await log_in(gateway, "kiosk-token")
        asked = list[str]()
        share = gateway.app.state.bodies.share

        def counted(name: str, tenant: str) -> Share:
            asked.append(tenant)
            return cast("Share", share(name, tenant))

        gateway.app.state.bodies.share = counted
        await post(gateway, "runs/run_1/cancel", cookie, csrf=csrf)
        assert asked == ["guests"]


@pytest.fixture
async def large(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway whose tenant `guests` may read a few large runs."""
    async with two_tenants(tmp_path, tenant_limits={"guests": {"requests_per_s": 5}}) as running:
        running.fakes.executor.outcomes[HOLIDAYS.id] = LARGE
        yield running


async def test_further_streams_of_a_run_end_where_the_tenant_has_read_too_much(
    large: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = large.fakes.executor.gate = asyncio.Event()
    body = ask(ASK_HOLIDAYS).model_dump(mode="json")

    async def follow() -> bool:
        headers = KIOSK | {"Idempotency-Key": "one"}
        with suppress(httpx2.RemoteProtocolError):  # the stream ended early
            return '"finished"' in (await large.http.post("/solve:stream", json=body, headers=headers)).text
        return False

    service = large.app.state.service
    events, followed = service._streams._events.follow, list[str]()

    def counted(run_id: str, after: int) -> Any:
        followed.append(run_id)
        return events(run_id, after)

    monkeypatch.setattr(service._streams._events, "follow", counted)
    first = asyncio.create_task(follow())
    await until(lambda: any(live.planned for live in service._runs.lives.values()))
    further = [asyncio.create_task(follow()) for _ in range(15)]
    await until(lambda: len(followed) == 16)
    gate.set()
    assert await first
    assert sum([await one for one in further]) < 10


async def test_the_events_of_a_run_under_way_count_by_their_size(
    large: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stored document has no steps yet."""
    large.fakes.executor.gate = asyncio.Event()
    service = large.app.state.service
    client = large.as_principal("kiosk-token")
    run = await client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    await until(lambda: service._runs.lives[run.id].planned)
    record = StepRecord(step="a", api=HOLIDAYS.id, outcome=LARGE, started_ms=0, duration_ms=1)
    ticket = service._runs.lives[run.id].ticket
    await service._store.append([(ticket, RunEvent(id=500, event=StepFinished(record=record)))])
    counted = list[int]()
    monkeypatch.setattr(service._store, "_on_read", lambda _tenant, size: counted.append(size))
    await service._store.charge(run.id, "guests", 1)
    assert max(counted) > 100_000
    large.fakes.executor.gate.set()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many connections read runs now, at most, and in all."""
    counts = {"now": 0, "most": 0, "all": 0}

    @asynccontextmanager
    async def counted(engine: Any) -> AsyncIterator[Any]:
        counts["now"] += 1
        counts["all"] += 1
        counts["most"] = max(counts["most"], counts["now"])
        try:
            async with read(engine) as connection:
                await asyncio.sleep(0.001)
                yield connection
        finally:
            counts["now"] -= 1

    monkeypatch.setattr("gateway.storage.read", counted)
    return counts


async def test_a_tenant_reads_few_runs_at_once_and_none_once_it_has_read_too_much(
    large: Gateway, reads: dict[str, int]
) -> None:
    run = await large.as_principal("kiosk-token").solve(ask(ASK_HOLIDAYS))
    buckets = large.app.state.service.quotas._buckets
    buckets.clear()
    reads.update(now=0, most=0, all=0)
    answers = await asyncio.gather(*(large.http.get(f"/runs/{run.id}", headers=KIOSK) for _ in range(40)))
    counted = Counter(answer.status_code for answer in answers)
    assert counted.keys() == {200, 429}
    assert reads["most"] <= 3
    assert reads["all"] < 20, "of 40"


@pytest.mark.parametrize("path", ["/runs", "/apis", "/audit"])
async def test_large_pages_that_are_asked_for_together_are_refused_once_much_was_read(
    large: Gateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    line = RunSummary(id="r", status=RunStatus.PLANNED, query="x" * 300, created_at=datetime.now(UTC), total_ms=1)

    async def page(*_arguments: object, **_named: object) -> RunPage:
        return RunPage(runs=(line,) * 300)

    monkeypatch.setattr(large.app.state.service, "page", page)
    monkeypatch.setattr(large.app.state.service.peers.retriever, "search", page)
    monkeypatch.setattr(large.app.state.audit, "page", page)
    answers = await asyncio.gather(*(large.http.get(path, headers=KIOSK) for _ in range(40)))
    codes = Counter(answer.status_code for answer in answers)
    assert codes[200] < 20
    assert codes[200] + codes[429] == 40


@pytest.mark.parametrize("path", ["/apis/a", "/documents", "/demos", "/operations", "/console/catalogue/api?id=a"])
async def test_few_of_the_reads_of_a_tenant_that_arrive_together_are_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async with two_tenants(tmp_path) as gateway:
        cookie, _ = await log_in(gateway, "kiosk-token")
        begun, go_on = list[str](), asyncio.Event()

        async def slow(*_arguments: object, **_named: object) -> None:
            begun.append(for_tenant.get())
            await go_on.wait()
            raise NotFound("none")

        service = gateway.app.state.service
        for peer, name in (
            (service.peers.retriever, "get"),
            (service.peers.retriever, "documents"),
            (service.peers.demos, "list"),
            (service.overview, "now"),
        ):
            monkeypatch.setattr(peer, name, slow)
        gateway.http.cookies.clear()
        flood = [asyncio.create_task(gateway.http.get(path, headers=KIOSK | {"Cookie": cookie})) for _ in range(40)]
        other_headers = {"Authorization": "Bearer desk-token", "Cookie": (await log_in(gateway, "desk-token"))[0]}
        gateway.http.cookies.clear()
        other = asyncio.create_task(gateway.http.get(path, headers=other_headers))
        await until(lambda: "office" in begun)
        assert (await gateway.http.get("/runs", headers=KIOSK)).status_code == 200, "of another kind"
        assert Counter(begun) == {"guests": 4, "office": 1}
        go_on.set()
        answers = await asyncio.gather(*flood, other)
        assert {answer.status_code for answer in answers} == {404}


async def test_a_tenant_adds_one_demonstration_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_tenants(tmp_path) as gateway:
        begun, go_on = list[str](), asyncio.Event()

        async def add(demo: Demo, **_named: object) -> Demo:
            begun.append(for_tenant.get())
            await go_on.wait()
            return demo

        monkeypatch.setattr(gateway.app.state.service.peers.demos, "add", add)
        body = {"query": "q", "plan": {"steps": [{"id": "v", "api": "a"}]}}
        flood = [asyncio.create_task(gateway.http.post("/demos", json=body, headers=KIOSK)) for _ in range(20)]
        other = asyncio.create_task(gateway.http.post("/demos", json=body, headers=DESK))
        await until(lambda: "office" in begun)
        assert Counter(begun) == {"guests": 1, "office": 1}
        go_on.set()
        assert {answer.status_code for answer in await asyncio.gather(*flood, other)} == {201}


async def test_bodies_that_are_not_small_are_parsed_in_turns_of_tenants(tmp_path: Path) -> None:
    async with two_tenants(tmp_path) as gateway:
        bodies = [{"query": "x" * 20, "plan_id": "y" * size} for size in (100, 5_000)]
        async with gateway.app.state.parsing.slot("guests", 1):
            small, larger = (
                asyncio.create_task(gateway.http.post("/runs/r:approve", json=body, headers=KIOSK)) for body in bodies
            )
            await until(lambda: gateway.app.state.parsing.waits("guests") == 1)
            assert (await small).status_code == 422
            assert (await gateway.http.post("/runs/r:approve", json=bodies[1], headers=DESK)).status_code == 422
            assert not larger.done()
        assert (await larger).status_code == 422


async def test_reads_that_wait_are_not_made_once_much_was_read(large: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()

    async def get(key: str, **_named: object) -> Api:
        made.append(key)
        return Api(id=key, provider="p", name="n", description="x" * 200_000)

    monkeypatch.setattr(large.app.state.service.peers.retriever, "get", get)
    answers = await asyncio.gather(*(large.http.get("/apis/a", headers=KIOSK) for _ in range(40)))
    assert {answer.status_code for answer in answers} == {200, 429}
    assert len(made) < 20, "of 40"


async def test_one_of_those_who_follow_a_run_of_another_process_reads_at_a_time(
    large: Gateway, reads: dict[str, int]
) -> None:
    run = await large.as_principal("kiosk-token").solve(ask(ASK_HOLIDAYS))
    reads.update(now=0, most=0, all=0)
    store = large.app.state.service._store
    await asyncio.gather(*(store.status(run.id) for _ in range(20)), *(store.events(run.id, 0) for _ in range(20)))
    assert (reads["most"], reads["all"]) == (1, 40)


async def test_one_large_run_of_a_tenant_at_a_time_is_stored_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_tenants(tmp_path) as gateway:
        gateway.fakes.executor.outcomes[HOLIDAYS.id] = LARGE
        service = gateway.app.state.service
        conclude, now, most = service._store.conclude, Counter[str](), Counter[str]()
        charged = list[tuple[str, int]]()

        async def counted(ticket: Any, run: Run, *arguments: Any) -> None:
            now[run.tenant] += 1
            most[run.tenant] = max(most[run.tenant], now[run.tenant])
            await asyncio.sleep(0.01)
            await conclude(ticket, run, *arguments)
            now[run.tenant] -= 1

        monkeypatch.setattr(service._store, "conclude", counted)
        monkeypatch.setattr(service.quotas, "charge", lambda tenant, size: charged.append((tenant, size)))
        clients = [gateway.as_principal(token) for token in ["kiosk-token"] * 6 + ["desk-token"]]
        await asyncio.gather(*(client.solve(ask(ASK_HOLIDAYS)) for client in clients))
        assert most == {"guests": 1, "office": 1}
        assert len([1 for tenant, size in charged if tenant == "guests" and size > 100_000]) >= 6


@pytest.mark.parametrize("path", ["/runs", "/audit", "/keys"])
async def test_many_reads_of_a_tenant_do_not_delay_those_of_another(tmp_path: Path, path: str) -> None:
    async with two_tenants(tmp_path) as gateway:
        ended: list[str] = []

        async def get_as(token: str) -> None:
            response = await gateway.http.get(path, headers={"Authorization": f"Bearer {token}"})
            assert response.status_code == 200
            ended.append(token)

        flood = [asyncio.create_task(get_as("kiosk-token")) for _ in range(MANY)]
        await asyncio.sleep(0)
        await get_as("desk-token")
        await asyncio.gather(*flood)
    assert ended.index("desk-token") < MANY / 2
