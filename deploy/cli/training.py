"""``nestor train``: making models. Needs more libraries than serving does, and says so where they are missing."""

import os
from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import httpx2
import typer
from pydantic import SecretStr
from rich.console import Console

from deploy.cli.gateway import is_header_text
from deploy.cli.llm import told
from deploy.cli.recording import record
from retriever_svc.settings import RetrieverSettings
from services.registry import Entry, RegistryError

trains = typer.Typer(no_args_is_help=True, help="Train Nestor's models on folders of data.")

_OWN = ("training", "evals")
_NEEDED = ("torch", "sentence_transformers", "onnx", "onnxscript")
_FOR_LLM = ("torch", "transformers", "peft", "trl", "datasets", "accelerate")
_TO_SERVE = ("gguf", "xllamacpp")
_REGISTRY = Path("var/models")


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


@trains.command("confidence")
def train_confidence(
    model: Annotated[Path, typer.Argument(help="Folder that `nestor train planner` wrote.", file_okay=False)],
    predictions: Annotated[
        list[Path],
        typer.Option(help="File of `nestor eval plan --planner compact --predictions`, with this model; repeat."),
    ],
) -> None:
    """Fit a planner's confidence to what became of whole requests that nothing was trained on, in place."""
    _require(("sklearn",))
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


@trains.command("judge")
def train_judge(
    model: Annotated[Path, typer.Argument(help="Folder that `nestor train planner` wrote.", file_okay=False)],
    predictions: Annotated[
        list[Path],
        typer.Option(help="File of `nestor eval plan --planner judged --predictions`, with this model; repeat."),
    ],
) -> None:
    """Fit the judge of rules and compact to what became of whole requests that nothing was trained on, in MODEL.

    Prints what it would do at several thresholds (NESTOR_PLANNER_ABSTAIN_BELOW), for vendors that it had not seen.
    """
    _require(("sklearn",))
    from evals.data import DataError
    from training.planner.words import fit_judge

    try:
        found = fit_judge(model, predictions)
    except (DataError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    alone = ", ".join(f"{name} {right}" for name, right in found.alone.items())
    typer.echo(
        f"{found.requests} requests to {found.vendors} vendors; right: {alone}, one of both {found.best}, the judge's "
        f"choice {found.right}; calibration error {found.error:.3f}"
    )
    typer.echo("below   plans  right   of these that change something  right")
    for kept in found.kept:
        typer.echo(
            f"{kept.threshold:<7g} {kept.plans:<6} {_share(kept.right, kept.plans):<7} {kept.changes:<31} "
            f"{_share(kept.right_changes, kept.changes)}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


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


@trains.command("record")
def record_own(
    out: Annotated[Path, typer.Option(help="Folder to write tools.jsonl and instances.jsonl to.", file_okay=False)],
) -> None:
    """Write the running Nestor's catalogue, its confirmed runs and its demonstrations as a folder to train on.

    What a confirmed run was planned with counts as right: `nestor runs confirm RUN` confirms one.
    """
    _require(())
    apis, requests = record(out, Console(stderr=True))
    typer.echo(f"{apis} APIs and {requests} solved requests in {out}")


@trains.command("data")
def write_data(
    out: Annotated[Path, typer.Option(help="Folder to write the data set to.", file_okay=False)],
    folder: Annotated[
        list[Path] | None, typer.Option(help="Folder with tools.jsonl and instances.jsonl; repeat.", file_okay=False)
    ] = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="Take what `nestor train record` writes, to OUT/recorded.")
    ] = False,
    made: Annotated[
        int | None,
        typer.Option(min=0, help="Requests made up over each catalogue that the recipe does not name. [300]"),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="JSON of what differs from the defaults, or `general`: docs/finetuning.md.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Where the folders are that the recipe names.", file_okay=False)
    ] = None,
    hold_out_apis: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Share of APIs that are never shown, for measuring.")
    ] = None,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(help="Folder to be measured by: nothing near its requests is learnt. Repeat.", file_okay=False),
    ] = None,
) -> None:
    """Make the conversations that a language model is finetuned on, and print what they hold.

    A fifth of the requests is held out, in OUT/held-out, for `nestor eval plan`. A request that is to be measured and
    is found in the training set, or nearly, is an error.
    """
    _require(())
    from training.llm.data_command import build_data  # synthesis and evals stay out of the services' images

    folders = list(folder or [])
    if runs:
        record(out / "recorded", Console(stderr=True))
        folders.append(out / "recorded")
    raise typer.Exit(build_data(folders, recipe, root, made, hold_out_apis, exclude or [], out))


@trains.command("instruct")
def make_requests(
    model: Annotated[
        str, typer.Option(help="Base URL of any OpenAI-compatible server, e.g. http://localhost:8080/v1.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write to, and to go on in.", file_okay=False)],
    name: Annotated[str, typer.Option(help="The model's name at that server.")] = "default",
    key_env: Annotated[
        str | None, typer.Option(help="The environment variable that holds the server's API key, if it wants one.")
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Folder with tools.jsonl and instances.jsonl, which may be empty: requests are made for these APIs.",
            file_okay=False,
        ),
    ] = None,
    fields: Annotated[int, typer.Option(min=1, max=1_000, help="Fields.")] = 20,
    subfields: Annotated[int, typer.Option(min=1, max=100, help="Of each field.")] = 5,
    tools: Annotated[int, typer.Option(min=1, max=100, help="Of each subfield.")] = 4,
    single: Annotated[int, typer.Option(min=0, help="Requests that one call solves.")] = 400,
    multiple: Annotated[int, typer.Option(min=0, help="Requests that take several tools.")] = 300,
    nested: Annotated[int, typer.Option(min=0, help="Requests where a call takes what another one answers.")] = 300,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Questions at a time.")] = 4,
    max_tokens: Annotated[int, typer.Option(min=64, max=65_536, help="Longest answer.")] = 2_048,
    max_tokens_total: Annotated[
        int | None, typer.Option(min=1, help="Of all questions and answers, of all sittings. [no bound]")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=3_600, help="Seconds an answer may take.")] = 300.0,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0: the likeliest answer, each time.")] = 0.8,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 7,
) -> None:
    """Let a language model make up tools, and requests with their calls (self-instruct, as Seal-Tools' section 3).

    What it writes is checked, counted and written as a folder that `nestor eval plan` and `nestor train data` read.
    The same command goes on where a killed run stopped; with larger numbers it makes more.
    """
    address, key = _address(model), _key(key_env)
    _require(())
    from services.clients.chat import Patience, open_chat
    from training.instruct.asking import Terms
    from training.instruct.command import instruct
    from training.instruct.making import Wanted

    chat = open_chat(address, name, key=key, temperature=temperature, patience=Patience(timeout, min(timeout, 60.0)))
    wanted = Wanted(
        fields=fields, subfields=subfields, tools=tools, single=single, multiple=multiple, nested=nested, seed=seed
    )
    terms = Terms(concurrency=concurrency, max_tokens=max_tokens, timeout_s=timeout, budget=max_tokens_total)
    raise typer.Exit(instruct(chat, out, wanted, terms, catalogue))


class Method(StrEnum):
    """How a language model is finetuned."""

    LORA = "lora"
    QLORA = "qlora"
    FULL = "full"


@trains.command("llm")
def train_llm(
    base: Annotated[Path, typer.Option(help="The model to start from: a Hugging Face folder, or a GGUF file.")],
    data: Annotated[Path, typer.Option(help="Folder that `nestor train data` wrote.", file_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.", file_okay=False)],
    method: Annotated[
        Method, typer.Option(help="`lora`; `qlora`, over weights in 4 bits, on a GPU; `full`, all weights.")
    ] = Method.LORA,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Of training, over all sittings. [75]")] = None,
    epochs: Annotated[float | None, typer.Option(min=0.01, help="Passes over the data, at most. [3]")] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="JSON of what differs from the defaults: docs/finetuning.md.", exists=True)
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Adapter to go on from, such as the one that ships: services/models.", file_okay=False),
    ] = None,
    work: Annotated[Path | None, typer.Option(help="Folder of checkpoints. [OUT.work]", file_okay=False)] = None,
    device: Annotated[str, typer.Option(help="`cpu`, `cuda`, or `auto`: a GPU where there is one.")] = "auto",
    gguf: Annotated[
        Path | None, typer.Option(help="BASE as a GGUF file, where it is a folder: to export and measure.")
    ] = None,
    registry: Annotated[
        Path, typer.Option(help="Folder of registry.json; the model is promoted there if it is better.")
    ] = _REGISTRY,
    limit: Annotated[int, typer.Option(min=1, help="Requests of each held-out folder that are measured.")] = 30,
    gate: Annotated[bool, typer.Option("--gate/--no-gate", help="Measure, and promote if better.")] = True,
) -> None:
    """Finetune a language model to plan, export it, measure it, and promote it where it is better.

    The same command goes on where a killed run stopped. OUT holds the adapter as peft saves it, OUT.work the GGUF
    files for llama.cpp. What is held out in DATA is planned by it and by the model that plans now.
    """
    served = gguf or (base if base.is_file() else None)
    gate = gate and method is not Method.FULL
    if gate and served is None:
        raise typer.BadParameter("BASE is a folder: give --gguf FILE to measure with, or --no-gate")
    _require(_FOR_LLM + (_TO_SERVE if served is not None else ()))
    from training.llm.command import read_tuning  # torch is loaded by those who train only
    from training.llm.command import train_llm as train

    place = work or _beside(out)
    report = train(base, data, out, place, read_tuning(recipe, method.value, minutes, epochs), device, start)
    if report is None:
        raise typer.Exit(1)
    typer.echo(f"{out}: loss {report.training.losses[-1]['loss']:.3f} after {report.training.minutes:g} minutes")
    if served is not None and method is not Method.FULL:
        with told():
            from deploy.llm.gate import export

            export(out, served, place)
        typer.echo(f"for llama.cpp: {place}")
    if gate and served is not None:
        _gate(report.entry(out.name), out, served, data, registry, place, limit)


@trains.command("gate")
def gate_llm(
    candidate: Annotated[Path, typer.Argument(help="Folder that `nestor train llm` wrote.", file_okay=False)],
    gguf: Annotated[Path, typer.Option(help="The base it was trained on, as a GGUF file.", dir_okay=False)],
    data: Annotated[Path, typer.Option(help="Folder that `nestor train data` wrote.", file_okay=False)],
    registry: Annotated[Path, typer.Option(help="Folder of registry.json.")] = _REGISTRY,
    limit: Annotated[int, typer.Option(min=1, help="Requests of each held-out folder that are measured.")] = 30,
) -> None:
    """Measure a finetuned model against the one that plans now, and promote it if it is better."""
    _require(_TO_SERVE)
    from training.llm.card import read_report

    report = read_report(candidate)
    if report is None:
        raise typer.BadParameter(f"{candidate} holds no report.json: `nestor train llm` writes it")
    with told():
        from deploy.llm.gate import export

        export(candidate, gguf, _beside(candidate))
    _gate(report.entry(candidate.name), candidate, gguf, data, registry, _beside(candidate), limit)


def _gate(entry: Entry, candidate: Path, base: Path, data: Path, registry: Path, work: Path, limit: int) -> None:
    """Measure, say what came of it; ends with status 1 where it cannot be measured."""
    from deploy.llm.gate import judge, mean  # the engine and the encoders are loaded by those who measure only
    from evals.data import DataError

    folders = sorted(place for place in (data / "held-out").glob("*") if place.is_dir())
    if not folders:
        raise typer.BadParameter(f"{data / 'held-out'} holds no folder to measure by", param_hint="--data")
    try:
        with told():
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


def _address(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        parsed = None
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host:
        raise typer.BadParameter("it is not an http or https URL", param_hint="--model")
    return url


def _key(variable: str | None) -> SecretStr | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not is_header_text(key):
        raise typer.BadParameter(f"{variable} is not set, or is not printable ASCII", param_hint="--key-env")
    return SecretStr(key)


def _numbers(given: list[str]) -> dict[str, int]:
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, number) in zip(given, pairs, strict=True) if not (name and number.isdecimal())]:
        raise typer.BadParameter(f"{wrong[0]!r} is not FOLDER=N", param_hint="--hold-out")
    return {name: int(number) for name, _, number in pairs}


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.work")


corpus = typer.Typer(no_args_is_help=True, help="The corpus: requests written by hand, with their plans.")
trains.add_typer(corpus, name="corpus")
_Documents = Annotated[
    Path, typer.Option(help="Folder of the vendors' documents, which are not kept here.", file_okay=False, exists=True)
]


@corpus.command("check")
def check_corpus(
    documents: _Documents,
    vendor: Annotated[list[str] | None, typer.Option(help="Whose requests; repeat. [all]")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Folder to be measured by: nothing near its requests may be here. Repeat.", file_okay=False),
    ] = None,
) -> None:
    """Check that every plan compiles and that requests are near no other; print what the corpus holds."""
    _require(())
    from training.corpus.command import check_corpus as check

    raise typer.Exit(check(documents, vendor or [], against or []))


@corpus.command("list")
def list_apis(documents: _Documents, vendor: Annotated[str, typer.Argument(help="A name of vendors.json.")]) -> None:
    """Print a vendor's APIs, one a line, as a writer of requests reads them."""
    _require(())
    from training.corpus.command import list_apis as listed

    raise typer.Exit(listed(documents, vendor))


class Part(StrEnum):
    """What a vendor's requests are for."""

    TRAIN = "train"
    DEV = "dev"
    TEST = "test"


@corpus.command("export")
def export_corpus(
    documents: _Documents,
    out: Annotated[Path, typer.Option(help="Folder to write tools.jsonl and instances.jsonl to.", file_okay=False)],
    part: Annotated[Part, typer.Option(help="Whose vendors.")] = Part.TRAIN,
) -> None:
    """Write a part as a folder that `nestor train data` and `nestor eval plan` read."""
    _require(())
    from training.corpus.command import export_corpus as export

    raise typer.Exit(export(documents, part.value, out))
