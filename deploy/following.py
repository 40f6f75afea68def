"""Shows runs while they happen: redrawn in place on a terminal, one line per event elsewhere."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from deploy.drawing import attempt_text, draw_conclusion, draw_run, outcome_line, plain, run_drawing
from services.contracts.event import RunPlanned, SolveEvent
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.outcome import StepRecord
from services.contracts.run import Run


class RunDrawing:
    """Follows a run's events. On a terminal it redraws with each event; elsewhere it writes everything at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._run: Run | None = None
        self._records: dict[str, StepRecord] = {}
        self._running: set[str] = set()

    def show(self, event: SolveEvent) -> None:
        """Take one event. A run that resumes, or continues with another plan, sends `RunPlanned` again."""
        if isinstance(event, RunPlanned):
            self._run = event.run
            self._records, self._running = {record.step: record for record in event.run.steps}, set()
            if self._live is None and self._console.is_terminal:
                self._live = Live(console=self._console, refresh_per_second=20, transient=False)
                self._live.start()
        elif isinstance(event, StepStarted):
            self._running.add(event.step)
        elif isinstance(event, StepFinished):
            self._records[event.record.step] = event.record
        self._draw()

    def _draw(self) -> None:
        if self._live is not None and self._run is not None:
            self._live.update(run_drawing(self._run, self._records, self._running))

    def finish(self, run: Run) -> None:
        """Draw how the run ended, or what it waits for."""
        if self._live is None:
            draw_run(self._console, run)
            return
        self._run, self._records, self._running = run, {record.step: record for record in run.steps}, set()
        self._draw()
        self.stop()
        draw_conclusion(self._console, run)

    def stop(self) -> None:
        """Stop redrawing; what is on the terminal stays."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def event_line(event: SolveEvent) -> Text:
    """An event as one line."""
    if isinstance(event, RunPlanned):
        steps = len(event.run.plan.steps) if event.run.plan else 0
        counted = f"{steps} {'step' if steps == 1 else 'steps'}"
        if not event.run.evidence:
            return Text(f"planned: {counted}")
        why = "; ".join(attempt_text(attempt) for attempt in event.run.evidence[-1].attempts)
        return plain(f"planned again: {counted}, because {why}")
    if isinstance(event, StepStarted):
        return plain(f"{event.step} {event.api} …")
    if isinstance(event, StepFinished):
        return plain(f"{event.record.step} {event.record.api} ").append_text(outcome_line(event.record))
    return Text(event.run.status.value)
