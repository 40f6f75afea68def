"""A run: the request, the plan, the records of its calls, and the answer."""

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field

from services.contracts.answer import Answer, AnswerValue
from services.contracts.approval import Approval
from services.contracts.base import Contract
from services.contracts.doubt import DoubtfulCall
from services.contracts.evidence import Attempt
from services.contracts.feedback import Feedback, Verdict
from services.contracts.outcome import StepRecord
from services.contracts.plan import Plan
from services.contracts.planning import Diagnostic, Proof, Question
from services.contracts.preview import ReadValue, RequestPreview
from services.contracts.rerun import ResentStep, ReusedStep
from services.contracts.retrieval import Clause, FoundBy, Signals
from services.contracts.trace import LookUp, PlannerAsked, PlannerTrace


class RunStatus(StrEnum):
    """The states of a run.

    ``planning`` and ``running`` are in progress. A dry run ends as ``planned``. The others are final, except that an
    approval, or settling calls in doubt, makes a run ``running`` again.
    """

    PLANNING = "planning"
    PLANNED = "planned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NEEDS_INPUT = "needs_input"
    NEEDS_APPROVAL = "needs_approval"
    IN_DOUBT = "in_doubt"
    CANCELLED = "cancelled"
    NO_PLAN = "no_plan"


class CandidateSummary(Contract):
    """A retrieved API, and why it was found."""

    api: str
    summary: str
    score: float
    signals: Signals = Signals()
    clause: int = 0
    found_by: FoundBy = Field(default="meaning", description="Why it was found; see docs/retrieval.md.")
    relevance: float | None = Field(default=None, description="Probability that it is needed, if known.")


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
    sentence_ms: float = Field(default=0, description="Time that the answer waited for its sentence.")
    total_ms: float = 0


class RunProblem(Contract):
    """Why a run failed, in the terms of RFC 9457."""

    type: str
    title: str
    detail: str = ""


class EvidenceRound(Contract):
    """Calls of a plan that found nothing, and the result of asking the planner again.

    ``replanned``: a new plan replaced this one. Otherwise this plan was kept: the planner had none (``no_plan``), would
    ask the user (``needs_input``), made the ``same_plan`` or one that makes ``other_changes``, or could not be asked in
    time (``unasked``).
    """

    outcome: Literal["replanned", "no_plan", "needs_input", "same_plan", "other_changes", "unasked"]
    attempts: tuple[Attempt, ...] = Field(description="The calls that did not bring what was needed.")
    plan: Plan | None = Field(default=None, description="The plan that was replaced.")
    steps: tuple[StepRecord, ...] = Field(default=(), description="Outcomes of its calls.")
    questions: tuple[Question, ...] = Field(
        default=(), description="Which of the items that it found is meant. Asked if no later plan finds anything."
    )
    approval: Approval | None = Field(default=None, description="Approval of that plan. The next plan needs its own.")


class Run(Contract):
    """One request from words to answer, as returned by `POST /solve` and `GET /runs/{id}`."""

    id: str
    status: RunStatus
    query: str
    created_at: AwareDatetime
    tenant: str = "default"
    asked_by: str = Field(
        default="", description="The principal that made the request; empty: the run is from an earlier version."
    )
    answer: Answer = Answer()
    plan: Plan | None = None
    proof: Proof | None = None
    steps: tuple[StepRecord, ...] = ()
    questions: tuple[Question, ...] = ()
    previews: tuple[RequestPreview, ...] = Field(
        default=(), description="If an approval is needed: the requests that would be sent."
    )
    reads: tuple[ReadValue, ...] = Field(
        default=(), description="The values in those requests that reads returned, with their origins."
    )
    read_with: tuple[str, ...] = Field(
        default=(), description="Names of the secrets that were used by reads to prepare the approval."
    )
    digest: str = Field(
        default="",
        description="If an approval is needed: hash of the plan, of the requests and reads that are shown, and of all "
        "its APIs. An approval names it. Empty if the reads were not made, as in a dry run.",
    )
    moved: bool = Field(
        default=False,
        description="The requests differ from those that were shown first. An approval must name `digest`.",
    )
    approval: Approval | None = None
    lapsed: tuple[Approval, ...] = Field(
        default=(),
        description="Approvals without effect: the reads led to other requests when the plan was run, so nothing was "
        "sent.",
    )
    rerun_of: str = Field(default="", description="The run whose plan it repeats; empty: not a rerun.")
    resent: tuple[ResentStep, ...] = Field(default=(), description="Of a rerun: the steps that it repeats.")
    reused: tuple[ReusedStep, ...] = Field(
        default=(), description="Of a rerun: the steps that it does not repeat. Their values are literals in its plan."
    )
    kept: tuple[AnswerValue, ...] = Field(
        default=(), description="Of a rerun: values of its answer from steps that it does not repeat."
    )
    feedback: Feedback | None = Field(default=None, description="The last feedback on its outcome, if any.")
    doubts: tuple[DoubtfulCall, ...] = Field(
        default=(), description="The calls that must be settled before the run continues."
    )
    diagnostics: tuple[Diagnostic, ...] = ()
    clauses: tuple[Clause, ...] = ()
    candidates: tuple[CandidateSummary, ...] = ()
    demos: tuple[DemoSummary, ...] = ()
    confidence: float = 0.0
    backend: str = ""
    planners: tuple[PlannerAsked, ...] = Field(default=(), description="The planners that were asked, in order.")
    lookups: tuple[LookUp, ...] = Field(
        default=(), description="Operations that the planner asked for, and what was found for them."
    )
    traces: tuple[PlannerTrace, ...] = Field(
        default=(), description="Prompts and answers of a language model, for each time it was asked for a plan."
    )
    evidence: tuple[EvidenceRound, ...] = Field(
        default=(), description="Plans whose calls found nothing, and how the planner responded; in order."
    )
    reason: str = Field(default="", description="Why there is no answer, in a sentence.")
    untold: str = Field(
        default="", description="A sentence that says which requested values can be found and which no API provides."
    )
    unsure: str = Field(
        default="",
        description="Sentences that say why the plan may be wrong (it is unlikely, or its calls do not provide what is "
        "asked for) and what it calls, or that an item was used although another may be meant. Empty: no "
        "such reason is known.",
    )
    problem: RunProblem | None = None
    catalogue_version: int = 0
    timings: Timings = Timings()

    @property
    def execution_id(self) -> str:
        """The executor's id for the latest attempt of the run. The executor runs one plan per id, once."""
        return self.execution_ids[-1]

    @property
    def execution_ids(self) -> tuple[str, ...]:
        """The ids of all attempts of the run."""
        earlier = sum(one.outcome == "replanned" for one in self.evidence) + len(self.lapsed)
        return (self.id, *(f"{self.id}.{attempt}" for attempt in range(1, earlier + 1)))


class RunSummary(Contract):
    """A line of `GET /runs`."""

    id: str
    status: RunStatus
    query: str = Field(description="The first 300 characters of the request.")
    created_at: AwareDatetime
    total_ms: float
    verdict: Verdict | None = Field(default=None, description="The last feedback on its outcome, if any.")
    trouble: str = Field(
        default="",
        description="Why there is no answer, in at most 300 characters: of a run that failed or has no plan.",
    )


class RunPage(Contract):
    """A page of runs, newest first. `next` is the cursor of the following page."""

    runs: tuple[RunSummary, ...]
    next: str | None = None
