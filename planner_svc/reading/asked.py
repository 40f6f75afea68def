"""What a request asks for by name: "which carrier", "how heavy", "tell me the weight of"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from planner_svc.reading.profile import Field, Profile
from planner_svc.reading.text import MAX_CHARS, STOP, split_name, stem, stem_set, stems
from services.compute import with_checkpoints

_ASKED: Final = re.compile(
    r"\b(?:(?:which|whose|how\s+(?:many|much)|what's|what\s+(?:is|are|was|were|will\s+be)"
    r"|what(?=(?:\s+[a-z][\w'-]*){1,3}\s+(?:is|are|was|were|will|would|can|could|should|do|does|did|has|have|had)\b))\s+(?:the\s+)?"
    r"(?=(?P<words>(?:[a-z][\w'-]*\s*){1,4}))"
    r"|(?:tell|give|show|get)\s+(?:me|us)\s+the\s+(?=(?P<told>(?:[a-z][\w'-]*\s+){1,4})(?:of|for)\b))",
    re.IGNORECASE,
)
"""The places where a request names what it asks for: after a question word, or between "tell me the" and "of".

After "what", a verb has to follow the name: "what flew on Friday?" names nothing.
"""
_MEASURES: Final = {
    how: stem_set(words)
    for how, words in {
        "high": "height elevation altitude",
        "tall": "height",
        "deep": "depth",
        "heavy": "weight mass",
        "big": "size area population",
        "large": "size area population",
        "fast": "speed",
        "wide": "width",
    }.items()
}
"""Field names that "how heavy" and the like ask for; not what is derived from other fields, such as "how old"."""
_HOW: Final = re.compile(r"\bhow\s+(?P<measure>[a-z]+)\b", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[a-z]+(?:-[a-z]+)*", re.IGNORECASE)
ANYTHING: Final = stem_set(
    "bit data entry everything first info information item last latest new next object old one record stuff thing"
)
"""General nouns, and adjectives that apply to anything."""
_GENERAL: Final = ANYTHING | stem_set("else")

_COUNTED: Final = re.compile(r"\bhow\s+many\b|(?:^\s*|\b(?:the|total)\s+)(?:number|count)\s+of\b", re.IGNORECASE)
"""A "phone number of" is no count."""
_TOTAL: Final = stem("total")
_OF_ITEMS: Final = stem_set("total count number items results records elements entries size")
_YES_OR_NO: Final = re.compile(r"\s*(?:is|are|was|were|has|have|does|do|did)\b", re.IGNORECASE)
_MAX_LISTED: Final = 50

Asked = tuple[str, frozenset[str]]
"""A thing that is asked for by name: the request's words, and stems of its possible names."""


def asked_for(query: str) -> Iterator[Asked]:
    """The things that a request asks for by name, in its words, each with stems of their possible names."""
    query = query[:MAX_CHARS]
    for match in _ASKED.finditer(query):
        words = list(_named((match["words"] or match["told"]).split()))
        if words:
            yield " ".join(words), frozenset(stems(" ".join(words)))
    for match in _HOW.finditer(query):
        measure = match["measure"].lower()
        if measure in _MEASURES:
            yield f"how {measure} it is", _MEASURES[measure] | {stem(measure)}


def _named(words: Sequence[str]) -> Iterator[str]:
    """The words of a name, up to the first word that cannot be part of one."""
    for word in words:
        if word.lower() in STOP or stem(word) in _GENERAL or not _PLAIN.fullmatch(word):
            return
        yield word


def counts_asked(query: str, profile: Profile) -> list[Field]:
    """The total of all items that an answer has beside its list, if the request asks how many there are."""
    if _COUNTED.search(query[:MAX_CHARS]) is None:
        return []
    return [
        field
        for field in profile.fields
        if field.kinds == {"integer"}
        and not field.listed
        and _TOTAL in field.words
        and _OF_ITEMS.issuperset(field.words)
    ]


def states_asked(query: str, profile: Profile) -> list[Field]:
    """The fields of a single thing of which a yes-or-no question names a listed value: "is b-13 resting?"."""
    if _YES_OR_NO.match(query) is None:
        return []
    said = frozenset(stems(query[:MAX_CHARS]))
    return [
        field
        for field in with_checkpoints(profile.fields)
        if not field.listed and any(said.issuperset(words) for words in _listed_words(profile, field))
    ]


def _listed_words(profile: Profile, field: Field) -> Iterator[frozenset[str]]:
    """Stems of the words of each listed value of a field."""
    for branch in profile.schemas.branches(field.node):
        for schema in branch:
            values = schema.get("enum")
            for value in values[:_MAX_LISTED] if isinstance(values, list) else ():
                if isinstance(value, str) and (words := frozenset(stems(" ".join(split_name(value))))):
                    yield words


def named_besides(query: str, profile: Profile, said: Sequence[Field]) -> list[Field]:
    """Fields of an answer that a request asks for by name, if no chosen field has that name.

    The fields with the largest share of their names in the request are returned.
    """
    found: list[Field] = []
    for _, called in asked_for(query):
        if not any(called.intersection(field.words) for field in [*said, *found]):
            shares = [len(called.intersection(field.words)) / (len(field.words) or 1) for field in profile.fields]
            best = max(shares, default=0.0)
            found += [field for field, share in zip(profile.fields, shares, strict=True) if 0 < best == share]
    return found
