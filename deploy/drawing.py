"""Draws plans, runs and answers for a terminal. If the output is not a terminal, it writes the same as plain lines."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.contracts.doubt import DoubtfulCall
from services.contracts.evidence import Attempt, written_call, written_path
from services.contracts.outcome import (
    Failed,
    InDoubt,
    RequestRecord,
    Skipped,
    StepOutcome,
    StepRecord,
    StoredValue,
    Succeeded,
)
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Plan, Reference, Step, Value
from services.contracts.planning import Diagnostic, DiagnosticCode
from services.contracts.preview import RequestPreview
from services.contracts.run import EvidenceRound, Run, RunStatus

_MAX_DETAIL = 200
_STATUS_STYLE = {
    RunStatus.SUCCEEDED: "bold green",
    RunStatus.PLANNED: "bold cyan",
    RunStatus.NEEDS_INPUT: "bold yellow",
    RunStatus.NEEDS_APPROVAL: "bold yellow",
    RunStatus.IN_DOUBT: "bold yellow",
    RunStatus.NO_PLAN: "bold yellow",
}
_BIDI_CONTROLS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder what a line shows: Unicode TR 36
_CONTROL_CHARS = {code: "�" for code in (*range(0x20), *range(0x7F, 0xA0), *_BIDI_CONTROLS) if chr(code) not in "\n\t"}
_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROL_CHARS if code >= 0x7F}
_EVIDENCE_TEXT = {
    "replanned": "planned again:",
    "no_plan": "there is no other plan.",
    "needs_input": "another plan would need more input.",
    "same_plan": "the planner found no other plan.",
    "other_changes": "another plan would change something else.",
    "unasked": "there was no time for another plan.",
}
_MAX_ITEMS = 5
_PIPED_WIDTH = 10_000
_MAX_BODY_CHARS = 2_000
_MAX_READ_CHARS = 500


def visible(text: str) -> str:
    """The text without terminal control characters: much of it comes from services and documents."""
    return text.translate(_CONTROL_CHARS)


def visible_json(text: str) -> str:
    """JSON text in which the control characters that strings may hold are escaped. It stays the same JSON."""
    return text.translate(_ESCAPES)


def plain(text: str, style: str = "") -> Text:
    """Text from any source, made safe to print."""
    return Text(visible(text), style)


def screen(*, stderr: bool = False) -> Console:
    """Standard output or error. Where that is no terminal, no line is cut or broken, so that lines can be searched."""
    console = Console(stderr=stderr)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _PIPED_WIDTH
    return console


def counted(number: int, noun: str = "operation") -> str:
    """A number of things in words: ``1 operation``, ``1,200 operations``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def show_value(value: Value) -> str:
    """A value as it appears in a call: JSON for literals, ``var1.items[0].id`` for references."""
    if isinstance(value, LiteralValue):
        return _cut(json.dumps(value.value, ensure_ascii=False), 60)
    if isinstance(value, Reference):
        return value.step + written_path(value.path, value.match)
    if isinstance(value, ItemReference):
        return "item" + written_path(value.path)
    if isinstance(value, ListValue):
        return "[" + ", ".join(show_value(item) for item in value.items) + "]"
    assert isinstance(value, ObjectValue)
    return "{" + ", ".join(f"{key}: {show_value(item)}" for key, item in value.fields.items()) + "}"


def show_call(step: Step) -> str:
    """A step as a call: ``getHolidays(country=var1.alpha2, year=2027)``."""
    arguments = ", ".join(f"{name}={show_value(value)}" for name, value in step.arguments.items())
    each = f" for each item of {show_value(step.foreach.items)}" if step.foreach else ""
    return f"{step.api}({arguments}){each}"


def plan_table(plan: Plan, stages: Sequence[Sequence[str]], records: dict[str, StepRecord], running: set[str]) -> Table:
    """The plan, each call with its outcome below it. A bar on the left joins calls that can run at the same time."""
    table = Table.grid(padding=(0, 1))
    for _ in range(3):
        table.add_column(overflow="fold")
    for stage in stages or [[step.id] for step in plan.steps]:
        for index, step_id in enumerate(stage):
            step = plan.step(step_id)
            if step is not None:
                below = _below(step_id, records, running)
                body = Text("\n").join([plain(show_call(step)), *below])
                table.add_row(_bar(index, len(stage), height=1 + len(below)), Text(step_id, "bold cyan"), body)
    return table


def two_digits(value: float | None) -> str:
    """A number with two digits after the point; empty if there is none."""
    return "" if value is None else f"{value:.2f}"


def candidate_table(run: Run) -> Table:
    """The APIs a run was planned with: how likely each is needed, its scores, what found it and for which clause."""
    table = Table("likely", "score", "by", "meaning", "words", "API", "clause", box=None)
    for found in run.candidates:
        signals = two_digits(found.signals.dense), two_digits(found.signals.lexical)
        clause = run.clauses[found.clause].text if found.clause < len(run.clauses) else ""
        by = found.found_by.replace("_", " ")
        scores = two_digits(found.relevance), two_digits(found.score)
        table.add_row(*scores, by, *signals, plain(found.api), plain(_cut(clause, 60)))
    return table


def _bar(index: int, size: int, *, height: int) -> Text:
    if size == 1:
        return Text(" ")
    first = "┌" if index == 0 else "└" if index == size - 1 else "├"
    return Text(first + ("\n│" * (height - 1) if index < size - 1 else ""), "dim")


def _below(step_id: str, records: dict[str, StepRecord], running: set[str]) -> list[Text]:
    record = records.get(step_id)
    if record is None:
        return [Text("running…", "yellow")] if step_id in running else []
    return [outcome_line(record), *_item_lines(record)]


def outcome_line(record: StepRecord) -> Text:
    """A step's outcome, with notes on further attempts and pages, differences from the schema, and recovery."""
    calls = max(1, len(record.items))
    line = _outcome(record.outcome, record.duration_ms)
    notes = [
        f"{record.attempts} attempts" if record.attempts > calls else "",
        f"{record.pages} pages{', and there are more' if record.more else ''}" if record.pages > calls else "",
        "there is more" if record.more and record.pages <= calls else "",
        f"differs from its schema in {counted(len(record.violations), 'place')}" if record.violations else "",
        "recovered from the ledger after a crash" if record.recovered else "",
        "" if not isinstance(record.outcome, Succeeded) or record.outcome.kept else "only its beginning was kept",
    ]
    said = "; ".join(note for note in notes if note)
    return line.append(f"  ({said})", "dim") if said else line


def _outcome(outcome: StepOutcome, duration_ms: float | None = None) -> Text:
    if isinstance(outcome, Succeeded):
        took = f"{duration_ms:.0f} ms  " if duration_ms is not None else ""
        line = plain(f"✓ {took}{_cut(json.dumps(outcome.value, ensure_ascii=False), 70)}", "green")
        return line.append(f"  {_stored(outcome.stored)}", "dim") if outcome.stored else line
    if isinstance(outcome, Failed):
        said = f": {_cut(json.dumps(outcome.detail, ensure_ascii=False), _MAX_DETAIL)}" if outcome.detail else ""
        return plain(f"✗ {outcome.message}{said}", "red")
    if isinstance(outcome, Skipped):
        return plain(f"- skipped: {outcome.because}", "dim")
    assert isinstance(outcome, InDoubt)
    return plain(f"? in doubt: {outcome.message}", "bold yellow")


def _item_lines(record: StepRecord) -> list[Text]:
    """The items of a `foreach` that did not succeed, and the number that did."""
    others = [item for item in record.items if not isinstance(item.outcome, Succeeded)]
    if not others:
        return []
    lines = [Text(f"{len(record.items) - len(others)} of {len(record.items)} items succeeded", "yellow")]
    lines += [Text(f"  item {item.index} ").append_text(_outcome(item.outcome)) for item in others[:_MAX_ITEMS]]
    return [*lines, Text(f"  and {len(others) - _MAX_ITEMS} more")] if len(others) > _MAX_ITEMS else lines


def _stored(stored: StoredValue) -> str:
    return f"the beginning of {stored.bytes:,} bytes, stored as {stored.id}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def run_drawing(run: Run, records: dict[str, StepRecord], running: set[str]) -> Group:
    """The run's plan with the outcomes of its calls, below the earlier plans and the calls that made them fail."""
    parts: list[RenderableType] = []
    for earlier in run.evidence:
        if earlier.plan is not None:
            parts.append(plan_table(earlier.plan, (), {record.step: record for record in earlier.steps}, set()))
            parts += _evidence_lines(earlier)
    if run.plan is not None:
        parts.append(plan_table(run.plan, run.proof.stages if run.proof else (), records, running))
    stood = [earlier for earlier in run.evidence if earlier.plan is None]
    return Group(*parts, *(line for earlier in stood for line in _evidence_lines(earlier)))


def _evidence_lines(what: EvidenceRound) -> list[Text]:
    """The calls that did not help in this round, and what the planner did next."""
    lines = [plain(f"↺ {attempt_text(attempt)}", "yellow") for attempt in what.attempts]
    return [*lines, Text(f"  {_EVIDENCE_TEXT[what.outcome]}", "yellow")]


def attempt_text(attempt: Attempt) -> str:
    """A call that did not help, in one line."""
    said = f": {attempt.reason}" if attempt.reason else ""
    outcome = attempt.outcome.replace("_", " ")
    return _cut(f"{written_call(attempt.api, attempt.arguments)} {outcome}{said}", 160)


def draw_run(console: Console, run: Run) -> None:
    """Draw the whole run: the plan with outcomes, then the answer or the reason there is none."""
    if run.plan is not None:
        console.print(run_drawing(run, {record.step: record for record in run.steps}, set()))
    draw_conclusion(console, run)


def draw_conclusion(console: Console, run: Run) -> None:
    """Draw the answer, or the questions, diagnostics or reason if there is none."""
    _draw_answer(console, run)
    if run.questions:
        _draw_questions(console, run)
    for diagnostic in _new_diagnostics(run):
        where = ".".join(part for part in (diagnostic.step, diagnostic.argument) if part)
        console.print(plain(f"! {where}: {diagnostic.message}" if where else f"! {diagnostic.message}", "yellow"))
    unsure = "" if run.status is RunStatus.FAILED else run.unsure  # there is no answer to doubt
    for remark in filter(None, (unsure, run.untold)):
        if not run.answer.values and remark not in run.reason:  # otherwise the output has it already
            console.print(plain(remark, "yellow"))
    drawn = {record.outcome.message for record in run.steps if isinstance(record.outcome, Failed)}
    if run.reason and run.reason not in drawn:
        console.print(plain(run.reason, "yellow"))
    _draw_unauthorized(console, run)
    if run.problem is not None:
        console.print(plain(f"{run.problem.title}: {run.problem.detail}", "red"))
    if run.status is RunStatus.NEEDS_APPROVAL:
        _draw_approval(console, run)
    if run.doubts:
        _draw_doubts(console, run.id, run.doubts)
    if run.status is RunStatus.CANCELLED and not run.reason:
        console.print(Text("The run was cancelled.", "yellow"))
    _draw_state(console, run)


def _draw_answer(console: Console, run: Run) -> None:
    if run.answer.values:
        text = f"{run.answer.sentence}\n\n{run.answer.text}" if run.answer.sentence else run.answer.text
        doubt = ", unsure" if run.unsure else ", not complete" if run.answer.partial else ""
        title, style = f"answer{doubt}", "yellow" if doubt else "green"
        box = Panel(plain(text), title=title, title_align="left", border_style=style, expand=console.is_terminal)
        console.print(box)
    for value in run.answer.values:
        if value.stored is not None:
            shown = f"{value.name} is {_stored(value.stored)}: nestor runs value {run.id} {value.stored.id}"
            console.print(plain(shown, "dim"), soft_wrap=True)


def _draw_unauthorized(console: Console, run: Run) -> None:
    """Name the providers that answered 401, and what to do about it."""
    failed = {one.step: one for one in run.steps if isinstance(one.outcome, Failed) and one.outcome.status == 401}
    steps = run.plan.steps if run.plan is not None else ()
    refusing = [(step.api.partition(".")[0], failed[step.id].secrets) for step in steps if step.id in failed]
    for provider, shown in dict.fromkeys(refusing):
        if shown:
            text = f"{provider} rejected {' and '.join(shown)}; set the right value with nestor secrets set"
        else:
            text = (
                f"{provider} requires a credential, but its document declares none for this call: import it again with"
                " --auth (nestor import --help)"
            )
        console.print(plain(text, "yellow"), soft_wrap=True)


def _draw_questions(console: Console, run: Run) -> None:
    for question in run.questions:
        console.print(plain(f"? {question.text}", "yellow"))
    given = " ".join(f"--value {name}=..." for name in dict.fromkeys(one.argument for one in run.questions))
    console.print(plain(f"Repeat the request with the missing information, or add {given}", "dim"), soft_wrap=True)


def _new_diagnostics(run: Run) -> Iterator[Diagnostic]:
    """The diagnostics that the requests to approve and the questions do not already cover."""
    is_shown = run.approval is not None or bool(run.previews)
    asked = {(question.step, question.argument) for question in run.questions}
    for one in run.diagnostics:
        is_asked = one.code is DiagnosticCode.MISSING_ARGUMENT and (one.step, one.argument) in asked
        if not is_asked and not (is_shown and one.code is DiagnosticCode.APPROVAL_REQUIRED):
            yield one


def _draw_state(console: Console, run: Run) -> None:
    if run.feedback is not None:
        said = f"{run.feedback.verdict.value} by {run.feedback.principal} at {run.feedback.at:%Y-%m-%d %H:%M} UTC"
        console.print(plain(f"{said}: {run.feedback.reason}" if run.feedback.reason else said, "dim"))
    timings = run.timings
    parts = (
        f"retrieve {timings.retrieve_ms:.0f}, demos {timings.demos_ms:.0f}, plan {timings.plan_ms:.0f}, "
        f"run {timings.execute_ms:.0f}"
    )
    style = _STATUS_STYLE.get(run.status, "bold red")
    console.print(Text.assemble((run.status.value, style), (f"  {timings.total_ms:.0f} ms ({parts})  {run.id}", "dim")))


def _draw_approval(console: Console, run: Run) -> None:
    console.print(Text("These requests would be sent:", "bold yellow"))
    draw_requests(console, run)
    console.print(Text(f"Approve them with: nestor runs approve {run.id}", "yellow"), soft_wrap=True)


def draw_requests(console: Console, run: Run) -> None:
    """Draw what needs approval: the requests, the values in them that reads returned, and the digest of both."""
    draw_previews(console, run.previews)
    if run.reads:
        console.print(Text("Values in them from earlier reads:", "bold"))
    for read in run.reads:
        value = _cut(json.dumps(read.value, ensure_ascii=False), _MAX_READ_CHARS)
        console.print(plain(f"  {read.step}{written_path(read.path)} = {value}"), soft_wrap=True)
        console.print(plain(f"    by {read.api}: {read.request}", "dim"), soft_wrap=True)
    if run.digest:
        console.print(plain(f"digest {run.digest}", "dim"), soft_wrap=True)
    else:
        console.print(Text("Values they depend on have not been read yet; approving shows them first.", "yellow"))


def draw_previews(console: Console, previews: Iterable[RequestPreview]) -> None:
    """Draw requests as they would be sent. Names in braces stand for values known only during the run."""
    for preview in previews:
        each = f" for each item of {preview.foreach}" if preview.foreach else ""
        if preview.item is not None:
            each = f" for item {preview.item} of {preview.foreach}, {preview.calls} in all"
        console.print(plain(f"{preview.step}  {preview.api}{each}", "bold"))
        draw_request(console, preview.request, whole=True)
        if preview.problem:
            console.print(plain(f"  cannot be sent: {preview.problem}", "red"))
        elif not preview.complete:
            console.print(Text("  Values in braces are known only during the run.", "dim"))


def draw_request(console: Console, request: RequestRecord, *, whole: bool = False) -> None:
    """Draw a request with its secrets masked, and, unless ``whole``, with only the beginning of a long body."""
    lines = [f"{request.method} {request.url}", *(f"{name}: {value}" for name, value in request.headers.items())]
    if request.body is not None:
        lines += _body(request.body, None if whole else _MAX_BODY_CHARS)
    for line in lines:
        console.print(plain(f"  {line}"), soft_wrap=True)


def _body(body: JsonValue, length: int | None) -> list[str]:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    if len(text) > 80 and not isinstance(body, str):
        text = json.dumps(body, ensure_ascii=False, indent=2)
    return (text if length is None else _cut(text, length)).splitlines()


def _draw_doubts(console: Console, run_id: str, doubts: Iterable[DoubtfulCall]) -> None:
    console.print(
        Text("It is unknown whether these took effect; the run continues once each is resolved:", "bold yellow")
    )
    for doubt in doubts:
        draw_doubt(console, run_id, doubt)


def draw_doubt(console: Console, run_id: str, doubt: DoubtfulCall) -> None:
    """Draw a call in doubt, and the command that settles it."""
    item = f", item {doubt.item}" if doubt.item is not None else ""
    console.print(plain(f"{doubt.step}{item}  {doubt.api}: {doubt.message}", "bold"))
    if doubt.request is not None:
        draw_request(console, doubt.request)
    chosen = f" --item {doubt.item}" if doubt.item is not None else ""
    command = f"nestor runs resolve {run_id} {doubt.step}{chosen} --outcome succeeded|failed|retry"
    console.print(plain(f"  {command}", "yellow"), soft_wrap=True)
