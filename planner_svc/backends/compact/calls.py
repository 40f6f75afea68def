"""Which candidates are called: a second look at what the network says of each, beside what it says of the others.

The network knows each candidate through its encodings only, so that it may call two that are nearly the same, and not
the one whose answer another needs. Trees weigh how far one is behind the likeliest, what the retriever says of it,
whether a likelier one is like it, whether the words ask for a change where it makes one, whether what it requires is
said, whether it answers with what is asked for, and whether it feeds a likely call or is fed by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.inputs import FEATURES, Floats, Inputs, Origin, softmax
from planner_svc.backends.compact.items import Kind
from planner_svc.reading.actions import may_call
from planner_svc.reading.profile import Profile

CALL_SIGNS: Final = (
    "odds", "rank", "behind", "others",
    "score", "clause_score", "relevance", "place", "supplier",
    "several_times", "parameters", "named",
    "twin", "twin_called", "likelier_twin",
    "words", "changes", "change_asked",
    "required", "unsaid", "most_unsaid", "said", "most_said", "fed_sure",
    "asked", "most_asked", "asked_behind",
    "feeds", "fed",
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
        *_arguments(inputs, logits),
        *_answers(inputs, logits),
        *_chains(inputs, logits, called),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def most_unsaid(inputs: Inputs, sources: Floats) -> Floats:
    """(candidates,) how likely what each requires, and is least said, comes from nowhere; 0 where nothing is required.

    Args:
        inputs: what the network was asked.
        sources: (items, Origin) how likely an item's value comes from where.
    """
    return _most(inputs, sources[:, Origin.ABSENT], _required(inputs))


def _required(inputs: Inputs) -> NDArray[np.bool_]:
    """(items,) whether each is a parameter that is required: the first bit of its shape."""
    result: NDArray[np.bool_] = (inputs.kind == Kind.PARAMETER) & (inputs.shape[:, 0] > 0)
    return result


def _arguments(inputs: Inputs, logits: Mapping[str, Floats]) -> Iterator[Floats]:
    """Of each candidate: how many arguments it requires, and how far the request says these and the others."""
    owned, required = inputs.kind == Kind.PARAMETER, _required(inputs)
    sources = softmax(logits["source"])
    absent, reference = sources[:, Origin.ABSENT], sources[:, Origin.REFERENCE]
    said = 1 - absent - reference
    yield _total(inputs, required.astype(np.float32), required)
    yield _total(inputs, absent, required)
    yield most_unsaid(inputs, sources)
    yield _total(inputs, said, owned)
    yield _most(inputs, said, owned)
    yield _most(inputs, reference, required)


def _answers(inputs: Inputs, logits: Mapping[str, Floats]) -> Iterator[Floats]:
    """Of each candidate: how far the request asks for fields of its answer, and for those of another more."""
    outputs = inputs.kind == Kind.OUTPUT
    asked: Floats = (1 / (1 + np.exp(-logits["answer"]))).astype(np.float32)
    most = _most(inputs, asked, outputs)
    yield _total(inputs, asked, outputs)
    yield most
    yield most.max() - most


def _chains(inputs: Inputs, logits: Mapping[str, Floats], called: Floats) -> Iterator[Floats]:
    """Of each candidate: how surely a likely call takes a field of its answer, and it one of a likely call's."""
    outputs = np.flatnonzero(inputs.kind == Kind.OUTPUT)
    takers = np.flatnonzero(_required(inputs))
    feeds, fed = np.zeros(len(inputs.first), np.float32), np.zeros(len(inputs.first), np.float32)
    if len(outputs) and len(takers):
        taken = softmax(logits["source"])[takers, Origin.REFERENCE]
        strengths = logits["reference"][np.ix_(takers, outputs)].copy()
        giver, taker = inputs.owner[outputs], inputs.owner[takers]
        strengths[taker[:, None] == giver[None, :]] = -np.inf
        strengths -= strengths.max(axis=1, keepdims=True, where=np.isfinite(strengths), initial=-1e9)
        raised = np.exp(strengths)
        shares = raised / np.maximum(raised.sum(axis=1, keepdims=True), 1e-9) * taken[:, None]
        by_giver = np.zeros((len(takers), len(feeds)), np.float32)
        np.add.at(by_giver.T, giver, shares.T)
        feeds = (by_giver * called[taker][:, None]).max(axis=0)
        np.maximum.at(fed, taker, (by_giver * called[None, :]).max(axis=1))
    yield feeds
    yield fed


def _total(inputs: Inputs, values: Floats, which: NDArray[np.bool_]) -> Floats:
    """Of each candidate the sum over those of its items."""
    result: Floats = np.bincount(inputs.owner[which], values[which], len(inputs.first)).astype(np.float32)
    return result


def _most(inputs: Inputs, values: Floats, which: NDArray[np.bool_]) -> Floats:
    """Likewise the largest; 0 where it has none."""
    result = np.zeros(len(inputs.first), np.float32)
    np.maximum.at(result, inputs.owner[which], values[which].astype(np.float32))
    return result


def _likeness(vectors: Floats) -> Floats:
    """(n, n) cosines of the candidates' encodings, of each to itself -1."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1.0)
    return cosines
