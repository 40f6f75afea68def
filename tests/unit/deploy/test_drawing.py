"""What is drawn of runs: everything a person has to know, and nothing that steers the terminal."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_core import from_json, to_json
from rich.console import Console

from deploy.drawing import draw_doubt, draw_previews, draw_request, draw_run, outcome_line, visible, visible_json
from deploy.following import RunDrawing, event_line
from services.contracts.answer import Answer, AnswerValue
from services.contracts.doubt import DoubtfulCall
from services.contracts.event import RunFinished, RunPlanned
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.outcome import (
    Failed,
    InDoubt,
    ItemRecord,
    RequestRecord,
    Skipped,
    StepOutcome,
    StepRecord,
    StoredValue,
    Succeeded,
)
from services.contracts.plan import AnswerOutput, ForEach, LiteralValue, Plan, Reference, Step
from services.contracts.planning import Diagnostic, DiagnosticCode, Proof, Question
from services.contracts.preview import RequestPreview
from services.contracts.run import Run, RunStatus

REQUEST = RequestRecord(method="POST", url="http://h/{item.id}", headers={"X-Key": "***"}, body={"note": "hi"})
STORED = StoredValue(id="ab" * 32, bytes=1_234_567)
TWO = tuple(ItemRecord(index=index, outcome=Succeeded(status=200)) for index in range(2))
PLAN = Plan(
    steps=(
        Step(id="var1", api="t.list", arguments={"q": LiteralValue(value="x")}),
        Step(id="var2", api="t.save", foreach=ForEach(items=Reference(step="var1", path=("items",)))),
        Step(id="var3", api="t.other"),
    ),
    answer=(AnswerOutput(name="all", value=Reference(step="var2")),),
)


def a_run(status: RunStatus = RunStatus.SUCCEEDED, **more: Any) -> Run:
    proof = Proof(checks=1, stages=(("var1", "var3"), ("var2",)))
    return Run(
        id="run_1",
        status=status,
        query="q",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        plan=PLAN,
        proof=proof,
        **more,
    )


def record(step: str, outcome: StepOutcome, **more: Any) -> StepRecord:
    return StepRecord(step=step, api=f"t.{step}", outcome=outcome, started_ms=0, duration_ms=12, **more)


def drawn(run: Run) -> str:
    console = plain_console()
    draw_run(console, run)
    return written(console)


def plain_console(**more: Any) -> Console:
    return Console(file=io.StringIO(), width=200, **more)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("outcome", "more", "line"),
    [
        (Succeeded(value={"a": 1}), {}, '✓ 12 ms  {"a": 1}'),
        (Succeeded(value=1), {"pages": 3}, "✓ 12 ms  1  (3 pages)"),
        (Succeeded(value=1), {"pages": 3, "more": True}, "✓ 12 ms  1  (3 pages, and there are more)"),
        (Succeeded(value=1), {"more": True}, "✓ 12 ms  1  (there is more)"),
        (Succeeded(value=1), {"violations": ("a", "b")}, "✓ 12 ms  1  (differs from its schema in 2 places)"),
        (Succeeded(value=1), {"recovered": True, "attempts": 2},
         "✓ 12 ms  1  (2 attempts; recovered from the ledger after a crash)"),
        (Failed(reason="timeout", message="too slow"), {"attempts": 3}, "✗ too slow  (3 attempts)"),
        (Failed(reason="upstream_error", message="it answered 404", status=404, detail={"why": "\x1b[31mgone"}), {},
         '✗ it answered 404: {"why": "\\u001b[31mgone"}'),
        (Succeeded(value=[1, 2]), {"attempts": 2, "pages": 2, "items": TWO}, "✓ 12 ms  [1, 2]"),
        (Succeeded(value=[1, 2]), {"attempts": 3, "pages": 2, "items": TWO}, "✓ 12 ms  [1, 2]  (3 attempts)"),
        (Skipped(because="var1"), {"attempts": 0}, "- skipped: var1"),
        (InDoubt(message="no answer"), {}, "? in doubt: no answer"),
        (Succeeded(value="xxx", stored=STORED), {},
         f'✓ 12 ms  "xxx"  the beginning of 1,234,567 bytes, stored as {STORED.id}'),
    ],
)  # fmt: skip
def test_an_outcome_is_a_line_with_what_is_worth_knowing(outcome: StepOutcome, more: Any, line: str) -> None:
    assert outcome_line(record("var1", outcome, **more)).plain == line


def test_items_that_did_not_succeed_are_listed() -> None:
    outcomes: list[StepOutcome] = [
        Succeeded(value=0),
        Failed(reason="timeout", message="slow"),
        InDoubt(message="gone"),
    ]
    outcomes += [Skipped(because="cancelled")] * 6
    items = tuple(ItemRecord(index=index, outcome=outcome) for index, outcome in enumerate(outcomes))
    shown = drawn(a_run(steps=(record("var2", InDoubt(message="1 of 9"), items=items),)))
    assert "1 of 9 items succeeded" in shown
    assert "item 1 ✗ slow" in shown
    assert "item 2 ? in doubt: gone" in shown
    assert "item 5 - skipped: cancelled" in shown
    assert "item 6" not in shown
    assert "and 3 more" in shown


def test_a_credential_that_is_refused_is_named_by_its_provider() -> None:
    refused = Failed(reason="upstream_error", message="it answered 401", status=401)
    presented = record("var1", refused).model_copy(update={"secrets": ("t.key",)})
    assert "t rejected t.key; set the right value with nestor secrets set" in drawn(
        a_run(RunStatus.FAILED, steps=(presented,))
    )
    assert "with --auth" in drawn(a_run(RunStatus.FAILED, steps=(record("var1", refused),)))
    assert "secrets" not in drawn(
        a_run(RunStatus.FAILED, steps=(record("var1", Failed(reason="timeout", message="")),))
    )


def test_a_question_says_how_it_is_answered_and_its_diagnostic_nothing_more() -> None:
    question = Question(step="var1", api="t.find", argument="name", text="Which name?")
    others = [
        Diagnostic(code=DiagnosticCode.MISSING_ARGUMENT, step="var1", argument=name, message="it is needed")
        for name in ("name", "other")
    ]
    shown = drawn(a_run(RunStatus.NEEDS_INPUT, questions=(question,), diagnostics=tuple(others)))
    assert "? Which name?" in shown
    assert "--value name=..." in shown
    assert "! var1.name" not in shown
    assert "! var1.other" in shown


UNTOLD = "I can find the order; none of the APIs tells “weight”."


@pytest.mark.parametrize(
    "more",
    [
        {"status": RunStatus.PLANNED, "untold": UNTOLD},
        {"status": RunStatus.NO_PLAN, "untold": UNTOLD, "reason": f"{UNTOLD} I am not sure what you mean."},
        {"status": RunStatus.NEEDS_APPROVAL, "unsure": UNTOLD},
        {"unsure": UNTOLD, "answer": Answer(values=(AnswerValue(name="a", value=1, step="var1"),), text=UNTOLD)},
        {"untold": UNTOLD, "answer": Answer(values=(AnswerValue(name="a", value=1, step="var1"),), text=UNTOLD)},
    ],
)
def test_a_remark_is_said_once(more: Any) -> None:
    assert drawn(a_run(**more)).count(UNTOLD) == 1


def test_an_answer_that_is_not_complete_says_so_in_its_title() -> None:
    value = AnswerValue(name="a", value=[1], step="var1")
    cut = value.model_copy(update={"partial": True})
    assert "answer, not complete" in drawn(a_run(answer=Answer(values=(cut,), text="a")))
    assert "complete" not in drawn(a_run(answer=Answer(values=(value,), text="a")))


def test_a_failure_is_said_once_and_nothing_is_said_of_its_odds() -> None:
    failed = record("var1", Failed(reason="upstream_error", message="502 from demo"))
    shown = drawn(a_run(status=RunStatus.FAILED, steps=(failed,), reason="502 from demo", unsure="I am not sure."))
    assert shown.count("502 from demo") == 1
    assert "not sure" not in shown


def test_a_bar_joins_what_can_run_at_the_same_time() -> None:
    lines = drawn(a_run(steps=(record("var1", Succeeded(value=1)),))).splitlines()
    assert [line.rstrip() for line in lines[:4]] == [
        '┌ var1 t.list(q="x")',
        "│      ✓ 12 ms  1",
        "└ var3 t.other()",
        "  var2 t.save() for each item of var1.items",
    ]


def test_a_run_that_waits_shows_its_requests() -> None:
    previews = (
        RequestPreview(step="var2", api="t.save", request=REQUEST, complete=False, foreach="{var1.items}"),
        RequestPreview(step="var3", api="t.other", request=REQUEST, complete=False, problem="it has no server"),
        RequestPreview(step="var1", api="t.list", request=REQUEST, complete=True),
    )
    shown = drawn(a_run(RunStatus.NEEDS_APPROVAL, previews=previews))
    assert "var2  t.save for each item of {var1.items}\n  POST http://h/{item.id}\n  X-Key: ***\n" in shown
    assert '  {"note": "hi"}\n  Values in braces are known only' in shown
    assert shown.count("Values in braces") == 1
    assert "cannot be sent: it has no server" in shown
    assert "nestor runs approve run_1" in shown


def test_long_bodies_are_laid_out_and_cut_unless_they_are_to_be_approved() -> None:
    body = {"text": "x" * 100, "list": list(range(2_000)), "last": "told"}
    request = REQUEST.model_copy(update={"body": body})
    console = plain_console()
    draw_previews(console, [RequestPreview(step="a", api="t.a", request=request, complete=True)])
    shown = written(console)
    assert f'    "text": "{"x" * 100}",\n' in shown
    assert shown.rstrip().endswith('"last": "told"\n  }')
    console = plain_console()
    draw_request(console, request)
    cut = written(console)
    assert cut.rstrip().endswith("…")
    assert len(cut) < 10_000


def test_doubts_say_how_they_are_settled() -> None:
    doubts = (
        DoubtfulCall(step="var2", api="t.save", item=3, request=REQUEST, message="no answer"),
        DoubtfulCall(step="var3", api="t.other", message="no answer"),
    )
    shown = drawn(a_run(RunStatus.IN_DOUBT, doubts=doubts))
    assert "var2, item 3  t.save: no answer\n  POST http://h/{item.id}" in shown
    assert "nestor runs resolve run_1 var2 --item 3 --outcome" in shown
    assert "nestor runs resolve run_1 var3 --outcome" in shown


def test_a_sentence_stands_above_the_values() -> None:
    value = AnswerValue(name="minutes", value=90, step="var1")
    shown = drawn(a_run(answer=Answer(values=(value,), text="minutes: 90", sentence="It takes 90 minutes.")))
    assert shown.index("It takes 90 minutes.") < shown.index("minutes: 90")


def test_an_answer_that_is_only_the_beginning_says_where_the_rest_is() -> None:
    value = AnswerValue(name="all", value="xxx", step="var2", stored=STORED)
    shown = drawn(a_run(answer=Answer(values=(value,), text="all: xxx")))
    assert f"nestor runs value run_1 {STORED.id}" in shown


@pytest.mark.parametrize(
    "steering", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\x08", "\r", "\x7f", "\u202e", "\u2066"]
)
def test_nothing_that_a_service_wrote_steers_the_terminal(steering: str) -> None:
    bad = f"a{steering}b"
    request = RequestRecord(method="POST", url=bad, headers={bad: bad}, body=bad)
    value = AnswerValue(name=bad, value=bad, step="var2")
    run = a_run(
        RunStatus.NEEDS_APPROVAL,
        steps=(record("var1", Failed(reason="timeout", message=bad)), record("var3", InDoubt(message=bad))),
        answer=Answer(values=(value,), text=bad),
        previews=(RequestPreview(step="var1", api=bad, request=request, complete=True, problem=bad),),
        doubts=(DoubtfulCall(step="var1", api=bad, request=request, message=bad),),
        reason=bad,
    )
    console = plain_console()
    draw_doubt(console, bad, run.doubts[0])
    shown = drawn(run) + written(console)
    assert steering not in shown.replace("\n", "")
    assert shown.count("�") >= 10
    assert visible("ü\t動\n") == "ü\t動\n"


def test_a_run_that_goes_on_is_drawn_from_its_second_plan() -> None:
    console = plain_console(force_terminal=True, no_color=True)
    drawing = RunDrawing(console)
    run = a_run(RunStatus.RUNNING)
    failed = record("var1", Failed(reason="timeout", message="slow"))
    waited = a_run(RunStatus.IN_DOUBT, steps=(failed,))
    done = a_run(steps=(record("var1", Succeeded(value=7)),))
    begun = StepStarted(step="var1", api="t.list", at_ms=0)
    for event in (RunPlanned(run=run), begun, StepFinished(record=failed), RunFinished(run=waited)):
        drawing.show(event)
    for event in (RunPlanned(run=run), begun):
        drawing.show(event)
    drawing.finish(done)
    last = written(console).rpartition("t.list")[2]
    assert "✓ 12 ms  7" in last
    assert "slow" not in last
    assert written(console).count("succeeded") == 1


def test_elsewhere_a_run_is_drawn_once_at_its_end() -> None:
    console = plain_console()
    drawing = RunDrawing(console)
    drawing.show(RunPlanned(run=a_run(RunStatus.RUNNING)))
    drawing.show(StepStarted(step="var1", api="t.list", at_ms=0))
    assert written(console) == ""
    drawing.finish(a_run())
    assert written(console).count("t.list") == 1


def test_events_are_lines() -> None:
    events = (RunPlanned(run=a_run()), StepStarted(step="var1", api="t.list", at_ms=0),
              StepFinished(record=record("var1", Succeeded(value=1))), RunFinished(run=a_run()))  # fmt: skip
    assert [event_line(event).plain for event in events] == [
        "planned: 3 steps",
        "var1 t.list …",
        "var1 t.var1 ✓ 12 ms  1",
        "succeeded",
    ]


def test_json_on_a_terminal_is_the_same_json_without_control_characters() -> None:
    value = {"ü\x9b31m": ["\x7f\x85", "\u202e\u2066", "\x1b[2J\n", "動"]}
    shown = visible_json(to_json(value, indent=2).decode())
    assert from_json(shown) == value
    assert visible(shown) == shown
    assert "ü" in shown
    assert "動" in shown
    assert visible_json("[]") == "[]"
