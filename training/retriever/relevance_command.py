"""Implements ``nestor train relevance``: reads folders of data, and writes the second stage's model.

The folders and the held-out requests are those of ``nestor train retriever``. Each request has variants: unchanged;
with its provider named; without the APIs of its provider, so that nothing fits; with a short list of tools that
includes the needed ones, and with one that does not.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from evals.absence import without_vendors
from evals.data import NO_PROVIDER, DataError, Dataset, Instance
from evals.retrieve import build_snapshot, name_providers
from retriever_svc.engine.ranking import RankingOptions
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.settings import RetrieverSettings
from services.encoder import Encoder, EncoderError, load_encoder
from training.retriever.command import read_folder
from training.retriever.recipe import Recipe
from training.retriever.relevance import Example, Quality, example, fitted

_ABSENT = 0.5
_LISTED = 0.5
_LIST = 5
_REQUESTS = 800
"""Maximum per folder, so that no folder outweighs the others."""
_PROVIDERS = 20
"""With fewer providers, a catalogue is too narrow: a request might fit it even without its own provider."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Ask:
    """A variant of a request. ``allowed``: positions to search, None for all."""

    query: str
    needed: frozenset[str]
    allowed: NDArray[np.int64] | None
    kind: str
    group: str


def train_relevance(
    folders: Sequence[Path],
    hold_out: Mapping[str, int],
    encoder_name: str,
    evidence_name: str,
    out: Path,
    cache: Path | None,
) -> int:
    """Gather examples, fit and write the model; print its cross-validated quality.

    Args:
        folders: of data.
        hold_out: by folder name, the size of the sample of ``nestor eval retrieve --limit`` that is not trained on.
        encoder_name: the encoder that will serve.
        evidence_name: the encoder that finds the candidates to learn from. One that was trained on these requests finds
            them better than it will find others, and a model fitted to that trusts it too much.
        out: the file to write.
        cache: file that caches the vectors of catalogues between runs.

    Returns:
        The exit status: 0, or 1 if the data cannot be used.
    """
    err = Console(stderr=True)
    try:
        served, encoder = load_encoder(encoder_name), load_encoder(evidence_name, 2)
        with Progress(console=err, transient=True) as progress:
            examples = [
                one
                for folder in folders
                for one in _examples(folder, hold_out.get(folder.name, 0), encoder, progress, cache)
            ]
        if not {True, False} <= {bool(one.wanted) for one in examples}:
            raise DataError("requests are needed that something fits, and some that nothing does: more data")
    except (DataError, EncoderError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    model, quality = fitted(examples, served.name)
    model.save(out)
    Console().print(_table(examples, quality))
    return 0


def _examples(
    folder: Path, hold_out: int, encoder: Encoder, progress: Progress, cache: Path | None
) -> Iterator[Example]:
    dataset = _read(folder, hold_out)
    snapshot = build_snapshot(dataset.apis, encoder, progress, cache)
    options = RankingOptions(dense_weight=RetrieverSettings().dense_weight)
    for ask in progress.track(list(_asks(folder.name, dataset, snapshot)), description=f"asking {folder.name}"):
        made = example(snapshot, encoder, ask.query, ask.needed, ask.allowed, options, ask.kind, ask.group)
        if made is not None:
            yield made


def _read(folder: Path, hold_out: int) -> Dataset:
    """All APIs, and the requests that may be trained on."""
    read = read_folder(folder, hold_out, 0, Recipe(requests=_REQUESTS))
    return dataclasses.replace(read.validation, instances=read.recorded)


def _asks(name: str, dataset: Dataset, snapshot: Snapshot) -> Iterator[_Ask]:
    rng = random.Random(f"relevance {name}")  # noqa: S311 - a repeatable draw, not a secret
    providers = {api.id: api.provider for api in dataset.apis}
    named = name_providers(dataset).instances
    for one, other in zip(dataset.instances, named, strict=True):
        own = {providers[api] for api in one.apis}
        group = f"{name} {min(one.apis) if NO_PROVIDER in own else min(own).partition('~')[0]}"
        yield _Ask(one.query, one.apis, None, name, group)
        if other.query != one.query:
            yield _Ask(other.query, one.apis, None, f"{name}, provider named", group)
        if len(snapshot.providers) >= _PROVIDERS and rng.random() < _ABSENT:
            others = without_vendors(snapshot, set(_positions(snapshot, one.apis).tolist()))
            yield _Ask(one.query, frozenset(), others, f"{name}, provider absent", group)
        if rng.random() < _LISTED:
            yield from _listed(one, dataset, snapshot, group, rng)


def _listed(one: Instance, dataset: Dataset, snapshot: Snapshot, group: str, rng: random.Random) -> Iterator[_Ask]:
    """The request with a short list of needed tools and others, and with a list of others only."""
    others = [api.id for api in rng.sample(dataset.apis, min(_LIST, len(dataset.apis))) if api.id not in one.apis]
    fitting, unfitting = (_positions(snapshot, ids) for ids in ({*one.apis, *others[: rng.randrange(_LIST)]}, others))
    yield _Ask(one.query, one.apis, fitting, "short list", group)
    if others:
        yield _Ask(one.query, frozenset(), unfitting[: rng.randint(1, len(unfitting))], "short list of others", group)


def _positions(snapshot: Snapshot, ids: Set[str] | Sequence[str]) -> NDArray[np.int64]:
    wanted = set(ids)
    return np.array([place for place, key in enumerate(snapshot.entries.ids) if key in wanted], np.int64)


def _table(examples: Sequence[Example], quality: Quality) -> Table:
    """The cross-validated results for every kind of request."""
    table = Table("requests", "n", "all@5", "all@10", "AUROC against", "below the threshold", box=None)
    for kind in quality.refused:
        at_5, at_10 = (f"{value:.1f}" for value in quality.found[kind]) if kind in quality.found else ("", "")
        auroc = f"{quality.auroc[kind]:.3f}" if kind in quality.auroc else ""
        count = sum(one.kind == kind for one in examples)
        table.add_row(kind, str(count), at_5, at_10, auroc, f"{quality.refused[kind]:.1f} %")
    table.caption = f"threshold {quality.threshold:.3f}"
    return table
