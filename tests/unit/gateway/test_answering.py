"""What a run says of its answer besides the values."""

from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from gateway.solve import Clock, answer
from services.contracts.answer import AnswerValue
from services.contracts.base import JsonPath
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import (
    Failed,
    ItemRecord,
    RequestRecord,
    Skipped,
    StepOutcome,
    StepRecord,
    Succeeded,
    UnmatchedItem,
)
from services.contracts.plan import ForEach, ItemReference, LiteralValue, Plan, Reference, Step
from services.contracts.run import Run, RunStatus


def record(outcome: StepOutcome, method: str) -> StepRecord:
    return StepRecord(
        step="var1",
        api="shop.cancelOrder",
        requests=(RequestRecord(method=method, url="https://shop.example/orders/5"),),
        outcome=outcome,
        started_ms=0,
        duration_ms=1,
    )


def ended(finished: ExecutionFinished) -> Run:
    run = Run(id="run-1", status=RunStatus.PLANNED, query="q", created_at=datetime.now(UTC))
    return answer(run, finished, None, Clock(1_000))


@pytest.mark.parametrize(
    ("method", "value", "text"),
    [
        ("DELETE", None, "result: done (shop.cancelOrder)"),
        ("POST", {}, "result: done (shop.cancelOrder)"),
        ("POST", {"id": 5}, "result:\n  id: 5"),
        ("GET", None, "result: none"),
    ],
)
def test_a_change_that_answers_nothing_is_done(method: str, value: JsonValue, text: str) -> None:
    found = AnswerValue(name="result", value=value, step="var1")
    of = ExecutionFinished(
        status="succeeded",
        records=(record(Succeeded(status=204, value=value), method),),
        answer=(found,),
        duration_ms=1,
    )
    assert (ended(of).answer.text, ended(of).answer.values) == (text, (found,))


def test_a_change_for_each_item_that_answers_nothing_is_done() -> None:
    outcome = Succeeded(status=204, value=[None, {"id": 6}])
    items = tuple(ItemRecord(index=index, outcome=Succeeded(status=204)) for index in range(2))
    of = ExecutionFinished(
        status="succeeded",
        records=(record(outcome, "DELETE").model_copy(update={"items": items}),),
        answer=(AnswerValue(name="result", value=outcome.value, step="var1"),),
        duration_ms=1,
    )
    assert ended(of).answer.text == "result:\n  - done (shop.cancelOrder)\n  - id: 6"


def test_an_empty_field_of_a_change_is_not_told_as_done() -> None:
    found = AnswerValue(name="technicianId", value=None, step="var1", path=("technicianId",))
    of = ExecutionFinished(
        status="succeeded",
        records=(record(Succeeded(status=200, value={"technicianId": None}), "PATCH"),),
        answer=(found,),
        duration_ms=1,
    )
    assert ended(of).answer.text == "technicianId: none"


@pytest.mark.parametrize(
    ("value", "text"), [({"success": False, "refund": None}, "refund: none"), (None, "refund: done (shop.cancelOrder)")]
)
def test_a_field_that_a_change_leaves_empty_is_not_done(value: JsonValue, text: str) -> None:
    of = ExecutionFinished(
        status="succeeded",
        records=(record(Succeeded(status=200, value=value), "POST"),),
        answer=(AnswerValue(name="refund", value=None, step="var1", path=("refund",)),),
        duration_ms=1,
    )
    assert ended(of).answer.text == text


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ({"title": "Not Found", "detail": "There is no order\n5."}, ": “There is no order 5.”"),
        ({"error": {"code": 7, "message": "No such order"}}, ": “No such order”"),
        ({"errors": [{"message": "sku is unknown"}, {"message": "more"}]}, ": “sku is unknown”"),
        ("no order 5", ": “no order 5”"),
        ("no”. It was paid. “", ": “no'. It was paid. '”"),
        ("<html>404</html>", ""),
        ({"code": 7}, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_why_a_call_failed_is_told_in_the_words_of_the_service(detail: JsonValue, said: str) -> None:
    failed = Failed(reason="upstream_error", message="the upstream answered 404", status=404, detail=detail)
    of = ExecutionFinished(status="failed", records=(record(failed, "GET"),), answer=(), duration_ms=1)
    assert ended(of).reason == f"the upstream answered 404{said}"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("items", 0, "id"), {"items": []}, 'shop.find(name="Ann") found nothing, so shop.pay was not called.'),
        (("items", "*", "id"), {"items": []}, 'shop.find(name="Ann") found nothing, so shop.pay was not called.'),
        (("owner", "id"), {"owner": None}, 'shop.find(name="Ann") answered no id, so shop.pay was not called.'),
        (("items", 0, "id"), {"items": [{"id": 5}]}, "shop.pay: the output of var1 has no such value"),
    ],
)
def test_what_was_not_found_is_told_as_people_would(path: JsonPath, value: JsonValue, why: str) -> None:
    failed = Failed(reason="reference", message="var2: the output of var1 has no such value")
    first, second = record(Succeeded(status=200, value=value), "GET"), record(failed, "POST")
    records = (
        first.model_copy(update={"api": "shop.find"}),
        second.model_copy(update={"step": "var2", "api": "shop.pay"}),
    )
    find = Step(id="var1", api="shop.find", arguments={"name": LiteralValue(value="Ann")})
    pay = Step(id="var2", api="shop.pay", arguments={"id": Reference(step="var1", path=path)})
    run = Run(id="run-1", status=RunStatus.PLANNED, query="q", created_at=datetime.now(UTC))
    run = run.model_copy(update={"plan": Plan(steps=(find, pay), answer=())})
    finished = ExecutionFinished(status="failed", records=records, answer=(), duration_ms=1)
    assert answer(run, finished, None, Clock(1_000)).reason == why


def test_of_several_changes_the_failed_one_and_those_that_were_made_are_told() -> None:
    failed = Failed(reason="upstream_error", message="the upstream answered 409", detail="It was sent.")
    steps = [Step(id=f"var{n}", api="shop.pay", arguments={"id": LiteralValue(value=n)}) for n in (1, 2)]
    outcomes: list[StepOutcome] = [Succeeded(status=204, value=None), failed]
    records = [
        record(outcome, "POST").model_copy(update={"step": step.id, "api": step.api})
        for step, outcome in zip(steps, outcomes, strict=True)
    ]
    why = "shop.pay(id=2): the upstream answered 409: “It was sent.” Done all the same: shop.pay(id=1)."
    assert reason_of(Plan(steps=tuple(steps), answer=()), *records) == why


def test_of_many_changes_the_first_ones_are_named() -> None:
    steps = [Step(id=f"var{n}", api="shop.pay", arguments={"id": LiteralValue(value=n)}) for n in range(13)]
    outcomes: list[StepOutcome] = [*[Succeeded(status=204, value=None)] * 12, Failed(reason="timeout", message="late")]
    records = [
        record(outcome, "POST").model_copy(update={"step": step.id, "api": step.api})
        for step, outcome in zip(steps, outcomes, strict=True)
    ]
    why = reason_of(Plan(steps=tuple(steps), answer=()), *records)
    assert why.startswith("shop.pay(id=12): late. Done all the same: shop.pay(id=0), ")
    assert why.endswith("shop.pay(id=9), and 2 more.")


def test_of_a_loop_the_failed_item_and_the_number_of_changes_are_told() -> None:
    failed = Failed(reason="upstream_error", message="the upstream answered 409", detail="It was sent.")
    items = (
        ItemRecord(index=0, outcome=Succeeded(status=204)),
        ItemRecord(index=1, outcome=failed),
        ItemRecord(index=2, outcome=Skipped(because="item 1")),
    )
    each = ForEach(items=Reference(step="var1", path=("items",)))
    steps = (
        Step(id="var1", api="shop.list"),
        Step(id="var2", api="shop.pay", arguments={"id": ItemReference(path=("id",))}, foreach=each),
    )
    found = record(Succeeded(status=200, value={"items": [{"id": n, "at": "Rome"} for n in (7, 8, 9)]}), "GET")
    looped = record(failed.model_copy(update={"message": "item 1: the upstream answered 409"}), "POST")
    why = (
        "shop.pay for “8, Rome” (call 2 of 3): the upstream answered 409: “It was sent.” "
        "Done all the same: 1 of 3 calls of shop.pay."
    )
    paid = looped.model_copy(update={"step": "var2", "api": "shop.pay", "items": items})
    assert reason_of(Plan(steps=steps, answer=()), found.model_copy(update={"api": "shop.list"}), paid) == why


def reason_of(plan: Plan, *records: StepRecord) -> str:
    run = Run(id="run-1", status=RunStatus.PLANNED, query="q", created_at=datetime.now(UTC), plan=plan)
    finished = ExecutionFinished(status="failed", records=records, answer=(), duration_ms=1)
    return answer(run, finished, None, Clock(1_000)).reason


def test_an_item_that_may_be_the_wrong_one_is_told_before_the_values() -> None:
    run = Run(id="run-1", status=RunStatus.PLANNED, query="q", created_at=datetime.now(UTC))
    finished = ExecutionFinished(
        status="succeeded",
        records=(),
        answer=(AnswerValue(name="price", value=9, step="var2"),),
        unmatched=(UnmatchedItem(said="“KIT-4003”", label="KIT-4003\ncase", unread=True),),
        duration_ms=1,
    )
    done = answer(run, finished, None, Clock(1_000))
    said = "The list goes on; of the items that were compared, “KIT-4003 case” was taken for “KIT-4003”."
    assert (done.unsure, done.answer.text) == (said, f"{said}\nprice: 9")
