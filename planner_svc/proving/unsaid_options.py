"""Finds options that a change would send and that nothing in the request says: a "pilot" is no trainee.

A planner may conclude an option from other words: "we let them down" is a cancellation by us. It may as well be a
guess: only the user can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from planner_svc.reading.choices import named_choices
from planner_svc.reading.profile import Profile, Slot, profile_of
from planner_svc.reading.text import MAX_CHARS, split_name, stems
from services.contracts.api import Api
from services.contracts.plan import LiteralValue, Plan

_CODE: Final = re.compile(r"[A-Z0-9]{1,3}")
"""Options whose words nobody says, such as EUR."""
_MAX_CHOICES: Final = 50


def unsaid_option(query: str, plan: Plan, apis: Mapping[str, Api], given: Mapping[str, object]) -> str:
    """The first option of a change that no word of the request says; empty if there is none.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
        given: the values that the application gave, by argument.
    """
    said = frozenset(stems(query[:MAX_CHARS]))
    for step in plan.steps:
        profile = profile_of(apis[step.api])
        if not profile.api.mutating:
            continue
        for slot in _choosing(profile):
            held = step.arguments.get(slot.name)
            value = held.value if isinstance(held, LiteralValue) else None
            if not isinstance(value, str) or slot.name in given or value == slot.parameter.json_schema.get("default"):
                continue
            words = stems(" ".join(_said_for(value)))
            named = not said.isdisjoint(words) or any(one.value == value for one in named_choices(slot, query))
            if value in slot.choices and not named:
                return value
    return ""


def _said_for(option: str) -> Iterator[str]:
    """The words of an option, and what an adverb is made of: "every week" is weekly, "each day" daily."""
    for word in split_name(option):
        yield word
        if word.endswith("ly"):
            yield f"{word[:-3]}y" if word.endswith("ily") else word[:-2]


def _choosing(profile: Profile) -> Iterator[Slot]:
    """The arguments that take one of several words."""
    for slot in profile.slots:
        texts = [one for one in slot.choices if isinstance(one, str)]
        if 1 < len(texts) <= _MAX_CHOICES and not all(map(_CODE.fullmatch, texts)):
            yield slot
