"""Chooses the list item that a request refers to, by comparing words. Uses no positions and no model."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from pydantic import JsonValue

from services.compute import checkpoint
from services.contracts.plan import Match

MAX_ITEMS: Final = 200
"""Number of items that are compared. Searches return the best matches first."""
_MAX_LEAVES: Final = 40
_MAX_DEPTH: Final = 3
_MAX_CHARS: Final = 200
_MAX_NORMALISED: Final = 2 * _MAX_CHARS
"""Characters of a field without case and accents. A single one may stand for 18 others."""
_LABEL_LEAVES: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")

Fields = tuple[str, ...]
"""The fields of an item, each as the words in it with a blank before and after."""


def fields_of(items: Sequence[JsonValue]) -> list[Fields]:
    """The fields of the items that are compared. They take up to 16 kB an item: work them out once for a list."""
    found = []
    for item in items[:MAX_ITEMS]:
        checkpoint()
        found.append(_fields(item))
    return found


def best(fields: Sequence[Fields], match: Match, given: Collection[int] = ()) -> list[int]:
    """The indices of the items that match best, in order; none if no item holds the text that was looked up.

    An item with a field equal to the text, or with fields that put together are the text, ranks above an item with a
    field that only holds all of its words. Ties are broken by the number of the request's other words in the item. If
    nothing was looked up or given, all items match.

    Args:
        fields: the fields of the items, as :func:`fields_of` gives them.
        match: what was looked up.
        given: the items with the value that was given.
    """
    said = [words for text in match.said if (words := _words(text))]  # no item is found by signs alone
    found = [_said(one, said, given=index in given) for index, one in enumerate(fields)]
    if not (top := max(found, default=0)) and (match.said or match.given is not None):
        return []
    alike = [index for index, score in enumerate(found) if score == top]
    if len(alike) == 1 or not match.words:
        return alike
    others = [frozenset(_words(word)) for word in match.words]
    counts = [_held(fields[index], others) for index in alike]
    return [index for index, count in zip(alike, counts, strict=True) if count == max(counts)]


def is_exact(item: JsonValue, match: Match) -> bool:
    """Whether each text that was looked up equals fields of the item, so that no other item can match better."""
    fields = _fields(item)
    return all(_equals(fields, words) for text in match.said if (words := _words(text)))


def label(item: JsonValue) -> str:
    """A short text for an item: its first values."""
    values = [str(leaf)[: 4 * _MAX_CHARS] for _, leaf in zip(range(_LABEL_LEAVES), _leaves(item), strict=False)]
    return " ".join(", ".join(values).split())[:_MAX_CHARS]


def _said(fields: Fields, said: Sequence[Sequence[str]], *, given: bool) -> int:
    """How well an item's fields match the texts that were looked up."""
    checkpoint()
    score = 2 if given else 0
    for words in said:
        if _equals(fields, words):
            score += 2
        elif any(all(f" {word} " in field for word in words) for field in fields):
            score += 1
    return score


def _equals(fields: Fields, words: Sequence[str]) -> bool:
    """Whether the words are a field, or fields in any order: first and last names are often fields of their own."""
    ends = {0}
    for end in range(1, len(words) + 1):
        if any(_field(words[start:end]) in fields for start in ends):
            ends.add(end)
    return len(words) in ends


def _held(fields: Fields, words: Sequence[frozenset[str]]) -> int:
    """How many of the words are in the fields."""
    checkpoint()
    held = frozenset("".join(fields).split(" "))
    return sum(1 for one in words if held >= one)


def _fields(item: JsonValue) -> Fields:
    return tuple(_field(_words(str(leaf)[:_MAX_CHARS], _MAX_NORMALISED)) for leaf in _leaves(item))


def _field(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "


def _leaves(item: JsonValue) -> Iterator[str | int | float]:
    """The texts and numbers inside an item, outermost first, up to a limit."""
    level: list[JsonValue] = [item]
    left = _MAX_LEAVES
    for _ in range(_MAX_DEPTH):
        below: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict | list):
                below += islice(value.values() if isinstance(value, dict) else value, _MAX_LEAVES - len(below))
            elif value is not None and not isinstance(value, bool) and left:
                left -= 1
                yield value
        level = below


def _words(text: str, most: int | None = None) -> list[str]:
    """The words of a text, without case and accents; of its first ``most`` characters, once they are normalised."""
    plain = text.casefold()
    if not plain.isascii():
        decomposed = unicodedata.normalize("NFKD", plain)[: None if most is None else 2 * most]  # most accents go
        plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(plain[:most])
