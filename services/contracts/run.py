"""Runs: what was asked, what was planned, what each call did, and the answer."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, JsonValue

from services.contracts.api import Clause, Signals
from services.contracts.base import Contract, Query
from services.contracts.context import Context
from services.contracts.plan import Plan
from services.contracts.planning import CompiledPlan, Decision, Diagnostic, Proof, Question


class RunStatus(StrEnum):
    """The states of a run. The last eight are final, save that approval or input starts a new attempt."""

    PLANNED = "planned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NEEDS_INPUT = "needs_input"
    NEEDS_APPROVAL = "needs_approval"
    IN_DOUBT = "in_doubt"
    CANCELLED = "cancelled"
    NO_PLAN = "no_plan"


class Succeeded(Contract):
    """The call answered with success; `value` is its decoded output."""

    kind: Literal["succeeded"] = "succeeded"
    value: JsonValue = None
    status: int | None = None


class Failed(Contract):
    """The call failed, or its request could not be built. The upstream's own body is kept as `detail`."""

    kind: Literal["failed"] = "failed"
    reason: Literal[
        "upstream_error", "timeout", "connection", "bad_response", "bad_request", "refused", "credential", "reference"
    ]
    message: str
    status: int | None = None
    detail: JsonValue = None


class Skipped(Contract):
    """The call was not made: a step it depends on gave no value, or its condition did not hold."""

    kind: Literal["skipped"] = "skipped"
    because: str = Field(description="The step (or `when`) that kept it from running.")


class InDoubt(Contract):
    """The request went out and it is not known whether it took effect. It is never sent again by itself."""

    kind: Literal["in_doubt"] = "in_doubt"
    message: str


StepOutcome = Annotated[Succeeded | Failed | Skipped | InDoubt, Field(discriminator="kind")]


class RequestRecord(Contract):
    """The request as it went out, secrets masked."""

    method: str
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    body: JsonValue = None


class StepRecord(Contract):
    """What one step did. Times are milliseconds since the run began."""

    step: str
    api: str
    requests: tuple[RequestRecord, ...] = Field(default=(), description="One; with `foreach`, one for each item.")
    outcome: StepOutcome
    started_ms: float = Field(ge=0)
    duration_ms: float = Field(ge=0)
    attempts: int = Field(default=1, ge=0)


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


class AnswerValue(Contract):
    """One value that answers the request, and where it came from."""

    name: str
    value: JsonValue
    step: str
    path: tuple[str | int, ...] = ()


class Answer(Contract):
    """The answer: values with their native JSON types, and a readable rendering of them."""

    values: tuple[AnswerValue, ...] = ()
    text: str = ""


class ExecutionFinished(Contract):
    """The executor's last word on a run."""

    kind: Literal["execution_finished"] = "execution_finished"
    status: Literal["succeeded", "failed", "in_doubt", "cancelled"]
    records: tuple[StepRecord, ...]
    answer: tuple[AnswerValue, ...] = ()
    problem: str = Field(default="", description="Why it failed where no step did: an answer its step does not hold.")
    duration_ms: float = Field(ge=0)


ExecutionEvent = Annotated[StepStarted | StepFinished | ExecutionFinished, Field(discriminator="kind")]


class ExecuteRequest(Contract):
    """Run a proved plan. `approved` must be the plan's id where its proof lists approvals."""

    run_id: str = Field(min_length=1, max_length=64)
    compiled: CompiledPlan
    approved: str | None = None
    deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    step_deadline_ms: int | None = Field(default=None, ge=1, le=3_600_000)


class Credentials(Contract):
    """The names of the secrets the executor can present. Never their values."""

    secrets: tuple[str, ...] = ()


class SolveOptions(Contract):
    """How to solve."""

    top_k: int = Field(default=20, ge=1, le=100, description="How many candidate APIs to retrieve.")
    demos: int = Field(default=3, ge=0, le=20, description="How many demonstrations to show the planner.")
    dry_run: bool = Field(default=False, description="Plan and prove, send nothing.")
    backend: str | None = Field(default=None, max_length=50, description="Planner backend; unset: the default.")
    deadline_ms: int = Field(default=30_000, ge=100, le=3_600_000, description="For the whole request.")
    providers: tuple[str, ...] = Field(default=(), max_length=100, description="Only APIs of these providers.")
    mutations: Decision = Field(default=Decision.ASK, description="What to do with calls that may change state.")


class SolveRequest(Contract):
    """A request in words."""

    query: Query
    options: SolveOptions = SolveOptions()
    context: Context = Context()


class CandidateSummary(Contract):
    """A retrieved API, and why it was found."""

    api: str
    summary: str
    score: float
    signals: Signals = Signals()
    clause: int = 0


class DemoSummary(Contract):
    """A demonstration the planner was shown."""

    id: str
    query: str
    similarity: float
    level: Literal["task", "api"]


class Timings(Contract):
    """Milliseconds spent in each part. Retrieval and demos overlap, so the parts may exceed the total."""

    retrieve_ms: float = 0
    demos_ms: float = 0
    plan_ms: float = 0
    execute_ms: float = 0
    total_ms: float = 0


class RunProblem(Contract):
    """Why a run failed, in the terms of RFC 9457."""

    type: str
    title: str
    detail: str = ""


class Run(Contract):
    """One request from words to answer: what `POST /solve` returns and `GET /runs/{id}` keeps."""

    id: str
    status: RunStatus
    query: str
    created_at: AwareDatetime
    answer: Answer = Answer()
    plan: Plan | None = None
    proof: Proof | None = None
    steps: tuple[StepRecord, ...] = ()
    questions: tuple[Question, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    clauses: tuple[Clause, ...] = ()
    candidates: tuple[CandidateSummary, ...] = ()
    demos: tuple[DemoSummary, ...] = ()
    confidence: float = 0.0
    backend: str = ""
    reason: str = Field(default="", description="Why there is no answer, in a sentence.")
    problem: RunProblem | None = None
    catalogue_version: int = 0
    timings: Timings = Timings()


class RunPlanned(Contract):
    """The plan is ready (sent on a stream before the first call goes out)."""

    kind: Literal["planned"] = "planned"
    run: Run


class RunFinished(Contract):
    """The run has reached a final state."""

    kind: Literal["finished"] = "finished"
    run: Run


SolveEvent = Annotated[RunPlanned | StepStarted | StepFinished | RunFinished, Field(discriminator="kind")]


class RunSummary(Contract):
    """A line of `GET /runs`."""

    id: str
    status: RunStatus
    query: str
    created_at: AwareDatetime
    total_ms: float


class RunPage(Contract):
    """A page of runs, newest first. `next` is the cursor of the following page."""

    runs: tuple[RunSummary, ...]
    next: str | None = None


class ApproveRequest(Contract):
    """Approve exactly this plan: another plan needs another approval."""

    plan_id: str = Field(min_length=64, max_length=64)
