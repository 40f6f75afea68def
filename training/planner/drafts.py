"""Drafts of calls before they are phrased: which APIs, which values are stated, which come from other calls."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner_svc.reading.profile import Field, Slot
from planner_svc.reading.text import word_set
from training.planner.api_links import Link
from training.planner.catalogue import Entry, Neighbourhood
from training.planner.meanings import meaning_of
from training.planner.samples import SampledValue, Sampler

MAX_OPTIONAL = 3
_OPTIONAL = 0.28
_NOT_FED = word_set(
    """
    order selflink language locale category type unit etag link links url description status title
    """
)
Calls = tuple[int, ...]


@dataclass(slots=True)
class FedParameter:
    """A parameter that another call feeds.

    Attributes:
        producer: that call's index.
        field: the field of its response.
        inside: set if nothing else asks for the producer: it is then described in place of the parameter.
    """

    producer: int
    field: Field
    inside: Use | None = None


@dataclass(slots=True)
class Use:
    """Calls of one API that are asked for together; usually one call.

    Attributes:
        calls: their indices.
        entry: the API.
        said: stated values by parameter, each with the calls that take it.
        flags: requested boolean values.
        fed: parameters that come from other calls.
        shared: values stated in an earlier part of the request, which this part only refers to.
        missing: required parameters that are not stated.
    """

    calls: Calls
    entry: Entry
    said: dict[str, list[tuple[SampledValue, Calls]]] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    fed: dict[str, FedParameter] = field(default_factory=dict)
    shared: dict[str, SampledValue] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def slot(self, name: str) -> Slot:
        """The parameter with that name."""
        return next(slot for slot in self.entry.slots if slot.name == name)


class Drafter:
    """Drafts the calls of requests.

    Args:
        rng: source of randomness.
        sampler: draws values.
    """

    def __init__(self, rng: random.Random, sampler: Sampler) -> None:
        self._rng = rng
        self._sampler = sampler

    def single(self, entry: Entry, call: int = 0, fed: dict[str, FedParameter] | None = None) -> Use | None:
        """One call with all required and some optional parameters; None if a required value cannot be drawn."""
        use = Use((call,), entry, fed=dict(fed or {}))
        optional = [slot for slot in entry.slots if not slot.required and slot.name not in use.fed]
        required = [slot for slot in entry.slots if slot.required and slot.name not in use.fed]
        if any(
            s.required and s.name not in {x.name for x in entry.slots} and meaning_of(s).sense == "object"
            for s in entry.profile.slots
        ):
            return None
        if len(required) > 7:
            return None
        share = _OPTIONAL if required or use.fed else 2 * _OPTIONAL
        optional = [slot for slot in optional if self._rng.random() < share / (1 + (meaning_of(slot).sense == "limit"))]
        for slot in (*required, *optional[:MAX_OPTIONAL]):
            if meaning_of(slot).sense == "flag":
                use.flags[slot.name] = self._rng.random() < 0.7
            elif (said := self._other(entry, slot, use)) is not None:
                use.said[slot.name] = [(said, (call,))]
            elif slot.required:
                return None
        return use

    def _other(self, entry: Entry, slot: Slot, use: Use) -> SampledValue | None:
        """A value that is not stated yet: nobody asks for the way from Paris to Paris."""
        taken = {said.text for given in use.said.values() for said, _ in given}
        for _ in range(4):
            said = self._sampler.sample(entry.profile, slot)
            if said is None or (said.text not in taken and _is_later(said, slot, use)):
                return said
        return None

    def spread(self, entry: Entry, count: int) -> Use | None:
        """Several calls of one API that differ in one value."""
        use = self.single(entry)
        if use is None:
            return None
        names = [
            n
            for n, s in use.said.items()
            if not s[0][0].listed and meaning_of(use.slot(n)).sense not in ("message", "limit")
        ]
        if not names:
            return None
        name = self._rng.choice(sorted(names, key=lambda n: not use.slot(n).required)[:2])
        found: dict[str, SampledValue] = {}
        for _ in range(3 * count):
            said = self._sampler.sample(entry.profile, use.slot(name))
            if said is not None:
                found.setdefault(said.text.lower(), said)
            if len(found) == count:
                break
        if len(found) < 2:
            return None
        use.calls = tuple(range(len(found)))
        use.said = {other: [(said[0][0], use.calls)] for other, said in use.said.items()}
        use.said[name] = [(said, (call,)) for call, said in enumerate(found.values())]
        return use

    def chain(self, place: Neighbourhood, length: int) -> list[Use] | None:
        """Calls that each feed a later one. The last one needs the others, directly or indirectly."""
        last = self._linked(place)
        if last is None:
            return None
        consumer, links = last
        uses: list[Use] = []
        first = self._producer(place, links, length - 2)
        for entry, feeds in [*first, (place.entries[consumer], links)]:
            fed = {
                link.slot.name: FedParameter(self._index(uses, place.entries[link.producer]), link.field)
                for link in feeds
            }
            if any(one.producer < 0 for one in fed.values()):
                return None
            use = self.single(entry, len(uses), fed)
            if use is None:
                return None
            uses.append(use)
        return uses if len({id(use.entry) for use in uses}) == len(uses) > 1 else None

    def join(self, place: Neighbourhood) -> list[Use] | None:
        """A call with two parameters fed by two calls, of one API ("from Lisbon to Vienna") or of two."""
        for _ in range(6):
            consumer = self._rng.randrange(len(place.entries))
            entry = place.entries[consumer]
            if not entry.can_be_requested:
                continue
            supplied = [(slot, links) for slot in entry.slots if (links := self._links(place, consumer, slot))]
            if len(supplied) < 2:
                continue
            chosen = self._rng.sample(supplied, 2)
            uses: list[Use] = []
            fed: dict[str, FedParameter] = {}
            for slot, links in chosen:
                link = self._rng.choice(links)
                producer = self.single(place.entries[link.producer], len(uses))
                if producer is None or not producer.said:
                    break
                uses.append(producer)
                fed[slot.name] = FedParameter(len(uses) - 1, link.field)
            final = self.single(entry, len(uses), fed) if len(uses) == 2 else None
            if final is not None and (uses[0].entry is not uses[1].entry or _differ(uses[0], uses[1])):
                return [*uses, final]
        return None

    def _linked(self, place: Neighbourhood) -> tuple[int, list[Link]] | None:
        """An API with the links that feed it from one other API."""
        order = list(range(len(place.entries)))
        self._rng.shuffle(order)
        for consumer in order:
            entry = place.entries[consumer]
            if not entry.can_be_requested:
                continue
            slots = sorted(entry.slots, key=lambda s: (not s.required, meaning_of(s).sense != "id", self._rng.random()))
            for slot in slots[:5]:
                links = self._links(place, consumer, slot)
                if links:
                    link = self._rng.choice(links)
                    return consumer, [link, *self._also(place, consumer, link)]
        return None

    def _links(self, place: Neighbourhood, consumer: int, slot: Slot) -> list[Link]:
        if (slot.words and slot.name.lower() in _NOT_FED) or meaning_of(slot).sense in (
            "flag",
            "limit",
            "message",
            "choice",
        ):
            return []
        return [link for link in place.links.suppliers(consumer, slot) if place.entries[link.producer].can_be_requested]

    def _also(self, place: Neighbourhood, consumer: int, first: Link) -> list[Link]:
        """Further parameters that the same API feeds: required ones, and others at random."""
        found: list[Link] = []
        for slot in place.entries[consumer].slots:
            if slot is not first.slot and (slot.required or self._rng.random() < 0.2) and len(found) < 2:
                same = [link for link in self._links(place, consumer, slot) if link.producer == first.producer]
                found += [link for link in same[:1] if link.field is not first.field]
        return found

    def _producer(self, place: Neighbourhood, links: Sequence[Link], deeper: int) -> list[tuple[Entry, list[Link]]]:
        """The producer, preceded by the calls that feed it."""
        producer = links[0].producer
        entry = place.entries[producer]
        if deeper > 0:
            for slot in entry.slots:
                found = [x for x in self._links(place, producer, slot) if place.entries[x.producer] is not entry]
                found = [x for x in found if all(x.producer != link.producer for link in links)]
                if found:
                    link = self._rng.choice(found)
                    return [*self._producer(place, [link], deeper - 1 if deeper < 3 else 1), (entry, [link])]
        return [(entry, [])]

    def _index(self, uses: Sequence[Use], entry: Entry) -> int:
        return next((number for number, use in enumerate(uses) if use.entry is entry), -1)


def _is_later(said: SampledValue, slot: Slot, use: Use) -> bool:
    """Whether the end of a period is after its start, if both are stated."""
    if slot.role != "to" or not slot.temporal:
        return True
    starts = [use.slot(name) for name in use.said]
    values = [str(use.said[one.name][0][0].items[0][1]) for one in starts if one.role == "from" and one.temporal]
    return all(value < str(said.items[0][1]) for value in values)


def _differ(one: Use, other: Use) -> bool:
    return {n: s[0][0].text for n, s in one.said.items()} != {n: s[0][0].text for n, s in other.said.items()}
