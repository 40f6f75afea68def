"""``nestor train record`` and ``data``: write folders to train on."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deploy.cli.recording import record
from deploy.cli.training.needs import require


def record_own(
    out: Annotated[Path, typer.Option(help="Folder to write tools.jsonl and instances.jsonl to.", file_okay=False)],
) -> None:
    """Write the running Nestor's catalogue, its confirmed runs and its demonstrations as a folder to train on.

    The plan of a confirmed run counts as right: `nestor runs confirm RUN` confirms one.
    """
    require(())
    apis, requests = record(out, Console(stderr=True))
    typer.echo(f"{apis} APIs and {requests} solved requests in {out}")


def write_data(
    out: Annotated[Path, typer.Option(help="Folder to write the data set to.", file_okay=False)],
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="Folder with tools.jsonl and instances.jsonl; can be repeated.", file_okay=False),
    ] = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="Also use the output of `nestor train record`, written to OUT/recorded.")
    ] = False,
    made: Annotated[
        int | None,
        typer.Option(min=0, help="Number of requests to generate per catalogue that the recipe does not name. [300]"),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="JSON of settings that differ from the defaults, or `general`: docs/finetuning.md."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Parent of the folders that the recipe names.", file_okay=False)
    ] = None,
    hold_out_apis: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Share of APIs to hold out for evaluation.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed: another one makes other conversations from the same data."),
    ] = None,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="Evaluation folder: do not train on anything near its requests; can be repeated.", file_okay=False
        ),
    ] = None,
) -> None:
    """Build the conversations that a language model is finetuned on, and print what they contain.

    A fifth of the requests is held out, in OUT/held-out, for `nestor eval plan`. It is an error if a held-out request,
    or one nearly equal to it, is in the training set.
    """
    require(())
    from training.llm.data_command import build_data  # the services' images have no synthesis and no evals

    folders = list(folder or [])
    if runs:
        record(out / "recorded", Console(stderr=True))
        folders.append(out / "recorded")
    raise typer.Exit(build_data(folders, recipe, root, made, hold_out_apis, exclude or [], out, seed))
