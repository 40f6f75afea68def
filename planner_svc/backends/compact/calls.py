"""Which candidates are called: a second look at what the network says of each, beside what it says of the others.

The network knows each candidate through its encodings only, so that it may call two that are nearly the same. Trees
weigh how far one is behind the likeliest, what the retriever says of it, whether a likelier one is like it, and
whether the words ask for a change where it makes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from planner_svc.backends.compact.inputs import FEATURES, Floats, Inputs
from planner_svc.backends.compact.items import Kind
from planner_svc.reading.actions import may_call
from planner_svc.reading.profile import Profile

CALL_SIGNS: Final = (
    "odds", "rank", "behind", "others",
    "score", "clause_score", "relevance", "place", "supplier",
    "several_times", "parameters", "named",
    "twin", "twin_called", "likelier_twin",
    "words", "changes", "change_asked",
)  # fmt: skip
"""What the trees weigh of a candidate."""


def call_evidence(query: str, profiles: Sequence[Profile], inputs: Inputs, logits: Mapping[str, Floats]) -> Floats:
    """(candidates, CALL_SIGNS): what speaks for and against calling each.

    Args:
        query: the request.
        profiles: of the candidates.
        inputs: what the network was asked.
        logits: what it said, by name.
    """
    first = np.asarray(inputs.first)
    odds = logits["call"][first]
    called = 1 / (1 + np.exp(-odds))
    ranks = np.argsort(np.argsort(-odds, kind="stable"))
    counts = logits["count"][first]
    several = 1 / (1 + np.exp(counts[:, 0] - counts[:, 1:].max(axis=1)))
    parameters = np.bincount(inputs.owner[inputs.kind == Kind.PARAMETER], minlength=len(first))
    likeness = _likeness(inputs.vectors[first])
    twins = likeness.argmax(axis=1)
    likelier = np.where(odds[None, :] > odds[:, None], likeness, -1.0)
    columns = (
        odds,
        ranks,
        odds.max() - odds,
        called.sum() - called,
        *(inputs.features[first, column] for column in range(FEATURES)),
        several,
        parameters,
        inputs.matches[first].sum(axis=1),
        likeness.max(axis=1),
        called[twins],
        likelier.max(axis=1),
        np.full(len(first), len(query.split())),
        np.array([profile.api.mutating for profile in profiles]),
        np.array([may_call(profile, query) for profile in profiles]),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _likeness(vectors: Floats) -> Floats:
    """(n, n) cosines of the candidates' encodings, of each to itself -1."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1.0)
    return cosines
