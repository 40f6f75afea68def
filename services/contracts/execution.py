"""Execution of a proved plan: the executor's request and its events."""

from typing import Annotated, Literal

from pydantic import Field

from services.contracts.answer import AnswerValue
from services.contracts.api import Tenant
from services.contracts.base import Contract, Digest, StepId
from services.contracts.doubt import DoubtfulCall
from services.contracts.outcome import StepRecord, UnmatchedItem
from services.contracts.planning import CompiledPlan


class ExecuteRequest(Contract):
    """Run a proved plan. `approved` must be the plan's id if its proof lists approvals.

    A plan with a mutating call runs once per `run_id`, however often it is sent: a repeated request follows that run.
    """

    run_id: str = Field(min_length=1, max_length=64)
    compiled: CompiledPlan
    tenant: Tenant = Field(default="default", description="The tenant that owns the run and whose secrets may be used.")
    approved: str | None = None
    bound: dict[StepId, Digest] = Field(
        default_factory=dict,
        description="The `digest` of the approved requests by step. If the plan's reads lead to other requests, no "
        "step that may change something or needed an approval is called. These steps fail as `changed`.",
    )
    deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    step_deadline_ms: int | None = Field(default=None, ge=1, le=3_600_000)


class StepStarted(Contract):
    """A step's inputs are ready and its call is about to be made."""

    kind: Literal["step_started"] = "step_started"
    step: str
    api: str
    at_ms: float


class StepFinished(Contract):
    """A step has an outcome."""

    kind: Literal["step_finished"] = "step_finished"
    record: StepRecord


class ExecutionFinished(Contract):
    """The executor's last event of a run."""

    kind: Literal["execution_finished"] = "execution_finished"
    status: Literal["succeeded", "failed", "in_doubt", "cancelled"]
    records: tuple[StepRecord, ...]
    answer: tuple[AnswerValue, ...] = ()
    problem: str = Field(
        default="", description="Why the run failed if no step failed: the step's output lacks a value of the answer."
    )
    unmatched: tuple[UnmatchedItem, ...] = Field(
        default=(), description="Items that reads or the answer used although others may be meant."
    )
    duration_ms: float = Field(ge=0)


ExecutionEvent = Annotated[StepStarted | StepFinished | ExecutionFinished, Field(discriminator="kind")]


class ExecutionState(Contract):
    """The state of an execution after it was cancelled, or after a call in doubt was settled."""

    run_id: str
    status: Literal["running", "succeeded", "failed", "in_doubt", "cancelled"]
    doubts: tuple[DoubtfulCall, ...] = ()
    settled: bool = Field(default=True, description="False: the call had been settled before, and otherwise.")
