"""The format of all error responses (RFC 9457)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """``application/problem+json``. Further members depend on ``type``; docs/problems.md lists them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str = Field(description="Identifies the kind of problem.", examples=["urn:nestor:problem:not-found"])
    title: str
    status: int = Field(ge=400, le=599)
    detail: str = ""
    instance: str | None = Field(default=None, description="The request's id in the logs.")
    errors: list[dict[str, Any]] | None = Field(
        default=None, description="For validation problems: each invalid field and the reason."
    )


class ProblemEvent(BaseModel):
    """The last event of a stream that was refused after it had begun."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["problem"] = "problem"
    problem: Problem
