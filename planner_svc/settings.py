"""Settings of the planner; environment variables start with ``NESTOR_PLANNER_``."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.encoder import DEFAULT_MODEL, PLANNER_MODEL
from services.settings import ServiceSettings


class PlannerSettings(ServiceSettings):
    """Which backend drafts plans, and how long and how often it may try."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_PLANNER_")

    default_backend: str = Field(
        default="rules", description="The backend used where a request names none: `rules` or `compact`."
    )
    backend_timeout_s: float = Field(
        default=20.0, gt=0, le=3_600, description="How long a backend may take for one draft; then the answer is 504."
    )
    escalate_to: str | None = Field(
        default=None,
        description="The backend that is asked where the default one has no plan, or is not sure of it; unset: none.",
    )
    escalate_below: float = Field(
        default=0.5, ge=0, le=1, description="Confidence from which on a plan of the default backend stands."
    )
    abstain_below: float = Field(
        default=0.0, ge=0, le=1, description="A plan less likely right than this is not answered with; then `no_plan`."
    )
    max_alternatives: int = Field(
        default=4,
        ge=0,
        le=50,
        description="Further drafts of a backend that are tried where its best does not compile.",
    )
    encoder: str = Field(
        default=DEFAULT_MODEL,
        description="The sentence encoder: a shipped model, an exported directory, or a sentence-transformers name.",
    )
    model: str = Field(
        default=PLANNER_MODEL,
        description="The compact planner: the one that ships, or a directory that `nestor train planner` wrote.",
    )
    encoder_threads: int = Field(default=1, ge=1, le=64, description="Threads that share the encoding of one text.")
    compute_workers: int = Field(default=2, ge=1, le=64, description="Drafts and proofs computed at the same time.")
    compute_waiting: int = Field(
        default=64,
        ge=0,
        le=10_000,
        description="Computations that may wait for a worker; one more is refused with 503.",
    )
    max_body_bytes: int = Field(
        default=32 * 1_048_576, ge=1_024, description="Largest body accepted: room for the schemas of many candidates."
    )
