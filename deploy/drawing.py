"""Plans, runs and answers drawn for a terminal. Where output is not a terminal, the same as plain lines."""

import json
from collections.abc import Sequence

from pydantic import JsonValue
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Plan, Reference, Step, Value
from services.contracts.run import (
    Failed,
    InDoubt,
    Run,
    RunFinished,
    RunPlanned,
    RunStatus,
    Skipped,
    SolveEvent,
    StepFinished,
    StepRecord,
    StepStarted,
    Succeeded,
)

_STATUS_STYLE = {
    RunStatus.SUCCEEDED: "bold green",
    RunStatus.PLANNED: "bold cyan",
    RunStatus.NEEDS_INPUT: "bold yellow",
    RunStatus.NEEDS_APPROVAL: "bold yellow",
    RunStatus.NO_PLAN: "bold yellow",
}


def show_value(value: Value) -> str:
    """A value as it is written in a call: JSON for literals, ``var1.items[0].id`` for references."""
    if isinstance(value, LiteralValue):
        text = json.dumps(value.value, ensure_ascii=False)
        return text if len(text) <= 60 else text[:59] + "…"
    if isinstance(value, Reference):
        return value.step + _show_path(value.path)
    if isinstance(value, ItemReference):
        return "item" + _show_path(value.path)
    if isinstance(value, ListValue):
        return "[" + ", ".join(show_value(item) for item in value.items) + "]"
    assert isinstance(value, ObjectValue)
    return "{" + ", ".join(f"{key}: {show_value(item)}" for key, item in value.fields.items()) + "}"


def _show_path(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def show_call(step: Step) -> str:
    """A step as a call: ``getHolidays(country=var1.alpha2, year=2027)``."""
    arguments = ", ".join(f"{name}={show_value(value)}" for name, value in step.arguments.items())
    each = f" for each item of {show_value(step.foreach.items)}" if step.foreach else ""
    return f"{step.api}({arguments}){each}"


def plan_table(plan: Plan, stages: Sequence[Sequence[str]], records: dict[str, StepRecord], running: set[str]) -> Table:
    """The plan, each call with its outcome below it; a bar on the left joins calls that can run at the same time."""
    table = Table.grid(padding=(0, 1))
    for _ in range(3):
        table.add_column(overflow="fold")
    for stage in stages or [[step.id] for step in plan.steps]:
        for index, step_id in enumerate(stage):
            step = plan.step(step_id)
            if step is not None:
                outcome = _outcome(step_id, records, running)
                body = Text(show_call(step)).append("\n").append_text(outcome) if outcome else Text(show_call(step))
                table.add_row(_bar(index, len(stage), tall=bool(outcome)), Text(step_id, "bold cyan"), body)
    return table


def _bar(index: int, size: int, *, tall: bool) -> Text:
    if size == 1:
        return Text(" ")
    first = "┌" if index == 0 else "└" if index == size - 1 else "├"
    return Text(first + ("\n│" if tall and index < size - 1 else ""), "dim")


def _outcome(step_id: str, records: dict[str, StepRecord], running: set[str]) -> Text:
    record = records.get(step_id)
    if record is None:
        return Text("running…", "yellow") if step_id in running else Text("")
    outcome = record.outcome
    if isinstance(outcome, Succeeded):
        return Text(f"✓ {record.duration_ms:.0f} ms  {_preview(outcome.value)}", "green")
    if isinstance(outcome, Failed):
        return Text(f"✗ {outcome.message}", "red")
    if isinstance(outcome, Skipped):
        return Text(f"- skipped: {outcome.because}", "dim")
    assert isinstance(outcome, InDoubt)
    return Text(f"? in doubt: {outcome.message}", "bold yellow")


def _preview(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else text[:69] + "…"


def draw_run(console: Console, run: Run) -> None:
    """The whole run: plan with outcomes, then the answer or what stands in its way."""
    if run.plan is not None:
        stages = run.proof.stages if run.proof else ()
        console.print(plan_table(run.plan, stages, {record.step: record for record in run.steps}, set()))
    draw_conclusion(console, run)


def draw_conclusion(console: Console, run: Run) -> None:
    """The answer, or the questions, diagnostics or reason there are instead."""
    style = _STATUS_STYLE.get(run.status, "bold red")
    if run.answer.values:
        console.print(Panel(Text(run.answer.text), title="answer", title_align="left", border_style="green"))
    for question in run.questions:
        console.print(Text(f"? {question.text}", "yellow"))
    for diagnostic in run.diagnostics:
        where = ".".join(part for part in (diagnostic.step, diagnostic.argument) if part)
        console.print(Text(f"! {where}: {diagnostic.message}" if where else f"! {diagnostic.message}", "yellow"))
    if run.reason:
        console.print(Text(run.reason, "yellow"))
    if run.problem is not None:
        console.print(Text(f"{run.problem.title}: {run.problem.detail}", "red"))
    if run.status is RunStatus.NEEDS_APPROVAL and run.plan is not None and run.proof is not None:
        steps = ", ".join(run.proof.approvals)
        console.print(Text(f"{steps} may change state. Approve with: nestor runs approve {run.id}", "yellow"))
    timings = run.timings
    console.print(
        Text.assemble(
            (run.status.value, style),
            (
                f"  {timings.total_ms:.0f} ms (retrieve {timings.retrieve_ms:.0f}, demos {timings.demos_ms:.0f}, "
                f"plan {timings.plan_ms:.0f}, run {timings.execute_ms:.0f})  {run.id}",
                "dim",
            ),
        )
    )


class RunDrawing:
    """Follows a run's events: on a terminal outcomes appear as they come, elsewhere all is written at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._run: Run | None = None
        self._records: dict[str, StepRecord] = {}
        self._running: set[str] = set()

    def show(self, event: SolveEvent) -> None:
        """Take one event."""
        if isinstance(event, RunPlanned) and self._console.is_terminal:
            self._run = event.run
            self._live = Live(console=self._console, refresh_per_second=20, transient=False)
            self._live.start()
        elif isinstance(event, StepStarted):
            self._running.add(event.step)
        elif isinstance(event, StepFinished):
            self._records[event.record.step] = event.record
        elif isinstance(event, RunFinished):
            self._finish(event.run)
            return
        self._draw()

    def _draw(self) -> None:
        if self._live is not None and self._run is not None and self._run.plan is not None:
            stages = self._run.proof.stages if self._run.proof else ()
            self._live.update(plan_table(self._run.plan, stages, self._records, self._running))

    def _finish(self, run: Run) -> None:
        if self._live is None:
            draw_run(self._console, run)
            return
        self._draw()
        self._live.stop()
        draw_conclusion(self._console, run)
