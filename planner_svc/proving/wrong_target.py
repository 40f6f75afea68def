"""Checks that a plan removes what the request asks to remove: cancelling an order does not close an account.

If a catalogue cannot do what is asked, the nearest operation does something similar to something else. If that cannot
be undone, it is worse than no plan.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.actions import asks_for_change, find_imperatives
from planner_svc.reading.asked import ANYTHING
from planner_svc.reading.profile import Profile, profile_of
from planner_svc.reading.text import MAX_CHARS, STOP, split_name, stem, stem_set, stems, word_set
from services.contracts.api import Api
from services.contracts.plan import Plan

_REMOVING: Final = word_set("cancel close delete discard erase remove revoke terminate void withdraw")
"""Imperatives. "deleted" is not one, but is often the name of a field."""
_UNDOING: Final = frozenset(map(stem, _REMOVING)) | stem_set(
    """
    archive clear deactivate deregister destroy detach disable drop end expire hide leave off pause purge refund reject
    release reset return reverse stop trash unlink unregister unsubscribe uninstall
    """
)
"""Words in the names of operations that remove something."""
_NOUN: Final = re.compile(
    r"\s+(?:off\s+|out\s+|down\s+)?(?:(?:the|my|our|this|that|his|her|their|its|your|an?|all|those|these|every|each|any"
    r"|another|one|two|of)\s+)*(?P<words>[^.,;:!?()\n]{0,100})",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[a-z][a-z'\u2019-]*")
_CLOSING: Final = stem_set(
    """
    after again again at because before by called every for from if in into named now of on out please since so that
    then to too under until up when whatever where which who whoever whose with
    """
)
"""Words that end a noun phrase."""
_MAX_WORDS: Final = 4
_LEAST: Final = 4
"""Fewest letters of the shorter of two similar words."""
_MAX_LETTERS: Final = 40


def wrong_removal_reason(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """Why the plan does not do what is asked, in a sentence for the user; empty if it may.

    The plan is rejected if the request asks to remove something and no changing call of the plan has any of its names,
    or if the request only asks to remove and nothing in the plan removes.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    query = query[:MAX_CHARS]
    said = [(verb, rest) for verb, rest in find_imperatives(query) if asks_for_change(verb)]
    removing = [(verb, rest) for verb, rest in said if verb in _REMOVING]
    changing = {step.api: apis[step.api] for step in plan.steps if apis[step.api].mutating}
    if not removing or not changing:
        return ""
    profiles = [profile_of(api) for api in changing.values()]
    names = [_names(profile) for profile in profiles]
    things = [(verb, thing) for verb, rest in removing if (thing := list(_thing(rest)))]
    known = Vocabulary(frozenset[str]().union(*names))
    if things and not any(word in known for _, thing in things for word in stems(" ".join(thing))):
        return _reason(f"{things[0][0]} “{' '.join(things[0][1])}”", profiles)
    undoes = any(one.effect == "destroy" or own & _UNDOING for one, own in zip(profiles, names, strict=True))
    if len(removing) == len(said) and not undoes and not _sets_something(query, plan):
        return _reason(removing[0][0], profiles)
    return ""


def _reason(asked: str, profiles: Sequence[Profile]) -> str:
    api = profiles[0].api
    does = (api.summary or " ".join(split_name(api.name)))[:200].rstrip(".")
    return f"The request asks to {asked}. Nothing was found that does that; “{does}” does something else."


def _names(profile: Profile) -> frozenset[str]:
    """Stems of an operation's name, of its path and of its arguments."""
    path = stems(" ".join(split_name(profile.api.path)))
    return profile.title | frozenset(path) | frozenset(word for slot in profile.slots for word in slot.words)


def _thing(rest: str) -> Iterator[str]:
    """The common noun after a verb, with the words before it: "my old account at X"."""
    match = _NOUN.match(rest)
    for number, word in enumerate(match["words"].split() if match is not None else ()):
        closing = not _WORD.fullmatch(word) or word in STOP or stem(word) in _CLOSING
        if closing or number >= _MAX_WORDS:
            return
        if stem(word) not in ANYTHING:
            yield word


class Vocabulary:
    """A set of words that also finds other forms and abbreviations; documents may have tens of thousands of words.

    Two words are alike if one begins the other, or if they differ only in their last letters and their lengths differ
    by at most one. The shorter word has at least :data:`_LEAST` letters.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = {word[:_MAX_LETTERS] for word in words}
        self._sorted = sorted(word for word in self._words if len(word) >= _LEAST)
        self._without_last = {word[:-1] for word in self._sorted}
        self._without_two = {word[:-2] for word in self._sorted}

    def __contains__(self, word: str) -> bool:
        """Whether the word or a similar one is in the set."""
        word = word[:_MAX_LETTERS]
        if word in self._words or len(word) < _LEAST:
            return word in self._words
        place = bisect_left(self._sorted, word)
        return (
            (place < len(self._sorted) and self._sorted[place].startswith(word))
            or any(word[:size] in self._words for size in range(_LEAST, len(word)))
            or word[:-1] in self._without_last
            or word[:-1] in self._without_two
            or word[:-2] in self._without_last
        )


def _sets_something(query: str, plan: Plan) -> bool:
    """Whether a call sets a state that may mean removal: a value the request does not contain, a boolean, "close"."""
    low = query.casefold()
    return any(
        isinstance(one, bool) or str(one).casefold() not in low or stem(str(one)) in _UNDOING for one in literals(plan)
    )
