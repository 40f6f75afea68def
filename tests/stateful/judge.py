"""Checks that must hold for every run, whatever happened to the executors."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from executor_svc.steps import CANCELLED, CONDITION
from services.contracts.doubt import DoubtfulCall, ResolveRequest
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, Skipped, StepOutcome, StepRecord, Succeeded
from tests.stateful.plans import HARMLESS, Case, Kind, site
from tests.stateful.upstream import Spot, Upstream

_LONG_MS = 600_000


@dataclass
class Tracked:
    """A run as its callers know it.

    Attributes:
        accepted: whether an executor has sent any event of it.
        ending: its last final event so far.
        open: its calls in doubt that are not settled yet.
        settled: the settled calls, with the outcome that was given for each.
        cancelled: whether it was cancelled before it had ended.
        barred: steps that must not make a call any more.
        complaints: errors that its callers got although the executor was not ending.
    """

    case: Case
    accepted: bool = False
    ending: ExecutionFinished | None = None
    open: tuple[DoubtfulCall, ...] = ()
    settled: dict[Spot, str] = field(default_factory=dict)
    cancelled: bool = False
    barred: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    following: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.case.run_id

    @cached_property
    def request(self) -> ExecuteRequest:
        """The request for the run."""
        plan = self.case.plan
        return ExecuteRequest(
            run_id=self.id, compiled=plan, approved=plan.plan.id, deadline_ms=_LONG_MS, step_deadline_ms=_LONG_MS
        )

    @property
    def in_doubt(self) -> bool:
        """Whether the run waits until its calls in doubt are settled."""
        return self.ending is not None and self.ending.status == "in_doubt"

    def hang_up(self) -> None:
        """Stop following the run."""
        if self.following is not None:
            self.following.cancel()

    def spot(self, step: str, index: int | None = None) -> Spot:
        """A call of the run, as the upstream identifies it."""
        return (site(self.id, step), "") if index is None else self.spots(step)[index]

    def spots(self, step: str) -> list[Spot]:
        """All calls of a step."""
        return [(site(self.id, step), element) for element in self.case.calls[step] or {}]


def truth(run: Tracked, doubt: DoubtfulCall, upstream: Upstream, other_word: bool) -> ResolveRequest:
    """The resolution that a person would find at the upstream. A call without effect is retried or given up."""
    spot = run.spot(doubt.step, doubt.item)
    if upstream.effects.get(spot):
        value = (run.case.calls[doubt.step] or {})[spot[1]]
        return ResolveRequest(outcome="succeeded", value=value, item=doubt.item)
    return ResolveRequest(outcome="failed" if other_word else "retry", item=doubt.item)


def check_effects(runs: Sequence[Tracked], refused: set[str], upstream: Upstream) -> None:
    """Checks that hold at any time: at most one effect, none without approval, none after a cancellation."""
    doubled = {spot: marks for spot, marks in upstream.effects.items() if len(marks) > 1}
    assert not doubled, f"more than one effect: {doubled}"
    expected = {run.spot(task.id)[0]: run for run in runs for task in run.case.tasks}
    for at in upstream.sites():
        assert at.partition("/")[0] not in refused, f"sent without approval: {at}"
        assert at in expected, f"nobody asked for {at}"
        assert at.partition("/")[2] not in expected[at].barred, f"sent after the cancellation: {at}"
    for run in runs:
        assert not run.complaints, f"{run.id}: {run.complaints}"


def check_ending(
    run: Tracked, status: str, ended: tuple[StepRecord, ...], upstream: Upstream, *, changed_hands: bool
) -> None:
    """Checks for a run that has ended or waits until its doubts are settled."""
    records = {record.step: record for record in ended}
    assert list(records) == [task.id for task in run.case.tasks]
    for record in records.values():
        _check_outcome(run, record, records)
        for spot, outcome in _calls(run, record):
            _check_call(run, spot, outcome, upstream, changed_hands)
    assert status == _status(ended), (status, ended)


def _status(records: tuple[StepRecord, ...]) -> str:
    outcomes = [record.outcome for record in records]
    if any(isinstance(outcome, InDoubt) for outcome in outcomes):
        return "in_doubt"
    if Skipped(because=CANCELLED) in outcomes:
        return "cancelled"
    return "failed" if any(isinstance(outcome, Failed) for outcome in outcomes) else "succeeded"


def _calls(run: Tracked, record: StepRecord) -> list[tuple[Spot, StepOutcome]]:
    """The calls of a step with their recorded outcomes. The calls of a mapped step without items get its outcome."""
    if record.items:
        return [(run.spot(record.step, item.index), item.outcome) for item in record.items]
    if run.case.task(record.step).each is None:
        return [(run.spot(record.step), record.outcome)]
    return [(spot, record.outcome) for spot in run.spots(record.step)]


def _check_outcome(run: Tracked, record: StepRecord, records: dict[str, StepRecord]) -> None:
    """An output belongs to its step, and a skipped step has a valid reason."""
    outcome, task = record.outcome, run.case.task(record.step)
    if isinstance(outcome, Succeeded):
        assert outcome.value == run.case.output(task.id), f"{run.id}: the output of another call: {record}"
    elif isinstance(outcome, Skipped) and outcome.because == CANCELLED:
        assert run.cancelled, f"{run.id}: nobody cancelled: {record}"
    elif isinstance(outcome, Skipped) and outcome.because == CONDITION:
        assert run.case.condition_fails(task), f"{run.id}: its condition holds: {record}"
    elif isinstance(outcome, Skipped):
        assert outcome.because in run.case.ancestors(task.id), f"{run.id}: for an unrelated step's sake: {record}"
        assert not isinstance(records[outcome.because].outcome, Succeeded), f"{run.id}: without need: {record}"


def _check_call(run: Tracked, spot: Spot, outcome: StepOutcome, upstream: Upstream, changed_hands: bool) -> None:
    """A call that took effect has succeeded or is in doubt. A call that failed or is in doubt has a cause."""
    settled, unlucky = run.settled.get(spot), set(upstream.seen.get(spot, ())) - HARMLESS
    if upstream.effects.get(spot):
        assert isinstance(outcome, Succeeded | InDoubt), f"{run.id}: {spot} took effect, but: {outcome}"
    if isinstance(outcome, Succeeded) and run.case.task(spot[0].partition("/")[2]).kind is not Kind.READ:
        assert upstream.effects.get(spot), f"{run.id}: {spot} took no effect, but: {outcome}"
    if isinstance(outcome, Failed):
        assert unlucky or settled == "failed", f"{run.id}: {spot} failed without a cause: {outcome}"
    if isinstance(outcome, InDoubt):
        assert unlucky or changed_hands, f"{run.id}: {spot} is in doubt without a cause: {outcome}"
        assert settled in (None, "retry"), f"{run.id}: {spot} was settled as {settled}, but: {outcome}"
