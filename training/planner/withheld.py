"""Requests whose APIs are withheld: the planner learns to call nothing where nothing of a catalogue fits."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from planner_svc.backends.served.signatures import words_of
from services.contracts.api import Api
from training.planner.examples import Example, Ref, labels

_ALIKE: Final = 0.5
"""An API that shares more of its words with a withheld one is withheld too: it may serve as well. Not fitted."""


def withhold(example: Example, rng: random.Random) -> Example | None:
    """The request without the APIs that do what it asks for, labelled as one that nothing fits.

    If all its calls serve one, the APIs of the others sometimes stay: looking something up is not what was asked for.

    Returns:
        The example; None if it has no calls, or no candidate would be left.
    """
    fed = {item.call for _, _, item in labels(example) if isinstance(item, Ref)}
    goals = {call.api for number, call in enumerate(example.calls) if number not in fed}
    needed = {call.api for call in example.calls}
    gone = goals if len(goals) == 1 and rng.random() < 0.5 else needed
    words = [_words(api) for api in example.candidates if api.id in gone]
    places = [
        place
        for place, api in enumerate(example.candidates)
        if api.id not in gone and (api.id in needed or not _is_like(_words(api), words))
    ]
    if not example.calls or not places:
        return None
    return replace(
        example,
        candidates=tuple(example.candidates[place] for place in places),
        scores=tuple(example.scores[place] for place in places) if example.scores else None,
        calls=(),
        answer=None,
    )


def _is_like(words: frozenset[str], others: Collection[frozenset[str]]) -> bool:
    return any(len(words & other) > _ALIKE * len(words | other) for other in others)


def _words(api: Api) -> frozenset[str]:
    return words_of(f"{api.name} {api.summary}")
