"""An answer as a sentence: words of a language model with slots, which the gateway fills with the values.

The model that writes the words sees no value. So it cannot invent values, and values cannot inject instructions.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from services.contracts.base import Contract, Query
from services.contracts.planning import CompiledPlan

MAX_SLOTS: Final = 6
"""Maximum number of values in one sentence. More values are easier to read as a list."""
MAX_TEMPLATE_CHARS: Final = 300

Outcome = Literal["written", "refused", "failed", "unfit", "off"]


class SentenceRequest(Contract):
    """Word the answer of this plan. The plan contains the request's literals and references, but no response values."""

    query: Query
    compiled: CompiledPlan
    wanted: bool | None = Field(default=None, description="Unset: as in the planner's settings.")
    backend: str | None = Field(default=None, max_length=50, description="The planner that the request named, if any.")
    deadline_ms: int = Field(default=10_000, ge=1, le=3_600_000)


class Sentence(Contract):
    """Alternating words and slots, or the reason why there are none.

    `refused`: the model's sentence makes an unsupported claim. `failed`: the model returned no sentence. `unfit`: the
    answer does not suit a sentence. `off`: there is no model, or it must not be asked.
    """

    outcome: Outcome
    pieces: tuple[Annotated[str, Field(max_length=MAX_TEMPLATE_CHARS)] | int, ...] = Field(
        default=(),
        max_length=2 * MAX_SLOTS + 1,
        description="Literal texts, and indices of the plan's answer values, from 0.",
    )
    reason: str = Field(default="", max_length=300, description="Why there is no sentence.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.outcome == "written") != bool(self.pieces):
            raise ValueError("a sentence has pieces if, and only if, it is written")
        return self
