"""What demonstrations show of the candidates: which are called for a similar request, what feeds what, and values.

Only demos of candidates count: an API that is no candidate is never called, even if a demo calls it (TPTU-v2, section
3.4).
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
"""Smallest cosine at which a demo's request is similar, so that its calls count. TPTU-v2's threshold."""
_MAX_CHARS: Final = 4_000
_MAX_VALUE: Final = 200
_MAX_LITERALS: Final = 100
_MAX_NUMBERS: Final = 40
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?%?")


@dataclass(frozen=True, slots=True)
class DemoHints:
    """What demos show.

    Attributes:
        calls: by API, the similarity of the most similar request whose demo calls it.
        feeds: pairs of APIs; the answer of the first feeds the second.
        forms: by API and argument, how its values are written.
        values: by API and argument, the values in demos as text; they serve as examples, like those of the description.
    """

    calls: dict[str, float] = field(default_factory=dict)
    feeds: set[tuple[str, str]] = field(default_factory=set)
    forms: dict[tuple[str, str], Form] = field(default_factory=dict)
    values: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


def hints_from(demos: Sequence[SelectedDemo], candidates: Set[str], now: datetime) -> DemoHints:
    """What these demos show of these candidates.

    Args:
        demos: most similar first.
        candidates: ids of APIs.
        now: the clock that relative dates refer to. A demo's own clock is not known.
    """
    hints = DemoHints()
    for selected in demos:
        demo = selected.demo
        if selected.similarity >= SIMILAR and set(demo.apis) <= candidates:
            for api in demo.apis:
                hints.calls[api] = max(hints.calls.get(api, 0.0), selected.similarity)
        hints.feeds.update(pair for pair in _feeds(demo) if candidates >= {*pair})
        for place, value in islice(_literals(demo), _MAX_LITERALS):
            if place[0] not in candidates:
                continue
            form = _form(demo.query[:_MAX_CHARS], value, now)
            if form is not None:
                hints.forms.setdefault(place, form)
            if value and len(str(value)) <= _MAX_VALUE:
                hints.values[place] = (*hints.values.get(place, ()), str(value))
    return hints


def _feeds(demo: Demo) -> Iterator[tuple[str, str]]:
    apis = {step.id: step.api for step in demo.plan.steps}
    for step in demo.plan.steps:
        for value in step.arguments.values():
            if isinstance(value, Reference) and value.step in apis:
                yield apis[value.step], step.api


def _literals(demo: Demo) -> Iterator[tuple[tuple[str, str], str | int | float]]:
    """The texts and numbers in its steps' arguments, by API and argument."""
    for step in demo.plan.steps:
        for name, value in step.arguments.items():
            literal = value.value if isinstance(value, LiteralValue) else None
            if isinstance(literal, str | int | float) and not isinstance(literal, bool):
                yield (step.api, name), literal


def _form(query: str, value: str | float, now: datetime) -> Form | None:
    """The form that turns the request's words into the value; None if they do not say it."""
    if isinstance(value, str):
        at = query.lower().find(value.lower()) if value else -1
        return form_of(query[at : at + len(value)], value, now) if at >= 0 else None
    forms = (number_form_of(said[0], value) for said in islice(_NUMBER.finditer(query), _MAX_NUMBERS))
    return next((form for form in forms if form is not None), None)
