"""Random values of well-known kinds: dates and times, people, ids, URLs and email addresses."""

from __future__ import annotations

import random
import string
from datetime import datetime, timedelta

from training.planner import banks
from training.planner.meanings import Meaning, Sense


def moment(rng: random.Random, now: datetime, sense: Sense) -> str:
    """A date, a time or both, in the forms that people use."""
    day = now + timedelta(days=rng.randint(-300, 500))
    if sense == "year":
        return str(rng.randint(1995, 2028))
    clock = rng.choice(
        (
            f"{rng.randint(7, 22):02d}:{rng.choice(('00', '15', '30', '45'))}",
            f"{rng.randint(1, 12)}{rng.choice((' ', ''))}{rng.choice(('am', 'pm'))}",
            f"{rng.randint(1, 12)}:{rng.choice(('15', '30', '45'))} {rng.choice(('am', 'pm', 'PM', 'AM'))}",
            rng.choice(("noon", "half past nine", "8 in the morning", "quarter to six", "7 o'clock")),
        )
    )
    if sense == "time":
        return clock
    said = _day(rng, day)
    if sense == "date":
        return said
    if rng.random() < 0.35:
        return day.strftime("%Y-%m-%dT%H:00:00Z")
    absolute = any(c.isdigit() for c in said)
    return f"{clock} on {said}" if absolute and rng.random() < 0.2 else f"{said} at {clock}"


def _day(rng: random.Random, day: datetime) -> str:
    month, number = banks.MONTHS[day.month - 1], day.day
    ending = "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return rng.choice(
        (
            day.strftime("%Y-%m-%d"),
            day.strftime("%Y-%m-%d"),
            f"{number} {month} {day.year}",
            f"{month} {number}, {day.year}",
            f"{month} {number}{ending}, {day.year}",
            f"{month} {number}{ending}",
            f"{number} {month[:3]} {day.year}",
            f"{number}{ending} of {month}",
            rng.choice(("today", "tomorrow", "the day after tomorrow", "tomorrow")).removeprefix("the "),
            f"{rng.choice(('next ', '', 'this '))}{rng.choice(banks.WEEKDAYS)}",
        )
    )


def person(rng: random.Random, meant: Meaning) -> str:
    """A person's name or login."""
    if "username" in meant.words or ("user" in meant.words and "name" not in meant.words and rng.random() < 0.5):
        return rng.choice(banks.USERS)
    first, last = rng.choice(banks.FIRST), rng.choice(banks.LAST)
    return rng.choice(
        (
            f"{first} {last}",
            f"{first} {last}",
            f"{first} {last}",
            first,
            f"Dr. {last}" if meant.noun == "doctor" else last,
        )
    )


def identifier(rng: random.Random, meant: Meaning) -> str:
    """An id: digits, perhaps with letters from the noun that it identifies."""
    head = (meant.noun or "ref").split(" ")[-1]
    digits = str(rng.randint(1, 10 ** rng.choice((2, 3, 4, 5, 8))))
    mixed = "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(6, 12)))
    ascii_head = head if head.isascii() and head.isalpha() else "ref"
    return rng.choice(
        (
            digits,
            digits,
            f"{ascii_head[:3].upper()}-{digits}",
            f"{ascii_head[:3].upper()}{digits}",
            f"{ascii_head[:3].lower()}_{''.join(rng.choices('0123456789abcdef', k=rng.randint(3, 8)))}",
            mixed if any(c.isdigit() for c in mixed) else mixed + "7",
            f"{rng.choice(string.ascii_uppercase)}{rng.randint(100, 9999)}",
        )
    )


def known(rng: random.Random, meant: Meaning) -> str | None:
    """A value of a kind with a known form; None for any other text."""
    simple = {
        "code": banks.CODES,
        "language": banks.LANGUAGES,
        "currency": banks.CURRENCIES,
        "message": banks.MESSAGES,
    }
    if meant.sense in simple:
        return rng.choice(simple[meant.sense])
    match meant.sense:
        case "email":
            return f"{rng.choice(banks.USERS)}@{rng.choice(banks.BY_WORD['domain'])}"
        case "phone":
            abroad = f"+{rng.randint(1, 99)} {rng.randint(100, 999)} {rng.randint(100_000, 9_999_999)}"
            return rng.choice((abroad, f"555-{rng.randint(1000, 9999)}"))
        case "url":
            page = rng.choice(("docs", "img/7.png", "about", "feed", "p/123"))
            return f"https://www.{rng.choice(banks.BY_WORD['domain'])}/{page}"
        case "uuid":
            return "-".join("".join(rng.choices("0123456789abcdef", k=n)) for n in (8, 4, 4, 4, 12))
        case "id":
            return identifier(rng, meant)
        case "person":
            return person(rng, meant)
    return None
