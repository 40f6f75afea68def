"""Finds times of day that a change would send and nobody said: "schedule it on Friday" starts nothing at midnight.

A day is all that many arguments for a moment need: a list since 1 May begins at 00:00. Where something is changed, only
the user knows the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planner_svc.reading.text import MAX_CHARS
from services.contracts.api import Api
from services.contracts.plan import Plan, scalars, step_values

_MOMENT: Final = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d)")
_MIDNIGHT: Final = re.compile(
    r"\bmid-?night\b|\b12\s+at\s+night\b|(?<!\d)(?:0?0|24)[:.h]00|\b12(?:[:.]00)?\s?a\.?m\b", re.IGNORECASE
)


def assumed_midnight(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """The day on which a change has a moment at 00:00 that the request does not say; empty if there is none.

    Two moments of one call are the ends of a period of whole days.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    if _MIDNIGHT.search(query[:MAX_CHARS]) is not None:
        return ""
    for step in plan.steps:
        if not apis[step.api].mutating:
            continue
        texts = (str(one) for value in step_values(step) for one in scalars(value))
        moments = [match for text in texts if (match := _MOMENT.match(text)) is not None]
        if len(moments) == 1 and moments[0]["clock"] == "00:00":
            return moments[0]["day"]
    return ""
