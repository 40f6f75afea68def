"""The audit log: all actions with their principals, in order, and append-only."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gateway.audit import entry
from gateway.live import Live
from gateway.principals import Principal
from gateway.secret_audit import SecretAudit
from gateway.tables import METADATA, RUNS
from services.clients import GatewayClient
from services.contracts.access import Action, AuditEntry
from services.contracts.api import ImportReport, ImportRequest, SecretKind, SecurityRequirement
from services.contracts.doubt import ResolveRequest
from services.contracts.execution import ExecutionFinished
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.outcome import Failed, InDoubt, StepRecord, Succeeded
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.planning import Decision
from services.contracts.run import RunStatus
from services.contracts.secret import JournalChange, JournalEntry
from services.errors import Conflict, Forbidden, NotFound, ServiceUnavailable
from services.storage.engine import create_engine
from services.storage.migrate import migrate
from tests.fakes.retriever import FakeRetriever
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    ASK_TWO_ROOMS,
    BOOK,
    BOOKING,
    FIND,
    HOLIDAYS,
    Fakes,
    Gateway,
    ask,
    call,
    open_gateway,
    until,
)
from tests.support.migrations import migrate_to

PRINCIPALS: tuple[dict[str, Any], ...] = (
    {"name": "operator", "tenant": "default", "token": "operator-token"},
    {"name": "boss", "tenant": "red", "token": "red-boss-token"},
)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as running:
        yield running


async def told(client: GatewayClient, *actions: Action, **which: Any) -> list[AuditEntry]:
    """The audit entries, oldest first."""
    return list((await client.audit(actions=actions, **which)).entries)[::-1]


async def test_what_is_done_with_runs_is_told(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        boss = gateway.as_principal("red-boss-token")
        first, second = [await boss.solve(ask(ASK_ROOM)) for _ in range(2)]
        await boss.approve(first.id, BOOKING.id, digest=first.digest)
        await boss.cancel(second.id)
        third = await boss.solve(ask(ASK_ROOM, mutations=Decision.ALLOW))
        await boss.delete_run(third.id)
        found = await told(boss)
        assert [(one.action, one.outcome, one.target) for one in found] == [
            (Action.APPROVE, "done", first.id),
            (Action.REJECT, "done", second.id),
            (Action.APPROVE_IN_ADVANCE, "done", third.id),
            (Action.DELETE_RUN, "begun", third.id),
            (Action.DELETE_RUN, "done", third.id),
        ]
        assert found[0].digest == first.digest
        assert found[4].begun_by == found[3].id
        assert found[4].request_id == found[3].request_id != ""
        assert {(one.principal, one.tenant) for one in found} == {("boss", "red")}
        pages = await boss.audit(limit=2)
        rest = await boss.audit(limit=10, cursor=pages.next)
        assert [*pages.entries, *rest.entries] == found[::-1]
        assert [one.id for one in await told(boss, target=first.id)] == [found[0].id]


async def test_which_secrets_runs_present_is_told_once_a_day(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        boss, operator = gateway.as_principal("red-boss-token"), gateway.as_principal("operator-token")
        executor = gateway.fakes.executor
        executor.presents = {FIND.id: ("world.key",), HOLIDAYS.id: ("world.key", "world.login")}
        executor.read_with = ("world.read",)
        runs = [await boss.solve(ask(ASK_HOLIDAYS)) for _ in range(3)]
        assert [step.secrets for step in runs[0].steps] == [("world.key",), ("world.key", "world.login")]
        told_once = [("boss", "red", "world.key"), ("boss", "red", "world.login")]
        found = await told(operator, Action.PRESENT)
        assert sorted((one.principal, one.tenant, one.target) for one in found) == told_once
        await operator.solve(ask(ASK_HOLIDAYS))
        waiting = await boss.solve(ask(ASK_ROOM))
        assert waiting.read_with == ("world.read",)
        assert sorted(one.target for one in await told(boss, Action.PRESENT)) == [
            "world.key",
            "world.login",
            "world.read",
        ]
        assert len(await told(operator, Action.PRESENT, target="world.key")) == 2
        gateway.app.state.service._runs.uses._day = date.min  # the next day
        await boss.solve(ask(ASK_HOLIDAYS))
        assert len(await told(boss, Action.PRESENT, target="world.key")) == 2


def secured(*names: str) -> Fakes:
    """Fakes whose APIs need the secret `world.NAME` each, and a plan that reads before it books."""
    apis = []
    for api, name in zip((FIND, HOLIDAYS, BOOK), names, strict=True):
        need = SecurityRequirement(scheme="key", kind=SecretKind.BEARER, secret=f"world.{name}")
        apis.append(api.model_copy(update={"security": ((need,),)}))
    fakes = Fakes(retriever=FakeRetriever(*apis))
    fakes.executor.secrets = tuple(f"world.{name}" for name in names)
    fakes.planner.plans[READ_AND_BOOK] = Plan(
        steps=(call("var1", FIND, name="Portugal"), call("var2", BOOK, room=Reference(step="var1", path=("code",)))),
        answer=(AnswerOutput(name="booking", value=Reference(step="var2", path=("id",))),),
    )
    return fakes


READ_AND_BOOK = "Find Portugal and book the room of its code"


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_secret_of_a_call_that_was_cut_off_is_told(
    tmp_path: Path, arrived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the run is cancelled before it was seen that the call has begun."""
    fakes = secured("one", "two", "three")
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS) as gateway:
        boss, runs = gateway.as_principal("red-boss-token"), gateway.app.state.service._runs
        fakes.executor.gate = asyncio.Event()
        run = await boss.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        await until(lambda: bool(runs.lives[run.id].started))
        if not arrived:
            monkeypatch.setattr(Live, "started", frozenset())
        assert (await boss.cancel(run.id)).steps == ()
        found = await told(boss, Action.PRESENT)
        assert [(one.principal, one.target) for one in found] == [("boss", "world.one")]


async def test_a_secret_of_a_call_in_doubt_is_told_although_its_record_names_none(tmp_path: Path) -> None:
    fakes = secured("one", "two", "three")
    fakes.executor.outcomes[BOOK.id] = InDoubt(message="it was sent, but no answer came")
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS) as gateway:
        boss = gateway.as_principal("red-boss-token")
        run = await boss.solve(ask(ASK_ROOM, mutations=Decision.ALLOW))
        assert run.status is RunStatus.IN_DOUBT
        assert [one.target for one in await told(boss, Action.PRESENT)] == ["world.three"]


@pytest.mark.parametrize("ends", ["differ", "fail", "break"])
async def test_secrets_of_reads_that_an_approval_makes_again_are_told(tmp_path: Path, ends: str) -> None:
    fakes = secured("one", "two", "three")
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS) as gateway:
        boss, executor = gateway.as_principal("red-boss-token"), fakes.executor
        waiting = await boss.solve(ask(READ_AND_BOOK))
        assert waiting.plan is not None
        assert await told(boss, Action.PRESENT) == []
        fakes.retriever.apis |= FakeRetriever(fakes.retriever.apis[FIND.id].model_copy(update={"path": "/else"})).apis
        if ends == "differ":
            executor.read_with = ("world.one",)
        elif ends == "fail":
            outcome = Failed(reason="timeout", message="late")
            record = StepRecord(
                step="var1", api=FIND.id, outcome=outcome, started_ms=0, duration_ms=0, secrets=("world.one",)
            )
            executor.unreadable = ExecutionFinished(status="failed", records=(record,), duration_ms=0)
        else:
            executor.breaks = True
        with pytest.raises((Conflict, ServiceUnavailable)):
            await boss.approve(waiting.id, waiting.plan.id, digest=waiting.digest)
        assert [one.target for one in await told(boss, Action.PRESENT)] == ["world.one"]
        await boss.cancel(waiting.id)
        assert [one.target for one in await told(boss, Action.PRESENT)] == ["world.one"]


async def test_secrets_of_reads_before_an_approval_are_told_if_they_are_cut_off(tmp_path: Path) -> None:
    fakes = secured("one", "two", "three")
    fakes.executor.breaks = True
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS) as gateway:
        boss = gateway.as_principal("red-boss-token")
        with pytest.raises(ServiceUnavailable):
            await boss.solve(ask(READ_AND_BOOK))
        assert [one.target for one in await told(boss, Action.PRESENT)] == ["world.one"]


async def test_a_long_target_is_told_by_its_beginning_and_its_hash(database_url: str) -> None:
    names = [f"world.{'k' * 990}{last}" for last in ("a", "b", "\x00")]
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        boss, executor = gateway.as_principal("red-boss-token"), gateway.fakes.executor
        executor.presents = {FIND.id: tuple(names), HOLIDAYS.id: (f"world.{'k' * 394}",)}
        run = await boss.solve(ask(ASK_HOLIDAYS))
        assert run.status is RunStatus.SUCCEEDED
        found = {one.target for one in await told(boss, Action.PRESENT)}
        hashes = {hashlib.sha256(name.replace("\x00", "\ufffd").encode()).hexdigest() for name in names}
        assert found == {names[0][:335] + "…" + told for told in hashes} | {f"world.{'k' * 394}"}
        assert len(await told(boss, target=names[1])) == 1
        headers = {"Authorization": "Bearer red-boss-token"}
        for path in (f"/providers/{'p' * 400}", f"/demos/{'d' * 400}"):
            assert (await gateway.http.delete(path, headers=headers)).status_code == 404
        tried = await gateway.http.post("/credentials:test", headers=headers, json={"secret": f"world.{'k' * 400}"})
        assert tried.status_code == 404


def change(seq: int, what: JournalChange, secret: str = "crm.key", account: str = "") -> JournalEntry:
    at = datetime.fromtimestamp(1_700_000_000 + seq, UTC)
    return JournalEntry(seq=seq, at=at, change=what, secret=secret, detail="hosts: crm.example", account=account)


async def test_changes_of_secrets_are_copied_once_and_only_the_operator_reads_them(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        boss, operator = gateway.as_principal("red-boss-token"), gateway.as_principal("operator-token")
        executor, log = gateway.fakes.executor, gateway.app.state.audit
        executor.journal = [change(1, "added"), change(2, "changed", account="ann"), change(3, "removed")]
        copies = [SecretAudit(executor, log, "default") for _ in range(2)]  # two gateways
        await asyncio.gather(*(one.copy() for one in copies))
        executor.journal.append(change(4, "added", "k" * 3_000))
        await asyncio.gather(*(one.copy() for one in copies))
        wanted = (Action.ADD_CREDENTIAL, Action.CHANGE_CREDENTIAL, Action.REMOVE_CREDENTIAL)
        found = await told(operator, *wanted, target="crm.key")
        assert [(one.action, one.principal, one.tenant) for one in found] == [
            (what, "settings", "default") for what in wanted
        ]
        hosts = "hosts: crm.example"
        assert [one.detail for one in found] == [hosts, f"{hosts}; account: ann", hosts]
        assert [one.at for one in found] == [it.at for it in executor.journal[:3]]
        assert len(await told(operator, *wanted)) == 4
        assert await told(boss, *wanted) == []


async def test_an_executor_that_was_away_or_has_another_database_is_read_on(gateway: Gateway) -> None:
    operator, executor = gateway.as_principal("operator-token"), gateway.fakes.executor
    copier = SecretAudit(executor, gateway.app.state.audit, "default")
    executor.journal = [change(1, "added"), change(2, "changed"), change(3, "changed")]
    executor.down = True
    with pytest.raises(ServiceUnavailable):
        await copier.copy()
    executor.down = False
    await copier.copy()
    executor.journal = [change(1, "added", "new.key")]
    await copier.copy()
    found = await told(operator, Action.ADD_CREDENTIAL, Action.CHANGE_CREDENTIAL)
    assert sorted(one.target for one in found) == ["crm.key", "crm.key", "crm.key", "new.key"]


async def test_the_gateway_copies_without_being_asked(tmp_path: Path) -> None:
    fakes = Fakes()
    fakes.executor.journal = [change(1, "added")]
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS) as gateway:
        operator = gateway.as_principal("operator-token")
        async with asyncio.timeout(20):
            while not await told(operator, Action.ADD_CREDENTIAL):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)


async def test_an_entry_of_an_older_process_has_no_detail(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        row = entry(Principal("ann", "default"), Action.REVOKE_KEY, "key_1")
        del row["detail"]
        await gateway.app.state.audit.add(row)
        (found,) = await told(gateway.as_principal("operator-token"), Action.REVOKE_KEY)
        assert (found.target, found.detail) == ("key_1", "")


async def test_what_a_later_version_wrote_is_listed_as_it_is(database_url: str) -> None:
    async with open_gateway(database_url, principals=PRINCIPALS) as gateway:
        row = entry(Principal("ann", "default"), Action.REVOKE_KEY, "key_1")
        await gateway.app.state.audit.add(row | {"action": "key.rotate", "outcome": "postponed"})
        operator = gateway.as_principal("operator-token")
        found = (await told(operator))[-1]
        assert (found.action, found.outcome, found.target) == ("key.rotate", "postponed", "key_1")
        lines = [line async for line in operator.export_tenant("default")]
        assert [line.kind == "audit" and "key.rotate" in str(line.data) for line in lines].count(True) == 1


async def test_what_others_are_asked_to_do_is_told_before_and_after(gateway: Gateway) -> None:
    operator = gateway.as_principal("operator-token")
    with pytest.raises(NotFound):
        await operator.delete_provider("nobody")
    found = await told(operator, Action.REMOVE_PROVIDER)
    assert [(one.outcome, one.target) for one in found] == [("begun", "nobody"), ("refused", "nobody")]
    run = await operator.solve(ask(ASK_ROOM, mutations=Decision.ALLOW))
    gateway.fakes.executor.down = True
    with pytest.raises(ServiceUnavailable):
        await operator.delete_run(run.id)
    assert [one.outcome for one in await told(operator, Action.DELETE_RUN)] == ["begun", "unknown"]


async def test_imports_are_told_and_dry_runs_are_not(gateway: Gateway) -> None:
    operator = gateway.as_principal("operator-token")

    async def send(server: str, **options: Any) -> ImportReport:
        asked = ImportRequest(document=document(server), provider="shop", **options)
        report = [event async for event in operator.import_apis(asked)][-1]
        assert isinstance(report, ImportReport)
        return report

    await send("https://a.example", dry_run=True)
    await send("https://a.example")
    held = await send("https://b.example")
    await send("https://b.example", confirm=held.change_hash)
    found = await told(operator, Action.IMPORT, Action.ACCEPT_CHANGES)
    one, two = (hashlib.sha256(document(f"https://{host}.example").encode()).hexdigest() for host in "ab")
    assert [(it.action, it.outcome, it.target, it.digest) for it in found] == [
        (Action.IMPORT, "begun", "shop", one),
        (Action.IMPORT, "done", "shop", one),
        (Action.IMPORT, "begun", "shop", two),
        (Action.IMPORT, "held", "shop", two),
        (Action.ACCEPT_CHANGES, "begun", "shop", two),
        (Action.ACCEPT_CHANGES, "done", "shop", two),
    ]


async def test_the_outcome_of_an_import_is_told_before_its_report(gateway: Gateway) -> None:
    asked = ImportRequest(document=document("https://a.example"), provider="shop")
    events = gateway.app.state.service.administration.import_apis(asked, Principal("operator", operator=True))
    while not isinstance(await anext(events), ImportReport):
        pass
    found = await told(gateway.as_principal("operator-token"), Action.IMPORT)
    assert [(it.outcome, it.target) for it in found] == [("begun", "shop"), ("done", "shop")]
    await events.aclose()


def document(server: str) -> str:
    get = {"operationId": "list", "summary": "List kits", "responses": {"200": {"description": "ok"}}}
    root = {"openapi": "3.1.0", "info": {"title": "shop", "version": "1"}, "servers": [{"url": server}]}
    return json.dumps(root | {"paths": {"/kits": {"get": get}}})


async def test_doubts_and_demonstrations_are_told_without_their_values(gateway: Gateway) -> None:
    boss, executor = gateway.as_principal("red-boss-token"), gateway.fakes.executor
    executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    run = await boss.solve(ask(ASK_TWO_ROOMS, mutations=Decision.ALLOW))
    executor.outcomes[BOOK.id] = Succeeded(value={"id": "bkg_1"}, status=201)
    await boss.resolve(run.id, "var1", ResolveRequest(outcome="succeeded", value={"id": "s3cret"}))
    await boss.judge(run.id, FeedbackRequest(verdict=Verdict.CONFIRMED))
    demo = await boss.demonstrate(run.id)
    await boss.judge(run.id, FeedbackRequest(verdict=Verdict.REJECTED))
    found = await told(boss)
    assert [(it.action, it.target) for it in found if it.outcome == "done"] == [
        (Action.APPROVE_IN_ADVANCE, run.id),
        (Action.RESOLVE, f"{run.id}/var1: succeeded"),
        (Action.ADD_DEMO, demo.id),
        (Action.REMOVE_DEMO, demo.id),
    ]
    assert "s3cret" not in str(found)


async def test_a_tenant_reads_its_own_and_the_operator_all(gateway: Gateway) -> None:
    boss, operator = gateway.as_principal("red-boss-token"), gateway.as_principal("operator-token")
    run = await boss.solve(ask(ASK_ROOM))
    await boss.cancel(run.id)
    with pytest.raises(Forbidden):
        await boss.audit(tenant="default")
    assert [one.action for one in await told(boss)] == [Action.REJECT]
    assert [one.action for one in await told(operator)] == [Action.POLICY, Action.PRINCIPALS, Action.REJECT]
    assert await told(operator, tenant="red") == await told(boss)
    assert await told(operator, principal="boss") == await told(boss)
    headers = {"Authorization": "Bearer operator-token"}
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/audit", f"/audit/{run.id}"):
            assert (await gateway.http.request(method, path, headers=headers)).status_code in (404, 405)


async def test_what_is_in_force_is_told_when_it_changes(database_url: str) -> None:
    changed = ({**PRINCIPALS[0], "roles": ["administer"]}, PRINCIPALS[1])
    rotated = ({**PRINCIPALS[0], "token": "another-token"}, PRINCIPALS[1])
    expected = [Action.POLICY, Action.PRINCIPALS]
    for principals, deny, more in (
        (PRINCIPALS, (), []),
        (PRINCIPALS, (), []),
        (rotated, (), []),
        (PRINCIPALS, ("crm.*",), [Action.POLICY]),
        (changed, ("crm.*",), [Action.PRINCIPALS]),
    ):
        expected += more
        async with open_gateway(database_url, principals=principals, policy_deny=deny) as gateway:
            found = await told(gateway.as_principal(principals[0]["token"]))
            assert [one.action for one in found] == expected
            assert "token" not in str(found)


async def test_a_database_of_the_version_before_is_upgraded(database_url: str) -> None:
    engine = create_engine(database_url)

    await migrate_to(engine, "gateway", "0003")
    async with engine.begin() as connection:
        columns = "id, status, query, created_at, total_ms, document, tenant, owner, epoch, takeovers, cancel_requested"
        values = "'run_1', 'failed', 'q', '2026-01-01 00:00:00', 1, '{}', 'red', '', 0, 0, false"
        await connection.exec_driver_sql(f"INSERT INTO runs ({columns}) VALUES ({values})")
    await migrate(engine, "gateway")
    async with engine.begin() as connection:
        assert (await connection.scalars(sa.select(RUNS.c.id))).all() == ["run_1"]
        found = await connection.run_sync(lambda it: compare_metadata(MigrationContext.configure(it), METADATA))
    assert found == []
    await engine.dispose()
