"""What a request takes back: the exception in "all except 5", and the first value in "D-2, no wait, D-14"."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from planner_svc.reading.choices import NamedChoice
from planner_svc.reading.readings import NO_CLOCK
from planner_svc.reading.text import MAX_CHARS
from planner_svc.reading.values import Span, find_spans

THING: Final = r"(?P<thing>(?:(?!\s+(?:and|but|then)\b)[^.,;:!?()\n]){0,100})"
EXCEPT: Final = re.compile(
    r"(?<!\bnobody\s)(?<!\bnothing\s)(?<!\bnone\s)(?<!\bno one\s)"
    r"\b(?:except(?:ing)?(?:\s+for)?|excluding|other\s+than|apart\s+from|(?:all|every(?:body|one|thing))\s+but"
    r"|(?:all|every)\s+(?:[\w'-]{1,20}\s+){1,3}but"
    r"(?=\s+(?:the\s+)?(?:(?-i:[A-Z])|[\w-]{0,20}\d|[\w-]{1,20}\s+ones?\b))"
    r"|(?:(?:but|and)\s+(?:not|keep|leave|spare)|,\s*not)(?!\s+(?:after|before|by|until|only)\b)"
    r"(?=\s+(?:(?:the|for)\s+)?(?:[a-z]{1,20}\s+)?(?:(?-i:[A-Z])|[\w-]{0,20}\d)))"
    rf"\b{THING}",
    re.IGNORECASE,
)
"""An exception; what "but not" excepts has a name or a number."""
_CORRECTS: Final = re.compile(
    r"[,;.(\u2013-]\s*(?P<said>(?:no\s*,?\s*wait|wait\s*,?\s*no|no\s*,?\s*sorry|sorry|oops|I\s+meant?|scratch\s+that"
    r"|correction|actually|no(?=\s*,)|(?:no\s*,?\s*)?make\s+(?:it|that))\b(?:\s*,?\s*I\s+meant?\b)?)",
    re.IGNORECASE,
)
"""Words with which people replace what they just wrote."""
_GAP_BEFORE: Final = 15
_GAP_AFTER: Final = 25
_KINDS: Final = ("number", "moment", "code", "email", "quoted", "phone")
Place = tuple[int, int]
_Said = TypeVar("_Said", Span, NamedChoice)


def corrected(query: str) -> list[Place]:
    """The places of values that the request replaces by a value of the same kind right after them."""
    query = query[:MAX_CHARS]
    if _CORRECTS.search(query) is None:
        return []
    spans = [span for span in find_spans(query, NO_CLOCK) if span.kind in _KINDS]
    pairs = replaced(query, spans)
    return [(one.start, one.end) for one, other in pairs if one.kind == other.kind and one.value != other.value]


def replaced(query: str, said: Sequence[_Said]) -> Iterator[tuple[_Said, _Said]]:
    """The last of these before each correction, and the first after it."""
    for match in _CORRECTS.finditer(query):
        start, end = match.span("said")
        before = [one for one in said if one.end <= start and start - one.end <= _GAP_BEFORE]
        after = [one for one in said if one.start >= end and one.start - end <= _GAP_AFTER]
        if before and after:
            yield before[-1], after[0]


def excepted(query: str) -> list[Place]:
    """The places of what the request excepts."""
    return [match.span("thing") for match in EXCEPT.finditer(query[:MAX_CHARS])]


class TakenBack:
    """What one request takes back."""

    def __init__(self, query: str) -> None:
        self._query, self._corrected, self._excepted = query, corrected(query), excepted(query)
        self._things = {query[start:end].strip().lower() for start, end in self._excepted}

    def covers(self, start: int, end: int, *, named: bool) -> bool:
        """Whether these characters are replaced; with ``named``, also whether what they name is excepted."""
        if within(start, end, self._corrected):
            return True
        return named and (within(start, end, self._excepted) or self.excepts(self._query[start:end]))

    def excepts(self, text: str) -> bool:
        """Whether this is all that an exception names."""
        return text.strip().lower() in self._things


def within(start: int, end: int, places: list[Place]) -> bool:
    """Whether these characters are a part of one of the places."""
    return any(first <= start and end <= last for first, last in places)
