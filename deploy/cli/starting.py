"""``nestor runs start`` runs a given plan; ``nestor runs delete`` deletes a finished run."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from deploy.cli.gateway import Json, ask, echo_json, exit_for, follow, gateway, is_header_text, run
from deploy.cli.solving import follow_drawn
from services.codecs.text import CodecError, read_json
from services.contracts.planning import Decision
from services.contracts.run import Run
from services.contracts.start import StartOptions, StartRequest


def start_run(
    file: Annotated[Path, typer.Argument(help="The plan as JSON; `-` reads it from standard input.", metavar="FILE")],
    query: Annotated[str | None, typer.Option(help="Description of the run, shown in lists.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Prove, without sending anything.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Print the run's id and exit.")] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key with the same plan returns the same run.")
    ] = None,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for the whole request.")] = 30.0,
    mutations: Annotated[Decision, typer.Option(help="What to do with calls that may change state.")] = Decision.ASK,
    json: Json = False,
) -> None:
    """Run a given plan unchanged: it is proved, approved and executed like one from the planner.

    FILE contains a list of calls in NESTful's format, or an object with them as `calls` and perhaps a `query`; the last
    call is the answer: `[{"name": "sandbox.getOrder", "arguments": {"order_id": "ord_1"}, "label": "var1"},
    {"name": "var_result", "arguments": {"status": "$var1.status$"}}]`. Exits like `nestor solve`.
    """
    options = StartOptions(dry_run=dry_run, deadline_ms=int(deadline * 1000), mutations=mutations)
    request = _request(_content(file), query, options)
    if idempotency_key is not None and not is_header_text(idempotency_key):
        raise typer.BadParameter("must be printable ASCII", param_hint="--idempotency-key")
    if no_wait:
        accepted = ask(lambda g: g.start(request, idempotency_key=idempotency_key))
        if json:
            echo_json(accepted)
        else:
            typer.echo(accepted.id)
        return
    done = run(_start(request, idempotency_key, quiet=json))
    if json:
        echo_json(done)
    raise exit_for(done.status)


def _content(file: Path) -> JsonValue:
    try:
        return read_json(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes())
    except (OSError, CodecError) as error:
        raise typer.BadParameter(str(error), param_hint="FILE") from None


def _request(content: JsonValue, query: str | None, options: StartOptions) -> StartRequest:
    given: dict[str, object] = dict(content) if isinstance(content, dict) else {"calls": content}
    if further := sorted(given.keys() - {"calls", "query"}):
        raise typer.BadParameter(f"only `calls` and `query` are read, not {', '.join(further)}", param_hint="FILE")
    given |= {"options": options, "wait": False} | ({} if query is None else {"query": query})
    try:
        return StartRequest.model_validate_json(to_json(given))  # as JSON, where a list is no tuple
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise typer.BadParameter(f"{where}: {first['msg']}", param_hint="FILE") from None


async def _start(request: StartRequest, key: str | None, *, quiet: bool) -> Run:
    async with gateway() as client:
        accepted = await client.start(request, idempotency_key=key)
        return await follow(client, accepted.id, lambda _: None) if quiet else await follow_drawn(client, accepted.id)


def delete_run(
    run_id: Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")],
) -> None:
    """Delete a finished run, with its events, its idempotency key and the record of its calls."""
    ask(lambda g: g.delete_run(run_id))
    typer.echo(f"{run_id} is deleted")
