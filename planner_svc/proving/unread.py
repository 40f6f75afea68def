"""Finds what a request says and no plan can have read: days that do not exist, and addresses that no call uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.calendar_words import MONTH, MONTHS
from planner_svc.reading.text import MAX_CHARS, without_look_alikes, without_quotes
from services.contracts.api import Api
from services.contracts.plan import Plan

_DAY: Final = r"(?P<d>[1-3]?\d)(?:st|nd|rd|th)?"
_DATE: Final = re.compile(
    rf"(?<![\w./:-])(?:{_DAY}\s+(?:of\s+)?(?P<mon>{MONTH})|(?P<mon2>{MONTH})\s+{_DAY.replace('<d>', '<d2>')})(?![\w:])",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_OWN: Final = re.compile(
    r"(?:\bI(?:\s+am|['\u2019]m)|\bthis\s+is|\bfrom:|\b(?:regards|thanks|yours),?)\s+$", re.IGNORECASE
)
"""Words before the user's own address."""
_WORDS: Final = frozenset({"march", "may"})
_LAST: Final = 31
_LEAP: Final = 2028


def unread(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """What the request says and the plan cannot have, in a sentence; empty if there is nothing.

    A message may name a day that does not exist. An address matters where something is changed, unless it
    is the user's own.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    query = without_look_alikes(query[:MAX_CHARS])
    said = [str(one).casefold() for one in literals(plan)]
    for match in _DATE.finditer(without_quotes(query)):
        text = query[slice(*match.span())]
        if _is_date(match) and not _exists(match) and not any(text.casefold() in one for one in said):
            return f"there is no “{text}”"
    if any(apis[step.api].mutating for step in plan.steps):
        for match in _ADDRESS.finditer(query):
            if not _OWN.search(query, 0, match.start()) and not any(match[0].casefold() in one for one in said):
                return f"it does not use “{match[0]}”"
    return ""


def _is_date(match: re.Match[str]) -> bool:
    """Whether the words are no number beside a word that is a month, too: "room 32 may be free"."""
    month, day = match["mon"] or match["mon2"], match["d"] or match["d2"]
    return month.lower().rstrip(".") not in _WORDS or 1 <= int(day) <= _LAST


def _exists(match: re.Match[str]) -> bool:
    """Whether some year has the day."""
    month, day = match["mon"] or match["mon2"], match["d"] or match["d2"]
    try:
        date(_LEAP, MONTHS[month.lower().rstrip(".")], int(day))
    except ValueError:
        return False
    return True
