"""Which candidates are called: rescores each candidate, given what the network says about it and about the others.

The network knows each candidate only through its encodings. It may call two that are nearly the same, and miss the one
whose answer another needs. Trees weigh how far a candidate is behind the likeliest, the retriever's scores, whether a
likelier candidate is like it, whether the words ask for a change if it makes one, whether its required arguments are
said, whether its answer has what is asked for, and whether it feeds a likely call or is fed by one.
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
"""What the trees weigh of a candidate. ``_over``: the difference to the likelier candidate that is most like it."""
_OVER: Final = "_over"
_NONE: Final = 1e-9

Columns = dict[str, Floats | NDArray[np.bool_]]


def call_evidence(query: str, profiles: Sequence[Profile], inputs: Inputs, logits: Mapping[str, Floats]) -> Floats:
    """(candidates, CALL_SIGNS): the evidence for and against calling each candidate.

    Args:
        query: the request.
        profiles: the candidates' profiles.
        inputs: the network's inputs.
        logits: the network's outputs, by name.
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
    """The network's and the retriever's scores of each candidate, relative to the others."""
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
    """How the candidates' documentation relates to the request's words."""
    said = frozenset(stems(query[:MAX_CHARS]))
    titles = np.array([len(profile.title & said) for profile in profiles], np.float32)
    sizes = np.array([max(len(profile.title), 1) for profile in profiles], np.float32)
    in_path = (
        sum(slot.parameter.location is Location.PATH for slot in (*profile.slots, *profile.constant_slots))
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
    """(candidates,) the largest probability that a required argument of each has no source; 0 if none is required.

    Args:
        inputs: the network's inputs.
        sources: (items, Origin) probabilities of where an item's value comes from.
    """
    return _most(inputs, sources[:, Origin.ABSENT], _required(inputs))


def _required(inputs: Inputs) -> NDArray[np.bool_]:
    """(items,) whether each is a required parameter: the first bit of its shape."""
    result: NDArray[np.bool_] = (inputs.kind == Kind.PARAMETER) & (inputs.shape[:, 0] > 0)
    return result


def _arguments(inputs: Inputs, logits: Mapping[str, Floats]) -> Columns:
    """How many arguments each candidate requires, and how likely the request says required and other arguments."""
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
    """How likely the request asks for fields of each candidate's answer, and how far another candidate is ahead."""
    outputs = inputs.kind == Kind.OUTPUT
    asked: Floats = (1 / (1 + np.exp(-logits["answer"]))).astype(np.float32)
    most = _most(inputs, asked, outputs)
    return {"asked": _total(inputs, asked, outputs), "most_asked": most, "asked_behind": most.max() - most}


def _chains(inputs: Inputs, logits: Mapping[str, Floats], called: Floats) -> Columns:
    """How likely each candidate feeds a likely call, and how likely a likely call feeds it."""
    outputs, takers = np.flatnonzero(inputs.kind == Kind.OUTPUT), np.flatnonzero(_required(inputs))
    feeds, fed = np.zeros(len(inputs.first), np.float32), np.zeros(len(inputs.first), np.float32)
    if len(outputs) and len(takers):
        giver, taker = inputs.owner[outputs], inputs.owner[takers]
        strengths = logits["reference"][np.ix_(takers, outputs)]
        raised = np.exp(strengths - strengths.max(axis=1, keepdims=True)) * (taker[:, None] != giver[None, :])
        shares = raised / np.maximum(raised.sum(axis=1, keepdims=True), _NONE)
        shares *= softmax(logits["source"])[takers, Origin.REFERENCE, None]
        given = np.zeros((len(feeds), len(takers)), np.float32)  # from each candidate to each argument
        np.add.at(given, giver, shares.T)
        feeds = (given * called[taker]).max(axis=1)
        np.maximum.at(fed, taker, (given * called[:, None]).max(axis=0))
    return {"feeds": feeds, "fed": fed}


def _total(inputs: Inputs, values: Floats, which: NDArray[np.bool_]) -> Floats:
    """For each candidate, the sum over its selected items."""
    result: Floats = np.bincount(inputs.owner[which], values[which], len(inputs.first)).astype(np.float32)
    return result


def _most(inputs: Inputs, values: Floats, which: NDArray[np.bool_]) -> Floats:
    """For each candidate, the largest value of its selected items; 0 if it has none."""
    result = np.zeros(len(inputs.first), np.float32)
    np.maximum.at(result, inputs.owner[which], values[which].astype(np.float32))
    return result


def likeness_of(inputs: Inputs) -> Floats:
    """(candidates, candidates) cosines of their encodings; -1 on the diagonal."""
    vectors = inputs.vectors[np.asarray(inputs.first)]
    cosines: Floats = vectors @ vectors.T
    np.fill_diagonal(cosines, -1.0)
    return cosines
