"""The runner: order, parallelism, failure and cancellation, shown by events and never by the clock."""

import asyncio
import time
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from executor_svc.graph import Graph, NotAGraph
from executor_svc.models import Call, Limits
from executor_svc.runner import Run
from executor_svc.steps import AT_ONCE
from services.contracts.execution import ExecutionFinished, StepStarted
from services.contracts.outcome import Failed, InDoubt, Skipped, Succeeded
from services.contracts.plan import ForEach, ListValue, Plan, When
from services.contracts.planning import CompiledPlan
from tests.support.executing import compiled, literal, ref, step
from tests.support.running import (
    GET,
    ITEMS,
    LIMITS,
    POST,
    Scripted,
    each,
    echo,
    finish,
    no_value_store,
    outcomes,
    start,
)


async def test_values_travel_with_their_types() -> None:
    plan = compiled(
        [GET],
        step("a", GET, {"x": literal({"n": [1, 2.5, None, True, "é"]})}),
        step("b", GET, {"x": ref("a", "x", "n"), "y": ListValue(items=(ref("a", "x", "n", 3), literal(1)))}),
        answer={"list": ref("b", "x"), "one": ref("b", "y", 0)},
    )
    finished = await finish(plan)
    assert finished.status == "succeeded"
    assert [(a.name, a.value, a.step) for a in finished.answer] == [
        ("list", [1, 2.5, None, True, "é"], "b"),
        ("one", True, "b"),
    ]


async def test_a_step_starts_when_its_own_inputs_are_ready_not_when_a_layer_is() -> None:
    """`slow` is let go only by `deep`, two steps down the other branch: a runner with layers would never end."""
    released = asyncio.Event()

    async def behaviour(call: Call) -> Any:
        if call.key.endswith("/slow"):
            await released.wait()
        if call.key.endswith("/deep"):
            released.set()
        return 1

    plan = compiled(
        [GET], step("slow", GET), step("a", GET), step("b", GET, after=("a",)), step("deep", GET, {"x": ref("b")})
    )
    assert (await finish(plan, behaviour)).status == "succeeded"


async def test_independent_steps_run_together() -> None:
    barrier = asyncio.Barrier(50)

    async def behaviour(_: Call) -> Any:
        await barrier.wait()
        return 1

    plan = compiled([GET], *(step(f"s{n}", GET) for n in range(50)))
    assert (await finish(plan, behaviour)).status == "succeeded"


async def test_a_failed_step_stops_its_dependants_only() -> None:
    async def behaviour(call: Call) -> Any:
        return Failed(reason="upstream_error", message="no", status=500) if call.key == "run-1/bad" else {"v": 1}

    plan = compiled(
        [GET],
        step("bad", GET),
        step("child", GET, {"x": ref("bad")}),
        step("grandchild", GET, {"x": ref("child")}),
        step("later", GET, after=("bad",)),
        step("good", GET),
        step("fine", GET, {"x": ref("good", "v")}),
        answer={"a": ref("fine"), "b": ref("grandchild")},
    )
    finished = await finish(plan, behaviour)
    assert finished.status == "failed"
    assert outcomes(finished) == {
        "bad": "failed",
        "child": "skipped",
        "grandchild": "skipped",
        "later": "skipped",
        "good": "succeeded",
        "fine": "succeeded",
    }
    assert {r.outcome.because for r in finished.records if isinstance(r.outcome, Skipped)} == {"bad"}
    assert [a.name for a in finished.answer] == ["a"]
    assert next(r for r in finished.records if r.step == "child").attempts == 0


async def test_a_missing_path_fails_the_step_that_asks_for_it() -> None:
    plan = compiled([GET], step("a", GET), step("b", GET, {"x": ref("a", "items", 0)}), step("c", GET, {"x": ref("b")}))
    finished = await finish(plan)
    failed = finished.records[1].outcome
    assert isinstance(failed, Failed)
    assert (failed.reason, finished.records[1].requests) == ("reference", ())
    assert "b: the output of a has no items[0]" in failed.message
    assert outcomes(finished)["c"] == "skipped"


async def test_an_answer_that_is_not_there_fails_the_run_and_says_so() -> None:
    finished = await finish(compiled([GET], step("a", GET), answer={"x": ref("a", "nope")}))
    assert (finished.status, finished.answer) == ("failed", ())
    assert "answer 'x': the output of a has no nope" in finished.problem


async def test_an_answer_without_one_of_its_values_says_so_and_is_one() -> None:
    async def behaviour(call: Call) -> Any:
        return Succeeded(value={"name": "Ann"})

    asked = {"name": ref("a", "name"), "age": ref("a", "age")}
    finished = await finish(compiled([GET], step("a", GET), answer=asked), behaviour)
    assert (finished.status, [value.value for value in finished.answer]) == ("succeeded", ["Ann"])
    assert "answer 'age': the output of a has no age" in finished.problem


async def test_doubt_weighs_more_than_failure() -> None:
    async def behaviour(call: Call) -> Any:
        return InDoubt(message="?") if call.api is POST else Failed(reason="timeout", message="!")

    finished = await finish(
        compiled([GET, POST], step("a", POST), step("b", GET), step("c", GET, after=("a",))), behaviour
    )
    assert finished.status == "in_doubt"
    assert outcomes(finished) == {"a": "in_doubt", "b": "failed", "c": "skipped"}


def condition(op: Any, left: Any = None) -> When:
    return When(left=left or ref("a", "x"), op=op, right=literal(1))


async def test_a_condition_that_does_not_hold_skips_the_step_and_what_needs_its_value() -> None:
    plan = compiled(
        [GET],
        step("a", GET, {"x": literal(1)}),
        step("no", GET, when=condition("ne")),
        step("yes", GET, when=condition("eq")),
        step("needs", GET, {"x": ref("no")}),
        step("follows", GET, after=("no",)),
        answer={"r": ref("yes")},
    )
    finished = await finish(plan)
    assert finished.status == "succeeded"
    assert outcomes(finished) == {
        "a": "succeeded", "no": "skipped", "yes": "succeeded", "needs": "skipped", "follows": "succeeded",
    }  # fmt: skip
    because = {r.step: r.outcome.because for r in finished.records if isinstance(r.outcome, Skipped)}
    assert because == {"no": "when", "needs": "no"}


async def stuck(_: Call) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("limits", [Limits(0.05, 20, 9), Limits(20, 0.05, 9)])
async def test_deadlines_end_even_what_an_adapter_does_not(limits: Limits) -> None:
    plan = compiled([GET, POST], step("a", GET), step("b", GET, {"x": ref("a")}), step("c", POST))
    finished = await finish(plan, stuck, limits)
    assert outcomes(finished) == {"a": "failed", "b": "skipped", "c": "in_doubt"}
    first = finished.records[0].outcome
    assert isinstance(first, Failed)
    assert first.reason == "timeout"


async def test_the_adapter_says_what_it_sent_even_if_the_loop_stands_still_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a change that waited for the ledger would be in doubt, without a row that could be settled."""
    monkeypatch.setattr("executor_svc.steps.GRACE_S", 0.01)
    unsent = Failed(reason="ledger", message="nothing was sent")

    async def behaviour(call: Call) -> Any:
        asyncio.get_running_loop().call_soon(time.sleep, 0.2)
        try:
            async with asyncio.timeout_at(call.deadline):
                await asyncio.Event().wait()
        except TimeoutError:
            return unsent

    finished = await finish(compiled([POST], step("a", POST)), behaviour, Limits(20, 0.1, 9))
    assert (finished.status, finished.records[0].outcome) == ("failed", unsent)


async def test_the_adapter_is_told_the_nearer_deadline() -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    seen: list[float] = []

    async def behaviour(call: Call) -> Any:
        seen.append(call.deadline - now)

    await finish(compiled([GET], step("a", GET)), behaviour, Limits(100, 7, 9))
    await finish(compiled([GET], step("a", GET)), behaviour, Limits(7, 100, 9))
    assert all(7 <= left < 60 for left in seen)


async def test_when_the_reader_goes_away_everything_is_cancelled() -> None:
    cancelled: list[str] = []

    async def behaviour(call: Call) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(call.key)
            raise

    plan = compiled([GET], *(step(f"s{n}", GET) for n in range(5)))
    async with aclosing(start(plan, behaviour)) as events:  # type: ignore[type-var]
        seen = [await anext(events) for _ in range(5)]
        await asyncio.sleep(0)
    assert all(isinstance(event, StepStarted) for event in seen)
    assert sorted(cancelled) == [f"run-1/s{n}" for n in range(5)]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("kind", [ZeroDivisionError, ExceptionGroup])
async def test_a_bug_in_an_adapter_ends_its_call_alone(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """If it ended the run, that would be taken over, and what was sent would be sent again."""

    async def behaviour(call: Call) -> Any:
        if not call.key.endswith("/b"):
            raise ZeroDivisionError("a bug") if kind is ZeroDivisionError else ExceptionGroup("", [IndexError("a bug")])
        return {}

    log = structlog.testing.CapturingLogger()
    monkeypatch.setattr("executor_svc.steps._log", log)
    finished = await finish(compiled([GET, POST], step("a", GET), step("b", GET), step("c", POST)), behaviour)
    read, other, change = (record.outcome for record in finished.records)
    assert isinstance(read, Failed)
    assert read.reason == "internal_error"
    assert isinstance(other, Succeeded)
    assert isinstance(change, InDoubt)
    assert [record.attempts for record in finished.records] == [1, 1, 1]  # its secrets may have been presented
    assert [(call.method_name, type(call.kwargs["exc_info"])) for call in log.calls] == [("error", kind)] * 2


async def test_keys_differ_between_steps_and_items() -> None:
    plan = compiled([GET], step("a", GET), each(ITEMS))
    adapter = Scripted(echo)
    async for _ in Run(plan, Graph(plan.plan), adapter, "run-9", LIMITS, no_value_store()).events():
        pass
    assert {call.key for call in adapter.calls} == {"run-9/a", *(f"run-9/each/{n}" for n in range(10))}


@pytest.mark.parametrize(
    ("references", "items"),
    [
        ([ref("a", "items", 0, "id")], 1),
        ([ref("a", "items", 0, "id"), ref("a", "items", 4)], 5),
        ([ref("a", 2, "tags", 9)], 3),
        ([ref("a", "items", 0), ref("a", "items")], None),
        ([ref("a", "total")], None),
        ([ref("a")], None),
        ([], None),
    ],
)
async def test_a_call_says_how_many_items_of_a_list_are_made_use_of(references: list[Any], items: int | None) -> None:
    users = [step(f"u{number}", GET, {"x": reference}) for number, reference in enumerate(references)]
    plan = compiled([GET], step("a", GET), *users)
    assert Graph(plan.plan).items.get("a") == items
    adapter = Scripted(echo)
    async for _ in Run(plan, Graph(plan.plan), adapter, "run-1", LIMITS, no_value_store()).events():
        pass
    assert adapter.calls[0].items == items


@pytest.mark.parametrize("first_fails", [False, True])
async def test_ten_thousand_steps_in_a_chain(first_fails: bool) -> None:
    """As deep as a plan can be: neither the recursion limit nor a scan over all steps for each may be in the way."""

    async def behaviour(call: Call) -> Any:
        return Failed(reason="timeout", message="!") if first_fails and call.key == "run-1/s0" else 1

    steps = [step("s0", GET), *(step(f"s{n}", GET, {"x": ref(f"s{n - 1}")}) for n in range(1, 10_000))]
    finished = await finish(compiled([GET], *steps), behaviour)
    assert set(outcomes(finished).values()) == ({"failed", "skipped"} if first_fails else {"succeeded"})


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(NotAGraph, match="b depends on zz"):
        Graph(Plan(steps=(step("a", GET), step("b", GET, after=("zz",)))))
    with pytest.raises(NotAGraph, match="cycle through b, c"):
        Graph(Plan(steps=(step("a", GET), step("b", GET, {"x": ref("c")}), step("c", GET, after=("b",)))))
    with pytest.raises(NotAGraph, match="cycle through a"):
        Graph(Plan(steps=(step("a", GET, {"x": ref("a")}),)))


@given(st.data())
def test_any_graph_with_any_failures_ends_with_a_record_for_every_step(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    needs = [data.draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set() for n in range(size)]
    failing = data.draw(st.sets(st.integers(0, size - 1)))
    steps = [
        step(f"s{n}", GET, {"x": ListValue(items=tuple(ref(f"s{m}") for m in sorted(needed)))})
        for n, needed in enumerate(needs)
    ]
    finished_when_called: dict[str, set[str]] = {}
    done: set[str] = set()

    async def behaviour(call: Call) -> Any:
        name = call.key.split("/")[1]
        finished_when_called[name] = set(done)
        await asyncio.sleep(0)
        if int(name[1:]) in failing:
            return Failed(reason="timeout", message="!")
        done.add(name)
        return name

    finished = asyncio.run(finish(compiled([GET], *steps), behaviour))
    expected: dict[str, str] = {}
    for n, needed in enumerate(needs):
        blocked = any(expected[f"s{m}"] != "succeeded" for m in needed)
        expected[f"s{n}"] = "skipped" if blocked else "failed" if n in failing else "succeeded"
        if not blocked:
            assert {f"s{m}" for m in needed} <= finished_when_called[f"s{n}"]
    assert outcomes(finished) == expected


@pytest.mark.parametrize("anywhere", [(), ("test.get",), ("test.other",)])
async def test_calls_are_told_where_their_pages_may_be(anywhere: tuple[str, ...]) -> None:
    plan, adapter = compiled([GET], step("a", GET), pages_anywhere=anywhere), Scripted(echo)
    async for _ in Run(plan, Graph(plan.plan), adapter, "run-1", LIMITS, no_value_store()).events():
        pass
    assert [call.pages_anywhere for call in adapter.calls] == [anywhere == ("test.get",)]


WIDE = compiled([GET], *(step(f"s{n}", GET) for n in range(100)))
MAPPED = compiled([GET], step("a", GET, foreach=ForEach(items=literal(list(range(64))), parallel=64)))


@pytest.mark.parametrize("plan", [WIDE, MAPPED])
async def test_many_calls_are_begun_a_few_in_each_round_of_the_loop(plan: CompiledPlan) -> None:
    begun, rounds, everything = 0, [0], asyncio.Event()

    async def counted(call: Call) -> Any:
        nonlocal begun
        begun += 1
        if begun == (100 if plan is WIDE else 64):
            everything.set()
        await everything.wait()

    async def others() -> None:
        while not everything.is_set():
            await asyncio.sleep(0)
            rounds.append(begun)

    beside = asyncio.create_task(others())
    assert (await finish(plan, counted)).status == "succeeded"
    await beside
    assert max(after - before for before, after in pairwise(rounds)) <= AT_ONCE


async def test_a_call_that_waits_for_its_round_is_not_begun_once_the_run_is_cancelled() -> None:
    run: list[Run] = []

    async def cancelling(call: Call) -> Any:
        run[0].cancel()

    adapter = Scripted(cancelling)
    run.append(Run(WIDE, Graph(WIDE.plan), adapter, "run-1", LIMITS, no_value_store()))
    last = [event async for event in run[0].events()][-1]
    assert isinstance(last, ExecutionFinished)
    assert (last.status, len(adapter.calls)) == ("cancelled", 1)
    assert [record.outcome.kind for record in last.records].count("skipped") == 99
