"""``nestor tenants``: exports or deletes everything stored for a tenant."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer
from pydantic import JsonValue

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
    """Write everything stored for a tenant, one JSON object per line; the last one is `end`.

    A file is replaced once everything has arrived, and only its owner can read it.
    """

    async def written(gateway: GatewayClient) -> JsonValue:
        with _replacing(out) if out else nullcontext(sys.stdout) as file:
            async with aclosing(gateway.export_tenant(name)) as lines:
                async for line in lines:
                    file.write(line.model_dump_json(ensure_ascii=True) + "\n")
                    if line.kind == "end":
                        return line.data
            raise _Incomplete

    try:
        counts = ask(written)
    except BrokenPipeError:
        raise  # the reader of standard output has enough
    except OSError as error:
        raise typer.BadParameter(
            visible(f"{out or 'standard output'} cannot be written: {error.strerror or error}")
        ) from None
    except _Incomplete:
        typer.echo("The export ended before it was complete.", err=True)
        raise typer.Exit(EXIT_PROBLEM) from None
    found = ", ".join(f"{kind} {count}" for kind, count in counts.items()) if isinstance(counts, dict) else ""
    typer.echo(visible(f"exported: {found}" if found else f"Nothing is stored for a tenant {name}."), err=True)


class _Incomplete(Exception):
    """The stream of an export ended before its last line."""


@contextmanager
def _replacing(file: Path) -> Iterator[TextIO]:
    """A draft that takes the place of ``file`` unless the block raises. A pipe or device is written directly."""
    if file.exists() and not file.is_file():
        with file.open("w", encoding="utf-8") as device:
            yield device
        return
    target = file.resolve()
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # its mode is 600
    try:
        with open(descriptor, "w", encoding="utf-8") as text:
            yield text
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


@tenants.command("delete")
def delete_tenant(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False
) -> None:
    """Delete keys, runs, demonstrations and imported APIs of a tenant. If interrupted, run it again to continue."""
    if not yes:
        typer.confirm(visible(f"Delete all data of the tenant {name}? This cannot be undone"), abort=True, err=True)
    while True:
        report = ask(lambda g: g.delete_tenant(name))
        counts = ("keys", "runs", "demos", "providers")
        typer.echo("deleted: " + ", ".join(f"{getattr(report, kind)} {kind}" for kind in counts))
        if report.done:
            return
        if report.ending:
            typer.echo(f"waiting for {report.ending} runs or imports to end")
            time.sleep(_PAUSE_S)
