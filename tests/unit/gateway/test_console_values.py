"""Values on the pages of the console: what is not shown of them is not written."""

import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from pydantic import JsonValue

from gateway.console.arguments import MOST_CHARS, argument_fields
from gateway.console.flow import Flow
from gateway.console.graph import draw
from gateway.console.pages import written_json
from services.contracts.api import Location, Parameter
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.plan import ListValue, Plan, Reference, Step
from services.contracts.run import Run, RunStatus
from tests.support.executing import api
from tests.unit.codecs.strategies import JSON

LARGE = "a" * 240_000
COPIES = 400


@given(JSON)
def test_a_value_is_written_as_json_up_to_the_limit(value: JsonValue) -> None:
    indented = json.dumps(value, ensure_ascii=False, indent=2)
    assert written_json(value, 10_000_000) == indented
    assert written_json(value, 10_000_000, indented=False) == json.dumps(value, ensure_ascii=False)
    assert written_json(value, 20) == (indented if len(indented) <= 20 else indented[:19] + "…")


@pytest.mark.parametrize("value", [LARGE, {LARGE: 1}, ["é" * 20], {"a": {"b": [LARGE]}}])
def test_a_long_text_is_cut_like_all_others(value: JsonValue) -> None:
    indented = json.dumps(value, ensure_ascii=False, indent=2)
    for most in range(1, 60):
        assert written_json(value, most) == (indented if len(indented) <= most else indented[: most - 1] + "…")


def flow_of_copies() -> Flow:
    """A step takes one large answer many times. The executor refuses it; the plan is shown all the same."""
    taken = ListValue(items=tuple(Reference(step="a") for _ in range(COPIES)))
    plan = Plan(steps=(Step(id="a", api="x.a"), Step(id="b", api="x.b", arguments={"v": taken})))
    answered = StepRecord(step="a", api="x.a", outcome=Succeeded(value=[LARGE]), started_ms=0, duration_ms=1)
    run = Run(
        id="run_1", status=RunStatus.FAILED, query="q", created_at=datetime.now(UTC), plan=plan, steps=(answered,)
    )
    return Flow(run)


def taken_by_b(flow: Flow) -> JsonValue:
    return flow.inputs(flow.steps[1])[0].found.value


@pytest.mark.parametrize(
    "shown",
    [
        lambda flow: written_json(taken_by_b(flow), 1_500),
        lambda flow: written_json([{str(n): LARGE for n in range(COPIES)}], 120),
        lambda flow: argument_fields({"v": taken_by_b(flow)}, None)[0].note,
        lambda flow: draw(flow).edges[0].label,
    ],
)
def test_a_value_that_is_referred_to_many_times_is_not_written_each_time(shown: Callable[[Flow], str]) -> None:
    flow = flow_of_copies()
    tracemalloc.start()
    try:
        text = shown(flow)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text
    assert peak < 200_000  # bytes; one copy is 240 kB


def test_a_value_that_does_not_fit_a_field_is_not_shown_in_it() -> None:
    fits, large = (argument_fields({"v": ["a" * size]}, None)[0] for size in (MOST_CHARS - 4, MOST_CHARS - 3))
    assert (len(fits.text), fits.note) == (MOST_CHARS, "")
    assert (large.text, large.note) == ("", "a large value; text entered here replaces it")


def test_long_choices_are_not_offered() -> None:
    def choices(*several: JsonValue) -> tuple[str, ...]:
        parameter = Parameter(
            name="v", wire_name="v", location=Location.QUERY, json_schema={"type": "string", "enum": list(several)}
        )
        return argument_fields({}, api("http://x", "/p").model_copy(update={"parameters": (parameter,)}))[0].choices

    assert choices("a", "b") == ("a", "b")
    assert choices("a", LARGE) == ()
