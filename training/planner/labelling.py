"""Converts pieces to labels: the characters of a request, and the place of each mark in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from training.planner.drafts import Use
from training.planner.examples import Item, Label, LabelledCall, ListLabel, Option, Ref, Span
from training.planner.pieces import Mark, Text
from training.planner.samples import SampledValue

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request's characters, the place of each mark, and the place that asks for each call."""

    text: str
    places: dict[Mark, Place]
    clauses: dict[int, Place]


def render(pieces: Text) -> Rendered:
    """The pieces as one text."""
    places: dict[Mark, Place] = {}
    clauses: dict[int, Place] = {}
    said = ""
    for piece in pieces:
        start = len(said)
        if not start and not piece.text.strip():
            continue
        said += piece.text
        bare = piece.text.strip()
        if not bare:
            continue
        first = start + piece.text.index(bare)
        place = (first, first + len(bare))
        for mark in piece.marks:
            places[mark] = _joined(places.get(mark), place)
        for call in piece.clauses:
            clauses[call] = _joined(clauses.get(call), place)
    return Rendered(said.rstrip(), places, {call: _unended(said, place) for call, place in clauses.items()})


def labelled_calls(uses: Sequence[Use], rendered: Rendered) -> tuple[LabelledCall, ...]:
    """The calls with their labels, in order."""
    by_call = {call: use for use in uses for call in use.calls}
    return tuple(
        LabelledCall(
            by_call[call].entry.api.id,
            dict(_arguments(by_call[call], call, rendered)),
            rendered.clauses.get(call),
            by_call[call].missing,
        )
        for call in sorted(by_call)
    )


def _arguments(use: Use, call: int, rendered: Rendered) -> list[tuple[str, Label]]:
    found: list[tuple[str, Label]] = []
    for name, given in use.said.items():
        said = next(one for one, calls in given if call in calls)
        found.append((name, _label(said, call, name, rendered)))
    for name, said in use.shared.items():
        found.append((name, _label(said, call, name, rendered)))
    for name, value in use.flags.items():
        found.append((name, Option(value, *rendered.places.get(("value", call, name, -1), (None, None)))))
    for name, fed in use.fed.items():
        place = rendered.places.get(("ref", call, name, -1), (None, None))
        found.append((name, Ref(fed.producer, fed.field.path, *place)))
    order = {slot.name: number for number, slot in enumerate(use.entry.profile.slots)}
    return sorted(found, key=lambda one: order[one[0]])


def _label(said: SampledValue, call: int, name: str, rendered: Rendered) -> Label:
    if said.listed:
        return ListLabel(
            tuple(
                _item(said, ("value", call, name, number), value, rendered)
                for number, (_, value) in enumerate(said.items)
            )
        )
    return _item(said, ("value", call, name, -1), said.items[0][1], rendered)


def _item(said: SampledValue, mark: Mark, value: JsonValue, rendered: Rendered) -> Item:
    start, end = rendered.places.get(mark, (0, 0))
    if said.option:
        return Option(value, start, end)
    own = rendered.text[start:end]
    return Span(start, end, own if isinstance(value, str) and value.lower() == own.lower() else value)


def _joined(known: Place | None, place: Place) -> Place:
    return place if known is None else (min(known[0], place[0]), max(known[1], place[1]))


def _unended(said: str, place: Place) -> Place:
    """The place without leading connectors and final punctuation."""
    start, end = place
    while start < end and said[start] in " ,;.-":
        start += 1
    while end > start + 1 and said[end - 1] in " ,;.?!":
        end -= 1
    return start, end
