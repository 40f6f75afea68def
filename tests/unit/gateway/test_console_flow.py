"""What flowed through a run: states, values, and bars."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from gateway.console.flow import Flow, _by_depth
from gateway.console.graph import MOST_BOXES, draw
from services.contracts.event import RunEvent, RunPlanned
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.outcome import Failed, Skipped, StepOutcome, StepRecord, StoredValue, Succeeded
from services.contracts.plan import AnswerOutput, ListValue, LiteralValue, Match, Plan, Reference, Step
from services.contracts.run import Run, RunStatus


def _record(step: str, outcome: StepOutcome, started: float = 0, took: float = 10) -> StepRecord:
    return StepRecord(step=step, api="a.b", outcome=outcome, started_ms=started, duration_ms=took)


def _run(plan: Plan, *records: StepRecord) -> Run:
    return Run(id="run_1", status=RunStatus.FAILED, query="q", created_at=datetime.now(UTC), plan=plan, steps=records)


def _taking(*references: Reference) -> Plan:
    value = ListValue(items=references)
    return Plan(steps=(Step(id="a", api="a.b"), Step(id="b", api="a.b", arguments={"x": value})))


def test_values_are_those_of_the_records_and_what_is_unknown_is_said() -> None:
    plan = _taking(
        Reference(step="a", path=("items", 0, "id")),
        Reference(step="a", path=("items", 7)),
        Reference(step="a", path=("items", 0, "id"), match=Match(said=("Ada",))),
        Reference(step="gone"),
    )
    flow = Flow(_run(plan, _record("a", Succeeded(value={"items": [{"id": 1}, {"id": 2}]}))))
    first, missing, chosen = (one.found for one in flow.bindings["a", "b"])
    assert (first.known, first.value, first.type) == (True, 1, "integer")
    assert (missing.known, missing.note) == (False, "not in the answer")
    assert not chosen.known
    assert "Ada" in chosen.note
    (shown,) = flow.inputs(flow.steps[1])
    assert not shown.found.known
    assert shown.said == '[a.items[0].id, a.items[7], a.items["Ada"].id, gone]'


@pytest.mark.parametrize(
    "preview",
    [Succeeded(value={}, stored=StoredValue(id="0" * 64, bytes=9)), Succeeded(value={}, kept=False)],
)
def test_a_preview_does_not_say_that_something_is_missing(preview: Succeeded) -> None:
    flow = Flow(_run(_taking(Reference(step="a", path=("x",))), _record("a", preview)))
    assert "large" in flow.bindings["a", "b"][0].found.note


def test_few_of_many_long_lists_are_looked_at() -> None:
    plan = _taking(*(Reference(step="a", path=("rows", "*", name)) for name in "abcd"))
    rows: list[JsonValue] = [dict.fromkeys("abcd", 1)] * 20_000
    flow = Flow(_run(plan, _record("a", Succeeded(value={"rows": rows}))))
    found = [one.found for one in flow.bindings["a", "b"]]
    assert [one.known for one in found] == [True, True, False, False]
    assert found[2].note == "of every item of a long list"


def test_a_run_under_way_is_told_by_its_events() -> None:
    plan = _taking(Reference(step="a"))
    run = _run(plan)
    told = [
        StepFinished(record=_record("b", Failed(reason="timeout", message="of a plan before"))),
        RunPlanned(run=run),
        StepStarted(step="a", api="a.b", at_ms=0),
    ]
    events = [RunEvent(id=n + 1, event=event) for n, event in enumerate(told)]
    assert [Flow(run, events).state(step) for step in "ab"] == ["running", "waiting"]
    events.append(RunEvent(id=9, event=StepFinished(record=_record("a", Succeeded(value=1)))))
    assert Flow(run, events).state("a") == "succeeded"


def test_pauses_are_shortened_and_parallel_steps_stand_side_by_side() -> None:
    plan = Plan(steps=tuple(Step(id=one, api="a.b") for one in "abcd"))
    late = 60_000
    flow = Flow(
        _run(
            plan,
            _record("a", Succeeded(), 0, 100),
            _record("b", Succeeded(), 50, 50),
            _record("c", Succeeded(), late, 100),
            _record("d", Skipped(because="a")),
        )
    )
    bars = flow.bars
    assert set(bars) == {"a", "b", "c"}
    assert bars["a"].x == 0
    assert bars["a"].x < bars["b"].x < bars["a"].x + bars["a"].width
    assert bars["c"].x + bars["c"].width <= 100.1
    assert bars["c"].width > 40


def test_a_plan_without_a_proof_is_drawn_even_with_a_circle() -> None:
    one = Step(id="a", api="a.b", after=("b",))
    plan = Plan(steps=(one, Step(id="b", api="a.b", after=("a",))))
    assert len(draw(Flow(_run(plan))).boxes) == 2


def test_of_many_steps_those_alike_are_one_box() -> None:
    wide = [Step(id=f"w{n}", api="a.wide", after=("a",)) for n in range(200)]
    long = [Step(id=f"l{n}", api=f"a.op{n}", after=(f"l{n - 1}" if n else "a",)) for n in range(800)]
    last = AnswerOutput(name="x", value=Reference(step="l799"))
    plan = Plan(steps=(Step(id="a", api="a.b"), *wide, *long), answer=(last,))
    drawing = draw(Flow(_run(plan)))
    assert drawing.grouped
    assert len(drawing.boxes) <= MOST_BOXES + 1
    assert sum(box.count for box in drawing.boxes) == 1_002


def test_labels_do_not_lie_on_each_other() -> None:
    sources = [Step(id=f"s{n}", api="a.b") for n in range(4)]
    arguments = {f"x{n}": Reference(step=f"s{n}", path=("v",)) for n in range(4)}
    targets = [Step(id=f"t{n}", api="a.b", arguments=dict(arguments)) for n in range(2)]
    literal = Step(id="u", api="a.b", arguments={"y": LiteralValue(value=1)})
    drawing = draw(Flow(_run(Plan(steps=(*sources, *targets, literal)))))
    places = [(edge.label_at, edge.label_width) for edge in drawing.edges]
    assert len(set(places)) == len(places) == 8


def test_of_very_many_edges_the_shortest_are_drawn() -> None:
    """Sixty steps that each take a value of all before them made a page of 1.4 MB."""
    steps = [
        Step(id=f"s{n}", api="a.b", arguments={f"x{k}": Reference(step=f"s{k}") for k in range(n)}) for n in range(60)
    ]
    drawing = draw(Flow(_run(Plan(steps=tuple(steps)))))
    assert (len(drawing.edges), drawing.left_out) == (300, 60 * 59 // 2 - 300)
    drawn = {edge.name for edge in drawing.edges}
    assert {f"s{n}.s{n + 1}" for n in range(59)} < drawn
    assert "s0.s59" not in drawn


def test_steps_are_gone_through_a_few_times_to_find_their_depth() -> None:
    class Counted(tuple[Step, ...]):
        times = 0

        def __iter__(self) -> Iterator[Step]:
            Counted.times += 1
            return super().__iter__()

    steps = Counted(Step(id=f"s{n}", api="a.b", after=(f"s{n - 1}",) if n else ()) for n in range(500))
    assert len(_by_depth(steps)) == 500
    assert Counted.times <= 2


def test_each_dependency_is_looked_at_once_to_find_the_depth() -> None:
    class Name(str):
        __slots__ = ()
        hashed = 0

        def __hash__(self) -> int:
            Name.hashed += 1
            return super().__hash__()

    def hashed(most: int) -> int:
        names = [Name(f"s{n}") for n in range(most)]
        after = [(), *((name,) for name in names[:-1])]
        steps = [
            Step.model_construct(id=name, api="a.b", after=waits) for name, waits in zip(names, after, strict=True)
        ]
        Name.hashed = 0
        assert _by_depth(steps) == [[name] for name in names]
        return Name.hashed

    assert hashed(400) < 3 * hashed(200)


def test_steps_of_a_cycle_come_last_and_steps_of_a_depth_in_the_order_of_the_plan() -> None:
    waits = {"d": (), "z": ("d",), "c": ("x", "d"), "b": ("c",), "a": ("d",), "x": ("b",), "e": (), "y": ("y",)}
    steps = [Step(id=name, api="a.b", after=after) for name, after in waits.items()]
    assert _by_depth(steps) == [["d", "e"], ["z", "a"], ["c", "b", "x", "y"]]
    assert _by_depth([]) == []
