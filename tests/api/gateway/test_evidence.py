"""Replanning with evidence when calls find nothing: the gateway's part, independent of the planner."""

import asyncio
from pathlib import Path

import pytest

from services.contracts.doubt import ResolveRequest
from services.contracts.event import RunPlanned
from services.contracts.outcome import Failed, InDoubt, Skipped, StepOutcome, StoredValue, Succeeded
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.run import Run, RunStatus
from services.errors import ServiceUnavailable
from tests.support.gateways import (
    BOOK,
    FIND,
    HOLIDAYS,
    Fakes,
    Gateway,
    ask,
    call,
    ended,
    open_gateway,
    until,
    world_api,
)

REGION = world_api("findRegion", "Find a region by name", "name")
PLACE = world_api("findPlace", "Find a place by name", "name")
QUERY = "Which holidays does the country Bavaria have? Book a room there, or find a region or place by name"
GONE = Failed(reason="upstream_error", message="the upstream answered 404", status=404, detail={"why": "no such name"})
FOUND = Succeeded(value={"code": "BY"}, status=200)


def holidays(search: str) -> Plan:
    """A plan that looks a name up with this search and lists the holidays."""
    found = {api.id: api for api in (FIND, REGION, PLACE)}[f"world.{search}"]
    steps = (
        call("var1", found, name="Bavaria"),
        call("var2", HOLIDAYS, country=Reference(step="var1", path=("code",))),
    )
    return Plan(steps=steps, answer=(AnswerOutput(name="holidays", value=Reference(step="var2", path=("names",))),))


def booking(search: str, room: str = "code") -> Plan:
    """A plan that looks a name up with this search and books a room from its result."""
    found = {api.id: api for api in (FIND, REGION, PLACE)}[f"world.{search}"]
    steps = (call("var1", found, name="Bavaria"), call("var2", BOOK, room=Reference(step="var1", path=(room,))))
    return Plan(steps=steps, answer=(AnswerOutput(name="booking", value=Reference(step="var2", path=("id",))),))


@pytest.fixture
def fakes(gateway: Gateway) -> Fakes:
    """Fakes with two more searches; the first search finds nothing."""
    return made(gateway.fakes)


def made(fakes: Fakes) -> Fakes:
    fakes.retriever.apis |= {REGION.id: REGION, PLACE.id: PLACE}
    fakes.executor.outcomes |= {FIND.id: GONE, REGION.id: FOUND, PLACE.id: FOUND}
    return fakes


def learnt(run: Run) -> list[str]:
    return [one.outcome for one in run.evidence]


async def test_the_planner_is_told_what_came_back(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = holidays("findCountry"), [holidays("findRegion")]
    run = await gateway.client.solve(ask(QUERY))
    assert (run.status, learnt(run)) == (RunStatus.SUCCEEDED, ["replanned"])
    first, second = fakes.planner.requests
    assert first.evidence == ()
    (attempt,) = second.evidence
    assert (attempt.api, attempt.arguments) == (FIND.id, {"name": '"Bavaria"'})
    assert (attempt.outcome, attempt.reason) == ("not_found", '{"why":"no such name"}')
    assert second.deadline_ms is not None
    assert first.deadline_ms is not None
    assert second.deadline_ms <= first.deadline_ms
    assert run.evidence[0].plan == holidays("findCountry")
    assert [record.step for record in run.evidence[0].steps] == ["var1", "var2"]
    assert run.plan == holidays("findRegion")
    assert await gateway.client.run(run.id) == run
    told = [event.event async for event in gateway.client.events(run.id)]
    assert [event.run.plan for event in told if isinstance(event, RunPlanned)] == [run.evidence[0].plan, run.plan]
    text = (await gateway.http.get("/metrics")).text
    assert 'nestor_evidence_rounds_total{outcome="replanned"} 1.0' in text
    assert 'nestor_evidence_attempts_total{outcome="not_found"} 1.0' in text


async def test_a_plan_that_was_tried_ends_it(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY] = holidays("findCountry")
    fakes.executor.outcomes[REGION.id] = GONE
    fakes.planner.again[QUERY] = [holidays("findRegion"), holidays("findCountry")]
    run = await gateway.client.solve(ask(QUERY))
    assert (run.status, learnt(run)) == (RunStatus.FAILED, ["replanned", "same_plan"])
    assert run.plan == holidays("findRegion")
    assert len(fakes.planner.requests) == 3
    assert len(fakes.executor.requests) == 2


async def test_the_budget_holds(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY] = holidays("findCountry")
    fakes.executor.outcomes |= {REGION.id: GONE, PLACE.id: GONE}
    fakes.planner.again[QUERY] = [holidays("findRegion"), holidays("findPlace"), holidays("findCountry")]
    run = await gateway.client.solve(ask(QUERY))
    assert (run.status, learnt(run)) == (RunStatus.FAILED, ["replanned", "replanned"])
    assert (len(fakes.planner.requests), len(fakes.executor.requests)) == (3, 3)


@pytest.mark.parametrize("how", ["option", "setting"])
async def test_it_can_be_switched_off(tmp_path: Path, how: str) -> None:
    fakes = made(Fakes())
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = holidays("findCountry"), [holidays("findRegion")]
    async with open_gateway(tmp_path, fakes, evidence_attempts=0 if how == "setting" else 2) as gateway:
        run = await gateway.client.solve(ask(QUERY, evidence=how == "setting"))
    assert (run.status, run.evidence) == (RunStatus.FAILED, ())
    assert len(fakes.planner.requests) == 1


@pytest.mark.parametrize(
    "failed",
    [
        Failed(reason="upstream_error", message="503", status=503),
        Failed(reason="upstream_error", message="422, without a word", status=422),
        Failed(reason="upstream_error", message="403", status=403, detail="not for you"),
        Failed(reason="timeout", message="too late"),
    ],
)
async def test_what_says_nothing_of_the_plan_is_no_evidence(gateway: Gateway, fakes: Fakes, failed: Failed) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = holidays("findCountry"), [holidays("findRegion")]
    fakes.executor.outcomes[FIND.id] = failed
    run = await gateway.client.solve(ask(QUERY))
    assert (run.status, run.evidence) == (RunStatus.FAILED, ())


@pytest.mark.parametrize(
    ("value", "evidence"),
    [({"code": None}, True), ({"code": ""}, True), ({}, True), ([], True), ({"code": "BY"}, False)],
)
async def test_a_search_without_what_is_needed_is_empty(
    gateway: Gateway, fakes: Fakes, value: dict[str, str | None], evidence: bool
) -> None:
    fakes.planner.plans[QUERY] = holidays("findCountry")
    fakes.executor.outcomes |= {
        FIND.id: Succeeded(value=value),
        HOLIDAYS.id: Failed(reason="reference", message="var2: nothing there"),
    }
    run = await gateway.client.solve(ask(QUERY))
    assert [one.attempts[0].outcome for one in run.evidence] == ["empty"] * evidence


@pytest.mark.parametrize(
    "other",
    [
        booking("findRegion"),  # it has a mutating call, unlike the first plan
        Plan(
            steps=(*holidays("findRegion").steps, call("var3", BOOK, room="blue")), answer=holidays("findRegion").answer
        ),
    ],
)
async def test_no_change_is_added(gateway: Gateway, fakes: Fakes, other: Plan) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = holidays("findCountry"), [other]
    run = await gateway.client.solve(ask(QUERY, mutations="allow"))
    assert (run.status, learnt(run)) == (RunStatus.FAILED, ["other_changes"])
    assert run.plan == holidays("findCountry")
    assert fakes.executor.sent == []


@pytest.mark.parametrize(
    "other",
    [
        holidays("findRegion"),  # the plan without the mutating call
        Plan(steps=(call("var1", BOOK, room="red"),), answer=()),
        Plan(steps=(*booking("findRegion").steps, call("var3", BOOK, room="red")), answer=booking("findRegion").answer),
    ],
)
async def test_no_change_is_another_one_or_left_out(gateway: Gateway, fakes: Fakes, other: Plan) -> None:
    if not other.answer:
        other = Plan(
            steps=other.steps, answer=(AnswerOutput(name="booking", value=Reference(step="var1", path=("id",))),)
        )
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = booking("findCountry"), [other]
    run = await gateway.client.solve(ask(QUERY, mutations="allow"))
    assert (run.status, learnt(run)) == (RunStatus.FAILED, ["other_changes"])
    assert fakes.executor.sent == []


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("mutations", ["allow", "ask"])
async def test_a_change_takes_no_value_of_another_provider_unless_somebody_is_asked(
    gateway: Gateway, fakes: Fakes, mutations: str, through: bool
) -> None:
    """Neither directly, nor through a read of the same provider."""
    elsewhere = REGION.model_copy(update={"provider": "elsewhere"})
    fakes.retriever.apis[REGION.id] = elsewhere
    fakes.planner.plans[QUERY] = booking("findCountry")
    other = booking("findRegion")
    if through:
        code = Reference(step="var1", path=("code",))
        steps = (
            other.steps[0],
            call("var3", PLACE, name=code),
            call("var2", BOOK, room=Reference(step="var3", path=("code",))),
        )
        other = Plan(steps=steps, answer=other.answer)
    fakes.planner.again[QUERY] = [other]
    run = await gateway.client.solve(ask(QUERY, mutations=mutations))
    if mutations == "allow":
        assert (run.status, learnt(run), fakes.executor.sent) == (RunStatus.FAILED, ["other_changes"], [])
    else:
        run = await gateway.client.approve(run.id, booking("findCountry").id)
        assert (run.status, run.plan, fakes.executor.sent) == (RunStatus.NEEDS_APPROVAL, other, [])


async def test_a_change_behind_another_search_is_sent_once(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = booking("findCountry"), [booking("findRegion")]
    run = await gateway.client.solve(ask(QUERY, mutations="allow"))
    assert (run.status, learnt(run)) == (RunStatus.SUCCEEDED, ["replanned"])
    assert fakes.executor.sent == [(f"{run.id}.1", "var2")]


@pytest.mark.parametrize(
    "booked",
    [
        Succeeded(value={"id": "bkg_1"}),
        Failed(reason="upstream_error", message="409", status=409),
        InDoubt(message="no answer"),
    ],
)
async def test_nothing_is_tried_once_a_change_has_begun(gateway: Gateway, fakes: Fakes, booked: StepOutcome) -> None:
    steps = (call("var1", BOOK, room="blue"), call("var2", FIND, name="Bavaria"))
    both = Plan(steps=steps, answer=(AnswerOutput(name="code", value=Reference(step="var2", path=("code",))),))
    fakes.planner.plans[QUERY] = both
    fakes.planner.again[QUERY] = [
        Plan(steps=(steps[0], call("var2", REGION, name="Bavaria")), answer=both.answer),
    ]
    fakes.executor.outcomes[BOOK.id] = booked
    run = await gateway.client.solve(ask(QUERY, mutations="allow"))
    assert run.status in (RunStatus.FAILED, RunStatus.IN_DOUBT)
    assert run.evidence == ()
    assert len(fakes.executor.sent) == 1


async def test_another_plan_is_approved_for_itself(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = booking("findCountry"), [booking("findRegion")]
    waiting = await gateway.client.solve(ask(QUERY))
    assert waiting.status is RunStatus.NEEDS_APPROVAL
    again = await gateway.client.approve(waiting.id, booking("findCountry").id)
    assert (again.status, again.plan, again.approval) == (RunStatus.NEEDS_APPROVAL, booking("findRegion"), None)
    assert again.evidence[0].approval is not None
    assert fakes.executor.sent == []
    done = await gateway.client.approve(waiting.id, booking("findRegion").id)
    assert done.status is RunStatus.SUCCEEDED
    assert fakes.executor.sent == [(f"{waiting.id}.1", "var2")]


async def test_a_doubt_of_another_plan_is_settled(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = booking("findCountry"), [booking("findRegion")]
    fakes.executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    run = await gateway.client.solve(ask(QUERY, mutations="allow"))
    assert run.status is RunStatus.IN_DOUBT
    settled = await gateway.client.resolve(run.id, "var2", ResolveRequest(outcome="succeeded", value={"id": "bkg_7"}))
    assert settled.status is RunStatus.SUCCEEDED
    assert fakes.executor.sent == [(f"{run.id}.1", "var2")]


async def test_where_the_planner_is_away_the_first_plan_stands(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY] = holidays("findCountry")
    plan = fakes.planner.plan

    async def once(request, timeout_s=1.0):  # type: ignore[no-untyped-def]
        if request.evidence:
            raise ServiceUnavailable("away", service="planner_svc")
        return await plan(request, timeout_s)

    fakes.planner.plan = once  # type: ignore[method-assign]
    run = await gateway.client.solve(ask(QUERY))
    assert (run.status, learnt(run)) == (RunStatus.FAILED, ["unasked"])
    assert [record.outcome for record in run.steps] == [GONE, Skipped(because="var1")]


async def test_large_values_of_plans_that_gave_way_can_be_had(gateway: Gateway, fakes: Fakes) -> None:
    kept = StoredValue(id="ab" * 32, bytes=10_000_000)
    steps = (call("var0", PLACE, name="Bavaria"), *holidays("findCountry").steps)
    fakes.planner.plans[QUERY] = Plan(steps=steps, answer=holidays("findCountry").answer)
    fakes.planner.again[QUERY] = [holidays("findRegion")]
    fakes.executor.outcomes[PLACE.id] = Succeeded(value={"code": "..."}, stored=kept)
    fakes.executor.values[kept.id] = {"code": "BY"}
    run = await gateway.client.solve(ask(QUERY))
    assert learnt(run) == ["replanned"]
    assert await gateway.client.value(run.id, kept.id) == {"code": "BY"}


async def test_a_gateway_that_takes_a_run_over_knows_what_was_tried(tmp_path: Path) -> None:
    fakes = made(Fakes())
    fakes.planner.plans[QUERY] = booking("findCountry")
    fakes.planner.again[QUERY] = [booking("findRegion"), booking("findPlace")]
    fakes.executor.outcomes[REGION.id] = GONE
    plan = fakes.planner.plan

    async def held(request, timeout_s=1.0):  # type: ignore[no-untyped-def]
        if request.evidence:
            fakes.executor.gate = asyncio.Event()  # the new plan's run starts and does not end
        return await plan(request, timeout_s)

    fakes.planner.plan = held  # type: ignore[method-assign]
    async with (
        open_gateway(tmp_path, fakes, lease_s=0.5, evidence_attempts=1) as one,
        open_gateway(tmp_path, fakes, lease_s=0.5, evidence_attempts=1) as two,
    ):
        request = ask(QUERY, mutations="allow").model_copy(update={"wait": False})
        accepted = await one.client.solve(request)
        await until(lambda: len(fakes.executor.requests) == 2)
        await one.die()
        fakes.executor.gate = None
        run = await ended(two.client, accepted.id)
    assert (run.status, learnt(run)) == (RunStatus.FAILED, ["replanned"])
    assert run.plan == booking("findRegion")
    assert fakes.executor.sent == []
    assert [request.run_id for request in fakes.executor.requests[1:]] == [f"{run.id}.1"] * 2


async def test_a_cancelled_run_is_not_planned_again(gateway: Gateway, fakes: Fakes) -> None:
    fakes.planner.plans[QUERY], fakes.planner.again[QUERY] = booking("findCountry"), [booking("findRegion")]
    plan = fakes.planner.plan
    asked = asyncio.Event()

    async def slowly(request, timeout_s=1.0):  # type: ignore[no-untyped-def]
        if request.evidence:
            asked.set()
            await asyncio.Event().wait()
        return await plan(request, timeout_s)

    fakes.planner.plan = slowly  # type: ignore[method-assign]
    accepted = await gateway.client.solve(ask(QUERY, mutations="allow").model_copy(update={"wait": False}))
    await asked.wait()
    await gateway.client.cancel(accepted.id)
    run = await ended(gateway.client, accepted.id)
    assert run.status is RunStatus.CANCELLED
    assert [record.step for record in run.steps] == ["var1", "var2"]
    assert fakes.executor.sent == []
