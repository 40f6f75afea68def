"""Endpoints that fail on request, for tests."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from sandbox.errors import ToldToFail, TooManyRequests, Unprocessable, problems
from sandbox.fields import Answer
from sandbox.state import State

router = APIRouter()

LabToken = Annotated[
    str,
    Query(
        pattern=r"^[A-Za-z0-9_\-]{1,64}$",
        description="Name of the experiment: calls with the same token are counted together.",
        examples=["run-1"],
    ),
]
FailureStatus = Annotated[int, Query(ge=400, le=599, description="Status to fail with.", examples=[503])]


class Delayed(Answer):
    """Answer of a slow call."""

    waited_seconds: float = Field(description="How long the answer was held back.")


class Attempt(Answer):
    """Answer of a call that was counted."""

    token: str = Field(description="Name of the experiment.")
    attempt: int = Field(description="Number of this call, counted from 1.")


class DroppedResponse(Response):
    """Declares a longer body than it sends, so the server has to close the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the first part of the body only."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"attempt": ', "more_body": True})


@router.get("/lab/slow")
async def answer_slowly(
    state: State,
    seconds: Annotated[float, Query(ge=0, le=600, allow_inf_nan=False, description="Seconds to wait.")] = 1.0,
) -> Delayed:
    """Answer after a delay, at most the longest this sandbox allows."""
    longest = state.settings.max_delay_seconds
    if seconds > longest:
        raise Unprocessable(f"this sandbox waits {longest:g} seconds at most")
    await asyncio.sleep(seconds)
    return Delayed(waited_seconds=seconds)


@router.get("/lab/fail", responses={"default": problems(500)[500] | {"description": "The failure asked for."}})
async def fail_always(status: FailureStatus = 500) -> Attempt:
    """Fail with the status that is asked for, always."""
    raise ToldToFail(status, f"failed with status {status}, as told")


@router.get("/lab/flaky", responses={"default": problems(500)[500] | {"description": "The failure asked for."}})
async def fail_then_succeed(
    state: State,
    token: LabToken,
    failures: Annotated[int, Query(ge=0, le=100, description="How many calls fail before one succeeds.")] = 2,
    status: FailureStatus = 503,
) -> Attempt:
    """Fail the first calls with a token and succeed afterwards."""
    attempt, _ = state.counters.next("flaky", token)
    if attempt <= failures:
        raise ToldToFail(status, f"call {attempt} of {failures} that fail, as told")
    return Attempt(token=token, attempt=attempt)


@router.get("/lab/throttled", responses=problems(429))
async def answer_within_limit(
    state: State,
    token: LabToken,
    limit: Annotated[int, Query(ge=0, le=1000, description="Calls answered in each window.")] = 1,
    window_seconds: Annotated[int, Query(ge=1, le=3600, description="Length of a window in seconds.")] = 2,
) -> Attempt:
    """Answer a limited number of calls in a window of time, and the others with 429 and `Retry-After`."""
    now = state.clock()
    attempt, started = state.counters.next("throttled", token, start=now)
    if now >= started + window_seconds:
        state.counters.forget("throttled", token)
        attempt, started = state.counters.next("throttled", token, start=now)
    if attempt > limit:
        wait = max(1, ceil(started + window_seconds - now))
        raise TooManyRequests(
            f"{limit} calls in {window_seconds} seconds are allowed", headers={"Retry-After": str(wait)}
        )
    return Attempt(token=token, attempt=attempt)


@router.get("/lab/drop", response_model=Attempt)
async def drop_connection() -> Response:
    """Begin an answer and drop the connection in the middle of it."""
    return DroppedResponse()
