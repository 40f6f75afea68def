"""Finds a further question that a plan may not answer: "which site is it, and who owns it?" with the site's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planner_svc.reading.profile import profile_of
from planner_svc.reading.text import MAX_CHARS, without_quotes
from services.contracts.api import Api
from services.contracts.plan import AnswerOutput, Plan

_QUESTION: Final = re.compile(
    r"(?:^|[?.;!]\s|\band\s)\s*(?=(?P<said>(?:which|what|who|whose|when|where|why|how)\b[^?.;!]{0,60}))", re.IGNORECASE
)
"""A relative clause has no "and" before it: "the site, which is in Hull"."""
_WORDS: Final = 6


def unanswered(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """The first words of the last question, if a plan that only reads answers with fewer values than questions.

    A list or an object may answer any number of questions.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    asked = [match["said"] for match in _QUESTION.finditer(without_quotes(query[:MAX_CHARS]))]
    if len(asked) < 2 or not plan.answer or any(apis[step.api].mutating for step in plan.steps):
        return ""
    if len(plan.answer) >= len(asked) or not all(_is_one_value(one, plan, apis) for one in plan.answer):
        return ""
    return " ".join(asked[-1].split()[:_WORDS])


def _is_one_value(output: AnswerOutput, plan: Plan, apis: Mapping[str, Api]) -> bool:
    """Whether an output is a single text, number or flag."""
    step = plan.step(output.value.step)
    if step is None or step.foreach is not None:
        return False
    fields = profile_of(apis[step.api]).fields
    found = next((field for field in fields if field.path == output.value.path), None)
    return found is not None and bool(found.kinds) and found.kinds.isdisjoint({"object", "array"})
