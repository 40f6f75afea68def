"""Implements ``nestor train retriever``: reads folders of data, and writes a measured model.

The folders are those of :mod:`evals.data`. :mod:`evals.retrieve` measures the ranking in service, with the base encoder
and with the new one. :mod:`training.retriever.trainer` trains the weights.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import Progress

from evals.data import DataError, Dataset, Instance, licence, read_all, read_dataset, training_splits
from evals.retrieve import SHIPPED, Report, build_snapshot, evaluate, name_providers
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.ranking import RankingOptions, find
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.settings import RetrieverSettings
from services.encoder import DEFAULT_MODEL, Encoder, EncoderError, load_encoder
from training.retriever.card import Data, write_card, write_model
from training.retriever.examples import (
    Document,
    Pair,
    Request,
    Source,
    document,
    document_id,
    request_pairs,
    with_negatives,
)
from training.retriever.mining import Negatives, mine
from training.retriever.recipe import Recipe
from training.retriever.splits import without_near_duplicates
from training.retriever.synthesis import synthetic_pairs
from training.retriever.towers import Towers
from training.retriever.trainer import NothingToTrain, Step, Trainer
from training.retriever.validation import ValidationMeter
from training.shared.base import BaseError
from training.shared.checkpoints import CHECKPOINT, CheckpointError
from training.shared.devices import DeviceError, choose_device
from training.shared.runs import progress_on, read_recipe

_VALIDATED = 0.2
_LOOKS = 4
_METHODS = ("whole-dense", "clauses-dense", SHIPPED)
_KS = (5, 10)
_NAMED = " (provider named)"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of data, split into training requests and validation requests.

    Attributes:
        source: catalogue and requests to train on.
        validation: all its APIs, and the requests for comparison.
        checked: the validation requests in the form that training uses.
        data: for the model card.
        recorded: the requests of ``source``, as they were read.
    """

    source: Source
    validation: Dataset
    checked: tuple[Request, ...]
    data: Data
    recorded: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The folders, recipe and options of a run."""

    out: Path
    work: Path
    recipe: Recipe
    device: str
    options: RankingOptions
    console: Console
    progress: Progress

    @property
    def cache(self) -> Path:
        """Cached vectors of the catalogues, by base and by new encoder."""
        return self.work / "vectors.npz"


def train_retriever(
    folders: Sequence[Path],
    hold_out: Mapping[str, int],
    validation: int,
    out: Path,
    work: Path,
    recipe_file: Path | None,
    device: str,
) -> int:
    """Train, export, measure; print the report. Progress goes to standard error. A run that was killed is continued.

    Args:
        folders: of data.
        hold_out: by folder name, the size of the sample of ``nestor eval retrieve --limit`` that is not trained on.
        validation: validation requests of each folder; at most a fifth of them.
        out: folder of the model, written at the end.
        work: folder of checkpoints, mined negatives and vectors.
        recipe_file: JSON with the fields of :class:`Recipe` that differ from its defaults.
        device: ``cpu``, ``cuda`` or ``auto``.

    Returns:
        The exit status: 0, or 1 if the data or the recipe cannot be used.
    """
    err = Console(stderr=True)
    try:
        recipe = read_recipe(Recipe, recipe_file)
        read = [read_folder(one, hold_out.get(one.name, 0), validation, recipe) for one in folders]
        if unknown := hold_out.keys() - {one.name for one in folders}:
            raise DataError(f"there is no folder {sorted(unknown)[0]!r} to hold requests out of")
        work.mkdir(parents=True, exist_ok=True)
        options = RankingOptions(dense_weight=RetrieverSettings().dense_weight)
        with progress_on(err) as progress:
            run = Run(out, work, recipe, choose_device(device), options, err, progress)
            reports = _train_and_measure(read, run)
    except (DataError, EncoderError, CheckpointError, NothingToTrain, DeviceError, BaseError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    print(write_card(out, recipe, [one.data for one in read], reports))
    return 0


def read_folder(path: Path, hold_out: int, validation: int, recipe: Recipe) -> Folder:
    """Read and split a folder.

    The splits ``dev`` and ``train`` are trained on if any exists, else all whose name does not start with ``test``. A
    folder with one split is trained on. Near duplicates of requests that are not trained on are left out as well. What
    needs an API of a provider that the recipe leaves out is neither trained on nor validated.

    Args:
        path: the folder.
        hold_out: leave out the sample that ``nestor eval retrieve --limit`` of this number measures; 0 for none.
        validation: validation requests; at most a fifth of them.
        recipe: how many requests to train on, the seed of their choice, and the providers to leave out.

    Raises:
        DataError: the folder cannot be read.
    """
    whole = read_all(path)
    known = (api for api in whole.apis if api.provider not in recipe.leave_out)
    documents = {one.id: one for one in (document(path.name, api) for api in known)}
    solvable = [one for one in whole.instances if one.apis and _ids(one, path.name) <= documents.keys()]
    splits = training_splits({one.split or "" for one in solvable})
    held = read_dataset(path, limit=hold_out).instances if hold_out else ()
    held_ids = {one.id for one in held}
    apart = [_request(one, path.name) for one in held]
    apart += [Request(one.query, frozenset()) for one in solvable if (one.split or "") not in splits]

    free = [one for one in solvable if (one.split or "") in splits and one.id not in held_ids]
    random.Random(recipe.seed).shuffle(free)  # noqa: S311 - a repeatable choice, not a secret
    share = min(validation, int(len(free) * _VALIDATED))
    clear = _without_near_duplicates(free[: recipe.requests * 2 + share], apart, path.name)
    checked = tuple(_request(one, path.name) for one in clear[:share])
    trained = _without_near_duplicates(clear[share:], checked, path.name)[: recipe.requests]
    source = Source(path.name, documents, tuple(_request(one, path.name) for one in trained))
    data = Data(path.name, licence(path), len(documents), len(trained), share, len(held))
    return Folder(source, Dataset(whole.apis, tuple(clear[:share]), None), checked, data, tuple(trained))


def _train_and_measure(folders: Sequence[Folder], run: Run) -> dict[str, dict[str, Report]]:
    base = load_encoder(_serving(run.recipe.base), os.cpu_count() or 1)
    documents = {key: one for folder in folders for key, one in folder.source.documents.items()}
    recorded = _recorded(folders, base, run)
    run.console.print(f"{len(recorded)} pairs of recorded requests, {len(documents)} APIs")
    towers = _train(folders, recorded, documents, run)
    write_model(towers, run.out)
    reports: dict[str, dict[str, Report]] = {}
    for folder in folders:
        for name, encoder in (("base", base), ("trained", load_encoder(str(run.out), os.cpu_count() or 1))):
            for key, report in _measure(folder, encoder, run).items():
                reports.setdefault(key, {})[name] = report
    return reports


def _serving(base: str | None) -> str:
    """The served form of the base encoder; for a work folder, the model made there."""
    if base is None:
        return DEFAULT_MODEL
    return base.removesuffix(".work") if Path(base, CHECKPOINT).is_file() else base


def _train(folders: Sequence[Folder], recorded: list[Pair], documents: Mapping[str, Document], run: Run) -> Towers:
    recipe, towers = run.recipe, Towers(run.recipe, run.device)

    def pairs_of(epoch: int) -> list[Pair]:
        rng = random.Random(f"{recipe.seed} synthetic {epoch}")  # noqa: S311 - a repeatable draw, not a secret
        made = []
        for folder in folders:
            theirs = sorted(folder.source.documents)
            chosen = rng.sample(theirs, min(recipe.synthetic, len(theirs)))
            made += synthetic_pairs([folder.source.documents[one] for one in chosen], rng)
        return recorded + made

    trainer = Trainer(towers, recipe, pairs_of, documents, run.work)
    meter = ValidationMeter([one.source for one in folders], [one.checked for one in folders])
    if trainer.done:
        run.console.print(f"going on after step {trainer.done} of {trainer.total}")
    task = run.progress.add_task("training", total=100, completed=int(100 * trainer.progress))
    history = (run.work / "history.jsonl").open("a", encoding="utf-8")

    looked = [int(trainer.progress * _LOOKS)]

    def note(step: Step) -> None:
        run.progress.update(task, completed=100 * step.progress, description=f"training, loss {step.loss:.2f}")
        line = {"step": step.number, "loss": round(step.loss, 4), "first": round(step.first, 3)}
        if int(step.progress * _LOOKS) > looked[0]:
            looked[0] = int(step.progress * _LOOKS)
            seen = meter.measure(towers)
            line["validation"] = seen  # type: ignore[assignment]
            told = ", ".join(f"{name} {value:.0f}" for name, value in seen.items())
            run.console.print(f"step {step.number} of {step.total}: loss {step.loss:.2f}, all@10 {told}", markup=False)
        history.write(json.dumps(line) + "\n")
        history.flush()

    with history:
        trainer.train(note)
    return towers


def _recorded(folders: Sequence[Folder], base: Encoder, run: Run) -> list[Pair]:
    """The pairs of all recorded requests with mined hard negatives; cached in the work folder."""
    chosen = run.recipe.model_dump_json(include={"seed", "requests", "mined"})
    key = hashlib.sha256(chosen.encode() + base.name.encode())
    for folder in folders:
        key.update("\0".join([*folder.source.documents, *(one.query for one in folder.source.requests)]).encode())
    file, pairs_type = run.work / f"pairs-{key.hexdigest()[:16]}.json", TypeAdapter(list[Pair])
    if file.exists():
        return pairs_type.validate_json(file.read_bytes())
    pairs: list[Pair] = []
    for folder in folders:
        rng = random.Random(f"{run.recipe.seed} {folder.source.name}")  # noqa: S311 - a repeatable draw, not a secret
        mined = _mine(folder, base, run) if run.recipe.mined and folder.source.requests else {}
        pairs += with_negatives(request_pairs(folder.source, base, rng), mined)
    file.write_bytes(pairs_type.dump_json(pairs))
    return pairs


def _mine(folder: Folder, base: Encoder, run: Run) -> Negatives:
    snapshot, name = _snapshot(folder, base, run), folder.source.name
    k = 2 * run.recipe.mined

    def search(query: str) -> list[str]:
        _, hits = find(snapshot, base, query, k, 0, Filters(), run.options)
        return [document_id(name, hit.entry.id) for hit in hits]

    requests = run.progress.track(folder.source.requests, description=f"mining {name}")
    return mine(requests, folder.source.documents, search, run.recipe.mined)


def _measure(folder: Folder, encoder: Encoder, run: Run) -> dict[str, Report]:
    """Reports by the folder's name, and by a second name if providers can be named in the requests."""
    plain = folder.validation
    if not plain.instances:
        return {}
    snapshot, named = _snapshot(folder, encoder, run), name_providers(plain)
    asked = {folder.source.name: plain} | ({f"{folder.source.name}{_NAMED}": named} if named != plain else {})
    return {
        key: evaluate(snapshot, encoder, one.instances, _METHODS, _KS, run.options, run.progress)
        for key, one in asked.items()
    }


def _snapshot(folder: Folder, encoder: Encoder, run: Run) -> Snapshot:
    return build_snapshot(folder.validation.apis, encoder, run.progress, run.cache)


def _without_near_duplicates(instances: Sequence[Instance], held_out: Sequence[Request], source: str) -> list[Instance]:
    by_request = {_request(one, source): one for one in instances}
    return [by_request[one] for one in without_near_duplicates(by_request, held_out)]


def _request(instance: Instance, source: str) -> Request:
    steps = tuple((call.description, document_id(source, call.api)) for call in instance.calls if call.description)
    return Request(instance.query, _ids(instance, source), steps)


def _ids(instance: Instance, source: str) -> frozenset[str]:
    return frozenset(document_id(source, api) for api in instance.apis)
