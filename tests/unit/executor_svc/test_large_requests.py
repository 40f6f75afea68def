"""What requests take over of earlier answers is bounded: a value is one in memory, and many in what is sent."""

import asyncio
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from pydantic import JsonValue

from executor_svc.binding import ResolvedCalls, resolved_calls
from executor_svc.choosing import best
from executor_svc.conditions import holds
from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult, LargeValue, Limits
from executor_svc.runner import Run
from executor_svc.values import ValueStore, preview
from services.contracts.api import RequestBody
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, RequestRecord, Succeeded
from services.contracts.plan import ForEach, ListValue, Match, ObjectValue, Reference, Value, When
from services.size_budget import SizeBudget
from tests.support.executing import api, compiled, item, literal, parameter, ref, step
from tests.support.running import GET, POST, Scripted, finish, outcomes
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener

TEXT = "x" * 100
TWO = api("http://x", "/", parameter("x"), parameter("y"), name="two", method="POST")
LIMITS = Limits(run_s=20, step_s=20, items=100, copied_bytes=1_000)


async def answer(call: Call) -> Any:
    return {"text": TEXT, "list": [TEXT, TEXT]} if call.api is GET else {}


def several(times: int, *path: str | int) -> Value:
    return ListValue(items=tuple(ref("a", *path) for _ in range(times)))


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (several(10, "text"), "succeeded"),
        (several(11, "text"), "failed"),
        (several(4, "list"), "succeeded"),
        (several(5, "list"), "failed"),
        (several(2), "succeeded"),
        (several(4), "failed"),
        (ObjectValue(fields={"one": several(6, "text"), "two": several(6, "text")}), "failed"),
        (ListValue(items=(literal("y" * 5_000),)), "succeeded"),
    ],
)
async def test_a_call_takes_over_so_much_and_no_more(value: Value, outcome: str) -> None:
    plan = compiled([GET, POST], step("a", GET), step("b", POST, {"x": value}))
    finished = await finish(plan, answer, LIMITS)
    assert outcomes(finished) == {"a": "succeeded", "b": outcome}
    if outcome == "failed":
        failed = finished.records[1].outcome
        assert isinstance(failed, Failed)
        assert failed.reason == "refused"
        assert "more than 1000 bytes of earlier answers" in failed.message


@pytest.mark.parametrize(("times", "outcome"), [(40, "succeeded"), (41, "failed")])
async def test_a_run_compares_so_much_and_no_more(times: int, outcome: str) -> None:
    listed = ListValue(items=tuple(ref("a", "list") for _ in range(times)))
    when = When(left=ref("a", "list"), op="in", right=listed)
    plan = compiled([GET, POST], step("a", GET), step("b", POST, {"x": literal(1)}, when=when))
    size = len(json.dumps([TEXT, TEXT], separators=(",", ":")))
    limits = Limits(run_s=20, step_s=20, items=100, copied_bytes=(41 * size + 3) // 4)
    assert outcomes(await finish(plan, answer, limits))["b"] == outcome


async def test_calls_of_a_loop_are_counted_each() -> None:
    loop = ForEach(items=literal([{"n": number} for number in range(50)]), parallel=4)
    plan = compiled([GET, POST], step("a", GET), step("b", POST, {"x": ref("a", "text"), "y": item("n")}, foreach=loop))
    taken: list[int] = []

    async def noting(call: Call) -> Any:
        taken.append(call.value_bytes)
        return await answer(call)

    assert outcomes(await finish(plan, noting, LIMITS)) == {"a": "succeeded", "b": "succeeded"}
    assert taken == [0, *[108] * 50]
    plan = compiled([GET, POST], step("a", GET), step("b", POST, {"x": several(11, "text")}, foreach=loop))
    assert outcomes(await finish(plan, answer, LIMITS)) == {"a": "succeeded", "b": "failed"}


def test_calls_that_are_shown_are_counted_together() -> None:
    budget, outputs = SizeBudget(1_000), {"a": json.loads(json.dumps({"text": TEXT}))}
    held = step("b", POST, {"x": several(6, "text")})
    assert isinstance(resolved_calls(held, outputs, frozenset({"a"}), 10, budget), ResolvedCalls)
    refused = resolved_calls(held, outputs, frozenset({"a"}), 10, budget)
    assert isinstance(refused, Failed)
    assert (refused.reason, "b: the calls that are shown take more than 1000 bytes" in refused.message) == (
        "refused",
        True,
    )


@pytest.fixture
def thousand_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("steps", "binding"):
        monkeypatch.setattr(f"executor_svc.{module}.MAX_LOOP_VALUES", 1_000)


MANY = Limits(run_s=20, step_s=20, items=1_000)
TAKING: dict[str, Value] = {"x": ListValue(items=(ref("a", "text"),) * 8), "y": literal([1] * 500)}


@pytest.mark.usefixtures("thousand_values")
@pytest.mark.parametrize(("items", "outcome"), [(90, "succeeded"), (91, "failed")])
async def test_the_calls_of_a_loop_hold_so_many_values_and_no_more(items: int, outcome: str) -> None:
    """All are put together at once: a thousand items with four thousand references each took seconds."""
    loop = ForEach(items=literal(list(range(items))))
    finished = await finish(compiled([GET, TWO], step("a", GET), step("b", TWO, TAKING, foreach=loop)), answer, MANY)
    assert outcomes(finished)["b"] == outcome
    held = step("b", TWO, {"x": literal([1] * 8)}, foreach=loop)
    known = resolved_calls(held, {}, frozenset(), 1_000, SizeBudget(1_000))
    assert isinstance(known, ResolvedCalls) is (outcome == "succeeded")


@pytest.mark.usefixtures("thousand_values")
async def test_all_loops_of_a_plan_share_their_values() -> None:
    """They may be ready at once, and are shown for an approval and compared with it at once."""
    loop = ForEach(items=literal(list(range(40))))
    loops = [step(name, TWO, TAKING, foreach=loop) for name in "bcd"]
    finished = await finish(compiled([GET, TWO], step("a", GET), *loops), answer, MANY)
    assert list(outcomes(finished).values()) == ["succeeded", "succeeded", "succeeded", "failed"]
    assert isinstance(refused := finished.records[3].outcome, Failed)
    assert (refused.reason, refused.message) == ("refused", "d: it takes more than 1000 values in loops")
    budget, held = SizeBudget(1_000_000), step("b", TWO, {"x": literal([1] * 8)}, foreach=loop)
    known = [resolved_calls(held, {}, frozenset(), 1_000, budget) for _ in range(3)]
    assert [isinstance(one, Failed) for one in known] == [False, False, True]


@pytest.mark.usefixtures("thousand_values")
@pytest.mark.parametrize("op", ["exists", "eq"])
async def test_conditions_of_items_are_not_checked_if_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch, op: Any
) -> None:
    """A list may have a million items, and a plan hundreds of loops over it: that took minutes."""
    checked: list[Any] = []

    def noting(when: When, *others: Any) -> bool:
        checked.append(when)
        return holds(when, *others)

    for module in ("steps", "binding"):
        monkeypatch.setattr(f"executor_svc.{module}.holds", noting)
    when, loop = When(left=item("x"), op=op, right=literal(1)), ForEach(items=ref("a"))

    async def listed(call: Call) -> Any:
        return [{"x": None}] * 200 if call.api is GET else {}

    loops = [step(name, TWO, foreach=loop, when=when) for name in "bcd"]
    finished = await finish(compiled([GET, TWO], step("a", GET), *loops), listed, MANY)
    assert list(outcomes(finished).values()) == ["succeeded", "succeeded", "succeeded", "failed"]
    assert len(checked) == 400
    read: dict[str, Any] = {"a": [{"x": None}] * 200}
    budget = SizeBudget(1_000_000)
    known = [resolved_calls(loops[0], read, frozenset("a"), 1_000, budget) for _ in range(3)]
    assert [isinstance(one, Failed) for one in known] == [False, False, True]
    assert len(checked) == 800


@pytest.mark.usefixtures("thousand_values")
async def test_a_loop_that_a_former_process_began_is_not_refused_because_of_others() -> None:
    """They may be ready in another order than before, and a call in doubt would go unreported."""
    loop = ForEach(items=literal(list(range(80))))
    plan = compiled([GET, TWO], step("a", GET), *(step(name, TWO, TAKING, foreach=loop) for name in "bc"))
    run = Run(
        plan, Graph(plan.plan), Scripted(answer), "run-1", MANY, ValueStore(lambda _: None, 1_000), frozenset({"c/1"})
    )
    finished = [event async for event in run.events()][-1]
    assert isinstance(finished, ExecutionFinished)
    assert outcomes(finished) == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}


async def test_what_words_choose_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred items with forty fields each take 30 ms of the event loop, and a loop may ask a thousand times."""
    looked: list[Match] = []

    def noting(items: Any, match: Match, given: Any) -> list[int]:
        looked.append(match)
        return best(items, match, given)

    monkeypatch.setattr("executor_svc.references.best", noting)
    blue, red = (Reference(step="a", path=(0, "id"), match=Match(said=(word,))) for word in ("blue", "red"))
    loop = ForEach(items=literal(list(range(50))), parallel=4)
    wanted: dict[str, Value] = {"x": ListValue(items=(blue,) * 100), "y": red}
    steps = (step("b", TWO, wanted, foreach=loop), step("c", TWO, wanted, after=("b",)))
    called: list[Any] = []

    async def rooms(call: Call) -> Any:
        if call.api is GET:
            return [{"id": 1, "name": "red"}, {"id": 2, "name": "blue"}]
        called.append(call.arguments)
        return {}

    answered = {f"value{number}": blue for number in range(50)}
    finished = await finish(compiled([GET, TWO], step("a", GET), *steps, answer=answered), rooms, LIMITS)
    assert set(outcomes(finished).values()) == {"succeeded"}
    assert called == [{"x": [2] * 100, "y": 1}] * 51
    assert {one.value for one in finished.answer} == {2}
    assert len(looked) == 2


async def test_a_condition_that_chooses_an_item_by_words_compares_a_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`exists` copies nothing, so no size is counted; but comparing for each item of a loop took minutes."""
    looked: list[Match] = []

    def noting(items: Any, match: Match, given: Any) -> list[int]:
        looked.append(match)
        return best(items, match, given)

    monkeypatch.setattr("executor_svc.references.best", noting)
    blue = Reference(step="a", path=(0, "id"), match=Match(said=("blue",)))
    when = When(left=ListValue(items=(item("id"), blue)), op="exists")
    loop = step("b", TWO, foreach=ForEach(items=ref("a")), when=when)
    rooms: JsonValue = [{"id": number, "name": "blue" if number == 7 else "red"} for number in range(50)]

    async def listed(call: Call) -> Any:
        return rooms if call.api is GET else {}

    finished = await finish(compiled([GET, TWO], step("a", GET), loop), listed, LIMITS)
    assert outcomes(finished) == {"a": "succeeded", "b": "succeeded"}
    assert len(looked) == 1
    known = resolved_calls(loop, {"a": rooms}, frozenset("a"), 100, SizeBudget(1_000_000))
    assert isinstance(known, ResolvedCalls)
    assert len(known.calls) == 50
    assert len(looked) == 2


async def test_a_value_that_an_answer_names_often_is_put_aside_once() -> None:
    kept: list[LargeValue] = []
    plan = compiled([GET], step("a", GET), answer={f"value{number}": ref("a", "text") for number in range(500)})
    value_store = ValueStore(kept.append, max_inline=50)
    events = Run(plan, Graph(plan.plan), Scripted(answer), "run-1", LIMITS, value_store).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    assert len(finished.answer) == 500
    assert len({one.stored.id for one in finished.answer if one.stored}) == 1
    assert len(kept) == 2  # and the step's whole value


async def answered(value: Any, times: int, max_inline: int) -> tuple[ExecutionFinished, list[LargeValue]]:
    """A run whose answer names a value so often, and what was put aside."""
    kept: list[LargeValue] = []

    async def give(call: Call) -> Any:
        return {"value": value}

    names = {f"value{number}": ref("a", "value") for number in range(times)}
    plan = compiled([GET], step("a", GET), answer=names)
    events = Run(plan, Graph(plan.plan), Scripted(give), "run-1", LIMITS, ValueStore(kept.append, max_inline)).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    return finished, kept


async def test_values_of_an_answer_travel_whole_as_far_as_there_is_room() -> None:
    """A run with four thousand of a quarter of a megabyte each would be a gigabyte."""
    finished, kept = await answered("x" * 5_000, 100, 10_000)
    whole = [one for one in finished.answer if one.stored is None]
    assert [len(str(one.value)) for one in whole] == [5_000] * 7
    assert {one.value for one in finished.answer if one.stored} == {"x" * 200 + "..."}
    assert [len(one.content) for one in kept] == [5_002]
    small, kept = await answered({"x": 1}, 5_000, 100)
    assert {one.stored for one in small.answer} == {None}
    assert not kept


async def test_parts_of_a_large_value_are_put_aside_as_far_as_there_is_room() -> None:
    """Thirty parts of each of fifty answers of 10 MB, one inside the other, were 15 GB."""
    kept: list[LargeValue] = []

    async def give(call: Call) -> Any:
        value: Any = ["x" * 5_000]
        for _ in range(30):
            value = {"in": value}
        return {"value": value, "count": 1}

    names = {f"value{depth}": ref("a", "value", *["in"] * depth) for depth in range(30)} | {"count": ref("a", "count")}
    plan = compiled([GET], step("a", GET), answer=names)
    value_store = ValueStore(kept.append, 1_000, 27_000)
    events = Run(plan, Graph(plan.plan), Scripted(give), "run-1", LIMITS, value_store).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    assert (finished.status, [one.name for one in finished.answer]) == (
        "succeeded",
        ["value0", "value1", "value2", "value3", "count"],
    )
    assert "answer 'value4': the answer and its run have more than 27000 bytes of large values" in finished.problem
    assert len(kept) == 5  # and the step's whole value


async def test_outputs_travel_whole_as_far_as_there_is_room() -> None:
    """Four hundred of a quarter of a megabyte each were a run of 100 MB."""
    kept: list[LargeValue] = []

    async def give(call: Call) -> Any:
        return "x" * 2_000

    plan = compiled([GET], *(step(f"a{number}", GET) for number in range(50)))
    events = Run(plan, Graph(plan.plan), Scripted(give), "run-1", LIMITS, ValueStore(kept.append, 3_000)).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    given = [record.outcome for record in finished.records]
    assert sum(isinstance(one, Succeeded) and one.stored is None for one in given) == 24
    assert sum(isinstance(one, Succeeded) and one.stored is not None for one in given) == 26
    assert len(json.dumps([record.model_dump(mode="json") for record in finished.records])) < 80_000


async def test_requests_are_kept_in_full_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executor_svc.runner._MAX_SENT_BYTES", 10_000)

    class Sending(Scripted):
        async def call(self, call: Call) -> CallResult:
            made = await super().call(call)
            record = RequestRecord(method="POST", url="http://x/" + "y" * 500, body=call.arguments["x"])
            return replace(made, request=record)

    loop = ForEach(items=literal(list(range(50))), parallel=1)
    plan = compiled([TWO], step("b", TWO, {"x": literal(["z" * 1_000])}, foreach=loop))
    value_store = ValueStore(lambda _: None, 1_000_000)
    events = Run(plan, Graph(plan.plan), Sending(answer), "run-1", LIMITS, value_store).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    sent = finished.records[0].requests
    assert len(sent) == 50
    assert [one.body for one in sent[:6]] == [["z" * 1_000]] * 6
    assert {(one.body, len(one.url)) for one in sent[6:]} == {("(not kept)", 200)}


async def test_a_beginning_is_small_whatever_the_value_is() -> None:
    def nested(depth: int) -> Any:
        return {f"k{number}": nested(depth - 1) if depth else "x" * 200 for number in range(30)}

    assert len(json.dumps(preview(nested(2)))) <= 250_000
    assert preview({"a": [1, 2, 3, 4], "b": {"c": "y" * 201}}) == {"a": [1, 2, 3], "b": {"c": "y" * 200 + "..."}}


async def test_requests_wait_for_room_before_they_are_built(upstream: Upstream, opened: Opener) -> None:
    go_on = asyncio.Event()

    @upstream.on("/take")
    async def slow(_: Seen) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response({})

    taking = api(upstream.origin, "/take", parameter("text", "body"), method="POST", body=RequestBody())
    taking = taking.model_copy(update={"effect": "read"})
    call = await opened(max_answers_bytes=300_000, answers_wait_s=0.2)
    first = asyncio.create_task(call(taking, text="x" * 200_000, value_bytes=200_000))
    await upstream.arrived.wait()
    small = asyncio.create_task(call(taking, text="y"))
    refused = (await call(taking, text="x" * 200_000, value_bytes=200_000)).outcome
    assert isinstance(refused, Failed)
    assert (refused.reason, refused.message) == (
        "overloaded",
        "nothing was sent: other calls use all memory for answers; try again",
    )
    go_on.set()
    assert isinstance((await first).outcome, Succeeded)
    assert isinstance((await small).outcome, Succeeded)
    assert isinstance((await call(taking, text="x" * 200_000, value_bytes=200_000)).outcome, Succeeded)
    assert upstream.count("/take") == 3


def test_a_condition_on_whether_values_are_there_copies_none_of_them() -> None:
    """A plan may name one large answer ten thousand times."""
    large: list[JsonValue] = [[number] for number in range(10_000)]
    outputs: dict[str, JsonValue] = {"var1": {"items": large, "none": None}}

    def calls(left: Value, **more: Any) -> Any:
        one = step("var2", api("http://x.example", "/a"), when=When(left=left, op="exists"), **more)
        found = resolved_calls(one, outputs, frozenset({"var1"}), 100, SizeBudget(1_000))
        assert isinstance(found, ResolvedCalls)
        return found

    many, none = (ref("var1", "items"),) * 10, ref("var1", "none")
    tracemalloc.start()
    try:
        assert len(calls(ListValue(items=many)).calls) == 1
        assert len(calls(ObjectValue(fields={"a": ListValue(items=many), "b": none})).calls) == 1
        part = calls(ListValue(items=(*many, ref("var3", "id"))))
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 500_000  # one copy takes more than a million; other threads take some meanwhile
    assert part.step.when.left == ListValue(items=(ref("var3", "id"),))
    for missing in (none, ref("var1", "no"), ListValue(items=(*many, ref("var1", "no")))):
        assert calls(missing).calls == ()
    each = ForEach(items=ListValue(items=(literal(1), literal(2))))
    assert len(calls(ListValue(items=(*many, item())), foreach=each).calls) == 2
