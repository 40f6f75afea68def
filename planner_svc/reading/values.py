"""Typed values in a request: numbers, moments, quoted text, codes, each with its surrounding words."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Literal

from planner_svc.reading.dates import DateReader
from planner_svc.reading.moments import Duration, Moment
from planner_svc.reading.numbers import CURRENCY_SIGNS, DIGITS, NUMBER_WORD, number
from planner_svc.reading.readings import ORDINALS
from planner_svc.reading.text import QUOTED, STOP, stem, stems, words_of

Kind = Literal["number", "duration", "moment", "quoted", "code", "email", "url", "phone"]

MAX_SPANS = 80

_TELLING = re.compile(
    r"\b(?:text|sentence|message|note|title|headline|paragraph|phrase|following|quote|content)s?\s*+:\s++"
    r"(?=[^\"'\u201c`\s])",
    re.IGNORECASE,
)
_MAX_TOLD = 3_000
_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"']{2,500}[^\s<>\"'.,;:!?)]")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}")
_PHONE = re.compile(r"(?<![\w.])(?:\+\d[\d\s().-]{6,20}\d|0\d[\d\s()/-]{5,18}\d)(?![\w.]\d)")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_/:.+-]{0,80}[A-Za-z0-9_](?:={1,2}(?![\w=]))?|[A-Z0-9]")
_GROUPED = re.compile(r"(?<![\w-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){2,9}(?![\w-])")
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<n>{DIGITS}(?:\s?(?:million|billion|thousand|hundred|k)\b)?|\b{NUMBER_WORD}\b)"
    rf"(?P<after>\s?°\s?[CFNSEW]?|\s?[%{CURRENCY_SIGNS}]|[A-Za-z]{{1,3}}\b)?(?![\w]|\.\d|-[a-z])",
    re.IGNORECASE,
)
_COMPASS = {
    "north": ("latitude", 1),
    "south": ("latitude", -1),
    "east": ("longitude", 1),
    "west": ("longitude", -1),
}
_FRACTION = re.compile(r"\s+and\s+a\s+(half|quarter)\b", re.IGNORECASE)
_MINUS = re.compile(
    r"(?:^|\b(?:to|at|of|is|from|and|between|below|above|than|by)\s+)(?:minus|negative)\s+$", re.IGNORECASE
)
"""Before a number that is below zero, and not one that is taken from another."""
_NEAR = 20
_AXES = {stem("latitude"): frozenset(stems("latitude lat")), stem("longitude"): frozenset(stems("longitude lon lng"))}
"""What arguments for a coordinate are called, by the coordinate."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the request that may be a value.

    Attributes:
        value: Its meaning: text, a number, a ``Moment`` or a ``Duration``.
        unit: Stem of what is counted or measured ("12 stone"); for compass points, the coordinate's name.
        near: Stems of the words around it, nearest first.
    """

    kind: Kind
    start: int
    end: int
    text: str
    value: str | int | float | Moment | Duration
    unit: str = ""
    near: tuple[str, ...] = ()

    def overlaps(self, other: "Span") -> bool:
        """Whether the two share a character."""
        return self.start < other.end and other.start < self.end


def find_spans(text: str, now: datetime) -> list[Span]:
    """All possible values in the text, in order; they overlap if the text can be read in several ways."""
    taken: list[Span] = []
    for found in (_literals(text), _told(text), _moments(text, now), _codes(text), _numbers(text)):
        taken += _free(found, taken)
    taken += [_counted(span) for span in taken if isinstance(span.value, Duration)]
    taken.sort(key=lambda span: (span.start, -span.end))
    return _in_context(text, taken[:MAX_SPANS])


def _free(found: Iterable[Span], taken: list[Span]) -> list[Span]:
    """The spans that overlap none found before."""
    return [span for span in found if not any(span.overlaps(other) for other in taken)]


def _literals(text: str) -> Iterator[Span]:
    found: list[Span] = []
    for match in QUOTED.finditer(text):
        inner = next(group for group in match.groups() if group is not None)
        if inner:
            found.append(Span("quoted", match.start(), match.end(), inner, inner.strip()))
    for kind, pattern in (("url", _URL), ("email", _EMAIL), ("code", _GROUPED), ("phone", _PHONE)):
        spans = [Span(kind, m.start(), m.end(), m[0], m[0]) for m in pattern.finditer(text)]  # type: ignore[arg-type]
        found += _free((s for s in spans if kind != "phone" or _is_phone(s.text)), found)
    yield from found


def _told(text: str) -> Iterator[Span]:
    """The text from "the text:" to the end, as if it were quoted."""
    whole = text.rstrip()
    quoted = max(whole.rfind(mark) for mark in '"\u201c`')
    for match in _TELLING.finditer(whole):
        told = whole[match.end() :]
        if match.end() > quoted and 1 < len(told) <= _MAX_TOLD:
            yield Span("quoted", match.end(), len(whole), told, told)
            return


def _is_phone(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    return 7 <= len(digits) <= 15 and not re.match(r"\d{4}-\d\d-\d\d|\d{1,2}[.]\d{1,2}[.]", text)


def _moments(text: str, now: datetime) -> Iterator[Span]:
    for found in DateReader(now).find(text):
        part = text[found.start : found.end]
        if isinstance(found.value, Duration):
            yield Span("duration", found.start, found.end, part, found.value, unit=found.value.unit)
        else:
            yield Span("moment", found.start, found.end, part, found.value)


def _counted(span: Span) -> Span:
    """The bare number of a duration: its unit may be named by another argument."""
    assert isinstance(span.value, Duration)
    length = len(re.split(r"[\s-]+(?=\w+$)", span.text)[0])
    unit = stem(span.value.unit)
    return Span("number", span.start, span.start + length, span.text[:length], span.value.amount, unit=unit)


def _codes(text: str) -> Iterator[Span]:
    for match in _CODE.finditer(text):
        code = match[0].rstrip(".:/+-")
        before = text[match.start() - 1 : match.start()]
        if code and not before.isalnum() and before != "_" and _is_code(code, text):
            yield Span("code", match.start(), match.start() + len(code), code, code)


def _is_code(code: str, text: str) -> bool:
    """Whether it has letters with digits, an underscore, only capitals, or parts joined by signs with a capital."""
    has_letter, has_digit = any(c.isalpha() for c in code), any(c.isdigit() for c in code)
    if not has_letter or re.fullmatch(r"\d+(?:\.\d+)?[a-z]{1,3}", code):
        return False
    if code.isupper() and code.isalpha():
        return len(code) > 1 and not text.isupper()
    if re.fullmatch(r"[A-Z]\w+(?:-[A-Za-z]\w+)*", code) and not has_digit and "_" not in code:
        return False  # a name such as Jean-Luc
    return has_digit or "_" in code or (re.search(r"[/-]", code) is not None and not code.islower())


def _numbers(text: str) -> Iterator[Span]:
    for match in _NUMBER.finditer(text):
        value, suffix = number(match["n"]), (match["after"] or "").strip()
        if value is None or (match["n"][0].isalpha() and not _is_counted(text, match)):
            continue
        end = match.end("n")
        unit, value = _unit(text, end, suffix, value)
        yield Span("number", match.start("n"), end, match["n"], value, unit=unit)


def number_in_context(text: str, start: int, end: int, words: Collection[str], value: int | float) -> int | float:
    """The value of a number in a text: 3.5 for "three and a half", negative after "minus" or in the south or the west.

    Args:
        text: the text.
        start: where the words for the number start.
        end: where they end.
        words: stems of the argument's name.
        value: what these words mean by themselves.
    """
    if value > 0 and _MINUS.search(text, max(start - _NEAR, 0), start):
        value = -value
    if (fraction := _FRACTION.match(text, end)) is not None:
        return value + ORDINALS[fraction[1].lower()]
    found = _NUMBER.match(text, start)
    unit, signed = _unit(text, found.end("n"), found["after"] or "", value) if found is not None else ("", value)
    return signed if _AXES.get(unit, frozenset()).intersection(words) else value


def _is_counted(text: str, match: re.Match[str]) -> bool:
    """Whether a number in words is a count: "the two" and "one of" are not, "one PX-20931" is."""
    if match["n"].lower() == "one":
        return re.match(r"\s+(?=\S*[A-Z])\S*\d", text[match.end("n") : match.end("n") + 40]) is not None
    return re.search(r"\b(?:the|all|these|those|both|which)\s+$", text[: match.start("n")][-8:], re.IGNORECASE) is None


def _unit(text: str, end: int, suffix: str, value: int | float) -> tuple[str, int | float]:
    """What a number counts, and its value: "16 west" is longitude -16."""
    words = [word for word in words_of(text[end : end + 60]) if word.text.lower() not in ("degrees", "degree", "of")]
    after = suffix.strip("° ") or (
        words[0].text if words and not re.search(r"[,;.!?]", text[end : end + words[0].start]) else ""
    )
    compass = {"N": "north", "S": "south", "E": "east", "W": "west"}.get(after, after.lower())
    if compass in _COMPASS:
        unit, sign = _COMPASS[compass]
        return stem(unit), value * sign
    return ("" if after.lower() in STOP else stem(after)), value


def _in_context(text: str, spans: list[Span]) -> list[Span]:
    """The spans, each with its surrounding words."""
    words = words_of(text)
    placed = []
    for span in spans:
        before = [word for word in words if word.end <= span.start][-4:][::-1]
        after = [word for word in words if word.start >= span.end][:2]
        near = tuple(dict.fromkeys(w.stem for pair in zip_longest(before, after) for w in pair if w is not None))
        placed.append(replace(span, near=near))
    return placed
