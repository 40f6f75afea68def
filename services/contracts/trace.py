"""Traces of planning with a language model: prompts and outputs. Texts are truncated and contain no secrets."""

from typing import Final, Literal

from pydantic import Field

from services.contracts.base import ApiId, Contract

MAX_PROMPT_CHARS: Final = 40_000
"""Characters of all messages of a trace together."""
MAX_OUTPUT_CHARS: Final = 8_000
"""Characters of one answer, and of the reasoning beside it."""


class PromptMessage(Contract):
    """A message of the prompt, as sent to the model's server. Long ones are truncated."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelAttempt(Contract):
    """One completion: the first answer, or the one after the compiler's findings were shown."""

    output: str = Field(default="", description="The model's answer; truncated if long.")
    reasoning: str = Field(default="", description="The model's reasoning. It is kept separate and never executed.")
    readable: bool = Field(
        default=False, description="Whether it could be parsed: as calls, as an empty list, or as missing operations."
    )
    problem: str = Field(default="", description="Why it led to no plan; empty if it was used.")
    constraint: str = Field(default="none", description="How the form of its output was enforced.")
    prompt_tokens: int | None = Field(default=None, ge=0, description="As counted by the server, if it did.")
    completion_tokens: int | None = Field(default=None, ge=0)
    ms: float = Field(default=0.0, ge=0)


class PlannerTrace(Contract):
    """One request to a language model for a plan."""

    model: str = Field(description="The model's name on the server.")
    prompt_version: str
    prompt: tuple[PromptMessage, ...] = ()
    attempts: tuple[ModelAttempt, ...] = ()


class PlannerAsked(Contract):
    """A planner of the cascade that was asked, and the outcome."""

    backend: str
    outcome: str = Field(
        description="`planned`, `needs_input`, `no_plan`, `needs` (it asked for operations), `denied`, `unproved`, or "
        "a failure: `down`, `hung`, `late`, `busy`, `garbage`, `refused`, `denied_access`."
    )
    stood: bool = Field(description="Whether its result was the answer.")
    confidence: float = Field(default=0.0, ge=0, le=1, description="Its own.")
    judged: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Probability that its result is right, as estimated by its judge, if it has one.",
    )
    detail: str = Field(default="", description="Why its result was not used, in a sentence.")
    ms: float = Field(default=0.0, ge=0)


class LookUp(Contract):
    """Operations that the planner was missing, and the APIs found for them."""

    asked: tuple[str, ...] = Field(description="The missing operations, in the planner's words.")
    added: tuple[ApiId, ...] = Field(default=(), description="APIs that were then added to the planner's candidates.")
