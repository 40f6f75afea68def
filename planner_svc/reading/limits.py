"""Words that make a value an end of a range: "since Monday", "no more than 40", "2021 or later"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from planner_svc.reading.numbers import CURRENCY_SIGNS
from planner_svc.reading.profile import Role, Slot

_MORE: Final = r"more|greater|higher|larger|bigger|longer|later|heavier"
_LESS: Final = r"less|fewer|lower|smaller|shorter|cheaper|earlier|lighter"
_EXCEEDS: Final = "exceed(?:s|ed|ing)?"
_NEAR: Final = 30
"""Characters beside a value that are searched."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What the words beside a value tell of it.

    Attributes:
        end: the end of a range that it is.
        outside: it is left out itself: "before", "more than".
        weak: the words tell other things too: where something comes from or goes, when it starts.
    """

    end: Role
    outside: bool = False
    weak: bool = False


_TABLE: Final[tuple[tuple[Limit, tuple[str, str, str]], ...]] = (
    (Limit("from", outside=True), (rf"after|(?:{_MORE}) than|{_EXCEEDS}|>", "newer than", "older than|over|above")),
    (Limit("from"), ("since|at least|min(?:imum)?(?: of)?|>=", "as of", "")),
    (Limit("from", weak=True), ("from", "(?:start|begin)(?:n?ing|s)?(?: on| in)?", "")),
    (
        Limit("to", outside=True),
        (rf"before|(?:{_LESS}) than|<", "prior to|older than", "younger than|newer than|under|below"),
    ),
    (Limit("to"), ("until|till|up to|at most|max(?:imum)?(?: of)?|<=", "by", "")),
    (Limit("to", weak=True), ("to", "ending(?: in)?", "")),
)
"""Words before a value: before any, before a moment only, before an amount only."""
_NOT: Final = r"(?P<denied>(?:\b(?:no|not|never|without)\s+|n['\u2019]t\s+)(?:be\s+)?)?"


def _words(*columns: int) -> str:
    """The words of some columns of the table, each row a group with its number."""
    rows = ("|".join(words[column] for column in columns if words[column]) for _, words in _TABLE)
    groups = "|".join(f"(?P<_{number}>{words})" for number, words in enumerate(rows))
    return rf"{_NOT}(?<!\w)(?:{groups})".replace(" ", r"\s+")


_WORDS: Final = {True: _words(0, 1), False: _words(0, 2)}
"""Patterns of the words before moments, and before amounts."""
_BEFORE: Final = {
    moment: re.compile(rf"{words}\s*(?:the\s+)?[{CURRENCY_SIGNS}]?$", re.IGNORECASE) for moment, words in _WORDS.items()
}
_NAMES: Final = {moment: re.compile(rf"{words}(?!\w)", re.IGNORECASE) for moment, words in _WORDS.items()}
_OR: Final = r"\s*(?:[^\W\d_]+\s+)?(?:or|and)\s+"
_AFTER: Final = re.compile(
    rf"(?P<less>{_OR}(?:{_LESS}|below|before|under)\b)"
    rf"|{_OR}(?:{_MORE}|newer|older|above|after|over|since|upwards?|onwards?)\b"
    r"|\s+(?:(?:up|on)wards?\b|on(?=\s*(?:$|[,.;?!])))",
    re.IGNORECASE,
)
"""Words after a value, between which its unit may stand: "2015 or later", "20 euros or less"."""
_HOURS: Final = re.compile(
    r"(?:the\s+)?(?:(?P<past>last|past|previous)|next|coming|following|within)\s+\S+\s+(?:minute|hour)s?", re.IGNORECASE
)
"""A period up to now, or from now on, as a value."""
_AGO: Final = re.compile(r"\S+\s+\S+\s+ago\b", re.IGNORECASE)
_COMPARES: Final = re.compile(r"\b(?:than|over|under|least|most)\b", re.IGNORECASE)
"""What compares how long ago something was: "more than 3 days ago" is before that day."""


def limit_before(text: str, start: int, *, moment: bool) -> Limit | None:
    """What the words before a value tell; None if nothing.

    Args:
        text: the request.
        start: where the value starts.
        moment: whether it is a moment: what is older than a day is before it, what is older than 40 is over 40.
    """
    ago = moment and _AGO.match(text, start) is not None
    found = _BEFORE[moment and not ago].search(text, max(start - _NEAR, 0), start)
    if found is None:
        return None
    said = _row(found)
    turns = bool(found["denied"]) != (ago and _COMPARES.search(found[0]) is not None)
    end: Role = said.end if not turns else "to" if said.end == "from" else "from"
    return Limit(end, outside=said.outside != bool(found["denied"]), weak=said.weak)


def end_said(text: str, place: tuple[int, int], *, moment: bool) -> Role | None:
    """The only end of a range that the words around a value tell: "before 1900", "not over 50", "2021 or later"."""
    start, end = place
    if hours := _HOURS.fullmatch(text, start, end):
        return "from" if hours["past"] else "to"
    if (said := limit_before(text, start, moment=moment)) and not said.weak:
        return said.end
    after = _AFTER.match(text[: end + _NEAR], end)
    return None if after is None else "to" if after["less"] else "from"


def limit_named(slot: Slot) -> Role | None:
    """The only end of a range that an argument's name tells it to be: ``older_than_days``, ``not_before``."""
    found = (_row(match) for match in _NAMES[slot.temporal].finditer(slot.said))
    end = next((limit.end for limit in found if not limit.weak), None)
    if end is None or {"not", "no"}.isdisjoint(slot.said.lower().split()):
        return end
    return "from" if end == "to" else "to"


def _row(found: re.Match[str]) -> Limit:
    return next(limit for number, (limit, _) in enumerate(_TABLE) if found[f"_{number}"])
