"""Comparison of two runs: the first difference."""

from typing import Literal

from pydantic import Field, JsonValue

from services.contracts.base import Contract, JsonPath


class Divergence(Contract):
    """Where two runs differ: in a step of the plan, its request, its response, or the response's value."""

    step: str
    what: Literal["plan", "request", "response", "value"]
    path: JsonPath = Field(
        default=(), description="Where in the step, in its list of requests, in its outcome, or in its value."
    )
    run: JsonValue = Field(default=None, description="What stands there in the run; null where nothing does.")
    other: JsonValue = Field(default=None, description="What stands there in the other.")


class Comparison(Contract):
    """Two runs, and the first step in which they differ, if any does."""

    run: str
    other: str
    divergence: Divergence | None = None
