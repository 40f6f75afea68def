"""Splits an API into items that a request can mean: the API itself, its parameters, their options, its answer fields.

The lower half of the network reads an API once, when the API is first seen, as one text (several if it is long). It
keeps the API's own words (where it is and what it does) token by token. Each item is the mean of its tokens in that
text, so it includes its context. The upper half reads these units together with the request (see docs/planning.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner_svc.reading.effects import Effect
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.text import split_name, stems
from services.compute import checkpoint
from services.contracts.api import Api
from services.encoder import Encoder, TokenEncoding

MAX_SLOTS: Final = 24
MAX_OPTIONS: Final = 16
MAX_FIELDS: Final = 24
_ABOUT: Final = 240
_SAID: Final = 90
_CHUNK: Final = 900
"""Characters of a text: about 200 tokens, which is below the encoder's limit."""
MAX_HEAD: Final = 48
"""Tokens of an API's own words that are kept individually."""
_LISTED: Final = 12
"""Options that a parameter's own text lists."""


class Kind(IntEnum):
    """The kind of an item."""

    API = 0
    PARAMETER = 1
    OPTION = 2
    OUTPUT = 3


@dataclass(frozen=True, slots=True)
class Item:
    """A part of an API that a request can mean.

    Attributes:
        kind: what it is.
        text: as the encoder reads it.
        words: stems that name it, for exact matches in a request.
        slot: for a parameter or an option, the index of the profile's slot.
        option: for an option, the index of the slot's choice.
        field: for an output, the index of the profile's field.
        shape: for a parameter, what can fill it (see :func:`shape_of`); for an API, what it does (:func:`effect_of`).
    """

    kind: Kind
    text: str
    words: frozenset[str]
    slot: int = -1
    option: int = -1
    field: int = -1
    shape: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An API as encoded by the lower half of the network.

    Attributes:
        profile: the API.
        items: its items, the API itself first.
        vectors: (m, d) the items' vectors, float16.
        head: (h, d) the tokens of the API's own words, at most ``MAX_HEAD``.
    """

    profile: Profile
    items: tuple[Item, ...]
    vectors: NDArray[np.float16]
    head: NDArray[np.float16]


def items_of(profile: Profile) -> tuple[Item, ...]:
    """The items of an API: the API itself, then each parameter with its options, then the answer's fields."""
    return tuple(_items(profile))


def encode(profile: Profile, encoder: Encoder) -> Encoded:
    """Encode an API. The result drops the items' texts: it is cached, and they take much of the memory."""
    items = items_of(profile)
    vectors = np.zeros((len(items), encoder.dimension), np.float16)
    head: NDArray[np.float16] | None = None
    for text, places in texts_of(items):
        checkpoint()  # an API may have hundreds of texts, each one an encoder pass
        read = encoder.encode_tokens(text)
        if head is None:
            head = read.vectors[head_tokens(items, read.offsets)].astype(np.float16)
        for index, start, end in places:
            vectors[index] = _mean(read, tokens_within(read.offsets, start, end))
    assert head is not None
    return Encoded(profile, tuple(replace(item, text="") for item in items), vectors, head)


def shape_of(slot: Slot) -> int:
    """What can fill a parameter, as bits, in the order below."""
    flags = (
        slot.required,
        "array" in slot.kinds,
        bool(slot.kinds & {"integer", "number"}),
        "boolean" in slot.kinds,
        "string" in slot.kinds,
        bool(slot.choices),
        slot.temporal,
        "default" in slot.parameter.json_schema,
        "object" in slot.kinds,
        slot.paging,
    )
    return sum(1 << bit for bit, flag in enumerate(flags) if flag)


_EFFECTS: Final[tuple[Effect, ...]] = ("read", "create", "change", "destroy")
_OF_SLOTS: Final = 10
SHAPES: Final = _OF_SLOTS + len(_EFFECTS)
"""Bits of a shape: first those of parameters, then those of APIs."""


def effect_of(profile: Profile) -> int:
    """What an API does, as one bit: operations of one resource often differ in nothing else."""
    effect = "read" if profile.effect == "compute" else profile.effect
    return 1 << _OF_SLOTS + _EFFECTS.index(effect)


def _items(profile: Profile) -> Iterator[Item]:
    api = profile.api
    about = " ".join(part for part in (api.summary, api.description[:_ABOUT]) if part)
    name = " ".join(split_name(api.name))
    named = _stems(f"{name} {api.summary or api.description[:_SAID]}")
    yield Item(Kind.API, f"{name} ({_place_of(api)}): {about[:_ABOUT]}", named, shape=effect_of(profile))
    for number, slot in _chosen(profile.slots):
        options = [str(choice) for choice in slot.choices[:_LISTED]]
        listed = f" ({', '.join(options)})" if options else ""
        spoken = slot.said
        described = slot.parameter.description[:_SAID]
        yield Item(
            Kind.PARAMETER,
            f"{spoken}: {described}{listed}",
            _stems(spoken),
            slot=number,
            shape=shape_of(slot),
        )
        for index, choice in enumerate(slot.choices[:MAX_OPTIONS]):
            said = " ".join(split_name(str(choice)[:60]))
            yield Item(Kind.OPTION, f"{spoken} {said}", _stems(said), slot=number, option=index)
    for number, field in enumerate(profile.fields[:MAX_FIELDS]):
        yield Item(Kind.OUTPUT, _field_text(field), frozenset(field.words), field=number)


def _place_of(api: Api) -> str:
    """The API's provider, method and path, which tell operations of one resource, and vendors, apart."""
    path = " ".join(word for part in api.path.split("/") for word in split_name(part.strip("{}")))
    return f"{' '.join(split_name(api.provider))} {api.method.lower()} {path[:_SAID]}"


@lru_cache(4_096)
def _stems(text: str) -> frozenset[str]:
    """Cached, since many APIs have parameters with the same names."""
    return frozenset(stems(text))


def _chosen(slots: Sequence[Slot]) -> list[tuple[int, Slot]]:
    """The slots that are encoded: required ones before others if there are too many; in their order."""
    numbered = sorted(enumerate(slots), key=lambda one: not one[1].required)[:MAX_SLOTS]
    return sorted(numbered, key=lambda one: one[0])


def _field_text(field: Field) -> str:
    return f"gives {field.text}"[:_SAID]


def texts_of(items: Sequence[Item]) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
    """An API's texts, each with the character range of every item in it. Each text begins with the API itself."""
    head = items[0].text
    text, places = head, [(0, 0, len(head))]
    for index, item in enumerate(items[1:], 1):
        if len(text) + len(item.text) > _CHUNK:
            yield text, places
            text, places = head[:_ABOUT], []
        start = len(text) + 2
        text += f"; {item.text}"
        places.append((index, start, len(text)))
    yield text, places


def head_tokens(items: Sequence[Item], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The tokens of the first text that are kept individually: those of the API's own words."""
    return [number for number, (_, end) in enumerate(offsets) if end <= len(items[0].text)][:MAX_HEAD]


def tokens_within(offsets: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """The tokens in a character range, one after the other; none if the text was cut before it."""
    return [number for number, (first, last) in enumerate(offsets) if first < end and last > start]


def _mean(read: TokenEncoding, inside: Sequence[int]) -> NDArray[np.float32]:
    """The mean of these tokens, scaled to a token's length; of all tokens if there are none."""
    tokens = read.vectors[inside] if inside else read.vectors
    if not len(tokens):
        return read.pooled
    mean = tokens.mean(axis=0)
    length = float(np.linalg.norm(tokens, axis=1).mean())
    result: NDArray[np.float32] = mean * (length / max(float(np.linalg.norm(mean)), 1e-9))
    return result


def matches(items: Iterable[Item], tokens: Sequence[str]) -> NDArray[np.float32]:
    """(m, t): 1 where a token belongs to a word whose stem is one of an item's words."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(tokens):
        if token:
            places.setdefault(token, []).append(place)
    listed = list(items)
    found = np.zeros((len(listed), len(tokens)), np.float32)
    for row, item in enumerate(listed):
        for word in item.words & places.keys():
            found[row, places[word]] = 1
    return found
