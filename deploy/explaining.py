"""Explains a plan on a terminal: the planners that were asked, and a language model's prompts and answers."""

from rich.console import Console
from rich.panel import Panel

from deploy.drawing import plain
from services.contracts.run import Run
from services.contracts.trace import LookUp, ModelAttempt, PlannerAsked, PlannerTrace


def draw_explanation(console: Console, run: Run) -> None:
    """Print how a run was planned."""
    for asked in run.planners:
        console.print(plain(_asked_line(asked), "bold" if asked.stood else "dim"))
    for lookup in run.lookups:
        console.print(plain(_lookup_line(lookup), "cyan"))
    for number, trace in enumerate(run.traces, start=1):
        _draw_trace(console, trace, number if len(run.traces) > 1 else None)
    if not run.traces:
        console.print(plain("No language model was used.", "dim"))


def _asked_line(asked: PlannerAsked) -> str:
    line = f"{asked.backend}: {asked.outcome}, {asked.ms:.0f} ms"
    if asked.outcome == "planned":
        line += f", confidence {asked.confidence:.2f}"
    if asked.judged is not None:
        line += f", judged {asked.judged:.2f}"
    return f"{line}. {asked.detail}" if asked.detail else line


def _lookup_line(lookup: LookUp) -> str:
    found = ", ".join(lookup.added) if lookup.added else "nothing new"
    return f"looked up: {'; '.join(lookup.asked)} -> {found}"


def _draw_trace(console: Console, trace: PlannerTrace, number: int | None) -> None:
    again = f", request {number}" if number else ""
    console.print(plain(f"{trace.model}, prompt version {trace.prompt_version}{again}", "bold cyan"))
    for message in trace.prompt:
        console.print(Panel(plain(message.content), title=message.role, title_align="left"))
    for attempt in trace.attempts:
        _draw_attempt(console, attempt)


def _draw_attempt(console: Console, attempt: ModelAttempt) -> None:
    if attempt.reasoning:
        console.print(Panel(plain(attempt.reasoning, "dim"), title="reasoning", title_align="left"))
    counted = [
        f"{count} tokens {which}"
        for count, which in ((attempt.prompt_tokens, "in"), (attempt.completion_tokens, "out"))
        if count is not None
    ]
    title = ", ".join(["answer", f"{attempt.ms:.0f} ms", *counted, f"constraint {attempt.constraint}"])
    console.print(Panel(plain(attempt.output), title=title, title_align="left"))
    if attempt.problem:
        console.print(plain(f"✗ {attempt.problem}", "red"))
