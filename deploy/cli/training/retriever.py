"""``nestor train retriever``, ``relevance`` and ``supply``: train the models that find APIs."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.training.needs import TO_TRAIN, require, work_folder


def train_retriever(
    data: Annotated[
        list[Path], typer.Option(help="Folder with tools.jsonl and instances.jsonl; can be repeated.", file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.", file_okay=False)],
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            help="FOLDER=N: do not train on requests that `nestor eval retrieve --limit N` measures there, nor on near "
            "duplicates; can be repeated."
        ),
    ] = None,
    validation: Annotated[
        int, typer.Option(min=0, help="Requests of each folder to hold out for validation; at most a fifth.")
    ] = 150,
    recipe: Annotated[
        Path | None,
        typer.Option(help="JSON of settings that differ from the default recipe: docs/training.md.", exists=True),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of checkpoints and caches. [OUT.work]", file_okay=False)
    ] = None,
    device: Annotated[str, typer.Option(help="`cpu`, `cuda`, or `auto`: a GPU if there is one.")] = "auto",
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
        list[Path], typer.Option(help="Folder with tools.jsonl and instances.jsonl; can be repeated.", file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="File to write the model to.", dir_okay=False)],
    hold_out: Annotated[
        list[str] | None, typer.Option(help="FOLDER=N: as for `nestor train retriever`; can be repeated.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="The encoder to be used when serving. [the shipped one]")] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            help="The encoder to gather the evidence with, if the one to be served was trained on these very requests: "
            "an earlier one that was not. [the one to be served]"
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="File to cache the vectors of catalogues in.", dir_okay=False)
    ] = None,
) -> None:
    """Fit the model that estimates how likely an API is needed, and whether any is. Takes minutes."""
    held = _numbers(hold_out or [])
    require(("sklearn",))
    from retriever_svc.settings import RetrieverSettings  # imported here to keep the command line fast
    from training.retriever.relevance_command import (
        train_relevance as train,  # loads scikit-learn
    )

    served = encoder or RetrieverSettings().encoder
    raise typer.Exit(train(data, held, served, evidence or served, out, cache))


def train_supply(
    data: Annotated[
        list[Path], typer.Option(help="Folder with tools.jsonl and instances.jsonl; can be repeated.", file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="File to write the model to.", dir_okay=False)],
    measure: Annotated[
        list[Path] | None,
        typer.Option(help="Folder that is only measured; can be repeated.", file_okay=False),
    ] = None,
) -> None:
    """Fit the model that tells which call's output feeds which parameter, from recorded plans. Takes minutes."""
    require(("sklearn",))
    from training.retriever.supply import train_supply as train  # loads scikit-learn

    raise typer.Exit(train(data, measure or [], out))


def _numbers(given: list[str]) -> dict[str, int]:
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, number) in zip(given, pairs, strict=True) if not (name and number.isdecimal())]:
        raise typer.BadParameter(f"{wrong[0]!r} is not FOLDER=N", param_hint="--hold-out")
    return {name: int(number) for name, _, number in pairs}
