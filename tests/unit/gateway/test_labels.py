"""Which call a value of an answer is from, in the answer's text."""

from pydantic import JsonValue

from gateway.labels import labels_of
from gateway.rendering import render
from services.contracts.answer import AnswerValue
from services.contracts.outcome import ItemRecord, StepRecord, Succeeded
from services.contracts.plan import ForEach, ItemReference, LiteralValue, Match, Plan, Reference, Step, When


def record(step: str, value: JsonValue) -> StepRecord:
    outcome = Succeeded(status=200, value=value)
    return StepRecord(step=step, api="x", outcome=outcome, started_ms=0, duration_ms=1)


def track(step: str, number: str, **more: str) -> Step:
    arguments = {"number": number, "units": "kg", **more}
    return Step(id=step, api="track", arguments={key: LiteralValue(value=value) for key, value in arguments.items()})


def value(step: str, name: str, found: JsonValue, *path: str) -> AnswerValue:
    return AnswerValue(name=name, value=found, step=step, path=path)


def text_of(plan: Plan, records: list[StepRecord], values: list[AnswerValue]) -> str:
    return render(values, labels=labels_of(plan, records, values))


def test_calls_of_one_operation_are_told_apart_by_their_arguments() -> None:
    plan = Plan(steps=(track("var1", "FR1"), track("var2", "FR\n2")), answer=())
    records = [record("var1", {}), record("var2", {})]
    values = [value("var1", "status", "sent", "status"), value("var2", "status_2", "lost", "status")]
    assert text_of(plan, records, values) == "FR1:\n  status: sent\nFR 2:\n  status: lost"
    assert text_of(plan, records, values[:1]) == "status: sent"


def test_calls_that_do_not_differ_in_what_was_said_have_no_labels() -> None:
    found = Reference(step="var0", path=("number",))
    first = track("var1", "FR1").model_copy(update={"arguments": {"number": found}})
    plan = Plan(steps=(first, track("var2", "FR2")), answer=())
    values = [value("var1", "a", 1, "a"), value("var2", "b", 2, "b")]
    assert text_of(plan, [record("var1", {}), record("var2", {})], values) == "a: 1\nb: 2"


def test_calls_of_different_operations_that_answer_alike_stand_below_their_names() -> None:
    plan = Plan(steps=(track("var1", "FR1"), Step(id="var2", api="cancel"), Step(id="var3", api="note")), answer=())
    records = [record(step, {}) for step in ("var1", "var2", "var3")]
    values = [value("var1", "id", 1, "id"), value("var2", "id_2", 2, "id"), value("var3", "line_2", "x", "line_2")]
    assert text_of(plan, records, values) == "track:\n  id: 1\ncancel:\n  id: 2\nline_2: x"
    assert text_of(plan, records, values[1:]) == "id: 2\nline_2: x"  # the first one gave no value
    twice = [value("var1", "at", "x", "from", "at"), value("var1", "at_2", "y", "to", "at")]
    assert text_of(plan, records, twice) == "at: x\nat_2: y"


def loop(items: JsonValue, answers: JsonValue) -> str:
    of_each = ForEach(items=Reference(step="var1", path=("items",)))
    second = Step(id="var2", api="notes", arguments={"id": ItemReference(path=("id",))}, foreach=of_each)
    plan = Plan(steps=(Step(id="var1", api="tickets"), second), answer=())
    records = [record("var1", {"items": items}), record("var2", answers)]
    return text_of(plan, records, [value("var2", "items", answers)])


def test_answers_of_a_loop_begin_with_their_items() -> None:
    tickets: JsonValue = [
        {"id": 1, "open": True, "tags": ["x"], "title": "Leak\n  - id: 2", "at": "B-1", "more": "no"},
        {"id": 2, "title": ""},
    ]
    lines = loop(tickets, [{"items": [{"text": "soon"}]}, {"items": []}]).splitlines()
    assert lines == ["items:", "  - 1, Leak - id: 2, B-1: items: [(text: soon)]", "  - 2: none"]
    assert loop(["a"], [{"n": 1}]) == "items:\n  - a: n: 1"
    assert loop(None, [{"n": 1}]) == "items:\n  - n: 1"
    many = loop(list(range(30)), [{"n": number} for number in range(30)]).splitlines()
    assert (many[1], many[10], many[11]) == ("  - 0: n: 0", "  - 9: n: 9", "  … and 20 more")


def test_a_loop_over_a_part_of_a_list_has_no_labels_of_other_items() -> None:
    orders: JsonValue = [{"id": "A-1", "late": False}, {"id": "B-2", "late": True}]
    is_late = When(left=ItemReference(path=("late",)), op="eq", right=LiteralValue(value=True))

    def shown(step: Step, *made: str) -> str:
        plan = Plan(steps=(Step(id="var1", api="orders"), step), answer=())
        items = tuple(ItemRecord(index=n, outcome=Succeeded(status=200)) for n in range(len(made)))
        found: JsonValue = {"items": orders, "of": [{"items": orders}]}
        records = [record("var1", found), record("var2", [*made]).model_copy(update={"items": items})]
        return text_of(plan, records, [value("var2", "done", [*made])])

    each = ForEach(items=Reference(step="var1", path=("items",)))
    late = Step(id="var2", api="cancel", foreach=each, when=is_late)
    assert shown(late, "yes") == "done:\n  - yes"
    assert shown(late, "yes", "no") == "done:\n  - A-1: yes\n  - B-2: no"  # each one is late
    other = ForEach(items=Reference(step="var1", path=("of", 0, "items"), match=Match(said=("Ann",))))
    assert shown(Step(id="var2", api="cancel", foreach=other), "yes", "no") == "done:\n  - yes\n  - no"


def test_of_very_many_calls_the_arguments_are_not_compared() -> None:
    steps = tuple(Step(id=f"v{n}", api="x", arguments={f"a{n}": LiteralValue(value=n)}) for n in range(101))
    records, values = [record(step.id, 1) for step in steps], [value(step.id, step.id, 1) for step in steps]
    assert labels_of(Plan(steps=steps, answer=()), records, values).calls == {}
    assert labels_of(Plan(steps=steps[:100], answer=()), records[:100], values[:100]).calls["v7"] == "7"
