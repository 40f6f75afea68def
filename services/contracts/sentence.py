"""An answer in a sentence: words of a language model around slots, which are filled where the values are.

Nobody who writes the words sees a value, so no value can be made up and none can speak to the model.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from services.contracts.base import Contract, Query
from services.contracts.planning import CompiledPlan

MAX_SLOTS: Final = 6
"""Values in one sentence; what has more is easier read as a list."""
MAX_TEMPLATE_CHARS: Final = 300

Outcome = Literal["written", "refused", "failed", "unfit", "off"]


class SentenceRequest(Contract):
    """Word the answer of this plan. The plan holds what the request says and where the values will be, none of them."""

    query: Query
    compiled: CompiledPlan
    wanted: bool | None = Field(default=None, description="Unset: as in the planner's settings.")
    backend: str | None = Field(default=None, max_length=50, description="The planner that the request named, if any.")
    deadline_ms: int = Field(default=10_000, ge=1, le=3_600_000)


class Sentence(Contract):
    """Words and slots in turn, or why there are none.

    `refused`: the model's sentence says what nothing vouches for. `failed`: the model gave none. `unfit`: the answer
    is not of the kind that is told in a sentence. `off`: there is no model, or it is not to be asked.
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
