"""Splits a text into the words it is searched by."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[_\-./{}~:]+")
_WORD = re.compile(r"\w+")
_STOP_WORD = re.compile(
    "a|an|and|are|as|at|be|by|for|from|has|have|i|in|into|is|it|its|my|me|of|on|or|please|"
    "that|the|this|to|was|were|will|with|you|your|can|could|would|need|want|like|some|using|use|"
    "what|when|where|which|who|whose|how|why|do|does|did|there|their|them|they|these|those|also|then"
)
_MAX_CHARS = 100
"""Longer words have no stem: a request may be one word of 60,000 characters, and stems stay in memory."""
_SUFFIXES = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", ""))


def words(text: str) -> list[str]:
    """The words of a text for word search: lower case, without accents, stop words and common English endings."""
    plain = spaced(text)
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    found = (word for word in _WORD.findall(plain.lower()) if not _STOP_WORD.fullmatch(word))
    return [stem(word) if len(word) <= _MAX_CHARS else word for word in found]


def spaced(name: str) -> str:
    """An identifier as words: ``getUserById`` and ``get_user/by-id`` are "get User By Id" and "get user by id"."""
    return _CAMEL.sub(" ", _SEPARATORS.sub(" ", name)).strip()


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The word without common English endings, if enough of it remains: "reminders" becomes "remind".

    Snowball's stemmer, which does more, gave no better results on development data.
    """
    for suffix, replacement in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)] + replacement
            break
    return word[:-2] if word.endswith("er") and len(word) > 5 else word
