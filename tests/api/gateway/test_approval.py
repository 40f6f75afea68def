"""Approvals: bound to one plan, given once, proved again."""

import asyncio

import pytest

from services.contracts.run import Run, RunStatus
from services.errors import Conflict, NotFound, ServiceUnavailable, ValidationFailed
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, BOOK, BOOKING, NESTED, Gateway, ask, world_api


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
    with pytest.raises(ValidationFailed, match="does not hold") as caught:
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert [(e["code"], e["argument"]) for e in caught.value.extensions["errors"]] == [("missing_argument", "day")]
    await gateway.fakes.retriever.delete(BOOK.id)
    with pytest.raises(ValidationFailed, match=BOOK.id):
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert gateway.fakes.executor.requests == []
    await gateway.fakes.retriever.create(BOOK)  # as it was: the approval counts again
    assert (await gateway.client.approve(waiting.id, BOOKING.id)).status is RunStatus.SUCCEEDED


async def test_a_peer_that_is_down_leaves_the_run_waiting(gateway: Gateway, waiting: Run) -> None:
    gateway.fakes.planner.down = True
    with pytest.raises(ServiceUnavailable, match="planner_svc"):
        await gateway.client.approve(waiting.id, BOOKING.id)
    gateway.fakes.planner.down = False
    assert (await gateway.client.approve(waiting.id, BOOKING.id)).status is RunStatus.SUCCEEDED


async def test_an_executor_that_dies_ends_the_run(gateway: Gateway, waiting: Run) -> None:
    gateway.fakes.executor.breaks = True
    with pytest.raises(ServiceUnavailable, match="executor_svc"):
        await gateway.client.approve(waiting.id, BOOKING.id)
    assert (await gateway.client.run(waiting.id)).status is RunStatus.IN_DOUBT
    with pytest.raises(Conflict):  # whatever it did is done: it is not sent again
        await gateway.client.approve(waiting.id, BOOKING.id)


@pytest.mark.parametrize("plan_id", ["", "x", "0" * 65])
async def test_an_approval_that_names_no_plan(gateway: Gateway, waiting: Run, plan_id: str) -> None:
    response = await gateway.http.post(f"/runs/{waiting.id}:approve", json={"plan_id": plan_id})
    assert response.status_code == 422
