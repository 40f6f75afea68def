"""Finds requests that also say not to do what the plan does: "cancel order 5 but do not cancel it".

Which of both is meant, only the user knows. The plan stands and waits for its approval; a remark quotes the words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.actions import find_imperatives
from planner_svc.reading.asked import ANYTHING
from planner_svc.reading.profile import profile_of
from planner_svc.reading.text import MAX_CHARS, split_name, stem, stems, without_quotes
from services.contracts.api import Api
from services.contracts.plan import Plan

_NOT_TO: Final = re.compile(
    r"\b(?:(?:do|must|should|shall)\s+not|don['\u2019]?t|never|not\s+to)\s+(?P<verb>[a-z]+)"
    r"(?P<thing>(?:(?!\s+(?:and|but|then)\b)[^.,;:!?()\n]){0,100})",
    re.IGNORECASE,
)


def forbidden_change(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """The words with which a request forbids a change that the plan makes; empty if there are none.

    They are a negated verb that the request also uses as an imperative or that names a changing operation, and nothing
    that the plan does not change: "cancel order 5, do not cancel order 6" is no contradiction.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    changing = [apis[name] for name in {step.api: None for step in plan.steps} if apis[name].mutating]
    bare = without_quotes(query[:MAX_CHARS])
    found = list(_NOT_TO.finditer(bare)) if changing else []
    if not found:
        return ""
    verbs = {stem(verb) for verb, _ in find_imperatives(bare)}
    verbs |= {stem(word) for api in changing for word in split_name(api.name)[:1]}
    known = ANYTHING.union(*(profile_of(api).title for api in changing))
    known |= {word for value in literals(plan) for word in stems(str(value))}
    for match in found:
        if stem(match["verb"]) in verbs and known.issuperset(stems(match["thing"])):
            return query[match.start() : match.end()].strip()
    return ""
