"""``nestor train retriever`` and ``relevance``: train the models that find APIs."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.training.needs import TO_TRAIN, require, work_folder
from retriever_svc.settings import RetrieverSettings


def train_retriever(
    data: Annotated[
        list[Path], typer.Option(help="Folder with tools.jsonl and instances.jsonl; repeat.", file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.", file_okay=False)],
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            help="FOLDER=N: do not train on what `nestor eval retrieve --limit N` measures there, nor on what nearly "
            "equals it. Repeat."
        ),
    ] = None,
    validation: Annotated[
        int, typer.Option(min=0, help="Requests of each folder that are measured, not trained on; at most a fifth.")
    ] = 150,
    recipe: Annotated[
        Path | None,
        typer.Option(help="JSON of what differs from the default recipe: docs/training.md.", exists=True),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of checkpoints and caches. [OUT.work]", file_okay=False)
    ] = None,
    device: Annotated[str, typer.Option(help="`cpu`, `cuda`, or `auto`: a GPU where there is one.")] = "auto",
) -> None:
    """Train the encoder that finds APIs on your own catalogues and requests, and compare it with the current one.

    If the command is killed, run it again to resume.
    """
    held = _numbers(hold_out or [])
    require(TO_TRAIN)
    from training.retriever.command import train_retriever as train  # loads torch

    raise typer.Exit(train(data, held, validation, out, work or work_folder(out), recipe, device))


def train_relevance(
    data: Annotated[
        list[Path], typer.Option(help="Folder with tools.jsonl and instances.jsonl; repeat.", file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="File to write the model to.", dir_okay=False)],
    hold_out: Annotated[
        list[str] | None, typer.Option(help="FOLDER=N: as for `nestor train retriever`. Repeat.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="The encoder that is to serve. [the one that ships]")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="File that keeps the vectors of catalogues between runs.", dir_okay=False)
    ] = None,
) -> None:
    """Fit the model that estimates how likely an API is needed, and whether any is. Takes minutes."""
    held = _numbers(hold_out or [])
    require(("sklearn",))
    from training.retriever.relevance_command import (
        train_relevance as train,  # loads scikit-learn
    )

    raise typer.Exit(train(data, held, encoder or RetrieverSettings().encoder, out, cache))


def _numbers(given: list[str]) -> dict[str, int]:
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, number) in zip(given, pairs, strict=True) if not (name and number.isdecimal())]:
        raise typer.BadParameter(f"{wrong[0]!r} is not FOLDER=N", param_hint="--hold-out")
    return {name: int(number) for name, _, number in pairs}
