"""``nestor train ablate``: measures the value of each property of the training data by training without it."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from deploy.cli.llm import exit_on_llm_error
from deploy.cli.training.llm import FOR_LLM, TO_SERVE
from deploy.cli.training.needs import require, work_folder

if TYPE_CHECKING:
    from evals.planning.evaluate import PlanReport
    from training.llm.recipe import DataRecipe
    from training.llm.settings import Tuning

_COLUMNS = {"tool F1": "tool.f1", "parameter F1": "param.f1", "full match": "full_match_any_order"}
"""Each figure, and the name of its interval in a report."""
_FIGURES = "figures.json"
_DATA = "data"
_NO_END = 1e6
"""Time limit in minutes, in effect none: on a shared machine a real one would give each model another budget."""


def ablate_llm(
    base: Annotated[Path, typer.Option(help="The model to start from, a GGUF file.", exists=True, dir_okay=False)],
    folder: Annotated[
        list[Path], typer.Option(help="Folder with tools.jsonl and instances.jsonl; can be repeated.", file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder for data sets, adapters and figures.", file_okay=False)],
    steps: Annotated[int, typer.Option(min=1, help="Number of training steps, the same for all.")] = 40,
    limit: Annotated[int, typer.Option(min=1, help="Number of requests to measure per held-out folder.")] = 30,
    data_recipe: Annotated[
        str | None, typer.Option(help="As in `nestor train data --recipe`; each variant leaves out one property of it.")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="As in `nestor train llm --recipe`.", exists=True)] = None,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="Evaluation folder: do not train on anything near its requests; can be repeated.", file_okay=False
        ),
    ] = None,
) -> None:
    """Finetune with all properties of the data, then without each one, for the same number of steps; measure all.

    All are measured on the requests that the first data set holds out; none is trained on them. Prints a table in
    Markdown, with 95 % intervals. If the command is killed, run it again to resume.
    """
    require(FOR_LLM + TO_SERVE)
    from evals.data import DataError
    from training.llm.ablation import WHOLE, variants
    from training.llm.builder import HELD_OUT, LeakError
    from training.llm.command import read_tuning
    from training.llm.recipe import read_data_recipe
    from training.shared.cards import table

    rows = []
    held_out = _place(out, WHOLE) / _DATA / HELD_OUT
    try:
        tuning = read_tuning(recipe, "lora", _NO_END, None).model_copy(update={"steps": steps})
        for name, data in variants(read_data_recipe(data_recipe)).items():
            said = name if name == WHOLE else f"without {name}"
            figures = _place(out, name) / _FIGURES
            if not figures.exists():
                Console(stderr=True).print(said, markup=False)
                found = _measured(base, folder, exclude or [], data, tuning, _place(out, name), held_out, limit)
                figures.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            for measured_on, one in json.loads(figures.read_text(encoding="utf-8")).items():
                rows.append((said, measured_on, str(one["requests"]), *(_cell(one[column]) for column in _COLUMNS)))
    except (DataError, LeakError) as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    typer.echo(table(("trained on", "measured on", "requests", *_COLUMNS), rows))


def _place(out: Path, name: str) -> Path:
    return out / name.replace(" ", "-")


def _measured(
    base: Path,
    folders: list[Path],
    excluded: list[Path],
    data: "DataRecipe",
    tuning: "Tuning",
    place: Path,
    held_out: Path,
    limit: int,
) -> dict[str, dict[str, int | list[float]]]:
    """Build the data set, train, serve and measure. Returns, by folder, the figures with the bounds of intervals."""
    from deploy.llm.gate import MERGED_NAME, export, reports  # loads torch and the engine
    from training.llm.builder import build
    from training.llm.command import train_llm
    from training.shared.runs import progress_on

    with progress_on(Console(stderr=True)) as progress:
        build(folders, data, excluded, place / _DATA, progress)
    adapter = place / "adapter"
    work = work_folder(adapter)
    if train_llm(base, place / _DATA, adapter, work, tuning, "auto") is None:
        raise typer.Exit(1)
    with exit_on_llm_error():
        export(adapter, base, work)
        measured_on = sorted(one for one in held_out.iterdir() if one.is_dir())
        found = reports(work / MERGED_NAME, measured_on, work, limit, data.properties.detail)
    shutil.rmtree(work)  # keeping a merged model of each variant would fill the disk
    return {name: _figures(report) for name, report in found.items()}


def _figures(report: "PlanReport") -> dict[str, int | list[float]]:
    values = (report.tool.f1, report.param.f1, report.full_match_any_order)
    bounds = (report.intervals[name] for name in _COLUMNS.values())
    return {"requests": report.n} | {
        column: [value, *between] for column, value, between in zip(_COLUMNS, values, bounds, strict=True)
    }


def _cell(figure: list[float]) -> str:
    value, low, high = figure
    return f"{value:.1f} ({low:.1f}-{high:.1f})"
