"""Chooses among a parameter's options: by the network, and by those that the request names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from planner_svc.backends.compact.draft_calls import LiteralArgument
from planner_svc.backends.compact.items import Kind
from planner_svc.backends.compact.task import FillRequest, Task
from planner_svc.reading.choices import NamedChoice, named_choices, signed_choices
from planner_svc.reading.conditions import CONDITION
from planner_svc.reading.negations import denies
from planner_svc.reading.option_names import option_names
from planner_svc.reading.profile import Profile
from planner_svc.reading.text import MAX_CHARS, STOP, WORD, split_name, stem, stem_set, word_set
from planner_svc.reading.withdrawn import excepted, replaced, within

_MOST: Final = re.compile(
    r"(?<!\bat )\b(?:top|most(?!\s+of\b)|highest|largest|biggest|greatest|latest|newest|longest|heaviest|descending)\b",
    re.IGNORECASE,
)
_LEAST: Final = re.compile(
    r"(?<!\bat )\b(?:bottom|least|fewest|lowest|smallest|oldest|earliest|shortest|lightest|ascending)\b", re.IGNORECASE
)
"""What is wanted first of an order; "at most" is a limit."""
_TURNED: Final = 0.5
"""The probability of an order that only these words tell, and not the network."""
_BEFORE_VERB: Final = {"", *word_set("and that which who to will would can could may must it they we you i not please")}
"""Words before a verb, and none where a request begins with it."""
_NEAR: Final = 40
_TIMES: Final = stem_set("date day time week month year hour minute")


class Options:
    """Chooses the options of a task's parameters.

    Args:
        task: what to decode.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def values(self, fill: FillRequest, sure: float) -> Iterator[LiteralArgument]:
        """The likeliest option; for several calls, all likely ones, in the order in which the request names them."""
        explained = bool(option_names(fill.slot) or signed_choices(fill.slot))
        said = [one for one in named_choices(fill.slot, self._task.query) if not self._is_in_a_name(fill, one)]
        refused = self._refused(fill, said)
        named = {str(one.value): one for one in reversed(said) if str(one.value) not in refused}
        ranked = [one for one in self._offered(fill, named, explained) if str(one[1]) not in refused]
        ranked.sort(key=lambda one: -one[0])
        if refused and not named:
            others = [value for value in fill.slot.choices if str(value) not in refused]
            if not fill.listed and len(others) > 1:
                return  # any of them may be meant
            ranked = [(1.0, value) for value in others]
        likely = [value for odds, value in ranked if odds > 0]
        needed = fill.slot.required and not fill.profile.api.mutating
        if not likely and (named or needed):  # a guess neither changes anything nor limits what is found
            likely = [value for _, value in ranked[:1]]
        own = [one.value for one in named.values() if {one.role, fill.slot.role} != {"from", "to"}]
        if own and not fill.listed and fill.times == 1:
            likely = [value for _, value in ranked if value in own]  # rather what is said than what is guessed
        if len(own) == fill.times > 1 or (own and explained and fill.listed):
            likely = own  # one for each call, or all in one list
        places = {value: (one.start, one.end) for value, one in named.items()}
        if fill.listed:
            if likely and fill.allows(likely):
                yield LiteralArgument(likely, None, sure)
            return
        if fill.times > 1:
            likely.sort(key=lambda value: places.get(str(value), (len(self._task.query), 0)))
        for value in likely if fill.times > 1 else likely[:1]:
            of_texts = orders_texts(fill.profile, value)
            meant = value if of_texts else in_order_said(self._task.query, fill.slot.choices, value)
            if fill.allows(meant):
                yield LiteralArgument(meant, places.get(str(meant)), sure if meant == value else min(sure, _TURNED))

    def _is_in_a_name(self, fill: FillRequest, one: NamedChoice) -> bool:
        """Whether the option is only a part of another argument's words: "bread" in "walnut bread"."""
        offsets = self._task.reading.offsets
        places = [(offsets[first][0], offsets[last][1]) for (first, last), _ in fill.taken]
        return within(one.start, one.end, [place for place in places if place[1] - place[0] > one.end - one.start])

    def _refused(self, fill: FillRequest, said: Sequence[NamedChoice]) -> set[str]:
        """The options that the request names only to deny or to replace them, or, of a change, as its condition."""
        query, changes = self._task.query[:MAX_CHARS], fill.profile.api.mutating
        no = [one for one, other in replaced(query, said) if one.value != other.value]
        no += [one for one in said if denies(query, (one.start, one.end), changes=changes)]
        states = [match.span("state") for match in CONDITION.finditer(query)] if changes else []
        states += excepted(query)
        no += [one for one in said if within(one.start, one.end, states)]
        if not changes:
            no += [one for one in said if is_verb(query, one)]
        return {str(one.value) for one in no} - {str(one.value) for one in said if one not in no}

    def _offered(
        self, fill: FillRequest, named: Mapping[str, NamedChoice], explained: bool
    ) -> list[tuple[float, JsonValue]]:
        """The options with their log-odds.

        The network sees only some options of a long list or a large API, and neither signs nor the words that explain
        codes. Then options that the request names for this end of a pair are offered alone, if there are any.
        """
        logits = self._task.reading.logits["option"]
        offered = [
            (float(logits[at]), fill.slot.choices[item.option])
            for at, item in self._task.items(fill.number, Kind.OPTION)
            if self._task.reading.inputs.parent[at] == fill.place
        ]
        if len(offered) < len(fill.slot.choices) or explained:
            seen = [value for _, value in offered]
            offered += [(1.0, one) for one in fill.slot.choices if str(one) in named and one not in seen]
            said = ((value, one) for value, one in named.items() if value not in STOP)  # "it" is hardly Italian
            own = {value for value, one in said if {one.role, fill.slot.role} != {"from", "to"}}
            offered = [one for one in offered if str(one[1]) in own] or offered
        return offered


def in_order_said(query: str, choices: Sequence[JsonValue], value: JsonValue) -> JsonValue:
    """The option of the same order, ``size`` or ``-size``, that begins with what the request wants first."""
    if not isinstance(value, str):
        return value
    rising = value.removeprefix("-")
    if "age" in split_name(rising):  # the oldest of some things is the newest of others
        return value
    falls, rises = (pattern.search(query[:MAX_CHARS]) is not None for pattern in (_MOST, _LEAST))
    if falls == rises or rising not in choices or f"-{rising}" not in choices:
        return value
    return f"-{rising}" if falls else rising


def orders_texts(profile: Profile, value: JsonValue) -> bool:
    """Whether an order is that of a text which the answer has, and no date: "by name, with the latest report"."""
    parts = split_name(str(value))
    if not _TIMES.isdisjoint(map(stem, parts)) or parts[-1:] in (["at"], ["on"]):
        return False
    kinds = [one.kinds for one in profile.fields if split_name(one.name) == parts]
    return bool(kinds) and all(one == {"string"} for one in kinds)


def is_verb(query: str, one: NamedChoice) -> bool:
    """Whether a word says what happens and not the state after it: "that expire before May" is not "expired".

    A noun may be that state: "my returns".
    """
    said = query[one.start : one.end].lower()
    if not str(one.value).lower().endswith("ed") or " " in said or said.endswith("ed"):
        return False
    words = WORD.findall(query[max(0, one.start - _NEAR) : one.start].lower())
    before = words[-1] if words else ""
    subject = before.endswith("s") and before not in STOP and not said.endswith("s")
    return said.endswith("ing") or subject or before in _BEFORE_VERB
