"""``nestor apis`` and ``nestor demos``: the API catalogue, and the demos that planners learn from."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from deploy.cli.constants import set_constants, unset_constants
from deploy.cli.doctor import examine
from deploy.cli.gateway import Json, Limit, ask, echo_json, gateway, run
from deploy.cli.importing import import_apis, imported_documents
from deploy.drawing import counted, plain, screen, two_digits, visible
from services.contracts.api import ImportedDocument
from services.contracts.demo import Demo, ImportDemosRequest
from services.contracts.retrieval import FoundBy

apis = typer.Typer(no_args_is_help=True, help="Import, search, show and remove APIs of the catalogue.")
Shared = Annotated[bool, typer.Option("--shared", help="For all tenants; only for the operator's administrators.")]
demos = typer.Typer(no_args_is_help=True, help="Manage the demonstrations: solved requests that planners learn from.")


apis.command("import")(import_apis)
apis.command("doctor")(examine)
apis.command("set")(set_constants)
apis.command("unset")(unset_constants)


@apis.command("search")
def search_apis(
    query: Annotated[
        str | None, typer.Argument(help="Words, or an exact name or path. Default: list all APIs.")
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider's APIs.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only APIs with this tag; can be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this HTTP method; can be repeated.")] = None,
    deprecated: Annotated[bool, typer.Option(help="Include deprecated APIs.")] = True,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Search the catalogue; the best match comes first.

    `likely` is the probability that an API is needed, by which the hits are ordered; `score` how well it matches; `by`
    what found it (docs/retrieval.md).
    """
    page = ask(
        lambda g: g.search_apis(
            query, provider=provider, tags=tag or (), methods=method or (), deprecated=deprecated, limit=limit
        )
    )
    if json:
        echo_json(page)
        return
    table = Table("likely", "score", "by", "API", "method", "path", "summary", box=None)
    for hit in page.hits:
        scores = two_digits(hit.relevance), two_digits(hit.score)
        summary = f"(deprecated) {hit.summary}" if hit.deprecated else hit.summary
        table.add_row(*scores, found_by_label(hit.found_by), hit.id, hit.method, plain(hit.path), plain(summary))
    screen().print(table)
    typer.echo(f"{len(page.hits)} of {page.total} (catalogue version {page.catalogue_version})")


def found_by_label(found_by: FoundBy | None) -> str:
    """What found an API, in words."""
    return (found_by or "").replace("_", " ")


@apis.command("show")
def show_api(api_id: str) -> None:
    """Print one API with its schemas, as JSON."""
    echo_json(ask(lambda g: g.api(api_id)))


@apis.command("remove")
def remove_provider(
    provider: Annotated[str, typer.Argument(help="The provider's name.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove a provider with all its APIs; on a terminal, asks for confirmation."""
    if sys.stdin.isatty() and not yes:
        typer.confirm(visible(f"Remove {provider} with all its APIs?"), abort=True, err=True)
    ask(lambda g: g.delete_provider(provider))
    typer.echo(visible(f"{provider} removed"))


@apis.command("documents")
def list_documents() -> None:
    """List the imported documents with the SHA-256 of their text."""

    async def all_pages() -> list[ImportedDocument]:
        async with gateway() as client:
            return [document async for document in imported_documents(client)]

    table = Table("provider", "version", "format", "SHA-256", "imported", box=None)
    documents = run(all_pages())
    for document in documents:
        moment = f"{document.imported_at:%Y-%m-%d %H:%M}"
        table.add_row(document.provider, plain(document.version), document.format, document.document_hash[:12], moment)
    screen().print(table)
    typer.echo(counted(len(documents), "document"))


@demos.command("list")
def list_demos(
    api: Annotated[str | None, typer.Option(help="Only demos that use this API.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List demonstrations."""
    page = ask(lambda g: g.demos(api=api, limit=limit))
    if json:
        echo_json(page)
        return
    table = Table("id", "level", "request", "APIs", box=None)
    for item in page.demos:
        table.add_row(plain(item.id[:12]), item.level, plain(item.query), plain(", ".join(item.apis)))
    screen().print(table)
    typer.echo(f"{len(page.demos)} of {page.total}")


@demos.command("add")
def add_demo(
    run_id: Annotated[str, typer.Argument(help="A confirmed run.", metavar="RUN")], shared: Shared = False
) -> None:
    """Turn a confirmed run into a demonstration. Rejecting the run removes the demonstration."""
    demo = ask(lambda g: g.demonstrate(run_id, shared=shared))
    typer.echo(visible(f"{demo.id} added"))


@demos.command("import")
def import_demos(
    file: Annotated[Path, typer.Argument(help="JSON lines, one demonstration per line.", exists=True, dir_okay=False)],
    shared: Shared = False,
) -> None:
    """Import demonstrations from a file."""
    report = ask(lambda g: g.import_demos(read_demos(file), shared=shared))
    typer.echo(f"{report.added} added, {report.unchanged} already present")


def read_demos(file: Path) -> ImportDemosRequest:
    """Read a file of JSON lines. Exits with the line's number if a line is not a demo."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                found.append(Demo.model_validate_json(line))
            except ValidationError as error:
                raise typer.BadParameter(f"{file}, line {number}: {error.errors()[0]['msg']}") from None
    if not found:
        raise typer.BadParameter(f"{file} contains no demos")
    return ImportDemosRequest(demos=tuple(found))


@demos.command("delete")
def delete_demo(demo_id: str) -> None:
    """Remove a demonstration."""
    ask(lambda g: g.delete_demo(demo_id))
    typer.echo(f"{demo_id} removed")
