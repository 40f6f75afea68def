"""``nestor train planner``, ``confidence`` and ``judge``: the compact planner, its confidence, and planners' judges."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.cli.training.needs import TO_TRAIN, require, work_folder

if TYPE_CHECKING:
    from training.planner.judge_fitting import AnswerJudgeFit


def train_planner(
    data: Annotated[
        list[Path],
        typer.Option(
            help="Folder with tools.jsonl and instances.jsonl (recorded calls, if any); can be repeated.",
            file_okay=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.", file_okay=False)],
    recipe: Annotated[
        Path | None,
        typer.Option(help="JSON of settings that differ from the default recipe: docs/training.md.", exists=True),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of checkpoints, examples and vectors. [OUT.work]", file_okay=False)
    ] = None,
    device: Annotated[str, typer.Option(help="`cpu`, `cuda`, or `auto`: a GPU if there is one.")] = "auto",
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only write WORK/prepared, to train on another machine: docs/planning.md.")
    ] = False,
) -> None:
    """Train the compact planner on your own catalogues: on their recorded requests, and on generated ones.

    If the command is killed, run it again to resume. A fifth of the requests is held out, in WORK/held-out.
    """
    require(TO_TRAIN)
    from training.planner.command import train_planner as train  # loads torch

    raise typer.Exit(train(data, out, work or work_folder(out), recipe, device, prepare=prepare))


def train_stages(
    model: Annotated[Path, typer.Argument(help="Folder that `nestor train planner` wrote.", file_okay=False)],
    data: Annotated[list[Path], typer.Option(help="Folder that it was trained on; can be repeated.", file_okay=False)],
    recipe: Annotated[Path | None, typer.Option(help="The recipe of its training.", exists=True)] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of examples and vectors. [MODEL.work]", file_okay=False)
    ] = None,
) -> None:
    """Fit a planner's second stage and its confidence again, in place, to the requests held out from its training.

    Prints how often it is right, by folder, about requests that the fit had not seen.
    """
    require(TO_TRAIN)
    from rich.console import Console

    from evals.data import DataError
    from services.encoder import EncoderError
    from training.planner.card import figures
    from training.planner.recipe import Recipe
    from training.planner.refit import refit_second_stage
    from training.shared.runs import progress_on, read_recipe

    err = Console(stderr=True)
    try:
        with progress_on(err) as progress:
            found = refit_second_stage(model, data, work or work_folder(model), read_recipe(Recipe, recipe), progress)
    except (DataError, EncoderError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    typer.echo(figures(found))


def train_confidence(
    model: Annotated[Path, typer.Argument(help="Folder that `nestor train planner` wrote.", file_okay=False)],
    predictions: Annotated[
        list[Path],
        typer.Option(
            help="File of `nestor eval plan --planner compact --predictions`, with this model; can be repeated."
        ),
    ],
) -> None:
    """Calibrate a planner's confidence on the outcomes of whole requests that nothing was trained on, in place."""
    require(("sklearn",))
    from evals.data import DataError
    from planner_svc.backends.compact.confidence import CalibrationError
    from training.planner.recalibrate import recalibrate

    try:
        found = recalibrate(model, predictions)
    except (DataError, CalibrationError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo(
        f"{found.plans} plans, {found.right:.0%} right; calibration error {found.before:.3f}, now {found.after:.3f} "
        "(of plans that the fit had not seen)"
    )


def train_judge(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder that `nestor train planner` or `nestor train llm` wrote.", exists=True, file_okay=False
        ),
    ],
    predictions: Annotated[
        list[Path],
        typer.Option(
            help="File of `nestor eval plan --predictions` with this model (`--planner compact` or `served`); can be "
            "repeated."
        ),
    ],
) -> None:
    """Fit the judge of a planner's answers to the outcomes of whole requests that nothing was trained on, in MODEL.

    Prints its effect at several thresholds (NESTOR_PLANNER_ABSTAIN_BELOW, NESTOR_PLANNER_UNSURE_BELOW) on each file,
    for vendors that it had not seen.
    """
    require(("sklearn",))
    from evals.data import DataError
    from training.planner.judge_fitting import fit_answer_judge

    try:
        fits = fit_answer_judge(model, predictions)
    except (DataError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for found in fits:
        _print(found)


def _print(found: "AnswerJudgeFit") -> None:
    typer.echo(
        f"{found.requests} requests to {found.vendors} vendors, {found.right} right; calibration error of the planner "
        f"{found.before:.3f}, of the judge {found.error:.3f}"
    )
    typer.echo("below   plans  right   of these that change something  right")
    for counts in found.thresholds:
        typer.echo(
            f"{counts.threshold:<7g} {counts.plans:<6} {_share(counts.right, counts.plans):<7} {counts.changes:<31} "
            f"{_share(counts.right_changes, counts.changes)}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"
