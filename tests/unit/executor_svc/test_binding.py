"""What an approval binds, over a real upstream: what was shown is sent, or nothing that may change something is."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from executor_svc.main import open_executor
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from services.compute import checkpoint
from services.contracts.api import Api, RequestBody
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, Skipped, Succeeded
from services.contracts.plan import (
    ForEach,
    ListValue,
    Match,
    ObjectValue,
    Reference,
    Value,
    When,
    content_hash_in_parts,
)
from services.contracts.planning import CompiledPlan
from services.contracts.preview import PreviewRequest, PreviewResponse
from tests.support.executing import api, compiled, item, literal, parameter, ref, step
from tests.support.upstream import Upstream

ORDERS: dict[str, object] = {"orders": [{"id": "ord_1", "at": 1}, {"id": "ord_2", "at": 2}]}
MOVED: dict[str, object] = {"orders": [{"id": "ord_9", "at": 1}, {"id": "ord_2", "at": 2}]}


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[ExecutorService]:
    settings = ExecutorSettings(
        database_url=f"sqlite+aiosqlite:///{tmp_path}/executor.db", allowed_private_hosts=("127.0.0.1",), max_items=150
    )
    async with open_executor(settings, CollectorRegistry()) as (service, _):
        yield service


def reading(upstream: Upstream, path: str = "/orders", *parameters: str) -> Api:
    declared = [parameter(name) for name in parameters]
    return api(upstream.origin, path, *declared, name=path.strip("/"))


def cancelling(upstream: Upstream, path: str = "/cancel", **more: Any) -> Api:
    named = [parameter("order", "body"), parameter("note", "body")]
    return api(upstream.origin, path, *named, name=path.strip("/"), method="POST", body=RequestBody(), **more)


def plan_of(upstream: Upstream, arguments: dict[str, Value], **more: Any) -> CompiledPlan:
    """`var1` reads the orders, `var2` cancels one."""
    read, cancel = reading(upstream), cancelling(upstream)
    steps = step("var1", read), step("var2", cancel, arguments, **more)
    return compiled([read, cancel], *steps, mutating=("var2",), approvals=("var2",))


async def shown(executor: ExecutorService, plan: CompiledPlan) -> PreviewResponse:
    return await executor.preview(PreviewRequest(compiled=plan, reads=True))


def bound(answer: PreviewResponse) -> dict[str, str]:
    return {request.step: request.digest for request in answer.requests if request.digest}


async def run(executor: ExecutorService, plan: CompiledPlan, answer: PreviewResponse) -> ExecutionFinished:
    asked = ExecuteRequest(run_id="run-1", compiled=plan, approved=plan.plan.id, bound=bound(answer))
    async with asyncio.timeout(20):
        last = [event async for event in executor.execute(asked)][-1]
    assert isinstance(last, ExecutionFinished)
    return last


def posted(upstream: Upstream) -> list[str]:
    return [seen.path for seen in upstream.seen if seen.method == "POST"]


async def test_the_requests_hold_what_the_reads_gave_and_say_where_it_is_from(
    executor: ExecutorService, upstream: Upstream
) -> None:
    upstream.replies("/orders", ORDERS)
    plan = plan_of(upstream, {"order": ref("var1", "orders", 0, "id"), "note": literal("late")})
    answer = await shown(executor, plan)
    (request,) = answer.requests
    assert (request.request.body, request.complete, request.calls) == ({"order": "ord_1", "note": "late"}, True, 1)
    (read,) = answer.reads
    assert (read.step, read.path, read.value) == ("var1", ("orders", 0, "id"), "ord_1")
    assert read.request == f"GET {upstream.origin}/orders"
    assert posted(upstream) == []
    finished = await run(executor, plan, answer)
    assert (finished.status, posted(upstream)) == ("succeeded", ["/cancel"])


@pytest.mark.parametrize(("path", "there"), [(("coupon",), False), (("orders", 7), False), (("orders", 0), True)])
async def test_a_condition_on_a_value_that_is_not_there_does_not_hold(
    executor: ExecutorService, upstream: Upstream, path: tuple[str | int, ...], there: bool
) -> None:
    upstream.replies("/orders", ORDERS)
    condition = When(left=ref("var1", *path), op="exists")
    plan = plan_of(upstream, {"order": literal("ord_1")}, when=condition)
    answer = await shown(executor, plan)
    assert answer.failed is None
    assert [request.calls for request in answer.requests] == [int(there)]
    finished = await run(executor, plan, answer)
    assert (finished.status, len(posted(upstream))) == ("succeeded", int(there))


async def test_without_being_told_to_it_reads_nothing(executor: ExecutorService, upstream: Upstream) -> None:
    answer = await executor.preview(PreviewRequest(compiled=plan_of(upstream, {"order": ref("var1", "id")})))
    assert [request.request.body for request in answer.requests] == [{"order": "{var1.id}"}]
    assert (answer.settled, bound(answer), upstream.seen) == (False, {}, [])


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ({"order": ref("var1", "orders", 0, "id")}, {}),
        ({"order": ListValue(items=(literal("x"), ref("var1", "orders", 0, "id")))}, {}),
        ({"order": ObjectValue(fields={"a": ref("var1", "orders", 0, "id")})}, {}),
        ({"order": item("id")}, {"foreach": ForEach(items=ref("var1", "orders"))}),
        (
            {"order": literal("ord_2")},
            {"when": When(left=ref("var1", "orders", 0, "id"), op="eq", right=literal("ord_1"))},
        ),
        (
            {"order": literal("ord_2")},
            {"when": When(left=ref("var1", "orders", 0, "id"), op="ne", right=literal("ord_1"))},
        ),
        (
            {"order": literal("ord_2"), "note": item("at")},
            {
                "foreach": ForEach(items=ref("var1", "orders")),
                "when": When(left=item("id"), op="eq", right=literal("ord_1")),
            },
        ),
    ],
)
async def test_where_the_reads_give_something_else_nothing_is_sent(
    executor: ExecutorService, upstream: Upstream, arguments: dict[str, Value], more: dict[str, Any]
) -> None:
    upstream.replies("/orders", ORDERS, MOVED)
    plan = plan_of(upstream, arguments, **more)
    answer = await shown(executor, plan)
    finished = await run(executor, plan, answer)
    changed = finished.records[1].outcome
    assert isinstance(changed, Failed)
    assert changed.reason == "changed"
    assert posted(upstream) == []


async def test_what_is_read_besides_may_change(executor: ExecutorService, upstream: Upstream) -> None:
    upstream.replies("/orders", ORDERS, {"orders": [{"id": "ord_1", "at": 77}], "page": 3})
    plan = plan_of(upstream, {"order": ref("var1", "orders", 0, "id")})
    finished = await run(executor, plan, await shown(executor, plan))
    assert (finished.status, posted(upstream)) == ("succeeded", ["/cancel"])


async def test_a_change_that_no_read_feeds_waits_for_those_that_feed_another(
    executor: ExecutorService, upstream: Upstream
) -> None:
    """Else it would be made, and then the other one be refused."""
    upstream.replies("/orders", ORDERS, MOVED)
    read, cancel = reading(upstream), cancelling(upstream)
    plan = compiled(
        [read, cancel],
        step("var0", cancel, {"order": literal("ord_5")}),
        step("var1", read),
        step("var2", cancel, {"order": ref("var1", "orders", 0, "id")}),
        mutating=("var0", "var2"),
        approvals=("var2",),
    )
    finished = await run(executor, plan, await shown(executor, plan))
    assert {r.step: r.outcome.kind for r in finished.records if r.step != "var1"} == {
        "var0": "failed",
        "var2": "failed",
    }
    assert posted(upstream) == []


async def test_a_read_that_fails_at_the_execution_lets_nothing_be_sent(
    executor: ExecutorService, upstream: Upstream
) -> None:
    upstream.replies("/orders", ORDERS, {"nothing": []})
    read, cancel = reading(upstream), cancelling(upstream)
    plan = compiled(
        [read, cancel],
        step("var0", cancel, {"order": literal("ord_5")}),
        step("var1", read),
        step("var2", cancel, {"order": ref("var1", "orders", 0, "id")}),
        mutating=("var0", "var2"),
        approvals=("var0", "var2"),
    )
    finished = await run(executor, plan, await shown(executor, plan))
    assert (finished.status, posted(upstream)) == ("failed", [])


async def test_chains_of_reads_are_shown_and_what_follows_a_change_stays_open(
    executor: ExecutorService, upstream: Upstream
) -> None:
    upstream.replies("/people", {"id": "cus_6"})
    upstream.replies("/orders", ORDERS)
    upstream.replies("/cancel", {"id": "can_1"})
    people, orders, cancel = reading(upstream, "/people"), reading(upstream, "/orders", "who"), cancelling(upstream)
    plan = compiled(
        [people, orders, cancel],
        step("var1", people),
        step("var2", orders, {"who": ref("var1", "id")}),
        step("var3", cancel, {"order": ref("var2", "orders", 0, "id")}),
        step("var4", orders, {"who": ref("var3", "id")}),
        step("var5", cancel, {"order": ref("var4", "orders", 0, "id"), "note": ref("var1", "id")}),
        step("var6", orders, {"who": literal("not read before")}),
        mutating=("var3", "var5"),
        approvals=("var3", "var5"),
    )
    answer = await shown(executor, plan)
    assert [(request.request.body, request.complete) for request in answer.requests] == [
        ({"order": "ord_1"}, True),
        ({"order": "{var4.orders[0].id}", "note": "cus_6"}, False),
    ]
    assert [(read.step, read.value) for read in answer.reads] == [("var1", "cus_6"), ("var2", "ord_1")]
    assert [seen.target for seen in upstream.seen] == ["/people", "/orders?who=cus_6"]
    finished = await run(executor, plan, answer)
    assert (finished.status, posted(upstream)) == ("succeeded", ["/cancel", "/cancel"])


async def test_a_read_that_is_asked_for_itself_is_not_made_before(
    executor: ExecutorService, upstream: Upstream
) -> None:
    read, cancel = reading(upstream), cancelling(upstream)
    plan = compiled(
        [read, cancel],
        step("var1", read),
        step("var2", cancel, {"order": ref("var1", "path")}),
        mutating=("var2",),
        approvals=("var1", "var2"),
    )
    answer = await shown(executor, plan)
    assert [(r.step, r.complete) for r in answer.requests] == [("var1", True), ("var2", False)]
    assert (upstream.seen, answer.settled) == ([], True)
    assert (await run(executor, plan, answer)).status == "succeeded"


@pytest.mark.parametrize("found", [{"orders": []}, {"orders": [{"at": 1}]}])
async def test_reads_that_are_of_no_use_are_told_and_nothing_is_shown(
    executor: ExecutorService, upstream: Upstream, found: dict[str, object]
) -> None:
    upstream.replies("/orders", found)
    answer = await shown(executor, plan_of(upstream, {"order": ref("var1", "orders", 0, "id")}))
    assert answer.failed is not None
    assert (answer.failed.status, answer.requests) == ("failed", ())
    read, unfit = (record.outcome for record in answer.failed.records)
    assert isinstance(read, Succeeded)
    assert isinstance(unfit, Failed)
    assert unfit.reason == "reference"


@pytest.mark.parametrize("more", [True, False])
async def test_what_may_be_another_item_is_asked_before_the_approval(
    executor: ExecutorService, upstream: Upstream, more: bool
) -> None:
    upstream.replies("/orders", {"orders": [{"id": "ord_1", "name": "Grace Hopper Smith"}], "has_more": more})
    order = Reference(step="var1", path=("orders", 0, "id"), match=Match(said=("Grace Hopper",)))
    answer = await shown(executor, plan_of(upstream, {"order": order}))
    assert [request.request.body for request in answer.requests] == ([] if more else [{"order": "ord_1"}])
    if more:
        assert answer.failed is not None
        outcome = answer.failed.records[1].outcome
        assert isinstance(outcome, Failed)
        assert (outcome.reason, [choice.value for choice in outcome.choices]) == ("ambiguous", ["ord_1"])
    assert posted(upstream) == []


async def test_no_change_is_sent_if_a_list_goes_on_that_one_chooses_from(
    executor: ExecutorService, upstream: Upstream
) -> None:
    """Its own refusal would come after the other one's call."""
    named = [{"id": "ord_1", "name": "Blue chair"}, {"id": "ord_2", "name": "Red table"}]
    upstream.replies("/orders", {"orders": named}, {"orders": named, "has_more": True})
    read, cancel = reading(upstream), cancelling(upstream)
    chair = Reference(step="var1", path=("orders", 0, "id"), match=Match(said=("Blue chair",)))
    plan = compiled(
        [read, cancel],
        step("var0", cancel, {"order": literal("ord_5")}),
        step("var1", read),
        step("var2", cancel, {"order": chair}),
        mutating=("var0", "var2"),
        approvals=("var0", "var2"),
    )
    finished = await run(executor, plan, await shown(executor, plan))
    outcomes = [record.outcome for record in finished.records if record.step != "var1"]
    assert [one.reason for one in outcomes if isinstance(one, Failed)] == ["changed", "changed"]
    assert posted(upstream) == []


@pytest.mark.parametrize("found", [1, 2])
@pytest.mark.parametrize("reverse", [True, False])
async def test_what_was_shown_as_not_sent_is_not_sent_whatever_a_change_answers(
    executor: ExecutorService, upstream: Upstream, found: int, reverse: bool
) -> None:
    """A value is missing that was read before the approval; of one that is known later several may match."""
    upstream.replies("/orders", ORDERS)
    upstream.replies("/book", {"items": [{"id": "b1", "name": "x"}, {"id": "b2", "name": "x"}][:found]})
    read, book, cancel = reading(upstream), cancelling(upstream, "/book"), cancelling(upstream)
    chosen = Reference(step="var2", path=("items", 0, "id"), match=Match(said=("x",)))
    both = (chosen, ref("var1", "coupon"))
    there = When(left=ListValue(items=both[::-1] if reverse else both), op="exists")
    plan = compiled(
        [read, book, cancel],
        step("var1", read),
        step("var2", book, {"order": literal("harmless")}),
        step("var3", cancel, {"order": literal("ord_1")}, when=there),
        mutating=("var2", "var3"),
        approvals=("var2", "var3"),
    )
    answer = await shown(executor, plan)
    assert [request.calls for request in answer.requests] == [1, 0]
    finished = await run(executor, plan, answer)
    assert (finished.status, posted(upstream)) == ("succeeded", ["/book"])


@pytest.mark.parametrize("reverse", [True, False])
async def test_the_items_of_a_loop_that_were_shown_are_those_that_are_sent(
    executor: ExecutorService, upstream: Upstream, reverse: bool
) -> None:
    """Which of the people is meant is not clear; the items decide by what they lack."""
    people: list[object] = [{"id": "p1", "name": "Ada"}, {"id": "p2", "name": "Ada"}]
    orders: list[object] = [{"id": "ord_1", "late": True}, {"id": "ord_2"}]
    upstream.replies("/orders", {"orders": orders, "people": people})
    ada = Reference(step="var1", path=("people", 0, "id"), match=Match(said=("Ada",)))
    both = (ada, item("late"))
    there = When(left=ListValue(items=both[::-1] if reverse else both), op="exists")
    plan = plan_of(upstream, {"order": item("id")}, foreach=ForEach(items=ref("var1", "orders")), when=there)
    answer = await shown(executor, plan)
    assert [(one.request.body, one.calls) for one in answer.requests] == [({"order": "ord_1"}, 1)]
    finished = await run(executor, plan, answer)
    assert (finished.status, len(posted(upstream))) == ("succeeded", 1)


async def test_more_calls_than_were_shown_are_refused(
    executor: ExecutorService, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a condition decided otherwise in the run than before the approval."""
    upstream.replies("/orders", ORDERS)
    condition = When(left=ref("var1", "orders", 0, "id"), op="eq", right=literal("no such"))
    plan = plan_of(upstream, {"order": literal("ord_1")}, when=condition)
    answer = await shown(executor, plan)
    monkeypatch.setattr("executor_svc.steps.holds", lambda *_: True)
    outcome = (await run(executor, plan, answer)).records[1].outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, posted(upstream)) == ("refused", [])
    assert "1 calls, and 0 were approved" in outcome.message


@pytest.mark.parametrize("pick", ["any", "extreme", None])
async def test_the_value_that_is_told_is_that_of_the_request(
    executor: ExecutorService, upstream: Upstream, pick: Literal["any", "extreme"] | None
) -> None:
    named: list[object] = [{"id": "ord_1", "name": "Blue chair"}, {"id": "ord_2", "name": "Red table"}]
    upstream.replies("/orders", {"orders": named})
    table = Reference(step="var1", path=("orders", 0, "id"), match=Match(said=("Red table",), pick=pick))
    answer = await shown(executor, plan_of(upstream, {"order": table}))
    assert [one.request.body for one in answer.requests] == [{"order": "ord_2"}]
    assert [(one.path, one.value) for one in answer.reads] == [(("orders", 1, "id"), "ord_2")]


async def test_of_a_long_list_the_beginning_is_shown_and_all_is_bound(
    executor: ExecutorService, upstream: Upstream
) -> None:
    orders: list[object] = [{"id": f"ord_{n}"} for n in range(120)]
    upstream.replies("/orders", orders, [*orders[:-1], {"id": "another"}])
    more = {"foreach": ForEach(items=ref("var1"))}
    plan = plan_of(upstream, {"order": item("id")}, **more)
    answer = await shown(executor, plan)
    assert (len(answer.requests), answer.requests[0].calls) == (100, 120)
    assert answer.requests[99].request.body == {"order": "ord_99"}
    assert (await run(executor, plan, answer)).status == "failed"
    assert posted(upstream) == []


async def test_a_list_that_is_too_long_is_told_before(executor: ExecutorService, upstream: Upstream) -> None:
    upstream.replies("/orders", [{"id": n} for n in range(151)])
    plan = plan_of(upstream, {"order": item("id")}, foreach=ForEach(items=ref("var1")))
    answer = await shown(executor, plan)
    assert answer.failed is not None
    assert "the limit is 150" in str(answer.failed.records[1].outcome)


async def test_a_step_that_will_not_be_made_says_so(executor: ExecutorService, upstream: Upstream) -> None:
    upstream.replies("/orders", ORDERS)
    condition = When(left=ref("var1", "orders", 0, "id"), op="eq", right=literal("no such"))
    plan = plan_of(upstream, {"order": literal("ord_1")}, when=condition)
    answer = await shown(executor, plan)
    (request,) = answer.requests
    assert (request.calls, request.complete) == (0, False)
    assert "condition" in request.problem
    finished = await run(executor, plan, answer)
    assert isinstance(finished.records[1].outcome, Skipped)


async def test_large_values_are_hashed_beside_the_event_loop(
    executor: ExecutorService, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the threads that tenants share: those of asyncio are for whoever comes first."""
    threads = list[str]()

    def watched(content: JsonValue, between: Callable[[], None]) -> str:
        threads.append(threading.current_thread().name.partition("_")[0])
        assert between is checkpoint
        return content_hash_in_parts(content, between)

    for module in ("binding", "ledger"):
        monkeypatch.setattr(f"executor_svc.{module}.content_hash_in_parts", watched)
    upstream.replies("/orders", ORDERS | {"numbers": [7] * 40_000})
    upstream.replies("/cancel", {})
    plan = plan_of(upstream, {"order": ref("var1", "numbers"), "note": literal("late")})
    answer = await shown(executor, plan)
    assert (await run(executor, plan, answer)).status == "succeeded"
    own = plan_of(upstream, {"order": literal([7] * 40_000)})
    await executor.preview(PreviewRequest(compiled=own))
    assert threads == ["answers"] * 4
