"""``nestor runs rerun`` runs a plan again; ``nestor runs compare`` compares two runs."""

import json as json_codec
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from deploy.cli.gateway import Json, ask, echo_json, exit_for, follow, gateway, run
from deploy.cli.solving import follow_drawn
from deploy.drawing import plain, screen
from services.codecs.text import CodecError, read_json
from services.contracts.planning import Decision
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run

_RunId = Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")]


def rerun(
    run_id: _RunId,
    from_step: Annotated[
        str | None, typer.Option("--from", help="First step to run again, e.g. `var2`. Default: all.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="New value for an argument, as JSON; can be repeated.", metavar="STEP.ARGUMENT=JSON"
        ),
    ] = None,
    no_reuse: Annotated[
        bool, typer.Option("--no-reuse", help="Repeat calls that only read. Changes before STEP are not repeated.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, without sending it.")] = False,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for the whole request.")] = 30.0,
    mutations: Annotated[Decision, typer.Option(help="What to do with calls that may change state.")] = Decision.ASK,
    json: Json = False,
) -> None:
    """Run the plan of a run again, from a given step or with other inputs. The original run does not change.

    Shows which calls are made again and which values are reused. Exits like `nestor solve`.
    """
    options = {"dry_run": dry_run, "deadline_ms": int(deadline * 1000), "mutations": mutations}
    given = {"from": from_step, "inputs": _inputs(inputs or []), "reuse": not no_reuse, "options": options}
    try:
        request = RerunRequest.model_validate(given | {"wait": False})
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
    done = run(_rerun(run_id, request, quiet=json))
    if json:
        echo_json(done)
    raise exit_for(done.status)


def _inputs(given: list[str]) -> dict[str, dict[str, Any]]:
    inputs: dict[str, dict[str, Any]] = {}
    for text in given:
        where, equals, value = text.partition("=")
        step, dot, argument = where.partition(".")
        if not (equals and dot):
            raise typer.BadParameter(f"{text!r} is not STEP.ARGUMENT=JSON", param_hint="--set")
        try:
            inputs.setdefault(step, {})[argument] = read_json(value.encode())
        except (CodecError, UnicodeError) as error:
            raise typer.BadParameter(f'{where}: {error}; strings need "quotes"', param_hint="--set") from None
    return inputs


async def _rerun(run_id: str, request: RerunRequest, *, quiet: bool) -> Run:
    async with gateway() as client:
        accepted = await client.rerun(run_id, request)
        if quiet:
            return await follow(client, accepted.id, lambda _: None)
        _draw(accepted)
        return await follow_drawn(client, accepted.id)


def _draw(accepted: Run) -> None:
    """Print the calls that are made again, and those that are reused."""
    console = screen()
    for one in accepted.resent:
        parts = [f"again   {one.step} {one.api}", "changes something" if one.mutating else "reads"]
        parts += [f"before: {one.outcome or 'not known'}"]
        parts += [f"{one.succeeded} calls had succeeded"] if one.succeeded > 1 else []
        parts += [f"edited: {', '.join(one.edited)}"] if one.edited else []
        console.print(plain(", ".join(parts)), soft_wrap=True)
    for kept in accepted.reused:
        what = "a change" if kept.mutating else "a read"
        console.print(plain(f"reused  {kept.step} {kept.api}, {what} of {kept.run}", "dim"), soft_wrap=True)


def compare_runs(
    run_id: _RunId,
    other: Annotated[str, typer.Argument(help="The run to compare it with.", metavar="OTHER")],
    json: Json = False,
) -> None:
    """Show the first difference of two runs: in the plan, a request, a response or its value. Exits 1 if so."""
    found = ask(lambda g: g.compare(run_id, other))
    parts = found.divergence
    if json:
        echo_json(found)
    elif parts is None:
        typer.echo("The runs do not differ.")
    else:
        console = screen()
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts.path)
        console.print(
            plain(f"The runs differ in step {parts.step}, in the {parts.what}{': ' if path else ''}{path[1:]}")
        )
        for name, value in ((found.run, parts.run), (found.other, parts.other)):
            console.print(plain(f"  {name}  {json_codec.dumps(value, ensure_ascii=False)}"), soft_wrap=True)
    raise typer.Exit(0 if parts is None else 1)
