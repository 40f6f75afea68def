"""The training targets of an example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner_svc.backends.compact.forms import Form, form_of, number_form_of
from planner_svc.backends.compact.inputs import Ints, Origin
from planner_svc.backends.compact.items import Item, Kind
from planner_svc.backends.compact.sets import MOST
from planner_svc.reading.profile import Profile
from planner_svc.reading.readings import NO_CLOCK
from services.contracts.base import JsonPath
from training.planner.examples import Default, Example, Label, LabelledCall, Option, Ref, Span, Unstated
from training.planner.examples import Item as LabelItem
from training.planner.examples import items as parts

Offsets = Sequence[tuple[int, int]]
UNKNOWN: Final = -1
"""A target that is not trained on."""


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The targets for m items and t tokens.

    Attributes:
        call: (m,) 1 if an API is called, 0 if not; UNKNOWN for other items.
        count: (m,) class of how often a called API is called.
        source: (m,) :class:`Origin`, the source of a parameter's value for a called API.
        form: (m,) :class:`Form` of a parameter whose value the request states; UNKNOWN elsewhere.
        start: (m, t) 1 where a value starts.
        end: (m, t) 1 where a value ends.
        option: (m,) 1 for the chosen option, 0 for its parameter's others; UNKNOWN elsewhere.
        reference: (m,) the index of the output that a parameter's value comes from.
        answer: (m,) 1 if an output of a called API answers, 0 if not; UNKNOWN if that is not known.
        size: how many APIs are called, at most ``MOST``.
    """

    call: Ints
    count: Ints
    source: Ints
    form: Ints
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]
    option: Ints
    reference: Ints
    answer: Ints
    size: int


class Layout:
    """The positions of an example's items: by candidate, parameter, option and output."""

    def __init__(self, profiles: Sequence[Profile], items: Sequence[Sequence[Item]]) -> None:
        self.apis: list[int] = []
        self.parameters: dict[tuple[int, str], int] = {}
        self.options: dict[tuple[int, str], list[tuple[int, object]]] = {}
        self.outputs: dict[tuple[int, JsonPath], int] = {}
        place = 0
        for number, (profile, own) in enumerate(zip(profiles, items, strict=True)):
            for item in own:
                self._add(number, profile, item, place)
                place += 1
        self.size = place

    def _add(self, number: int, profile: Profile, item: Item, place: int) -> None:
        if item.kind is Kind.API:
            self.apis.append(place)
        elif item.kind is Kind.OUTPUT:
            self.outputs.setdefault((number, _plain(profile.fields[item.field].path)), place)
        else:
            slot = profile.slots[item.slot]
            if item.kind is Kind.PARAMETER:
                self.parameters[number, slot.name] = place
            else:
                self.options.setdefault((number, slot.name), []).append((place, slot.choices[item.option]))


def targets(example: Example, layout: Layout, offsets: Offsets) -> Targets:
    """The targets of an example. ``offsets`` are the character ranges of the request's tokens."""
    size, length = layout.size, len(offsets)
    made = Targets(
        call=np.full(size, UNKNOWN, np.int64),
        count=np.full(size, UNKNOWN, np.int64),
        source=np.full(size, UNKNOWN, np.int64),
        form=np.full(size, UNKNOWN, np.int64),
        start=np.zeros((size, length), bool),
        end=np.zeros((size, length), bool),
        option=np.full(size, UNKNOWN, np.int64),
        reference=np.full(size, UNKNOWN, np.int64),
        answer=np.full(size, UNKNOWN, np.int64),
        size=min(len({call.api for call in example.calls}), MOST),
    )
    numbers = {api.id: number for number, api in enumerate(example.candidates)}
    counted = Counter(call.api for call in example.calls)
    for api, number in numbers.items():
        made.call[layout.apis[number]] = int(api in counted)
        if counted[api]:
            made.count[layout.apis[number]] = min(counted[api], 4) - 1
            calls = [call for call in example.calls if call.api == api]
            _of_api(made, example, layout, offsets, numbers, number, calls)
    if example.answer is not None:
        _answers(made, example, layout, numbers, counted)
    return made


def _of_api(
    made: Targets,
    example: Example,
    layout: Layout,
    offsets: Offsets,
    numbers: dict[str, int],
    number: int,
    calls: Sequence[LabelledCall],
) -> None:
    """Set the targets of a called API's parameters, over all its calls."""
    for (owner, name), place in layout.parameters.items():
        if owner != number:
            continue
        labels = [label for call in calls if (label := call.arguments.get(name)) is not None]
        made.source[place] = _source(labels)
        options = layout.options.get((owner, name), [])
        if made.source[place] == Origin.SPAN:
            spans = [one for label in labels for one in parts(label) if isinstance(one, Span)]
            _mark(made, place, offsets, spans)
            made.form[place] = _form(example, spans)
        elif made.source[place] == Origin.OPTION:
            meant = {str(one.value) for label in labels for one in parts(label) if isinstance(one, Option)}
            hits = [str(value) in meant for _, value in options]
            if any(hits):
                for (at, _), hit in zip(options, hits, strict=True):
                    made.option[at] = int(hit)
            else:
                made.source[place] = UNKNOWN
        elif made.source[place] == Origin.REFERENCE:
            made.reference[place] = next(_producers(labels, example, layout, numbers), UNKNOWN)


def _source(labels: Sequence[Label]) -> int:
    """The most frequent source of a parameter's values, over the calls of its API."""
    found = Counter(_source_of(one) for label in labels for one in parts(label))
    return found.most_common(1)[0][0] if found else Origin.ABSENT


def _source_of(label: LabelItem) -> int:
    match label:
        case Span():
            return Origin.SPAN
        case Option(value=True):
            return Origin.TRUE
        case Option(value=False):
            return Origin.FALSE
        case Option():
            return Origin.OPTION
        case Ref():
            return Origin.REFERENCE
        case Default():
            return Origin.ABSENT
        case Unstated():
            return UNKNOWN


def _mark(made: Targets, place: int, offsets: Offsets, spans: Sequence[Span]) -> None:
    for span in spans:
        inside = [n for n, (start, end) in enumerate(offsets) if start < span.end and end > span.start]
        if inside:
            made.start[place, inside[0]] = made.end[place, inside[-1]] = True
    if not made.start[place].any():  # truncated at the end of a long request
        made.source[place] = UNKNOWN


def _form(example: Example, spans: Sequence[Span]) -> int:
    """The most frequent form of a parameter's values: several values usually have the same form."""
    now = example.now or NO_CLOCK
    found = Counter(form for span in spans if (form := _form_of(example.query, span, now)) is not None)
    return int(found.most_common(1)[0][0]) if found else UNKNOWN


def _form_of(query: str, span: Span, now: datetime) -> Form | None:
    text, value = query[span.start : span.end], span.value
    if isinstance(value, str):
        return form_of(text, value, now)
    return number_form_of(text, value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _producers(labels: Sequence[Label], example: Example, layout: Layout, numbers: dict[str, int]) -> Iterator[int]:
    for label in labels:
        for one in parts(label):
            if isinstance(one, Ref):
                found = layout.outputs.get((numbers[example.calls[one.call].api], _plain(one.path)))
                if found is not None:
                    yield found


def _answers(made: Targets, example: Example, layout: Layout, numbers: dict[str, int], counted: Counter[str]) -> None:
    called = {numbers[api] for api in counted}
    for (number, _), place in layout.outputs.items():
        if number in called:
            made.answer[place] = 0
    for output in example.answer or ():
        found = layout.outputs.get((numbers[example.calls[output.call].api], _plain(output.path)))
        if found is not None:
            made.answer[found] = 1


def _plain(path: JsonPath) -> JsonPath:
    """The path without list indices, which other rules choose."""
    return tuple(part for part in path if isinstance(part, str))
