"""Which candidate is meant where only the code in a request tells it: "show b-12" gets a bird, and no site.

The network reads ``/birds/{id}`` and ``/sites/{id}`` alike. Where the documents' examples tell whose id a code is,
the operation that takes such ids stands where the network put its sibling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner_svc.backends.compact.inputs import Floats
from planner_svc.backends.compact.task import UNLIKELY
from planner_svc.reading.code_kinds import CodeKinds, codes_said, thing_of
from planner_svc.reading.profile import Profile
from services.contracts.api import Location


def swapped_by_code(
    query: str, profiles: Sequence[Profile], kinds: CodeKinds, called: Floats, fed: Sequence[bool]
) -> list[int]:
    """For each candidate, the number of the one whose evidence it gets; its own if nothing is swapped.

    A candidate whose only argument in the path takes none of the request's codes is swapped with a less likely one
    that differs from it only in the collection, and takes one.

    Args:
        query: the request.
        profiles: the candidates.
        kinds: how the ids of things begin.
        called: how likely each candidate is called.
        fed: whether its argument in the path rather comes from another call: such a call takes no code.
    """
    order = list(range(len(profiles)))
    for number, other in _siblings(query, profiles, kinds, called, fed):
        if called[other] < called[number] and order[number] == number and order[other] == other:
            order[number], order[other] = other, number
    return order


def without_siblings(
    query: str, profiles: Sequence[Profile], kinds: CodeKinds, called: Floats, fed: Sequence[bool]
) -> Floats:
    """The probabilities, lowered for candidates that take none of the codes beside a likelier sibling that does."""
    lowered = called.copy()
    for number, other in _siblings(query, profiles, kinds, called, fed):
        if called[other] >= called[number]:
            lowered[number] *= UNLIKELY
    return lowered


def _siblings(
    query: str, profiles: Sequence[Profile], kinds: CodeKinds, called: Floats, fed: Sequence[bool]
) -> Iterator[tuple[int, int]]:
    """The candidates that take no code of the request, likeliest first, each with its only sibling that takes one."""
    codes = [code for code, _ in codes_said(query)]
    if not codes or not kinds:
        return
    takes = [_takes(profile, kinds, codes) for profile in profiles]
    for number in np.argsort(-called, kind="stable").tolist():
        if takes[number] is False and not fed[number]:
            alike = [other for other, fits in enumerate(takes) if fits and _alike(profiles, number, other)]
            if len(alike) == 1:
                yield number, alike[0]


def _takes(profile: Profile, kinds: CodeKinds, codes: Sequence[str]) -> bool | None:
    """Whether the only argument in the path takes one of the codes, or all are of other kinds; None: neither."""
    in_path = [slot for slot in profile.slots if slot.parameter.location is Location.PATH]
    if len(in_path) != 1 or "string" not in in_path[0].kinds:
        return None
    thing = thing_of(profile, in_path[0])
    if any(kinds.takes(thing, code) for code in codes):
        return True
    return False if all(kinds.is_of_another(thing, code) for code in codes) else None


def _alike(profiles: Sequence[Profile], number: int, other: int) -> bool:
    """Whether two operations differ only in the collection that the id is of."""
    one, two = profiles[number].api, profiles[other].api
    return one.method == two.method and _form(one.path) == _form(two.path)


def _form(path: str) -> list[str]:
    """The parts of a path without the name of the collection before its parameter."""
    parts = ["{}" if part.startswith("{") else part for part in path.split("/")]
    return ["*" if parts[at + 1 : at + 2] == ["{}"] else part for at, part in enumerate(parts)]
