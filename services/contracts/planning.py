"""Requests and responses of the planner: plans, their proofs, and diagnostics of plans that cannot be proved."""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, model_validator

from services.contracts.api import Api
from services.contracts.base import ApiId, Contract, JsonSchema, Query
from services.contracts.context import Context
from services.contracts.demo import SelectedDemo
from services.contracts.evidence import MAX_ATTEMPTS, Attempt
from services.contracts.matching import matches_host, matches_path, place_of
from services.contracts.plan import Plan
from services.contracts.retrieval import Candidate, Clause
from services.contracts.trace import PlannerAsked, PlannerTrace

Cascade = Literal["model_first", "compact_first"]
"""Which planner is asked first if a language model is configured: the model, or the planner that needs none."""
MAX_NEEDS = 4
MAX_NEED_CHARS = 200
MAX_APIS_BYTES: Final = 2_000_000
"""Most bytes of a plan's APIs together, as JSON in ASCII. Each of its runs holds them, in several times that memory."""


class Decision(StrEnum):
    """A policy's decision about a call. A change that is allowed waits all the same if its plan is unsure."""

    ALLOW_UNSURE = "allow_unsure"
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def allows(self) -> bool:
        """Whether the call is allowed, at least in a plan that is not unsure."""
        return self in (Decision.ALLOW_UNSURE, Decision.ALLOW)


_STRICTNESS: Final = (Decision.ALLOW_UNSURE, Decision.ALLOW, Decision.ASK, Decision.DENY)


class PolicyRule(Contract):
    """A decision about the calls it matches. All fields but `decision` are shell patterns; unset fields match all.

    Importers choose the ids of APIs and providers, but not hosts and paths. So rules that forbid should use the latter.
    """

    decision: Decision
    host: str = Field(
        default="*",
        min_length=1,
        max_length=300,
        description="Hosts that are called, e.g. `api.example.com` or `*.example.com:*`. Without a port, `allow` "
        "rules match the scheme's default port and other rules match any port.",
    )
    path: str = Field(
        default="*", min_length=1, max_length=400, description="Complete paths as they are called, e.g. `/v1/orders*`."
    )
    api: str = Field(default="*", min_length=1, max_length=400, description="API ids, e.g. `crm.delete*`.")
    provider: str = Field(default="*", min_length=1, max_length=200)
    method: str = Field(default="*", min_length=1, max_length=20, description="HTTP methods, e.g. `DELETE`.")
    tenant: str = Field(default="*", min_length=1, max_length=100)

    def matches(self, api: Api, tenant: str, *, certain: bool) -> bool:
        """Whether the rule applies to all of this tenant's calls of this API; without ``certain``, perhaps to some."""
        method = self.method.upper()  # methods in the catalogue are upper case
        pairs = ((api.id, self.api), (api.provider, self.provider), (api.method, method), (tenant, self.tenant))
        if not all(fnmatchcase(text, pattern) for text, pattern in pairs):
            return False
        if self.host == self.path == "*":
            return True
        place = place_of(api.server, api.path)
        return matches_host(self.host, place, certain=certain) and matches_path(self.path, place, certain=certain)


class Policy(Contract):
    """Which calls may be sent.

    The first rule that matches decides. If a match depends on the values of path parameters, the strictest possible
    decision applies. If no rule matches, `deny` takes precedence over `allow` (shell patterns over API ids), and both
    over the default: reads are allowed, and `mutating` decides about mutating calls.
    """

    mutating: Decision = Decision.ASK
    rules: tuple[PolicyRule, ...] = Field(default=(), max_length=1_000)
    allow: tuple[str, ...] = Field(default=(), max_length=1_000)
    deny: tuple[str, ...] = Field(default=(), max_length=1_000)
    tenant: str = Field(default="default", max_length=100)

    def decide(self, api: Api) -> Decision:
        """The decision about a call of this API: the strictest of those that may apply."""
        found = list[Decision]()
        for rule in self.rules:
            if rule.matches(api, self.tenant, certain=False):
                found.append(rule.decision)
                if rule.matches(api, self.tenant, certain=True):
                    break
        else:
            found.append(self._without_rules(api))
        return max(found, key=_STRICTNESS.index)

    def waits(self, compiled: "CompiledPlan", *, unsure: bool) -> bool:
        """Whether a plan waits for an approval. In an ``unsure`` one, changes wait that are allowed only in others."""
        if compiled.proof.approvals:
            return True
        return unsure and any(
            api.mutating and self.decide(api) is not Decision.ALLOW_UNSURE for api in compiled.apis.values()
        )

    def allows_all_of_host(self, api: Api) -> bool:
        """Whether calls of this API are allowed for any path of its host. A response can name the next page's path."""
        try:
            server = urlsplit(api.server)
        except ValueError:
            return False
        anywhere = {"server": f"{server.scheme}://{server.netloc}", "path": "/{anything}"}
        return self.decide(api.model_copy(update=anywhere)).allows

    def _without_rules(self, api: Api) -> Decision:
        if any(fnmatchcase(api.id, pattern) for pattern in self.deny):
            return Decision.DENY
        if any(fnmatchcase(api.id, pattern) for pattern in self.allow):
            return Decision.ALLOW_UNSURE
        return self.mutating if api.mutating else Decision.ALLOW


class DiagnosticCode(StrEnum):
    """All problems that the compiler can find in a plan."""

    UNKNOWN_API = "unknown_api"
    UNKNOWN_ARGUMENT = "unknown_argument"
    MISSING_ARGUMENT = "missing_argument"
    INVALID_LITERAL = "invalid_literal"
    UNKNOWN_STEP = "unknown_step"
    UNKNOWN_FIELD = "unknown_field"
    TYPE_MISMATCH = "type_mismatch"
    LIST_FOR_SINGLE = "list_for_single"
    SINGLE_FOR_LIST = "single_for_list"
    INVALID_FOREACH = "invalid_foreach"
    CYCLE = "cycle"
    FORWARD_REFERENCE = "forward_reference"
    UNUSED_STEP = "unused_step"
    MISSING_CREDENTIAL = "missing_credential"
    APPROVAL_REQUIRED = "approval_required"
    DENIED = "denied"
    DEPRECATED_API = "deprecated_api"
    MISSING_ANSWER = "missing_answer"
    TOO_LARGE = "too_large"
    ALREADY_TRIED = "already_tried"


class Fix(Contract):
    """A change that would remove a diagnostic, in words and, if possible, as the API that supplies the value."""

    message: str
    api: ApiId | None = None
    value: JsonValue = None


class Diagnostic(Contract):
    """One finding, for people and for the repair loop. Only errors prevent a proof."""

    code: DiagnosticCode
    severity: Literal["error", "warning"] = "error"
    step: str | None = None
    argument: str | None = None
    message: str
    fixes: tuple[Fix, ...] = ()


class ReadApisRequest(Contract):
    """APIs for the planner to read before they are candidates of a request."""

    apis: tuple[Api, ...] = Field(min_length=1, max_length=100)


class ReadApisReport(Contract):
    """The result of reading the APIs."""

    read: int = Field(ge=0, description="Number of APIs that the planner has read.")


class Question(Contract):
    """What the user must still supply: one question for one argument."""

    step: str
    api: ApiId
    argument: str
    text: str
    json_schema: JsonSchema = Field(default_factory=dict)


class Proof(Contract):
    """What was proved about a plan, and against which APIs."""

    checks: int = Field(ge=0, description="Number of facts that were checked.")
    assumed: int = Field(
        default=0, ge=0, description="Number of facts that were assumed because no schema defines them."
    )
    stages: tuple[tuple[str, ...], ...] = Field(
        default=(), description="Steps by depth; one stage can run in parallel."
    )
    api_hashes: dict[str, str] = Field(default_factory=dict)
    mutating: tuple[str, ...] = Field(default=(), description="Steps that may change state upstream.")
    approvals: tuple[str, ...] = Field(default=(), description="Steps that need an approval before anything is sent.")
    credentials: tuple[str, ...] = Field(default=(), description="Names of the secrets that the calls will use.")
    missing: tuple[str, ...] = Field(
        default=(), description="Names of secrets that must be configured before the plan can be run."
    )
    inserted: tuple[str, ...] = Field(default=(), description="Steps the compiler added (NESTful's implicit calls).")
    pages_anywhere: tuple[str, ...] = Field(
        default=(),
        description="APIs whose next list page may have any path of the same origin, because the policy allows "
        "reading all of it. For other APIs the next page must have the path of the first.",
    )


class Signature(Contract):
    """Shows that a holder of the key proved the plan. Valid for one tenant, until it expires."""

    tenant: str = Field(max_length=100)
    expires_at: int = Field(ge=0, description="Expiry, in seconds since 1970 (UTC).")
    mac: str = Field(pattern=r"^[0-9a-f]{64}$", description="HMAC-SHA-256 over plan, APIs, proof, tenant and expiry.")


def apis_too_large(apis: Iterable[Api]) -> str | None:
    """Why one plan cannot call all these APIs, or None. Stops at the limit: further ones cost nothing."""
    left = MAX_APIS_BYTES
    for api in apis:
        left -= len(api.model_dump_json(ensure_ascii=True))
        if left < 0:
            return f"the plan's APIs take more than {MAX_APIS_BYTES:,} bytes together"
    return None


class CompiledPlan(Contract):
    """A proved plan, with the definitions of the APIs it was proved against. The only thing an executor runs."""

    plan: Plan
    apis: dict[str, Api]
    proof: Proof
    signature: Signature | None = Field(default=None, description="Unset: the planner that proved the plan has no key.")


class CompileRequest(Contract):
    """Prove this plan. `apis` may hold more than the plan uses: the rest are candidates for repair."""

    plan: Plan
    apis: tuple[Api, ...] = Field(max_length=10_000)
    policy: Policy = Policy()
    credentials: tuple[str, ...] | None = Field(
        default=None, description="Names of the configured secrets; unset: credentials are not checked."
    )


class CompileResponse(Contract):
    """The proved plan, or the reasons why it cannot be proved."""

    compiled: CompiledPlan | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    questions: tuple[Question, ...] = ()


class PlanRequest(Contract):
    """Plan this request with these candidates and demos, and prove the plan."""

    query: Query
    context: Context = Context()
    clauses: tuple[Clause, ...] = ()
    candidates: tuple[Candidate, ...] = Field(default=(), max_length=200)
    demos: tuple[SelectedDemo, ...] = ()
    backend: str | None = Field(
        default=None,
        max_length=50,
        description="`compact`, `served` or `demonstrated`: use only that planner, and return its plan even if it is "
        "unlikely. Unset: the cascade.",
    )
    cascade: Cascade | None = Field(
        default=None,
        description="Which planner is asked first if there is a language model; unset: as in the settings.",
    )
    policy: Policy = Policy()
    credentials: tuple[str, ...] | None = None
    deadline_ms: int | None = Field(
        default=None, ge=1, le=3_600_000, description="How long the answer may take; unset: as in the settings."
    )
    looked_up: tuple[ApiId, ...] = Field(
        default=(), max_length=200, description="The candidates that were looked up because the planner asked for them."
    )
    choose_items: bool = Field(
        default=False,
        description="If a look-up finds several items, take the one that matches the request's words, not the first.",
    )
    evidence: tuple[Attempt, ...] = Field(
        default=(),
        max_length=MAX_ATTEMPTS,
        description="Calls that were already made for this request and did not help. No plan repeats them.",
    )


class PlanResponse(Contract):
    """A proved plan, a question to the user, or the statement that nothing in the catalogue fits."""

    status: Literal["planned", "needs_input", "no_plan"]
    plan: Plan | None = None
    compiled: CompiledPlan | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    questions: tuple[Question, ...] = ()
    confidence: float = Field(default=0.0, ge=0, le=1)
    backend: str
    reason: str = Field(default="", description="Why there is no plan, in a sentence.")
    needs: tuple[str, ...] = Field(
        default=(), description="Descriptions of operations that the planner needs and was not offered."
    )
    untold: str = Field(
        default="",
        description="A sentence that says which requested values the plan finds and which no API provides. Empty: no "
        "requested value is known to be missing.",
    )
    unsure: str = Field(
        default="",
        description="A sentence that says why the plan may be wrong (it is unlikely, or its calls do not provide what "
        "is asked for) and what it calls. Empty: no such reason is known.",
    )
    asked: tuple[PlannerAsked, ...] = Field(default=(), description="The planners that were asked, in order.")
    trace: PlannerTrace | None = Field(
        default=None, description="Prompts and answers of a language model, if one was asked."
    )
    sentences: bool = Field(
        default=False,
        description="Whether the planner writes answers as sentences if the request does not set it (`/sentences`).",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.status == "planned") != (self.compiled is not None):
            raise ValueError("a plan counts as planned if, and only if, it is proved")
        return self


class PlannerBackends(Contract):
    """The available backends, and those that are asked, in this order, if the request names none."""

    default: str = Field(description="The first backend of the cascade that needs no demonstrations.")
    available: tuple[str, ...]
    cascade: tuple[str, ...] = ()
