"""Runs: what was asked, what was planned, what each call did, and the answer."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field, JsonValue, StringConstraints

from services.contracts.api import Api, Clause, FoundBy, Label, Method, Signals, Tenant
from services.contracts.base import ApiId, Contract, Query, StepId
from services.contracts.context import Context
from services.contracts.evidence import Attempt
from services.contracts.plan import MAX_STEPS, Plan
from services.contracts.planning import Cascade, CompiledPlan, Decision, Diagnostic, Proof, Question
from services.contracts.trace import LookUp, PlannerAsked, PlannerTrace

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ArgumentName = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class RunStatus(StrEnum):
    """The states of a run.

    ``planning`` and ``running`` are under way; ``planned`` is where a dry run ends; the rest are final, save that an
    approval, or the settling of calls in doubt, sets a run running again.
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


class StoredValue(Contract):
    """A value too large to travel in records: kept by the executor under the hash of its content."""

    id: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the value's JSON; `GET /values/{id}` returns it."
    )
    bytes: int = Field(ge=0, description="Size of the value's JSON.")


class Succeeded(Contract):
    """The call answered with success; `value` is its decoded output, or a preview of it where it is `stored`."""

    kind: Literal["succeeded"] = "succeeded"
    value: JsonValue = None
    status: int | None = None
    stored: StoredValue | None = None


class ItemChoice(Contract):
    """An item of those that match alike: the argument it is chosen for, that argument's value, and what it says."""

    argument: str
    value: JsonValue = Field(description="Null where it is large, or no text and no number.")
    label: str = Field(max_length=200)


class Failed(Contract):
    """The call failed, or its request could not be built. The upstream's own body is kept as `detail`."""

    kind: Literal["failed"] = "failed"
    reason: Literal[
        "upstream_error",
        "timeout",
        "connection",
        "bad_response",
        "bad_request",
        "refused",
        "credential",
        "reference",
        "ambiguous",
        "circuit_open",
        "ledger",
        "changed",
        "overloaded",
    ]
    message: str
    status: int | None = None
    detail: JsonValue = None
    choices: tuple[ItemChoice, ...] = Field(
        default=(), description="Where it is `ambiguous`: items that match the request's words equally well."
    )


class Skipped(Contract):
    """The call was not made: a step it depends on gave no value, or its condition did not hold."""

    kind: Literal["skipped"] = "skipped"
    because: str = Field(description="The step that kept it from running, or `when`, `cancelled`, `item 3`.")


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


class ItemRecord(Contract):
    """What became of one element of a `foreach`; `index` counts from 0."""

    index: int = Field(ge=0)
    outcome: StepOutcome
    request: RequestRecord | None = Field(default=None, description="Kept where the item did not succeed.")


class StepRecord(Contract):
    """What one step did. Times are milliseconds since the run began."""

    step: str
    api: str
    requests: tuple[RequestRecord, ...] = Field(default=(), description="One; with `foreach`, one for each item.")
    outcome: StepOutcome
    started_ms: float = Field(ge=0)
    duration_ms: float = Field(ge=0)
    attempts: int = Field(default=1, ge=0)
    items: tuple[ItemRecord, ...] = Field(
        default=(), description="With `foreach`: each item's outcome. Values of items that succeeded are in `outcome`."
    )
    pages: int = Field(default=1, ge=0, description="How many pages of a list were fetched.")
    more: bool = Field(default=False, description="The list goes on beyond the pages that were fetched.")
    violations: tuple[str, ...] = Field(
        default=(), description="Where the answer is not what the API's schema promises; paths and rules, no values."
    )
    recovered: bool = Field(default=False, description="The outcome was read from the ledger after a crash.")
    secrets: tuple[str, ...] = Field(
        default=(), description="Names of the secrets that its calls presented, or were about to."
    )


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
    stored: StoredValue | None = Field(default=None, description="Set where `value` is a preview of a large value.")


class Answer(Contract):
    """The answer: values with their native JSON types, a readable rendering of them, and where there is one a sentence.

    The sentence's words are a language model's, which saw no value; the values are in it as the calls answered them.
    """

    values: tuple[AnswerValue, ...] = ()
    text: str = ""
    sentence: str | None = None


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
    """Run a proved plan. `approved` must be the plan's id where its proof lists approvals.

    A plan with a mutating call runs once per `run_id`, however often it is sent: a second request follows the first.
    """

    run_id: str = Field(min_length=1, max_length=64)
    compiled: CompiledPlan
    tenant: Tenant = Field(default="default", description="Whose run it is, and whose secrets may be presented.")
    approved: str | None = None
    bound: dict[StepId, Digest] = Field(
        default_factory=dict,
        description="By step, the `digest` of the requests that were approved. Where the reads of the plan make them "
        "others, no step that may change something or was asked for is called: they fail as `changed`.",
    )
    deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    step_deadline_ms: int | None = Field(default=None, ge=1, le=3_600_000)


class PreviewRequest(Contract):
    """Which requests would this plan send?"""

    compiled: CompiledPlan
    tenant: Tenant = Field(default="default", description="Whose run it is, and whose secrets may be presented.")
    reads: bool = Field(
        default=False,
        description="Make the reads that feed them, unless those need an approval or come after a change.",
    )
    deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000, description="For the reads.")


class RequestPreview(Contract):
    """A request as it would go out. What only a run can tell stands in it as ``{var1.id}`` or ``{item.id}``."""

    step: str
    api: str
    request: RequestRecord
    complete: bool = Field(description="Whether every value in it is known already.")
    foreach: str | None = Field(default=None, description="The list whose every element gets a request of this form.")
    item: int | None = Field(
        default=None, ge=0, description="Which element of that list, from 0, where each is shown by itself."
    )
    calls: int | None = Field(
        default=None, ge=0, description="How many calls the step makes, where that is known; not all may be shown."
    )
    digest: str = Field(
        default="", description="Hash of all that is known of the step's calls; empty where reads were not made yet."
    )
    problem: str = Field(default="", description="Why no request can be built from these values, or none is sent.")


class ReadValue(Contract):
    """A value that a read gave, from which requests that are shown were made."""

    step: str
    api: str
    path: tuple[str | int, ...] = ()
    value: JsonValue = Field(description="The beginning of it, where it is large.")
    request: str = Field(default="", description="Method and URL of the call that gave it.")


class PreviewResponse(Contract):
    """The requests of the steps that may change state or wait for an approval, in the plan's order."""

    requests: tuple[RequestPreview, ...] = ()
    reads: tuple[ReadValue, ...] = Field(default=(), description="The values that reads gave, and where they are from.")
    settled: bool = Field(
        default=True, description="Whether all is shown that can be known before: no read that feeds them is left."
    )
    secrets: tuple[str, ...] = Field(default=(), description="Names of the secrets that these reads presented.")
    failed: ExecutionFinished | None = Field(
        default=None, description="What the reads did, where one failed or what it gave is of no use; nothing is shown."
    )


class ResolveRequest(Contract):
    """What a person found out about a call in doubt.

    `succeeded`: it took effect, and `value` is what it would have answered. `failed`: it did not, and shall not be
    made. `retry`: it did not, and shall be sent again.
    """

    outcome: Literal["succeeded", "failed", "retry"]
    value: JsonValue = None
    message: str = Field(default="", max_length=1_000, description="Why; kept with the run.")
    item: int | None = Field(default=None, ge=0, description="Which item of a `foreach`; required for those.")


class DoubtfulCall(Contract):
    """A call that went out and of which nobody knows whether it took effect."""

    step: str
    api: str
    item: int | None = None
    request: RequestRecord | None = None
    message: str


def doubts_of(records: Iterable[StepRecord]) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt among the steps of a run; of a `foreach` the single items."""
    found: list[DoubtfulCall] = []
    for record in records:
        items = [item for item in record.items if isinstance(item.outcome, InDoubt)]
        found += [_doubt(record, item.outcome, item.request, item.index) for item in items]
        if isinstance(record.outcome, InDoubt) and not items:
            found.append(_doubt(record, record.outcome, record.requests[0] if record.requests else None, None))
    return tuple(found)


def _doubt(record: StepRecord, outcome: StepOutcome, request: RequestRecord | None, item: int | None) -> DoubtfulCall:
    message = outcome.message if isinstance(outcome, InDoubt) else ""
    return DoubtfulCall(step=record.step, api=record.api, item=item, request=request, message=message)


class ExecutionState(Contract):
    """Where an execution stands after it was cancelled, or a call of it settled."""

    run_id: str
    status: Literal["running", "succeeded", "failed", "in_doubt", "cancelled"]
    doubts: tuple[DoubtfulCall, ...] = ()


class Credentials(Contract):
    """The names of the secrets the executor can present for a tenant. Never their values."""

    secrets: tuple[str, ...] = ()


SecretOutcome = Literal["accepted", "refused", "ready", "unclear", "unavailable"]


class TrySecret(Contract):
    """Try the credential of this name."""

    secret: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}\.[^\x00-\x1f]{1,400}$", description="`provider.scheme`")


class SecretTestRequest(Contract):
    """Present the credentials of an API, as `tenant` may use them, and, with `send`, call it without arguments."""

    api: Api
    tenant: Tenant | None = None
    send: bool = False


class SecretTest(Contract):
    """What came of presenting a credential. Never its value.

    `accepted`: a call with it succeeded. `refused`: the upstream answered 401 or 403. `ready`: it can be presented (an
    OAuth2 token was there, or was issued), and nothing was called. `unclear`: the answer says nothing of it.
    `unavailable`: it cannot be presented.
    """

    outcome: SecretOutcome
    message: str


class SolveOptions(Contract):
    """How to solve."""

    top_k: int = Field(default=20, ge=1, le=100, description="How many candidate APIs to retrieve.")
    demos: int = Field(default=3, ge=0, le=20, description="How many demonstrations to show the planner.")
    dry_run: bool = Field(default=False, description="Plan and prove, send nothing.")
    backend: str | None = Field(
        default=None, max_length=50, description="This planner alone; unset: the planner's cascade."
    )
    cascade: Cascade | None = Field(
        default=None,
        description="Where a language model is configured: whether it plans first, or only where the planner without "
        "one is not sure; unset: as the planner's settings say.",
    )
    lookups: int = Field(
        default=1,
        ge=0,
        le=3,
        description="How often the planner may ask for operations that it misses and was not offered.",
    )
    evidence: bool = Field(
        default=True,
        description="Whether what calls answer is made use of: where a call that reads found nothing the planner is "
        "asked again, as often as the gateway's settings allow, and of several items the one that matches the request "
        "is taken, rather than the first.",
    )
    deadline_ms: int = Field(default=30_000, ge=100, le=3_600_000, description="For the whole request.")
    providers: tuple[str, ...] = Field(default=(), max_length=100, description="Only APIs of these providers.")
    tags: tuple[Label, ...] = Field(default=(), max_length=20, description="Only APIs with one of these tags.")
    methods: tuple[Method, ...] = Field(
        default=(), max_length=10, description="Only APIs with one of these HTTP methods."
    )
    deprecated: bool = Field(default=True, description="False: no deprecated APIs.")
    pinned: tuple[ApiId, ...] = Field(
        default=(),
        max_length=100,
        description="APIs that the planner is shown in any case, first and within `top_k`, whatever the filters. "
        "Ids of none are ignored.",
    )
    mutations: Decision = Field(default=Decision.ASK, description="What to do with calls that may change state.")
    sentence: bool | None = Field(
        default=None,
        description="Whether a language model words the answer, where there is one; unset: as the planner's settings "
        "say.",
    )


class SolveRequest(Contract):
    """A request in words."""

    query: Query
    options: SolveOptions = SolveOptions()
    context: Context = Context()
    wait: bool = Field(default=True, description="False: answer 202 at once; follow the run under its id.")


class StartOptions(Contract):
    """How to run a plan that is given."""

    dry_run: bool = Field(default=False, description="Prove, send nothing.")
    deadline_ms: int = Field(default=30_000, ge=100, le=3_600_000, description="For the whole request.")
    mutations: Decision = Field(default=Decision.ASK, description="What to do with calls that may change state.")


class StartRequest(Contract):
    """Run this plan, as it is: it is proved, approved and executed like one that was planned."""

    calls: tuple[dict[str, JsonValue], ...] = Field(
        min_length=1,
        max_length=MAX_STEPS + 1,
        description="NESTful's list of calls: `name` is the API's id, `arguments` its arguments, `label` what later "
        "calls name it by, as in `$var1.items[0].id$`. The last one may be `var_result`, whose arguments answer.",
        examples=[
            [
                {"name": "sandbox.listCustomerOrders", "arguments": {"customer_id": "cus_6"}, "label": "var1"},
                {"name": "var_result", "arguments": {"latest": "$var1.orders[0].id$"}},
            ]
        ],
    )
    query: Query = Field(default="A plan that was given", description="What it is for; the run is listed with it.")
    options: StartOptions = StartOptions()
    wait: bool = Field(default=True, description="False: answer 202 at once; follow the run under its id.")


class RerunRequest(Contract):
    """Run the plan of an earlier run again, from a step on, with other inputs; the earlier run stays as it is."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    from_step: StepId | None = Field(
        default=None, alias="from", description="The first step to be made again; unset: all are."
    )
    inputs: dict[StepId, dict[ArgumentName, JsonValue]] = Field(
        default_factory=dict,
        max_length=1_000,
        description="By step, arguments with the values that they get instead. These steps are made again.",
        examples=[{"var2": {"order_id": "ord_7"}}],
    )
    reuse: bool = Field(
        default=True,
        description="False: calls that only read are made again. What a change answered is taken from the earlier run "
        "in any case, so that it is not made twice.",
    )
    options: StartOptions = StartOptions()
    wait: bool = Field(default=True, description="False: answer 202 at once; follow the run under its id.")


class ResentStep(Contract):
    """A step that a rerun makes again."""

    step: str
    api: str
    mutating: bool = Field(description="It may change something.")
    outcome: Literal["succeeded", "failed", "skipped", "in_doubt"] | None = Field(
        description="What became of it in the earlier run; null: it was not reached, or nobody knows."
    )
    succeeded: int = Field(default=0, ge=0, description="How many of its calls succeeded in the earlier run.")
    edited: tuple[str, ...] = Field(default=(), description="Its arguments that were given another value.")


class ReusedStep(Contract):
    """A step that a rerun does not make again: what it answered in an earlier run stands."""

    step: str
    api: str
    mutating: bool = Field(description="It has changed something.")
    run: str = Field(description="The run that made it.")


class CandidateSummary(Contract):
    """A retrieved API, and why it was found."""

    api: str
    summary: str
    score: float
    signals: Signals = Signals()
    clause: int = 0
    found_by: FoundBy = Field(default="meaning", description="Why it was found (docs/retrieval.md).")
    relevance: float | None = Field(default=None, description="How likely it is needed, where something says.")


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
    sentence_ms: float = Field(default=0, description="How long the answer waited for its sentence.")
    total_ms: float = 0


class RunProblem(Contract):
    """Why a run failed, in the terms of RFC 9457."""

    type: str
    title: str
    detail: str = ""


class Approval(Contract):
    """Who allowed which plan to be run, and when."""

    plan_id: str
    approver: str = Field(description="The principal whose token was sent; `anonymous` where none is configured.")
    on_behalf_of: str = Field(default="", description="The person, as the app that sent the approval names them.")
    at: AwareDatetime
    digest: str = Field(default="", description="Of what was approved.")


class EvidenceRound(Contract):
    """What a plan's calls brought to light, and what the planner made of it when it was asked again.

    ``replanned``: another plan was made, and this one gave way to it. Otherwise this one stood: the planner had none
    (``no_plan``), would ask the user (``needs_input``), made the ``same_plan``, one that makes ``other_changes``, or
    could not be asked in time (``unasked``).
    """

    outcome: Literal["replanned", "no_plan", "needs_input", "same_plan", "other_changes", "unasked"]
    attempts: tuple[Attempt, ...] = Field(description="The calls that did not bring what was needed.")
    plan: Plan | None = Field(default=None, description="The plan that gave way.")
    steps: tuple[StepRecord, ...] = Field(default=(), description="What its calls did.")
    approval: Approval | None = Field(default=None, description="Who had approved it; the next one needs its own.")


class Verdict(StrEnum):
    """What somebody says of a run's outcome: it is what was wanted, or it is not."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"


class Judged(StrEnum):
    """Which runs to list: those with this verdict, or with none."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    NONE = "none"


class FeedbackRequest(Contract):
    """Confirm or reject a run's outcome. Another word on the same run replaces the one before."""

    verdict: Verdict
    reason: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(
        default="", max_length=1_000, description="Why; kept with the run."
    )


class Feedback(Contract):
    """Who said what of a run's outcome, and when."""

    verdict: Verdict
    reason: str = ""
    principal: str = Field(description="Whose token was sent; `anonymous` where none is configured.")
    at: AwareDatetime


class Run(Contract):
    """One request from words to answer: what `POST /solve` returns and `GET /runs/{id}` keeps."""

    id: str
    status: RunStatus
    query: str
    created_at: AwareDatetime
    tenant: str = "default"
    asked_by: str = Field(default="", description="The principal that asked; empty: a run of an earlier version.")
    answer: Answer = Answer()
    plan: Plan | None = None
    proof: Proof | None = None
    steps: tuple[StepRecord, ...] = ()
    questions: tuple[Question, ...] = ()
    previews: tuple[RequestPreview, ...] = Field(
        default=(), description="Where approval is needed: the requests that would go out."
    )
    reads: tuple[ReadValue, ...] = Field(
        default=(), description="The values in those requests that reads gave, and where they are from."
    )
    read_with: tuple[str, ...] = Field(
        default=(), description="Names of the secrets that calls presented to show what an approval is asked for."
    )
    digest: str = Field(
        default="",
        description="Where approval is needed: hash of the plan, of the requests and reads that are shown, and of all "
        "its APIs; an approval names it. Empty where the reads were not made, as in a dry run.",
    )
    moved: bool = Field(
        default=False, description="The requests are not those that were shown first: an approval must name `digest`."
    )
    approval: Approval | None = None
    lapsed: tuple[Approval, ...] = Field(
        default=(),
        description="Approvals of which nothing was sent, since the reads gave other requests when they were run.",
    )
    rerun_of: str = Field(default="", description="The run whose plan it runs again; empty: of none.")
    resent: tuple[ResentStep, ...] = Field(default=(), description="Of a rerun: the steps that it makes again.")
    reused: tuple[ReusedStep, ...] = Field(
        default=(), description="Of a rerun: steps that are not made again; their values are literals in its plan."
    )
    kept: tuple[AnswerValue, ...] = Field(
        default=(), description="Of a rerun: values of its answer that steps gave that it does not make again."
    )
    feedback: Feedback | None = Field(default=None, description="The last word on its outcome, if somebody said one.")
    doubts: tuple[DoubtfulCall, ...] = Field(default=(), description="The calls to be settled before the run goes on.")
    diagnostics: tuple[Diagnostic, ...] = ()
    clauses: tuple[Clause, ...] = ()
    candidates: tuple[CandidateSummary, ...] = ()
    demos: tuple[DemoSummary, ...] = ()
    confidence: float = 0.0
    backend: str = ""
    planners: tuple[PlannerAsked, ...] = Field(default=(), description="The planners that were asked, in order.")
    lookups: tuple[LookUp, ...] = Field(
        default=(), description="Operations that the planner missed, and what was found for them."
    )
    traces: tuple[PlannerTrace, ...] = Field(
        default=(), description="What a language model was shown and answered, each time it was asked for a plan."
    )
    evidence: tuple[EvidenceRound, ...] = Field(
        default=(), description="Plans whose calls found nothing, and what the planner made of that; in order."
    )
    reason: str = Field(default="", description="Why there is no answer, in a sentence.")
    untold: str = Field(
        default="", description="What can be found of what was asked for, and what no API tells, in a sentence."
    )
    unsure: str = Field(
        default="",
        description="How likely the plan is right and what it calls, in a sentence, where that is not likely.",
    )
    problem: RunProblem | None = None
    catalogue_version: int = 0
    timings: Timings = Timings()

    @property
    def execution_id(self) -> str:
        """The id under which the executor knows this attempt of the run: it runs one plan for each id, once."""
        return self.execution_ids[-1]

    @property
    def execution_ids(self) -> tuple[str, ...]:
        """The ids of all attempts of the run."""
        earlier = sum(one.outcome == "replanned" for one in self.evidence) + len(self.lapsed)
        return (self.id, *(f"{self.id}.{attempt}" for attempt in range(1, earlier + 1)))


class RunPlanned(Contract):
    """A plan is ready, and none of its calls has gone out yet. One that follows another takes its place."""

    kind: Literal["planned"] = "planned"
    run: Run


class RunFinished(Contract):
    """The run has reached a final state."""

    kind: Literal["finished"] = "finished"
    run: Run


SolveEvent = Annotated[RunPlanned | StepStarted | StepFinished | RunFinished, Field(discriminator="kind")]


class RunEvent(Contract):
    """An event of a run with its number, by which a stream of server-sent events is resumed (`Last-Event-ID`)."""

    id: int = Field(ge=1)
    event: SolveEvent


class RunSummary(Contract):
    """A line of `GET /runs`."""

    id: str
    status: RunStatus
    query: str
    created_at: AwareDatetime
    total_ms: float
    verdict: Verdict | None = Field(default=None, description="The last word on its outcome, if somebody said one.")
    trouble: str = Field(
        default="",
        description="Why there is no answer, in at most 300 characters: of a run that failed or has no plan.",
    )


class RunPage(Contract):
    """A page of runs, newest first. `next` is the cursor of the following page."""

    runs: tuple[RunSummary, ...]
    next: str | None = None


class ApproveRequest(Contract):
    """Approve exactly this plan and, by `digest`, these requests: others need another approval."""

    plan_id: str = Field(min_length=64, max_length=64)
    digest: Digest | None = Field(
        default=None,
        description="The run's `digest` that was looked at; needed where the run has `moved`, and good in any case.",
    )
    on_behalf_of: str = Field(default="", max_length=200, description="The person who approves, for the record.")
    wait: bool = Field(default=True, description="False: answer 202 at once; follow the run under its id.")
