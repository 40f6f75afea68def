"""Checks whether an answer contains the values that a question expects.

An answer contains an expected value if it equals one of the answer's values or a value inside one of them, such as a
name in a list of people. Numbers are compared with a relative tolerance. Texts are compared ignoring case, kinds of
spaces and Unicode form. Lists are compared element by element.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

DEFAULT_TOLERANCE = 1e-6
"""The largest relative difference between two numbers that count as equal; a question may set another one."""


def missing(expected: Iterable[dict[str, Any]], values: Iterable[Any]) -> list[Any]:
    """The expected values that appear nowhere in the answer's values."""
    given = list(values)
    return [
        item["value"]
        for item in expected
        if not any(_holds(value, item["value"], item.get("tolerance", DEFAULT_TOLERANCE)) for value in given)
    ]


def _holds(value: Any, expected: Any, tolerance: float) -> bool:
    return any(_equal(inner, expected, tolerance) for inner in _walk(value))


def _equal(value: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, list):
        pairs_up = isinstance(value, list) and len(value) == len(expected)
        return pairs_up and all(_holds(v, e, tolerance) for v, e in zip(value, expected, strict=True))
    if isinstance(expected, bool) or isinstance(value, bool) or expected is None:
        return value is expected
    if isinstance(expected, int | float):
        return isinstance(value, int | float) and abs(value - expected) <= tolerance * abs(expected)
    return isinstance(value, str) and _plain(value) == _plain(expected)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _walk(value: Any) -> Iterator[Any]:
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _walk(child)
