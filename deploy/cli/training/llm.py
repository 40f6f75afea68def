"""``nestor train llm`` and ``gate``: finetune a language model, measure it, and promote it if it is better."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deploy.cli.llm import exit_on_llm_error
from deploy.cli.training.needs import require, work_folder
from deploy.llm.settings import REGISTRY
from services.registry import Entry, RegistryError

FOR_LLM = ("torch", "transformers", "peft", "trl", "datasets", "accelerate")
TO_SERVE = ("gguf", "xllamacpp")

Registry = Annotated[
    Path,
    typer.Option(
        help="Folder of registry.json; the model is promoted there if it is better.", envvar="NESTOR_LLM_REGISTRY"
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Number of requests to measure per held-out folder.")]


class Method(StrEnum):
    """How a language model is finetuned."""

    LORA = "lora"
    QLORA = "qlora"
    FULL = "full"


def train_llm(
    base: Annotated[
        Path, typer.Option(help="The model to start from: a Hugging Face folder, or a GGUF file.", exists=True)
    ],
    data: Annotated[Path, typer.Option(help="Folder that `nestor train data` wrote.", exists=True, file_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.", file_okay=False)],
    method: Annotated[
        Method,
        typer.Option(
            help="`lora`; `qlora`: on 4-bit weights, on a GPU; `full`: all weights, written as a Hugging Face folder."
        ),
    ] = Method.LORA,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Minutes of training over all sessions. [75]")] = None,
    epochs: Annotated[float | None, typer.Option(min=0.01, help="Maximum passes over the data. [3]")] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(help="JSON of settings that differ from the defaults: docs/finetuning.md.", exists=True),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Adapter to continue from, such as the shipped one in services/models.", file_okay=False),
    ] = None,
    work: Annotated[Path | None, typer.Option(help="Folder of checkpoints. [OUT.work]", file_okay=False)] = None,
    device: Annotated[str, typer.Option(help="`cpu`, `cuda`, or `auto`: a GPU if there is one.")] = "auto",
    gguf: Annotated[
        Path | None, typer.Option(help="BASE as a GGUF file, if it is a folder: to export and measure.")
    ] = None,
    registry: Registry = REGISTRY,
    limit: Limit = 30,
    gate: Annotated[bool, typer.Option("--gate/--no-gate", help="Measure, and promote if better.")] = True,
) -> None:
    """Finetune a language model to plan, export it, measure it, and promote it if it is better.

    If the command is killed, run it again to resume. OUT holds the adapter as peft saves it (`full`: the whole model),
    OUT.work the GGUF files for llama.cpp. The new model and the current one are measured on the requests held out in
    DATA.
    """
    served = gguf or (base if base.is_file() else None)
    if gate and served is None:
        raise typer.BadParameter("BASE is a folder: give --gguf FILE to measure with, or --no-gate")
    require(FOR_LLM + (TO_SERVE if served is not None else ()))
    from training.llm.command import read_tuning  # loads torch
    from training.llm.command import train_llm as train

    if served is not None:
        _require_exportable(served)
    place = work or work_folder(out)
    report = train(base, data, out, place, read_tuning(recipe, method.value, minutes, epochs), device, start)
    if report is None:
        raise typer.Exit(1)
    typer.echo(f"{out}: loss {report.training.losses[-1]['loss']:.3f} after {report.training.minutes:g} minutes")
    if served is not None:
        with exit_on_llm_error():
            from deploy.llm.gate import export

            export(out, served, place)
        typer.echo(f"for llama.cpp: {place}")
    if gate and served is not None:
        _gate(report.entry(out.name), out, served, data, registry, place, limit)


def _require_exportable(base: Path) -> None:
    """Exit if models of this base cannot be written as GGUF: hours of training would be lost."""
    with exit_on_llm_error():
        from deploy.llm.gguf_files import read_model

        read_model(base)


def gate_llm(
    candidate: Annotated[Path, typer.Argument(help="Folder that `nestor train llm` wrote.", file_okay=False)],
    gguf: Annotated[Path, typer.Option(help="The base it was trained on, as a GGUF file.", dir_okay=False)],
    data: Annotated[Path, typer.Option(help="Folder that `nestor train data` wrote.", file_okay=False)],
    registry: Registry = REGISTRY,
    limit: Limit = 30,
) -> None:
    """Compare a finetuned model with the current one, and promote it if it is better.

    `nestor serve --llm` plans with the promoted model from its next start on.
    """
    require(TO_SERVE)
    from training.llm.card import read_report

    report = read_report(candidate)
    if report is None:
        raise typer.BadParameter(f"{candidate} contains no report.json: `nestor train llm` writes it")
    with exit_on_llm_error():
        from deploy.llm.gate import export

        export(candidate, gguf, work_folder(candidate))
    _gate(report.entry(candidate.name), candidate, gguf, data, registry, work_folder(candidate), limit)


def _gate(entry: Entry, candidate: Path, base: Path, data: Path, registry: Path, work: Path, limit: int) -> None:
    """Measure and print the result. Exits with status 1 if it cannot be measured.

    The registry names the GGUF file as the base: it is what a registered model is installed with.
    """
    from deploy.llm.gate import judge, mean  # loads the engine and the encoders
    from deploy.llm.install import is_known_base
    from deploy.llm.trained import sha256_of
    from evals.data import DataError

    folders = sorted(place for place in (data / "held-out").glob("*") if place.is_dir())
    if not folders:
        raise typer.BadParameter(f"{data / 'held-out'} contains no folder to measure on", param_hint="--data")
    entry = entry.model_copy(update={"base": base.stem, "base_sha256": sha256_of([base])})
    if not is_known_base(entry):
        entry = entry.model_copy(update={"base_file": base.resolve()})
    try:
        with exit_on_llm_error():
            verdict = judge(candidate, entry, base, folders, registry, work, limit)
    except (RegistryError, DataError) as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    for name, figures in ((entry.name, verdict.candidate), (verdict.before, verdict.champion)):
        for folder, one in figures.items():
            typer.echo(f"{name}, {folder}: " + ", ".join(f"{what} {value:g}" for what, value in one.items()))
    found, before = mean(verdict.candidate), mean(verdict.champion)
    if verdict.better:
        typer.echo(f"promoted in {registry}: parameter F1 {found:.1f}, {verdict.before} has {before:.1f}")
    else:
        typer.echo(f"not promoted: parameter F1 {found:.1f} is no better than {before:.1f} of {verdict.before}")
