"""A request in words, and options for solving it."""

from pydantic import Field

from services.contracts.api import Label, Method
from services.contracts.base import ApiId, Contract, Query
from services.contracts.context import Context
from services.contracts.planning import Cascade, Decision


class SolveOptions(Contract):
    """Options for solving a request."""

    top_k: int = Field(default=20, ge=1, le=100, description="Number of candidate APIs to retrieve.")
    demos: int = Field(default=3, ge=0, le=20, description="Number of demonstrations for the planner.")
    dry_run: bool = Field(default=False, description="Plan and prove, but send nothing.")
    backend: str | None = Field(
        default=None, max_length=50, description="Use only this planner; unset: the planner's cascade."
    )
    cascade: Cascade | None = Field(
        default=None,
        description="If a language model is configured: whether it plans first, or only if the planner without one is "
        "not sure. Unset: as in the planner's settings.",
    )
    lookups: int = Field(
        default=1,
        ge=0,
        le=3,
        description="How often the planner may ask for operations that it needs and was not offered.",
    )
    evidence: bool = Field(
        default=True,
        description="Whether the plan may depend on the answers of calls. If a call that reads finds nothing, the "
        "planner is asked again, as often as the gateway's settings allow. If a call finds several items, the one "
        "that matches the request is taken, not the first.",
    )
    deadline_ms: int = Field(default=30_000, ge=100, le=3_600_000, description="Deadline for the whole request.")
    providers: tuple[str, ...] = Field(default=(), max_length=100, description="Only APIs of these providers.")
    tags: tuple[Label, ...] = Field(default=(), max_length=20, description="Only APIs with one of these tags.")
    methods: tuple[Method, ...] = Field(
        default=(), max_length=10, description="Only APIs with one of these HTTP methods."
    )
    deprecated: bool = Field(default=True, description="False: exclude deprecated APIs.")
    pinned: tuple[ApiId, ...] = Field(
        default=(),
        max_length=100,
        description="Ids of APIs that the planner always gets, first and within `top_k`, regardless of the filters. "
        "Unknown ids are ignored.",
    )
    mutations: Decision = Field(
        default=Decision.ASK,
        description="What to do with calls that may change state. `allow`: not if the plan is marked as `unsure`.",
    )
    sentence: bool | None = Field(
        default=None,
        description="Whether a language model, if there is one, writes the answer as a sentence. Unset: as in the "
        "planner's settings.",
    )


class SolveRequest(Contract):
    """A request in words."""

    query: Query
    options: SolveOptions = SolveOptions()
    context: Context = Context()
    wait: bool = Field(default=True, description="False: answer 202 immediately; follow the run under its id.")
