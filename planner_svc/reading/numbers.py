"""Numbers in digits and in English words."""

import re
import unicodedata

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = {
    name: 10 * n
    for n, name in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
_SMALL = {name: n for n, name in enumerate(_ONES)} | _TENS
_SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "k": 1_000,
    "m": 1_000_000,
}
_ONE_WORD = "|".join(sorted((*_SMALL, "dozen", "hundred", "thousand", "million", "billion"), key=len, reverse=True))

NUMBER_WORD = rf"(?:{_ONE_WORD})(?:[\s-](?:and\s)?(?:{_ONE_WORD})){{0,9}}"
"""Pattern of a number in words, at most ten of them."""

DIGITS = r"[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
"""Pattern of a number in digits, with commas between thousands."""

CURRENCY_SIGNS = "".join(sign for sign in map(chr, range(0x20D0)) if unicodedata.category(sign) == "Sc")
"""The signs of currencies, for a class in a pattern."""

MAX_DIGITS = 30


def number(text: str) -> int | float | None:
    """The value of a number in digits (with a scale such as "2 million" or "3k") or in words; None for other text."""
    low = text.strip().lower().replace("\u2212", "-")
    match = re.fullmatch(rf"({DIGITS})\s?(k|m|dozen|hundred|thousand|million|billion)?", low)
    if match is None:
        return _in_words(low)
    plain = match[1].replace(",", "")
    if len(plain) > MAX_DIGITS:
        return None
    value = float(plain) if "." in plain else int(plain)
    return whole(value * _SCALES[match[2]]) if match[2] else value


def _in_words(low: str) -> int | None:
    total = part = 0
    words = [word for word in re.split(r"[\s-]+", low) if word != "and"]
    if not words or len(words) > 12:
        return None
    for word in words:
        if word in _SMALL:
            part += _SMALL[word]
        elif word in _SCALES:
            part = max(part, 1) * _SCALES[word]
            if word not in ("hundred", "dozen"):
                total, part = total + part, 0
        else:
            return None
    return total + part


def whole(value: float) -> int | float:
    """The number as an integer if it is one."""
    return int(value) if float(value).is_integer() else value
