"""Calls in doubt are listed and settled by a person, then the run continues. Also reading large values in full."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.stored_values import stored_values
from services.contracts.access import Action
from services.contracts.doubt import ResolveRequest
from services.contracts.outcome import (
    Failed,
    InDoubt,
    ItemRecord,
    Skipped,
    StepOutcome,
    StepRecord,
    StoredValue,
    Succeeded,
)
from services.contracts.plan import Plan
from services.contracts.run import Run, RunStatus
from services.errors import Conflict, NotFound, ServiceUnavailable
from tests.fakes import FakeExecutor
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    ASK_TWO_ROOMS,
    BOOK,
    FIND,
    TWO_ROOMS,
    Fakes,
    Gateway,
    ask,
    ended,
    open_gateway,
)

DONE = Succeeded(value={"id": "bkg_1"}, status=201)
TOOK_EFFECT = ResolveRequest(outcome="succeeded", value={"id": "bkg_9"})


@pytest.fixture
async def doubtful(gateway: Gateway) -> Run:
    gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    run = await gateway.client.solve(ask(ASK_TWO_ROOMS, mutations="allow"))
    assert run.status is RunStatus.IN_DOUBT
    assert [(doubt.step, doubt.api, doubt.message) for doubt in run.doubts] == [("var1", BOOK.id, "no answer")]
    gateway.fakes.executor.outcomes[BOOK.id] = DONE
    return run


@pytest.mark.parametrize(
    ("said", "outcomes", "status"),
    [
        (TOOK_EFFECT, [Succeeded(value={"id": "bkg_9"}), DONE], RunStatus.SUCCEEDED),
        (ResolveRequest(outcome="retry"), [DONE, DONE], RunStatus.SUCCEEDED),
        (
            ResolveRequest(outcome="failed", message="asked them"),
            [Failed(reason="upstream_error", message="asked them"), Skipped(because="var1")],
            RunStatus.FAILED,
        ),
    ],
)
async def test_a_run_goes_on_when_its_doubt_is_settled(
    gateway: Gateway, doubtful: Run, said: ResolveRequest, outcomes: list[StepOutcome], status: RunStatus
) -> None:
    before = [event async for event in gateway.client.events(doubtful.id)]
    run = await gateway.client.resolve(doubtful.id, "var1", said)
    assert (run.id, run.status, run.doubts) == (doubtful.id, status, ())
    assert [record.outcome for record in run.steps] == outcomes
    assert await gateway.client.run(run.id) == run
    later = [event async for event in gateway.client.events(run.id, before[-1].id)]
    assert later[-1].event.kind == "finished"
    assert min(event.id for event in later) > before[-1].id
    with pytest.raises(Conflict, match=f"{status.value}; none of its calls"):
        await gateway.client.resolve(run.id, "var1", said)


async def test_without_waiting_the_run_is_found_under_its_address(gateway: Gateway, doubtful: Run) -> None:
    gateway.fakes.executor.gate = asyncio.Event()
    path = f"/runs/{doubtful.id}/steps/var1:resolve?wait=false"
    response = await gateway.http.post(path, json={"outcome": "retry"})
    assert (response.status_code, response.json()["status"]) == (202, "running")
    assert response.headers["location"] == f"/runs/{doubtful.id}"
    gateway.fakes.executor.gate.set()
    assert (await ended(gateway.client, doubtful.id)).status is RunStatus.SUCCEEDED


async def test_what_is_not_in_doubt_cannot_be_settled(gateway: Gateway, doubtful: Run) -> None:
    for step, error in (("var2", Conflict), ("var9", NotFound)):
        with pytest.raises(error):
            await gateway.client.resolve(doubtful.id, step, TOOK_EFFECT)
    assert await gateway.client.run(doubtful.id) == doubtful
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    with pytest.raises(Conflict, match="needs_approval"):
        await gateway.client.resolve(waiting.id, "var1", TOOK_EFFECT)
    with pytest.raises(NotFound):
        await gateway.client.resolve("run_none", "var1", TOOK_EFFECT)


async def test_an_executor_that_is_down_leaves_the_doubt(gateway: Gateway, doubtful: Run) -> None:
    gateway.fakes.executor.down = True
    with pytest.raises(ServiceUnavailable, match="executor_svc"):
        await gateway.client.resolve(doubtful.id, "var1", TOOK_EFFECT)
    gateway.fakes.executor.down = False
    assert await gateway.client.run(doubtful.id) == doubtful
    assert (await gateway.client.resolve(doubtful.id, "var1", TOOK_EFFECT)).status is RunStatus.SUCCEEDED


async def test_a_doubt_that_the_executor_saw_settled_before_is_caught_up_with(gateway: Gateway, doubtful: Run) -> None:
    """The state after a gateway died between settling the call at the executor and resuming its run."""
    await gateway.fakes.executor.resolve(doubtful.id, "var1", TOOK_EFFECT)
    run = await gateway.client.resolve(doubtful.id, "var1", TOOK_EFFECT)
    assert run.status is RunStatus.SUCCEEDED
    assert [record.outcome for record in run.steps] == [Succeeded(value={"id": "bkg_9"}), DONE]


@pytest.mark.parametrize("answers", ["conflict", "state"])
async def test_of_several_who_settle_at_once_one_sets_the_run_running(
    gateway: Gateway, doubtful: Run, answers: str
) -> None:
    gateway.fakes.executor.tolerant = answers == "state"
    said = [ResolveRequest(outcome="succeeded", value={"id": f"bkg_{n}"}) for n in range(5)]
    attempts = (gateway.client.resolve(doubtful.id, "var1", one) for one in said)
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert {type(result) for result in results} <= {Run, Conflict}
    assert [result.status for result in results if isinstance(result, Run)].count(RunStatus.SUCCEEDED) >= 1
    assert gateway.fakes.executor.sent.count((doubtful.id, "var2")) == 1
    assert (await gateway.client.run(doubtful.id)).status is RunStatus.SUCCEEDED
    told = (await gateway.client.audit(actions=[Action.RESOLVE])).entries
    assert [entry.outcome for entry in told].count("done") == 1
    assert {entry.outcome for entry in told} <= {"begun", "done", "refused"}


async def test_who_repeats_a_settlement_whose_answer_was_lost_is_audited_as_done(
    gateway: Gateway, doubtful: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = gateway.fakes.executor.resolve

    async def answer_lost(*arguments: Any) -> None:
        await settle(*arguments)
        raise ServiceUnavailable("executor_svc does not answer.", service="executor_svc")

    with monkeypatch.context() as broken:
        broken.setattr(gateway.fakes.executor, "resolve", answer_lost)
        with pytest.raises(ServiceUnavailable):
            await gateway.client.resolve(doubtful.id, "var1", TOOK_EFFECT)
    assert (await gateway.client.resolve(doubtful.id, "var1", TOOK_EFFECT)).status is RunStatus.SUCCEEDED
    told = (await gateway.client.audit(actions=[Action.RESOLVE])).entries
    assert [entry.outcome for entry in told] == ["done", "begun", "unknown", "begun"]


async def test_a_run_stays_in_doubt_until_the_last_is_settled(tmp_path: Path) -> None:
    fakes = Fakes()
    steps = tuple(step.model_copy(update={"after": ()}) for step in TWO_ROOMS.steps)
    fakes.planner.plans["Book two rooms at once"] = Plan(steps=steps, answer=TWO_ROOMS.answer)
    fakes.executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    async with open_gateway(tmp_path, fakes) as gateway:
        run = await gateway.client.solve(ask("Book two rooms at once", mutations="allow"))
        assert [doubt.step for doubt in run.doubts] == ["var1", "var2"]
        left = await gateway.client.resolve(run.id, "var1", TOOK_EFFECT)
        assert (left.status, [doubt.step for doubt in left.doubts]) == (RunStatus.IN_DOUBT, ["var2"])
        assert await gateway.client.run(run.id) == left
        done = await gateway.client.resolve(run.id, "var2", TOOK_EFFECT)
        assert (done.status, done.doubts) == (RunStatus.SUCCEEDED, ())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("steps/var1:resolve", {"outcome": "maybe"}),
        ("steps/var1:resolve", {}),
        ("steps/var1:resolve", {"outcome": "retry", "item": -1}),
        ("steps/var1:resolve", {"outcome": "retry", "message": "x" * 1_001}),
        ("steps/var1:resolve?wait=perhaps", {"outcome": "retry"}),
        ("steps/%00:resolve", {"outcome": "retry"}),
        ("steps/" + "v" * 65 + ":resolve", {"outcome": "retry"}),
    ],
)
async def test_bad_settlements_are_clear_problems(
    gateway: Gateway, doubtful: Run, path: str, body: dict[str, object]
) -> None:
    response = await gateway.http.post(f"/runs/{doubtful.id}/{path}", json=body)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert gateway.fakes.executor.resolved == []


async def test_a_large_value_is_read_through_the_run_that_has_it(gateway: Gateway) -> None:
    executor: FakeExecutor = gateway.fakes.executor
    large, foreign = "a" * 64, "b" * 64
    executor.values = {large: {"rows": [1, 2.5, "\u2028", None, 2**70]}, foreign: "secret of others"}
    stored = StoredValue(id=large, bytes=400_000)
    executor.outcomes[FIND.id] = Succeeded(value={"code": "PT"}, stored=stored)
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert await gateway.client.value(run.id, large) == executor.values[large]
    for value_id in (foreign, "c" * 64):
        with pytest.raises(NotFound, match="no stored value"):
            await gateway.client.value(run.id, value_id)
    del executor.values[large]
    with pytest.raises(NotFound, match="no value"):
        await gateway.client.value(run.id, large)
    for value_id in ("a" * 63, "A" * 64, "%00", "a" * 65):
        assert (await gateway.http.get(f"/runs/{run.id}/values/{value_id}")).status_code == 422
    assert executor.calls.count("value") == 2


async def test_large_values_that_are_asked_for_at_once_are_not_all_read(gateway: Gateway) -> None:
    executor: FakeExecutor = gateway.fakes.executor
    executor.values = {"a" * 64: {"rows": []}}
    executor.outcomes[FIND.id] = Succeeded(value={"code": "PT"}, stored=StoredValue(id="a" * 64, bytes=10_000_000))
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    asked = (gateway.http.get(f"/runs/{run.id}/values/{'a' * 64}") for _ in range(30))
    began = time.monotonic()
    statuses = Counter(answer.status_code for answer in await asyncio.gather(*asked))
    came_back = 100 * (time.monotonic() - began)  # requests; each value counts as 334, of 1,000 at first
    read = executor.calls.count("value")
    assert 3 <= read <= 3 + came_back / 334
    assert statuses == {200: read, 429: 30 - read}


def test_values_of_items_belong_to_the_run_too() -> None:
    item = ItemRecord(index=0, outcome=Succeeded(stored=StoredValue(id="d" * 64, bytes=1)))
    record = StepRecord(
        step="var1", api="a.b", outcome=InDoubt(message="x"), started_ms=0, duration_ms=0, items=(item,)
    )
    run = Run(id="r", status=RunStatus.IN_DOUBT, query="q", created_at=datetime.now(UTC), steps=(record,))
    assert stored_values(run).keys() == {"d" * 64}
