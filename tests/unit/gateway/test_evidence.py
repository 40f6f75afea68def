"""What is learnt from the calls of a run that ended without any."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.evidence import attempts_of, questions_of
from services.contracts.base import JsonPath
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, StepRecord, Succeeded
from services.contracts.plan import ListValue
from services.paths import value_at
from tests.support.executing import api, compiled, ref, step


def test_a_run_that_was_not_continued_has_no_attempts() -> None:
    found, used = api("http://127.0.0.1:1", "/a", name="a"), api("http://127.0.0.1:1", "/b", name="b")
    plan = compiled([found, used], step("a", found), step("b", used, {"x": ref("a", "id")}))
    ended = ExecutionFinished(status="failed", records=(), problem="the run was not continued", duration_ms=0)
    assert attempts_of(plan, ended) == ()
    assert questions_of(plan, ended) == ()


def test_names_are_not_looked_for_among_the_indices_of_a_long_list() -> None:
    found = api("http://127.0.0.1:1", "/a", name="a")
    names = ListValue(items=(ref("a", "id"),) * 500)
    plan = compiled([found], step("a", found), step("b", found, {"x": names}))
    failed = Failed(reason="reference", message="b: the output of a has no id")
    records = tuple(
        StepRecord(step=name, api=found.id, outcome=outcome, started_ms=0, duration_ms=1)
        for name, outcome in (("a", Succeeded(value=[0] * 1_000_000)), ("b", failed))
    )
    began = time.process_time()
    (attempt,) = attempts_of(plan, ExecutionFinished(status="failed", records=records, duration_ms=2))
    assert time.process_time() - began < 2  # it took twelve seconds
    assert (attempt.api, attempt.outcome) == (found.id, "empty")


def test_few_of_many_long_lists_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[int]()

    def counting(value: Any, path: JsonPath, look: Callable[[int], None]) -> Any:
        def note(items: int) -> None:
            look(items)
            looked_at.append(items)

        return value_at(value, path, look=note)

    monkeypatch.setattr("gateway.failures.value_at", counting)
    found = api("http://127.0.0.1:1", "/a", name="a")
    plan = compiled([found], step("a", found), answer={f"v{number}": ref("a", "*", "id") for number in range(50)})
    made = StepRecord(step="a", api=found.id, outcome=Succeeded(value=[{}] * 30_000), started_ms=0, duration_ms=1)
    (attempt,) = attempts_of(plan, ExecutionFinished(status="failed", records=(made,), duration_ms=2))
    assert attempt.outcome == "empty"
    assert looked_at == [30_000] * 3
    assert questions_of(plan, ExecutionFinished(status="failed", records=(made,), duration_ms=2)) == ()
    assert len(looked_at) == 3  # no earlier plan has questions
