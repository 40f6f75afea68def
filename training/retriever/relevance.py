"""Examples for the relevance model, and its quality on requests it was not fitted to.

An example is a request with the evidence of all its candidates, gathered as in service. For some requests the fitting
APIs are removed, so that the model learns what the evidence looks like if nothing fits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from retriever_svc.engine.clauses import split_clauses
from retriever_svc.engine.features import features
from retriever_svc.engine.ranking import RankingOptions, whole
from retriever_svc.engine.relevance import RelevanceModel, any_needed
from retriever_svc.engine.scoring import candidates, prepare_query
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids
from services.encoder import Encoder, Vectors
from training.retriever.forest import fit

FOLDS = 5
REFUSED = 0.003
"""Share of the answerable requests of each kind, not fitted to, that may fall below the threshold.

It is small because users phrase requests in more ways than the data. A plan can still be refused later, but a missing
API cannot be planned with.
"""


@dataclass(frozen=True, slots=True)
class Example:
    """A request and its candidates.

    Attributes:
        kind: of request, for the report.
        group: examples of one group are always in the same fold, such as those of one provider's APIs.
        evidence: (m, c) of the candidates.
        fused: (clauses, m) scores.
        needed: (m,) whether each is needed.
        wanted: how many APIs the request needs, found or not; 0: nothing fits it.
    """

    kind: str
    group: str
    evidence: Vectors
    fused: Vectors
    needed: NDArray[np.bool_]
    wanted: int


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a model on requests it was not fitted to, in percent.

    Attributes:
        found: by kind of request, all-tools@5 and all-tools@10.
        auroc: of the likelihood that any API is needed: fitting requests against those that nothing fits, by the
            kind of the latter.
        refused: by kind, the share below the threshold.
        threshold: the likelihood.
    """

    found: dict[str, tuple[float, float]]
    auroc: dict[str, float]
    refused: dict[str, float]
    threshold: float


def example(
    snapshot: Snapshot,
    encoder: Encoder,
    query: str,
    needed: Set[str],
    allowed: Ids | None,
    options: RankingOptions,
    kind: str,
    group: str,
) -> Example | None:
    """The candidates of a request; None if there are none.

    Args:
        snapshot: the index to search.
        encoder: the encoder that made the snapshot's vectors.
        query: the request.
        needed: ids of the APIs it needs.
        allowed: positions it may search; None: all.
        options: how scores are computed.
        kind: of request.
        group: the group that stays in one fold.
    """
    clauses = (*split_clauses(query), whole(query))
    prepared = prepare_query(snapshot, encoder, clauses, options.depth, allowed)
    scores = candidates(prepared, [], options.dense_weight, options.context)
    if not len(scores.positions):
        return None
    found = [snapshot.entries.ids[position] in needed for position in scores.positions.tolist()]
    return Example(kind, group, features(prepared.candidate_set(scores)), scores.fused, np.array(found), len(needed))


def fitted(examples: Sequence[Example], encoder: str) -> tuple[RelevanceModel, Quality]:
    """The model fitted to all examples, and its cross-validated quality, which determines its threshold.

    Args:
        examples: of all kinds.
        encoder: name of the encoder that will serve.
    """
    quality = cross_validated(examples)
    return _fit(examples, encoder, quality.threshold), quality


def cross_validated(examples: Sequence[Example]) -> Quality:
    """Fit to all folds but one and measure on that one, for each fold."""
    folds = np.array([zlib.crc32(one.group.encode()) % FOLDS for one in examples])
    found: dict[str, list[tuple[bool, bool]]] = {}
    best: dict[str, list[float]] = {}
    for fold in range(FOLDS):
        model = _fit([one for one, at in zip(examples, folds, strict=True) if at != fold], "", 0.0)
        for one in (one for one, at in zip(examples, folds, strict=True) if at == fold):
            likely = model.probabilities(one.evidence)
            best.setdefault(one.kind, []).append(any_needed(likely))
            if one.wanted:
                found.setdefault(one.kind, []).append((_all_found(one, likely, 5), _all_found(one, likely, 10)))
    threshold = min(float(np.quantile(best[kind], REFUSED)) for kind in found)
    fitting = [value for kind in found for value in best[kind]]
    return Quality(
        found={kind: _percents(rows) for kind, rows in found.items()},
        auroc={kind: _auroc(fitting, values) for kind, values in best.items() if kind not in found},
        refused={kind: round(100 * float(np.mean(np.array(values) < threshold)), 1) for kind, values in best.items()},
        threshold=threshold,
    )


def _fit(examples: Sequence[Example], encoder: str, threshold: float) -> RelevanceModel:
    rows = np.concatenate([one.evidence for one in examples])
    return fit(rows, np.concatenate([one.needed for one in examples]), encoder, threshold)


def _all_found(one: Example, likely: Vectors, k: int) -> bool:
    ranked = np.argsort(-likely, kind="stable").tolist()
    return int(one.needed[ranked[:k]].sum()) == one.wanted


def _percents(rows: Iterable[tuple[bool, bool]]) -> tuple[float, float]:
    at_5, at_10 = (100 * np.mean(np.array(list(rows)), axis=0)).round(1).tolist()
    return at_5, at_10


def _auroc(fitting: Sequence[float], others: Sequence[float]) -> float:
    truth = np.repeat([1, 0], [len(fitting), len(others)])
    return round(float(roc_auc_score(truth, [*fitting, *others])), 3)
