"""Settings of the planner; environment variables start with ``NESTOR_PLANNER_``."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.contracts.planning import Cascade
from services.encoder import PLANNER_MODEL
from services.settings import InternalSettings

ConstraintKind = Literal["auto", "json_schema", "structured_outputs", "gbnf", "json_object", "none"]


class ServedSettings(BaseSettings):
    """The language model that plans, served by a server with OpenAI's chat completions API."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_PLANNER_SERVED_", extra="forbid", frozen=True)

    url: str | None = Field(
        default=None,
        max_length=2_000,
        description="Base URL of the server, e.g. `http://localhost:8080/v1`; unset: no language model plans. A URL "
        "without a path gets `/v1`.",
    )
    model: str = Field(default="default", min_length=1, max_length=200, description="The model's name at that server.")
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token, to that server alone.")
    timeout_s: float = Field(
        default=20.0, gt=0, le=3_600, description="How long the model may take for a plan, the repair turn included."
    )
    first_token_s: float = Field(
        default=10.0, gt=0, le=600, description="Silence before the first token after which the server counts as hung."
    )
    between_tokens_s: float = Field(
        default=3.0, gt=0, le=600, description="The same, between two tokens. Bytes that are no token do not count."
    )
    rest_s: float = Field(
        default=10.0,
        ge=0,
        le=3_600,
        description="How long a server that failed is left alone. Then one token is asked of it beside the requests, "
        "and it is asked for plans again when that comes.",
    )
    max_tokens: int = Field(default=1_024, ge=16, le=65_536, description="Longest answer, in tokens.")
    prompt_tokens: int = Field(
        default=6_000,
        ge=200,
        le=1_000_000,
        description="Longest prompt, in tokens as estimated; the least relevant APIs and demonstrations are left out.",
    )
    candidates: int = Field(default=26, ge=1, le=200, description="APIs that are shown at most.")
    demos: int = Field(default=3, ge=0, le=20, description="Demonstrations that are shown at most.")
    detail: Literal["full", "brief"] = Field(
        default="full",
        description="How much is said of each API: `brief` is what small models are trained with, one short line.",
    )
    constraint: ConstraintKind = Field(
        default="auto",
        description="How answers are held to the form of plans: OpenAI's `json_schema`, vLLM's `structured_outputs`, "
        "llama.cpp's `gbnf`, `json_object`, `none`; `auto`: `json_schema`, and what a server takes that refuses it.",
    )
    temperature: float = Field(default=0.0, ge=0, le=2, description="0: the likeliest answer, the same each time.")
    logprobs: bool = Field(
        default=False,
        description="Whether to ask for the tokens' log-probabilities; the least likely one is the plan's confidence.",
    )
    repairs: int = Field(
        default=1, ge=0, le=3, description="How often the model is shown what keeps its plan from being proved."
    )
    sentences: bool | None = Field(
        default=None,
        description="Whether the model also words answers as sentences, where a request does not say "
        "(docs/answers.md); unset: with `detail=full`, not with the small models that `brief` is for.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.url is None:
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("NESTOR_PLANNER_SERVED_URL must be an http or https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("NESTOR_PLANNER_SERVED_URL holds no credentials; use NESTOR_PLANNER_SERVED_API_KEY")
        return self


class PlannerSettings(InternalSettings):
    """Which backend drafts plans, and how long and how often it may try."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_PLANNER_")

    proof_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Signs proved plans; the executor has the same one. Unset: plans are not signed.",
    )
    default_backend: str = Field(
        default="compact",
        description="What plans where a request names no backend and no language model does.",
    )
    cascade: Cascade = Field(
        default="model_first",
        description="Who is asked first where a language model is configured (`NESTOR_PLANNER_SERVED_URL`): it, with "
        "the default backend where it fails; or the default backend, with the model where that one is not sure.",
    )
    backend_timeout_s: float = Field(
        default=20.0, gt=0, le=3_600, description="How long a backend may take for one plan; then the answer is 504."
    )
    escalate_to: str | None = Field(
        default=None,
        description="A further backend of the cascade, asked after the default one has no plan or is not sure of it; "
        "unset: none.",
    )
    escalate_below: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Confidence from which on a plan stands that no language model made.",
    )
    abstain_below: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="A plan less likely right than this is not answered with; then `no_plan`, and the reason names it.",
    )
    abstain_changes_below: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="The same of a plan that may change something, where this is the higher one.",
    )
    unsure_below: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="A plan less likely right than this is answered with, and said to be unsure: in `unsure` and in "
        "the answer's first line. So is one whose calls do not tell what is asked for. 0: none is.",
    )
    max_alternatives: int = Field(
        default=4,
        ge=0,
        le=50,
        description="Further drafts of a backend that are tried where its best does not compile.",
    )
    model: str = Field(
        default=PLANNER_MODEL,
        description="The compact planner: the one that ships, or a directory that `nestor train planner` wrote.",
    )
    compute_workers: int = Field(default=2, ge=1, le=64, description="Drafts and proofs computed at the same time.")
    compute_waiting: int = Field(
        default=64,
        ge=0,
        le=10_000,
        description="Computations that may wait for a worker; one more is refused with 503.",
    )
    draft_cpu_s: float = Field(
        default=3.0,
        gt=0,
        le=3_600,
        description="Processor seconds that one computation of a draft may take, as far as it can be stopped; then the "
        "answer is 504. What takes so long is a request that names an argument hundreds of times.",
    )
    max_plans: int = Field(
        default=32, ge=1, le=10_000, description="Requests planned at once; more wait, and tenants take turns."
    )
    max_plans_per_tenant: int = Field(default=16, ge=1, le=10_000, description="The same for one tenant.")
    max_plans_waiting: int = Field(
        default=200, ge=0, le=100_000, description="Requests that may wait to be planned; one more is refused with 503."
    )
    served: ServedSettings = Field(
        default_factory=ServedSettings, description="The language model; see `NESTOR_PLANNER_SERVED_*`."
    )
    max_body_bytes: int = Field(
        default=32 * 1_048_576, ge=1_024, description="Largest body accepted: room for the schemas of many candidates."
    )
    max_json_values: int = Field(
        default=5_000_000, ge=1, description="Most values accepted in a JSON body, lists and objects counted too."
    )
