"""Which output of another call is a parameter's value: rescores the outputs that the network finds likely."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner_svc.backends.compact.inputs import Floats, Origin
from planner_svc.reading.profile import Field, Slot
from planner_svc.reading.text import stem, stems
from services.contracts.api import Api, Location
from services.supply import shared_path, shared_words

LINK_SIGNS: Final = (
    "strength", "behind", "rank", "share",
    "from_call", "said", "left_out", "said_here",
    "namesake", "shared_words", "names_it", "fits", "same_kinds",
    "called", "chosen", "listed", "nested", "first", "paging",
    "required", "takes_text", "takes_number", "takes_list", "an_id",
    "same_provider", "same_path", "unsaid",
)  # fmt: skip
"""What the trees weigh of a parameter and an output."""
ID: Final = stem("id")
MAX_LINKS: Final = 6
"""Outputs rescored for a parameter, the likeliest by the network."""


@dataclass(frozen=True, slots=True)
class LinkCandidate:
    """An output that a parameter may get its value from.

    Attributes:
        api: number of the API whose answer has it.
        output: the field.
        strength: the network's log-odds.
        called: how likely that API is called.
        chosen: whether it is called in any case.
        fits: whether its type certainly fits the parameter's; otherwise it possibly does.
        near: whether both operations have the same provider, and the share of their paths that is equal.
        unsaid: the largest probability that an argument the API requires has no source.
    """

    api: int
    output: Field
    strength: float
    called: float
    chosen: bool
    fits: bool
    near: tuple[bool, float] = (False, 0.0)
    unsaid: float = 0.0


def nearness(one: Api, other: Api) -> tuple[bool, float]:
    """Whether two operations have the same provider, and then the share of the shorter path that both begin with."""
    if one.provider != other.provider:
        return False, 0.0
    mine, theirs = ([part for part in api.path.split("/") if part] for api in (one, other))
    return True, shared_path(mine, theirs)


def writes_back(consumer: Api, slot: Slot, source: Api, output: Field) -> bool:
    """Whether a change would set a member of a thing to what it is already.

    That is so for a part of a thing that is set (``PUT /parcels/{id}/depot``) or altered (``PATCH``) and for the
    namesake in the thing itself (``GET /parcels/{id}``). A whole that is replaced (``PUT /parcels/{id}``) repeats what
    stays.
    """
    whole, part = source.path.rstrip("/"), consumer.path.rstrip("/")
    if source.provider != consumer.provider or source.method != "GET" or not whole.endswith("}"):
        return False
    sets = consumer.method == "PUT" and part.startswith(f"{whole}/")
    alters = consumer.method == "PATCH" and f"{part}/".startswith(f"{whole}/")
    return (sets or alters) and slot.parameter.location is Location.BODY and output.path == (slot.name,)


def is_id_of_another(slot: Slot, output: Field, things: Collection[frozenset[str]]) -> bool:
    """Whether an id is one of another thing than the argument is named after: a member's ``id`` for ``visitor_id``.

    Args:
        slot: the argument.
        output: the field.
        things: what has an id in the answers of the candidates, as stems. Without the argument's own thing among them,
            the names may mean the same: ``host_id`` is a member's.
    """
    thing = frozenset(slot.words[:-1])
    if not thing or slot.words[-1] != ID or output.words != (ID,):
        return False
    return thing in things and frozenset(stems(output.holder)).isdisjoint(thing)


def link_evidence(slot: Slot, origins: Floats, said_here: float, candidates: Sequence[LinkCandidate]) -> Floats:
    """(candidates, LINK_SIGNS): the evidence for and against each candidate.

    Args:
        slot: the parameter.
        origins: (Origin,) the network's probabilities of the value's source.
        said_here: how likely the request says the value.
        candidates: strongest first.
    """
    strengths = np.asarray([one.strength for one in candidates], np.float32)
    raised = np.exp(strengths - strengths.max(initial=0.0))
    shares = raised / max(float(raised.sum()), 1e-9)
    about = frozenset(slot.words)
    kinds = (
        slot.required,
        "string" in slot.kinds,
        bool(slot.kinds & {"integer", "number"}),
        "array" in slot.kinds,
        "id" in about,
    )
    rows = [
        (
            one.strength,
            float(strengths[0] - one.strength),
            rank,
            float(shares[rank]),
            float(origins[Origin.REFERENCE]),
            float(origins[Origin.SPAN]),
            float(origins[Origin.ABSENT]),
            said_here,
            tuple(one.output.words) == tuple(slot.words),
            shared_words(slot.words, one.output.words),
            one.output.holder in about,
            one.fits,
            bool(one.output.kinds & slot.kinds),
            one.called,
            one.chosen,
            one.output.listed,
            len(one.output.path),
            one.output.first,
            one.output.paging,
            *kinds,
            *one.near,
            one.unsaid,
        )
        for rank, one in enumerate(candidates)
    ]
    return np.asarray(rows, np.float32).reshape(-1, len(LINK_SIGNS))
