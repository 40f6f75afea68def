"""Scores the APIs near a request, by meaning and by words, clause by clause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.features import CandidateSet
from retriever_svc.engine.providers import provider_scores
from retriever_svc.engine.sight import Sight
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids
from services.contracts.retrieval import Clause
from services.encoder import Encoder, Vectors
from services.words import words

_BEST: Final = 80
"""Number of candidates with the best scores; a provider's score is added to those of its APIs."""
_PROVIDERS: Final = 2
_OF_PROVIDER: Final = 60
"""The best ``_OF_PROVIDER`` APIs of the ``_PROVIDERS`` providers that the request probably means are candidates too."""
_READ: Final = 300
"""Most APIs of a provider that are compared by meaning: those that share most words with the request."""
_PROVIDER_WEIGHT, _NAME_WEIGHT = 0.7, 0.2


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of m APIs: (m,) positions in order; (c, m) scores and signals."""

    positions: Ids
    fused: Vectors
    dense: Vectors
    lexical: Vectors


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A request against a snapshot.

    Attributes:
        clauses: the clauses; the last one is the whole request.
        queries: (c, d) vectors of the clauses.
        lexical: (c, n) BM25 scores of all APIs, 0 for those that are not allowed.
        near: positions of the APIs nearest by meaning or words.
        allowed: positions that the request is limited to; None: all.
        sight: what the request's tenant sees.
    """

    snapshot: Snapshot
    clauses: tuple[Clause, ...]
    queries: Vectors
    lexical: Vectors
    near: Ids
    allowed: Ids | None
    sight: Sight

    def positions(self, more: Ids | list[int]) -> Ids:
        """The positions that are near, and ``more``."""
        return np.union1d(self.near, np.asarray(more, np.int64))

    def candidate_set(self, scores: Scores) -> CandidateSet:
        """The candidates with the data that features are computed from."""
        snapshot, positions = self.snapshot, scores.positions
        best, owners = scores.fused.max(axis=0), snapshot.facts.owners[positions]
        return CandidateSet(
            clauses=tuple(clause.text for clause in self.clauses),
            dense=np.clip(scores.dense, 0, 1),
            lexical=scores.lexical,
            fused=scores.fused,
            matched=self.lexical[:, positions],
            traits=snapshot.facts.traits[positions],
            owners=owners,
            provider_scores=self.provider_scores(best, owners),
            name_matches=self.name_matches(),
            sizes=self.sight.sizes,
        )

    def provider_scores(self, scores: Vectors, owners: NDArray[np.int32]) -> Vectors:
        """See :func:`providers.provider_scores`. Providers that the tenant does not see have -1, to rank last."""
        found = provider_scores(scores, owners, len(self.snapshot.names))
        found[self.sight.sizes == 0] = -1
        return found

    def name_matches(self) -> Vectors:
        """See :meth:`ProviderNames.matches`. Providers that the tenant does not see are not named by any request."""
        found = self.snapshot.provider_names.matches(self.clauses[-1].text)
        found[self.sight.sizes == 0] = 0
        return found


def prepare_query(
    snapshot: Snapshot,
    encoder: Encoder,
    clauses: tuple[Clause, ...],
    depth: int,
    allowed: Ids | None,
    sight: Sight | None = None,
) -> PreparedQuery:
    """Encode a request's clauses and find the APIs near each: ``depth`` by meaning, and as many by words.

    Args:
        snapshot: the catalogue to search.
        encoder: the encoder of the snapshot's vectors.
        clauses: the clauses; the last one is the whole request.
        depth: number of APIs to find.
        allowed: positions that the request is limited to, all of them in sight; None: all.
        sight: what the request's tenant sees; None: everything.
    """
    queries = encode_clauses(encoder, clauses)
    sight = sight or Sight.of(snapshot)
    lexical = np.stack([sight.lexical.scores(words(clause.text)) for clause in clauses])
    if allowed is not None:
        mask = np.zeros(len(snapshot.entries), dtype=bool)
        mask[allowed] = True
        lexical[:, ~mask] = 0
    numbers = None if allowed is None else snapshot.numbers[allowed]
    near = [snapshot.positions[int(n)] for n in np.unique(snapshot.vectors.search(queries, depth, numbers)[0])]
    # Only what is allowed is partitioned: which of equal scores come first depends on all that is.
    searched = lexical if allowed is None else lexical[:, allowed]
    cut = min(depth, searched.shape[1])
    top = np.argpartition(-searched, cut - 1, axis=1)[:, :cut]
    matching = top[np.take_along_axis(searched, top, axis=1) > 0]
    both = np.unique(np.concatenate([near, matching if allowed is None else allowed[matching]]).astype(np.int64))
    return PreparedQuery(snapshot, clauses, queries, lexical, both, allowed, sight)


def encode_clauses(encoder: Encoder, clauses: tuple[Clause, ...]) -> Vectors:
    """The vectors of a request's clauses, the whole of it last: (c, d). The encoder reads the request once.

    A clause's vector is the mean of its token vectors in the whole request. This is as good as encoding the clause
    separately (docs/retrieval.md), and half the work. Only clauses beyond the encoder's limit are encoded separately.
    """
    *parts, last = clauses
    if not parts:
        return encoder.encode([last.text])
    read = encoder.encode_tokens(last.text)
    offsets = np.asarray(read.offsets, np.int64).reshape(-1, 2)
    inside = [(offsets[:, 0] < part.end) & (offsets[:, 1] > part.start) for part in parts]
    cut_off = [number for number, tokens in enumerate(inside) if not tokens.any()]
    vectors = np.stack([*(_mean(read.vectors[tokens]) for tokens in inside), read.pooled])
    if cut_off:
        vectors[cut_off] = encoder.encode([parts[number].text for number in cut_off])
    return vectors.astype(np.float32)


def _mean(tokens: Vectors) -> Vectors:
    """The mean of (t, d) token vectors, normalised to length 1; zeros if there is no token."""
    total = tokens.sum(axis=0)
    mean: Vectors = total / max(float(np.linalg.norm(total)), 1e-9)
    return mean


def score(prepared: PreparedQuery, positions: Ids, dense_weight: float, context: float) -> Scores:
    """Score these APIs (see :mod:`ranking`)."""
    snapshot, lexical = prepared.snapshot, prepared.lexical
    dense = snapshot.vectors.similarities(prepared.queries, snapshot.numbers[positions])
    relative = lexical[:, positions] / np.maximum(lexical.max(axis=1, keepdims=True), 1e-9)
    fused = dense_weight * np.clip(dense, 0, 1) + (1 - dense_weight) * relative
    fused[:-1] += context * (fused[-1] - fused[:-1])
    return Scores(positions, fused.astype(np.float32), dense, relative.astype(np.float32))


def candidates(
    prepared: PreparedQuery, exact: list[int], dense_weight: float, context: float, least: int = 0
) -> Scores:
    """The best APIs by score (at least ``least``), and the best ones of the providers that are probably meant."""
    snapshot = prepared.snapshot
    first = score(prepared, prepared.positions(exact), dense_weight, context)
    owners = snapshot.facts.owners[first.positions]
    likely = prepared.provider_scores(first.fused.max(axis=0), owners)
    likely = np.where(likely > 0, likely + _NAME_WEIGHT * prepared.name_matches(), likely)
    providers = np.argsort(-likely, kind="stable")[:_PROVIDERS]
    members = [_members(prepared, int(provider)) for provider in providers if likely[provider] > 0]
    more = np.setdiff1d(np.concatenate([*members, np.empty(0, np.int64)]), first.positions)
    scores = _joined(first, score(prepared, more, dense_weight, context))
    best, owners = scores.fused.max(axis=0), snapshot.facts.owners[scores.positions]
    boosted = best + _PROVIDER_WEIGHT * likely[owners]
    kept = [_highest(boosted, max(_BEST, least)), np.flatnonzero(np.isin(scores.positions, exact))]
    for provider in providers:
        own = np.flatnonzero(owners == provider)
        kept.append(own[_highest(best[own], _OF_PROVIDER)])
    return _selected(scores, np.unique(np.concatenate(kept)))


def within_budget(fused: Vectors, ranked: list[int], exact: int, k: int, worth: NDArray[np.bool_]) -> list[int]:
    """The first ``k`` of the ranked APIs, with the best of every clause among them if there is room for all.

    Otherwise a clause whose wording is less similar to its API than the others' would get no API, and the plan would
    fail.

    Args:
        fused: (clauses, m) scores.
        ranked: indices of all m, best first.
        exact: number of the first ranked ones that are always chosen.
        k: number of APIs to choose.
        worth: (m,) which ones may be chosen for a clause.
    """
    by_rank = np.asarray(ranked)
    firsts = by_rank[fused[:, by_rank].argmax(axis=1)].tolist()  # ties go to the better ranked
    needed = dict.fromkeys([*ranked[:exact], *(m for m in firsts if worth[m])])
    if len(needed) > k:
        return ranked[:k]
    return [*needed, *(m for m in ranked if m not in needed)][:k]


def best_of_each(fused: Vectors, count: int) -> list[int]:
    """The indices of the ``count`` highest scores of every clause; ties in order of position."""
    best: list[int] = np.unique(np.argsort(-fused, axis=1, kind="stable")[:, :count]).tolist()
    return best


def _members(prepared: PreparedQuery, provider: int) -> Ids:
    """A provider's APIs; if there are many, those that share most words with the request."""
    members = prepared.snapshot.providers[prepared.snapshot.names[provider]]
    if prepared.allowed is not None:
        members = np.intersect1d(members, prepared.allowed)
    return members[_highest(prepared.lexical[:, members].max(axis=0), _READ)]


def _highest(values: Vectors, count: int) -> Ids:
    """The indices of the highest values, in no particular order."""
    return np.arange(len(values)) if len(values) <= count else np.argpartition(-values, count)[:count]


def _joined(one: Scores, other: Scores) -> Scores:
    """The scores of two disjoint sets of APIs together."""
    order = np.argsort(np.concatenate([one.positions, other.positions]))

    def joined(first: Vectors, second: Vectors) -> Vectors:
        return np.concatenate([first, second], axis=1)[:, order]

    return Scores(
        np.concatenate([one.positions, other.positions])[order],
        joined(one.fused, other.fused),
        joined(one.dense, other.dense),
        joined(one.lexical, other.lexical),
    )


def _selected(scores: Scores, kept: Ids) -> Scores:
    return Scores(scores.positions[kept], scores.fused[:, kept], scores.dense[:, kept], scores.lexical[:, kept])
