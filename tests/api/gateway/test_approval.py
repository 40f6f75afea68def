"""Approvals are bound to one plan and count once; the plan is proved again at the approval."""

import asyncio
import threading
from pathlib import Path

import pytest
from pydantic import JsonValue

from services.contracts.api import NeededSecret, NeededSecrets, SecretKind, SecurityRequirement
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, StepRecord
from services.contracts.plan import content_hash
from services.contracts.run import Run, RunStatus
from services.contracts.secret import SecretTest, SecretTestRequest
from services.errors import Conflict, NotFound, ServiceUnavailable, ValidationFailed
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOK,
    BOOKING,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
    world_api,
)


@pytest.fixture
async def waiting(gateway: Gateway) -> Run:
    run = await gateway.client.solve(ask(ASK_ROOM))
    assert run.status is RunStatus.NEEDS_APPROVAL
    assert run.proof is not None
    assert run.proof.approvals == ("var1",)
    assert "execute" not in gateway.fakes.executor.calls
    return run


async def test_an_approved_plan_is_run_once(gateway: Gateway, waiting: Run) -> None:
    run = await gateway.client.approve(waiting.id, BOOKING.id)
    assert (run.id, run.status) == (waiting.id, RunStatus.SUCCEEDED)
    assert [value.value for value in run.answer.values] == ["bkg_1"]
    assert [request.approved for request in gateway.fakes.executor.requests] == [BOOKING.id]
    assert await gateway.client.run(run.id) == run
    with pytest.raises(Conflict, match="succeeded"):
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert len(gateway.fakes.executor.requests) == 1


async def test_of_two_approvals_at_the_same_time_one_counts(gateway: Gateway, waiting: Run) -> None:
    attempts = (gateway.client.approve(waiting.id, BOOKING.id) for _ in range(5))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 4 + ["Run"]
    assert len(gateway.fakes.executor.requests) == 1


async def test_an_approval_is_for_one_plan_only(gateway: Gateway, waiting: Run) -> None:
    with pytest.raises(Conflict, match="another plan"):
        await gateway.client.approve(waiting.id, NESTED.id)
    assert (await gateway.client.run(waiting.id)).status is RunStatus.NEEDS_APPROVAL
    with pytest.raises(NotFound):
        await gateway.client.approve("run_none", BOOKING.id)
    reading = await gateway.client.solve(ask(ASK_HOLIDAYS))
    with pytest.raises(Conflict, match="does not wait"):
        await gateway.client.approve(reading.id, NESTED.id)
    assert [request.run_id for request in gateway.fakes.executor.requests] == [reading.id]


async def test_a_plan_that_does_not_hold_any_more_is_not_run(gateway: Gateway, waiting: Run) -> None:
    await gateway.fakes.retriever.update(world_api("bookRoom", "Book a room", "room", "day", method="POST"))
    with pytest.raises(ValidationFailed, match="is not valid with the current APIs") as caught:
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert [(e["code"], e["argument"]) for e in caught.value.extensions["errors"]] == [("missing_argument", "day")]
    await gateway.fakes.retriever.delete(BOOK.id)
    with pytest.raises(ValidationFailed, match=BOOK.id):
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert gateway.fakes.executor.requests == []
    await gateway.fakes.retriever.create(BOOK)  # the API is as before, so the approval is accepted
    assert (await gateway.client.approve(waiting.id, BOOKING.id)).status is RunStatus.SUCCEEDED


async def test_a_peer_that_is_down_leaves_the_run_waiting(gateway: Gateway, waiting: Run) -> None:
    gateway.fakes.planner.down = True
    with pytest.raises(ServiceUnavailable, match="planner_svc"):
        await gateway.client.approve(waiting.id, BOOKING.id)
    gateway.fakes.planner.down = False
    assert (await gateway.client.approve(waiting.id, BOOKING.id)).status is RunStatus.SUCCEEDED


async def test_an_executor_that_dies_is_asked_again_and_the_plan_is_run_once(gateway: Gateway, waiting: Run) -> None:
    gateway.fakes.executor.breaks = True
    approving = asyncio.create_task(gateway.client.approve(waiting.id, BOOKING.id))
    await until(lambda: len(gateway.fakes.executor.requests) > 1)
    gateway.fakes.executor.breaks = False
    assert (await approving).status is RunStatus.SUCCEEDED
    assert gateway.fakes.executor.sent == [(waiting.id, "var1")]
    assert {request.approved for request in gateway.fakes.executor.requests} == {BOOKING.id}


async def test_who_approved_is_in_the_record(tmp_path: Path) -> None:
    people = (
        {"name": "shop", "tenant": "t1", "token": "shop-token"},
        {"name": "desk", "tenant": "t1", "token": "desk-token"},
    )
    async with open_gateway(tmp_path, principals=people) as gateway:
        shop, desk = gateway.as_principal("shop-token"), gateway.as_principal("desk-token")
        run = await shop.solve(ask(ASK_ROOM))
        approved = await desk.approve(run.id, BOOKING.id, on_behalf_of="Ada")
        assert run.approval is None
        assert approved.approval is not None
        assert (approved.approval.plan_id, approved.approval.approver) == (BOOKING.id, "desk")
        assert approved.approval.on_behalf_of == "Ada"
        assert run.created_at <= approved.approval.at
        assert (await shop.run(run.id)).approval == approved.approval


async def test_a_waiting_run_shows_what_would_go_out(waiting: Run) -> None:
    (shown,) = waiting.previews
    assert (shown.step, shown.request.method, shown.request.url) == ("var1", "POST", "http://world.example/bookRoom")
    assert shown.request.body == {"room": "blue"}
    assert shown.complete


async def test_what_an_approval_covers_is_hashed_beside_the_event_loop(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[int]()

    def watched(content: JsonValue) -> str:
        threads.append(threading.get_ident())
        return content_hash(content)

    monkeypatch.setattr("gateway.approval.content_hash_in_parts", watched)
    run = await gateway.client.solve(ask(ASK_ROOM))
    assert len(run.digest) == 64
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_requests_that_are_not_those_that_were_shown_need_another_look(gateway: Gateway, waiting: Run) -> None:
    await gateway.fakes.retriever.update(BOOK.model_copy(update={"server": "http://elsewhere.example"}))
    with pytest.raises(Conflict, match="differ from those that were shown"):
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert "execute" not in gateway.fakes.executor.calls
    again = await gateway.client.run(waiting.id)
    assert again.status is RunStatus.NEEDS_APPROVAL
    assert [shown.request.url for shown in again.previews] == ["http://elsewhere.example/bookRoom"]
    for digest in (None, waiting.digest):  # the reviewed state is not the current one
        with pytest.raises(Conflict, match="Review the run again"):
            await gateway.client.approve(waiting.id, BOOKING.id, digest=digest)
    approved = await gateway.client.approve(waiting.id, BOOKING.id, digest=again.digest)
    assert approved.status is RunStatus.SUCCEEDED
    assert approved.approval is not None
    assert approved.approval.digest == again.digest != waiting.digest


async def test_an_api_that_changed_at_all_needs_another_look(gateway: Gateway, waiting: Run) -> None:
    await gateway.fakes.retriever.update(BOOK.model_copy(update={"summary": "Books a room"}))
    with pytest.raises(Conflict, match="differ from those that were shown"):
        await gateway.client.approve(waiting.id, BOOKING.id, digest=waiting.digest)
    again = await gateway.client.run(waiting.id)
    assert (await gateway.client.approve(waiting.id, BOOKING.id, digest=again.digest)).status is RunStatus.SUCCEEDED


async def test_what_reads_give_at_the_execution_is_what_was_approved_or_the_run_waits_again(
    gateway: Gateway, waiting: Run
) -> None:
    gateway.fakes.executor.found = "another order"
    again = await gateway.client.approve(waiting.id, BOOKING.id, digest=waiting.digest)
    assert (again.status, again.approval, gateway.fakes.executor.sent) == (RunStatus.NEEDS_APPROVAL, None, [])
    assert [lapsed.digest for lapsed in again.lapsed] == [waiting.digest]
    assert again.digest not in ("", waiting.digest)
    assert "Nothing was sent" in again.reason
    with pytest.raises(Conflict):
        await gateway.client.approve(waiting.id, BOOKING.id)
    done = await gateway.client.approve(waiting.id, BOOKING.id, digest=again.digest)
    assert (done.status, done.reason) == (RunStatus.SUCCEEDED, "")
    assert gateway.fakes.executor.sent == [(f"{waiting.id}.1", "var1")]


async def test_a_dry_run_reads_nothing_and_shows_what_is_read_before_it_is_approved(gateway: Gateway) -> None:
    gateway.fakes.executor.found = "an order"
    dry = await gateway.client.plan(ask(ASK_ROOM))
    assert (dry.status, dry.digest) == (RunStatus.NEEDS_APPROVAL, "")
    with pytest.raises(Conflict, match="Review the run again"):
        await gateway.client.approve(dry.id, BOOKING.id)
    shown = await gateway.client.run(dry.id)
    assert (await gateway.client.approve(dry.id, BOOKING.id, digest=shown.digest)).status is RunStatus.SUCCEEDED


async def test_reads_that_fail_before_an_approval_end_the_run(gateway: Gateway) -> None:
    lost = Failed(reason="connection", message="nobody answers")
    record = StepRecord(step="var1", api=BOOK.id, outcome=lost, started_ms=0, duration_ms=0, attempts=0)
    gateway.fakes.executor.unreadable = ExecutionFinished(status="failed", records=(record,), duration_ms=0)
    run = await gateway.client.solve(ask(ASK_ROOM))
    assert (run.status, run.steps, run.previews) == (RunStatus.FAILED, (record,), ())


async def test_what_cannot_be_read_again_keeps_the_run_waiting(gateway: Gateway, waiting: Run) -> None:
    lost = Failed(reason="connection", message="nobody answers")
    record = StepRecord(step="var1", api=BOOK.id, outcome=lost, started_ms=0, duration_ms=0, attempts=0)
    gateway.fakes.executor.unreadable = ExecutionFinished(status="failed", records=(record,), duration_ms=0)
    await gateway.fakes.retriever.update(BOOK.model_copy(update={"server": "http://elsewhere.example"}))
    with pytest.raises(Conflict, match="nobody answers"):
        await gateway.client.approve(waiting.id, BOOKING.id, digest=waiting.digest)
    assert await gateway.client.run(waiting.id) == waiting


async def test_without_waiting_the_run_is_found_under_its_address(gateway: Gateway, waiting: Run) -> None:
    gateway.fakes.executor.gate = asyncio.Event()
    response = await gateway.http.post(f"/runs/{waiting.id}:approve", json={"plan_id": BOOKING.id, "wait": False})
    assert (response.status_code, response.json()["status"]) == (202, "running")
    assert response.headers["location"] == f"/runs/{waiting.id}"
    gateway.fakes.executor.gate.set()
    assert (await ended(gateway.client, waiting.id)).status is RunStatus.SUCCEEDED


async def test_the_operators_rules_are_asked_again(tmp_path: Path) -> None:
    rules = ({"decision": "ask", "api": "world.*", "tenant": "default"}, {"decision": "deny", "method": "DELETE"})
    async with open_gateway(tmp_path, policy_rules=rules) as gateway:
        run = await gateway.client.solve(ask(ASK_ROOM))
        asked = gateway.fakes.planner.requests[0].policy
        assert [rule.decision for rule in asked.rules] == ["ask", "deny"]
        assert asked.tenant == "default"
    strict = ({"decision": "deny", "api": "world.book*"},)
    async with open_gateway(tmp_path, policy_rules=strict) as gateway:
        with pytest.raises(ValidationFailed, match="is not valid with the current APIs") as caught:
            await gateway.client.approve(run.id, BOOKING.id)
        assert [e["code"] for e in caught.value.extensions["errors"]] == ["denied"]
        assert (await gateway.client.run(run.id)).status is RunStatus.NEEDS_APPROVAL


@pytest.mark.parametrize("plan_id", ["", "x", "0" * 65])
async def test_an_approval_that_names_no_plan(gateway: Gateway, waiting: Run, plan_id: str) -> None:
    response = await gateway.http.post(f"/runs/{waiting.id}:approve", json={"plan_id": plan_id})
    assert response.status_code == 422


async def test_a_plan_without_its_key_waits_for_it(gateway: Gateway) -> None:
    key = SecurityRequirement(scheme="key", kind=SecretKind.API_KEY, secret="world.key")
    await gateway.fakes.retriever.update(BOOK.model_copy(update={"security": ((key,),)}))
    run = await gateway.client.solve(ask(ASK_ROOM))
    assert run.status is RunStatus.NEEDS_APPROVAL
    assert run.proof is not None
    assert run.proof.missing == ("world.key",)
    with pytest.raises(ValidationFailed, match=r"nestor secrets set world\.key"):
        await gateway.client.approve(run.id, BOOKING.id)
    assert (await gateway.client.run(run.id)).status is RunStatus.NEEDS_APPROVAL
    gateway.fakes.executor.secrets = ("world.key",)
    assert (await gateway.client.approve(run.id, BOOKING.id)).status is RunStatus.SUCCEEDED


async def test_a_run_without_its_key_sends_nothing(gateway: Gateway) -> None:
    key = SecurityRequirement(scheme="key", kind=SecretKind.API_KEY, secret="world.key")
    await gateway.fakes.retriever.update(HOLIDAYS.model_copy(update={"security": ((key,),)}))
    assert (await gateway.client.plan(ask(ASK_HOLIDAYS))).status is RunStatus.PLANNED
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.steps) == (RunStatus.FAILED, ())
    assert "nestor secrets set world.key" in run.reason
    assert "execute" not in gateway.fakes.executor.calls
    (needed,) = (await gateway.client.secrets("world")).secrets
    assert (needed.secret, needed.configured) == ("world.key", False)
    with pytest.raises(NotFound):
        await gateway.client.try_secret("world.other")


@pytest.mark.parametrize(("rule", "sent"), [("allow", True), ("ask", False), ("deny", False)])
async def test_a_credential_is_tried_only_with_calls_that_the_rules_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, sent: bool
) -> None:
    key = SecurityRequirement(scheme="key", kind=SecretKind.API_KEY, secret="world.key")
    probe = HOLIDAYS.model_copy(update={"security": ((key,),)})
    needed = NeededSecret(**key.model_dump(), probe=probe.id, harmless=True)
    asked: list[SecretTestRequest] = []

    async def secrets(_provider: str, *, tenant: str | None = None) -> NeededSecrets:
        return NeededSecrets(secrets=(needed,))

    async def try_it(request: SecretTestRequest) -> SecretTest:
        asked.append(request)
        return SecretTest(outcome="ready", message="as told")

    async with open_gateway(tmp_path, policy_rules=({"decision": rule, "path": probe.path},)) as gateway:
        await gateway.fakes.retriever.update(probe)
        monkeypatch.setattr(gateway.fakes.retriever, "secrets", secrets)
        monkeypatch.setattr(gateway.fakes.executor, "test_secret", try_it)
        await gateway.client.try_secret("world.key")
    assert [one.send for one in asked] == [sent]
