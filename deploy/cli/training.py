"""``nestor train``: making models. Needs more libraries than serving does, and says so where they are missing."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

trains = typer.Typer(no_args_is_help=True, help="Train Nestor's models on folders of data.")

_NEEDED = ("torch", "sentence_transformers", "onnx", "onnxscript")


@trains.command("retriever")
def train(
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
    """Train the encoder that finds APIs, on own catalogues and requests, and measure it against the one before.

    The same command goes on where a killed run stopped.
    """
    held = _numbers(hold_out or [])
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        Console(stderr=True).print(
            f"Training needs libraries that serving does not ({', '.join(missing)}): "
            "pip install -r requirements/train.txt",
            soft_wrap=True,
        )
        raise typer.Exit(1)
    from evals.training import train_retriever  # torch is loaded by those who train only

    raise typer.Exit(train_retriever(data, held, validation, out, work or _beside(out), recipe, device))


def _numbers(given: list[str]) -> dict[str, int]:
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, number) in zip(given, pairs, strict=True) if not (name and number.isdecimal())]:
        raise typer.BadParameter(f"{wrong[0]!r} is not FOLDER=N", param_hint="--hold-out")
    return {name: int(number) for name, _, number in pairs}


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.work")
