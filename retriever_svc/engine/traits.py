"""Features of an API for ranking, as a row of integers: method, form of the path, words of its name and subject."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.fields import required_lines
from retriever_svc.models import Entry
from services.words import words

Traits = NDArray[np.int32]
"""(n, ``WIDTH``); columns are named below. Words are digests, padded with 0."""

METHOD, DEPTH, PARAMETERS, OF_ONE, REQUIRED = range(5)
"""Kind of method (index of ``KINDS``), segments, those that are parameters, ends in one, required parameters."""
SEGMENTS: Final = slice(5, 13)
NAME: Final = slice(13, 21)
RESOURCE: Final = slice(21, 24)
"""Words of the last segment that is not a parameter: the API's subject."""
WIDTH: Final = 24

KINDS: Final = ("read", "create", "change", "remove")
_KIND: Final = {"GET": 0, "HEAD": 0, "OPTIONS": 0, "POST": 1, "PUT": 2, "PATCH": 2, "DELETE": 3}
_PARAMETER: Final = 1
_VARIABLE = re.compile(r"\{|^:")


def traits_of(entry: Entry) -> list[int]:
    """One row of :data:`Traits`."""
    path = entry.path.partition("?")[0].strip("/")
    segments = [_PARAMETER if _VARIABLE.search(part) else digest(part.lower()) for part in path.split("/") if part]
    fixed = [part for part in path.split("/") if part and not _VARIABLE.search(part)]
    return [
        _KIND.get(entry.method, 0),
        len(segments),
        segments.count(_PARAMETER),
        int(bool(segments) and segments[-1] == _PARAMETER),
        len(required_lines(entry.inputs)),
        *_filled(segments, SEGMENTS),
        *_filled(digests(words(entry.name)), NAME),
        *_filled(digests(words(fixed[-1])) if fixed else (), RESOURCE),
    ]


def digests(texts: Iterable[str]) -> list[int]:
    """Digests of the distinct words, in their order."""
    return [digest(text) for text in dict.fromkeys(texts)]


def digest(text: str) -> int:
    """A positive 31-bit number, the same in every process; 0 and 1 are reserved."""
    return max(2, zlib.crc32(text.encode("utf-8", "replace")) & 0x7FFFFFFF)


def _filled(numbers: Iterable[int], place: slice) -> list[int]:
    width = place.stop - place.start
    return [*numbers, *[0] * width][:width]
