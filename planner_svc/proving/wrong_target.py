"""Checks that a plan changes what the request asks to change: cancelling an order does not close an account.

If a catalogue cannot do what is asked, the nearest operation does something similar to something else. If that cannot
be undone, it is worse than no plan. The operation's own words decide:

- A certain thing ("card 5", "my subscription") must be in them, unless they share another word with the request.
- An operation that removes needs words for removing, or its own, where the request says what to do with the thing:
  "refund order 5" cancels no order.
- For verbs that remove, the thing must be in the operation's names, and something must remove. To show the thing
  instead looks as if it were done.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Final

from planner_svc.proving.unused_values import literals
from planner_svc.reading.actions import asks_for_change, find_imperatives
from planner_svc.reading.asked import ANYTHING
from planner_svc.reading.profile import Profile, profile_of, words_of_api
from planner_svc.reading.questions import polite_requests
from planner_svc.reading.text import MAX_CHARS, STOP, split_name, stem, stem_set, stems, without_quotes, word_set
from services.compute import checkpoint
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
    r"\s+(?:(?:away|down|off|out|rid\s+of)\s+)?(?P<closer>(?:(?:the|my|our|this|that|his|her|their|its|your|an?|all|those|these|every|each|any"
    r"|another|one|two|of)\s+)*)(?P<words>[^.,;:!?()\n]{0,100})",
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
_OWNED: Final = re.compile(r"\b(?:the|my|our|his|her|their|its|your)\b", re.IGNORECASE)
_AWAY: Final = re.compile(r"[^.;!?\n]{0,200}?\b(?:away|down|off|out|rid)\b", re.IGNORECASE)
_GENERAL: Final = word_set("get make use")
"""Verbs that are function words elsewhere."""
_ENDING: Final = frozenset(map(stem, _REMOVING)) | stem_set(
    "abort bin clear detach destroy drop end halt kick kill purge retire rid scrap stop trash uninstall"
    " unsubscribe wipe"
)
"""Verbs that remove, wherever they stand in a request."""
_MAX_WORDS: Final = 4
_MAX_CHOICES: Final = 200
_MAX_CHOICE: Final = 200
_LEAST: Final = 4
"""Fewest letters of the shorter of two similar words."""
_MAX_LETTERS: Final = 40


class _Said:
    """A word in the place of an imperative, and the thing named after it.

    Attributes:
        verb: the word, in lower case.
        thing: the common noun after it, with the words before that: "my old account at X".
        certain: whether it is a thing that exists: "my account", "card 5".
        away: whether the verb gets rid of the thing: "throw out", "get rid of".
    """

    def __init__(self, verb: str, rest: str) -> None:
        match = _NOUN.match(rest)
        self.verb = verb
        self.away = _AWAY.match(rest) is not None
        words = match["words"].split() if match is not None else []
        named = list(takewhile(_is_part, words[:_MAX_WORDS]))
        self.thing = [word for word in named if stem(word) not in ANYTHING]
        after = words[len(named)] if len(named) < len(words) else ""
        owned = match is not None and _OWNED.search(match["closer"]) is not None
        self.certain = bool(self.thing) and (owned or any(char.isdigit() for char in after))

    def __str__(self) -> str:
        return f"{self.verb} “{' '.join(self.thing)}”" if self.thing else self.verb

    def is_in(self, known: Vocabulary) -> bool:
        """Whether a word for the thing is known."""
        return any(word in known for word in stems(" ".join(self.thing)))


def _is_part(word: str) -> bool:
    """Whether a word is part of a noun phrase."""
    return _WORD.fullmatch(word) is not None and word not in STOP and stem(word) not in _CLOSING


def wrong_change_reason(query: str, plan: Plan, apis: Mapping[str, Api]) -> str:
    """Why the plan does not do what is asked, in a sentence for the user; empty if it may.

    Args:
        query: the request.
        plan: a proved plan.
        apis: its APIs by id.
    """
    query = query[:MAX_CHARS]
    profiles = [profile_of(one) for one in {step.api: apis[step.api] for step in plan.steps}.values()]
    changing = [profile for profile in profiles if profile.api.mutating]
    if not changing:
        return _reason(asked, profiles) if (asked := _unmet_removal(query, profiles)) else ""
    said = [_Said(verb, rest) for verb, rest in chain(polite_requests(query), find_imperatives(query))]
    removed = _wrong_removal(query, plan, [one for one in said if asks_for_change(one.verb)], changing)
    asked = removed or _uncovered(query, plan, said, profiles, changing)
    return _reason(asked, changing) if asked else ""


def _unmet_removal(query: str, profiles: Sequence[Profile]) -> str:
    """What is to be removed if the request asks for nothing else, and no operation that is called has a word for it."""
    asked = ((verb, rest) for verb, rest in chain(polite_requests(query), find_imperatives(query)) if verb not in STOP)
    said = [_Said(verb, rest) for verb, rest in asked]
    known = frozenset[str]().union(*map(words_of_api, profiles))
    unmet = said and all(one.verb in _REMOVING and one.certain and stem(one.verb) not in known for one in said)
    return str(said[0]) if unmet else ""


def _wrong_removal(query: str, plan: Plan, said: Sequence[_Said], changing: Sequence[Profile]) -> str:
    """What is to be removed and has no name that a changing call has, or what nothing in the plan removes."""
    removing = [one for one in said if one.verb in _REMOVING]
    if not removing:
        return ""
    names = [_names(profile) for profile in changing]
    known = Vocabulary(frozenset[str]().union(*names))
    things = [one for one in removing if one.thing]
    if things and not any(one.is_in(known) for one in things):
        return str(things[0])
    undoes = any(one.effect == "destroy" or own & _UNDOING for one, own in zip(changing, names, strict=True))
    if len(removing) == len(said) and not undoes and not _sets_something(query, plan):
        return removing[0].verb
    return ""


def _uncovered(
    query: str, plan: Plan, said: Sequence[_Said], profiles: Sequence[Profile], changing: Sequence[Profile]
) -> str:
    """A certain thing that the changing calls have no word for, or what is to be done with it and is no removal."""
    things = [one for one in said if one.thing and one.verb not in STOP - _GENERAL]
    if not any(one.certain for one in things):
        return ""
    names = Vocabulary(frozenset[str]().union(*map(_names, changing)))
    checkpoint()
    options: set[str] = set()
    for profile in profiles:
        listed = (str(choice)[:_MAX_CHOICE] for slot in profile.slots for choice in slot.choices[:_MAX_CHOICES])
        options.update(word for choice in listed for word in stems(" ".join(split_name(choice))))
    values = (stems(str(one)[:MAX_CHARS]) for one in literals(plan))
    known = Vocabulary(options.union(*map(words_of_api, profiles), *values))
    asked = stems(without_quotes(query))
    if not any(one.is_in(known) for one in things) and not any(word in names or word in options for word in asked):
        return str(next(one for one in things if one.certain))
    about = [one for one in things if one.certain and one.is_in(names)]
    if about and all(profile.effect == "destroy" for profile in changing):
        removes = any(one.away or stem(one.verb) in known for one in said) or not _ENDING.isdisjoint(asked)
        return "" if removes else str(about[0])
    return ""


def _reason(asked: str, profiles: Sequence[Profile]) -> str:
    api = profiles[0].api
    does = (api.summary or " ".join(split_name(api.name)))[:200].rstrip(".")
    return f"The request asks to {asked}. Nothing was found that does that; “{does}” does something else."


def _names(profile: Profile) -> frozenset[str]:
    """Stems of an operation's name, of its path and of its arguments."""
    path = stems(" ".join(split_name(profile.api.path)))
    return profile.title | frozenset(path) | frozenset(word for slot in profile.slots for word in slot.words)


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
