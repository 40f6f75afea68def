"""The tokens of APIs, for training the lower half: its output changes at every step, so no vectors can be cached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.items import Item, head_tokens, items_of, texts_of, tokens_within
from planner_svc.compiler.schemas import Schemas
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import Profile, read_profile
from services.contracts.api import Api
from services.encoder import sanitised

RANGE: Final = 3
"""A unit as numbers: its text, its first token there, and the token after its last. They pass through float32, which
holds them exactly below 2**24."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenisedApi:
    """An API whose units are ranges of tokens.

    Attributes:
        profile: the API.
        items: its items, the API itself first.
        vectors: (m, RANGE) the items' tokens.
        head: (h, RANGE) the tokens of the API's own words.
    """

    profile: Profile
    items: tuple[Item, ...]
    vectors: NDArray[Any]
    head: NDArray[Any]


ReadApi = tuple[TokenisedApi, list[NDArray[np.int64]]]
"""An API and the tokens of its texts."""


class ApiTokens:
    """Reads APIs when they are first needed, or ahead.

    Args:
        tokenizer: of the network's encoder; truncates by itself.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._texts: list[NDArray[np.int64]] = []
        self._known: dict[int, TokenisedApi] = {}
        self._kept: list[Api] = []  # keeps APIs alive, so that their ids are not reused

    def of(self, api: Api) -> TokenisedApi:
        """The API's items with their tokens."""
        found = self._known.get(id(api))
        return found or self.add(api, self.read(api))

    def text(self, number: int) -> NDArray[np.int64]:
        """The tokens of a text, with the special ones at its ends."""
        return self._texts[number]

    def unread(self, apis: Iterable[Api]) -> list[Api]:
        """Those that were not read yet, each once."""
        return list({id(api): api for api in apis if id(api) not in self._known}.values())

    def add(self, api: Api, read: ReadApi) -> TokenisedApi:
        """Keep what was read of an API, by this process or another."""
        found, texts = read
        shift = np.array([len(self._texts), 0, 0])
        self._texts += texts
        known = self._known[id(api)] = replace(found, vectors=found.vectors + shift, head=found.head + shift)
        self._kept.append(api)
        return known

    def read(self, api: Api) -> ReadApi:
        """Read an API. Its texts are counted from 0."""
        profile = flat(read_profile(api))
        items = items_of(profile)
        ranges = np.zeros((len(items), RANGE), np.float64)
        head: NDArray[np.float64] = np.zeros((0, RANGE))
        texts: list[NDArray[np.int64]] = []
        for number, (text, places) in enumerate(texts_of(items)):
            read = self._tokenizer.encode(sanitised(text))
            texts.append(np.asarray(read.ids, np.int64))
            real = [place for place, special in enumerate(read.special_tokens_mask) if not special]
            offsets = [read.offsets[place] for place in real]
            if not number:
                own = [(number, real[one], real[one] + 1) for one in head_tokens(items, offsets)]
                head = np.array(own, np.float64).reshape(-1, RANGE)
            for index, start, end in places:
                inside = tokens_within(offsets, start, end) or range(len(real))
                ranges[index] = number, real[inside[0]], real[inside[-1]] + 1
        # The schemas' cached answers take most of the memory, and validators cannot pass between processes.
        profile = replace(profile, schemas=Schemas())
        return TokenisedApi(profile, tuple(replace(item, text="") for item in items), ranges, head), texts


def gathered(units: NDArray[Any], texts: ApiTokens) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """The units of a batch with texts counted from 0 in the batch, and these texts, each once, short ones first."""
    used, places = np.unique(units[:, 0], return_inverse=True)
    order = np.array([len(texts.text(int(number))) for number in used]).argsort(kind="stable")
    moved = units.copy()
    moved[:, 0] = order.argsort()[places]
    return moved, [texts.text(int(number)) for number in used[order]]
