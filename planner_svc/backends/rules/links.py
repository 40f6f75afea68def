"""Which field of one API's answer can feed which argument of another: by type, name, description and examples.

A link depends on the two APIs alone, so it is computed once for each pair and shared by all requests.
"""

from dataclasses import dataclass

from planner_svc.compiler.assign import mismatch
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.text import overlap, stem_set

MIN_LINK = 0.35
MAX_LINKS = 4
MAX_PAIRS = 20_000

_ROLE_WORDS = stem_set("from to origin destination start end first second source target departure arrival")
GENERIC = stem_set("code id name number key text value")
_MEASURE = stem_set("value amount quantity number")


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A field that may fill an argument, and how sure that is, 0 to 1."""

    field: Field
    score: float


class Links:
    """Links by pair of APIs, bounded."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Profile, Profile, dict[str, list[Link]]]] = {}

    def between(self, producer: Profile, consumer: Profile, slot: Slot) -> list[Link]:
        """The producer's fields for one of the consumer's arguments, best first."""
        key = (id(producer), id(consumer))
        found = self._known.get(key)
        if found is None:
            found = (producer, consumer, {s.name: _links(producer, consumer, s) for s in consumer.slots})
            if len(self._known) >= MAX_PAIRS:
                self._known.clear()
            self._known[key] = found
        return found[2].get(slot.name, [])


def _links(producer: Profile, consumer: Profile, slot: Slot) -> list[Link]:
    if slot.paging:
        return []
    found = []
    for field in producer.fields:
        score = 0.0 if field.paging else _score(producer, consumer, field, slot)
        if score >= MIN_LINK:
            found.append(Link(field, min(score, 1.0)))
    return sorted(found, key=lambda link: (-link.score, link.field.listed, len(link.field.path)))[:MAX_LINKS]


def _score(producer: Profile, consumer: Profile, field: Field, slot: Slot) -> float:
    if not _fits(consumer, field, slot):
        return 0.0
    core = tuple(word for word in slot.words if word not in _ROLE_WORDS)
    telling = frozenset(core) - GENERIC or frozenset(core)
    holder = frozenset(str(part) for part in field.path if isinstance(part, str)) | frozenset(producer.noun.split())
    if core and core == field.words:
        name = 1.0
    else:
        told = overlap(telling, frozenset(field.words) | field.about | holder)
        own = frozenset(field.words) - GENERIC
        name = 0.6 * told + 0.4 * (overlap(own, frozenset(core) | slot.about) if own else told)
    about = overlap(slot.about - _ROLE_WORDS - GENERIC, field.about | frozenset(field.words))
    score = 0.55 * name + 0.3 * about
    if score > 0.2 and slot.specific and _examples_fit(consumer, field, slot):
        score += 0.2
    if not slot.specific and not slot.patterned and "string" in slot.kinds and not slot.choices:
        score -= 0.25  # people say names and texts themselves
    if _MEASURE & set(slot.words) and slot.kinds & {"integer", "number"} and field.kinds & {"integer", "number"}:
        score = max(score, MIN_LINK)
    return score


def _fits(consumer: Profile, field: Field, slot: Slot) -> bool:
    """Whether types allow it: schemas, dates for dates, and examples that the argument would accept."""
    if field.kinds <= {"array", "object"} and not slot.kinds & field.kinds:
        return False
    found = mismatch(consumer.schemas, field.node, slot.node, as_text=slot.as_text)
    if found is not None and found.certain:
        return False
    if "string" in slot.kinds and slot.temporal and "string" in field.kinds:
        formats = [str(s.get("format", "")) for b in consumer.schemas.branches(field.node) for s in b]
        if not any("date" in name or "time" in name for name in formats):
            return False
    if field.kinds & {"integer", "number"} and "string" in slot.kinds and slot.specific:
        return False
    if slot.choices and "string" in slot.kinds and ("string" not in field.kinds or slot.words[-1:] != field.words[-1:]):
        return False
    if field.examples and (slot.specific or slot.patterned):
        return _examples_fit(consumer, field, slot)
    return True


def _examples_fit(consumer: Profile, field: Field, slot: Slot) -> bool:
    return any(consumer.schemas.problem(slot.node, example) is None for example in field.examples)
