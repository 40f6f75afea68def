"""What the commands of ``nestor train`` need: installed packages, and a folder for checkpoints."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import typer
from rich.console import Console

_OWN = ("training", "evals")
TO_TRAIN = ("torch", "sentence_transformers", "onnx", "onnxscript")
"""The libraries that training the retriever and the compact planner needs."""


def require(names: Sequence[str]) -> None:
    """Exit with instructions if Nestor's own packages for training, or the named libraries, are not installed."""
    if missing := [name for name in _OWN if find_spec(name) is None]:
        Console(stderr=True).print(
            f"This installation of Nestor cannot train: it lacks the packages {', '.join(missing)}, as images do. "
            "Install Nestor from its sources: pip install -e .",
            soft_wrap=True,
        )
        raise typer.Exit(1)
    if missing := [name for name in names if find_spec(name) is None]:
        Console(stderr=True).print(
            f"Training needs libraries that serving does not ({', '.join(missing)}): "
            "pip install -r requirements/train.txt",
            soft_wrap=True,
        )
        raise typer.Exit(1)


def work_folder(out: Path) -> Path:
    """The folder for checkpoints and caches of a model that is written to ``out``."""
    return out.with_name(f"{out.name}.work")
