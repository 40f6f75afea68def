"""Finds requests that also say not to do what the plan does, or when: "all except 5", "cancel order 5 if it is late".

Which of both is meant, only the user knows. The plan stands and waits for its approval; a remark quotes the words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.actions import find_imperatives
from planner_svc.reading.asked import ANYTHING
from planner_svc.reading.calendar_words import WEEKDAY
from planner_svc.reading.conditions import CONDITION
from planner_svc.reading.profile import profile_of
from planner_svc.reading.readings import NO_CLOCK, whole_moments
from planner_svc.reading.text import MAX_CHARS, split_name, stem, stem_set, stems, without_quotes
from planner_svc.reading.withdrawn import EXCEPT, THING, corrected
from services.compute import with_checkpoints
from services.contracts.api import Api
from services.contracts.plan import Plan, scalars, step_references, step_values

_NOT: Final = r"(?:\s+not|n['\u2018\u2019\u2032\u00b4`]?t)"
_NOT_TO: Final = re.compile(
    rf"\b(?:(?:do|must|should|shall){_NOT}|never|not\s+to|avoid|refrain\s+from)"
    rf"(?:\s+(?:actually|ever|please|really|yet|want\s+(?:you\s+)?to))?\s+(?P<verb>[a-z]+){THING}",
    re.IGNORECASE,
)
_NOT_DONE: Final = re.compile(
    r"\b(?!(?:and|but|so)\s)(?P<thing>(?:[\w#-]{1,100}\s+){0,2}[\w#-]{1,100})\s+"
    rf"(?:must|should|shall|may){_NOT}\s+(?:be|get)\s+(?P<verb>[a-z]+)",
    re.IGNORECASE,
)
"""The same after the thing: "order 5 must not be cancelled". It may be an aim: "it must not be sent, cancel it"."""
_CHANGING: Final = stem_set("affect alter change modify touch")
"""Verbs of any change. What they forbid has to be named."""
_PRONOUN: Final = re.compile(r"\b(?:it|its|them|that|those|this|these)\b", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d\d")


def forbidden_change(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """The words with which a request forbids a change that the plan makes; empty if there are none.

    They are a negated verb that the request also uses as an imperative or that names a changing operation, and nothing
    that the plan does not change: "cancel order 5, do not cancel order 6" is no contradiction. An exception forbids
    what the plan names, and any change of each item of a list. A condition forbids a change if no call has one, nor the
    state that is its condition: "cancel order 5 if it is late".

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    changing = [apis[name] for name in {step.api: None for step in plan.steps} if apis[name].mutating]
    bare = without_quotes(query[:MAX_CHARS])
    found = [*_NOT_TO.finditer(bare), *_NOT_DONE.finditer(bare)] if changing else []
    excepted = list(EXCEPT.finditer(bare)) if changing else []
    replaced = [query[start:end] for start, end in corrected(query)] if changing else []
    conditions = list(CONDITION.finditer(bare)) if changing and not any(step.when for step in plan.steps) else []
    if not found and not excepted and not replaced and not conditions:
        return ""
    verbs = {_verb(verb) for verb, _ in find_imperatives(bare)}
    verbs |= {_verb(word) for api in changing for word in split_name(api.name)[:1]}
    said = [str(one) for step in plan.steps for value in step_values(step) for one in scalars(value)]
    named = {word for text in said for word in stems(text)}
    known = ANYTHING.union(named, *(profile_of(api).title for api in changing))
    known |= {word for value in literals(plan) for word in stems(str(value))}
    loops = any(step.foreach is not None and step.when is None and apis[step.api].mutating for step in plan.steps)
    for match in excepted:
        words = stems(match["thing"])
        takes = known.issuperset(words) and not named.isdisjoint(words)
        if (takes or loops or _excepts_date(match["thing"], said)) and not any(match[0] in text for text in said):
            return query[match.start() : match.end()].strip()
    for match in conditions:
        checked = (state := stems(match["state"])) and named.issuperset(state)
        if not checked and not any(match[0] in text for text in said):
            return query[match.start() : match.end()].strip()
    for text in replaced:
        if text in said:
            return text
    for match in found:
        verb, words = _verb(match["verb"]), stems(match["thing"])
        meant = verb in verbs or (verb in _CHANGING and not named.isdisjoint(words))
        if meant and known.issuperset(words):
            return query[match.start() : match.end()].strip()
    return ""


def _verb(word: str) -> str:
    """The stem of a verb, also of a British form: "cancelled"."""
    found = stem(word)
    return found[:-1] if found.endswith("ll") else found


def forbidden_steps(query: str, plan: Plan, apis: Mapping[str, Api]) -> dict[str, str]:
    """The changes of a plan that the request only forbids, each with the words: of 5 in "do not cancel 5, cancel 6".

    Nothing else of the request has the value for which the call is made or may mean it, and the operation has the verb.
    """
    bare = without_quotes(query[:MAX_CHARS])
    clauses = [one for one in with_checkpoints(_NOT_TO.finditer(bare)) if not _is_done_later(bare, one)]
    rest = _NOT_TO.sub(" ", bare)
    found = {}
    for step in plan.steps if clauses else ():
        api = apis.get(step.api)
        if api is None or not api.mutating or step.foreach is not None:
            continue
        verbs = {*map(_verb, (*split_name(api.name), *stems(api.summary)))}
        said = [rf"(?<!\w){re.escape(str(one))}(?!\w)" for value in step_values(step) for one in scalars(value)]
        for clause in clauses:
            named = [one for one in said if re.search(one, clause["thing"])]
            if _verb(clause["verb"]) in verbs and any(re.search(one, rest) is None for one in named):
                found[step.id] = query[clause.start() : clause.end()].strip()
    return found


def _is_done_later(bare: str, clause: re.Match[str]) -> bool:
    """Whether what is forbidden may be asked for later on: "do not cancel 5 yet; when it is paid, cancel it"."""
    if _PRONOUN.search(bare, clause.end()) is None:
        return False
    later = {_verb(verb) for verb, _ in find_imperatives(bare[clause.end() :])}
    return not later or not later.isdisjoint({_verb(clause["verb"]), "do"})


def without_forbidden(plan: Plan, query: str, apis: Mapping[str, Api]) -> Plan:
    """The plan without changes that the request only forbids; unchanged if none is left or one needs their answer."""
    forbidden = forbidden_steps(query, plan, apis).keys()
    steps = [step for step in plan.steps if step.id not in forbidden]
    needed = {reference.step for step in steps for reference in step_references(step)}
    if not forbidden or not steps or not needed.isdisjoint(forbidden):
        return plan
    kept = tuple(one.model_copy(update={"after": tuple(set(one.after) - forbidden)}) for one in steps)
    return Plan(steps=kept, answer=tuple(one for one in plan.answer if one.value.step not in forbidden))


def _excepts_date(thing: str, said: Sequence[str]) -> bool:
    """Whether a date is excepted from a plan with a date. Lists of weekdays know exceptions."""
    if not any(map(_DATE.match, said)):
        return False
    dates = (thing[one.start : one.end] for one in whole_moments(thing, NO_CLOCK))
    return any(re.fullmatch(WEEKDAY, text, re.IGNORECASE) is None for text in dates)
