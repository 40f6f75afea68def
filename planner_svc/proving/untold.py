"""What is asked for and no answer tells, said in words: "I can find the order; none of the APIs tells “weight”".

A plan that only reads may be proved, and right in all it does, while the thing asked for is no field of any answer. A
wrong "cannot" is as bad as silence, so this speaks only where a question names what it asks for, all answers of the
plan are declared in full, and no candidate has any of the words anywhere in its document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from planner_svc.compiler.schemas import Node
from planner_svc.proving.leftovers import literals
from planner_svc.proving.near_misses import ANYTHING, is_known
from planner_svc.reading.answers import MEASURES
from planner_svc.reading.profile import MAX_FIELDS, MAX_NESTING, Profile, read_profile, words_of_api
from planner_svc.reading.text import MAX_CHARS, STOP, split_name, stem, stem_set, stems
from services.contracts.api import Api
from services.contracts.plan import Plan

_ASKED: Final = re.compile(
    r"\b(?:(?:which|whose|how\s+(?:many|much)|what's|what(?:\s+(?:is|are|was|were|will\s+be))?)\s+(?:the\s+)?"
    r"(?=(?P<words>(?:[a-z][\w'-]*\s*){1,4}))"
    r"|(?:tell|give|show|get)\s+(?:me|us)\s+the\s+(?=(?P<told>(?:[a-z][\w'-]*\s+){1,4})(?:of|for)\b))",
    re.IGNORECASE,
)
"""Where a request names what it asks for: after a question word, or between "tell me the" and "of"."""
_HOW: Final = re.compile(r"\bhow\s+(?P<measure>[a-z]+)\b", re.IGNORECASE)
_WORKED_OUT: Final = frozenset(("far", "long", "much", "often", "old"))
"""Measures that follow from other fields: dates, prices, counts, a state of progress."""
_PLAIN: Final = re.compile(r"[a-z]+(?:-[a-z]+)*", re.IGNORECASE)
_GENERAL: Final = ANYTHING | stem_set("else")
_MAX_NAMED: Final = 3
_MAX_SUMMARY: Final = 100


def untold(query: str, plan: Plan, apis: Mapping[str, Api], candidates: Iterable[Api]) -> str:
    """What a plan finds and what none of the APIs tells, in a sentence; empty where all that is asked for may be there.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
        candidates: all that the planner could choose from: what one of them tells could be found.
    """
    query = query[:MAX_CHARS]
    asked = list(_asked(query))
    called = list({step.api: apis[step.api] for step in plan.steps}.values())
    if not asked or any(api.mutating for api in called):
        return ""
    profiles = [read_profile(api) for api in called]
    if not all(_declared(profile) for profile in profiles):
        return ""
    known = {word for value in literals(plan) for word in stems(str(value)[:MAX_CHARS])}
    missing = _without(asked, known.union(*map(_words, profiles)))
    ids = {api.id for api in called}
    for candidate in candidates:
        if not missing:
            return ""
        if candidate.id not in ids:
            missing = _without(missing, _words(read_profile(candidate)))
    return _sentence(query, profiles, missing) if missing else ""


def _words(profile: Profile) -> frozenset[str]:
    """Stems of all that an API may be about, the values that its arguments list among them."""
    listed = " ".join(part for slot in profile.slots for value in slot.choices for part in split_name(str(value)))
    return words_of_api(profile).union(stems(listed))


def _asked(query: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The things a request asks for by name, as it says them, each with stems of what they may be called."""
    for match in _ASKED.finditer(query):
        words = list(_named((match["words"] or match["told"]).split()))
        if words:
            yield " ".join(words), frozenset(stems(" ".join(words)))
    for match in _HOW.finditer(query):
        measure = match["measure"].lower()
        if measure in MEASURES and measure not in _WORKED_OUT:
            yield f"how {measure} it is", frozenset(MEASURES[measure]) | {stem(measure)}


def _named(words: Sequence[str]) -> Iterator[str]:
    """The words of a name, up to the first that is none."""
    for word in words:
        if word.lower() in STOP or stem(word) in _GENERAL or not _PLAIN.fullmatch(word):
            return
        yield word


def _without(
    asked: Iterable[tuple[str, frozenset[str]]], known: frozenset[str] | set[str]
) -> list[tuple[str, frozenset[str]]]:
    """Those of which no word is known."""
    words = frozenset(known)
    return [one for one in asked if not any(is_known(word, words) for word in one[1])]


def _declared(profile: Profile) -> bool:
    """Whether a document says all that an API answers with; what it leaves open may hold anything."""
    schemas = profile.schemas
    if not profile.fields or len(profile.fields) >= MAX_FIELDS - 1 or schemas.is_anything(profile.response):
        return False
    if schemas.kinds(profile.response) - {"null"} == {"string"}:
        return False
    return all(
        _is_closed(profile, field.node) and (len(field.path) < MAX_NESTING or not field.kinds & {"object", "array"})
        for field in profile.fields
    )


def _is_closed(profile: Profile, node: Node) -> bool:
    schemas = profile.schemas
    if schemas.is_anything(node):
        return False
    kinds = schemas.kinds(node) - {"null"}
    if kinds == {"object"}:
        return bool(schemas.properties(node))
    if kinds == {"array"}:
        item = schemas.child(node, 0, strict=False)
        return (
            isinstance(item, Node)
            and not schemas.is_anything(item)
            and (schemas.kinds(item) - {"null"} != {"object"} or bool(schemas.properties(item)))
        )
    return True


def _sentence(query: str, profiles: Sequence[Profile], missing: Sequence[tuple[str, frozenset[str]]]) -> str:
    said = set(stems(query))
    found = list(dict.fromkeys(_thing(profile, said) for profile in profiles))[-_MAX_NAMED:]
    names = list(dict.fromkeys(f"“{name}”" for name, _ in missing))[:_MAX_NAMED]
    return f"I can find {_listed(found, 'and')}; none of the APIs tells {_listed(names, 'or')}."


def _thing(profile: Profile, said: set[str]) -> str:
    """What a call finds: the thing its path is about where the request speaks of it, else what its summary says."""
    noun = stems(profile.noun)
    if noun and said.issuperset(noun):
        return f"the {profile.noun}"
    api = profile.api
    return f"what “{(api.summary or ' '.join(split_name(api.name)))[:_MAX_SUMMARY].rstrip('. ')}” answers"


def _listed(parts: Sequence[str], last: str) -> str:
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
