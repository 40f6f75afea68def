"""The planner's training data: recorded and generated requests, each with the candidates that the retriever finds.

A fifth of each folder's requests, at most ``Recipe.validation``, is held out and never trained on; of the folders in
``Recipe.unseen`` all are. A hash of the request's id selects them, so they are the same in every run of that seed.
Splits called ``test`` are not used at all if there are others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.progress import Progress

from evals.data import Instance, licence, read_all, training_splits
from evals.planning.offers import Offer, Offers, Source
from evals.retrieve import build_snapshot
from planner_svc.backends.compact.inputs import features_of
from retriever_svc.engine.ranking import shipped_options
from retriever_svc.settings import RetrieverSettings
from services.contracts.api import Api
from services.encoder import load_encoder
from training.planner.align import Aligner
from training.planner.examples import Example, InvalidExample, check
from training.planner.files import read_examples, write_examples
from training.planner.recipe import Recipe
from training.planner.synthesis import MADE, synthesise

_HELD_OUT = 5
"""One request in this many is held out."""
_DISTRACTORS = 10
"""APIs added to the needed ones if the retriever does not find all of these."""
CLOCKS = {"sgd": datetime(2019, 3, 1, 9, tzinfo=UTC)}
"""When the dialogues of a data set take place, to resolve "tomorrow". SGD's dialogues state it themselves."""


@dataclass(frozen=True, slots=True)
class PlannerFolder:
    """A folder of data: its catalogue, its training requests, and its held-out requests.

    Attributes:
        name: of the folder.
        licence: as stated in its ``info.json``.
        apis: the catalogue.
        trained: requests to train on.
        held_out: requests for calibration and comparison.
        key: of everything that determines the folder's examples. Another key gives another file.
    """

    name: str
    licence: str
    apis: tuple[Api, ...]
    trained: tuple[Instance, ...]
    held_out: tuple[Instance, ...]
    key: str

    def file(self, work: Path, kind: str) -> Path:
        """The file that caches examples of that kind."""
        return work / f"{kind}-{self.name}-{self.key}.jsonl.gz"


def is_held_out(identifier: str) -> bool:
    """Whether the request with that id is reserved for measuring."""
    return int(hashlib.sha256(identifier.encode()).hexdigest(), 16) % _HELD_OUT == 0


def read_folder(path: Path, recipe: Recipe) -> PlannerFolder:
    """Read and split a folder.

    Raises:
        DataError: it cannot be read.
    """
    whole = read_all(path)
    splits = training_splits({one.split or "" for one in whole.instances})
    known = {api.id for api in whole.apis}
    free = [one for one in whole.instances if (one.split or "") in splits and one.apis <= known]
    if not any(call.args for one in free for call in one.calls):
        free = []  # only a catalogue, perhaps with names of calls: no arguments to learn from
    random.Random(recipe.seed).shuffle(free)  # noqa: S311 - a repeatable choice, not a secret
    unseen = path.name in recipe.unseen
    held_out = free if unseen else [one for one in free if is_held_out(one.id)][: recipe.validation]
    kept = {one.id for one in held_out}
    trained = [one for one in free if one.id not in kept]
    if path.name not in recipe.whole:
        trained = trained[: recipe.requests]
    drawn = recipe.model_dump_json(include={"seed", "requests", "validation", "made", "made_each", "made_least"})
    key = hashlib.sha256(f"{drawn} {len(whole.apis)} {len(free)} {len(trained)}".encode()).hexdigest()[:12]
    return PlannerFolder(path.name, licence(path), whole.apis, tuple(trained), tuple(held_out), key)


def write_held_out(folder: PlannerFolder, source: Path, out: Path) -> None:
    """Write the held-out requests, unchanged, as a folder that ``nestor eval plan`` reads."""
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("tools*.jsonl*")):
        (out / file.name).write_bytes(file.read_bytes())
    lines = (json.dumps(_row(one), ensure_ascii=False) for one in folder.held_out)
    (out / "instances.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def recorded_examples(folder: PlannerFolder, cache: Path, work: Path, progress: Progress) -> list[Example]:
    """The training requests, aligned, with the retriever's candidates; cached in ``work``."""
    return _kept(folder.file(work, "recorded"), partial(_recorded, folder, folder.trained, cache, progress))


def held_out_examples(folder: PlannerFolder, cache: Path, work: Path, progress: Progress) -> list[Example]:
    """The held-out requests in the same form."""
    return _kept(folder.file(work, "held-out"), partial(_recorded, folder, folder.held_out, cache, progress))


def made_examples(folder: PlannerFolder, recipe: Recipe, cache: Path, work: Path, progress: Progress) -> list[Example]:
    """Requests generated for its catalogue; cached in ``work``."""
    return _kept(folder.file(work, "made"), partial(_made, folder, recipe, cache, progress))


def _recorded(
    folder: PlannerFolder, instances: Sequence[Instance], cache: Path, progress: Progress
) -> Iterator[Example]:
    aligner = Aligner({api.id: api for api in folder.apis}, folder.name)
    offers = _offers(folder, cache, progress)
    needed = dataclasses.replace(offers, source=Source.GOLD, distractors=_DISTRACTORS)
    own = dataclasses.replace(offers, source=Source.GIVEN)
    for instance in progress.track(instances, description=f"aligning {folder.name}"):
        canonical = [call.args_canonical for call in instance.calls]
        example = aligner.align(instance, canonical=canonical, now=instance.now or CLOCKS.get(folder.name))
        if example is not None:
            # If none of a request's own APIs fits, another of the catalogue might, so only its own are offered.
            source = own if instance.tools and not instance.calls else offers
            offered = _offered(example, source.offer(instance))
            offered = offered or _given(example, needed.offer(instance))
            if offered.candidates:  # its own list may name APIs of another catalogue
                yield _without_twins(offered, set(instance.tools)) if instance.tools else offered


def _made(folder: PlannerFolder, recipe: Recipe, cache: Path, progress: Progress) -> Iterator[Example]:
    """If the retriever does not find the right APIs, keep the drawn candidates, without scores."""
    offers = _offers(folder, cache, progress)
    count = int(min(recipe.made, max(recipe.made_least, recipe.made_each * len(folder.apis))))
    examples = synthesise(folder.apis, recipe.seed, count, source=f"{folder.name}{MADE}")
    for example in progress.track(examples, total=count, description=f"making requests of {folder.name}"):
        asked = Instance(id=example.id, query=example.query)
        yield (_offered(example, offers.offer(asked)) or example) if example.calls else example


def _offered(example: Example, offer: Offer) -> Example | None:
    """The example with the retriever's candidates; None if these lack a needed API."""
    found = {one.api.id for one in offer.candidates}
    if not {call.api for call in example.calls} <= found:
        return None
    scores = tuple(features_of(one, rank) for rank, one in enumerate(offer.candidates))
    return dataclasses.replace(example, candidates=tuple(one.api for one in offer.candidates), scores=scores)


def _given(example: Example, offer: Offer) -> Example:
    """The example with the needed APIs and similar ones, for chains with implicit links that the retriever misses."""
    return dataclasses.replace(example, candidates=tuple(one.api for one in offer.candidates))


def _without_twins(example: Example, own: set[str]) -> Example:
    """The example without candidates that share a needed API's name and were not in the request's own list.

    If a name repeats in a catalogue, the second one is ``name__2``. Either may be right, but the data has only one.
    """
    names = {call.api.partition("__")[0] for call in example.calls}
    keep = [
        index for index, api in enumerate(example.candidates) if api.id in own or api.id.partition("__")[0] not in names
    ]
    scores = example.scores and tuple(example.scores[index] for index in keep)
    return dataclasses.replace(example, candidates=tuple(example.candidates[i] for i in keep), scores=scores)


def _offers(folder: PlannerFolder, cache: Path, progress: Progress) -> Offers:
    settings = RetrieverSettings()
    encoder = load_encoder(settings.encoder, 2)
    snapshot = build_snapshot(folder.apis, encoder, progress, cache)
    options = shipped_options(settings, encoder.name)
    return Offers(snapshot, {api.id: api for api in folder.apis}, encoder, options, Source.OWN)


def _kept(file: Path, make: partial[Iterator[Example]]) -> list[Example]:
    if not file.exists():
        part = file.with_name(f"part-{file.name}")
        write_examples(part, _sound(make()))
        part.replace(file)
    return list(read_examples(file))


def _sound(examples: Iterable[Example]) -> Iterator[Example]:
    for example in examples:
        try:
            check(example)
        except InvalidExample:
            continue
        yield example


def _row(instance: Instance) -> dict[str, object]:
    return instance.model_dump(mode="json", exclude_none=True)
