"""The amount that an argument gets: all of what the network marks in part, in the unit that the argument takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from babel.numbers import get_currency_precision

from planner_svc.backends.compact.draft_calls import MAX_CALLS, LiteralArgument
from planner_svc.reading.enumerations import enumerated
from planner_svc.reading.profile import Slot
from planner_svc.reading.quantities import Quantity, quantity_at, shares
from planner_svc.reading.ranges import is_range
from planner_svc.reading.readings import number_in
from planner_svc.reading.standard_codes import currency_at
from planner_svc.reading.text import stem_set
from planner_svc.reading.units import SMALLEST, converted, unit_of
from planner_svc.reading.values import number_in_context
from planner_svc.reading.withdrawn import within
from services.contracts.api import Location

NUMBERS: Final = frozenset({"integer", "number"})
_NAMES: Final = stem_set("id ids no nos number")
"""Last words of longer names of arguments whose numbers name a thing."""
_PARTS: Final = frozenset((part,) for part in stem_set("day month year weekday"))
"""Names of arguments that take a part of a date: "two weeks" is no second month."""
_RANKED: Final = re.compile(
    r"\s+(?:(?:most|least)\s+\w+|latest|best|worst|(?!request|guest|interest)[a-z]{3,}est)\b", re.IGNORECASE
)
"""Words after how many are wanted: "the five most expensive", "3 latest"."""
_UNCLEAR: Final = re.compile(
    r"\s?(?:barrels?|boxes|box|bushels?|crates?|cups?|gallons?|gal|hundredweights?|pallets?|pints?|quarts?|sacks?|stones?"
    r"|tablespoons?|teaspoons?|tons?)\b",
    re.IGNORECASE,
)
"""Units whose size depends on the country or on the thing."""
_WHOLES: Final = stem_set("amount cost count credit fee payment price quantity sum total")
"""Words in the names of arguments that take an amount, and no share of one."""
_MAX_BETWEEN: Final = 100
_IDS: Final = re.compile(
    r"(?<![\w.,-])(?P<head>(?:[^\W\d_][\w-]*?)?)(?P<low>\d{1,9})(?!\d)"
    r"(?:\s*[-\u2013]\s*|\s+(?:to|through|until|till)\s+)(?P<last>(?P=head)(?P<high>\d{1,9}))(?![\w-])"
)
"""Two ids that only their last numbers tell apart."""
_PLURAL: Final = re.compile(r"[a-z]s\s+(?:from\s+)?$", re.IGNORECASE)
_COMMA: Final = re.compile(r"\d,\d")


def amount_meant(query: str, said: Sequence[Quantity], slot: Slot, start: int, end: int) -> int | float | str | None:
    """The value of an argument for which these characters were marked; None if they are no part of an amount.

    A text gets the amount only if the characters are a part of its number: "2" of "2,5".

    Args:
        query: the request.
        said: its amounts.
        slot: the argument.
        start: where the characters start.
        end: where they end.

    Raises:
        ValueError: the argument does not take the amount: milligrams are no days, 2.5 is no integer, the ids
            "101,102" are two, and "10% of order 5" is no amount of money.
    """
    whole = quantity_at(said, start, end)
    _check_whole(query, whole, slot, start, end)
    if whole is None:
        return None
    if not slot.kinds & NUMBERS:
        cut = number_in(query[start:end])
        is_said = cut == whole.amount and not slot.paging  # the size of a page is written in digits
        return None if cut is None or whole.is_sum or is_said else str(whole.amount)
    unit, amount = unit_of(slot), whole.amount
    if whole.unit and whole.unit.kind in ("time", "months") and unit is None and slot.words in _PARTS:
        raise ValueError(f"“{query[whole.start : whole.end]}” is a length of time")
    if slot.role and not slot.temporal and _RANKED.match(query, whole.end):
        raise ValueError(f"“{query[whole.start : whole.end]}” counts the first of an order")
    if unit is not None and whole.unit is None and _UNCLEAR.match(query, whole.end):
        raise ValueError(f"“{query[whole.start : whole.end]}” has a unit of unclear size")
    if unit is not None and whole.unit is not None:
        if unit.kind != whole.unit.kind:
            raise ValueError(f"“{query[whole.start : whole.end]}” has another unit")
        amount = converted(amount, whole.unit, unit)
    elif slot.paging and (whole.unit or currency_at(query, whole.start, whole.end)):
        raise ValueError(f"“{query[whole.start : whole.end]}” is no size of a page")
    elif unit == SMALLEST and (currency := currency_at(query, whole.start, whole.end)) is not None:
        amount = round(amount * 10 ** get_currency_precision(currency))
    elif whole.is_sum:
        return None
    if isinstance(amount, float) and not amount.is_integer() and "number" not in slot.kinds:
        raise ValueError(f"“{query[whole.start : whole.end]}” is not a whole number")
    return number_in_context(query, whole.start, whole.end, slot.words, amount)


def _check_whole(query: str, whole: Quantity | None, slot: Slot, start: int, end: int) -> None:
    """Refuse what is a share of something, or several ids."""
    if not _WHOLES.isdisjoint(slot.words) and within(start, end, shares(query)):
        raise ValueError(f"“{query[start:end]}” is a share of something")
    if whole is None or not _names_a_thing(slot):
        return
    is_long = _range_of_ids(query, (start, end)) and not ids_named(query, (start, end))
    if _COMMA.search(query, whole.start, whole.end) or (is_long and slot.kinds != {"array"}):
        raise ValueError(f"“{query[whole.start : whole.end]}” may be several")


def with_ids_between(query: str, slot: Slot, said: Sequence[LiteralArgument]) -> list[LiteralArgument]:
    """The values of a list, with all ids of its ranges: 3, 4, 5 and 6 for "tickets 3 to 6"."""
    found, places = list(said), {one.place: one for one in said}
    for first, last in _ranges_of_ids(query) if _names_a_thing(slot) else ():
        low, high, ids = places.get(first), places.get(last), _ids_of(query, first, last)
        if low is None or high is None or len(ids) > _MAX_BETWEEN:
            continue
        at, is_number = found.index(high), isinstance(low.value, int)
        found[at:at] = [LiteralArgument(int(one) if is_number else one, first, low.sure) for one in ids[1:-1]]
    return found


def ids_named(query: str, place: tuple[int, int]) -> list[tuple[str, tuple[int, int]]]:
    """The ids of the enumeration or of the short range in which one is, each with its place.

    These are 5, 6 and 7 for "5, 6 and 7" and for "5 to 7", and A-5 to A-7 for "A-5 to A-7". Empty without one.
    """
    if members := enumerated(query, place):
        return [(query[slice(*at)], at) for at in members]
    if (found := _range_of_ids(query, place)) is None:
        return []
    ids = _ids_of(query, *found)
    return [*((one, found[0]) for one in ids[:-1]), (ids[-1], found[1])] if len(ids) <= MAX_CALLS else []


def _range_of_ids(query: str, place: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Both ends of the range of ids in which these characters are: after a plural, so not "from tour 31 to 33"."""
    for low, high in _ranges_of_ids(query):
        if low[0] <= place[0] and place[1] <= high[1] and _PLURAL.search(query, 0, low[0]):
            return low, high
    return None


def _ranges_of_ids(query: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The characters of the first and of the last id of each range."""
    for match in _IDS.finditer(query):
        low, high = (match.start("head"), match.end("low")), match.span("last")
        if is_range(query, low, high) and int(match["low"]) < int(match["high"]):
            yield low, high


def _ids_of(query: str, first: tuple[int, int], last: tuple[int, int]) -> list[str]:
    """The ids from one to another, or as many as are too many, as they are written; both end in their number."""
    low, high = query[slice(*first)], query[slice(*last)]
    head = low.rstrip("0123456789")
    width, start = len(low) - len(head), int(low[len(head) :])
    end = min(int(high[len(head) :]), start + _MAX_BETWEEN)
    return [f"{head}{number:0{width}}" for number in range(start, end + 1)]


def _names_a_thing(slot: Slot) -> bool:
    last = slot.words[-1:]
    named = last in (("id",), ("ids",)) or (len(slot.words) > 1 and not _NAMES.isdisjoint(last))
    return "string" not in slot.kinds and (named or slot.parameter.location is Location.PATH)
