"""Reruns: repeated calls, kept results, and refusals. Planner and executor are fakes."""

import asyncio
from typing import Any

import pytest

from gateway.storage import RunStore
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.outcome import Failed, InDoubt, StoredValue, Succeeded
from services.contracts.plan import AnswerOutput, ForEach, LiteralValue, Plan, Reference, When
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run, RunStatus
from services.errors import Conflict, NotFound, QuotaExceeded, ValidationFailed
from tests.api.gateway.test_given_plans import start
from tests.support.gateways import ASK_HOLIDAYS, BOOK, FIND, HOLIDAYS, NESTED, Gateway, ask, call, open_gateway

CODE = Reference(step="var1", path=("code",))
CHAIN = Plan(
    steps=(
        call("var1", FIND, name="Portugal"),
        call("var2", BOOK, room=CODE),
        call("var3", HOLIDAYS, country=Reference(step="var2", path=("id",))),
    ),
    answer=(
        AnswerOutput(name="code", value=CODE),
        AnswerOutput(name="holidays", value=Reference(step="var3", path=("names",))),
    ),
)
BROKEN = Failed(reason="upstream_error", message="HTTP 500", status=500)


def again(from_step: str | None = None, **more: Any) -> RerunRequest:
    return RerunRequest.model_validate({"from": from_step} | more)


async def ran(gateway: Gateway, plan: Plan = CHAIN) -> Run:
    """A run of the plan with mutations allowed."""
    return await gateway.client.start(start(plan, options={"mutations": "allow"}))


async def test_what_failed_is_made_again_and_what_was_changed_is_not(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = BROKEN
    failed = await ran(gateway)
    assert failed.status is RunStatus.FAILED
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": ["Labour Day"]}, status=200)
    done = await gateway.client.rerun(failed.id, again("var3"))
    assert (done.status, done.rerun_of, done.id != failed.id) == (RunStatus.SUCCEEDED, failed.id, True)
    assert [(one.step, one.outcome, one.mutating) for one in done.resent] == [("var3", "failed", False)]
    assert [(one.step, one.mutating, one.run) for one in done.reused] == [
        ("var1", False, failed.id),
        ("var2", True, failed.id),
    ]
    assert {value.name: value.value for value in done.answer.values} == {"code": "PT", "holidays": ["Labour Day"]}
    assert "Labour Day" in done.answer.text
    assert done.plan is not None
    assert [(s.id, s.arguments) for s in done.plan.steps] == [("var3", {"country": LiteralValue(value="bkg_1")})]
    assert gateway.fakes.executor.sent == [(failed.id, "var2")]
    assert await gateway.client.run(failed.id) == failed


async def test_an_edited_change_waits_for_an_approval_of_its_own(gateway: Gateway) -> None:
    first = await ran(gateway)
    run = await gateway.client.rerun(first.id, again("var3", inputs={"var2": {"room": "green"}}))
    assert run.status is RunStatus.NEEDS_APPROVAL
    assert [(one.step, one.mutating, one.succeeded, one.edited) for one in run.resent] == [
        ("var2", True, 1, ("room",)),
        ("var3", False, 1, ()),
    ]
    assert [shown.request.body for shown in run.previews] == [{"room": "green"}]
    assert gateway.fakes.executor.sent == [(first.id, "var2")]
    assert run.plan is not None
    done = await gateway.client.approve(run.id, run.plan.id, digest=run.digest)
    assert (done.status, done.answer.values[0].value) == (RunStatus.SUCCEEDED, "PT")
    assert gateway.fakes.executor.sent == [(first.id, "var2"), (run.id, "var2")]


async def test_without_a_step_all_is_made_again_with_a_new_approval(gateway: Gateway) -> None:
    first = await ran(gateway)
    run = await gateway.client.rerun(first.id, again())
    assert (run.status, run.plan, run.reused) == (RunStatus.NEEDS_APPROVAL, CHAIN, ())
    dry = await gateway.client.rerun(first.id, again("var3", options={"dry_run": True}))
    assert (dry.status, [one.step for one in dry.resent]) == (RunStatus.PLANNED, ["var3"])
    assert gateway.fakes.executor.sent == [(first.id, "var2")]


async def test_reads_can_be_made_again_while_changes_stand(gateway: Gateway) -> None:
    first = await ran(gateway)
    done = await gateway.client.rerun(first.id, again("var3", reuse=False))
    assert done.status is RunStatus.SUCCEEDED
    assert [one.step for one in done.resent] == ["var1", "var3"]
    assert [one.step for one in done.reused] == ["var2"]
    assert gateway.fakes.executor.sent == [(first.id, "var2")]


async def test_a_large_value_is_taken_over_in_full(gateway: Gateway) -> None:
    kept = StoredValue(id="a" * 64, bytes=10)
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": "P..."}, status=200, stored=kept)
    first = await gateway.client.start(start())
    with pytest.raises(Conflict, match="no longer kept"):
        await gateway.client.rerun(first.id, again("var2"))
    gateway.fakes.executor.values[kept.id] = {"code": "PORTUGAL"}
    done = await gateway.client.rerun(first.id, again("var2"))
    assert done.plan is not None
    assert done.plan.steps[0].arguments == {"country": LiteralValue(value="PORTUGAL")}


async def test_the_beginning_of_an_answer_is_not_taken_for_it(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": "P..."}, status=200, kept=False)
    first = await gateway.client.start(start())
    with pytest.raises(Conflict, match="which succeeded, was not kept"):
        await gateway.client.rerun(first.id, again("var2"))


async def test_reruns_that_come_together_read_in_turn_until_the_tenant_has_read_its_share(gateway: Gateway) -> None:
    kept = StoredValue(id="a" * 64, bytes=20_000_000)
    gateway.fakes.executor.values[kept.id] = {"code": "PORTUGAL"}
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": "P..."}, status=200, stored=kept)
    first = await gateway.client.start(start())
    asked = (gateway.client.rerun(first.id, again("var2")) for _ in range(20))
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in found if isinstance(one, Exception)] == [QuotaExceeded] * 18  # 20 MB: 667 requests


async def test_large_values_that_parts_are_taken_from_are_counted(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is parsed in full, for whatever part of it goes into the plan."""
    charged: list[tuple[str, int]] = []
    monkeypatch.setattr(gateway.app.state.service.quotas, "read", lambda *read: charged.append(read))
    kept = StoredValue(id="a" * 64, bytes=20_000_000)
    gateway.fakes.executor.values[kept.id] = {"code": "PORTUGAL"}
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": "P..."}, status=200, stored=kept)
    first = await gateway.client.start(start())
    await gateway.client.rerun(first.id, again("var2"))
    assert [one for one in charged if one[1] > 1_000] == [(first.tenant, 20_000_000)]  # the others are bodies
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = BROKEN
    found = [call(f"var{number}", FIND, name="Spain") for number in (1, 2)]
    used = [call(f"var{n + 2}", HOLIDAYS, country=Reference(step=f"var{n}", path=("code",))) for n in (1, 2)]
    second = await gateway.client.start(start(Plan(steps=(*found, *used), answer=CHAIN.answer[:1])))
    with pytest.raises(ValidationFailed, match="too large"):
        await gateway.client.rerun(second.id, again("var3"))


async def test_a_value_that_is_too_large_for_a_plan_is_refused(tmp_path: Any) -> None:
    async with open_gateway(tmp_path, max_body_bytes=2_000) as gateway:
        gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": "P" * 2_000}, status=200)
        first = await gateway.client.start(start())
        with pytest.raises(ValidationFailed, match="too large"):
            await gateway.client.rerun(first.id, again("var2"))
        assert (await gateway.client.rerun(first.id, again())).status is RunStatus.SUCCEEDED


async def test_values_that_are_too_many_are_refused_before_they_are_put_in(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reference copies the value; thousands of copies of an answer within its limit would exceed the memory."""
    async with open_gateway(tmp_path, max_body_bytes=100_000) as gateway:
        gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": "P" * 1_000}, status=200)
        gateway.fakes.executor.outcomes[HOLIDAYS.id] = BROKEN
        many = (call(f"var{number}", HOLIDAYS, country=CODE) for number in range(2, 202))
        answer = AnswerOutput(name="code", value=CODE)
        first = await gateway.client.start(start(Plan(steps=(CHAIN.steps[0], *many), answer=(answer,))))
        assert first.status is RunStatus.FAILED
        monkeypatch.setattr("gateway.rerunning._with_literals", lambda *_: pytest.fail("they were put in"))
        with pytest.raises(ValidationFailed, match="too large"):
            await gateway.client.rerun(first.id, again("var2"))


async def test_inputs_hold_no_more_values_than_a_plan_that_is_given(gateway: Gateway) -> None:
    first = await ran(gateway)
    for many in ([1] * 5_001, {str(number): 1 for number in range(5_001)}, [[[]] * 2_000, [{}] * 3_001]):
        with pytest.raises(ValidationFailed, match="more than 5000 values"):
            await gateway.client.rerun(first.id, again("var3", inputs={"var3": {"country": many}}))


async def test_a_loop_and_a_condition_over_values_that_stand(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": ["PT", "ES"]}, status=200)
    loop = call("var2", HOLIDAYS).model_copy(
        update={
            "arguments": {"country": LiteralValue(value="x")},
            "foreach": ForEach(items=CODE),
            "when": When(left=Reference(step="var1", path=("missing",)), op="exists"),
            "after": ("var1",),
        }
    )
    plan = Plan(steps=(NESTED.steps[0], loop), answer=(AnswerOutput(name="all", value=Reference(step="var2")),))
    first = await gateway.client.solve(ask(ASK_HOLIDAYS))
    store: RunStore = gateway.app.state.service._store
    stored = await store.stored(first.id, first.tenant)
    await store.replace(stored, first.model_copy(update={"plan": plan}))
    done = await gateway.client.rerun(first.id, again("var2"))
    assert done.plan is not None
    assert done.plan.steps[0].foreach == ForEach(items=LiteralValue(value=["PT", "ES"]))
    assert done.plan.steps[0].when == When(left=LiteralValue(value=None), op="exists")
    assert done.plan.steps[0].after == ()


async def test_a_list_that_goes_on_is_told_as_such_in_reruns_too(gateway: Gateway) -> None:
    """Also in a rerun of a rerun, and through a change, which is not made again."""
    gateway.fakes.executor.outcomes[FIND.id] = Succeeded(value={"code": ["PT"], "total": 9}, status=200)
    gateway.fakes.executor.cut = frozenset({FIND.id})
    first = await ran(gateway)
    assert first.status is RunStatus.SUCCEEDED
    second = await gateway.client.rerun(first.id, again("var3"))
    third = await gateway.client.rerun(second.id, again("var3"))
    for rerun in (second, third):
        assert rerun.plan is not None
        assert rerun.plan.steps[0].arguments == {"country": LiteralValue(value="bkg_1", partial=True)}
    gateway.fakes.executor.cut = frozenset()
    whole = await gateway.client.rerun((await ran(gateway)).id, again("var3"))
    assert whole.plan is not None
    assert whole.plan.steps[0].arguments == {"country": LiteralValue(value="bkg_1")}


async def test_what_did_not_succeed_before_the_step_stands_in_the_way(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = BROKEN
    failed = await ran(gateway)
    for step in ("var2", "var3"):
        with pytest.raises(Conflict, match="var1 comes before"):
            await gateway.client.rerun(failed.id, again(step))
    waits = await gateway.client.rerun(failed.id, again("var1"))
    assert [(one.step, one.outcome) for one in waits.resent] == [
        ("var1", "failed"),
        ("var2", "skipped"),
        ("var3", "skipped"),
    ]


async def test_a_call_in_doubt_is_settled_or_made_again_by_name(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="it broke off")
    doubtful = await ran(gateway)
    assert doubtful.status is RunStatus.IN_DOUBT
    with pytest.raises(Conflict, match="settle it"):
        await gateway.client.rerun(doubtful.id, again("var3"))
    waits = await gateway.client.rerun(doubtful.id, again("var2"))
    assert (waits.status, waits.resent[0].outcome) == (RunStatus.NEEDS_APPROVAL, "in_doubt")


async def test_a_plan_that_does_not_hold_any_more_is_refused(gateway: Gateway) -> None:
    first = await gateway.client.start(start())
    with pytest.raises(ValidationFailed, match="is not valid with the current APIs"):
        await gateway.client.rerun(first.id, again("var2", inputs={"var2": {"county": "PT"}}))
    await gateway.fakes.retriever.delete_provider("world", tenant=None)
    with pytest.raises(ValidationFailed, match="is not valid with the current APIs"):
        await gateway.client.rerun(first.id, again("var2"))
    assert len((await gateway.client.runs()).runs) == 1


async def test_one_that_could_not_be_proved_can_be_asked_again(gateway: Gateway) -> None:
    calls = ({"name": "world.noSuchApi", "arguments": {}, "label": "var1"},)
    run = await gateway.client.start(start().model_copy(update={"calls": calls}))
    assert run.status is RunStatus.NO_PLAN
    with pytest.raises(ValidationFailed, match="is not valid with the current APIs"):
        await gateway.client.rerun(run.id, again("var1"))


async def test_a_rerun_of_a_rerun_keeps_what_stood(gateway: Gateway) -> None:
    first = await ran(gateway)
    second = await gateway.client.rerun(first.id, again("var3"))
    third = await gateway.client.rerun(second.id, again(inputs={"var3": {"country": "ES"}}))
    assert (third.rerun_of, [one.run for one in third.reused]) == (second.id, [first.id, first.id])
    assert [value.name for value in third.answer.values] == ["code", "holidays"]
    with pytest.raises(ValidationFailed, match="no step var1"):
        await gateway.client.rerun(second.id, again("var1"))


async def test_nothing_is_learnt_of_values_of_another_run(gateway: Gateway) -> None:
    first = await gateway.client.start(start())
    second = await gateway.client.rerun(first.id, again("var2"))
    with pytest.raises(Conflict, match="values of another run"):
        await gateway.client.judge(second.id, FeedbackRequest(verdict=Verdict.CONFIRMED))
    whole = await gateway.client.rerun(first.id, again())
    assert (await gateway.client.judge(whole.id, FeedbackRequest(verdict=Verdict.CONFIRMED))).feedback is not None


async def test_the_same_key_gives_the_same_rerun(gateway: Gateway) -> None:
    first, other = await gateway.client.start(start()), await gateway.client.start(start())
    one = await gateway.client.rerun(first.id, again(), idempotency_key="k")
    assert (await gateway.client.rerun(first.id, again(), idempotency_key="k")).id == one.id
    with pytest.raises(Conflict, match="another request"):
        await gateway.client.rerun(other.id, again(), idempotency_key="k")
    with pytest.raises(Conflict, match="another request"):
        await gateway.client.start(start(), idempotency_key="k")


async def test_whose_run_it_is_and_whether_it_is_over(tmp_path: Any) -> None:
    principals = tuple({"name": n, "tenant": n, "token": f"{n}-token", "roles": ["ask"]} for n in ("red", "blue"))
    async with open_gateway(tmp_path, principals=principals) as gateway:
        red, blue = gateway.as_principal("red-token"), gateway.as_principal("blue-token")
        first = await red.start(start())
        with pytest.raises(NotFound):
            await blue.rerun(first.id, again())
        with pytest.raises(NotFound):
            await red.rerun("run_none", again())
        gateway.fakes.planner.delay_s = 20
        under_way = await red.start(start(wait=False))
        with pytest.raises(Conflict, match="once it has ended"):
            await red.rerun(under_way.id, again())
        await red.cancel(under_way.id)


@pytest.mark.parametrize(
    "body",
    [
        {"from": "var9"},
        {"from": "a b"},
        {"from": 1},
        {"inputs": {"var9": {"x": 1}}},
        {"inputs": {"var1": []}},
        {"inputs": {"var1": {"": 1}}},
        {"from_step": ["var1"]},
        {"surprise": 1},
        {"options": {"backend": "compact"}},
        [],
        None,
    ],
)
async def test_bad_requests(gateway: Gateway, body: Any) -> None:
    first = await gateway.client.start(start())
    response = await gateway.http.post(f"/runs/{first.id}:rerun", json=body)
    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert len((await gateway.client.runs()).runs) == 1
