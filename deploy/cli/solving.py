"""``nestor solve``: sends a request in words and follows the run to its answer."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Annotated

import typer
from pydantic import ValidationError

from deploy.cli.gateway import Json, echo_json, exit_for, follow, gateway, is_header_text, run
from deploy.drawing import screen
from deploy.explaining import draw_explanation
from deploy.following import RunDrawing
from services.clients import GatewayClient
from services.contracts.context import Context
from services.contracts.planning import Decision
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.errors import DeadlineExceeded

_GRACE_S = 10.0
"""Seconds to wait beyond the deadline for the gateway's own message, because the gateway enforces the deadline."""

IdempotencyKey = Annotated[str | None, typer.Option(help="The same key with the same request returns the same run.")]
Backend = Annotated[str | None, typer.Option(help="Use only this planner: compact, served or demonstrated.")]
Cascade = Annotated[
    str | None, typer.Option(help="Order of planners if there is a language model: model_first or compact_first.")
]
Lookups = Annotated[int, typer.Option(min=0, max=3, help="How many times the planner may look up missing operations.")]
Evidence = Annotated[bool, typer.Option(help="Plan again with the results so far if read calls find nothing.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Then show the planners used, and the language model's prompt and answers.")
]
Values = Annotated[list[str] | None, typer.Option(help="NAME=VALUE that the app already knows; can be repeated.")]
Sentence = Annotated[bool | None, typer.Option(help="Let a language model phrase the answer, if there is one.")]


def solve(
    query: Annotated[str, typer.Argument(help="The request in words; `-` reads it from standard input.")],
    json: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and prove, without sending anything.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Print the run's id and exit.")] = False,
    idempotency_key: IdempotencyKey = None,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="Candidate APIs to retrieve.")] = 20,
    provider: Annotated[list[str] | None, typer.Option(help="Only APIs of this provider; can be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only APIs with this tag; can be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only APIs with this method; can be repeated.")] = None,
    deprecated: Annotated[bool, typer.Option(help="Include deprecated APIs.")] = True,
    pin: Annotated[list[str] | None, typer.Option(help="API that is always a candidate; can be repeated.")] = None,
    backend: Backend = None,
    cascade: Cascade = None,
    lookups: Lookups = 1,
    evidence: Evidence = True,
    explain: Explain = False,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for the whole request.")] = 30.0,
    mutations: Annotated[Decision, typer.Option(help="What to do with calls that may change state.")] = Decision.ASK,
    timezone: Annotated[str | None, typer.Option(help="Time zone that 'today' refers to, e.g. Europe/Lisbon.")] = None,
    locale: Annotated[str | None, typer.Option(help="Locale of the request, e.g. pt-PT.")] = None,
    sentence: Sentence = None,
    value: Values = None,
) -> None:
    """Solve a request in words.

    On a terminal the plan is drawn, and each call's outcome as it arrives. If the connection breaks, the run continues
    and the command reconnects. Exits 0 if the request was solved (with `--dry-run` planned, with `--no-wait` accepted),
    1 if it was not, 3 if no gateway answers.

    Example: `nestor solve "Which public holidays does Portugal have in June 2027?"`
    """
    options = {
        "top_k": top_k,
        "dry_run": dry_run,
        "backend": backend,
        "cascade": cascade,
        "lookups": lookups,
        "evidence": evidence,
        "deadline_ms": int(deadline * 1000),
        "mutations": mutations,
        "providers": tuple(provider or ()),
        "tags": tuple(tag or ()),
        "methods": tuple(method or ()),
        "deprecated": deprecated,
        "pinned": tuple(pin or ()),
        "sentence": sentence,
    }
    request = _request(query, options, timezone, locale, value or [])
    if idempotency_key is not None and not is_header_text(idempotency_key):
        raise typer.BadParameter("must be printable ASCII", param_hint="--idempotency-key")
    if no_wait:
        accepted = run(_accepted(request, idempotency_key))
        if json:
            echo_json(accepted)
        else:
            typer.echo(accepted.id)
    else:
        raise exit_for(_ended(request, idempotency_key, json=json, explain=explain).status)


def _ended(request: SolveRequest, key: str | None, *, json: bool, explain: bool) -> Run:
    """Run to the end and show the run as JSON or drawn. If drawn and it needs an approval, ask the person for it."""
    solved = run(_solve(request, key, quiet=json))
    if json:
        echo_json(solved)
    elif explain:
        draw_explanation(screen(), solved)
    while not json and _wants_approval(solved):
        solved = run(approve(solved))
    return solved


def _wants_approval(waiting: Run) -> bool:
    if waiting.status is not RunStatus.NEEDS_APPROVAL or not sys.stdin.isatty():
        return False
    return typer.confirm("Approve this plan and run it?")


def _request(
    query: str, options: Mapping[str, object], timezone: str | None, locale: str | None, values: list[str]
) -> SolveRequest:
    pairs = [pair.partition("=") for pair in values]
    if any(not separator for _, separator, _ in pairs):
        raise typer.BadParameter("use NAME=VALUE", param_hint="--value")
    try:
        return SolveRequest(
            query=sys.stdin.read() if query == "-" else query,
            options=SolveOptions.model_validate(options),
            context=Context(timezone=timezone, locale=locale, values={name: text for name, _, text in pairs}),
            wait=False,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(first["msg"], param_hint=str(first["loc"][-1])) from None


async def _accepted(request: SolveRequest, key: str | None) -> Run:
    async with gateway() as client:
        return await client.solve(request, idempotency_key=key)


async def _solve(request: SolveRequest, key: str | None, *, quiet: bool) -> Run:
    within_s = request.options.deadline_ms / 1000 + _GRACE_S
    async with gateway() as client:
        accepted = await client.solve(request, idempotency_key=key)
        try:
            async with asyncio.timeout(within_s):
                return await _follow_quietly(client, accepted.id) if quiet else await follow_drawn(client, accepted.id)
        except TimeoutError:
            raise DeadlineExceeded(f"Run {accepted.id} did not end within {within_s:g} s.") from None


async def _follow_quietly(client: GatewayClient, run_id: str) -> Run:
    return await follow(client, run_id, lambda _: None)


async def follow_drawn(client: GatewayClient, run_id: str) -> Run:
    """Follow a run to its end and draw it."""
    drawing = RunDrawing(screen())
    try:
        ended = await follow(client, run_id, lambda numbered: drawing.show(numbered.event))
    finally:
        drawing.stop()
    drawing.finish(ended)
    return ended


async def approve(waiting: Run, *, on_behalf_of: str = "", wait: bool = True, quiet: bool = False) -> Run:
    """Approve exactly the plan and the requests of a run. Unless ``wait`` is false, follow it to its end."""
    assert waiting.plan is not None, "a run that waits for an approval has a plan"
    digest = waiting.digest or None
    async with gateway() as client:
        approved = await client.approve(
            waiting.id, waiting.plan.id, digest=digest, on_behalf_of=on_behalf_of, wait=False
        )
        if not wait:
            return approved
        return await _follow_quietly(client, waiting.id) if quiet else await follow_drawn(client, waiting.id)
