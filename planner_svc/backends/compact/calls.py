"""Which candidates are called: a second look at what the network says of each, beside what it says of the others.

The network knows each candidate through its encodings only, so that it may call two that are nearly the same, and not
the one whose answer another needs. Trees weigh how far one is behind the likeliest, what the retriever says of it,
whether a likelier one is like it, whether the words ask for a change where it makes one, whether what it requires is
said, whether it answers with what is asked for, and whether it feeds a likely call or is fed by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.inputs import FEATURES, Floats, Inputs, Origin, softmax
from planner_svc.backends.compact.items import Kind
from planner_svc.reading.actions import may_call
from planner_svc.reading.profile import Profile
from planner_svc.reading.text import MAX_CHARS, stems
from services.contracts.api import Location

CALL_SIGNS: Final = (
    "odds", "rank", "behind", "others",
    "score", "clause_score", "relevance", "place", "supplier",
    "several_times", "parameters", "named",
    "twin", "twin_called", "likelier_twin",
    "words", "changes", "change_asked",
    "required", "unsaid", "most_unsaid", "said", "most_said", "fed_sure",
    "asked", "most_asked", "asked_behind",
    "feeds", "fed",
    "title", "titled", "in_path", "lists",
    "score_over", "named_over", "most_unsaid_over", "said_over", "most_asked_over",
)  # fmt: skip
"""What the trees weigh of a candidate; ``_over``: how much more of it than of the likelier one that is most like it."""
_OVER: Final = "_over"
_NONE: Final = 1e-9

Columns = dict[str, Floats | NDArray[np.bool_]]


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
    called: Floats = 1 / (1 + np.exp(-odds))
    likeness = likeness_of(inputs)
    likelier = np.where(odds[None, :] > odds[:, None], likeness, -1.0)
    columns = (
        _standing(inputs, logits, odds, called)
        | {"twin": likeness.max(axis=1), "twin_called": called[likeness.argmax(axis=1)]}
        | {"likelier_twin": likelier.max(axis=1)}
        | _documented(query, profiles)
        | _arguments(inputs, logits)
        | _answers(inputs, logits)
        | _chains(inputs, logits, called)
    )
    twins = np.where(likelier.max(axis=1) > -1, likelier.argmax(axis=1), np.arange(len(first)))
    for name in (sign.removesuffix(_OVER) for sign in CALL_SIGNS if sign.endswith(_OVER)):
        columns[name + _OVER] = columns[name] - columns[name][twins]
    return np.stack([columns[name] for name in CALL_SIGNS], axis=1).astype(np.float32)


def _standing(inputs: Inputs, logits: Mapping[str, Floats], odds: Floats, called: Floats) -> Columns:
    """What the network and the retriever say of each candidate beside the others."""
    first = np.asarray(inputs.first)
    counts = logits["count"][first]
    told = ("score", "clause_score", "relevance", "place", "supplier")
    assert len(told) == FEATURES
    return {
        "odds": odds,
        "rank": np.argsort(np.argsort(-odds, kind="stable")).astype(np.float32),
        "behind": odds.max() - odds,
        "others": called.sum() - called,
        **{name: inputs.features[first, column] for column, name in enumerate(told)},
        "several_times": 1 / (1 + np.exp(counts[:, 0] - counts[:, 1:].max(axis=1))),
        "parameters": np.bincount(inputs.owner[inputs.kind == Kind.PARAMETER], minlength=len(first)).astype(np.float32),
        "named": inputs.matches[first].sum(axis=1),
    }


def _documented(query: str, profiles: Sequence[Profile]) -> Columns:
    """What the candidates' documents say, beside the words of the request."""
    said = frozenset(stems(query[:MAX_CHARS]))
    titles = np.array([len(profile.title & said) for profile in profiles], np.float32)
    sizes = np.array([max(len(profile.title), 1) for profile in profiles], np.float32)
    in_path = (
        sum(slot.parameter.location is Location.PATH for slot in (*profile.slots, *profile.settled))
        for profile in profiles
    )
    return {
        "words": np.full(len(profiles), len(query.split()), np.float32),
        "changes": np.array([profile.api.mutating for profile in profiles]),
        "change_asked": np.array([may_call(profile, query) for profile in profiles]),
        "title": titles,
        "titled": titles / sizes,
        "in_path": np.fromiter(in_path, np.float32),
        "lists": np.array([any(field.listed for field in profile.fields) for profile in profiles]),
    }


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


def _arguments(inputs: Inputs, logits: Mapping[str, Floats]) -> Columns:
    """How many arguments each candidate requires, and how far the request says these and the others."""
    owned, required = inputs.kind == Kind.PARAMETER, _required(inputs)
    sources = softmax(logits["source"])
    absent, reference = sources[:, Origin.ABSENT], sources[:, Origin.REFERENCE]
    said: Floats = 1 - absent - reference
    return {
        "required": _total(inputs, required.astype(np.float32), required),
        "unsaid": _total(inputs, absent, required),
        "most_unsaid": most_unsaid(inputs, sources),
        "said": _total(inputs, said, owned),
        "most_said": _most(inputs, said, owned),
        "fed_sure": _most(inputs, reference, required),
    }


def _answers(inputs: Inputs, logits: Mapping[str, Floats]) -> Columns:
    """How far the request asks for fields of each candidate's answer, and for those of another more."""
    outputs = inputs.kind == Kind.OUTPUT
    asked: Floats = (1 / (1 + np.exp(-logits["answer"]))).astype(np.float32)
    most = _most(inputs, asked, outputs)
    return {"asked": _total(inputs, asked, outputs), "most_asked": most, "asked_behind": most.max() - most}


def _chains(inputs: Inputs, logits: Mapping[str, Floats], called: Floats) -> Columns:
    """How surely a likely call takes a field of each candidate's answer, and it one of a likely call's."""
    outputs, takers = np.flatnonzero(inputs.kind == Kind.OUTPUT), np.flatnonzero(_required(inputs))
    feeds, fed = np.zeros(len(inputs.first), np.float32), np.zeros(len(inputs.first), np.float32)
    if len(outputs) and len(takers):
        giver, taker = inputs.owner[outputs], inputs.owner[takers]
        strengths = logits["reference"][np.ix_(takers, outputs)]
        raised = np.exp(strengths - strengths.max(axis=1, keepdims=True)) * (taker[:, None] != giver[None, :])
        shares = raised / np.maximum(raised.sum(axis=1, keepdims=True), _NONE)
        shares *= softmax(logits["source"])[takers, Origin.REFERENCE, None]
        given = np.zeros((len(feeds), len(takers)), np.float32)  # of each candidate to each argument
        np.add.at(given, giver, shares.T)
        feeds = (given * called[taker]).max(axis=1)
        np.maximum.at(fed, taker, (given * called[:, None]).max(axis=0))
    return {"feeds": feeds, "fed": fed}


def _total(inputs: Inputs, values: Floats, which: NDArray[np.bool_]) -> Floats:
    """Of each candidate the sum over those of its items."""
    result: Floats = np.bincount(inputs.owner[which], values[which], len(inputs.first)).astype(np.float32)
    return result


def _most(inputs: Inputs, values: Floats, which: NDArray[np.bool_]) -> Floats:
    """Likewise the largest; 0 where it has none."""
    result = np.zeros(len(inputs.first), np.float32)
    np.maximum.at(result, inputs.owner[which], values[which].astype(np.float32))
    return result


def likeness_of(inputs: Inputs) -> Floats:
    """(candidates, candidates) cosines of their encodings, of each to itself -1."""
    vectors = inputs.vectors[np.asarray(inputs.first)]
    cosines: Floats = vectors @ vectors.T
    np.fill_diagonal(cosines, -1.0)
    return cosines
