"""What an identifier names, as the examples of documents tell: a bird for "b-12", if birds' ids look like ``b-7``.

Systems often begin the ids of one kind of thing with the same letters. Where the documents show such ids of several
kinds, a code of one kind is none of another, whatever the words around it suggest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from planner_svc.reading.examples import examples_in
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.text import MAX_CHARS, stem, stems
from services.compute import with_checkpoints
from services.contracts.api import Location

_ID: Final = stem("id")
_SIGNS: Final = "-_:"
_CODE: Final = re.compile(r"(?<![\w.@/+-])(?P<head>[A-Za-z]{1,8}[-_:]?)(?=\d)[\w-]{1,60}(?![\w@/]|\.\w)")
"""Letters, perhaps a sign, and then at least one digit."""
_NAME: Final = re.compile(r"[A-Z][a-z'\u2019]+(?:\s+[A-Z][a-z'\u2019-]+)*")
Thing = tuple[str, ...]
"""What a value identifies, as stems: ``("bird", "id")``."""


def head_of(text: str) -> str:
    """The letters that a code begins with, with the sign after them; empty for anything else."""
    match = _CODE.fullmatch(text.strip())
    return match["head"].lower() if match is not None else ""


def codes_said(query: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The codes in a request, each with its characters."""
    for match in _CODE.finditer(query[:MAX_CHARS]):
        yield match[0], match.span()


class CodeKinds:
    """How the ids of each kind of thing begin, as the examples of some APIs show them."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._profiles = tuple(profiles)

    @cached_property
    def _heads(self) -> dict[Thing, set[str]]:
        """How the ids of each thing begin; most requests say no code and do not need it."""
        found: dict[Thing, set[str]] = {}
        for profile in with_checkpoints(self._profiles):
            for thing, examples in _examples(profile):
                heads = {head_of(one) for one in examples}
                if heads and "" not in heads and thing != (_ID,):  # free texts have no kind, and an "id" is of anything
                    found.setdefault(thing, set()).update(heads)
        return found

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset[str]().union(*self._heads.values())

    @cached_property
    def _signs(self) -> frozenset[str]:
        """What is between the letters and the digits of ids."""
        return frozenset(head.removeprefix(head.rstrip(_SIGNS)) for head in self._known)

    def __bool__(self) -> bool:
        """Whether the examples tell at least two kinds apart."""
        return len(self._known) > 1

    def takes(self, thing: Thing, code: str) -> bool:
        """Whether a code begins as the ids of a thing do.

        Without any examples of them, it begins as the thing's name, and has the sign of other ids: "A4" is no account.
        """
        head, known = head_of(code), self._heads.get(thing)
        if known is not None:
            return head in known
        letters = head.rstrip(_SIGNS)
        named = bool(letters) and len(thing) > 1 and thing[-1] == _ID and thing[-2].startswith(letters)
        return named and head not in self._known and head.removeprefix(letters) in self._signs

    def is_of_another(self, thing: Thing, text: str) -> bool:
        """Whether a text is a code that begins as the ids of other things do, and not as the ids of this one."""
        head = head_of(text)
        return bool(head) and thing in self._heads and head in self._known - self._heads[thing]

    def is_no_id(self, thing: Thing, text: str) -> bool:
        """Whether a text is a plain name, and the ids of a thing are codes with digits."""
        return thing[-1:] == (_ID,) and thing in self._heads and _NAME.fullmatch(text.strip()) is not None


def _examples(profile: Profile) -> Iterator[tuple[Thing, Iterable[str]]]:
    """What an API's arguments and the fields of its answer identify, with examples of each."""
    for slot in profile.slots:
        yield thing_of(profile, slot), (*slot.examples, *examples_in(slot.parameter.description))
    for field in profile.fields:
        yield _thing_of_field(field), map(str, field.examples)


def thing_of(profile: Profile, slot: Slot) -> Thing:
    """What an argument identifies: a bird for ``birdId``, and for the ``id`` in ``/birds/{id}``."""
    if slot.words == (_ID,) and slot.parameter.location is Location.PATH:
        in_path = [one for one in profile.slots if one.parameter.location is Location.PATH]
        noun = stems(profile.noun)
        return (*noun[-1:], _ID) if len(in_path) == 1 else slot.words
    return slot.words


def _thing_of_field(field: Field) -> Thing:
    return (*stems(field.holder)[-1:], _ID) if field.words == (_ID,) else field.words
