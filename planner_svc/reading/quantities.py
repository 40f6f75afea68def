"""Amounts as a request says them, each as a whole, with its unit: "1,250.75", "two hundred and forty", "1h30".

A network that marks a value word by word may mark only a part of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from planner_svc.reading.numbers import CURRENCY_SIGNS, number, whole
from planner_svc.reading.ranges import is_range
from planner_svc.reading.text import MAX_CHARS, without_look_alikes
from planner_svc.reading.units import UNIT_WORDS, Unit

_DIGIT_WORD: Final = "one|two|three|four|five|six|seven|eight|nine"
_BELOW_100: Final = (
    rf"(?:(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[\s-](?:{_DIGIT_WORD}))?"
    rf"|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|{_DIGIT_WORD}|zero)"
)
_BELOW_1000: Final = rf"(?:(?:{_BELOW_100}|an?)\s+hundred(?:\s+(?:and\s+)?{_BELOW_100})?|{_BELOW_100})"
_IN_WORDS: Final = (
    rf"(?:(?:{_BELOW_1000}|a)\s+(?:thousand|million|billion)(?:(?:,|\s+and)?\s+{_BELOW_1000})?"
    rf"|(?:{_BELOW_100}|a)\s+dozen|{_BELOW_1000})\b"
)
_IN_DIGITS: Final = (
    r"(?P<comma>[-+\u2212]?(?:\d{1,3}(?:\.\d{3})+,\d{1,2}|\d+,\d{1,2}|0,\d+))(?![\d.,]*\d)"
    r"|(?P<digits>[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?(?:k|million|billion|thousand|hundred|dozen)\b)?)"
)
_POINT: Final = rf"\s+point(?P<decimals>(?:\s+(?:zero|{_DIGIT_WORD}))+)\b"
_SHARES: Final = {"half": 0.5, "quarter": 0.25, "three quarters": 0.75}
_AND_SHARE: Final = r"\s+and\s+(?:a\s+)?(?P<share>half|quarter|three\s+quarters)\b"
_OF_ONE: Final = r"(?:(?P<part>half)|(?:a\s+)?(?P<quarter>quarter|three\s+quarters)\s+of)\s+an?"
_NUMBER: Final = re.compile(
    rf"(?<![\w.,])(?<!\d[/:-])(?:{_IN_DIGITS}|{_OF_ONE}|(?P<words>{_IN_WORDS})(?:{_POINT})?|(?P<one>an?(?:other)?)(?=\s+\w))"
    rf"(?:{_AND_SHARE})?",
    re.IGNORECASE,
)
_SHARE_AFTER: Final = re.compile(_AND_SHARE, re.IGNORECASE)
_UNIT: Final = re.compile(
    rf"(?:\s|-)?(?:degrees?\s)?(?P<unit>{'|'.join(sorted(map(re.escape, UNIT_WORDS), key=len, reverse=True))})"
    r"(?![\w\u2019'])(?!\.\d)",
    re.IGNORECASE,
)
_CLOCKED: Final = re.compile(r"(?P<hours>\d{1,2})\s?h\s?(?P<minutes>[0-5]\d)(?:\s?m(?:in)?)?(?!\w)", re.IGNORECASE)
_TOGETHER: Final = re.compile(r"(?:,?\s+and\s+|,\s*|\s+|(?<=h))")
_SIGN: Final = re.compile(rf"[{CURRENCY_SIGNS}]\s?$")
_SIGN_BEFORE: Final = re.compile(rf"(?:[{CURRENCY_SIGNS}]|\b[A-Z]{{3}}\s)\s?$")
_CURRENCY_AFTER: Final = re.compile(
    rf"\s?(?:[{CURRENCY_SIGNS}]|[a-z]{{2,8}})(?=\s*(?:[-\u2013]|\b(?:to|and|through|until|till)\b))", re.IGNORECASE
)
_POINTS: Final = re.compile(r"[1-9]\d{0,2}\.\d{3}")
"""A thousand as much of Europe writes it, if it is money."""
_RATE: Final = re.compile(rf"\s?[{CURRENCY_SIGNS}]?\s?(?:/|(?:per|an?)\b)", re.IGNORECASE)
_SCALE: Final = re.compile(r"\s?(?:mn?|(?P<bn>bn|b))\b(?!\.\d)", re.IGNORECASE)
"""Millions and billions of a currency: "$1.2m"."""
_SHARE_OF: Final = re.compile(
    r"(?<![\w.,])(?P<share>half|(?:an?|one|two|three)\s+(?:third|quarter|fifth|tenth)s?|\d+(?:[.,]\d+)?\s?(?:%|percent\b))"
    r"(?:\s+of\b(?!\s+an?\b)|(?=\s+(?:the|this|that|my|our|their)\b))",
    re.IGNORECASE,
)
"""A share of what follows: of a thing, or of a number."""
_HIDDEN: Final = re.compile(r"[\d.,:/]*\d")


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount and its characters; ``unit`` is None if none of ``UNIT_WORDS`` follows."""

    start: int
    end: int
    amount: int | float
    unit: Unit | None = None
    is_sum: bool = False


def quantities(text: str) -> list[Quantity]:
    """The amounts in a text, in order; no two overlap. Sums of one dimension are one: "3 hours 15 minutes"."""
    text = without_look_alikes(text[:MAX_CHARS])
    found: list[Quantity] = []
    for one in _single(text):
        before = found[-1] if found else None
        if before is not None and one.start < before.end:
            continue
        total = _sum(before, one) if before is not None and _TOGETHER.fullmatch(text, before.end, one.start) else None
        if total is not None:
            found[-1] = total
        else:
            found.append(one)
    return found


def quantity_at(found: Sequence[Quantity], start: int, end: int) -> Quantity | None:
    """The amount of which these characters are a part."""
    return next((one for one in found if one.start <= start and end <= one.end), None)


def shares(text: str) -> list[tuple[int, int]]:
    """The places of the shares of something in a text: "half" in "half of order 5", "10%" in "10% of it"."""
    return [match.span("share") for match in _SHARE_OF.finditer(text[:MAX_CHARS])]


def amount_ranges(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The characters of the first and of the last amount of each range: "$200 to $900", "between 5 and 10 EUR"."""
    for one, other in pairwise(quantities(text)):
        start, until = (_SIGN_BEFORE.search(text, 0, at.start) for at in (one, other))
        after = _CURRENCY_AFTER.match(text, one.end)
        first = start.start() if start else one.start, after.end() if after else one.end
        if is_range(text, first, (until.start() if until else other.start, other.end)):
            yield (one.start, one.end), (other.start, other.end)


def _single(text: str) -> Iterator[Quantity]:
    at = 0
    while (match := _NUMBER.search(text, at)) is not None:
        at = max(match.end(), match.start() + 1)
        if clocked := _CLOCKED.match(text, match.start()):
            amount = int(clocked["hours"]) * 60 + int(clocked["minutes"])
            yield Quantity(*clocked.span(), amount, UNIT_WORDS["minutes"])
            at = clocked.end()
            continue
        counted = _amount(match)
        if counted is None or _HIDDEN.match(text, match.end()):
            continue
        if _POINTS.fullmatch(match["digits"] or "") and _is_money(text, match.span()):
            counted = int(match["digits"].replace(".", ""))
        one = Quantity(match.start(), match.end(), counted)
        if (scale := _SCALE.match(text, one.end)) and _SIGN.search(text, max(one.start - 2, 0), one.start):
            one = replace(one, end=scale.end(), amount=whole(counted * (1e9 if scale["bn"] else 1e6)))
        else:
            one = _with_unit(text, one)
        if one.unit is None and (match["one"] or match["part"] or match["quarter"]):
            continue  # an article, or half of something
        at = one.end
        yield one


def _is_money(text: str, place: tuple[int, int]) -> bool:
    """Whether a number is a whole price by the sign beside it; dollars have points before cents, and so have rates."""
    near = text[max(place[0] - 2, 0) : place[0]] + text[place[1] : place[1] + 2]
    return any(sign in CURRENCY_SIGNS.replace("$", "") for sign in near.strip()) and not _RATE.match(text, place[1])


def _with_unit(text: str, one: Quantity) -> Quantity:
    unit = _UNIT.match(text, one.end)
    if unit is None:
        return one
    one = replace(one, end=unit.end(), unit=UNIT_WORDS[unit["unit"].lower()])
    if share := _SHARE_AFTER.match(text, one.end):  # an hour and a half
        one = replace(one, end=share.end(), amount=one.amount + _share(share["share"]))
    return one


def _amount(match: re.Match[str]) -> int | float | None:
    if part := match["part"] or match["quarter"]:
        return _share(part)
    if match["comma"]:
        counted = number(match["comma"].replace(".", "").replace(",", "."))
    else:
        counted = number(
            re.sub(r"^an?(?:other)?\b", "one", (match["digits"] or match["words"] or match["one"]).lower())
        )
    if counted is not None and match["decimals"]:
        digits = "".join(str(number(word)) for word in match["decimals"].split())
        counted = float(f"{int(counted)}.{digits}")
    if counted is not None and match["share"]:
        counted += _share(match["share"])
    return counted


def _share(words: str) -> float:
    return _SHARES[" ".join(words.lower().split())]


def _sum(left: Quantity, right: Quantity) -> Quantity | None:
    """Both as one amount in the smaller unit: 195 minutes for "3 hours 15 minutes"; None if they are no sum."""
    if (
        left.unit is None
        or right.unit is None
        or left.unit.kind != right.unit.kind
        or left.unit.size <= right.unit.size
        or right.unit.zero
    ):
        return None
    total = left.amount * left.unit.size / right.unit.size + right.amount
    return replace(right, start=left.start, amount=round(total, 9), is_sum=True)
