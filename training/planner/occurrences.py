"""Finds where a request states a value: literally, in another spelling, as another form of number or date, by words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from pydantic import JsonValue

from planner_svc.reading.moments import Found, Moment
from planner_svc.reading.numbers import DIGITS, NUMBER_WORD, number
from planner_svc.reading.readings import NO_CLOCK, ORDINALS, moment_of, moments_in
from planner_svc.reading.text import STOP, Word, split_name, words_of

LITERAL, LOOSE, FORM, WORDS = 4, 3, 2, 1
"""Confidence of an occurrence: exact characters; up to case and punctuation; another form; most of its words."""
MAX_OCCURRENCES = 40
_NUMBER = re.compile(
    rf"(?P<n>{DIGITS}(?:\s?(?:million|billion|thousand|hundred|k)\b)?)|\b(?P<w>{NUMBER_WORD})\b"
    rf"|\b(?P<o>{'|'.join(ORDINALS)})\b",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"\s?(?:%|percent\b)", re.IGNORECASE)
_RELATIVE = re.compile(r"\b(?:today|tonight|tomorrow|yesterday|next|this|coming|last|day|week|\w+day)\b", re.IGNORECASE)
_SUFFIX = re.compile(
    "|e|y|s|es|d|ed|ing|ly|al|ally|ic|ical|n|an|ian|ean|ous|eous|ive|ity|ment|er|or|ion|ation|ative|ish|ese|ist|ism"
)
_SHARE = 0.6
"""Share of a phrase's content words that must occur together in a rewording."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Characters that may state a value."""

    start: int
    end: int
    sure: int

    def overlaps(self, start: int, end: int) -> bool:
        """Whether it overlaps a place."""
        return self.start < end and start < self.end


class Request:
    """A request's text, parsed once for all lookups.

    Args:
        text: the request.
        now: its clock, if known.
    """

    def __init__(self, text: str, now: datetime | None = None) -> None:
        self.text = text
        self.now = now

    @cached_property
    def words(self) -> list[Word]:
        """All its words."""
        return words_of(self.text)

    @cached_property
    def _numbers(self) -> list[tuple[int, int, float]]:
        found = []
        for match in _NUMBER.finditer(self.text):
            said = match["o"]
            value = ORDINALS[said.lower()] if said else number(match["n"] or match["w"])
            if value is not None:
                found.append((match.start(), match.end(), float(value)))
        return found

    @cached_property
    def _moments(self) -> list[Found]:
        clock = self.now or NO_CLOCK
        found = moments_in(self.text, clock) + moments_in(self.text, clock, month_first=False)
        return list(dict.fromkeys(found))

    def find(self, value: JsonValue) -> list[Occurrence]:
        """Every place that may state a text or a number, the most certain first; none for booleans and objects."""
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
            return []
        found: dict[tuple[int, int], Occurrence] = {}
        for one in self._all(value):
            known = found.get((one.start, one.end))
            if known is None or known.sure < one.sure:
                found[one.start, one.end] = one
            if len(found) >= MAX_OCCURRENCES:
                break
        return sorted(found.values(), key=lambda one: (-one.sure, one.start))

    def _all(self, value: str | int | float) -> Iterator[Occurrence]:
        text = str(value).strip()
        yield from self._literal(text)
        if isinstance(value, str):
            yield from self._loose(text)
        yield from self._counted(value)
        if isinstance(value, str):
            yield from self._dated(text)
            yield from self._worded(text)

    def _literal(self, text: str) -> Iterator[Occurrence]:
        bare = text.rstrip(".") if len(text) > 20 else text
        for said in dict.fromkeys((text, bare)):
            for match in re.finditer(re.escape(said), self.text, re.IGNORECASE):
                if _whole(self.text, match.start(), match.end()):
                    yield Occurrence(match.start(), match.end(), LITERAL if match[0] == text else LOOSE)

    def _loose(self, text: str) -> Iterator[Occurrence]:
        """The same words with other punctuation between and around them, plural or not: "new-york", "book's"."""
        parts = re.findall(r"[^\W_]+", text)
        if len(parts) == 1 and text.isalnum() and len(text) < 60:
            parts = split_name(text) if text[1:] != text[1:].lower() or not text.isalpha() else parts  # "StationA"
        if not 0 < len(parts) <= 60 or len(text) < 2:
            return
        endings = r"(?:['\u2019]?s|es)?"
        pattern = r"[\W_]{0,4}".join(re.escape(part) for part in parts) + (endings if len(parts[-1]) > 2 else "")
        for match in re.finditer(pattern, self.text, re.IGNORECASE):
            if _whole(self.text, match.start(), match.end()):
                yield Occurrence(match.start(), match.end(), LOOSE)
        last = parts[-1]
        if len(last) > 3 and last[-1] in "sy":
            shorter = r"[\W_]{0,4}".join([*map(re.escape, parts[:-1]), re.escape(last[:-1]) + r"\w{0,3}"])
            for match in re.finditer(shorter, self.text, re.IGNORECASE):
                if _whole(self.text, match.start(), match.end()):
                    yield Occurrence(match.start(), match.end(), FORM)

    def _counted(self, value: str | int | float) -> Iterator[Occurrence]:
        """The number in any form; a fraction such as 0.05 also as "5%"."""
        wanted = _as_number(value)
        if wanted is None:
            return
        for start, end, found in self._numbers:
            share = _PERCENT.match(self.text, end)
            if _equal(found, wanted, self.text[start:end]):
                yield Occurrence(start, end, FORM)
            elif share is not None and abs(found / 100 - wanted) < 1e-9:
                yield Occurrence(start, share.end(), FORM)

    def _dated(self, text: str) -> Iterator[Occurrence]:
        if not any(c.isdigit() for c in text):
            return
        targets = [moment_of(text, self.now or NO_CLOCK, month_first=first) for first in (True, False)]
        for one in self._moments:
            assert isinstance(one.value, Moment)
            said = self.text[one.start : one.end]
            for target in targets:
                if target is not None and _is_moment(one.value, target, said, self.now is not None):
                    full_stop = re.search(r"[ap]m\.$", said, re.IGNORECASE) is not None
                    yield Occurrence(one.start, one.end - full_stop, FORM)

    def _worded(self, text: str) -> Iterator[Occurrence]:
        """The parts of a sentence with the most content words of a phrase, if these are enough."""
        wanted = {word.stem for word in words_of(text[:200]) if word.text.lower() not in STOP}
        if not wanted or len(text) > 200 or not any(c.isalpha() for c in text):
            return
        if len(wanted) == 1 and text.isalpha():
            yield from self._derived(text.lower())
        hits = [word for word in self.words if word.stem in wanted]
        need = max(1, round(_SHARE * len(wanted))) if len(wanted) > 2 else len(wanted)
        stretches = [self._stretch(hits[first:], 2 * len(text) + 10) for first in range(len(hits))]
        most = max((count for count, _, _ in stretches), default=0)
        if most >= need:
            yield from (Occurrence(start, end, WORDS) for count, start, end in stretches if count == most)

    def _stretch(self, hits: list[Word], longest: int) -> tuple[int, int, int]:
        """The number of different words in the stretch from the first word on, with its start and end."""
        seen: set[str] = set()
        start, end = hits[0].start, hits[0].end
        for word in hits:
            if word.end - start > longest or re.search(r"[.!?]\s|\n", self.text[end : word.start]):
                break
            if word.stem not in seen:
                seen.add(word.stem)
                end = word.end
        return len(seen), start, end

    def _derived(self, text: str) -> Iterator[Occurrence]:
        """A related word: "orally" for oral, "African" for Africa."""
        for word in self.words:
            low = word.text.lower()
            pairs = enumerate(zip(low, text, strict=False))
            shared = next((place for place, (one, other) in pairs if one != other), min(len(low), len(text)))
            if shared >= 4 and shared >= len(text) - 2 and _SUFFIX.fullmatch(low[shared:]) and low not in STOP:
                yield Occurrence(word.start, word.end, WORDS)


def _whole(text: str, start: int, end: int) -> bool:
    """Whether the characters are whole words; a number may have a unit right after it ("2.5MB")."""
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    first, last = text[start], text[end - 1]
    if first.isalnum() and before.isalnum():
        return False
    if last.isdigit() and (after.isdigit() or re.match(r"[.,]\d", text[end : end + 2])):
        return False
    if first.isdigit() and re.search(r"\d[.,]$", text[max(start - 2, 0) : start]):
        return False
    return not (last.isalnum() and after.isalnum()) or (last.isdigit() and after.isalpha())


def _as_number(value: str | int | float) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    plain = value.strip().lower()
    if plain in ORDINALS:
        return float(ORDINALS[plain])
    match = re.fullmatch(rf"[$€£]?\s?({DIGITS})\s?(?:%|[^\W\d_]{{1,12}})?", plain)
    found = number(match[1]) if match else number(plain)
    return None if found is None else float(found)


def _equal(said: float, wanted: float, text: str) -> bool:
    """Whether a number is stated, possibly rounded: "0.65" for 0.6508643788394753."""
    decimals = len(text.partition(".")[2])
    return said == wanted or (decimals > 1 and len(repr(wanted)) > 10 and abs(said - wanted) <= 0.5 * 10**-decimals)


def _is_moment(said: Moment, target: Moment, text: str, clocked: bool) -> bool:
    """Whether the stated time can be the target. Year, part of the day or the day itself may be omitted."""
    if (target.clock is None) != (said.clock is None) and not (target.clock and not target.clock.hour):
        return False
    if target.clock is not None and said.clock is not None:
        half = abs((target.clock.hour - said.clock.hour) % 24)
        vague = half == 12 and not re.search(r"[ap]\.?\s?m", text, re.IGNORECASE)
        if (target.clock.minute != said.clock.minute) or (half and not vague):
            return False
    if target.day is None or (said.day is None and target.clock is not None):
        return target.day is None and (said.day is None or re.search(r"\d{4}|[a-z]{3}.*\d", text) is None)
    if said.day is None:
        return False
    if said.grain != target.grain and "time" not in (said.grain, target.grain):
        return False
    if said.day == target.day:
        return True
    if not re.search(r"\d{4}", text) and (said.day.month, said.day.day) == (target.day.month, target.day.day):
        return True
    return not clocked and re.search(r"\d", text.split(" at ")[0]) is None and _RELATIVE.search(text) is not None
