"""Chooses the list item that a request refers to, by comparing words. Uses no positions and no model."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from services.contracts.plan import Match

MAX_ITEMS: Final = 200
"""Number of items that are compared. Searches return the best matches first."""
_MAX_LEAVES: Final = 40
_MAX_DEPTH: Final = 3
_MAX_CHARS: Final = 200
_LABEL_LEAVES: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")


def best(items: Sequence[JsonValue], match: Match, given: Collection[int] = ()) -> list[int]:
    """The indices of the items that match best, in order; none if no item holds the text that was looked up.

    An item with a field equal to the text ranks above an item with a field that only holds all of its words. Ties are
    broken by the number of the request's other words in the item. ``given``: the items with the value that was given.
    """
    scores = [_score(item, match, given=index in given) for index, item in enumerate(items[:MAX_ITEMS])]
    top = max(scores, default=(0, 0))
    return [index for index, score in enumerate(scores) if score == top] if top[0] else []


def is_exact(item: JsonValue, match: Match) -> bool:
    """Whether each text that was looked up equals a field of the item, so that no other item can match better."""
    fields = _fields(item)
    return all(words in fields for text in match.said if (words := _words(text)))


def label(item: JsonValue) -> str:
    """A short text for an item: its first values."""
    values = [str(leaf)[: 4 * _MAX_CHARS] for _, leaf in zip(range(_LABEL_LEAVES), _leaves(item), strict=False)]
    return " ".join(", ".join(values).split())[:_MAX_CHARS]


def _score(item: JsonValue, match: Match, *, given: bool) -> tuple[int, int]:
    fields = _fields(item)
    sets = [frozenset(field) for field in fields]
    said = 2 if given else 0
    for text in match.said:
        words = _words(text)
        if not words:  # no item is found by signs alone
            continue
        if words in fields:
            said += 2
        elif any(one.issuperset(words) for one in sets):
            said += 1
    item_words = frozenset().union(*sets)
    return said, sum(1 for word in match.words if item_words.issuperset(_words(word)))


def _fields(item: JsonValue) -> list[tuple[str, ...]]:
    return [_words(str(leaf)[:_MAX_CHARS]) for leaf in _leaves(item)]


def _leaves(item: JsonValue) -> Iterator[str | int | float]:
    """The texts and numbers inside an item, outermost first, up to a limit."""
    level: list[JsonValue] = [item]
    left = _MAX_LEAVES
    for _ in range(_MAX_DEPTH):
        below: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict | list):
                below += list(value.values() if isinstance(value, dict) else value)[:_MAX_LEAVES]
            elif value is not None and not isinstance(value, bool) and left:
                left -= 1
                yield value
        level = below[:_MAX_LEAVES]


@lru_cache(maxsize=16_384)
def _words(text: str) -> tuple[str, ...]:
    """The words of a text, without case and accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return tuple(_WORD.findall("".join(char for char in plain if not unicodedata.combining(char))))
