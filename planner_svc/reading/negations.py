"""Whether a request denies what a flag tells: "non-smoking", "unpaid", "without breakfast", "breakfast off"."""

from __future__ import annotations

import re
from typing import Final

from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.text import MAX_CHARS, name_parts, stem, stem_set, without_quotes

_DENIES: Final = re.compile(
    r"\b(?:no|non|not|without|excluding|neither|nor|don['\u2019]?t|doesn['\u2019]?t|isn['\u2019]?t|aren['\u2019]?t"
    r"|except(?:\s+for)?|other\s+than|anything\s+but|no\s+longer|never|instead\s+of|rather\s+than"
    r"|(?:turn|switch)(?:ed|ing)?\s+off|disabl(?:e|ed|ing))"
    r"(?:-|\s+(?:(?:an?|any|the|be|been|is|are|include|to\s+be|in|on|at)\s+){0,2})$",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    (
        r"\s+(?:(?:is|are|was|were|be)\s+)?(?:not|never)\s+WANTED\b"
        r"|\s+(?:isn|aren|wasn|weren)['\u2019]?t\s+WANTED\b"
        r"|\s+(?:is\s+|are\s+)?(?:excluded|disabled|(?:(?:turned|switched)\s+)?off(?=\s*(?:$|[,.;!?)]|and\b|but\b)))"
    ).replace("WANTED", "(?:included|needed|required|wanted|desired|requested|allowed|permitted|necessary)"),
    re.IGNORECASE,
)
_TOLD: Final = re.compile(
    r"(?<!\bthat )(?<!\bwhich )(?<!\bwho )\b(?:is|are|was|were)(?:\s+not|n['\u2019]?t)\s+(?:\w+\s+)?$",
    re.IGNORECASE,
)
"""How things are, not how they are to be: "card 5 is not active, turn it on"."""
_NEGATIVE: Final = stem_set("no non not without un skip ignore disable exclude hide omit suppress block deny prevent")
_EMPTY: Final = stem_set("is are has have be with allow can should want include included enable enabled only flag")
"""Words of a flag's name that do not tell what it is about."""
_PREFIX: Final = re.compile(r"(?:un|non)(?=[a-z]{3})", re.IGNORECASE)
_NEAR: Final = 24


def denied(profile: Profile, slot: Slot, query: str) -> tuple[int, int] | None:
    """The characters of the word that names a flag and that the request denies, if it never says the word otherwise.

    A flag whose own name is negative, such as ``skip_breakfast``, is left alone. So is a state that is only told where
    the API changes something. Words that name the API do not count: "no preference for a room" does not deny
    ``smoking_room``.

    Args:
        profile: the flag's API.
        slot: the flag.
        query: the request.
    """
    if _NEGATIVE.intersection(slot.words):
        return None
    names = set(slot.words) - _EMPTY
    names = names - profile.title or names
    text = without_quotes(query[:MAX_CHARS])
    said: dict[str, list[tuple[int, int] | None]] = {}
    for word in name_parts(text):
        without = stem(_PREFIX.sub("", word.text, count=1)) if _PREFIX.match(word.text) else ""
        if without in names:
            said.setdefault(without, []).append((word.start, word.end))
        elif word.stem in names:
            place = word.start, word.end
            is_denied = denies(text, place, changes=profile.api.mutating)
            said.setdefault(word.stem, []).append(place if is_denied else None)
    return next((places[0] for places in said.values() if None not in places), None)


def denies(text: str, place: tuple[int, int], *, changes: bool) -> bool:
    """Whether a text denies the words at these characters: "not closed", "anything but an admin".

    Args:
        text: the text.
        place: the characters.
        changes: whether something is to be changed: then how things are is no denial.
    """
    before = text[max(place[0] - _NEAR, 0) : place[0]]
    if changes and _TOLD.search(before):
        return False
    return _DENIES.search(before) is not None or _DENIED.match(text, place[1]) is not None
