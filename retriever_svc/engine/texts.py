"""The texts an API is found by. Which fields they hold was chosen on development data (docs/retrieval.md)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from retriever_svc.models import Record
from services.contracts.api import Api

_DESCRIPTION = 600
_FIELD = 100
_MAX_WORDS = 400

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[_\-./{}~:]+")
_WORD = re.compile(r"\w+")
_STOP_WORD = re.compile(
    "a|an|and|are|as|at|be|by|for|from|has|have|i|in|into|is|it|its|my|me|of|on|or|please|"
    "that|the|this|to|was|were|will|with|you|your|can|could|would|need|want|like|some|using|use"
)
_SUFFIXES = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", ""))


def record(api: Api) -> Record:
    """An API with its texts, ready to be stored."""
    embedded = embedding_text(api)
    digest = hashlib.sha256(embedded.encode("utf-8", "replace")).hexdigest()
    return Record(api=api, embedded=embedded, text_hash=digest, lexical=" ".join(words(lexical_text(api))[:_MAX_WORDS]))


def embedding_text(api: Api) -> str:
    """What the encoder reads: who, what and, in words, the path and the parameters."""
    names = " ".join(spaced(parameter.name) for parameter in api.parameters)
    return f"{spaced(api.provider)} {spaced(api.name)}. {_prose(api)} {names} {spaced(api.path)}".strip()


def lexical_text(api: Api) -> str:
    """What is searched word by word: the same, with tags, the method and what parameters are described as."""
    parts = [embedding_text(api), api.method, *map(spaced, api.tags)]
    parts += [parameter.description[:_FIELD] for parameter in api.parameters]
    return " ".join(parts)


def words(text: str) -> list[str]:
    """The words of a text for lexical search: lower case, without accents and stop words, English endings off."""
    plain = spaced(text)
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return [stem(word) for word in _WORD.findall(plain.lower()) if not _STOP_WORD.fullmatch(word)]


def spaced(name: str) -> str:
    """An identifier as words: ``getUserById`` and ``get_user/by-id`` are "get User By Id" and "get user by id"."""
    return _CAMEL.sub(" ", _SEPARATORS.sub(" ", name)).strip()


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The word without a common English ending, where enough of it remains."""
    for suffix, replacement in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            return word[: -len(suffix)] + replacement
    return word


def _prose(api: Api) -> str:
    summary, description = api.summary.strip(), api.description[:_DESCRIPTION].strip()
    return description if description.startswith(summary) else f"{summary.rstrip('.')}. {description}"
