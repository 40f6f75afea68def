"""What demonstrations show of the candidates: which are called for a like request, what feeds what, and values.

A demo speaks of candidates only: an API that is none is never called, whatever a demo does (TPTU-v2, section 3.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

from planner_svc.backends.compact.forms import Form, form_of, number_form_of
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import LiteralValue, Reference

SIMILAR: Final = 0.8
"""From this cosine on a demo is of a like request: what it calls counts. TPTU-v2's threshold."""
_MAX_CHARS: Final = 4_000
_MAX_VALUE: Final = 200
_MAX_LITERALS: Final = 100
_MAX_NUMBERS: Final = 40
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?%?")


@dataclass(frozen=True, slots=True)
class Shown:
    """What demos show.

    Attributes:
        calls: how similar the most similar request is that such a call answers, by API.
        feeds: pairs of APIs, the one whose answer feeds the other first.
        forms: how an argument's values are written, by API and argument.
        values: what arguments have been given, as text, likewise: examples beside those of the API's own description.
    """

    calls: dict[str, float] = field(default_factory=dict)
    feeds: set[tuple[str, str]] = field(default_factory=set)
    forms: dict[tuple[str, str], Form] = field(default_factory=dict)
    values: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


def shown_by(demos: Sequence[SelectedDemo], candidates: Set[str], now: datetime) -> Shown:
    """What these demos show of these candidates.

    Args:
        demos: most similar first.
        candidates: ids of APIs.
        now: the clock against which values were written, as good as any.
    """
    shown = Shown()
    for selected in demos:
        demo = selected.demo
        if selected.similarity >= SIMILAR and set(demo.apis) <= candidates:
            for api in demo.apis:
                shown.calls[api] = max(shown.calls.get(api, 0.0), selected.similarity)
        shown.feeds.update(pair for pair in _feeds(demo) if candidates >= {*pair})
        for place, value in islice(_literals(demo), _MAX_LITERALS):
            if place[0] not in candidates:
                continue
            form = _form(demo.query[:_MAX_CHARS], value, now)
            if form is not None:
                shown.forms.setdefault(place, form)
            if value and len(str(value)) <= _MAX_VALUE:
                shown.values[place] = (*shown.values.get(place, ()), str(value))
    return shown


def _feeds(demo: Demo) -> Iterator[tuple[str, str]]:
    apis = {step.id: step.api for step in demo.plan.steps}
    for step in demo.plan.steps:
        for value in step.arguments.values():
            if isinstance(value, Reference) and value.step in apis:
                yield apis[value.step], step.api


def _literals(demo: Demo) -> Iterator[tuple[tuple[str, str], str | int | float]]:
    """The texts and numbers that its steps are given, by API and argument."""
    for step in demo.plan.steps:
        for name, value in step.arguments.items():
            literal = value.value if isinstance(value, LiteralValue) else None
            if isinstance(literal, str | int | float) and not isinstance(literal, bool):
                yield (step.api, name), literal


def _form(query: str, value: str | float, now: datetime) -> Form | None:
    """The form that makes the value of the request's words; None where they do not say it."""
    if isinstance(value, str):
        at = query.lower().find(value.lower()) if value else -1
        return form_of(query[at : at + len(value)], value, now) if at >= 0 else None
    forms = (number_form_of(said[0], value) for said in islice(_NUMBER.finditer(query), _MAX_NUMBERS))
    return next((form for form in forms if form is not None), None)
