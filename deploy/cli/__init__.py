"""``nestor``: the command line. Most commands call a running gateway.

``serve``, ``demo``, ``twin``, ``eval`` and ``train`` do not.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deploy.cli.access import keys, read_audit
from deploy.cli.bodies import eval_bodies
from deploy.cli.catalogue import apis, demos
from deploy.cli.credentials import secrets
from deploy.cli.gateway import Json
from deploy.cli.importing import import_apis
from deploy.cli.llm import exit_on_llm_error, llm
from deploy.cli.login import login
from deploy.cli.operating import operations
from deploy.cli.planning import eval_plan
from deploy.cli.runs import runs
from deploy.cli.solving import solve
from deploy.cli.tenants import tenants
from deploy.cli.training import trains
from deploy.cli.twin import twin
from deploy.drawing import visible
from deploy.settings_errors import BadSettings, settings_problem
from services.errors import UnusableSettings
from services.telemetry import configure_logging

app = typer.Typer(
    name="nestor",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Turns a sentence into a checked, parallel graph of real API calls, runs it, and answers.\n\n"
    "Start with `nestor demo`, or `nestor serve --sandbox` in one terminal and `nestor solve '...'` in another.\n\n"
    "Commands ask the gateway at `NESTOR_URL` (http://127.0.0.1:8080) with the token or key in `NESTOR_TOKEN`.",
)
measures = typer.Typer(no_args_is_help=True, help="Measure Nestor on a folder of benchmark data.")


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the gateway; 0: a free one.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other than loopback needs NESTOR_GATEWAY_TOKEN.")
    ] = "127.0.0.1",
    data: Annotated[Path, typer.Option(help="Folder of the SQLite files.")] = Path("var"),
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Also serve the sandbox and import its APIs.")] = False,
    sandbox_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the sandbox; 0: a free one.")] = 8090,
    with_llm: Annotated[
        bool,
        typer.Option(
            "--llm",
            help="Plan with the language model, served on this machine's CPU (`make llm`): the one that is promoted in "
            "NESTOR_LLM_REGISTRY, in var/models (`nestor train gate`), or else the one that ships.",
        ),
    ] = False,
) -> None:
    """Run all of Nestor in one process, on SQLite."""
    from deploy.onebox import serve_onebox  # imports all services, so only when serving
    from deploy.sockets import NotStarted, UnprotectedService

    try:
        with exit_on_llm_error(needs_llm=with_llm):
            found = sandbox_port if sandbox else None
            serve_onebox(host=host, port=port, data_dir=data, sandbox_port=found, llm=with_llm)
    except BadSettings as error:
        typer.echo(visible(f"Not started: {settings_problem(error)} (docs/settings.md)"), err=True)
        raise typer.Exit(2) from None
    except (UnprotectedService, UnusableSettings, NotStarted, OSError) as error:
        typer.echo(visible(f"Not started: {error}"), err=True)
        raise typer.Exit(2) from None


@app.command()
def demo() -> None:
    """Start Nestor with the sandbox, solve some example requests, show plans and answers, and stop."""
    from deploy.showcase import show

    raise typer.Exit(show(Console()))


@measures.command("retrieve")
def eval_retrieve(
    data: Annotated[Path, typer.Option(help="Folder with tools.jsonl and instances.jsonl.", file_okay=False)],
    split: Annotated[str | None, typer.Option(help="Split to measure. Default: `dev`, or the only one.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Measure a fixed sample of this many requests.")] = None,
    k: Annotated[
        list[int] | None, typer.Option(min=1, max=100, help="Number of candidates; can be repeated. [5 and 10]")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Retrieval method: `whole-` or `clauses-` followed by `lexical`, `dense` or `hybrid`; or `fused`, "
            "`per-clause`, `shipped`, `offered`. Can set an option, as in `fused:context=0.2`. Can be repeated. [all]"
        ),
    ] = None,
    name_provider: Annotated[bool, typer.Option("--name-provider", help="Add 'Use VENDOR.' to each request.")] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Sentence encoder instead of the default: a name or a directory.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Cache embeddings in this .npz file.", dir_okay=False)] = None,
    json: Json = False,
) -> None:
    """Measure how many of the needed APIs the retriever finds.

    Prints recall, all-needed-found and nDCG at each k in percent, and the latency of the shipped method's search.
    """
    from evals.commands import measure_retrieval  # loads the engine and the encoder

    raise typer.Exit(
        measure_retrieval(data, split, limit, k or [5, 10], method or [], name_provider, encoder, cache, as_json=json)
    )


@measures.command("absence")
def eval_absence(
    data: Annotated[Path, typer.Option(help="Folder with tools.jsonl and instances.jsonl.", file_okay=False)],
    split: Annotated[str | None, typer.Option(help="Split to measure. Default: `dev`, or the only one.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Measure a fixed sample of this many requests.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Sentence encoder instead of the default: a name or a directory.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Cache embeddings in this .npz file.", dir_okay=False)] = None,
    json: Json = False,
) -> None:
    """Measure whether the retriever detects that no API fits a request.

    Each request is searched in the catalogue with and without the vendor it needs, or in its own list of tools if the
    data has one. Prints the AUROC of the best API's likelihood, and how many of each kind get an empty list.
    """
    from evals.commands import measure_refusals

    raise typer.Exit(measure_refusals(data, split, limit, encoder, cache, as_json=json))


measures.command("plan")(eval_plan)
measures.command("bodies")(eval_bodies)
app.command()(solve)
app.command("import")(import_apis)
app.command()(login)
app.add_typer(secrets, name="secrets")
app.command()(twin)
app.add_typer(keys, name="keys")
app.command("audit")(read_audit)
app.add_typer(tenants, name="tenants")
app.command("operations")(operations)
app.add_typer(apis, name="apis")
app.add_typer(demos, name="demos")
app.add_typer(runs, name="runs")
app.add_typer(measures, name="eval")
app.add_typer(trains, name="train")
app.add_typer(llm, name="llm")


def main() -> None:
    """Entry point of the ``nestor`` command. Logs go to standard error, results to standard output."""
    configure_logging(level="WARNING", json=False)
    app()
