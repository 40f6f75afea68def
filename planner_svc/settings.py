"""Settings of the planner; environment variables start with ``NESTOR_PLANNER_``."""

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
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
        description="Base URL of the server, e.g. `http://localhost:8080/v1`. Unset: no language model is used. `/v1` "
        "is added to a URL without a path.",
    )
    model: str = Field(default="default", min_length=1, max_length=200, description="The model's name on that server.")
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token, only to that server.")
    timeout_s: float = Field(
        default=20.0,
        gt=0,
        le=3_600,
        description="How long the model may take for a plan, in seconds, including the repair turn.",
    )
    first_token_s: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="How long to wait for the first token, in seconds. After that the server counts as hung.",
    )
    between_tokens_s: float = Field(
        default=3.0,
        gt=0,
        le=600,
        description="How long to wait between two tokens, in seconds. Only tokens count, not other bytes.",
    )
    rest_s: float = Field(
        default=10.0,
        ge=0,
        le=3_600,
        description="How long no requests are sent to a server that failed, in seconds. After that it is probed for "
        "one token in the background. When the token arrives, it is used for plans again.",
    )
    at_once: int = Field(
        default=32,
        ge=1,
        le=1_000,
        description="Requests sent to the server at once, half of them of one tenant. Further ones wait, and tenants "
        "take turns. Twice what the server computes at once suffices: with more, one tenant's requests wait at the "
        "server before others' ones.",
    )
    max_tokens: int = Field(default=1_024, ge=16, le=65_536, description="Longest answer, in tokens.")
    prompt_tokens: int = Field(
        default=6_000,
        ge=200,
        le=1_000_000,
        description="Longest prompt, in estimated tokens. APIs are shown in less detail before any is left out. The "
        "least relevant APIs and demonstrations are left out first.",
    )
    candidates: int = Field(default=40, ge=1, le=200, description="Most APIs in a prompt.")
    demos: int = Field(default=3, ge=0, le=20, description="Most demonstrations in a prompt.")
    detail: Literal["full", "brief"] = Field(
        default="full",
        description="How much the prompt says about each API. `brief` is one short line, as small models are trained "
        "with.",
    )
    constraint: ConstraintKind = Field(
        default="auto",
        description="How the form of answers is enforced: OpenAI's `json_schema`, vLLM's `structured_outputs`, "
        "llama.cpp's `gbnf`, `json_object` or `none`. `auto`: `json_schema`, or what the server accepts if it refuses "
        "that.",
    )
    temperature: float = Field(
        default=0.0, ge=0, le=2, description="Sampling temperature. 0: the most likely answer, the same each time."
    )
    logprobs: bool = Field(
        default=False,
        description="Whether to request the tokens' log-probabilities. The probability of the least likely token is "
        "the plan's confidence.",
    )
    judge: Path | None = Field(
        default=None,
        description="Folder with the `judge.npz` of this model's answers, which `nestor train judge` wrote. It says "
        "how likely an answer is right. Unset or empty: the model's own confidence is used.",
    )
    repairs: int = Field(
        default=1, ge=0, le=3, description="How often the model is shown why its plan cannot be proved, to repair it."
    )
    sentences: bool | None = Field(
        default=None,
        description="Whether the model also writes answers as sentences, if the request does not set it "
        "(docs/answers.md). Unset: only with `detail=full`.",
    )

    @field_validator("judge", mode="before")
    @classmethod
    def _unset_if_empty(cls, value: object) -> object:
        return None if value == "" else value  # an empty path would be the working directory

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.url is None:
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("NESTOR_PLANNER_SERVED_URL must be an http or https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "NESTOR_PLANNER_SERVED_URL must not contain credentials; use NESTOR_PLANNER_SERVED_API_KEY"
            )
        return self


class PlannerSettings(InternalSettings):
    """Which backend drafts plans, and how long and how often it may try."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_PLANNER_")

    proof_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Key that signs proved plans. The executor needs the same one. Unset: plans are not signed.",
    )
    default_backend: str = Field(
        default="compact",
        description="The backend that plans if the request names none and no language model plans.",
    )
    cascade: Cascade = Field(
        default="model_first",
        description="Which planner is asked first if a language model is configured (`NESTOR_PLANNER_SERVED_URL`). "
        "`model_first`: the model, then the default backend if the model fails or its answer is judged unlikely. "
        "`compact_first`: the default backend, then the model if the backend is not sure.",
    )
    backend_timeout_s: float = Field(
        default=20.0,
        gt=0,
        le=3_600,
        description="How long a backend may take for one plan, in seconds. After that the answer is 504.",
    )
    escalate_to: str | None = Field(
        default=None,
        description="A further backend of the cascade. It is asked if the default one has no plan or is not sure of "
        "it. Unset: none.",
    )
    escalate_below: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Lowest confidence at which a plan is accepted without asking a further planner. It applies to a "
        "language model's answers only if they are judged (`NESTOR_PLANNER_SERVED_JUDGE`).",
    )
    abstain_below: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Lowest probability of being right with which a plan is returned. Below it the answer is "
        "`no_plan`, and the reason describes the plan.",
    )
    abstain_changes_below: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="The same for a plan that may change something, if this value is higher.",
    )
    unsure_below: float = Field(
        default=0.64,
        ge=0,
        le=1,
        description="A plan that is right with a lower probability than this is returned and marked as unsure, in "
        "`unsure` and in the answer's first line. So is a plan whose calls do not give what is asked for. 0: no plan "
        "is marked.",
    )
    model: str = Field(
        default=PLANNER_MODEL,
        description="The compact planner: the shipped one, or a directory that `nestor train planner` wrote.",
    )
    compute_workers: int = Field(default=2, ge=1, le=64, description="Drafts and proofs computed at the same time.")
    compute_waiting: int = Field(
        default=128,
        ge=0,
        le=10_000,
        description="Computations that may wait for a worker, half of them of one tenant. Further ones are a 503.",
    )
    draft_cpu_s: float = Field(
        default=3.0,
        gt=0,
        le=3_600,
        description="Processor seconds that one computation of a draft may take, if it can be stopped. After that the "
        "answer is 504. Only a request that names an argument hundreds of times takes this long.",
    )
    max_plans: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="Requests planned at the same time. Further requests wait, and tenants take turns.",
    )
    max_plans_per_tenant: int = Field(
        default=16, ge=1, le=10_000, description="Requests of one tenant planned at the same time."
    )
    max_plans_waiting: int = Field(
        default=200,
        ge=0,
        le=100_000,
        description="Requests that may wait to be planned. Further requests are refused with 503.",
    )
    served: ServedSettings = Field(
        default_factory=ServedSettings, description="The language model; see `NESTOR_PLANNER_SERVED_*`."
    )
    max_body_bytes: int = Field(
        default=32 * 1_048_576,
        ge=1_024,
        description="Largest request body accepted, in bytes. It must hold the schemas of many candidates.",
    )
    max_json_values: int = Field(
        default=5_000_000, ge=1, description="Most values accepted in a JSON body, including lists and objects."
    )
