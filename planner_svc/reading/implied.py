"""Values that a request implies: the day that it counts from ("five days from now"), and the only code that is left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner_svc.reading.context import read_clock
from planner_svc.reading.numbers import NUMBER_WORD
from planner_svc.reading.profile import profile_of
from planner_svc.reading.readings import readings
from planner_svc.reading.standard_codes import codes_in, standard_of
from planner_svc.reading.text import MAX_CHARS, without_quotes
from services.contracts.plan import Plan, scalars, step_values
from services.contracts.planning import PlanRequest, Question

_FROM_NOW: Final = re.compile(
    r"\b(?:from\s+now|now|today|ago|currently|(?:are|is|do)\s+we\s+(?:in|have)"
    rf"|(?:in|within)\s+(?:\d+|an?|{NUMBER_WORD})\s+(?:days?|weeks?|months?|years?|fortnights?)"
    r"|how\s+(?:many|much|long)\b.{0,60}?\b(?:until|till|since|left|to\s+go))\b",
    re.IGNORECASE,
)


def with_implied(request: PlanRequest, questions: Sequence[Question], plan: Plan) -> PlanRequest:
    """The request with values for what is asked for, where it implies one. Only for calls that read.

    A date is today's if the request counts from now. Where one code of a standard is asked for, and the request has one
    that the plan does not use, it is that one. The request itself is returned if nothing is implied.

    Args:
        request: what was asked, with the candidates and the clock, and with codes in place of names.
        questions: about arguments that the request seems to say nothing about.
        plan: the plan that lacks these arguments.
    """
    known = {one.api.id: one.api for one in request.candidates if not one.api.mutating}
    profiles = {api: profile_of(known[api]) for api in {one.api for one in questions} & known.keys()}
    asked = [
        (profile, slot)
        for question in questions
        if (profile := profiles.get(question.api)) is not None
        for slot in profile.slots
        if slot.name == question.argument
    ]
    text = without_quotes(request.query[:MAX_CHARS])
    from_now = _FROM_NOW.search(text) is not None
    used = {str(one) for step in plan.steps for value in step_values(step) for one in scalars(value)}
    values = dict(request.context.values)
    for profile, slot in asked:
        standard = standard_of(slot)
        if standard is not None and [standard_of(other) for _, other in asked].count(standard) == 1:
            left = codes_in(text, standard) - used
            values |= {slot.name: left.pop()} if len(left) == 1 else {}
        elif slot.temporal and from_now:
            today = readings(profile, slot, "today", read_clock(request.context))
            values |= {slot.name: today[0]} if today and today[0] != "today" else {}
    context = request.context.model_copy(update={"values": values})
    return request if values == request.context.values else request.model_copy(update={"context": context})
