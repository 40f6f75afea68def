"""The value of each parameter: the request's words, an option, or another call's answer, as its schema wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from pydantic import JsonValue

from planner_svc.backends.compact.boundaries import plausible
from planner_svc.backends.compact.drafted import Fed, Said
from planner_svc.backends.compact.forms import Form, number_written, written
from planner_svc.backends.compact.inputs import Floats, Origin
from planner_svc.backends.compact.items import MAX_OPTIONS, Encoded, Kind
from planner_svc.backends.compact.reader import Reading, items_at
from planner_svc.backends.compact.shown import Shown
from planner_svc.compiler.assign import mismatch
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.readings import readings
from planner_svc.reading.text import stems

OMITTED: Final = 0.2
"""An optional parameter is left out that is at least so likely to be."""
IMPLIED: Final = 0.15
"""An API that answers with what a call needs is called itself where it is at least so likely."""
REPEATED: Final = 0.1
"""Of several values those count that are at least so likely as the likeliest."""
RIVALS: Final = 0.02
"""Where the likeliest words cannot be the value, others are tried that are at least so likely as these."""
MAX_VALUES: Final = 12
TAKEN: Final = 0.01
"""How much less likely words are that say another argument of the same call."""
DEMONSTRATED: Final = 2.0
"""Log-odds that a demo of the very same request adds to its calls, and to what feeds what."""
NAMESAKE: Final = 8.0
"""How much likelier a value comes from another call that answers with a field of the same name."""
NAMED: Final = 1.0
"""Log-odds of an option that the network has not seen, where the request names it."""
USED: Final = 4.0
"""Log-odds against an option that another argument of the call with the same options has already."""
UNLIKELY: Final = 0.02
"""Where a value surely does not come from."""
MAX_SPAN: Final = 40
"""Tokens of a value."""
MAX_OUTPUTS: Final = 20
"""Fields that are tried for one parameter, likeliest first."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A parameter to fill: whose, its place among the items, for how many calls.

    ``chosen`` are called in any case; ``taken`` are the words, and ``used`` the options, that the API's other
    parameters have.
    """

    number: int
    profile: Profile
    slot: Slot
    place: int
    times: int
    chosen: Sequence[int]
    taken: list[tuple[int, int]]
    used: list[tuple[tuple[JsonValue, ...], JsonValue]]

    @property
    def listed(self) -> bool:
        """Whether it takes a list only."""
        return self.slot.kinds == {"array"}

    def allows(self, value: JsonValue) -> bool:
        """Whether its schema does."""
        return self.profile.schemas.problem(self.slot.node, value) is None


class Filler:
    """Fills the parameters of one reading's APIs.

    Args:
        query: the request.
        apis: the candidates, in the order in which they were read.
        reading: what the network says.
        now: the request's clock.
        given: values that the application knows, by argument name.
        shown: what demos show of the candidates.
        called: how likely each candidate is called.
    """

    def __init__(
        self,
        query: str,
        apis: Sequence[Encoded],
        reading: Reading,
        now: datetime,
        given: Mapping[str, JsonValue],
        shown: Shown,
        called: Floats,
    ) -> None:
        self._query, self._apis, self._reading, self._now, self._given = query, apis, reading, now, given
        self._shown, self._called = shown, called
        self._sources: Floats = _softmax(reading.logits["source"])
        self._starts, self._ends = _softmax(reading.logits["start"]), _softmax(reading.logits["end"])
        self._words: Floats = plausible(query, reading.offsets)
        self._said = f" {' '.join(stems(query))} "

    def clear(self, place: int) -> float:
        """How clear it is which words say a parameter."""
        return float(self._starts[place].max() * self._ends[place].max())

    def values(self, gap: Gap) -> list[Said | Fed]:
        """What a parameter is given: one value for each call that has its own, or one for all."""
        slot, origins = gap.slot, self._origins(gap)
        if not slot.required and origins[Origin.ABSENT] > OMITTED:
            return []
        for origin in map(Origin, np.argsort(-origins)):
            sure = float(origins[origin])
            if origin is Origin.ABSENT and not slot.required:
                return []
            if origin is Origin.ABSENT or sure < UNLIKELY:
                continue
            found = list(self._from(origin, gap, sure))
            if found:
                return found
        known = self._given.get(slot.name)
        if slot.required and known is not None and gap.allows(known):
            return [Said(known, None, 1.0)]
        return []

    def _origins(self, gap: Gap) -> Floats:
        """How likely a value is from where: from another call more so where that answers with just what is wanted."""
        origins = self._sources[gap.place].copy()
        others = (self._apis[other].profile for other in gap.chosen if other != gap.number)
        if any(field.words == gap.slot.words for profile in others for field in profile.fields):
            origins[Origin.REFERENCE] *= NAMESAKE
        result: Floats = origins / origins.sum()
        return result

    def _from(self, origin: Origin, gap: Gap, sure: float) -> Iterator[Said | Fed]:
        if origin is Origin.SPAN:
            yield from self._spans(gap, sure)
        elif origin is Origin.OPTION:
            yield from self._options(gap, sure)
        elif origin is Origin.REFERENCE:
            yield from self._references(gap, sure)
        elif gap.slot.kinds == {"boolean"}:
            yield Said(origin is Origin.TRUE, None, sure)

    def _spans(self, gap: Gap, sure: float) -> Iterator[Said]:
        """The likeliest words that may be a value; where there are several values, all that are likely, in order."""
        said: list[Said] = []
        several = gap.listed or gap.times > 1
        for first, last, likely in self._ranges(gap, REPEATED if several else RIVALS):
            start, end = self._reading.offsets[first][0], self._reading.offsets[last][1]
            value = self._meaning(gap, self._query[start:end])
            if value is not None:
                said.append(Said(value, (start, end), sure * likely))
                gap.taken.append((first, last))
                if not several:
                    break
        said.sort(key=lambda one: one.place or (0, 0))
        if not gap.listed:
            yield from said
            return
        unique = list({str(one.value): one.value for one in said}.values())
        if said and gap.allows(unique):
            yield Said(unique, said[0].place, min(one.sure for one in said))

    def _meaning(self, gap: Gap, text: str) -> JsonValue:
        """The words as a value, in the form that is usual for the parameter; None where that is not allowed."""
        meant = readings(gap.profile, gap.slot, text, self._now)
        read = meant[0] if meant else None
        usual = Form(int(self._reading.logits["form"][gap.place].argmax()))
        form = self._shown.forms.get((gap.profile.api.id, gap.slot.name), usual)
        value: JsonValue = None
        if isinstance(read, int | float) and not isinstance(read, bool):
            value = number_written(form, read)
        elif gap.slot.kinds & {"string", "array"} and not gap.slot.choices and (read is None or isinstance(read, str)):
            value = written(form, text, self._now)
        allowed = value is not None and gap.allows([value] if gap.listed else value)
        return value if allowed else read

    def _ranges(self, gap: Gap, share: float) -> Iterator[tuple[int, int, float]]:
        """First and last tokens of values, likeliest first, down to a share of the likeliest; none overlaps another.

        Start and end are chosen together. Words that say another argument of the same call already are less likely.
        """
        likely = np.triu(np.outer(self._starts[gap.place], self._ends[gap.place])) * self._words
        likely *= np.tri(len(likely), k=MAX_SPAN - 1, dtype=np.float32)
        for first, last in gap.taken:
            likely[: last + 1, first:] *= TAKEN
        bound = float(likely.max()) * share
        for _ in range(MAX_VALUES):
            first, last = map(int, np.unravel_index(int(likely.argmax()), likely.shape))
            best = float(likely[first, last])
            if best <= 0 or best < bound:
                return
            yield first, last, best
            likely[: last + 1, first:] = 0  # whatever overlaps it

    def _options(self, gap: Gap, sure: float) -> Iterator[Said]:
        offered = self._offered(gap)
        ranked = sorted(offered, key=lambda one: -one[0])
        likely = [value for odds, value in ranked if odds > 0]
        best = [value for _, value in ranked[:1]]
        if gap.listed:
            meant = likely or best
            if meant and gap.allows(meant):
                yield Said(meant, None, sure)
            return
        for value in (likely if gap.times > 1 else []) or best:
            if gap.allows(value):
                gap.used.append((gap.slot.choices, value))
                yield Said(value, None, sure)

    def _offered(self, gap: Gap) -> list[tuple[float, JsonValue]]:
        """The options with their log-odds. What another argument with the same options has is less likely.

        Of a long list the network has seen the beginning only; of the rest those count that the request names.
        """
        logits = self._reading.logits["option"]
        offered = [
            (float(logits[at]), gap.slot.choices[item.option])
            for at, item in items_at(self._reading, self._apis, gap.number, Kind.OPTION)
            if self._reading.inputs.parent[at] == gap.place
        ]
        rest = gap.slot.choices[MAX_OPTIONS:]
        offered += [(NAMED, choice) for choice in rest if set(stems(str(choice))) and self._names(str(choice))]
        used = [value for choices, value in gap.used if choices == gap.slot.choices]
        return [(odds - (USED if value in used else 0.0), value) for odds, value in offered]

    def _names(self, choice: str) -> bool:
        """Whether the request has all the words of an option, one after the other."""
        return f" {' '.join(stems(choice))} " in self._said

    def _references(self, gap: Gap, sure: float) -> Iterator[Fed]:
        """The likeliest output of another API that is called, or may be, and whose type allows it."""
        logits = self._reading.logits["reference"][gap.place]
        offered: list[tuple[float, int, Field]] = []
        for other, api in enumerate(self._apis):
            implied = self._called[other] >= IMPLIED and not api.profile.api.mutating
            if other == gap.number or (other not in gap.chosen and not implied):
                continue
            shown = (api.profile.api.id, gap.profile.api.id) in self._shown.feeds
            offered += [
                (float(logits[at]) + DEMONSTRATED * shown, other, api.profile.fields[item.field])
                for at, item in items_at(self._reading, self._apis, other, Kind.OUTPUT)
            ]
        for _, other, output in sorted(offered, key=lambda one: -one[0])[:MAX_OUTPUTS]:
            found = mismatch(gap.profile.schemas, output.node, gap.slot.node, as_text=gap.slot.as_text)
            if found is None or not found.certain:
                yield Fed(other, output, sure)
                return


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return result
