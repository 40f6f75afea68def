"""Generates requests from a catalogue alone, if there are no recorded ones: each API's description, rephrased.

Half of the APIs are asked for alone, the others together with neighbours (same provider, and same tag or path), as in a
request with several steps. All random draws come from the given generator, so the same seed gives the same requests.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from services.contracts.api import Api
from services.words import spaced
from training.retriever.examples import Document, Pair
from training.retriever.phrasing import join, name_provider, rephrase, reword, sentences, slip, with_value

_ALONE = 0.5
_UNCHANGED = 0.5
_NAMED = 0.5
_SLIPPED = 0.2
_VALUED = 0.2
_BY_NAME = 0.2
_TOGETHER = (2, 2, 3, 3, 4)
_NEIGHBOURHOOD = 3  # leading parts of a document's place


def synthetic_pairs(documents: Iterable[Document], rng: random.Random) -> list[Pair]:
    """Pairs that ask for every document once, alone or with neighbours."""
    pairs: list[Pair] = []
    for group in _together(sorted(documents, key=lambda one: (one.place, one.id)), rng):
        apis = [one.api for one in group]
        request = ask(apis[0], rng) if len(apis) == 1 else ask_together(apis, rng)
        query = _varied(request, apis[0], rng)
        right = frozenset(one.id for one in group)
        pairs += [Pair(query, one.id, right) for one in group]
    return pairs


def ask(api: Api, rng: random.Random) -> str:
    """One way to ask for what the API does, from its description or its name."""
    request = rephrase(_request_for(api, rng), rng)
    return with_value(request, api, rng) if rng.random() < _VALUED else request


def ask_together(apis: Sequence[Api], rng: random.Random) -> str:
    """One way to ask for several APIs: "Creates a label, lists messages, and ...", or as imperatives."""
    requests = [_request_for(api, rng) for api in apis]
    return join(requests if rng.random() < _UNCHANGED else [reword(one, rng) for one in requests], rng)


def _request_for(api: Api, rng: random.Random) -> str:
    """A sentence of the API's description, usually the first, or the words of its name."""
    described = sentences(f"{api.summary}\n{api.description}")
    if not described or rng.random() < _BY_NAME:
        return spaced(api.name).lower()
    return described[0] if rng.random() < 0.8 else rng.choice(described)


def _together(documents: Sequence[Document], rng: random.Random) -> Iterator[list[Document]]:
    """Each document in one group: alone, or with up to three neighbours."""
    for _, members in groupby(documents, key=lambda one: one.place[:_NEIGHBOURHOOD]):
        waiting = list(members)
        rng.shuffle(waiting)
        while waiting:
            size = 1 if rng.random() < _ALONE else rng.choice(_TOGETHER)
            group, waiting = waiting[:size], waiting[size:]
            yield group


def _varied(request: str, api: Api, rng: random.Random) -> str:
    named = name_provider(request, api.provider, rng) if rng.random() < _NAMED else ""
    said = named or request
    return slip(said, rng) if rng.random() < _SLIPPED else said
