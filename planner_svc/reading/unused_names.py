"""Names and ids in a request that a plan does not use."""

import re
from typing import Final

from planner_svc.reading.readings import NO_CLOCK, whole_moments
from planner_svc.reading.text import without, without_quotes
from services.contracts.plan import Plan, scalars, step_values

_NAME: Final = re.compile(r"(?<=[^\s.!?:]\s)[A-Z][\w'\u2019-]+(?:\s+[A-Z][\w'\u2019-]+)*|\b(?=\w*\d)\w{2,}(?:-\w+)*\b")
"""What is likely a name or an id: capitals within a sentence, and words with digits."""
_POSSESSIVE: Final = re.compile("['\u2019]s?$")
_MAX_CHARS: Final = 200


def unused_names(plan: Plan, query: str) -> list[str]:
    """Names and ids in the request that are in no argument of the plan. Quotations and dates are values of others."""
    moments = ((found.start, found.end) for found in whole_moments(query, NO_CLOCK))
    text = without(without_quotes(query, ","), moments)
    values = {str(one).casefold() for step in plan.steps for value in step_values(step) for one in scalars(value)}
    said = (_POSSESSIVE.sub("", name[0]) for name in _NAME.finditer(text) if len(name[0]) <= _MAX_CHARS)
    names = dict.fromkeys(said)
    return [name for name in names if not any(name.casefold() in value for value in values)]
