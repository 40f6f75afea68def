"""What demonstrations show of the candidates: which are called for a like request, what feeds what, how values look.

A demo speaks of candidates only: an API that is none is never called, whatever a demo does (TPTU-v2, section 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from planner_svc.backends.compact.forms import Form, form_of
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import Reference

SIMILAR: Final = 0.8
"""From this cosine on a demo is of a like request: what it calls counts. TPTU-v2's threshold."""
_MAX_CHARS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Shown:
    """What demos show.

    Attributes:
        calls: how similar the most similar request is that such a call answers, by API.
        feeds: pairs of APIs, the one whose answer feeds the other first.
        forms: how an argument's values are written, by API and argument.
    """

    calls: dict[str, float] = field(default_factory=dict)
    feeds: set[tuple[str, str]] = field(default_factory=set)
    forms: dict[tuple[str, str], Form] = field(default_factory=dict)


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
        for place, form in _forms(demo, now):
            if place[0] in candidates:
                shown.forms.setdefault(place, form)
    return shown


def _feeds(demo: Demo) -> Iterator[tuple[str, str]]:
    apis = {step.id: step.api for step in demo.plan.steps}
    for step in demo.plan.steps:
        for value in step.arguments.values():
            if isinstance(value, Reference) and value.step in apis:
                yield apis[value.step], step.api


def _forms(demo: Demo, now: datetime) -> Iterator[tuple[tuple[str, str], Form]]:
    """Of each text that the demo's request says in some form."""
    query = demo.query[:_MAX_CHARS]
    low = query.lower()
    for step in demo.plan.steps:
        for name, value in step.arguments.items():
            text = getattr(value, "value", None)
            at = low.find(text.lower()) if isinstance(text, str) and text else -1
            if at >= 0 and isinstance(text, str):
                form = form_of(query[at : at + len(text)], text, now)
                if form is not None:
                    yield (step.api, name), form
