"""Feedback on a run's outcome."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from services.contracts.base import Contract


class Verdict(StrEnum):
    """Feedback on a run's outcome: it is what was wanted, or it is not."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"


class Judged(StrEnum):
    """Which runs to list: those with this verdict, or with none."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    NONE = "none"


class FeedbackRequest(Contract):
    """Confirm or reject a run's outcome. New feedback on the same run replaces the previous one."""

    verdict: Verdict
    reason: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(
        default="", max_length=1_000, description="The reason; kept with the run."
    )


class Feedback(Contract):
    """Feedback on a run's outcome: the verdict, who gave it, and when."""

    verdict: Verdict
    reason: str = ""
    principal: str = Field(description="The principal whose token was sent; `anonymous` if no principal is configured.")
    at: AwareDatetime
