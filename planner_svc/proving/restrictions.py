"""Finds words that restrict a change: "not read", "older than two weeks", "the png files", "every Monday".

No check can tell whether a plan keeps to them. A wrong change is worse than a warning of a right one, so the plan is
unsure: of 86 right changes in the corpus' development part and its part ``judge``, 9 have such words.
"""

import re
from collections.abc import Mapping
from itertools import chain, takewhile
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.actions import asks_for_action, asks_for_change, find_imperatives
from planner_svc.reading.calendar_words import WEEKDAY
from planner_svc.reading.profile import profile_of
from planner_svc.reading.quantities import shares
from planner_svc.reading.questions import polite_requests
from planner_svc.reading.text import MAX_CHARS, STOP, split_name, stem, stems, without_quotes
from planner_svc.reading.withdrawn import EXCEPT
from services.contracts.api import Api, Location
from services.contracts.plan import Plan

_RESTRICTS: Final = re.compile(
    r"\b(?P<word>not(?!\s+only\b)|no(?!\s*\.?\s*\d)|never|nobody|none|neither|except(?:ing)?|excluding|unless|without"
    r"|(?:old|new|small|larg|bigg|great|high|low|long|short|earli|lat|few)er\s+than|(?:less|more)\s+than"
    r"|but\s+(?:keep|leave|spare)|(?:all|every\w*|any\w*)\s+but|other\s+than|rather\s+than|instead\s+of|apart\s+from"
    r"|every\s+(?:(?:other|second)\s+)?(?:hour|day|week|weekday|weekend|month|quarter|year|morning|evening"
    rf"|{WEEKDAY})"
    r"|\w+n['\u2019]t(?!\s+forget\b))(?!['\w])(?P<rest>[^.;:!?\n]{0,60}\b)?",
    re.IGNORECASE,
)
_EXCEPTS: Final = re.compile(
    r"(?<!\bif )(?<!\bor )(?<!\bwhy )\b(?:not|without|except(?:ing)?(?:\s+for)?|excluding"
    r"|(?:other\s+than|apart\s+from)(?!\s+that\b)|(?:all|every)\s+(?:[\w'-]{1,20}\s+){1,3}but"
    r"|(?:are|is|have|has|do|does)n['\u2019]t)(?!\s+(?:only|sure)\b)\s+(?P<rest>[^.;:!?\n]{1,60}\b)",
    re.IGNORECASE,
)
"""What some items of a list are not or do not have; "why not" and "not sure" tell nothing of them."""
_DAY: Final = re.compile(r"\d{4}-\d\d")
_OBJECT: Final = re.compile(
    r"\s+(?:(?:all|any|both|each|every|my|of|our|the|these|those)\s+)*(?P<words>(?:[a-z][\w'-]*\s+){1,4})",
    re.IGNORECASE,
)
"""What is changed: the words up to its noun."""
_LIMIT: Final = re.compile(r"\b(?P<word>[a-z]{1,20}er|less|more)\s+than\b", re.IGNORECASE)
"""A limit; that of an argument in whose name the word is is met: ``older_than_days``."""
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
        of_one_thing = all(apis[step.api].path.endswith("}") for step in plan.steps)
        return "" if of_one_thing else _unfiltered(query, plan)
    said = [text.casefold() for text in map(str, literals(plan))]
    limits = {word for step in plan.steps for name in step.arguments for word in split_name(name)}
    for share in shares(query):
        if query[slice(*share)].strip("% ").removesuffix("percent").strip().casefold() not in said:
            return " ".join(query[share[0] :].split()[:_WORDS])
    bare = _LIMIT.sub(
        lambda found: "," * len(found[0]) if found["word"].lower() in limits else found[0],
        without_quotes(query[:MAX_CHARS]),
    )
    for found in _RESTRICTS.finditer(bare):
        words = query[found.start() : found.end()].split()[:_WORDS]
        if not any(" ".join(words[:2]).casefold() in text for text in said):
            return " ".join(words)
    excepted = EXCEPT.search(bare)
    if excepted is not None and not any(excepted["thing"].strip().casefold() in text for text in said):
        return " ".join(query[excepted.start() : excepted.end()].split()[:_WORDS])
    return _qualifier(query, plan, apis)


def _unfiltered(query: str, plan: Plan) -> str:
    """The first words that except some items from a list, if no value can mean them; empty if there are none.

    A flag, or a text that is not in the request, may be how its words are meant: ``false`` for "not on duty".
    """
    bare = without_quotes(query[:MAX_CHARS])
    match = _EXCEPTS.search(bare) if not asks_for_action(bare) else None
    if match is not None and any(_may_mean(one, bare[: match.start()]) for one in literals(plan)):
        return ""
    return " ".join(query[match.start() : match.end()].split()[:_WORDS]) if match is not None else ""


def _may_mean(value: object, before: str) -> bool:
    """Whether a value may be what the words after these mean: it is neither an amount, nor a day, nor in these.

    Nothing at all may be meant: ``0`` for "without a stop".
    """
    if isinstance(value, bool) or value == 0:
        return True
    return isinstance(value, str) and _DAY.match(value) is None and value.casefold() not in before.casefold()


def _qualifier(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """The words before a noun that tell for which of several things a change is made, and that nothing of it has.

    A change of the one thing that its path names needs no such words, nor does what is created.
    """
    changing = [(step, profile_of(apis[step.api])) for step in plan.steps if apis[step.api].mutating]
    several = [
        profile
        for step, profile in changing
        if profile.effect in ("destroy", "change")
        and (step.foreach is not None or not any(one.location is Location.PATH for one in profile.api.parameters))
    ]
    if not several:
        return ""
    nouns = frozenset[str]().union(*(profile.title for profile in several))
    known = {word for value in literals(plan) for word in stems(str(value)[:MAX_CHARS])}.union(
        *({*slot.words} for _, profile in changing for slot in profile.slots)
    )
    bare = without_quotes(query[:MAX_CHARS] + " ")
    for verb, rest in chain(find_imperatives(bare), polite_requests(bare)):
        found = _OBJECT.match(rest) if asks_for_change(verb) else None
        words = found["words"].split() if found is not None else []
        before = list(takewhile(lambda word: stem(word) not in nouns, words))
        if len(before) == len(words) or any(word.lower() in STOP for word in before):
            continue
        if any(stem(word) not in known for word in before):
            return " ".join(words[: len(before) + 1])
    return ""
