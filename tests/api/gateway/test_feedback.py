"""Confirmed and rejected runs on both databases, and the demos made from confirmed ones."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.contracts.demo import Demo
from services.contracts.feedback import Feedback, FeedbackRequest, Judged, Verdict
from services.contracts.outcome import Failed, InDoubt
from services.contracts.planning import PlanResponse, Question
from services.contracts.run import Run, RunStatus
from services.errors import Conflict, NotFound, ServiceUnavailable
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, BOOK, FIND, NESTED, Gateway, ask, open_gateway

PRINCIPALS = (
    {"name": "shop", "tenant": "red", "token": "red-token-1"},
    {"name": "desk", "tenant": "red", "token": "red-token-2"},
    {"name": "rival", "tenant": "blue", "token": "blue-token-1"},
)
CONFIRM, REJECT = FeedbackRequest(verdict=Verdict.CONFIRMED), FeedbackRequest(verdict=Verdict.REJECTED)


async def counted(gateway: Gateway, verdict: Verdict) -> float:
    lines = (await gateway.http.get("/metrics")).text.splitlines()
    start = f'nestor_run_feedback_total{{verdict="{verdict.value}"}} '
    return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)


async def test_the_last_word_counts_and_the_same_word_twice_changes_nothing(either: Gateway) -> None:
    client = either.client
    run = await client.solve(ask(ASK_HOLIDAYS))
    assert run.feedback is None
    began = datetime.now(UTC)
    confirmed = await client.judge(run.id, CONFIRM)
    assert confirmed.feedback is not None
    assert (confirmed.feedback.verdict, confirmed.feedback.reason) == (Verdict.CONFIRMED, "")
    assert confirmed.feedback.principal == "anonymous"
    assert began <= confirmed.feedback.at <= datetime.now(UTC)
    assert confirmed.model_copy(update={"feedback": None}) == run
    assert await client.run(run.id) == confirmed
    assert await client.judge(run.id, CONFIRM) == confirmed
    assert await counted(either, Verdict.CONFIRMED) == 1

    wrong = REJECT.model_copy(update={"reason": "the year was wrong"})
    rejected = await client.judge(run.id, wrong)
    assert rejected.feedback is not None
    assert (rejected.feedback.verdict, rejected.feedback.reason) == (Verdict.REJECTED, "the year was wrong")
    assert await client.judge(run.id, wrong) == rejected == await client.run(run.id)
    assert await client.judge(run.id, REJECT) != rejected  # another reason is new feedback
    assert await counted(either, Verdict.REJECTED) == 2


async def test_runs_are_listed_by_what_was_said_of_them(either: Gateway) -> None:
    ids = [(await either.client.solve(ask(ASK_HOLIDAYS))).id for _ in range(4)]
    await either.client.judge(ids[0], CONFIRM)
    await either.client.judge(ids[1], REJECT)
    await either.client.judge(ids[3], REJECT)
    await either.client.judge(ids[3], CONFIRM)

    async def listed(**which: Any) -> list[tuple[str, Verdict | None]]:
        return [(line.id, line.verdict) for line in (await either.client.runs(**which)).runs]

    assert await listed(feedback=Judged.CONFIRMED) == [(ids[3], Verdict.CONFIRMED), (ids[0], Verdict.CONFIRMED)]
    assert await listed(feedback=Judged.REJECTED) == [(ids[1], Verdict.REJECTED)]
    assert await listed(feedback=Judged.NONE) == [(ids[2], None)]
    assert await listed(feedback=Judged.CONFIRMED, status="failed") == []
    assert [run_id for run_id, _ in await listed()] == ids[::-1]


async def outcome(gateway: Gateway, status: RunStatus) -> Run:
    """A run in this state."""
    query, options = ASK_HOLIDAYS, dict[str, Any]()
    match status:
        case RunStatus.PLANNED:
            options = {"dry_run": True}
        case RunStatus.FAILED:
            gateway.fakes.executor.outcomes[FIND.id] = Failed(reason="timeout", message="too slow")
        case RunStatus.NEEDS_INPUT:
            question = Question(step="var1", api=FIND.id, argument="name", text="Which country?")
            asking = PlanResponse(status="needs_input", questions=(question,), backend="scripted")
            gateway.fakes.planner.answers[ASK_HOLIDAYS] = asking
        case RunStatus.NO_PLAN:
            query = "Make me a sandwich"
        case RunStatus.NEEDS_APPROVAL | RunStatus.CANCELLED:
            query = ASK_ROOM
        case RunStatus.IN_DOUBT:
            query, options = ASK_ROOM, {"mutations": "allow"}
            gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    run = await gateway.client.solve(ask(query, **options))
    if status is RunStatus.CANCELLED:
        run = await gateway.client.cancel(run.id)
    assert run.status is status
    return run


@pytest.mark.parametrize(
    ("status", "verdicts"),
    [
        (RunStatus.SUCCEEDED, (Verdict.CONFIRMED, Verdict.REJECTED)),
        (RunStatus.PLANNED, (Verdict.CONFIRMED, Verdict.REJECTED)),
        (RunStatus.FAILED, (Verdict.REJECTED,)),
        (RunStatus.NO_PLAN, (Verdict.REJECTED,)),
        (RunStatus.NEEDS_INPUT, (Verdict.REJECTED,)),
        (RunStatus.CANCELLED, (Verdict.REJECTED,)),
        (RunStatus.NEEDS_APPROVAL, ()),
        (RunStatus.IN_DOUBT, ()),
    ],
)
async def test_what_may_be_said_of_a_run(gateway: Gateway, status: RunStatus, verdicts: tuple[Verdict, ...]) -> None:
    run = await outcome(gateway, status)
    for verdict in Verdict:
        body = {"verdict": verdict.value}
        response = await gateway.http.post(f"/runs/{run.id}/feedback", json=body)
        if verdict in verdicts:
            assert (response.status_code, response.json()["feedback"]["verdict"]) == (200, verdict.value)
        else:
            assert (response.status_code, response.headers["content-type"]) == (409, "application/problem+json")
            assert status.value in response.json()["detail"]
    said = (await gateway.client.run(run.id)).feedback
    assert (said and said.verdict) == (verdicts[-1] if verdicts else None)


async def test_what_was_said_stays_when_the_run_is_cancelled(gateway: Gateway) -> None:
    run = await outcome(gateway, RunStatus.NEEDS_INPUT)
    said = (await gateway.client.judge(run.id, REJECT)).feedback
    cancelled = await gateway.client.cancel(run.id)
    assert (cancelled.status, cancelled.feedback) == (RunStatus.CANCELLED, said)
    assert await gateway.client.run(run.id) == cancelled


async def test_a_run_under_way_is_not_judged(gateway: Gateway) -> None:
    gateway.fakes.executor.gate = asyncio.Event()
    run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    with pytest.raises(Conflict, match="once it has ended"):
        await gateway.client.judge(run.id, REJECT)
    await gateway.client.cancel(run.id)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{}", 422),
        (b"[]", 422),
        (b"{", 400),
        (b'{"verdict": "fine"}', 422),
        (b'{"verdict": null}', 422),
        (b'{"verdict": ["confirmed"]}', 422),
        (b'{"verdict": "confirmed", "by": "me"}', 422),
        (b'{"verdict": "confirmed", "reason": null}', 422),
        (b'{"verdict": "confirmed", "reason": "' + b"x" * 1_001 + b'"}', 422),
        (b'{"verdict": "confirmed", "reason": "\\ud800"}', 400),
    ],
)
async def test_bad_feedback_is_a_clear_problem(gateway: Gateway, body: bytes, status: int) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    response = await gateway.http.post(
        f"/runs/{run.id}/feedback", content=body, headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert (await gateway.client.run(run.id)).feedback is None
    assert (await gateway.http.get("/runs?feedback=fine")).status_code == 422


@pytest.mark.parametrize("reason", ["a\x00b", "x" * 1_000, "\u202e%s{}--';\x1b[2J", "\U0001f600 " + "é" * 900])
async def test_a_reason_of_odd_characters_is_kept_as_it_is(either: Gateway, reason: str) -> None:
    run = await either.client.solve(ask(ASK_HOLIDAYS))
    await either.client.judge(run.id, FeedbackRequest(verdict=Verdict.REJECTED, reason=reason))
    said = (await either.client.run(run.id)).feedback
    assert said is not None
    assert said.reason == reason


async def test_a_verdict_is_no_event_and_what_was_followed_is_as_it_was(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    before = [event async for event in gateway.client.events(run.id)]
    await gateway.client.judge(run.id, CONFIRM)
    assert [event async for event in gateway.client.events(run.id)] == before
    assert [event async for event in gateway.client.events(run.id, before[1].id)] == before[2:]
    ended = await gateway.http.get(f"/runs/{run.id}/events", headers={"Last-Event-ID": str(before[-1].id)})
    assert ended.status_code == 204


async def test_only_a_confirmed_run_becomes_a_demonstration_and_it_goes_when_the_run_is_rejected(
    gateway: Gateway,
) -> None:
    client = gateway.client
    run = await client.solve(ask(ASK_HOLIDAYS))
    for said in (None, REJECT):
        if said is not None:
            await client.judge(run.id, said)
        with pytest.raises(Conflict, match="not confirmed"):
            await client.demonstrate(run.id)
    assert (await client.demos()).total == 0
    await client.judge(run.id, CONFIRM)
    response = await gateway.http.post(f"/v1/runs/{run.id}:demo")
    demo = Demo.model_validate(response.json())
    assert (response.status_code, demo.query, demo.plan, demo.source) == (201, ASK_HOLIDAYS, NESTED, run.id)
    assert await client.demonstrate(run.id) == demo
    assert (await client.demos()).demos == (demo,)
    await client.judge(run.id, REJECT)
    assert (await client.demos()).total == 0


async def test_a_demonstration_from_elsewhere_stays_when_an_equal_run_is_rejected(gateway: Gateway) -> None:
    own = await gateway.client.add_demo(Demo(query=ASK_HOLIDAYS, plan=NESTED, source="by hand"))
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    await gateway.client.judge(run.id, CONFIRM)
    await gateway.client.demonstrate(run.id)
    await gateway.client.judge(run.id, REJECT)
    assert (await gateway.client.demos()).demos == (own,)


async def test_only_an_administrator_removes_a_demonstration_by_rejecting_its_run(tmp_path: Path) -> None:
    """Whoever may not make or remove demonstrations only marks the run, even one that another asker confirms again."""
    asker = {"name": "asker", "tenant": "default", "token": "asker-token-1", "roles": ["ask", "approve"]}
    boss = {"name": "boss", "tenant": "default", "token": "boss-token-1", "roles": ["ask", "administer"]}
    async with open_gateway(tmp_path, principals=(asker, boss)) as gateway:
        asking, administering = gateway.as_principal("asker-token-1"), gateway.as_principal("boss-token-1")
        run = await asking.solve(ask(ASK_HOLIDAYS))
        await asking.judge(run.id, CONFIRM)
        own = await administering.demonstrate(run.id)
        shared = await administering.demonstrate(run.id, shared=True)
        rejected = await asking.judge(run.id, REJECT)
        assert rejected.feedback is not None
        assert rejected.feedback.verdict is Verdict.REJECTED
        assert {own.id, shared.id} == {demo.id for demo in (await asking.demos()).demos} | set(
            gateway.fakes.demos.demos
        )
        assert gateway.fakes.demos.demos
        assert gateway.fakes.demos.private
        await administering.judge(run.id, REJECT)
        assert (await asking.demos()).total == 0
        assert not gateway.fakes.demos.demos


async def test_a_tenant_that_rejects_its_run_removes_no_demonstration_that_the_operator_shared(tmp_path: Path) -> None:
    operator = {"name": "boss", "tenant": "default", "token": "boss-token-1"}
    asker = {"name": "asker", "tenant": "red", "token": "asker-token-1", "roles": ["ask"]}
    async with open_gateway(tmp_path, principals=(*PRINCIPALS, operator, asker)) as gateway:
        red, boss = gateway.as_principal("asker-token-1"), gateway.as_principal("boss-token-1")
        run = await red.solve(ask(ASK_HOLIDAYS))
        await red.judge(run.id, CONFIRM)
        own = await gateway.as_principal("red-token-1").demonstrate(run.id)
        shared = await boss.add_demo(own, shared=True)
        assert shared.source == run.id
        await gateway.as_principal("red-token-1").judge(run.id, REJECT)
        assert set(gateway.fakes.demos.demos) == {shared.id}
        assert not gateway.fakes.demos.private


async def test_a_rejection_is_repeated_for_a_demonstration_that_could_not_be_removed(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    await gateway.client.judge(run.id, CONFIRM)
    await gateway.client.demonstrate(run.id)
    gateway.fakes.demos.down = True
    with pytest.raises(ServiceUnavailable):
        await gateway.client.judge(run.id, REJECT)
    gateway.fakes.demos.down = False
    said = (await gateway.client.run(run.id)).feedback
    assert said is not None
    assert said.verdict is Verdict.REJECTED
    assert (await gateway.client.demos()).total == 1
    assert (await gateway.client.judge(run.id, REJECT)).feedback == said
    assert (await gateway.client.demos()).total == 0
    assert await counted(gateway, Verdict.REJECTED) == 1


async def test_a_run_that_was_confirmed_and_shown_while_it_was_being_rejected(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    store = gateway.app.state.service._store
    judge = store.judge

    async def last(run_id: str, said: Feedback) -> None:
        if said.verdict is Verdict.REJECTED:  # it was read before anybody had said anything
            await gateway.client.judge(run_id, CONFIRM)
            await gateway.client.demonstrate(run_id)
        await judge(run_id, said)

    monkeypatch.setattr(store, "judge", last)
    await gateway.client.judge(run.id, REJECT)
    assert (await gateway.client.demos()).total == 0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("end", ["rejected", "deleted"])
async def test_a_demonstration_of_a_run_that_is_given_up_meanwhile_is_taken_back(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, end: str, shared: bool
) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    await gateway.client.judge(run.id, CONFIRM)
    add = gateway.fakes.demos.add

    async def late(demo: Demo, *, tenant: str | None = None) -> Demo:
        await (gateway.client.judge(run.id, REJECT) if end == "rejected" else gateway.client.delete_run(run.id))
        return await add(demo, tenant=tenant)

    monkeypatch.setattr(gateway.fakes.demos, "add", late)
    with pytest.raises(Conflict if end == "rejected" else NotFound):
        await gateway.client.demonstrate(run.id, shared=shared)
    assert (await gateway.client.demos()).total == 0


async def test_who_said_it_is_kept_and_another_tenant_has_no_say(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as gateway:
        shop, desk, rival = (gateway.as_principal(token) for token in ("red-token-1", "red-token-2", "blue-token-1"))
        run = await shop.solve(ask(ASK_HOLIDAYS))
        by_shop = await shop.judge(run.id, CONFIRM)
        for attempt in (rival.judge(run.id, REJECT), rival.demonstrate(run.id)):
            with pytest.raises(NotFound, match=run.id):
                await attempt
        assert await shop.run(run.id) == by_shop
        assert by_shop.feedback is not None
        assert by_shop.feedback.principal == "shop"
        by_desk = await desk.judge(run.id, CONFIRM)
        assert by_desk.feedback is not None
        assert by_desk.feedback.principal == "desk"
        assert (await rival.runs(feedback=Judged.CONFIRMED)).runs == ()
        with pytest.raises(NotFound):
            await shop.judge("run_nowhere", CONFIRM)
        unknown = await gateway.http.post(f"/runs/{run.id}/feedback", json={"verdict": "confirmed"})
        assert unknown.status_code == 401
