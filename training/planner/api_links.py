"""Which outputs may feed which parameters, by name: ``customer_id`` takes the ``id`` of customers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from planner_svc.compiler.assign import mismatch
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.text import stem
from training.planner.meanings import meaning_of
from training.planner.wording import Wording

_ROLES = frozenset(
    stem(word)
    for word in [
        "from",
        "to",
        "origin",
        "destination",
        "start",
        "end",
        "first",
        "second",
        "source",
        "target",
        "new",
        "old",
        "current",
        "departure",
        "arrival",
    ]
)
_LOOSE = frozenset(
    stem(word)
    for word in [
        "status",
        "message",
        "success",
        "code",
        "result",
        "results",
        "type",
        "count",
        "total",
        "error",
        "state",
        "kind",
        "info",
        "information",
        "data",
        "details",
        "response",
        "description",
        "date",
        "time",
        "created",
        "updated",
        "at",
        "name",
        "title",
        "value",
        "url",
        "link",
        "version",
        "id",
    ]
)
"""Words that occur in fields of all kinds of objects. Alone they link nothing."""
_IDS = frozenset(
    ("id", "identifier", "code", "number", "key", "uuid", "iata", "sku", "ref", "reference", "name", "symbol")
)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """An output field of one API that may fill a parameter of another."""

    producer: int
    field: Field
    slot: Slot


class ApiLinks:
    """The links within a neighbourhood of APIs.

    Args:
        profiles: the APIs.
        wordings: the wording of each; its object tells what an ``id`` identifies.
    """

    def __init__(self, profiles: Sequence[Profile], wordings: Sequence[Wording | None]) -> None:
        self._profiles = profiles
        self._wordings = wordings
        self._by_key: dict[tuple[str, ...], list[tuple[int, Field]]] = defaultdict(list)
        for index, profile in enumerate(profiles):
            for field in profile.fields:
                if field.listed <= 1 and not field.paging and len(field.path) <= 4:
                    for key in _field_keys(field, profile, wordings[index]):
                        self._by_key[key].append((index, field))

    def suppliers(self, consumer: int, slot: Slot) -> list[Link]:
        """Fields of other APIs that may fill one of an API's parameters and have a matching type."""
        found: list[Link] = []
        profile = self._profiles[consumer]
        for key in _slot_keys(slot, profile):
            for index, field in self._by_key.get(key, ()):
                echo = _is_echo(self._profiles[index], self._wordings[index], field)
                if index != consumer and not echo and _fits(profile, field, slot):
                    found.append(Link(index, field, slot))
            if found:
                break
        return found


def _field_keys(field: Field, profile: Profile, wording: Wording | None) -> list[tuple[str, ...]]:
    words = tuple(word for word in field.words if word not in _ROLES)
    keys = [words] if words and not set(words) <= _LOOSE else []
    if words and words[-1] in _IDS:
        holders = {field.holder, profile.noun, wording.thing if wording else ""}
        for holder in filter(None, holders):
            stems = tuple(stem(word) for word in holder.split())
            keys += [(*stems[-1:], *words), (*stems, *words)]
    if len(words) > 1 and not set(words[-1:]) & _LOOSE:
        keys.append(words[-1:])
    return list(dict.fromkeys(keys))


def _slot_keys(slot: Slot, profile: Profile) -> list[tuple[str, ...]]:
    """The names under which suppliers may list the parameter, the most specific first."""
    words = tuple(word for word in slot.words if word not in _ROLES)
    if not words:
        return []
    keys = [words] if not set(words) <= _LOOSE else []
    noun = meaning_of(slot).noun
    if words[-1] in _IDS and noun:
        keys.append((*(stem(word) for word in noun.split()[-1:]), words[-1]))
    elif len(words) == 1 and words[0] not in _LOOSE:
        keys += [(words[0], "id"), (words[0], "code")] if "string" in slot.kinds else []
    return keys


def _is_echo(profile: Profile, wording: Wording | None, field: Field) -> bool:
    """Whether the API only returns its own input, such as the id that an order is looked up by."""
    keys = set(_field_keys(field, profile, wording))
    return any(slot.words == field.words or keys & set(_slot_keys(slot, profile)) for slot in profile.slots)


def _fits(consumer: Profile, field: Field, slot: Slot) -> bool:
    kinds = field.kinds
    if slot.choices or slot.kinds == {"boolean"} or not kinds or kinds <= {"boolean"} or kinds == {"object"}:
        return False
    if kinds <= {"array"} and "array" not in slot.kinds and "string" not in slot.kinds:
        return False
    if kinds <= {"array"} and "array" not in slot.kinds:
        return False
    found = mismatch(consumer.schemas, field.node, slot.node, as_text=slot.as_text)
    return found is None or not found.certain
