"""Divides a catalogue into neighbourhoods: APIs that are used together, feed each other, or are easily confused."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import Profile, Slot, read_profile
from planner_svc.reading.text import split_name, stem
from services.contracts.api import Api
from training.planner.api_links import ApiLinks
from training.planner.wording import Wording, read_wordings, requestable_slots

SIZE = 40
"""Maximum number of APIs in a neighbourhood."""
_COMMON = 300
_SIZES = (3, 4, 5, 6, 8, 8, 10, 10, 12)
_NEAR, _CONFUSABLE = 0.45, 0.3
_DRAWS = 20
_MAX_PARAMETERS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An API with the data needed to phrase requests for it."""

    api: Api
    profile: Profile
    slots: tuple[Slot, ...]
    wordings: tuple[Wording, ...]

    @property
    def can_be_requested(self) -> bool:
        """Whether a request can ask for it with everything it requires."""
        said = {slot.name for slot in self.slots}
        objects = [s for s in self.profile.slots if s.required and s.name not in said and s.children]
        return bool(self.wordings) and not objects and len(self.api.parameters) <= _MAX_PARAMETERS


class Neighbourhood:
    """Some APIs of one provider or category."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self.apis = apis

    @cached_property
    def entries(self) -> list[Entry]:
        """The APIs with their profiles and phrasings."""
        return [_entry(api) for api in self.apis]

    @cached_property
    def links(self) -> ApiLinks:
        """Which APIs can feed which."""
        return ApiLinks(
            [e.profile for e in self.entries], [e.wordings[0] if e.wordings else None for e in self.entries]
        )


class Catalogue:
    """APIs by neighbourhood and by the words of their names.

    Args:
        apis: in any order; for a repeated id the first is used.
    """

    def __init__(self, apis: Iterable[Api]) -> None:
        first: dict[str, Api] = {}
        for api in apis:
            first.setdefault(api.id, api)
        self.apis = list(first.values())
        self._places = list(_places(self.apis))
        self._near = {api.id: place for place in self._places for api in place}
        self._named: dict[str, list[int]] = defaultdict(list)
        for index, api in enumerate(self.apis):
            for word in set(split_name(api.name)[:10]):
                self._named[stem(word)].append(index)

    def neighbourhoods(self, rng: random.Random) -> list[Neighbourhood]:
        """All APIs, each in one neighbourhood, in random order. Neighbours in path and name stay together."""
        return [Neighbourhood(place) for place in rng.sample(self._places, len(self._places))]

    def offer(
        self, right: Sequence[Api], rng: random.Random, *, size: int | None = None, without: bool = False
    ) -> tuple[Api, ...]:
        """The candidates of a request in random order: the right APIs, easily confused ones, and random ones.

        Args:
            right: the APIs that the request needs.
            rng: draws the others.
            size: number of candidates, at least two more than are right; by default between 3 and 12.
            without: leave out the right ones and their neighbours, so that no candidate answers the request.
        """
        wanted = {api.id: api for api in right}
        found = {} if without else dict(wanted)
        size = min(max(size or rng.choice(_SIZES), len(wanted) + 2), len(self.apis))
        for _ in range(_DRAWS * size):
            if len(found) >= size:
                break
            draw = rng.random()
            other: Api | None
            if without or not right or draw >= _NEAR + _CONFUSABLE:
                other = rng.choice(self.apis)
            elif draw < _NEAR:
                other = rng.choice(self._near.get(rng.choice(right).id, self.apis))
            else:
                other = self.confusable(rng.choice(right), rng)
            if other is not None and other.id not in wanted:
                found.setdefault(other.id, other)
        offered = list(found.values())
        rng.shuffle(offered)
        return tuple(offered)

    def confusable(self, api: Api, rng: random.Random) -> Api | None:
        """Another API whose name shares a rare word."""
        words = [stem(word) for word in split_name(api.name)[:10]]
        known = [self._named[word] for word in words if 1 < len(self._named.get(word, ())) < _COMMON]
        if not known:
            return None
        found = self.apis[rng.choice(rng.choice(known))]
        return None if found.id == api.id else found


def _places(apis: Sequence[Api]) -> Iterator[list[Api]]:
    """The APIs of each provider (of each category if they have no provider), in parts of similar size."""
    groups: dict[tuple[str, str], list[Api]] = defaultdict(list)
    for api in apis:
        tag = next(iter(api.tags), "").split("/")[0] if api.provider == "-" else ""
        groups[api.provider, tag].append(api)
    for key in sorted(groups):
        members = sorted(groups[key], key=lambda api: (api.path, api.name, api.id))
        size = -(-len(members) // -(-len(members) // SIZE))
        yield from (members[start : start + size] for start in range(0, len(members), size))


def _entry(api: Api) -> Entry:
    profile = flat(read_profile(api))
    slots = requestable_slots(profile)
    return Entry(api, profile, slots, tuple(read_wordings(profile, slots)))
