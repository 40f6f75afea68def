"""Says what is asked for and no API returns: "I can find the order; none of the APIs tells “weight”".

A plan that only reads may be proved and do everything right although the thing asked for is no field of any answer. A
wrong "cannot" is as bad as silence. So this reports something only if a question names what it asks for, all answers of
the plan are declared in full, and no candidate has any of the words anywhere in its document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from planner_svc.compiler.nodes import Node
from planner_svc.proving.unused_values import literals
from planner_svc.proving.wrong_target import Vocabulary
from planner_svc.reading.asked import Asked, asked_for
from planner_svc.reading.profile import MAX_FIELDS, MAX_NESTING, Profile, profile_of, words_of_api
from planner_svc.reading.text import MAX_CHARS, split_name, stems
from services.compute import checkpoint
from services.contracts.api import Api
from services.contracts.plan import Plan

_MAX_NAMED: Final = 3
_MAX_ASKED: Final = 20
"""Most things that are searched for: each is compared with all words of all candidates."""
_MAX_LISTED: Final = 5_000
"""Most listed values of an API's arguments that are read."""
_MAX_VALUE: Final = 200
"""Most characters of one value that are read."""
_MAX_SUMMARY: Final = 100


def untold(query: str, plan: Plan, apis: Mapping[str, Api], candidates: Iterable[Api]) -> str:
    """What a plan finds and what none of the APIs returns, in a sentence; empty if everything may be returned.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
        candidates: all APIs that the planner could choose from. What one of them returns counts as available.
    """
    missing = _missing(query, plan, apis)
    called = _called(plan, apis)
    ids = {api.id for api in called}
    for candidate in candidates:
        checkpoint()
        if not missing:
            return ""
        if candidate.id not in ids:
            missing = _without(missing, _words(profile_of(candidate)))
    return _sentence(query, [profile_of(api) for api in called], missing) if missing else ""


def missing_from_plan(query: str, plan: Plan, apis: Mapping[str, Api]) -> tuple[str, ...]:
    """What is asked for by name and no call of a proved plan returns, in the request's words; at most three."""
    return _names(_missing(query, plan, apis))


def _missing(query: str, plan: Plan, apis: Mapping[str, Api]) -> list[Asked]:
    """The things asked for by name that the called APIs do not mention; empty if that cannot be known."""
    asked, called = list(islice(asked_for(query), _MAX_ASKED)), _called(plan, apis)
    if not asked or any(api.mutating for api in called):
        return []
    profiles = [profile_of(api) for api in called]
    if not all(_declared(profile) for profile in profiles):
        return []
    known = {word for value in literals(plan) for word in stems(str(value)[:MAX_CHARS])}
    return _without(asked, known.union(*map(_words, profiles)))


def _called(plan: Plan, apis: Mapping[str, Api]) -> list[Api]:
    return list({step.api: apis[step.api] for step in plan.steps}.values())


def _words(profile: Profile) -> frozenset[str]:
    """Stems of all words that an API may be about, including the listed values of its arguments."""
    found, left = set(words_of_api(profile)), _MAX_LISTED
    for choices in dict.fromkeys(tuple(map(str, slot.choices)) for slot in profile.slots):
        checkpoint()
        listed = islice(choices, left)
        found.update(word for value in listed for word in stems(" ".join(split_name(value[:_MAX_VALUE]))))
        left = max(left - len(choices), 0)
    return frozenset(found)


def _without(asked: Iterable[Asked], known: frozenset[str] | set[str]) -> list[Asked]:
    """The things of which no word is known."""
    words = Vocabulary(known)
    return [one for one in asked if not any(word in words for word in one[1])]


def _declared(profile: Profile) -> bool:
    """Whether a document declares everything that an API returns; what it leaves open may hold anything."""
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


def _sentence(query: str, profiles: Sequence[Profile], missing: Sequence[Asked]) -> str:
    said = set(stems(query[:MAX_CHARS]))
    found = list(dict.fromkeys(_thing(profile, said) for profile in profiles))[-_MAX_NAMED:]
    names = [f"“{name}”" for name in _names(missing)]
    return f"I can find {join_words(found, 'and')}; none of the APIs tells {join_words(names, 'or')}."


def _names(missing: Sequence[Asked]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in missing))[:_MAX_NAMED]


def _thing(profile: Profile, said: set[str]) -> str:
    """What a call finds: the noun of its path if the request has it, otherwise what its summary says."""
    noun = stems(profile.noun)
    if noun and said.issuperset(noun):
        return f"the {profile.noun}"
    api = profile.api
    return f"what “{(api.summary or ' '.join(split_name(api.name)))[:_MAX_SUMMARY].rstrip('. ')}” answers"


def join_words(parts: Sequence[str], last: str) -> str:
    """The parts as an enumeration in words: "a, b or c"."""
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
