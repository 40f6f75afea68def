"""Examples of a value that a parameter's description gives."""

from __future__ import annotations

import re
from functools import lru_cache

_EG = re.compile(
    r"(?:\be\.?g\.?,?|\bsuch as|\bfor example,?|\bexamples?:)\s*[:(]?\s*(?P<list>[^()\n;]{2,160})",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\s*(?:,|\bor\b|\band\b|/(?=\s)|\betc\b\.?)\s*")
_PLACEHOLDER = re.compile(
    r"^(?:yyyy|hh|dd|mm)\b|yyyy|hh:mm|%[ymdh]|[<>{}|\[\]\"]"
    r"|^(?:the|a|an|any|in|or|and|if|to|have|be|is|are|when|where|that|number|name|id|https?://)\b",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[\w .&+/#:%°'\u2019-]+")
MAX_EXAMPLE = 40


@lru_cache(8_192)
def examples_in(description: str) -> tuple[str, ...]:
    """The examples that a description gives: "(e.g., DNA, fingerprints, blood)"."""
    match = _EG.search(description[:600])
    if match is None:
        return ()
    told = re.split(r"\.\s+[A-Z]", match["list"])[0]
    found = [item.strip(" .'\"`\u201c\u201d").removeprefix("e.g. ") for item in _ITEM.split(told)]
    return tuple(
        item
        for item in found
        if 1 < len(item) <= MAX_EXAMPLE
        and len(item.split()) <= 4
        and _PLAIN.fullmatch(item)
        and not _PLACEHOLDER.search(item)
        and any(map(str.isalnum, item))
    )
