"""Aligns recorded requests: finds the characters of the request that state each argument's value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from evals.data import EACH
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import Profile, Slot, read_profile
from planner_svc.reading.readings import same
from planner_svc.reading.text import STOP
from services.contracts.api import Api
from services.contracts.base import JsonPath
from training.planner.boolean_spans import boolean_span
from training.planner.clauses import Clause, clause_of_each, split
from training.planner.examples import (
    Default,
    Example,
    Item,
    Label,
    LabelledCall,
    ListLabel,
    Option,
    Output,
    Ref,
    Span,
    Unstated,
    has_output,
)
from training.planner.occurrences import LOOSE, Occurrence, Request

_REFERENCE = re.compile(r"\$?var_?(?P<n>\d+)\.?(?P<path>[\w.*\[\]-]*)\$?")
_SURE = 3.0
_CUE = 1.5
_INSIDE = 2.0
_FAR = 60.0
_LONGER = 0.01
_TAKEN = 6.0
_SHARED = 1.0


class RecordedCall(Protocol):
    """A call of a recorded solution. References are ``$var_N.field$``, with N counting calls from 1."""

    @property
    def api(self) -> str:
        """The API's id."""
        ...

    @property
    def args(self) -> Mapping[str, JsonValue]:
        """Its arguments, as stated in the request or normalised."""
        ...


class Recorded(Protocol):
    """A recorded request, a line of benchmark data."""

    @property
    def id(self) -> str:
        """Unique within its data set."""
        ...

    @property
    def query(self) -> str:
        """The request."""
        ...

    @property
    def calls(self) -> Sequence[RecordedCall]:
        """The calls that solve it, in order."""
        ...

    @property
    def answer(self) -> Sequence[str] | None:
        """References to the requested outputs; None if they are not known."""
        ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A value to find: its argument (and the item of its list), and the places where it may be stated."""

    call: int
    slot: Slot
    item: int | None
    value: JsonValue
    needed: JsonValue
    found: tuple[Occurrence, ...]

    @property
    def key(self) -> _Key:
        return self.call, self.slot.name, self.item


_Key = tuple[int, str, int | None]


class Aligner:
    """Aligns the requests of one data set.

    Args:
        apis: the APIs, by id.
        source: the data set's name.
    """

    def __init__(self, apis: Mapping[str, Api], source: str) -> None:
        self._apis = apis
        self._source = source
        self._profiles: dict[str, Profile] = {}

    def align(
        self,
        recorded: Recorded,
        *,
        others: Sequence[Api] = (),
        canonical: Sequence[Mapping[str, JsonValue]] = (),
        now: datetime | None = None,
    ) -> Example | None:
        """The request as an example; None if it calls an unknown API.

        Args:
            recorded: the request.
            others: APIs offered besides those it calls; all are sorted by id.
            canonical: normalised arguments of each call, if the recorded ones are as stated in the request.
            now: its clock, if known.
        """
        if not all(call.api in self._apis for call in recorded.calls):
            return None
        profiles = [self._profile(call.api) for call in recorded.calls]
        reading = _Reading(Request(recorded.query, now), recorded.calls, profiles, canonical)
        offered = {api.id: api for api in (*(profile.api for profile in profiles), *others)}
        candidates = tuple(offered[one] for one in sorted(offered))
        return Example(
            recorded.id, self._source, recorded.query, candidates, reading.labelled(), reading.answer(recorded), now
        )

    def _profile(self, api: str) -> Profile:
        if api not in self._profiles:
            self._profiles[api] = flat(read_profile(self._apis[api]))
        return self._profiles[api]


class _Reading:
    """One request with its calls."""

    def __init__(
        self,
        request: Request,
        calls: Sequence[RecordedCall],
        profiles: Sequence[Profile],
        canonical: Sequence[Mapping[str, JsonValue]],
    ) -> None:
        self._request, self._calls, self._profiles, self._canonical = request, calls, profiles, canonical
        wanted = [one for index in range(len(calls)) for one in self._wanted(index)]
        unique = [
            [(o.start, o.end) for w in wanted if w.call == index and len(w.found) == 1 for o in w.found]
            for index in range(len(calls))
        ]
        self._clauses = clause_of_each(request.text, split(request.text), profiles, unique)
        self._chosen = _choose(request, wanted, self._clauses)

    def labelled(self) -> tuple[LabelledCall, ...]:
        """The calls with their labels."""
        return tuple(
            LabelledCall(call.api, dict(self._arguments(index)), self._clauses[index])
            for index, call in enumerate(self._calls)
        )

    def answer(self, recorded: Recorded) -> tuple[Output, ...] | None:
        """The requested outputs. Outputs that no API declares are skipped."""
        if recorded.answer is None:
            return None
        found = (self._reference(len(self._calls), text) for text in recorded.answer)
        return tuple(Output(one.call, one.path) for one in found if one is not None)

    def _given(self, index: int) -> Iterator[tuple[Slot, JsonValue, JsonValue]]:
        """The call's arguments and the values inside their objects, as stated and as needed.

        Skips values that the API does not take, and all but the first item of a list of objects.
        """
        slots = self._profiles[index].slots
        needed = self._canonical[index] if index < len(self._canonical) else {}
        given = self._calls[index].args
        for slot in slots:
            path = slot.path or (slot.name,)
            value = _inside(given, path)
            if value is not None:
                exact = _inside(needed, path)
                yield slot, value, value if exact is None else exact

    def _wanted(self, index: int) -> Iterator[_Wanted]:
        for slot, value, needed in self._given(index):
            parts: list[tuple[int | None, JsonValue]] = [(None, value)]
            if isinstance(value, list):
                parts = list(enumerate(value))
            for item, part in parts:
                exact = needed if item is None else _at(needed, item, part)
                if not _is_reference(part):
                    yield _Wanted(index, slot, item, part, exact, tuple(self._places(part, exact)))

    def _places(self, value: JsonValue, needed: JsonValue) -> list[Occurrence]:
        """Where the stated value occurs; if nowhere, where the needed value does."""
        found = [one for one in self._request.find(value) if _is_sound(self._request.text, one)]
        return found or ([] if same(value, needed) else self._request.find(needed))

    def _arguments(self, index: int) -> Iterator[tuple[str, Label]]:
        for slot, value, needed in self._given(index):
            if isinstance(value, list):
                items = tuple(
                    self._label(index, slot, item, part, _at(needed, item, part)) for item, part in enumerate(value)
                )
                yield slot.name, ListLabel(items) if value else Unstated(value)
            else:
                yield slot.name, self._label(index, slot, None, value, needed)

    def _label(self, index: int, slot: Slot, item: int | None, value: JsonValue, needed: JsonValue) -> Item:
        if _is_reference(value):
            return self._reference(index, str(value)) or Unstated(value)
        place = self._chosen.get((index, slot.name, item))
        default = slot.parameter.json_schema.get("default")
        if slot.kinds == {"boolean"}:
            title = self._profiles[index].title
            told = boolean_span(slot, self._request.words, _is_true(needed), self._clauses[index], title)
            if told is None and default is not None and same(default, needed):
                return Default(needed)
            return Option(_is_true(needed), *(told or (None, None)))
        chosen = next((choice for choice in slot.choices if same(choice, needed)), None)
        if place is None and default is not None and same(default, needed):
            return Default(default)
        if chosen is not None:
            return Option(chosen, *((place.start, place.end) if place is not None else (None, None)))
        return Unstated(needed) if place is None else Span(place.start, place.end, needed)

    def _reference(self, index: int, text: str) -> Ref | None:
        """The reference, if its target exists. Each item of a list is learnt as the first (``reading/loops.py``)."""
        match = _REFERENCE.fullmatch(text)
        call = int(match["n"]) - 1 if match is not None else -1
        if match is None or not 0 <= call < index:
            return None
        parts = (part for part in re.split(r"[.\[\]]+", match["path"]) if part)
        path: JsonPath = tuple(0 if part == EACH else int(part) if part.isdigit() else part for part in parts)
        return Ref(call, path) if has_output(self._profiles[call].api, path) else None


def _choose(request: Request, wanted: Sequence[_Wanted], clauses: Sequence[Clause | None]) -> dict[_Key, Occurrence]:
    """Choose one occurrence for each value, those with the fewest options first. Reusing a place is penalised."""
    chosen: dict[_Key, Occurrence] = {}
    for one in sorted(wanted, key=lambda one: (len(one.found), -len(str(one.value)))):
        if not one.found:
            continue

        def worth(place: Occurrence, one: _Wanted = one) -> float:
            score = (
                _SURE * place.sure
                + _LONGER * (place.end - place.start)
                + _CUE * _cue(request, one.slot, place)
                + _near(place, clauses[one.call])
            )
            for key, other in chosen.items():
                if place.overlaps(other.start, other.end):
                    score -= _TAKEN if key[0] == one.call else _SHARED
            return score

        chosen[one.key] = max(one.found, key=worth)
    return chosen


def _cue(request: Request, slot: Slot, place: Occurrence) -> float:
    """How far the argument's own words are next to it: 0 to 1."""
    before = [word for word in request.words if word.end <= place.start][-3:]
    after = [word for word in request.words if word.start >= place.end][:2]
    near = {word.stem for word in (*before, *after) if word.text.lower() not in STOP}
    named = len(near & set(slot.words)) / max(len(set(slot.words)), 1)
    return max(named, 0.5 if near & slot.about else 0.0)


def _near(place: Occurrence, clause: Clause | None) -> float:
    if clause is None:
        return 0.0
    if clause[0] <= place.start and place.end <= clause[1]:
        return _INSIDE
    return -min(max(clause[0] - place.end, place.start - clause[1], 0) / _FAR, _INSIDE)


def _is_sound(text: str, place: Occurrence) -> bool:
    """Whether the place is plausible: a single letter must be quoted, or not be a common word like "a"."""
    said = text[place.start : place.end]
    if len(said) > 1 or not said.isalpha() or place.sure < LOOSE:
        return True
    quoted = text[max(place.start - 1, 0) : place.start] in ("'", '"', "\u201c", "`")
    return quoted or said not in ("a", "A", "I", "i", "s", "t")


def _is_reference(value: JsonValue) -> bool:
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None and "$" in value


def _is_true(value: JsonValue) -> bool:
    return value is True or str(value).lower() in ("true", "yes", "1")


def _inside(held: Mapping[str, JsonValue], path: JsonPath) -> JsonValue:
    """The value at the path; None if there is none."""
    value: JsonValue = dict(held)
    for part in path:
        if isinstance(part, int):
            value = value[part] if isinstance(value, list) and part < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _at(values: JsonValue, index: int, instead: JsonValue) -> JsonValue:
    return values[index] if isinstance(values, list) and index < len(values) else instead
