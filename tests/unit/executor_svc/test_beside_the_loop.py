"""What plans look for in large answers is worked out beside the event loop, and once for a list or a value."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest

from executor_svc import choosing, conditions, equality, references, runner, values
from executor_svc.adapters.http.ending import list_member
from executor_svc.binding import ApprovalHold, Scope
from executor_svc.choosing import fields_of
from executor_svc.conditions import holds
from executor_svc.equality import equal
from executor_svc.graph import Graph
from executor_svc.ledger import Ledger, LedgerAdapter
from executor_svc.models import LARGE_BYTES, Call, CallOutcome, CallResult, CallState, RecordedCall
from executor_svc.preview import read_and_preview
from executor_svc.runner import Run
from executor_svc.values import ValueStore
from executor_svc.workers import Workers
from services import partial
from services.compute import ComputePool
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, RequestRecord, Succeeded
from services.contracts.plan import ForEach, Match, Reference, When, content_hash
from services.contracts.planning import CompiledPlan
from services.ownership.ticket import Ticket
from tests.support.executing import api, compiled, item, literal, ref, step
from tests.support.running import GET, LIMITS, POST

LISTED: Any = {"items": [{"id": number, "name": f"room {number}"} for number in range(5)], "seven": 7}
NESTED: Any = {"d": {f"m{one}": {f"n{two}": two for two in range(3)} for one in range(5)}}
MAIN = threading.main_thread()


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    pool = ComputePool(2, 10, "answers")
    yield Workers(pool)
    await pool.close()


class Answering:
    """An adapter whose answers are a value, and are said to have so many bytes."""

    def __init__(self, value: Any, size: int, *, more: bool = False) -> None:
        self._value, self._size, self._more = value, size, more

    async def call(self, call: Call) -> CallResult:
        return CallResult(Succeeded(value=self._value, status=200), None, 1, more=self._more, bytes=self._size)


async def ended(plan: CompiledPlan, adapter: Answering, workers: Workers, store: ValueStore | None = None) -> Any:
    store = store or ValueStore(lambda _: None, 1_000_000)
    events = Run(plan, Graph(plan.plan), adapter, "run-1", LIMITS, store, workers=workers).events()
    finished = [event async for event in events][-1]
    assert isinstance(finished, ExecutionFinished)
    assert finished.status == "succeeded"
    return finished


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[threading.Thread]]:
    """Notes in which threads a function of a module is called."""

    def note(module: Any, name: str) -> list[threading.Thread]:
        found, work = list[threading.Thread](), getattr(module, name)

        def noting(*args: Any, **kwargs: Any) -> Any:
            found.append(threading.current_thread())
            return work(*args, **kwargs)

        monkeypatch.setattr(module, name, noting)
        return found

    return note


def chosen(index: int, *path: str) -> Reference:
    return Reference(step="a", path=("items", index, *path), match=Match(said=("room 3",)))


@pytest.mark.parametrize(("size", "beside"), [(LARGE_BYTES + 1, True), (100, False)])
@pytest.mark.parametrize(
    ("module", "name", "plan"),
    [
        (references, "best", compiled([GET], step("a", GET), answer={"x": chosen(0, "id")})),
        (references, "best", compiled([GET], step("a", GET), step("b", GET, {"x": chosen(0, "id")}))),
        (references, "best", compiled([GET, POST], step("a", GET), step("b", POST, {"x": chosen(0, "id")}))),
        (runner, "taken", compiled([GET], step("a", GET), answer={"x": ref("a", "items")})),
        (
            conditions,
            "equal",
            compiled([GET], step("a", GET), step("b", GET, when=When(left=ref("a"), op="ne", right=literal(1)))),
        ),
    ],
)
async def test_what_is_looked_for_in_a_large_answer(
    module: Any, name: str, plan: CompiledPlan, size: int, beside: bool, noted: Any, workers: Workers
) -> None:
    threads = noted(module, name)
    await ended(plan, Answering(LISTED, size), workers)
    assert {thread is not MAIN for thread in threads} == {beside}


class Showing(Answering):
    """Can also show calls."""

    def preview(self, call: Call) -> RequestRecord:
        return RequestRecord(method=call.api.method, url=call.api.server)


async def test_requests_for_an_approval_are_worked_out_in_the_threads_that_tenants_share(
    noted: Any, workers: Workers
) -> None:
    threads = noted(references, "best")
    change = {"x": chosen(0, "id").model_copy(update={"step": "a"})}
    plan = compiled([GET, POST], step("a", GET), step("b", POST, change), mutating=("b",))
    adapter, store = Showing(LISTED, 100), ValueStore(lambda _: None, 1_000_000)
    shown = await read_and_preview(plan, adapter, store, LIMITS, "preview-1", workers)
    (request,) = shown.requests
    hold = ApprovalHold(plan.plan, Scope.of(plan, Graph(plan.plan)), {"b": request.digest}, 100, 1_000_000, workers)
    assert await hold.refusal(plan.plan.steps[1], {"a": LISTED}, (), math.inf) is None
    assert {thread.name.partition("_")[0] for thread in threads} == {"answers"}


async def test_requests_are_shown_though_a_read_used_up_the_time(workers: Workers) -> None:
    class Late(Showing):
        async def call(self, call: Call) -> CallResult:
            await asyncio.sleep(max(0.0, call.deadline - asyncio.get_running_loop().time()))
            return CallResult(Failed(reason="timeout", message="late"), None, 1)

    plan = compiled([GET, POST], step("a", GET), step("b", POST, {"x": ref("a", "seven")}), mutating=("b",))
    limits, store = replace(LIMITS, run_s=0.1), ValueStore(lambda _: None, 1_000_000)
    shown = await read_and_preview(plan, Late({}, 1), store, limits, "preview-1", workers)
    assert shown.failed is not None
    assert [record.outcome.kind for record in shown.failed.records][:1] == ["failed"]


async def test_an_approval_that_cannot_be_checked_in_time_sends_nothing(workers: Workers) -> None:
    plan = compiled([POST], step("a", POST), step("b", POST), mutating=("a", "b"))
    hold = ApprovalHold(plan.plan, Scope.of(plan, Graph(plan.plan)), {"a": "x"}, 100, 1_000_000, workers)
    first = await hold.refusal(plan.plan.steps[0], {}, (), 0.0)
    assert isinstance(first, Failed)
    assert first.reason == "timeout"
    assert await hold.refusal(plan.plan.steps[1], {}, (), math.inf) == first


@pytest.mark.parametrize("begun", [False, True])
async def test_a_change_whose_arguments_are_not_hashed_in_time_is_not_sent(begun: bool) -> None:
    """It was in doubt, although it had no row."""
    pool, free = ComputePool(1, 10, "answers"), threading.Event()
    busy = asyncio.create_task(pool.run(free.wait))
    await asyncio.sleep(0)
    known = {"a": RecordedCall(CallState.SENT, "x", None)} if begun else {}
    ledger, sender, store = MagicMock(spec=Ledger), MagicMock(), ValueStore(lambda _: None, 1_000_000)
    adapter = LedgerAdapter(sender, ledger, Ticket("run-1", "me", 1), known, store, 5.0, Workers(pool))
    late = asyncio.get_running_loop().time() + 0.05
    result = await adapter.call(Call(POST, {"x": [7] * 100}, "run-1/a", late, value_bytes=LARGE_BYTES + 1))
    if begun:
        assert isinstance(result.outcome, InDoubt)
    else:
        assert isinstance(result.outcome, Failed)
        assert (result.outcome.reason, result.attempts) == ("timeout", 0)
    assert not ledger.record_intent.called
    assert not sender.call.called
    free.set()
    await busy
    await pool.close()


async def test_a_change_that_may_be_sent_again_waits_for_a_thread_until_its_deadline() -> None:
    """Sent once more it gets its outcome. It was in doubt at once where the threads were full."""
    pool, free = ComputePool(1, 0, "answers"), threading.Event()
    arguments: dict[str, Any] = {"x": [7] * 100}
    known = {"a": RecordedCall(CallState.SENT, content_hash(arguments), None)}
    sender, store = Answering(7, 1), ValueStore(lambda _: None, 1_000_000)
    ledger, clock = MagicMock(spec=Ledger), asyncio.get_running_loop().time
    adapter = LedgerAdapter(sender, ledger, Ticket("run-1", "me", 2), known, store, 5.0, Workers(pool))  # type: ignore[arg-type]
    again = api("http://x", "/put", method="PUT")

    async def outcome(within_s: float) -> CallOutcome:
        late = clock() + within_s
        return (await adapter.call(Call(again, arguments, "run-1/a", late, value_bytes=LARGE_BYTES + 1))).outcome

    busy = asyncio.create_task(pool.run(free.wait))
    await asyncio.sleep(0)
    began = clock()
    assert isinstance(await outcome(0.3), InDoubt)
    assert 0.2 <= clock() - began < 2
    asyncio.get_running_loop().call_later(0.3, free.set)
    assert isinstance(await outcome(5), Succeeded)
    await busy
    await pool.close()


async def test_small_answers_that_are_used_often_are_large_together(noted: Any, workers: Workers) -> None:
    threads = noted(runner, "taken")
    names = {f"value{number}": ref("a", "seven") for number in range(100)}
    await ended(compiled([GET], step("a", GET), answer=names), Answering(LISTED, 1_000), workers)
    assert MAIN not in threads


async def test_small_answers_that_many_steps_use_are_large_together(noted: Any, workers: Workers) -> None:
    """They may all be ready at once."""
    threads = noted(conditions, "equal")
    when = When(left=ref("a"), op="ne", right=literal(1))
    steps = [step(f"b{number}", GET, when=when) for number in range(4)]
    await ended(compiled([GET], step("a", GET), *steps), Answering(LISTED, LARGE_BYTES // 2), workers)
    assert [thread is MAIN for thread in threads] == [True, True, False, True]


async def test_the_conditions_of_a_loop_are_checked_beside_the_event_loop(noted: Any, workers: Workers) -> None:
    """Each item may look at the same small answer."""
    threads = noted(conditions, "_contains")
    when = When(left=item(), op="in", right=ref("a", "items"))
    loop = step("b", GET, foreach=ForEach(items=literal([True] * 3)), when=when)
    await ended(compiled([GET], step("a", GET), loop), Answering(LISTED, 100), workers)
    assert len(threads) == 3
    assert MAIN not in threads


async def test_what_an_answer_takes_is_written_beside_the_event_loop_but_stored_on_it(
    noted: Any, workers: Workers
) -> None:
    """The ledger belongs to the event loop."""
    kept: list[threading.Thread] = []
    store = ValueStore(lambda _: kept.append(threading.current_thread()), 50)
    threads = noted(values, "_written")
    answer = {"x": ref("a", "items"), "y": ref("a", "items", 0), "z": ref("a")}
    finished = await ended(compiled([GET], step("a", GET), answer=answer), Answering(LISTED, 10**6), workers, store)
    assert [one.stored is not None for one in finished.answer] == [True, False, True]
    assert MAIN not in threads
    assert kept == [MAIN] * 2


async def test_the_fields_of_a_list_are_read_once_for_all_that_is_chosen_from_it(noted: Any, workers: Workers) -> None:
    read = noted(choosing, "_fields")
    names = {
        f"value{number}": Reference(step="a", path=("items", 0, "id"), match=Match(said=(f"room {number}",)))
        for number in range(5)
    }
    finished = await ended(compiled([GET], step("a", GET), answer=names), Answering(LISTED, 100), workers)
    assert [one.value for one in finished.answer] == [0, 1, 2, 3, 4]
    assert len(read) == len(LISTED["items"])


def test_a_character_that_stands_for_many_takes_no_more_room() -> None:
    [[field]] = fields_of(["\ufdfa" * 1_000])
    assert len(field) <= 402


async def test_whether_a_value_holds_a_list_is_found_out_once(noted: Any, workers: Workers) -> None:
    looked = noted(partial, "_holds_list")
    names = {f"value{number}": ref("a", "d") for number in range(50)}
    steps = [step(f"b{number}", GET, {"x": ref("a", "d")}) for number in range(50)]
    await ended(compiled([GET], step("a", GET), *steps, answer=names), Answering(NESTED, 100, more=True), workers)
    assert len(looked) == 1 + 5 * (1 + 3)  # the value, its members and theirs


@pytest.mark.parametrize(
    ("element", "container", "expected"),
    [
        (True, [1, 1.0], False),
        (True, [1, True], True),
        (False, [0, "false"], False),
        (1, [True], False),
        (1, [True, 1.0], True),
        (0.0, [False, 0], True),
        (0, [False, False], False),
        (7, [1, 7.0], True),
        ("a", ["b", "a"], True),
        (None, [0, False], False),
        ([True], [[1]], False),
        ([1], [[True], [1.0]], True),
        ({"a": 0}, [{"a": False}], False),
    ],
)
def test_an_element_is_looked_for_without_comparing_all_others_in_python(
    element: Any, container: list[Any], expected: bool, noted: Any
) -> None:
    compared = noted(equality, "equal")
    many = [*container, *[1, "x"] * 1_000] if not isinstance(element, int) else [*container, *[2, "x"] * 1_000]
    assert holds(When(left=literal(element), op="in", right=literal(many)), {}) is expected
    assert len(compared) <= 2


def test_numbers_of_a_list_are_not_compared_one_by_one(noted: Any) -> None:
    compared = noted(equality, "_same_kinds")
    assert equal([[1] * 1_000, "x"], [[1.0] * 1_000, "x"])
    assert not equal([1] * 10, [*[1.0] * 9, True])
    assert len(compared) < 20


class Counted(dict[str, Any]):
    """An object of which it is counted how many members are read."""

    read = 0

    def items(self) -> Any:
        for one in super().items():
            self.read += 1
            yield one


def test_the_list_of_an_object_is_looked_for_in_its_beginning() -> None:
    wide = Counted({"list": [1]} | {f"k{number}": number for number in range(5_000)})
    assert list_member(wide) == "list"
    assert wide.read <= 1_000
