"""The overall shape of a request: one call, several, a chain, a join, missing input, or nothing that fits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from training.planner.catalogue import Entry, Neighbourhood
from training.planner.drafts import Drafter, FedParameter, Use
from training.planner.meanings import meaning_of
from training.planner.referring import can_be_nested

Kind = Literal["single", "spread", "several", "chain", "join", "short", "nothing"]
WEIGHTS: dict[Kind, float] = {
    "single": 0.24, "spread": 0.08, "several": 0.20, "chain": 0.30, "join": 0.07, "short": 0.06, "nothing": 0.05,
}  # fmt: skip
"""Shares of the kinds, if the catalogue allows them."""
_SIZES = (2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The calls that a request asks for.

    Attributes:
        kind: of request.
        uses: all calls, each after those that feed it.
        ordered: whether each part continues from the one before it.
    """

    kind: Kind
    uses: tuple[Use, ...]
    ordered: bool = False

    @property
    def top_level(self) -> tuple[Use, ...]:
        """The uses without the calls that are only described inside others."""
        inside = {id(fed.inside) for use in self.uses for fed in use.fed.values() if fed.inside is not None}
        return tuple(use for use in self.uses if id(use) not in inside)


class ScenarioMaker:
    """Makes scenarios in neighbourhoods.

    Args:
        rng: source of randomness.
        drafter: drafts the calls.
    """

    def __init__(self, rng: random.Random, drafter: Drafter) -> None:
        self._rng = rng
        self._drafter = drafter
        self._strangers: list[Entry] = []

    def scenario(self, place: Neighbourhood) -> Scenario | None:
        """A scenario, or None if the drawn kind is not possible here."""
        kind = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        able = [entry for entry in place.entries if entry.can_be_requested]
        if not able:
            return None
        self._strangers = [*self._strangers[-300:], self._rng.choice(able)]
        match kind:
            case "single" | "nothing":
                return _scenario(kind, [self._drafter.single(self._rng.choice(able))])
            case "short":
                return self._short(able)
            case "spread":
                return _scenario(
                    kind, [self._drafter.spread(self._rng.choice(able), self._rng.choice((2, 2, 2, 3, 3, 4)))]
                )
            case "several":
                return self._several(able)
            case "join":
                uses = self._drafter.join(place)
                return Scenario(kind, tuple(self._inside(uses, 0.7)), ordered=True) if uses else None
            case "chain":
                return self._chain(place, able)

    def _several(self, able: Sequence[Entry]) -> Scenario | None:
        """Independent calls: of the same neighbourhood, or from anywhere."""
        size = self._rng.choice(_SIZES)
        pool = [*able] if self._rng.random() < 0.55 else [*self._strangers, *self._rng.sample(able, min(3, len(able)))]
        uses: list[Use] = []
        chosen: set[str] = set()
        for entry in self._rng.sample(pool, min(2 * size, len(pool))):
            if entry.api.id in chosen or sum(len(use.calls) for use in uses) >= size:
                continue
            first = sum(len(use.calls) for use in uses)
            use = self._drafter.spread(entry, 2) if self._rng.random() < 0.08 else self._drafter.single(entry)
            if use is not None and first + len(use.calls) <= 8:
                use = shifted(use, first)
                self._share(use, uses)
                uses.append(use)
                chosen.add(entry.api.id)
        return Scenario("several", tuple(uses)) if len(uses) > 1 else None

    def _share(self, use: Use, before: Sequence[Use]) -> None:
        """Take some values of earlier calls, stated again ("in Paris") or referred to ("there")."""
        for name in list(use.said):
            sense = meaning_of(use.slot(name)).sense
            owner = next(
                (other for other in before if name in other.said and other.slot(name).kinds == use.slot(name).kinds),
                None,
            )
            if owner is None or len(owner.said[name]) > 1 or len(use.calls) > 1 or self._rng.random() > 0.5:
                continue
            said, calls = owner.said[name][0]
            fits = use.entry.profile.schemas.problem(use.slot(name).node, said.items[0][1]) is None
            if (
                not fits
                or said.listed
                or said.option
                or sense not in ("place", "person", "named", "id", "date", "year", "topic")
            ):
                continue
            if self._rng.random() < 0.4:
                use.said[name] = [(said, use.calls)]
            else:
                del use.said[name]
                use.shared[name] = said
                owner.said[name] = [(said, (*calls, *use.calls))]

    def _chain(self, place: Neighbourhood, able: Sequence[Entry]) -> Scenario | None:
        """A chain, sometimes with an independent call."""
        uses = self._drafter.chain(place, self._rng.choice((2, 2, 2, 2, 3, 3, 3, 4)))
        if uses is None:
            return None
        uses = self._inside(uses, 0.5)
        if self._rng.random() < 0.15:
            other = self._drafter.single(self._rng.choice(able), len(uses))
            if other is not None and all(other.entry is not use.entry for use in uses):
                uses.append(other)
        return Scenario("chain", tuple(uses), ordered=True)

    def _inside(self, uses: list[Use], share: float) -> list[Use]:
        """Describe some of the calls that feed only one parameter in place of that parameter."""
        for index, use in enumerate(uses):
            takers = [(other, name) for other in uses for name, fed in other.fed.items() if fed.producer == index]
            if len(takers) != 1 or self._rng.random() >= share:
                continue
            other, name = takers[0]
            if can_be_nested(use, other.fed[name], other.slot(name)):
                other.fed[name] = FedParameter(index, other.fed[name].field, inside=use)
        return uses

    def _short(self, able: Sequence[Entry]) -> Scenario | None:
        """A call that lacks something only the user can tell."""
        use = self._drafter.single(self._rng.choice(able))
        required = (
            [n for n in use.said if use.slot(n).required and meaning_of(use.slot(n)).sense != "limit"] if use else []
        )
        if use is None or not required:
            return None
        count = 1 if len(required) < 3 or self._rng.random() < 0.7 else 2
        left_out = self._rng.sample(required, count)
        use.said = {name: said for name, said in use.said.items() if name not in left_out}
        use.missing = tuple(left_out)
        return Scenario("short", (use,))


def shifted(use: Use, by: int) -> Use:
    """The same calls, with ``by`` added to their numbers."""
    said = {n: [(one, tuple(c + by for c in calls)) for one, calls in given] for n, given in use.said.items()}
    return replace(use, calls=tuple(call + by for call in use.calls), said=said)


def _scenario(kind: Kind, uses: Sequence[Use | None]) -> Scenario | None:
    found = [use for use in uses if use is not None]
    return Scenario(kind, tuple(found)) if len(found) == len(uses) else None
