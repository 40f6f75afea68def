"""Enumerations in a request: "4, 8, 15 and 16". A list that takes one of the members takes all members."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from planner_svc.reading.clocks import NO_NOUN
from planner_svc.reading.units import UNIT_WORDS

Place = tuple[int, int]
"""The first character and the one after the last."""


def joint(words: str) -> str:
    """A pattern of the text between two members; ``words`` are the conjunctions, as alternatives."""
    blanks = r"(?<!\s)\s++"  # a long run is matched once, not from each of its blanks
    return rf"(?:(?:{blanks})?+[,;]\s*+(?:(?:{words})\s++)?|{blanks}(?:{words})\s++)"


_NUMBER: Final = r"[-+]?\d+(?:,\d{3}(?!\d))*(?:\.\d+)?"
_BETWEEN: Final = joint("and|or|&")
_NUMBERS: Final = re.compile(rf"(?<![\w.,]){_NUMBER}(?:{_BETWEEN}{_NUMBER})+(?![\w])")
_MEMBER: Final = re.compile(_NUMBER)
_SEPARATOR: Final = re.compile(_BETWEEN)
_DIGITS: Final = re.compile(r"\d+")
_CODE: Final = r"(?=[^\s,;()\"\u201c\u201d]*[\d@])[^\s,;()\"\u201c\u201d]*[^\s,;()\"\u201c\u201d.:!?'\u2019]"
_CODES: Final = re.compile(
    rf"(?<![^\s(\"\u201c]){_CODE}(?:[\"\u201d]?{_BETWEEN}[\"\u201c]?{_CODE})+(?![^\s.,;:!?)\"\u201d'\u2019])"
)
_ONE_CODE: Final = re.compile(_CODE)
_RANGE: Final = re.compile(r"\bbetween\s+$", re.IGNORECASE)
_MEASURED: Final = re.compile(r"[-+]?\d[\d.,:]*(?P<unit>[^\W\d_]+)")
_OF_TIME: Final = frozenset(("am", "pm", "st", "nd", "rd", "th"))
_ENDS: Final = re.compile(r",?\s+(?:and|or|&)\s+")
_NO_NOUN: Final = re.compile(NO_NOUN, re.IGNORECASE)
_QUOTES: Final = "\"'`\u2018\u2019\u201c\u201d"
_MAX_CHARS: Final = 60
"""Longest member between two others, in characters."""


def complete_enumeration(text: str, places: Sequence[Place]) -> list[Place]:
    """These places and the missing members of their enumerations, in order.

    Adjacent numbers, and adjacent codes of one form, are an enumeration. Other members are added if they are between
    two of the places with only separators around them.

    Args:
        text: the request.
        places: places of members, without overlaps.
    """
    known = sorted(places)
    found = {*known}
    for one, other in pairwise(known):
        found.update(_between(text, one[1], other[0]))
    numbers = ([one.span() for one in _MEMBER.finditer(text, *run.span())] for run in _NUMBERS.finditer(text))
    for members in chain(numbers, _runs_of_codes(text)):
        if any(place in found for place in members):
            found.update(members)
    return sorted(place for place in found if not any(_crosses(place, other) for other in known))


def enumerated(text: str, place: Place) -> list[Place]:
    """The members of the enumeration of whole numbers or codes in which this place is; empty without one.

    Whole numbers end with a conjunction and their last member, which counts nothing: not "ticket 5, 3 days ago".
    """
    for run in _NUMBERS.finditer(text):
        members = [member.span() for member in _DIGITS.finditer(text, *run.span())]
        last = text[members[-2][1] : members[-1][0]]
        is_in = run.start() <= place[0] and place[1] <= run.end()
        if is_in and "." not in run[0] and _ENDS.fullmatch(last) and _NO_NOUN.match(text, run.end()):
            return members
    runs = (members for members in _runs_of_codes(text) if members[0][0] <= place[0] and place[1] <= members[-1][1])
    return next(runs, [])


def _runs_of_codes(text: str) -> Iterator[list[Place]]:
    """The places of codes and addresses of one form that are enumerated: "10A and 10B", "ana@x.org, bo@y.org"."""
    for run in _CODES.finditer(text):
        members = [member.span() for member in _ONE_CODE.finditer(text, *run.span())]
        forms = {_form(text[start:end]) for start, end in members}
        if len(forms) == 1 and "" not in forms and not _RANGE.search(text, 0, run.start()):
            yield members


def _form(code: str) -> str:
    """The form of a code: its runs of letters and digits are alike. Empty for numbers, dates, times and amounts."""
    if "@" in code:
        return "@"
    measured = _MEASURED.fullmatch(code)
    unit = measured["unit"].lower() if measured else ""
    if unit in UNIT_WORDS or unit in _OF_TIME or not re.search(r"[^\W\d_]", code):
        return ""
    return re.sub(r"[^\W_]+", "x", code)


def _between(text: str, start: int, end: int) -> Iterator[Place]:
    """The members in a part of the text that begins and ends with a separator."""
    gaps = [match.span() for match in _SEPARATOR.finditer(text, start, end)]
    edges = [_closed(text, start), _opened(text, end)]
    if len(gaps) < 2 or gaps[0][0] > edges[0] or gaps[-1][1] < edges[1]:
        return
    for (_, first), (last, _) in pairwise(gaps):
        while first < last and text[first] in _QUOTES:
            first += 1
        while first < last and text[last - 1] in _QUOTES:
            last -= 1
        if 0 < last - first <= _MAX_CHARS and "\n" not in text[first:last]:
            yield first, last


def _closed(text: str, at: int) -> int:
    """The position after a quotation mark at ``at``, if there is one."""
    return at + (text[at : at + 1] in _QUOTES and at < len(text))


def _opened(text: str, at: int) -> int:
    """The position before a quotation mark that ends at ``at``, if there is one."""
    return at - (at > 0 and text[at - 1] in _QUOTES)


def _crosses(place: Place, other: Place) -> bool:
    return place != other and place[0] < other[1] and other[0] < place[1]
