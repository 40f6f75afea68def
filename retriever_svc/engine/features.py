"""The features of each candidate, from which a model computes its relevance (see :mod:`relevance`).

The features are: its scores for meaning and words; how it compares with the other candidates; whether its provider is
named or has other fitting APIs; whether its path is a prefix of a better candidate's or the reverse (one lists what
the other reads); whether the verb of the request fits its method. All features are relative or describe form: none
depends on a particular catalogue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine import traits as t
from retriever_svc.engine.traits import Traits, digests
from services.encoder import Vectors
from services.words import words

_BEST: Final = 6
_VERBS: Final = (
    "get list retrieve fetch find search view show check read look obtain see query which what who when where how",
    "create add post send submit generate register book start upload make new run trigger initiate schedule order",
    "update set change replace modify edit rename move mark assign enable disable",
    "delete remove cancel clear unsubscribe revoke",
)
_KIND_OF_VERB: Final = {
    stem: kind for kind, verbs in enumerate(_VERBS) for verb in verbs.split() for stem in words(verb)
}
_PLAIN: Final = re.compile(r"[A-Za-z]+")

COLUMNS: Final = (
    *("dense", "dense_best", "dense_second", "lexical", "lexical_best", "lexical_second", "matched", "matched_best"),
    *("whole", "best", "behind_best", "clause_rank", "behind_clause", "rank"),
    *("meant_behind", "meant_rank", "named", "named_behind", "anyone_named", "provider_size"),
    *("provider_rank", "provider_behind"),
    *("same_road", "same_road_sum", "leads_to", "comes_from", "same_path", "same_name"),
    *("name_covered", "resource_covered"),
    *("reads", "creates", "changes", "removes", "verb_said", "verb_of_clause"),
    *("depth", "parameters", "of_one", "required", "clauses", "words"),
)


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The candidates of a request.

    Attributes:
        clauses: texts; the last one is the whole request.
        dense, lexical, fused: (c, m) scores per clause.
        matched: (c, m) BM25 scores, not normalised. They are low if no API matches many words of the request.
        traits: (m, ``WIDTH``).
        owners: (m,) index of each candidate's provider.
        provider_scores, name_matches: (p,) scores of every provider (see :mod:`providers`).
        sizes: (p,) number of APIs of every provider.
    """

    clauses: tuple[str, ...]
    dense: Vectors
    lexical: Vectors
    fused: Vectors
    matched: Vectors
    traits: Traits
    owners: NDArray[np.int32]
    provider_scores: Vectors
    name_matches: Vectors
    sizes: NDArray[np.int64]


def features(candidates: CandidateSet) -> Vectors:
    """The features of the candidates: (m, ``COLUMNS``) float32."""
    best = candidates.fused.max(axis=0)
    columns = {
        **_scores(candidates, best),
        **_provider(candidates, best),
        **_relations(candidates, best),
        **_wording(candidates),
        **_form(candidates),
    }
    return np.stack([np.asarray(columns[name], np.float32) for name in COLUMNS], axis=1)


def _scores(candidates: CandidateSet, best: Vectors) -> dict[str, Vectors]:
    dense, lexical = -np.sort(-candidates.dense, axis=0), -np.sort(-candidates.lexical, axis=0)
    second = min(1, len(candidates.clauses) - 1)
    per_word = (
        candidates.matched / np.array([max(1, len(set(words(clause)))) for clause in candidates.clauses])[:, None]
    )
    ranks = np.argsort(np.argsort(-candidates.fused, axis=1, kind="stable"), axis=1)
    return {
        "dense": candidates.dense[-1],
        "dense_best": dense[0],
        "dense_second": dense[second],
        "lexical": candidates.lexical[-1],
        "lexical_best": lexical[0],
        "lexical_second": lexical[second],
        "matched": per_word[-1],
        "matched_best": per_word.max(axis=0),
        "whole": candidates.fused[-1],
        "best": best,
        "behind_best": best.max() - best,
        "clause_rank": np.log1p(ranks.min(axis=0)),
        "behind_clause": (candidates.fused.max(axis=1, keepdims=True) - candidates.fused).min(axis=0),
        "rank": np.log1p(_rank(best)),
    }


def _provider(candidates: CandidateSet, best: Vectors) -> dict[str, Vectors]:
    owners, count = candidates.owners, len(candidates.provider_scores)
    highest = np.zeros(count, np.float32)
    np.maximum.at(highest, owners, best)
    order = np.lexsort((-best, owners))
    _, starts, sizes = np.unique(owners[order], return_index=True, return_counts=True)
    rank = np.empty(len(owners))
    rank[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    most_named = candidates.name_matches.max(initial=0.0)
    return {
        "meant_behind": candidates.provider_scores.max() - candidates.provider_scores[owners],
        "meant_rank": np.minimum(_rank(candidates.provider_scores)[owners], 10),
        "named": candidates.name_matches[owners],
        "named_behind": most_named - candidates.name_matches[owners],
        "anyone_named": np.full(len(owners), most_named),
        "provider_size": np.log1p(candidates.sizes[owners]),
        "provider_rank": np.log1p(rank),
        "provider_behind": highest[owners] - best,
    }


def _relations(candidates: CandidateSet, best: Vectors) -> dict[str, Vectors]:
    """Features that relate a candidate's path and name to those of the best candidates of the same provider."""
    top = np.argsort(-best, kind="stable")[:_BEST]
    own = (candidates.owners[:, None] == candidates.owners[top]) & (np.arange(len(best))[:, None] != top)
    weight = np.where(own, best[top], 0.0)
    ours, theirs = candidates.traits[:, None, t.SEGMENTS], candidates.traits[top][None, :, t.SEGMENTS]
    common = np.cumprod((ours == theirs) & (ours != 0), axis=2).sum(axis=2)
    length, other = (ours != 0).sum(axis=2), (theirs != 0).sum(axis=2)
    shared_path = common / np.maximum(np.maximum(length, other), 1) * weight
    names, their_names = candidates.traits[:, t.NAME], candidates.traits[top][:, t.NAME]
    shared = ((names[:, None, :, None] == their_names[None, :, None, :]) & (names[:, None, :, None] != 0)).any(axis=3)
    both = shared.sum(axis=2)
    either = (names != 0).sum(axis=1)[:, None] + (their_names != 0).sum(axis=1) - both
    return {
        "same_road": shared_path.max(axis=1),
        "same_road_sum": shared_path.sum(axis=1),
        "leads_to": np.where((common == length) & (length < other), weight, 0).max(axis=1),
        "comes_from": np.where((common == other) & (other < length), weight, 0).max(axis=1),
        "same_path": np.where((common == length) & (length == other), weight, 0).max(axis=1),
        "same_name": (both / np.maximum(either, 1) * weight).max(axis=1),
    }


def _wording(candidates: CandidateSet) -> dict[str, Vectors]:
    request_words = np.array(digests(words(candidates.clauses[-1])), np.int32)
    kinds = np.zeros((len(candidates.clauses), len(t.KINDS)), np.float32)
    for number, clause in enumerate(candidates.clauses):
        found = [_KIND_OF_VERB[word] for word in words(" ".join(_PLAIN.findall(clause))) if word in _KIND_OF_VERB]
        kinds[number, found] = 1
    kind, clause_of = candidates.traits[:, t.METHOD], candidates.fused.argmax(axis=0)
    return {
        "name_covered": _covered(candidates.traits[:, t.NAME], request_words),
        "resource_covered": _covered(candidates.traits[:, t.RESOURCE], request_words),
        **{name: kind == number for number, name in enumerate(("reads", "creates", "changes", "removes"))},
        "verb_said": kinds.max(axis=0)[kind],
        "verb_of_clause": kinds[clause_of, kind],
        "words": np.full(len(kind), np.log1p(len(request_words))),
    }


def _form(candidates: CandidateSet) -> dict[str, Vectors]:
    columns = {"depth": t.DEPTH, "parameters": t.PARAMETERS, "of_one": t.OF_ONE, "required": t.REQUIRED}
    return {name: candidates.traits[:, column] for name, column in columns.items()} | {
        "clauses": np.full(len(candidates.traits), len(candidates.clauses))
    }


def _covered(names: Traits, request_words: NDArray[np.int32]) -> Vectors:
    """The share of a name's words that occur in the request."""
    there = names != 0
    covered: Vectors = (np.isin(names, request_words) & there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return covered


def _rank(values: Vectors) -> NDArray[np.int64]:
    """The rank of each value, 0 for the highest. Of equal values the first ranks higher."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks
