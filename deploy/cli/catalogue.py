"""``nestor apis`` and ``nestor demos``: what Nestor can call, and what it learns from."""

import sys
from pathlib import Path
from typing import Annotated

import httpx2
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from deploy.cli.gateway import Json, Limit, ask, gateway, run
from deploy.drawing import plain
from services.contracts.api import ImportProgress, ImportReport, ImportRequest
from services.contracts.demo import Demo, ImportDemosRequest
from services.errors import ServiceUnavailable

MAX_DOCUMENT_BYTES = 25_000_000

apis = typer.Typer(no_args_is_help=True, help="The API catalogue: import, search, show, remove.")
demos = typer.Typer(no_args_is_help=True, help="The knowledge base of solved requests that planners learn from.")


@apis.command("import")
def import_apis(
    source: Annotated[str, typer.Argument(help="A file, a URL, or `-` for standard input.")],
    provider: Annotated[str | None, typer.Option(help="Name for the provider; default: from the title.")] = None,
    server: Annotated[str | None, typer.Option(help="Base URL of the service, in place of the document's.")] = None,
) -> None:
    """Import an OpenAPI 3.x or Swagger 2.0 document.

    Importing a newer version of the same provider's document updates its APIs and removes the ones that are gone.
    A document that cannot be imported changes nothing.
    """
    document, origin = _read(source)
    try:
        request = ImportRequest(document=document, provider=provider, server=server or origin)
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"]) from None
    report = run(import_document(request, Console(stderr=True)))
    console = Console()
    console.print(
        f"{report.provider}: {report.added} added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{report.removed} removed, {len(report.skipped)} skipped"
    )
    for skipped in report.skipped:
        console.print(plain(f"  skipped {skipped.operation}: {skipped.reason}"))
    for warning in report.warnings:
        console.print(plain(f"  warning: {warning}"))


async def import_document(request: ImportRequest, console: Console) -> ImportReport:
    """Import through the gateway, with a progress bar."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    async with gateway() as client:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("importing", total=None)
            async for event in client.import_apis(request):
                if isinstance(event, ImportProgress):
                    progress.update(task, description=event.phase, completed=event.done, total=event.total)
                else:
                    return event
    raise ServiceUnavailable("The gateway ended its answer early.", service="gateway")


@apis.command("search")
def search_apis(
    query: Annotated[str | None, typer.Argument(help="Words, or an exact name or path; nothing lists all.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider's APIs.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Search the catalogue, best first."""
    page = ask(lambda g: g.search_apis(query, provider=provider, limit=limit))
    if json:
        typer.echo(page.model_dump_json(indent=2))
        return
    table = Table("score", "API", "method", "path", "summary", box=None)
    for hit in page.hits:
        score = f"{hit.score:.2f}" if hit.score is not None else ""
        table.add_row(score, hit.id, hit.method, plain(hit.path), plain(hit.summary))
    Console().print(table)
    typer.echo(f"{len(page.hits)} of {page.total} (catalogue version {page.catalogue_version})")


@apis.command("show")
def show_api(api_id: str) -> None:
    """Print one API with its schemas, as JSON."""
    typer.echo(ask(lambda g: g.api(api_id)).model_dump_json(indent=2))


@apis.command("remove")
def remove_provider(provider: Annotated[str, typer.Argument(help="The provider's name.")]) -> None:
    """Remove a provider with all its APIs."""
    ask(lambda g: g.delete_provider(provider))
    typer.echo(f"{provider} removed")


def _read(source: str) -> tuple[str, str | None]:
    """The document's text and, for a URL, its origin, which completes relative server addresses."""
    if source == "-":
        return sys.stdin.read(), None
    if not source.startswith(("http://", "https://")):
        path = Path(source)
        if not path.is_file():
            raise typer.BadParameter(f"{source} is not a file")
        return path.read_bytes().decode("utf-8", errors="strict"), None
    try:
        with httpx2.stream("GET", source, timeout=30, follow_redirects=True) as response:
            response.raise_for_status()
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise typer.BadParameter(f"{source} is larger than {MAX_DOCUMENT_BYTES} bytes")
    except httpx2.HTTPError as error:
        raise typer.BadParameter(f"{source}: {error}") from None
    return bytes(body).decode("utf-8"), None


@demos.command("list")
def list_demos(
    api: Annotated[str | None, typer.Option(help="Only demos that use this API.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List demonstrations."""
    page = ask(lambda g: g.demos(api=api, limit=limit))
    if json:
        typer.echo(page.model_dump_json(indent=2))
        return
    table = Table("id", "level", "request", "APIs", box=None)
    for item in page.demos:
        table.add_row(item.id[:12], item.level, plain(item.query), ", ".join(item.apis))
    Console().print(table)
    typer.echo(f"{len(page.demos)} of {page.total}")


@demos.command("import")
def import_demos(
    file: Annotated[Path, typer.Argument(help="JSON lines, a demo each.", exists=True, dir_okay=False)],
) -> None:
    """Import demonstrations from a file."""
    report = ask(lambda g: g.import_demos(read_demos(file)))
    typer.echo(f"{report.added} added, {report.unchanged} already there")


def read_demos(file: Path) -> ImportDemosRequest:
    """Read a file of JSON lines. Exits with the line's number where one is not a demo."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                found.append(Demo.model_validate_json(line))
            except ValidationError as error:
                raise typer.BadParameter(f"{file}, line {number}: {error.errors()[0]['msg']}") from None
    if not found:
        raise typer.BadParameter(f"{file} holds no demos")
    return ImportDemosRequest(demos=tuple(found))


@demos.command("delete")
def delete_demo(demo_id: str) -> None:
    """Remove a demonstration."""
    ask(lambda g: g.delete_demo(demo_id))
    typer.echo(f"{demo_id} removed")
