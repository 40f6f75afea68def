"""Varies the values of recorded requests, and joins two of them: there are few, and a model soon overfits them."""

from __future__ import annotations

import random
import string
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from planner_svc.backends.compact.forms import number_form_of, number_written
from planner_svc.reading.readings import number_in
from training.planner.examples import (
    Default,
    Example,
    InvalidExample,
    Item,
    Label,
    LabelledCall,
    ListLabel,
    Option,
    Output,
    Ref,
    Span,
    Unstated,
    check,
    labels,
)

_SWAPPED: Final = 0.6
"""Share of the replaced values in a varied request."""
_LONGEST: Final = 80
_LINKS: Final = (" ", " ", " Also, ", " After that, ", " Then, ", " Additionally, ", " Finally, ", "\n")

_Place = tuple[int, int]


class Variation:
    """Varies examples, one at a time.

    Args:
        examples: recorded ones. A value is replaced by a value of a parameter with the same name.
    """

    def __init__(self, examples: Iterable[Example]) -> None:
        said: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for example in examples:
            for _, name, item in labels(example):
                if isinstance(item, Span) and _is_copied(example.query, item):
                    said[name.lower()][str(item.value)] = None
        self._said = {name: tuple(values) for name, values in said.items()}

    def vary(self, example: Example, rng: random.Random) -> Example:
        """Replace values that are copied literally, and move all labels accordingly."""
        names: defaultdict[_Place, list[str]] = defaultdict(list)
        for _, name, item in labels(example):
            if isinstance(item, Span):
                names[item.start, item.end].append(name.lower() if _is_copied(example.query, item) else "")
        taken = [place for _, _, item in labels(example) if (place := _place_of(item)) is not None]
        edits: dict[_Place, str] = {}
        for place, used in names.items():
            alone = all(place == other or place[1] <= other[0] or other[1] <= place[0] for other in taken)
            again = example.query.count(example.query[slice(*place)]) > 1
            if alone and not again and all(used) and rng.random() < _SWAPPED:
                other = self._other(example.query[slice(*place)], used[0], rng)
                if other is not None:
                    edits[place] = other
        return _edited(example, edits) if edits else example

    def _other(self, text: str, name: str, rng: random.Random) -> str | None:
        if any(map(str.isdigit, text)):
            return "".join(_like(character, rng, coded=" " not in text) for character in text)
        known = self._said.get(name, ())
        found = rng.choice(known) if len(known) > 1 else None
        return None if found is None or any(map(str.isdigit, found)) or found == text else found


def both(first: Example, second: Example, rng: random.Random) -> Example | None:
    """Join two requests; None if they call the same API.

    The first one's candidates come first, then those that only the second one has.
    """
    if {call.api for call in first.calls} & {call.api for call in second.calls}:
        return None
    head, tail = first.query.rstrip(), second.query.lstrip()
    head += rng.choice(_LINKS) if head[-1:] in ".?!" else f".{rng.choice(_LINKS)}"
    shift = len(head) - (len(second.query) - len(tail))
    moved = (_moved_call(call, {}, shift, len(first.calls)) for call in second.calls)
    known = {api.id for api in first.candidates}
    extra = [index for index, api in enumerate(second.candidates) if api.id not in known]
    answer = None
    if first.answer is not None and second.answer is not None:
        answer = (*first.answer, *(Output(one.call + len(first.calls), one.path) for one in second.answer))
    return replace(
        first,
        id=f"{first.id}+{second.id}",
        query=head + tail.rstrip(),
        candidates=(*first.candidates, *(second.candidates[index] for index in extra)),
        calls=(*first.calls, *moved),
        answer=answer,
        scores=_scores_of_both(first, second, extra),
    )


def _scores_of_both(first: Example, second: Example, extra: Sequence[int]) -> tuple[tuple[float, ...], ...] | None:
    """The scores of both. A shared API has its score for the request that calls it."""
    if first.scores is None or second.scores is None:
        return None
    wanted = {call.api for call in second.calls}
    own = {api.id: score for api, score in zip(second.candidates, second.scores, strict=True) if api.id in wanted}
    shared = (own.get(api.id, score) for api, score in zip(first.candidates, first.scores, strict=True))
    return (*shared, *(second.scores[index] for index in extra))


def _is_copied(query: str, span: Span) -> bool:
    text = query[span.start : span.end]
    if isinstance(span.value, str):
        return text == span.value and len(text) <= _LONGEST
    return (
        isinstance(span.value, int | float) and number_form_of(text, span.value) is not None and not text.endswith(".")
    )


def _like(character: str, rng: random.Random, *, coded: bool) -> str:
    """Another digit; in a code also another letter."""
    if character in string.digits:
        return rng.choice(string.digits[1:])
    if coded and character in string.ascii_lowercase:
        return rng.choice(string.ascii_lowercase)
    return rng.choice(string.ascii_uppercase) if coded and character in string.ascii_uppercase else character


def _place_of(item: Item) -> _Place | None:
    if isinstance(item, Span):
        return item.start, item.end
    if isinstance(item, Option | Ref) and item.start is not None and item.end is not None:
        return item.start, item.end
    return None


def _edited(example: Example, edits: dict[_Place, str]) -> Example:
    """The example with other words at those places; unchanged if the result is not valid."""
    query = example.query
    for (start, end), text in sorted(edits.items(), reverse=True):
        query = query[:start] + text + query[end:]
    try:
        calls = tuple(_moved_call(call, edits, 0, 0, example.query) for call in example.calls)
        made = replace(example, query=query, calls=calls)
        check(made)
    except (InvalidExample, ValueError):
        return example
    return made


def _moved_call(call: LabelledCall, edits: dict[_Place, str], shift: int, calls: int, query: str = "") -> LabelledCall:
    arguments: dict[str, Label] = {}
    for name, label in call.arguments.items():
        if isinstance(label, ListLabel):
            arguments[name] = ListLabel(tuple(_moved(item, edits, shift, calls, query) for item in label.items))
        else:
            arguments[name] = _moved(label, edits, shift, calls, query)
    clause = call.clause and (_at(call.clause[0], edits) + shift, _at(call.clause[1], edits) + shift)
    return replace(call, arguments=arguments, clause=clause)


def _moved(item: Item, edits: dict[_Place, str], shift: int, calls: int, query: str) -> Item:
    match item:
        case Span(start, end, value):
            place = (_at(start, edits) + shift, _at(end, edits) + shift)
            other = edits.get((start, end))
            return Span(*place, value if other is None else _value(query[start:end], value, other))
        case Option(value, start, end) if start is not None and end is not None:
            return Option(value, _at(start, edits) + shift, _at(end, edits) + shift)
        case Ref(call, path, start, end):
            if start is None or end is None:
                return Ref(call + calls, path)
            return Ref(call + calls, path, _at(start, edits) + shift, _at(end, edits) + shift)
        case Option() | Default() | Unstated():
            return item
    raise InvalidExample(f"no label: {item!r}")


def _value(text: str, value: object, other: str) -> str | int | float:
    """The value of the other words, in the form of the old value."""
    if isinstance(value, str):
        return other
    form, number = number_form_of(text, value) if isinstance(value, int | float) else None, number_in(other)
    if form is None or number is None:
        raise InvalidExample(f"{other!r} is no number")
    return number_written(form, number)


def _at(offset: int, edits: dict[_Place, str]) -> int:
    """The new offset of a character, after the edits before it."""
    return offset + sum(len(text) - (end - start) for (start, end), text in edits.items() if end <= offset)
