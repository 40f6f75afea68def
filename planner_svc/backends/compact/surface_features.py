"""How the words of a request look: the encoder reads lower case only and does not see this.

Names have capitals, codes mix letters with digits, and quoted text is meant literally. Often nothing else shows where a
value starts and ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

SURFACE_FEATURES: Final = 9
"""How many features a token has: capital, all capitals, digit, code, quoted, first word of a sentence, first and last
token of a quotation, inside a word."""

_QUOTED: Final = re.compile(
    r"\"(?P<a>[^\"]+)\"|\u201c(?P<b>[^\u201d]+)\u201d|`(?P<c>[^`]+)`"
    r"|(?<!\w)['\u2018](?P<d>.{1,500}?)['\u2019](?!\w)",
    re.DOTALL,
)
_NO_TITLE: Final = "".join(rf"(?<!\b{title}\.)" for title in ("Dr", "Mr", "Mrs", "Ms", "Mt", "Prof", "St"))
_SENTENCE: Final = re.compile(rf"(?<=[\w)\"'\u201d\u2019%][.?!;]){_NO_TITLE}\s+(?=[A-Z\"'\u201c\u2018])|\n+")
_CHUNK: Final = re.compile(r"[^\s\"'()\u201c\u201d`,;]+")
CODE: Final = re.compile(r"[A-Za-z][\d_]|\d[A-Za-z]|[a-z][A-Z]|[_@#]|://")
_UNBROKEN: Final = re.compile(r"[^\s\"'()<>=\u201c\u201d`,;]+(?:={1,2}(?![^\s\"'(),;.]))?")
_ADDRESS: Final = re.compile(r"://|\w@\w|^/\w|\w[!#$^*]\w|=$")
_PART: Final = re.compile(r"[A-Za-z\d]+")
_MEASURED: Final = re.compile(r"(?:\d{1,4}[A-Za-z]{1,4}){1,2}\d{0,4}|[A-Za-z]{1,2}\d{1,2}")
_LONGEST_MEASURE: Final = 7
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.Z+-]*")


def quotations(query: str) -> list[tuple[int, int]]:
    """The character range inside each pair of quotation marks."""
    return [next((m.start(g), m.end(g)) for g in "abcd" if m[g] is not None) for m in _QUOTED.finditer(query)]


def codes(query: str) -> list[tuple[int, int]]:
    """The character range of each identifier, key, address, path or encoded text: unbroken, and not a plain word.

    "7f3c1d50-checkout" is a code; "20x30cm", "3-bedroom", "Q3-2025" and "10am-2pm" are not.
    """
    found = []
    for match in _UNBROKEN.finditer(query):
        said = match[0].rstrip(".:!?\u2019")
        if _ADDRESS.search(said) or (any(map(_is_mixed, _PART.findall(said))) and not _MOMENT.fullmatch(said)):
            found.append((match.start(), match.start() + len(said)))
    return found


def _is_mixed(part: str) -> bool:
    """Whether a part mixes letters and digits, other than as a number with its unit."""
    mixed = not part.isalpha() and not part.isdigit()
    return mixed and (len(part) > _LONGEST_MEASURE or not _MEASURED.fullmatch(part))


def sentence_ends(query: str) -> list[int]:
    """Where sentences end, except inside quotations."""
    quoted = quotations(query)
    return [m.start() for m in _SENTENCE.finditer(query) if not any(s <= m.start() < e for s, e in quoted)]


def surface_features_of(query: str, offsets: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
    """(t, SURFACE_FEATURES): 1 for each feature that a token has; all 0 for special tokens."""
    chunks = {at: chunk for chunk in _CHUNK.finditer(query) for at in range(chunk.start(), chunk.end())}
    quoted = quotations(query)
    inside = {at for start, end in quoted for at in range(start, end)}
    firsts, lasts = {start for start, _ in quoted}, {end for _, end in quoted}
    openings = {_next_word(query, at) for at in (0, *sentence_ends(query))}
    found = np.zeros((len(offsets), SURFACE_FEATURES), np.float32)
    for row, (start, end) in zip(found, offsets, strict=True):
        if end > start:
            chunk = chunks.get(start)
            said = chunk[0] if chunk is not None else query[start:end]
            begins = chunk.start() if chunk is not None else start
            row[:] = (
                said[0].isupper(),
                len(said) > 1 and said.isupper(),
                any(map(str.isdigit, said)),
                CODE.search(said) is not None,
                start in inside,
                begins in openings,
                start in firsts,
                end in lasts,
                start > begins,
            )
    return found


def _next_word(query: str, at: int) -> int:
    found = _CHUNK.search(query, at)
    return found.start() if found is not None else -1
