"""Plans that an app gives are proved, approved, followed and kept like those from the planner."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.codecs import nestful
from services.contracts.run import RunStatus
from services.contracts.start import StartRequest
from services.errors import Conflict
from tests.support.gateways import ASK_ROOM, BOOK, BOOKING, NESTED, Fakes, Gateway, ask, ended, open_gateway, until


def start(plan: Any = NESTED, **more: Any) -> StartRequest:
    return StartRequest.model_validate({"calls": nestful.encode(plan)} | more)


async def test_a_given_plan_is_run_as_it_is(gateway: Gateway) -> None:
    run = await gateway.client.start(start(query="Holidays, for the report"))
    assert (run.status, run.plan, run.query) == (RunStatus.SUCCEEDED, NESTED, "Holidays, for the report")
    assert [value.value for value in run.answer.values] == [["Labour Day", "Portugal Day"]]
    assert "plan" not in gateway.fakes.planner.calls
    assert "retrieve" not in gateway.fakes.retriever.calls
    assert [event.event.kind async for event in gateway.client.events(run.id)][-1] == "finished"
    assert await gateway.client.run(run.id) == run


async def test_its_changes_wait_for_an_approval(gateway: Gateway) -> None:
    run = await gateway.client.start(start(BOOKING))
    assert (run.status, run.digest != "") == (RunStatus.NEEDS_APPROVAL, True)
    assert [shown.request.body for shown in run.previews] == [{"room": "blue"}]
    assert gateway.fakes.executor.sent == []
    done = await gateway.client.approve(run.id, BOOKING.id, digest=run.digest)
    assert done.status is RunStatus.SUCCEEDED
    assert gateway.fakes.executor.sent == [(run.id, "var1")]


async def test_the_app_may_approve_in_advance_as_far_as_the_rules_let_it(tmp_path: Path) -> None:
    allowed = start(BOOKING, options={"mutations": "allow"})
    async with open_gateway(tmp_path) as gateway:
        assert (await gateway.client.start(allowed)).status is RunStatus.SUCCEEDED
    async with open_gateway(tmp_path, policy_rules=({"decision": "ask", "api": BOOK.id},)) as gateway:
        assert (await gateway.client.start(allowed)).status is RunStatus.NEEDS_APPROVAL
    async with open_gateway(tmp_path, policy_deny=(BOOK.id,)) as gateway:
        run = await gateway.client.start(allowed)
        assert run.status is RunStatus.NO_PLAN
        assert [diagnostic.code.value for diagnostic in run.diagnostics] == ["denied"]
        assert gateway.fakes.executor.calls.count("execute") == 0


async def test_one_that_cannot_be_proved_says_why_and_sends_nothing(gateway: Gateway) -> None:
    calls = [{"name": "world.noSuchApi", "arguments": {}, "label": "var1"}]
    run = await gateway.client.start(StartRequest.model_validate({"calls": calls}))
    assert run.status is RunStatus.NO_PLAN
    assert run.diagnostics
    assert "could not be proved" in run.reason
    assert "execute" not in gateway.fakes.executor.calls


async def test_a_dry_run_is_proved_and_nothing_is_sent(gateway: Gateway) -> None:
    run = await gateway.client.start(start(options={"dry_run": True}))
    assert (run.status, run.proof is not None) == (RunStatus.PLANNED, True)
    assert "execute" not in gateway.fakes.executor.calls


@pytest.mark.parametrize(
    "calls",
    [
        [{"arguments": {}}],
        [{"name": "a b"}],
        [{"name": "world.x", "label": "1"}],
        [{"name": "world.x", "arguments": []}],
        [{"name": "world.x", "surprise": 1}],
        [{"name": "var_result", "arguments": {}}],
        [{"name": "var_result", "arguments": {"a": "$var1$"}}, {"name": "world.x"}],
        [{"name": "world.x", "label": "v"}, {"name": "world.x", "label": "v"}],
        [{"name": "world.x", "arguments": {"a": "\ud800"}}],
        [],
        ["x"],
        {},
        None,
    ],
)
async def test_what_is_no_plan_is_refused(gateway: Gateway, calls: Any) -> None:
    response = await gateway.http.post(
        "/runs", content=_json({"calls": calls}), headers={"content-type": "application/json"}
    )
    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert (await gateway.client.runs()).runs == ()


async def test_a_plan_of_too_many_values_is_refused(gateway: Gateway) -> None:
    """Each value costs a check, so without the limit a request of 1 MB can block the service for a minute."""
    calls = [{"name": "world.x", "arguments": {"a": ["$v$"] * 5_000}}]
    response = await gateway.http.post("/runs", json={"calls": calls})
    assert (response.status_code, "5000 values" in response.json()["detail"]) == (422, True)
    assert (await gateway.client.runs()).runs == ()


async def test_a_plan_that_chooses_too_many_items_by_words_is_refused(gateway: Gateway) -> None:
    """Each choice searches all words of a list; equal choices are made once."""
    chosen = {f"$v[0].a{number}$": {"said": ["blue"]} for number in range(51)}
    calls = [
        {"name": "world.x", "arguments": {}, "label": "v"},
        {"name": "world.x", "arguments": {"a": [*chosen]}, "matches": chosen},
    ]
    response = await gateway.http.post("/runs", json={"calls": calls})
    assert (response.status_code, "more than 50 items by words" in response.json()["detail"]) == (422, True)
    assert (await gateway.client.runs()).runs == ()
    calls[1]["arguments"] = {"a": [*chosen][:50] * 20}
    assert (await gateway.http.post("/runs", json={"calls": calls})).status_code == 200


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


async def test_the_same_key_gives_the_same_run(gateway: Gateway) -> None:
    first = await gateway.client.start(start(), idempotency_key="k")
    assert (await gateway.client.start(start(), idempotency_key="k")).id == first.id
    for other in (start(BOOKING), start(query="Something else"), start(options={"dry_run": True})):
        with pytest.raises(Conflict, match="another request"):
            await gateway.client.start(other, idempotency_key="k")
    with pytest.raises(Conflict, match="another request"):
        await gateway.client.solve(ask(ASK_ROOM), idempotency_key="k")


async def test_without_waiting_it_goes_on_by_itself(gateway: Gateway) -> None:
    gateway.fakes.planner.delay_s = 0.5  # so that the run is in progress when the response comes
    response = await gateway.http.post("/runs", json=start(wait=False).model_dump(mode="json"))
    assert response.status_code == 202
    run = await ended(gateway.client, response.headers["location"].removeprefix("/runs/"))
    assert run.status is RunStatus.SUCCEEDED


async def test_one_whose_gateway_dies_before_it_is_proved_goes_on_in_another(tmp_path: Path) -> None:
    fakes = Fakes()
    database = f"sqlite+aiosqlite:///{tmp_path}/gateway.db"
    async with open_gateway(database, fakes, lease_s=0.5) as one, open_gateway(database, fakes, lease_s=0.5) as two:
        fakes.planner.delay_s = 20
        run = await one.client.start(start(wait=False))
        await until(lambda: "compile" in fakes.planner.calls)
        await one.die()
        fakes.planner.delay_s = 0
        done = await ended(two.client, run.id)
    assert (done.status, done.plan) == (RunStatus.SUCCEEDED, NESTED)


async def test_a_plan_that_the_compiler_would_complete_is_not_run(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_plan = gateway.fakes.planner.compile

    async def completed(request: Any, *rest: Any) -> Any:
        return await compile_plan(request.model_copy(update={"plan": BOOKING}), *rest)

    monkeypatch.setattr(gateway.fakes.planner, "compile", completed)
    assert (await gateway.client.start(start())).status is RunStatus.NO_PLAN
    assert "execute" not in gateway.fakes.executor.calls
