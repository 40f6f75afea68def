"""Whether the words before a date say that it is over: "bookings that arrived on 3 May", "since Monday".

A date without a year is then the last such day, otherwise the next. The signs are, in the date's own clause:

- "since" directly before it, unless it gives a reason: "since Monday is a holiday";
- "was", "were", "did", "had" or "been";
- a verb in the past tense after its subject: "that arrived", "I paid";
- a participle directly before it: "invoices issued in October". After a word for a wish it may be to come: "I want it
  delivered on 3 December", "order a bin, delivered on 3 December";
- a word for a record of what was done: "an expense on 3 May", unless something is to be done with it: "pay it".

"for", "by" and "until" before the date mean one to come.
"""

import re
from collections.abc import Iterable
from datetime import date
from typing import Final

from planner_svc.reading.calendar_words import RANGE

_REACH: Final = 160
"""Characters before a date that are searched."""
_SINCE: Final = re.compile(r"\bsince\s+(?:the\s+)?$", re.IGNORECASE)
_REASON: Final = re.compile(
    r"[^.,;:!?]{1,30}\s(?:is|isn['\u2019]t|works|suits|fits)\b(?!\s+(?:there|any)\b)", re.IGNORECASE
)
_RANGE_START: Final = re.compile(rf"\s(?:[^\s.,;:!?]+\s+){{0,3}}[^\s.,;:!?]+{RANGE}$", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"[.,;:!?\n]\s|\b(?:and|but|so|then|if|whether|please)\s", re.IGNORECASE)
_AHEAD: Final = re.compile(r"\b(?:for|by|until|till|to|due(?:\s+on)?)\s+(?:the\s+)?$", re.IGNORECASE)
_INFINITIVE: Final = re.compile(
    r"\b(?:will|would|should|must|can|could|may|is|are|be|being"
    r"|to\s+(?!(?:the|a|an|my|our|your|his|her|their|this|that|us|me|him|them|all|each|every)\b)(?-i:[a-z]+))\b",
    re.IGNORECASE,
)
_PLANS: Final = (
    r"(?:want|wish|hop|plann?|intend|expect|decid|schedul|reserv|book|promis|suppos|invit|request|ask|bas|locat"
    r"|interest|nam|call|titl|label|need|requir)ed"
)
"""Words that look as if they said when something was, but tell of plans or of what a thing is."""
_IRREGULAR: Final = "made|paid|sent|spent|bought|sold|wrote|written|took|taken|ran|got|gave|given|built|done"
_FINITE: Final = "left|came|went|met|flew|drove|stayed|held|lost|found|ate|drank|slept|saw|kept|told|said|won|began"
_ED: Final = rf"(?!{_PLANS}\b)[^\W\d_]+(?<!e)ed"
_PAST_VERB: Final = re.compile(
    r"\b(?:(?:was|were|wasn['\u2019]t|weren['\u2019]t|did|didn['\u2019]t|been|had)\b"
    r"(?!\s+(?:going|planning|hoping|thinking|wondering|looking|trying|supposed|meant|about|invited)\b)"
    r"|(?:that|which|who|i|we|he|she|they)(?:['\u2019]ve|\s+(?:have|has|already|just|only|not|[^\W\d_]+ly)){0,3}\s+"
    rf"(?:{_ED}|{_IRREGULAR}|{_FINITE})\b)",
    re.IGNORECASE,
)
_PARTICIPLE: Final = re.compile(
    rf"\b(?:{_ED}|{_IRREGULAR})(?:\s+by\s+[^\W\d_]+)?\s+(?:on|in|between|from|during|after|before)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_RECORD: Final = re.compile(r"\b(?:expenses?|receipts?|timesheets?|logs?(?!\s+(?:in|on|out)\b))\b", re.IGNORECASE)
_TO_DO: Final = re.compile(r"\b(?:pay|plan|remind|schedule|set)\b", re.IGNORECASE)
_WISH: Final = re.compile(
    r"\b(?:want|need|have|get|like|prefer|wish|plan|will|would|should|must|be|budget)s?\b", re.IGNORECASE
)
_ORDERS: Final = re.compile(
    r"\s*(?:please\s+)?(?:order|book|buy|reserve|schedule|arrange|request)\s+(?:(?:me|us)\s+)?"
    r"(?:an?|another|some|two|three|\d+\s+[a-z]+s)\b",
    re.IGNORECASE,
)
"""A request for something that is not there yet."""

_OVER: Final = re.compile(
    r"\b(?:was|were|occurred|happened|took\s+place|has\s+been"
    rf"|(?:{_ED}|{_IRREGULAR})\s+(?:(?:on|at)\s+or\s+)?(?:after|before))\b",
    re.IGNORECASE,
)
_LISTS: Final = re.compile(
    r"\s*(?:(?:please|(?:can|could)\s+you)\s+)?(?:list|show|display|export|which|how\s+many|how\s+much"
    r"|(?:what\s+(?:is|are)\s+)?(?:the\s+)?(?:sum|totals?|number|count|average)(?:\s+of)?"
    r"|delete|remove|purge|erase|archive)\b(?!\s+will\b)",
    re.IGNORECASE,
)
_RECENT: Final = 60
"""Days after which a date without a year is rather the next one, also of what is there."""


def is_past(text: str, start: int) -> bool:
    """Whether the words before a date say that it is over.

    Args:
        text: the request.
        start: where the date starts.
    """
    before = text[max(start - _REACH, 0) : start]
    if _SINCE.search(before):
        return _REASON.match(text, start) is None
    before = _without_range_start(before)
    clause = before[max((found.end() for found in _CLAUSE.finditer(before)), default=0) :]
    if _AHEAD.search(clause):
        return False
    verbs = list(_PAST_VERB.finditer(clause))
    if verbs and _INFINITIVE.search(clause, verbs[-1].end()) is None:
        return True
    if _WISH.search(clause) or _ORDERS.match(text):
        return False
    if _PARTICIPLE.search(clause):
        return True
    return _RECORD.search(clause) is not None and _TO_DO.search(clause) is None


def is_over(text: str, start: int, days: Iterable[date], today: date) -> bool:
    """Whether a date without a year is rather the last such one.

    It is if its words say so, and where things are listed or deleted if it was within the last weeks.

    Args:
        text: the request.
        start: where the date starts.
        days: the last days of the dates that the words may mean.
        today: the day that the request refers to.
    """
    return is_past(text, start) or (
        _LISTS.match(text) is not None and any(0 < (today - day).days <= _RECENT for day in days)
    )


def tells_of_past(about: str) -> bool:
    """Whether a description is of what is over: "Date the expense occurred", "Issued on or after"."""
    return _OVER.search(about[:_REACH]) is not None


def _without_range_start(before: str) -> str:
    """The text without the first end of a range, so that both ends are read alike: "between 1 and"."""
    for found in re.finditer(r"\b(?:between|from)\b", before, re.IGNORECASE):
        if _RANGE_START.fullmatch(before, found.end()):
            return before[: found.end()] + " "
    return before
