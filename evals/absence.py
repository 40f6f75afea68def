"""``nestor eval absence``: does the retriever notice that no API fits?

Compares requests that some API fits with requests that none fits. If the data gives each request its own list of tools
(as BFCL's irrelevance rows do, where some lists hold nothing useful), a request is asked against its list. Otherwise
each request is asked twice: against the whole catalogue, and against the catalogue without the vendors of the APIs
that it needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from rich.progress import Progress

from evals.data import DataError, Instance
from evals.metrics import auroc
from retriever_svc.engine.ranking import RankingOptions, rank
from retriever_svc.engine.relevance import any_needed
from retriever_svc.engine.snapshot import Snapshot
from services.encoder import Encoder

_K = 10


class AbsenceReport(BaseModel):
    """What was measured. Percentages are 0 to 100.

    Attributes:
        fitting: number of requests that some API fits.
        unfitting: number of requests that no API fits.
        catalogue: number of APIs searched, or that the lists are made of.
        encoder: its name and the hash of its content.
        auroc: of the likelihood that any API is needed: how often it is higher for a fitting request, 0 to 1.
        refused_fitting: percent of the fitting requests that get an empty list.
        refused_unfitting: percent of the unfitting requests that get an empty list.
    """

    fitting: int
    unfitting: int
    catalogue: int
    encoder: str
    auroc: float
    refused_fitting: float
    refused_unfitting: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A request, the positions it may search (None: all), and whether an API there fits."""

    query: str
    allowed: NDArray[np.int64] | None
    fits: bool


def measure_absence(
    snapshot: Snapshot, encoder: Encoder, instances: Sequence[Instance], options: RankingOptions, progress: Progress
) -> AbsenceReport:
    """Ask every request with and without its APIs, or against its own list.

    Args:
        snapshot: the index to search.
        encoder: the encoder that made the snapshot's vectors.
        instances: the requests.
        options: the service's ranking options.
        progress: shows a bar.

    Raises:
        DataError: the data does not hold both kinds of requests.
    """
    trials = list(trials_of(snapshot, instances))
    fits = np.array([one.fits for one in trials], bool)
    if fits.all() or not fits.any():
        raise DataError("requests are needed that something fits, and others that nothing fits")
    asked = progress.track(trials, description="asking")
    found = np.array([_ask(snapshot, encoder, one, options) for one in asked])
    best, refused = found[:, 0], found[:, 1]
    return AbsenceReport(
        fitting=int(fits.sum()),
        unfitting=int((~fits).sum()),
        catalogue=len(snapshot.entries),
        encoder=encoder.name,
        auroc=round(auroc(best[fits], best[~fits]), 4),
        refused_fitting=round(100 * float(refused[fits].mean()), 2),
        refused_unfitting=round(100 * float(refused[~fits].mean()), 2),
    )


def trials_of(snapshot: Snapshot, instances: Sequence[Instance]) -> Iterator[Trial]:
    """The trials to run; see the module's docstring."""
    known = {key: place for place, key in enumerate(snapshot.entries.ids)}
    if any(one.tools for one in instances):
        for one in instances:
            tools = set(one.tools or ())
            own = np.array(sorted(known[tool] for tool in tools if tool in known), np.int64)
            if len(own) and one.apis <= tools:
                yield Trial(one.query, own, bool(one.calls))
        return
    for one in instances:
        if one.apis and one.apis <= known.keys():
            yield Trial(one.query, None, True)
            yield Trial(one.query, without_vendors(snapshot, {known[api] for api in one.apis}), False)


def without_vendors(snapshot: Snapshot, positions: Set[int]) -> NDArray[np.int64]:
    """Positions of all APIs except those of the same vendors. The vendor of ``adyen.com~Payments`` is ``adyen.com``."""
    vendors = {snapshot.names[int(snapshot.facts.owners[position])].partition("~")[0] for position in positions}
    gone = [number for number, name in enumerate(snapshot.names) if name.partition("~")[0] in vendors]
    return np.flatnonzero(~np.isin(snapshot.facts.owners, gone))


def _ask(snapshot: Snapshot, encoder: Encoder, trial: Trial, options: RankingOptions) -> tuple[float, bool]:
    """The likelihood that any API is needed (else the best score), and whether the answer is empty."""
    _, hits = rank(snapshot, encoder, trial.query, _K, trial.allowed, dataclasses.replace(options, threshold=0.0))
    relevance = [hit.relevance for hit in hits if hit.relevance is not None]
    likely = any_needed(np.array(relevance, np.float32)) if relevance else max((hit.score for hit in hits), default=0.0)
    _, answer = rank(snapshot, encoder, trial.query, _K, trial.allowed, options)
    return likely, not answer
