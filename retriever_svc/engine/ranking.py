"""Ranks the APIs for a request: per clause by meaning and by words, then by the best score over the clauses.

An API's score for the whole request is ``w * cosine + (1 - w) * lexical``: the cosine of the embeddings (negative ones
count as 0), and its BM25 score relative to the best of any API. Its score for a clause is computed in the same way from
the clause, and mixed with the score for the whole request, which gives the context. So 1 is an API that means exactly
what is asked and matches its words best, 0 one that shares nothing with it; an exact name counts as 1.

The score is not a probability. A second stage (see :mod:`relevance`) computes how likely an API is needed, from this
score and other features. It decides the order, and whether the answer is empty.

Weights and rules were chosen on development data only; docs/retrieval.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever_svc.engine.clauses import split_clauses
from retriever_svc.engine.features import features
from retriever_svc.engine.filters import Filters, within
from retriever_svc.engine.relevance import any_needed, load_relevance
from retriever_svc.engine.scoring import (
    PreparedQuery,
    Scores,
    best_of_each,
    candidates,
    prepare_query,
    score,
    within_budget,
)
from retriever_svc.engine.sight import Sight
from retriever_svc.engine.snapshot import Snapshot, exact_key
from retriever_svc.engine.suppliers import find_suppliers, rest_of_small
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import Hit
from retriever_svc.settings import RetrieverSettings
from services.contracts.retrieval import Clause, FoundBy
from services.encoder import Encoder, Vectors
from services.telemetry import get_logger

_log = get_logger(__name__)
_MAX_TOKENS = 2_000
_SMALL = 2
"""A provider is small if it has at most ``k // _SMALL`` APIs: it fits into the budget beside others."""
_SPARED = 4
"""Up to ``k // _SPARED`` of the last hits may be replaced by the rest of small providers."""
_WORTH = 0.05
"""A clause's best API gets no reserved place if it is less likely than this."""
_IDENTIFIER = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|\w[._/-]\w|^/")
"""No part of it repeats: a search tries each place of a word, which may be the whole of a long request."""
_QUOTES = "\"'`“”«»()[]<>,;:!?."
_GIVEN = frozenset({"pinned", "exact_name"})
"""Reasons by which the request itself says that an API is needed."""
_METHODS = frozenset({"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"})


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How the signals are joined.

    Attributes:
        dense_weight: w above, 0 (words only) to 1 (meaning only).
        context: share of the whole request's score in a clause's.
        depth: least number of APIs that are found per clause and signal.
        split: whether the request is split into clauses.
        reserve: whether every clause's best API has a place among the ``k``; with a relevance model, only if that API
            is not too unlikely.
        per_clause: number of every clause's best APIs that are added to the ``k``, for callers that choose an API for
            each clause.
        relevance: the model that decides the order (see :mod:`relevance`); empty: the score decides.
        threshold: the answer is empty if it is less likely than this that any API is needed; None: the model's own.
    """

    dense_weight: float = 0.6
    context: float = 0.4
    depth: int = 50
    split: bool = True
    reserve: bool = True
    per_clause: int = 0
    relevance: str = ""
    threshold: float | None = None


def shipped_options(settings: RetrieverSettings, encoder: str) -> RankingOptions:
    """The options for these settings.

    Args:
        settings: the service's settings.
        encoder: name of the encoder in use.

    Raises:
        RelevanceError: the relevance model cannot be used.
    """
    named = "" if settings.relevance == "none" else settings.relevance
    if named and (fitted := load_relevance(named).encoder.item()) != encoder:
        _log.warning("relevance_not_used", reason="it was trained for another encoder", encoder=encoder, fitted=fitted)
        named = ""
    return RankingOptions(dense_weight=settings.dense_weight, relevance=named, threshold=settings.relevance_threshold)


def find(
    snapshot: Snapshot,
    encoder: Encoder,
    query: str,
    k: int,
    suppliers: int,
    filters: Filters,
    options: RankingOptions,
) -> tuple[tuple[Clause, ...], list[Hit]]:
    """The clauses of a request, the whole of it as the last one, and the best APIs. Blocks: run it on a pool.

    Args:
        snapshot: the catalogue to search.
        encoder: the encoder of the snapshot's vectors.
        query: the request.
        k: budget over all clauses.
        suppliers: budget of further APIs that supply inputs of the best ones; they come after the ``k``. If it is not
            0, the rest of small providers comes last, within both budgets.
        filters: which APIs are searched, and which come first regardless of their score.
        options: how the signals are joined.
    """
    allowed, sight = filters.allowed(snapshot), Sight.of(snapshot, filters.seen(snapshot))
    clauses, hits = rank(snapshot, encoder, query, k, allowed, options, filters.pinned_positions(snapshot), sight)
    if not suppliers or not hits:
        return clauses, hits
    supplying = [
        Hit.further(entry, len(clauses), "supplier")
        for entry in find_suppliers(snapshot, hits, suppliers, allowed, sight)
    ]
    rest = [
        Hit.further(entry, len(clauses), "provider")
        for entry in rest_of_small(snapshot, hits, k // _SMALL, allowed, sight)
    ]
    return clauses, _together(hits, supplying, rest, k, suppliers)


def _together(hits: list[Hit], supplying: list[Hit], rest: list[Hit], k: int, suppliers: int) -> list[Hit]:
    """The hits, their suppliers, and the rest of small providers, which may replace the least likely hits."""
    supplied = {hit.entry.number for hit in supplying}
    rest = [hit for hit in rest if hit.entry.number not in supplied]
    room = k + suppliers - len(supplying)
    given = sum(hit.found_by in _GIVEN for hit in hits)
    spared = max(0, min(len(hits) + len(rest) - room, k // _SPARED, len(hits) - given))
    kept = hits[: len(hits) - spared]
    return kept + supplying + rest[: max(0, room - len(kept))]


def rank(
    snapshot: Snapshot,
    encoder: Encoder,
    query: str,
    k: int,
    allowed: Ids | None,
    options: RankingOptions,
    pinned: Sequence[int] = (),
    sight: Sight | None = None,
) -> tuple[tuple[Clause, ...], list[Hit]]:
    """:func:`find` among the allowed positions (None: all), pinned ones first, without suppliers.

    ``sight`` is what the tenant sees; None: everything.
    """
    sight = sight or Sight.of(snapshot)
    clauses = (*(split_clauses(query) if options.split else ()), whole(query))
    if not snapshot.entries or (allowed is not None and not len(allowed)):
        return clauses, []
    exact = list(dict.fromkeys([*pinned, *_exact(snapshot, query, allowed, sight)]))[:k]
    prepared = prepare_query(snapshot, encoder, clauses, max(options.depth, 4 * k), allowed, sight)
    if not options.relevance:
        scores = score(prepared, prepared.positions(exact), options.dense_weight, options.context)
        return clauses, _hits(prepared, scores, exact, pinned, k, options, None)
    model = load_relevance(options.relevance)
    scores = candidates(prepared, exact, options.dense_weight, options.context, 2 * k)
    relevance = model.probabilities(features(prepared.candidate_set(scores)))
    threshold = model.threshold if options.threshold is None else options.threshold
    if len(exact) == len(pinned) and any_needed(relevance) < threshold:
        return clauses, _hits(prepared, scores, exact, pinned, k, options, relevance)[: len(pinned)]
    return clauses, _hits(prepared, scores, exact, pinned, k, options, relevance)


def whole(query: str) -> Clause:
    """The whole request as a clause; it comes last."""
    return Clause(text=query, start=0, end=len(query))


def _hits(
    prepared: PreparedQuery,
    scores: Scores,
    exact: list[int],
    pinned: Sequence[int],
    k: int,
    options: RankingOptions,
    relevance: Vectors | None,
) -> list[Hit]:
    best = scores.fused.max(axis=0) if relevance is None else relevance
    chosen = _choose(scores, best, exact, k, options)
    reasons = reasons_of(prepared, scores, exact, pinned, options.dense_weight)
    return [_hit(prepared.snapshot, scores, m, reasons[m], relevance) for m in chosen]


def _choose(scores: Scores, best: Vectors, exact: list[int], k: int, options: RankingOptions) -> list[int]:
    """The scored APIs to return, in order: exact names first, then the best."""
    rank_of = {position: rank for rank, position in enumerate(exact)}

    def order(m: int) -> tuple[int, float, int]:
        # Positions are in order of id, so ties are resolved equally on every replica.
        position = int(scores.positions[m])
        return rank_of.get(position, k), -float(best[m]), position

    ranked = sorted(range(len(scores.positions)), key=order)
    worth = best >= (_WORTH if options.relevance else 0)
    chosen = within_budget(scores.fused, ranked, len(exact), k, worth) if options.reserve else ranked[:k]
    further = best_of_each(scores.fused, options.per_clause) if options.per_clause else []
    return sorted({*chosen, *further}, key=order)


def reasons_of(
    prepared: PreparedQuery, scores: Scores, exact: list[int], pinned: Sequence[int], dense_weight: float
) -> list[FoundBy]:
    """Why each of the scored APIs was found. Of meaning and words, it is the one that contributes more to the score.

    Args:
        prepared: the request.
        scores: the scores of m APIs.
        exact: positions of the APIs that come first: the pinned ones, and those that the request names.
        pinned: positions of the pinned APIs.
        dense_weight: weight of the meaning in a score.
    """
    best = (scores.fused.argmax(axis=0), np.arange(len(scores.positions)))
    by_meaning = dense_weight * scores.dense[best] >= (1 - dense_weight) * scores.lexical[best]
    near = np.isin(scores.positions, prepared.near)
    pairs = zip(near.tolist(), by_meaning.tolist(), strict=True)
    given, named = frozenset(pinned), frozenset(exact)
    reasons: list[FoundBy] = ["provider" if not n else "meaning" if m else "words" for n, m in pairs]
    for place, position in enumerate(scores.positions.tolist()):
        if position in given:
            reasons[place] = "pinned"
        elif position in named:
            reasons[place] = "exact_name"
    return reasons


def _hit(snapshot: Snapshot, scores: Scores, m: int, found_by: FoundBy, relevance: Vectors | None) -> Hit:
    clause = int(scores.fused[:, m].argmax())
    return Hit(
        entry=snapshot.entries[int(scores.positions[m])],
        score=1.0 if found_by == "exact_name" else _round(scores.fused[clause, m]),
        dense=_round(scores.dense[clause, m]),
        lexical=_round(scores.lexical[clause, m]),
        clause=clause,
        clause_scores=tuple(_round(score) for score in scores.fused[:, m]),
        relevance=None if relevance is None else 1.0 if found_by in _GIVEN else _round(relevance[m]),
        found_by=found_by,
    )


def _round(value: np.floating | float) -> float:
    return round(float(value), 4)


def _exact(snapshot: Snapshot, query: str, allowed: Ids | None, sight: Sight) -> list[int]:
    """Positions of APIs whose id, name or path occurs in the request, in the order of occurrence.

    An ordinary word is not an identifier: ``search`` is taken for a name only if it is the whole request.
    """
    tokens = [_bare(token) for token in query.split()]
    found = dict.fromkeys(snapshot.exact.get(exact_key(query), ()))
    named = dict[tuple[str, str], None]()  # each once: thousands of APIs may have one name, and a request repeat it
    for before, token in zip(["", *tokens], tokens[:_MAX_TOKENS], strict=False):
        if _IDENTIFIER.search(token):
            method = before.upper()
            named[method if method in _METHODS else "", exact_key(token)] = None
    for method, key in named:
        positions = sight.of_positions(np.array(snapshot.exact.get(key, ()), np.int64)).tolist()
        of_method = [p for p in positions if snapshot.entries[p].method == method] if method else []
        found |= dict.fromkeys(of_method or positions)
    return list(found) if allowed is None else within(list(found), allowed)


def _bare(token: str) -> str:
    """A word of the request without the punctuation around it; braces belong to a path."""
    return token.strip(_QUOTES)
