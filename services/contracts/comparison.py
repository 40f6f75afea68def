"""Comparison of two runs: the first difference."""

from typing import Literal

from pydantic import Field, JsonValue

from services.contracts.base import Contract, JsonPath


class Divergence(Contract):
    """Where two runs differ: in a step of the plan, its request, its response, or the response's value."""

    step: str
    what: Literal["plan", "request", "response", "value"]
    path: JsonPath = Field(
        default=(),
        description="Path of the difference within the step, its list of requests, its outcome or its value.",
    )
    run: JsonValue = Field(default=None, description="The value in this run; null if there is none.")
    other: JsonValue = Field(default=None, description="The value in the other run.")


class Comparison(Contract):
    """Two runs, and the first step in which they differ, if any does."""

    run: str
    other: str
    divergence: Divergence | None = None
