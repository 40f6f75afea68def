"""``nestor train``: making models. Needs more libraries than serving does, and says so where they are missing."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from deploy.cli.gateway import gateway, run
from retriever_svc.settings import RetrieverSettings
from services.contracts.api import Api
from services.contracts.run import Run, RunStatus

trains = typer.Typer(no_args_is_help=True, help="Train Nestor's models on folders of data.")

_OWN = ("training", "evals")
_NEEDED = ("torch", "sentence_transformers", "onnx", "onnxscript")
_PAGE = 100


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
    _require(_NEEDED)
    from training.retriever.command import train_retriever  # torch is loaded by those who train only

    raise typer.Exit(train_retriever(data, held, validation, out, work or _beside(out), recipe, device))


@trains.command("planner")
def train_planner(
    data: Annotated[
        list[Path],
        typer.Option(
            help="Folder with tools.jsonl and instances.jsonl (recorded calls, if any); repeat.", file_okay=False
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.", file_okay=False)],
    recipe: Annotated[
        Path | None,
        typer.Option(help="JSON of what differs from the default recipe: docs/training.md.", exists=True),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of checkpoints, examples and vectors. [OUT.work]", file_okay=False)
    ] = None,
    device: Annotated[str, typer.Option(help="`cpu`, `cuda`, or `auto`: a GPU where there is one.")] = "auto",
) -> None:
    """Train the compact planner on own catalogues: on their recorded requests, and on requests made up over them.

    The same command goes on where a killed run stopped. A fifth of the requests is held out, in WORK/held-out.
    """
    _require(_NEEDED)
    from training.planner.command import train_planner as train  # torch is loaded by those who train only

    raise typer.Exit(train(data, out, work or _beside(out), recipe, device))


@trains.command("relevance")
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
    """Fit the model that says how likely an API is needed, and whether any is, to an encoder and data. Minutes."""
    held = _numbers(hold_out or [])
    _require(("sklearn",))
    from training.retriever.relevance_command import (
        train_relevance as train,  # scikit-learn is loaded by those who train only
    )

    raise typer.Exit(train(data, held, encoder or RetrieverSettings().encoder, out, cache))


@trains.command("data")
def write_data(
    out: Annotated[Path, typer.Option(help="Folder to write tools.jsonl and instances.jsonl to.", file_okay=False)],
) -> None:
    """Write the running Nestor's catalogue, and the requests it solved, as a folder to train on.

    Solved requests only: what they were planned with counts as right. Look through instances.jsonl before training.
    """
    _require(())
    from evals.recording import instance_row, tool_row, write_folder  # evals stay out of the services' images

    apis, solved = run(_collect(Console(stderr=True)))
    tools = [tool_row(api) for api in apis]
    instances = [instance_row(one.id, one.query, one.plan) for one in solved if one.plan is not None]
    write_folder(out, tools, instances)
    typer.echo(f"{len(tools)} APIs and {len(instances)} solved requests in {out}")


async def _collect(console: Console) -> tuple[list[Api], list[Run]]:
    """The catalogue, and the runs that solved their request with a plan; of a request asked often the first."""
    tools: list[Api] = []
    solved: list[Run] = []
    async with gateway() as client:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("reading the catalogue")
            while page := (found := await client.search_apis(limit=_PAGE, offset=len(tools))).hits:
                tools += [await client.api(hit.id) for hit in page]
                progress.update(task, completed=len(tools), total=found.total)
            cursor: str | None = None
            while True:
                runs = await client.runs(status=RunStatus.SUCCEEDED.value, limit=_PAGE, cursor=cursor)
                solved += [await client.run(line.id) for line in runs.runs]
                if (cursor := runs.next) is None:
                    break
    once = {one.query: one for one in solved if one.plan is not None}
    return tools, list(once.values())


def _require(names: Sequence[str]) -> None:
    """End with what to do where Nestor's own packages for training, or the libraries named, are not installed."""
    if missing := [name for name in _OWN if find_spec(name) is None]:
        Console(stderr=True).print(
            f"This installation of Nestor only serves: it lacks the packages {', '.join(missing)}, as images do. "
            "Train where its sources are installed: pip install -e .",
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


def _numbers(given: list[str]) -> dict[str, int]:
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, number) in zip(given, pairs, strict=True) if not (name and number.isdecimal())]:
        raise typer.BadParameter(f"{wrong[0]!r} is not FOLDER=N", param_hint="--hold-out")
    return {name: int(number) for name, _, number in pairs}


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.work")
