"""``nestor``: the command line. Every command but ``serve``, ``demo`` and ``eval`` talks to a running gateway."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx2
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from deploy.drawing import RunDrawing, draw_run
from services.clients import GatewayClient, open_http
from services.contracts.api import ApiSearchPage, ImportProgress, ImportReport, ImportRequest
from services.contracts.context import Context
from services.contracts.demo import Demo, ImportDemosRequest
from services.contracts.planning import Decision
from services.contracts.run import Run, RunFinished, RunStatus, SolveOptions, SolveRequest
from services.errors import ServiceError, ServiceUnavailable

T = TypeVar("T")
MAX_DOCUMENT_BYTES = 25_000_000
EXIT_PROBLEM, EXIT_UNREACHABLE = 1, 3

app = typer.Typer(
    name="nestor",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Turns a sentence into a checked, parallel graph of real API calls, runs it, and answers.\n\n"
    "Start with `nestor demo`, or `nestor serve --sandbox` in one terminal and `nestor solve '...'` in another.",
)
apis = typer.Typer(no_args_is_help=True, help="The API catalogue: import, search, show, remove.")
demos = typer.Typer(no_args_is_help=True, help="The knowledge base of solved requests that planners learn from.")
runs = typer.Typer(no_args_is_help=True, help="What was asked and what became of it.")
app.add_typer(apis, name="apis")
app.add_typer(demos, name="demos")
app.add_typer(runs, name="runs")
measures = typer.Typer(no_args_is_help=True, help="Measure Nestor against benchmark data in a folder.")
app.add_typer(measures, name="eval")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="How many to show.")]


@app.command()
def serve(
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Beyond loopback, set NESTOR_GATEWAY_TOKEN.")
    ] = "127.0.0.1",
    data: Annotated[Path, typer.Option(help="Folder of the SQLite files.")] = Path("var"),
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Also serve the sandbox and import its APIs.")] = False,
    sandbox_port: Annotated[int, typer.Option(help="Port of the sandbox.")] = 8090,
) -> None:
    """Run all of Nestor in one process, on SQLite."""
    from deploy.onebox import serve_onebox  # the services are imported by those who serve only

    serve_onebox(host=host, port=port, data_dir=data, sandbox_port=sandbox_port if sandbox else None)


@app.command()
def demo() -> None:
    """Start everything with the sandbox, solve some sentences, show how, and stop."""
    from deploy.showcase import show

    raise typer.Exit(show(Console()))


@app.command()
def solve(
    query: Annotated[str, typer.Argument(help="The request in words; `-` reads it from standard input.")],
    json: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and prove, send nothing.")] = False,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="Candidate APIs to retrieve.")] = 20,
    backend: Annotated[str | None, typer.Option(help="Planner backend.")] = None,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for the whole request.")] = 30.0,
    mutations: Annotated[Decision, typer.Option(help="What to do with calls that may change state.")] = Decision.ASK,
    timezone: Annotated[str | None, typer.Option(help="Time zone that 'today' refers to, e.g. Europe/Lisbon.")] = None,
    locale: Annotated[str | None, typer.Option(help="Locale of the request, e.g. pt-PT.")] = None,
    value: Annotated[list[str] | None, typer.Option(help="NAME=VALUE the app already knows; may be repeated.")] = None,
) -> None:
    """Solve a request in words.

    On a terminal the plan is drawn and each call's outcome appears as it comes. Exits 0 where the request was solved
    (or, with `--dry-run`, planned), 1 where it was not, 3 where no gateway answers.

    Example: `nestor solve "Which public holidays does Portugal have in June 2027?"`
    """
    request = _request(query, dry_run, top_k, backend, deadline, mutations, timezone, locale, value or [])
    run = _run(_solve(request, quiet=json))
    if json:
        typer.echo(run.model_dump_json(indent=2))
    elif _wants_approval(run) and run.plan is not None:
        run = _run(_approve(run.id, run.plan.id))
        draw_run(Console(), run)
    raise typer.Exit(0 if run.status in {RunStatus.SUCCEEDED, RunStatus.PLANNED} else EXIT_PROBLEM)


def _wants_approval(run: Run) -> bool:
    if run.status is not RunStatus.NEEDS_APPROVAL or not sys.stdin.isatty():
        return False
    return typer.confirm("Approve this plan and run it?")


def _request(
    query: str,
    dry_run: bool,
    top_k: int,
    backend: str | None,
    deadline: float,
    mutations: Decision,
    timezone: str | None,
    locale: str | None,
    values: list[str],
) -> SolveRequest:
    pairs = [pair.partition("=") for pair in values]
    if any(not separator for _, separator, _ in pairs):
        raise typer.BadParameter("use NAME=VALUE", param_hint="--value")
    try:
        return SolveRequest(
            query=sys.stdin.read() if query == "-" else query,
            options=SolveOptions(
                top_k=top_k, dry_run=dry_run, backend=backend, deadline_ms=int(deadline * 1000), mutations=mutations
            ),
            context=Context(timezone=timezone, locale=locale, values={name: text for name, _, text in pairs}),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(first["msg"], param_hint=str(first["loc"][-1])) from None


async def _solve(request: SolveRequest, *, quiet: bool) -> Run:
    drawing = RunDrawing(Console())
    async with _gateway() as gateway:
        if quiet:
            return await gateway.solve(request)
        async for event in gateway.solve_events(request):
            drawing.show(event)
            if isinstance(event, RunFinished):
                return event.run
    raise ServiceUnavailable("The gateway ended its answer early.", service="gateway")


async def _approve(run_id: str, plan_id: str) -> Run:
    async with _gateway() as gateway:
        return await gateway.approve(run_id, plan_id)


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
    report = _run(import_document(request, Console(stderr=True)))
    console = Console()
    console.print(
        f"{report.provider}: {report.added} added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{report.removed} removed, {len(report.skipped)} skipped"
    )
    for skipped in report.skipped:
        console.print(f"  skipped {skipped.operation}: {skipped.reason}", markup=False)
    for warning in report.warnings:
        console.print(f"  warning: {warning}", markup=False)


async def import_document(request: ImportRequest, console: Console) -> ImportReport:
    """Import through the gateway, with a progress bar."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    async with _gateway() as gateway:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("importing", total=None)
            async for event in gateway.import_apis(request):
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
    page: ApiSearchPage = _run(_with(lambda g: g.search_apis(query, provider=provider, limit=limit)))
    if json:
        typer.echo(page.model_dump_json(indent=2))
        return
    table = Table("score", "API", "method", "path", "summary", box=None)
    for hit in page.hits:
        score = f"{hit.score:.2f}" if hit.score is not None else ""
        table.add_row(score, hit.id, hit.method, hit.path, hit.summary)
    Console().print(table)
    typer.echo(f"{len(page.hits)} of {page.total} (catalogue version {page.catalogue_version})")


@apis.command("show")
def show_api(api_id: str) -> None:
    """Print one API with its schemas, as JSON."""
    typer.echo(_run(_with(lambda g: g.api(api_id))).model_dump_json(indent=2))


@apis.command("remove")
def remove_provider(provider: Annotated[str, typer.Argument(help="The provider's name.")]) -> None:
    """Remove a provider with all its APIs."""
    _run(_with(lambda g: g.delete_provider(provider)))
    typer.echo(f"{provider} removed")


@demos.command("list")
def list_demos(
    api: Annotated[str | None, typer.Option(help="Only demos that use this API.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List demonstrations."""
    page = _run(_with(lambda g: g.demos(api=api, limit=limit)))
    if json:
        typer.echo(page.model_dump_json(indent=2))
        return
    table = Table("id", "level", "request", "APIs", box=None)
    for item in page.demos:
        table.add_row(item.id[:12], item.level, item.query, ", ".join(item.apis))
    Console().print(table)
    typer.echo(f"{len(page.demos)} of {page.total}")


@demos.command("import")
def import_demos(
    file: Annotated[Path, typer.Argument(help="JSON lines, a demo each.", exists=True, dir_okay=False)],
) -> None:
    """Import demonstrations from a file."""
    report = _run(_with(lambda g: g.import_demos(read_demos(file))))
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
    _run(_with(lambda g: g.delete_demo(demo_id)))
    typer.echo(f"{demo_id} removed")


@runs.command("list")
def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help="Only runs in this state.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    page = _run(_with(lambda g: g.runs(limit=limit, status=status.value if status else None)))
    if json:
        typer.echo(page.model_dump_json(indent=2))
        return
    table = Table("id", "status", "when", "ms", "request", box=None)
    for run in page.runs:
        when = run.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(run.id, run.status.value, when, f"{run.total_ms:.0f}", run.query[:80])
    Console().print(table)


@runs.command("show")
def show_run(run_id: str, json: Json = False) -> None:
    """Show one run: its plan, what each call did, and the answer."""
    run = _run(_with(lambda g: g.run(run_id)))
    if json:
        typer.echo(run.model_dump_json(indent=2))
        return
    console = Console()
    console.print(run.query, markup=False)
    draw_run(console, run)


@runs.command("approve")
def approve_run(run_id: str, json: Json = False) -> None:
    """Approve the plan a run waits with, and run it."""
    run = _run(_with(lambda g: g.run(run_id)))
    if run.plan is None:
        raise typer.BadParameter(f"{run_id} has no plan")
    done = _run(_approve(run_id, run.plan.id))
    typer.echo(done.model_dump_json(indent=2)) if json else draw_run(Console(), done)


@measures.command("retrieve")
def eval_retrieve(
    data: Annotated[Path, typer.Option(help="Folder with tools.jsonl and instances.jsonl.", file_okay=False)],
    split: Annotated[str | None, typer.Option(help="Whose requests; default: `dev`, or the only one.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="A sample of so many requests, always the same.")] = None,
    k: Annotated[
        list[int] | None, typer.Option(min=1, max=100, help="Budget of candidates; repeat. [5 and 10]")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="whole-, clauses- with lexical, dense, hybrid; or e.g. `shipped:context=0.2`. Repeat. [all]"),
    ] = None,
    name_provider: Annotated[bool, typer.Option("--name-provider", help="Add 'Use VENDOR.' to each request.")] = False,
    encoder: Annotated[str | None, typer.Option(help="Another sentence encoder: a name or a directory.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Keep embeddings in this .npz file.", dir_okay=False)] = None,
    json: Json = False,
) -> None:
    """Measure how many of the needed APIs the retriever finds.

    Prints recall, all-needed-found and nDCG at each k in percent, and the latency of the shipped method's search.
    """
    from evals.commands import measure_retrieval  # the engine and the encoder are loaded by those who measure only

    raise typer.Exit(
        measure_retrieval(data, split, limit, k or [5, 10], method or [], name_provider, encoder, cache, as_json=json)
    )


@asynccontextmanager
async def _gateway() -> AsyncIterator[GatewayClient]:
    """A client of the gateway at ``NESTOR_URL``, with the token in ``NESTOR_TOKEN``."""
    client = GatewayClient(
        open_http(os.environ.get("NESTOR_URL", "http://127.0.0.1:8080")), os.environ.get("NESTOR_TOKEN")
    )
    try:
        yield client
    finally:
        await client.aclose()


async def _with(ask: Any) -> Any:
    async with _gateway() as gateway:
        return await ask(gateway)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; a problem becomes a line on standard error and an exit status."""
    try:
        return asyncio.run(work)
    except ServiceError as error:
        typer.echo(f"{error.title}: {error.detail}" if error.detail else error.title, err=True)
        if isinstance(error, ServiceUnavailable) and error.extensions.get("service") == "gateway":
            typer.echo("Start Nestor with `nestor serve --sandbox`, or set NESTOR_URL.", err=True)
            raise typer.Exit(EXIT_UNREACHABLE) from None
        raise typer.Exit(EXIT_PROBLEM) from None


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


def main() -> None:
    """Entry point of the ``nestor`` command."""
    app()


if __name__ == "__main__":
    main()
