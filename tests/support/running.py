"""Runs plans with the executor's runner over adapters made of coroutines."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult, Limits
from executor_svc.runner import Run
from executor_svc.values import ValueStore
from services.contracts.execution import ExecutionEvent, ExecutionFinished, StepFinished
from services.contracts.outcome import Failed, InDoubt, RequestRecord, Succeeded
from services.contracts.plan import ForEach
from services.contracts.planning import CompiledPlan
from tests.support.executing import api, item, literal, parameter, step

GET = api("http://x", "/", parameter("x"), parameter("y"), name="get")
POST = api("http://x", "/", parameter("x"), name="post", method="POST")
LIMITS = Limits(run_s=20, step_s=20, items=100)
Behaviour = Callable[[Call], Any]


class Scripted:
    """An adapter made of a coroutine. The coroutine returns the call's value or its outcome."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour, self.calls = behaviour, list[Call]()

    async def call(self, call: Call) -> CallResult:
        self.calls.append(call)
        value = await self.behaviour(call)
        outcome = value if isinstance(value, (Succeeded, Failed, InDoubt)) else Succeeded(value=value, status=200)
        return CallResult(outcome, RequestRecord(method=call.api.method, url=f"http://x/{call.key}"), 1)


def no_value_store() -> ValueStore:
    """A value store that fails the test if a value is put into it."""
    return ValueStore(lambda value: pytest.fail(f"kept {value.id}"), max_inline=1_000_000_000)


async def echo(call: Call) -> Any:
    return dict(call.arguments)


def start(plan: CompiledPlan, behaviour: Behaviour = echo, limits: Limits = LIMITS) -> AsyncIterator[ExecutionEvent]:
    return Run(plan, Graph(plan.plan), Scripted(behaviour), "run-1", limits, no_value_store()).events()


async def finish(plan: CompiledPlan, behaviour: Behaviour = echo, limits: Limits = LIMITS) -> ExecutionFinished:
    events = [event async for event in start(plan, behaviour, limits)]
    last = events[-1]
    assert isinstance(last, ExecutionFinished)
    finished = [event.record for event in events if isinstance(event, StepFinished)]
    assert {r.step for r in finished} == {s.id for s in plan.plan.steps}
    assert len(finished) == len(last.records) == len(plan.plan.steps)
    assert [r.step for r in last.records] == [s.id for s in plan.plan.steps]
    return last


def outcomes(finished: ExecutionFinished) -> dict[str, str]:
    return {record.step: record.outcome.kind for record in finished.records}


def each(items: Any, parallel: int = 4, **more: Any) -> Any:
    return step("each", GET, {"x": item("id")}, foreach=ForEach(items=items, parallel=parallel), **more)


ITEMS = literal([{"id": n} for n in range(10)])
