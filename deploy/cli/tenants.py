"""``nestor tenants``: exports or deletes everything stored for a tenant."""

import sys
import time
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer

from deploy.cli.gateway import EXIT_PROBLEM, ask
from deploy.drawing import visible
from services.clients import GatewayClient

tenants = typer.Typer(no_args_is_help=True, help="Export or delete all data of a tenant.")
Name = Annotated[str, typer.Argument(help="The tenant.")]
_PAUSE_S: Final = 1.0


@tenants.command("export")
def export_tenant(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(help="File to write to. Default: standard output.", dir_okay=False)
    ] = None,
) -> None:
    """Write everything stored for a tenant, one JSON object per line; the last one is `end`."""

    async def written(gateway: GatewayClient) -> bool:
        complete = False
        with out.open("w", encoding="utf-8") if out else nullcontext(sys.stdout) as file:
            async with aclosing(gateway.export_tenant(name)) as lines:
                async for line in lines:
                    file.write(line.model_dump_json(ensure_ascii=True) + "\n")
                    complete = line.kind == "end"
        return complete

    try:
        complete = ask(written)
    except OSError as error:
        raise typer.BadParameter(visible(f"{out or 'standard output'} cannot be written: {error}")) from None
    if not complete:
        typer.echo("The export ended before it was complete.", err=True)
        raise typer.Exit(EXIT_PROBLEM)


@tenants.command("delete")
def delete_tenant(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False
) -> None:
    """Delete keys, runs, demonstrations and imported APIs of a tenant. If interrupted, run it again to continue."""
    if not yes:
        typer.confirm(visible(f"Delete all data of the tenant {name}? This cannot be undone"), abort=True)
    while True:
        report = ask(lambda g: g.delete_tenant(name))
        counts = ("keys", "runs", "demos", "providers")
        typer.echo("deleted: " + ", ".join(f"{getattr(report, kind)} {kind}" for kind in counts))
        if report.done:
            return
        if report.ending:
            typer.echo(f"waiting for {report.ending} runs or imports to end")
            time.sleep(_PAUSE_S)
