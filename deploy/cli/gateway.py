"""Shared by all commands: calls the gateway, follows a run to its end, and turns problems into exit statuses."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import httpx2
import typer
from pydantic import BaseModel
from pydantic_core import to_json

from deploy.drawing import visible, visible_json
from services.clients import GatewayClient, open_http
from services.contracts.event import RunEvent
from services.contracts.run import Run, RunStatus
from services.errors import DeadlineExceeded, NotReady, Overloaded, ServiceError, ServiceUnavailable, Unauthorized

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8080"
EXIT_PROBLEM, EXIT_UNREACHABLE = 1, 3
UNDER_WAY: Final = frozenset({RunStatus.PLANNING, RunStatus.RUNNING})
SOLVED: Final = frozenset({RunStatus.SUCCEEDED, RunStatus.PLANNED})
_TRANSIENT: Final = (ServiceUnavailable, DeadlineExceeded, Overloaded, NotReady)
_PAUSES_S: Final = (0.2, 0.5, 1, 2, *[5] * 6)
"""Pauses between attempts to reconnect to a gateway; about half a minute in total, enough for a restart."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="Maximum number of results.")]


def echo_json(value: object, *, indent: int | None = 2) -> None:
    """Print a model or a plain value as JSON, with its control characters escaped."""
    if isinstance(value, BaseModel):
        text = value.model_dump_json(indent=indent)
    else:
        text = to_json(value, indent=indent).decode()
    typer.echo(visible_json(text))


def is_header_text(text: str) -> bool:
    """Whether a header can carry the text."""
    return text.isascii() and text.isprintable() and text == text.strip() != ""


@asynccontextmanager
async def gateway() -> AsyncIterator[GatewayClient]:
    """A client of the gateway at ``NESTOR_URL``, with the token in ``NESTOR_TOKEN``."""
    url, token = os.environ.get("NESTOR_URL") or DEFAULT_URL, os.environ.get("NESTOR_TOKEN") or None
    if token is not None and not is_header_text(token):
        raise typer.BadParameter("NESTOR_TOKEN is not printable ASCII")
    try:
        if httpx2.URL(url).scheme not in ("http", "https"):
            raise typer.BadParameter("NESTOR_URL is not an http or https URL")
        client = GatewayClient(open_http(url), token)
    except httpx2.InvalidURL as error:
        raise typer.BadParameter(f"NESTOR_URL is not a URL: {error}") from None
    try:
        yield client
    finally:
        await client.aclose()


def utc(moment: datetime | None) -> datetime | None:
    """A moment of local time in UTC."""
    return None if moment is None else moment.astimezone(UTC)


def ask(question: Callable[[GatewayClient], Awaitable[T]]) -> T:
    """Call the gateway once. Exits if there is a problem."""

    async def asked() -> T:
        async with gateway() as client:
            return await question(client)

    return run(asked())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. A problem becomes a line on standard error and an exit status."""
    try:
        return asyncio.run(work)
    except ServiceError as error:
        typer.echo(visible(f"{error.title}: {error.detail}" if error.detail else error.title), err=True)
        if isinstance(error, ServiceUnavailable) and error.extensions.get("service") == "gateway":
            where = os.environ.get("NESTOR_URL") or DEFAULT_URL
            typer.echo(visible(f"Asked: {where} (NESTOR_URL). `nestor serve --sandbox` starts Nestor."), err=True)
            raise typer.Exit(EXIT_UNREACHABLE) from None
        if isinstance(error, Unauthorized):
            typer.echo("Set NESTOR_TOKEN to a token or key of this gateway.", err=True)
        raise typer.Exit(EXIT_PROBLEM) from None


async def follow(client: GatewayClient, run_id: str, show: Callable[[RunEvent], None]) -> Run:
    """Follow a run until it ends or waits for a person. Reconnects if the connection breaks.

    Raises:
        ServiceError: there is no such run, or the gateway stayed unreachable.
    """
    seen, pauses = 0, iter(_PAUSES_S)
    try:
        while True:
            try:
                async with aclosing(client.events(run_id, seen)) as events:
                    async for event in events:
                        seen, pauses = event.id, iter(_PAUSES_S)
                        show(event)
                stored = await client.run(run_id)
                if stored.status not in UNDER_WAY:
                    return stored
                await asyncio.sleep(_PAUSES_S[0])
            except _TRANSIENT as error:
                if (pause := next(pauses, None)) is None:
                    raise
                typer.echo(visible(f"{error.detail} Retrying."), err=True)
                await asyncio.sleep(pause)
    except (*_TRANSIENT, asyncio.CancelledError):
        typer.echo(visible(f"The run continues; follow it with: nestor runs watch {run_id}"), err=True)
        raise


def exit_for(status: RunStatus) -> typer.Exit:
    """The exit status for a run's status."""
    return typer.Exit(0 if status in SOLVED else EXIT_PROBLEM)
