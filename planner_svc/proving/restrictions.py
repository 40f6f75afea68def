"""Finds words that restrict a change: "not read", "older than two weeks", "all but 5", "no, an editor".

No check can tell whether a plan keeps to them. A wrong change is worse than a warning of a right one, so the plan is
unsure: of 86 right changes in the corpus' development part and its part ``judge``, 9 have such words.
"""

import re
from collections.abc import Mapping
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.text import MAX_CHARS, without_quotes
from services.contracts.api import Api
from services.contracts.plan import Plan

_RESTRICTS: Final = re.compile(
    r"\b(?P<word>not(?!\s+only\b)|no(?!\s*\.?\s*\d)|never|nobody|none|neither|except(?:ing)?|excluding|unless|without"
    r"|(?:old|new|small|larg|bigg|great|high|low|long|short|earli|lat|few)er\s+than|(?:less|more)\s+than"
    r"|but\s+(?:keep|leave|spare)|(?:all|every\w*|any\w*)\s+but|other\s+than|rather\s+than|instead\s+of|apart\s+from"
    r"|\w+n['\u2019]t(?!\s+forget\b))(?!['\w])(?P<rest>[^.;:!?\n]{0,60}\b)?",
    re.IGNORECASE,
)
_WORDS: Final = 6
"""Words of a restriction that are quoted."""


def restriction(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """The first words that restrict a change and are in no value of the plan; empty if there are none.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    if not any(apis[step.api].mutating for step in plan.steps):
        return ""
    said = [text.casefold() for text in map(str, literals(plan))]
    for found in _RESTRICTS.finditer(without_quotes(query[:MAX_CHARS])):
        words = query[found.start() : found.end()].split()[:_WORDS]
        if not any(" ".join(words[:2]).casefold() in text for text in said):
            return " ".join(words)
    return ""
