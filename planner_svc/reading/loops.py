"""Loops: one call for each item, if a list meets a parameter that takes one value and the request asks for all.

"All tickets", "each ticket": the noun says which list is meant, that of an operation that is named after it.
"Pay all invoices" pays each invoice that was listed; "every comment on the ticket Leak" is one list of comments, of the
one ticket that was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Final

from planner_svc.reading.answers import unique_name
from planner_svc.reading.profile import Profile, profile_of
from planner_svc.reading.text import MAX_CHARS, STOP, split_name, stem, stems, word_set
from planner_svc.reading.unused_names import unused_names
from services.contracts.api import Api
from services.contracts.base import JsonPath
from services.contracts.plan import AnswerOutput, ForEach, ItemReference, Plan, Reference, Step, Value

_EACH: Final = re.compile(
    r"\b(?:each|every)\b(?!\s+(?:day|week|month|year|hour|minute|second|morning|evening|night|time|other)\b)"
    r"|\ball\s+(?:of\s+)?(?:them|these|those|its|their|his|her|our|my|the)\b",
    re.IGNORECASE,
)
_QUANTIFIED: Final = re.compile(r"\b(?:all|each|every)\b(?=(?P<words>(?:\s+[\w'\u2019-]{1,40}){0,6}))", re.IGNORECASE)
_BEFORE_NOUN: Final = word_set("of the these those its their his her our my")
_READING: Final = ("read", "compute")


def with_loops(plan: Plan, query: str, apis: Mapping[str, Api]) -> Plan:
    """The plan with a ``foreach`` wherever it takes the first item of a list and the request speaks of each item.

    Without such words the plan is unchanged: the first result of a search is meant.

    Args:
        plan: the plan.
        query: the request.
        apis: the plan's APIs by id.
    """
    meant = _Meant(plan, query[:MAX_CHARS], apis)
    steps: list[Step] = []
    lists: dict[str, Reference] = {}
    for step in plan.steps:
        arguments = {name: _first_of_each(value, lists) for name, value in step.arguments.items()}
        found = next(_lists(arguments.values()), None) if step.foreach is None else None
        if found is not None and (found.step in lists or meant.each_of(found.step, step)):
            lists[step.id] = found
            arguments = {name: _of_item(value, found) for name, value in arguments.items()}
            step = step.model_copy(update={"arguments": arguments, "foreach": ForEach(items=found)})
        steps.append(step)
    if not lists:
        return plan
    return Plan(steps=tuple(steps), answer=tuple(_answers(plan.answer, lists)))


class _Meant:
    """Of which lists a request means each item."""

    def __init__(self, plan: Plan, query: str, apis: Mapping[str, Api]) -> None:
        self._plan, self._query = plan, query
        self._profiles = {step.id: profile_of(apis[step.api]) for step in plan.steps if step.api in apis}
        said = [(match, _noun_phrase(match["words"])) for match in _QUANTIFIED.finditer(query)]
        self._nouns = [noun for _, noun in said if noun]
        self._each = [noun for match, noun in said if _EACH.match(query, match.start())]

    @cached_property
    def _leaves_out(self) -> bool:
        """Whether the request has a name that is neither in an argument nor in an operation's texts."""
        known = frozenset[str]().union(*(profile.title for profile in self._profiles.values()))
        return any(not known.issuperset(stems(name)) for name in unused_names(self._plan, self._query))

    def each_of(self, listing: str, step: Step) -> bool:
        """Whether ``step`` is meant for each item of the list of the step ``listing``.

        A change is not, if the request has a name that no call uses: the list has more items than are meant.
        """
        source, taker = self._profiles.get(listing), self._profiles.get(step.id)
        if source is None or taker is None or not (self._each or self._nouns):
            return False
        if taker.effect not in _READING and self._leaves_out:
            return False
        names, lists = _names(source), taker.effect in _READING and any(field.listed for field in taker.fields)
        if any(not noun.isdisjoint(names) for noun in self._nouns):
            return True
        given = _names(taker) if lists else frozenset[str]()
        return any(noun.isdisjoint(given) for noun in self._each)


def _names(profile: Profile) -> frozenset[str]:
    """Stems of what an operation is named after: of its name, and of the last part of its path that is a word."""
    last = next((part for part in reversed(profile.api.path.split("/")) if part and "{" not in part), "")
    return frozenset(stems(" ".join([*split_name(profile.api.name), *split_name(last)])))


def _noun_phrase(words: str) -> frozenset[str]:
    """Stems of a noun and of the adjectives before it."""
    named = dropwhile(lambda word: word in _BEFORE_NOUN, words.casefold().split())
    return frozenset(stem(word) for word in takewhile(lambda word: word not in STOP, named))


def _lists(values: Iterable[Value]) -> Iterator[Reference]:
    """The lists whose first items are referred to."""
    for value in values:
        if isinstance(value, Reference) and (at := _index(value.path)) is not None:
            yield Reference(step=value.step, path=value.path[:at])


def _index(path: JsonPath) -> int | None:
    return next((at for at, part in enumerate(path) if isinstance(part, int)), None)


def _first_of_each(value: Value, looped: Mapping[str, Reference]) -> Value:
    """The value; a reference to a looped call points to its first answer, since its output is now a list."""
    if isinstance(value, Reference) and value.step in looped:
        return Reference(step=value.step, path=(0, *value.path))
    return value


def _of_item(value: Value, items: Reference) -> Value:
    size = len(items.path)
    if not isinstance(value, Reference) or (value.step, value.path[:size]) != (items.step, items.path):
        return value
    return ItemReference(path=value.path[size + 1 :]) if _index(value.path) == size else value


def _answers(outputs: tuple[AnswerOutput, ...], lists: Mapping[str, Reference]) -> Iterator[AnswerOutput]:
    """The outputs; those of a looped call are replaced by one with all its answers, named after the list."""
    given: set[str] = set()
    names = {output.name for output in outputs}
    for output in outputs:
        step = output.value.step
        if step not in lists:
            yield output
        elif step not in given:
            given.add(step)
            noun = next((part for part in reversed(lists[step].path) if isinstance(part, str)), "")
            name = unique_name(noun, names) if noun else output.name
            yield AnswerOutput(name=name, value=Reference(step=step))
