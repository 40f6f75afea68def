"""Implements ``nestor train planner``: reads folders of data, and writes a planner with its card.

:mod:`training.planner.data` makes the training data, :mod:`training.planner.trainer` trains the weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from tokenizers import Tokenizer
from transformers import AutoModel, PreTrainedModel

from evals.data import DataError
from services.encoder import DEFAULT_MODEL, EncoderError, load_encoder, model_directory
from training.planner.api_encodings import ApiEncodings
from training.planner.api_tokens import ApiTokens
from training.planner.calibration import fit_stages
from training.planner.card import Data, write_card
from training.planner.data import (
    PlannerFolder,
    held_out_examples,
    made_examples,
    read_folder,
    recorded_examples,
    write_held_out,
)
from training.planner.examples import TrainingData
from training.planner.export import NETWORK, start_from_export, write_lower, write_network
from training.planner.feeding import Feed
from training.planner.network import Halves, Lower
from training.planner.prepared import PREPARED, halves_of, look_at, read_trained, write_prepared
from training.planner.recipe import Recipe
from training.planner.synthesis import MADE
from training.planner.trainer import Step, Trainer
from training.shared.base import BaseError, default_source
from training.shared.checkpoints import CheckpointError, start
from training.shared.devices import DeviceError, choose_device, feeders
from training.shared.runs import progress_on, read_recipe

_LOOK = 500
"""Steps between two measurements on the held-out requests."""
_LOOKED_AT = 100
"""Held-out requests of each folder that these measure: all of them take minutes on a CPU."""


@dataclass(frozen=True, slots=True)
class Run:
    """The work folder, the recipe and the output of a run."""

    work: Path
    recipe: Recipe
    console: Console
    progress: Progress

    @property
    def vectors(self) -> Path:
        """The cached vectors of the catalogues."""
        return self.work / "catalogues.npz"


def train_planner(
    folders: Sequence[Path], out: Path, work: Path, recipe_file: Path | None, device: str, *, prepare: bool = False
) -> int:
    """Train, export, measure, print the report. Progress goes to standard error. A run that was killed is continued.

    Args:
        folders: of data. A folder without recorded calls provides only its catalogue, to generate requests for.
        out: folder of the model, written at the end.
        work: folder of checkpoints, examples, vectors, and of the requests held out (``held-out/FOLDER``).
        recipe_file: JSON with the fields of :class:`Recipe` that differ from its defaults.
        device: ``cpu``, ``cuda`` or ``auto``.
        prepare: stop before training, and write what another machine needs to train (``WORK/prepared``).

    Returns:
        The exit status: 0, or 1 if the data or the recipe cannot be used.
    """
    err = Console(stderr=True)
    try:
        recipe = read_recipe(Recipe, recipe_file)
        work.mkdir(parents=True, exist_ok=True)
        with progress_on(err) as progress:
            run = Run(work, recipe, err, progress)
            print(_prepare(folders, run) if prepare else _run(folders, out, run, torch.device(choose_device(device))))
    except (DataError, EncoderError, CheckpointError, DeviceError, BaseError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    return 0


def _prepare(paths: Sequence[Path], run: Run) -> str:
    """Write all that training needs to the work folder; return where it is."""
    folders = [read_folder(path, run.recipe) for path in paths]
    dataset = _training_data(folders, paths, run)
    encoder, halves = _network(run.recipe)
    folder = run.work / PREPARED
    write_prepared(folder, dataset, halves, encoder.config, _tokenizer(), run.recipe, _key(dataset, folders))
    return f"{folder} is ready: `python -m training.planner.prepared` trains on it, on any machine with torch"


def _run(paths: Sequence[Path], out: Path, run: Run, device: torch.device) -> str:
    folders = [read_folder(path, run.recipe) for path in paths]
    dataset = _training_data(folders, paths, run)
    tokenizer, halves = _tokenizer(), _network(run.recipe)[1]
    network, lower, key = halves.network, halves.lower, _key(dataset, folders)
    trained = run.recipe.lower_rate is not None
    apis = ApiTokens(tokenizer) if trained else _filled(_exported(lower, tokenizer, out, run), dataset, run)
    feed = Feed(dataset.recorded, dataset.made, apis, tokenizer, run.recipe)
    feeding = partial(feed.batches, processes=feeders(device))
    trainer = Trainer(network, lower, run.recipe, feeding, run.work, key, device)
    trained_elsewhere = read_trained(run.work / PREPARED, halves, run.recipe, key)
    measured = look_at(trainer, feed, dataset.held_out) if trained_elsewhere else _train(trainer, feed, dataset, run)
    write_network(trainer.network, network.tokens.in_features, out)
    encodings = apis if isinstance(apis, ApiEncodings) else _exported(trainer.lower, tokenizer, out, run)
    aside = {name: [one for one in dataset.recorded if one.source == name] for name in run.recipe.aside}
    judged = fit_stages(out, dataset.held_out, aside, encodings, run.recipe.withheld, run.progress)
    data = [Data(one.name, one.licence, *_sizes(one, dataset)) for one in folders]
    return write_card(out, run.recipe, data, measured, judged)


def _exported(lower: Lower, tokenizer: Tokenizer, out: Path, run: Run) -> ApiEncodings:
    """Export the lower half, to read APIs as it does when serving."""
    write_lower(lower, tokenizer, out)
    return ApiEncodings(load_encoder(str(out)), run.work / "apis.npz")


def _filled(encodings: ApiEncodings, dataset: TrainingData, run: Run) -> ApiEncodings:
    """The encodings with the APIs of all examples."""
    apis = list({id(api): api for one in dataset.examples() for api in one.candidates}.values())
    encodings.fill(run.progress.track(apis, description="reading APIs"))
    return encodings


def _training_data(folders: Sequence[PlannerFolder], paths: Sequence[Path], run: Run) -> TrainingData:
    dataset = TrainingData([], [], {})
    for folder, path in zip(folders, paths, strict=True):
        write_held_out(folder, path, run.work / "held-out" / folder.name)
        where = (run.vectors, run.work, run.progress)
        dataset.recorded.extend(recorded_examples(folder, *where))
        if folder.name not in run.recipe.unseen:
            dataset.made.extend(made_examples(folder, run.recipe, *where))
        held = held_out_examples(folder, *where)
        if held:
            dataset.held_out[folder.name] = held
    if not dataset.recorded and not dataset.made:
        raise DataError("there is nothing to learn: no request has calls, and none can be made up over the catalogues")
    told = f"{len(dataset.recorded)} recorded requests, {len(dataset.made)} made up"
    run.console.print(told, markup=False)
    return dataset


def _train(trainer: Trainer, feed: Feed, dataset: TrainingData, run: Run) -> dict[str, dict[str, float]]:
    """Train to the end; return how often the heads are right on the held-out requests, by folder."""
    task = run.progress.add_task("training", total=run.recipe.steps, completed=trainer.done)
    history = (run.work / "history.jsonl").open("a", encoding="utf-8")

    def note(step: Step) -> None:
        run.progress.update(task, completed=step.number)
        line: dict[str, object] = {"step": step.number, "progress": round(step.progress, 4), "loss": step.loss}
        if step.number % _LOOK == 0:
            few = {name: held[:_LOOKED_AT] for name, held in dataset.held_out.items()}
            line["held_out"] = seen = look_at(trainer, feed, few)
            for name, shares in seen.items():
                told = ", ".join(f"{head} {share:.0f}" for head, share in shares.items())
                run.console.print(f"step {step.number}: {name}: {told}", markup=False, soft_wrap=True)
        history.write(json.dumps(line) + "\n")
        history.flush()

    with history:
        trainer.train(note)
    return look_at(trainer, feed, dataset.held_out)


def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(model_directory(DEFAULT_MODEL) / "tokenizer.json"))


def _network(recipe: Recipe) -> tuple[PreTrainedModel, Halves]:
    """The encoder, and both halves of the network to train."""
    source = default_source() if recipe.base is None else Path(recipe.base)
    try:
        encoder = AutoModel.from_pretrained(str(source), add_pooling_layer=False)
    except (OSError, ValueError) as error:
        raise BaseError(f"{source} is no encoder to start from: {error}") from None
    network, lower = halves_of(encoder, recipe)
    if recipe.start is not None:
        folder = Path(recipe.start)
        if (folder / NETWORK).exists():
            start_from_export(network, lower, encoder.config.hidden_size, folder)
        else:
            start(Halves(network, lower), folder)
    return encoder, Halves(network, lower)


def _key(dataset: TrainingData, folders: Sequence[PlannerFolder]) -> str:
    """A key of the data: other data makes another run."""
    digest = hashlib.sha256()
    for one in (*dataset.recorded, *dataset.made):
        digest.update(f"{one.id}\0{one.query}\0".encode("utf-8", "replace"))
    return f"{[folder.name for folder in folders]} {digest.hexdigest()[:16]}"


def _sizes(folder: PlannerFolder, dataset: TrainingData) -> tuple[int, int, int, int]:
    """The numbers of APIs, recorded training requests, generated requests and held-out requests."""
    recorded = sum(one.source == folder.name for one in dataset.recorded)
    made = sum(one.source == f"{folder.name}{MADE}" for one in dataset.made)
    return len(folder.apis), recorded, made, len(dataset.held_out.get(folder.name, ()))
