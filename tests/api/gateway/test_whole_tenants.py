"""Whole tenants: exported line by line, deleted step by step, without effect on other tenants."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.tenants import Tenants
from services.contracts.access import Action, KeyRequest, Role
from services.contracts.api import ImportRequest
from services.contracts.demo import Demo
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.outcome import InDoubt, Succeeded
from services.contracts.run import Run, RunStatus
from services.contracts.tenant import ExportLine, TenantDeletion
from services.errors import Conflict, Forbidden, NotFound, ServiceUnavailable, Unauthorized
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOK,
    BOOKING,
    HOLIDAYS,
    Fakes,
    Gateway,
    ask,
    open_gateway,
    until,
)

PRINCIPALS: tuple[dict[str, Any], ...] = (
    {"name": "operator", "tenant": "default", "token": "operator-token"},
    {"name": "blue", "tenant": "blue", "token": "blue-boss-token"},
)
ALL = frozenset(Role)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as running:
        yield running


def document(title: str) -> str:
    operation = {"operationId": f"get{title}", "summary": title, "responses": {"200": {"description": "ok"}}}
    told = {"openapi": "3.1.0", "info": {"title": title, "version": "1"}, "servers": [{"url": "https://a.example"}]}
    return json.dumps(told | {"paths": {f"/{title}": {"get": operation}}})


async def key_of(gateway: Gateway, tenant: str = "red") -> str:
    asked = KeyRequest(name=f"{tenant}-app", roles=ALL, tenant=tenant)
    return (await gateway.as_principal("operator-token").create_key(asked)).key


async def furnish(gateway: Gateway, token: str, title: str) -> None:
    """Create three runs, one of them waiting, a demo and an imported document."""
    client = gateway.as_principal(token)
    first = await client.solve(ask(ASK_HOLIDAYS))
    await client.solve(ask(ASK_HOLIDAYS))
    await client.solve(ask(ASK_ROOM))
    await client.judge(first.id, FeedbackRequest(verdict=Verdict.CONFIRMED))
    await client.demonstrate(first.id)
    async for _ in client.import_apis(ImportRequest(document=document(title), provider=title)):
        pass


async def exported(gateway: Gateway, token: str, tenant: str) -> list[ExportLine]:
    return [line async for line in gateway.as_principal(token).export_tenant(tenant)]


async def deleted(gateway: Gateway, token: str, tenant: str) -> list[TenantDeletion]:
    reports: list[TenantDeletion] = []
    while not reports or not reports[-1].done:
        reports.append(await gateway.as_principal(token).delete_tenant(tenant))
        await asyncio.sleep(0)
    return reports


async def test_all_of_a_tenant_is_exported_and_nothing_else(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        red = await key_of(gateway)
        await furnish(gateway, red, "redshop")
        await furnish(gateway, "blue-boss-token", "blueshop")
        shared = Demo(query="Book the green room", plan=BOOKING)
        await gateway.as_principal("operator-token").add_demo(shared, shared=True)
        for token in (red, "operator-token"):
            lines = await exported(gateway, token, "red")
            found = Counter(line.kind for line in lines)
            assert found == {"key": 1, "run": 3, "demo": 1, "document": 1, "api": 1, "audit": found["audit"], "end": 1}
            assert lines[-1] == ExportLine(kind="end", data={kind: found[kind] for kind in found if kind != "end"})
            text = " ".join(line.model_dump_json() for line in lines)
            assert "redshop" in text
            assert "blueshop" not in text
            assert '"tenant":"blue"' not in text
            assert "green room" not in text, "what is everyone's is nobody's own"
            assert red.split("_", 2)[2] not in text
        with pytest.raises(Forbidden):
            await exported(gateway, red, "blue")
        told = (await gateway.as_principal("operator-token").audit(actions=[Action.EXPORT_TENANT])).entries
        assert [(one.outcome, one.target, one.tenant) for one in told][::-1] == [
            ("begun", "red", "red"),
            ("done", "red", "red"),
            ("begun", "red", "default"),
            ("done", "red", "default"),
        ]


async def test_a_tenant_exports_twice_at_a_time_and_is_charged_by_size(tmp_path: Path) -> None:
    """Each export holds a run, which may have 16 MB, for as long as its reader takes."""
    fakes = Fakes()
    fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": ["x" * 100_000]}, status=200)
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS, limits={"requests_per_s": 5}) as gateway:
        service, principals = gateway.app.state.service, gateway.app.state.principals
        who = {
            name: await principals.authenticate_token(token.encode(), "127.0.0.1")
            for name, token in (("default", "operator-token"), ("blue", "blue-boss-token"))
        }
        await gateway.as_principal("blue-boss-token").solve(ask(ASK_HOLIDAYS))
        left = service.quotas.used("blue").tenants[0].requests.used
        exports = [service.tenants.export("blue", who["blue"]) for _ in range(4)]
        first = [asyncio.create_task(anext(export)) for export in exports]
        await asyncio.wait(first, timeout=0.3)
        assert [one.done() for one in first] == [True, True, False, False]
        another = service.tenants.export("blue", who["default"])
        assert len(await anext(another)) > 100_000
        assert service.quotas.used("default").tenants[0].requests.used >= 3
        assert service.quotas.used("blue").tenants[0].requests.used >= left + 4
        await exports[0].aclose()
        assert len(await first[2]) > 100_000
        assert not first[3].done()
        first[3].cancel()
        for export in (*exports[1:3], another):
            await export.aclose()


async def test_what_a_tenant_has_read_hinders_neither_its_export_nor_its_deletion(gateway: Gateway) -> None:
    key = await key_of(gateway)
    run = await gateway.as_principal(key).solve(ask(ASK_HOLIDAYS))
    gateway.app.state.service.quotas.charge("red", 10**9)
    lines = await exported(gateway, "operator-token", "red")
    assert [Run.model_validate(line.data).id for line in lines if line.kind == "run"] == [run.id]
    assert [step.done for step in await deleted(gateway, "operator-token", "red")] == [True]


async def test_all_of_a_tenant_is_deleted_and_nothing_else(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        red = await key_of(gateway)
        await furnish(gateway, red, "redshop")
        await furnish(gateway, "blue-boss-token", "blueshop")
        before = Counter(line.kind for line in await exported(gateway, "operator-token", "blue"))
        with pytest.raises(Forbidden):
            await gateway.as_principal("blue-boss-token").delete_tenant("red")
        assert await deleted(gateway, "operator-token", "red") == [
            TenantDeletion(done=True, keys=1, runs=3, demos=1, providers=1, ending=0)
        ]
        left = await exported(gateway, "operator-token", "red")
        assert {line.kind for line in left} == {"audit", "end"}, "what was done stays told"
        with pytest.raises(Unauthorized):
            await gateway.as_principal(red).runs()
        assert Counter(line.kind for line in await exported(gateway, "operator-token", "blue")) == before
        assert await deleted(gateway, "operator-token", "red") == [
            TenantDeletion(done=True, keys=0, runs=0, demos=0, providers=0, ending=0)
        ]
        told = (await gateway.as_principal("operator-token").audit(actions=[Action.DELETE_TENANT])).entries
        assert [(one.outcome, one.target) for one in told] == [("done", "red"), ("begun", "red")] * 2


async def test_a_tenant_deletes_itself_with_a_key_that_goes_last(gateway: Gateway) -> None:
    red = await key_of(gateway)
    await furnish(gateway, red, "redshop")
    await key_of(gateway)
    tenants: Tenants = gateway.app.state.service.tenants
    ticks = iter(range(1_000))
    tenants._clock = lambda: float(next(ticks)) * 4  # each call has time for two things
    reports = await deleted(gateway, red, "red")
    assert len(reports) > 2
    assert [report.done for report in reports] == [False] * (len(reports) - 1) + [True]
    total = [sum(getattr(report, kind) for report in reports) for kind in ("keys", "runs", "demos", "providers")]
    assert total == [2, 3, 1, 1]
    assert (reports[0].keys, reports[-1].keys) == (1, 1)
    with pytest.raises(Unauthorized):
        await gateway.as_principal(red).runs()


async def test_runs_under_way_are_ended_first(gateway: Gateway) -> None:
    red, executor = await key_of(gateway), gateway.fakes.executor
    executor.gate = asyncio.Event()
    asked = ask(ASK_HOLIDAYS).model_copy(update={"wait": False})
    await gateway.as_principal(red).solve(asked)
    await until(lambda: executor.calls.count("execute") == 1)
    first = await gateway.as_principal("operator-token").delete_tenant("red")
    assert (first.done, first.runs, first.ending) == (False, 0, 1)
    executor.gate.set()
    async with asyncio.timeout(20):
        reports = await deleted(gateway, "operator-token", "red")
    assert sum(report.runs for report in reports) == 1


async def test_a_run_that_waits_to_begin_is_not_left_behind(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS, max_concurrent_runs=1, run_wait_s=60) as gateway:
        red, executor, quotas = await key_of(gateway), gateway.fakes.executor, gateway.app.state.service.quotas
        executor.gate = asyncio.Event()
        asked = ask(ASK_HOLIDAYS).model_copy(update={"wait": False})
        await gateway.as_principal("blue-boss-token").solve(asked)
        waiting = asyncio.create_task(gateway.as_principal(red).solve(asked))
        await until(lambda: quotas.waiting_runs == 1)
        assert not (await gateway.as_principal("operator-token").delete_tenant("red")).done
        executor.gate.set()
        await waiting
        async with asyncio.timeout(60):
            reports = await deleted(gateway, "operator-token", "red")
        assert sum(report.runs for report in reports) == 1


async def test_an_import_at_work_is_not_left_behind(gateway: Gateway) -> None:
    red = await key_of(gateway)
    service = gateway.app.state.service
    who = await gateway.app.state.principals.authenticate_token(red.encode(), "127.0.0.1")
    importing = service.administration.import_apis(ImportRequest(document=document("late"), provider="late"), who)
    await anext(importing)
    assert not (await gateway.as_principal("operator-token").delete_tenant("red")).done
    async for _ in importing:
        pass
    reports = await deleted(gateway, "operator-token", "red")
    assert reports[-1].done


async def test_what_is_in_doubt_is_settled_first(gateway: Gateway) -> None:
    red, executor = await key_of(gateway), gateway.fakes.executor
    executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    run = await gateway.as_principal(red).solve(ask(ASK_ROOM))
    run = await gateway.as_principal(red).approve(run.id, BOOKING.id)
    assert run.status is RunStatus.IN_DOUBT
    with pytest.raises(Conflict, match=run.id):
        await gateway.as_principal("operator-token").delete_tenant("red")
    assert await gateway.as_principal(red).run(run.id) == run


@pytest.mark.parametrize(
    ("tenant", "settings"),
    [
        ("default", {}),
        ("blue", {}),
        ("red", {"issuers": [{"name": "corp", "issuer": "https://a.example", "audience": ["x"], "tenant": "red"}]}),
        ("default", {"operator_tenant": "default", "token": "single-token"}),
    ],
)
async def test_a_tenant_that_settings_name_is_not_deleted(
    tmp_path: Path, tenant: str, settings: dict[str, Any]
) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS, **settings) as gateway:
        run = await gateway.as_principal("blue-boss-token").solve(ask(ASK_HOLIDAYS))
        with pytest.raises(Conflict):
            await gateway.as_principal("operator-token").delete_tenant(tenant)
        assert (await gateway.as_principal("blue-boss-token").run(run.id)).id == run.id


async def test_an_interrupted_deletion_goes_on(gateway: Gateway) -> None:
    red = await key_of(gateway)
    await furnish(gateway, red, "redshop")
    gateway.fakes.demos.down = True
    with pytest.raises(ServiceUnavailable):
        await gateway.as_principal("operator-token").delete_tenant("red")
    gateway.fakes.demos.down = False
    report = await gateway.as_principal("operator-token").delete_tenant("red")
    assert (report.done, report.runs, report.demos, report.providers) == (True, 0, 1, 1)
    with pytest.raises(NotFound):
        await gateway.fakes.retriever.get("redshop.getredshop", tenant="red")


@pytest.mark.parametrize("path", ["/tenants/a%20b/export", "/tenants/%00/export", f"/tenants/{'x' * 101}/export"])
async def test_names_that_no_tenant_has(gateway: Gateway, path: str) -> None:
    answer = await gateway.http.get(path, headers={"Authorization": "Bearer operator-token"})
    assert answer.status_code in (400, 404, 422)
    assert answer.headers["content-type"] == "application/problem+json"
