"""Plans of the largest size there is: proved and run, whatever their shape. How fast is `make bench`'s business."""

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest

from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult, Limits
from executor_svc.runner import Run
from executor_svc.steps import Stop
from executor_svc.values import ValueStore
from planner_svc.compile import compile_plan
from services.contracts.api import ApiResponse
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, Skipped, Succeeded
from services.contracts.plan import MAX_STEPS, AnswerOutput, Plan, Step
from services.contracts.planning import CompiledPlan, Policy
from tests.support.executing import api, parameter, ref, step

ADD = api("http://x", "/", parameter("a"), parameter("b"), name="add").model_copy(
    update={"response": ApiResponse(json_schema={"type": "object", "properties": {"sum": {"type": "integer"}}})}
)


class Adding:
    """Answers with one more than the sum of what a call is given, modulo a prime."""

    async def call(self, call: Call) -> CallResult:
        await asyncio.sleep(0)
        total = 1 + sum(int(str(value)) for value in call.arguments.values())
        return CallResult(Succeeded(value={"sum": total % 1_000_003}, status=200), None, 1)


class Begun(frozenset[str]):
    """Counts how often its members are looked through."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return super().__iter__()


class Failing:
    async def call(self, call: Call) -> CallResult:
        return CallResult(Failed(reason="connection", message="down"), None, 1)


def add(number: int, *needs: int) -> Step:
    arguments = {name: ref(f"s{need}", "sum") for name, need in zip("ab", needs, strict=False)}
    return step(f"s{number}", ADD, arguments)


def chain() -> list[Step]:
    return [add(0), *(add(number, number - 1) for number in range(1, MAX_STEPS))]


def wide() -> list[Step]:
    return [add(number) for number in range(MAX_STEPS)]


def star() -> list[Step]:
    """One call that all others need, and one that comes after them all."""
    last = step(f"s{MAX_STEPS - 1}", ADD, after=tuple(f"s{number}" for number in range(MAX_STEPS - 1)))
    return [add(0), *(add(number, 0) for number in range(1, MAX_STEPS - 1)), last]


def woven() -> list[Step]:
    chosen = random.Random(1)
    return [
        add(number, *chosen.sample(range(max(0, number - 50), number), min(2, number))) for number in range(MAX_STEPS)
    ]


def expected(steps: list[Step]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in steps:
        needs = [value.step for value in one.arguments.values() if value.kind == "reference"]
        sums[one.id] = (1 + sum(sums[need] for need in needs)) % 1_000_003
    return sums


def proved(steps: list[Step]) -> CompiledPlan:
    answer = tuple(AnswerOutput(name=one.id, value=ref(one.id, "sum")) for one in steps)
    response = compile_plan(Plan(steps=tuple(steps), answer=answer), [ADD], Policy())
    assert response.compiled is not None, response.diagnostics[:3]
    return response.compiled


async def finished(compiled: CompiledPlan, adapter: Adding | Failing) -> ExecutionFinished:
    kept: list[object] = []
    limits = Limits(run_s=300, step_s=300, items=1)
    run = Run(compiled, Graph(compiled.plan), adapter, "run-1", limits, ValueStore(kept.append, 10_000))
    last = [event async for event in run.events()][-1]
    assert isinstance(last, ExecutionFinished)
    return last


@pytest.mark.parametrize("shape", [chain, wide, star, woven])
async def test_ten_thousand_steps_are_proved_and_run(shape: Callable[[], list[Step]]) -> None:
    steps = shape()
    compiled = proved(steps)
    travelled = ExecuteRequest.model_validate_json(ExecuteRequest(run_id="run-1", compiled=compiled).model_dump_json())
    last = await finished(travelled.compiled, Adding())
    assert last.status == "succeeded"
    assert {value.name: value.value for value in last.answer} == expected(steps)


async def test_a_failure_at_the_root_skips_ten_thousand_steps() -> None:
    last = await finished(proved(chain()), Failing())
    assert isinstance(last.records[0].outcome, Failed)
    assert [record.outcome for record in last.records[1:]] == [Skipped(because="s0")] * (MAX_STEPS - 1)


def test_what_a_dead_process_had_begun_is_looked_through_once() -> None:
    begun = Begun({"s1", "s2/0", "s2/1"})
    stop = Stop(begun=begun)
    assert [stop.has_begun(add(number)) for number in range(4)] == [False, True, True, False]
    assert begun.looks == 1
