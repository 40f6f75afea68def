"""The day that a request counts from and does not say: "five days from now", "how long until 24 December?"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner_svc.reading.context import read_clock
from planner_svc.reading.profile import profile_of
from planner_svc.reading.readings import readings
from planner_svc.reading.text import MAX_CHARS, without_quotes
from services.contracts.planning import PlanRequest, Question

_NUMBER: Final = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_FROM_NOW: Final = re.compile(
    r"\b(?:from\s+now|now|today|ago|currently|(?:are|is|do)\s+we\s+(?:in|have)"
    rf"|(?:in|within)\s+{_NUMBER}\s+(?:days?|weeks?|months?|years?|fortnights?)"
    r"|how\s+(?:many|much|long)\b.{0,60}?\b(?:until|till|since|left|to\s+go))\b",
    re.IGNORECASE,
)


def with_today(request: PlanRequest, questions: Sequence[Question]) -> PlanRequest:
    """The request with today's date for each date that is asked for, if it counts from now.

    Only for calls that read: the day of a change is not guessed. The request itself is returned if nothing is implied.

    Args:
        request: what was asked, with the candidates and the clock.
        questions: about arguments that the request says nothing about.
    """
    if not questions or not _FROM_NOW.search(without_quotes(request.query[:MAX_CHARS])):
        return request
    known = {one.api.id: one.api for one in request.candidates if not one.api.mutating}
    values = dict(request.context.values)
    for question in questions:
        profile = profile_of(known[question.api]) if question.api in known else None
        slot = next((one for one in profile.slots if one.name == question.argument), None) if profile else None
        if profile is not None and slot is not None and slot.temporal:
            today = readings(profile, slot, "today", read_clock(request.context))
            values |= {slot.name: today[0]} if today and today[0] != "today" else {}
    context = request.context.model_copy(update={"values": values})
    return request if values == request.context.values else request.model_copy(update={"context": context})
