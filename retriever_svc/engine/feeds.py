"""Which operations of a provider may answer with what another one's parameter wants, told by names.

``/customers/{customerId}/orders`` wants a customer. ``GET /customers`` lists them, ``/contacts/search`` and ``GET
/orders`` may tell one. So each operation that reads has keys of what it supplies, each parameter keys of what supplies
it, and where two are the same there is an edge. Keys are digests that an index holds by provider: a graph's edges are
found when they are asked for, and nothing is kept for each pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.fields import optional_names, required_lines
from retriever_svc.engine.traits import digest
from retriever_svc.engine.words import stem, words
from retriever_svc.models import Entry

KEYS: Final = 28
"""Keys of what an API supplies, at most."""
Keys = NDArray[np.int32]
"""(n, ``KEYS``), 0 where there are fewer."""

_LISTS, _OF, _FINDS, _READS, _TOLD = 1.0, 0.6, 0.5, 0.45, 0.4
"""How surely it is the right one: lists the things meant, is about such, finds anything, reads one, tells of one."""
_IN_PATH, _IDENTIFYING, _OTHER = 1.0, 0.8, 0.3
"""How likely a parameter's value comes from another call: part of the path; named like an id; any other."""
_MAX_WANTS: Final = 12
_MAX_NOUNS: Final = 3
_MAX_PATH: Final = 1_000
_MAX_SEGMENTS: Final = 24
"""Longer ones say no more, and every parameter is compared with every segment."""
_VARIABLE = re.compile(r"\{|^:")
_ENDING = re.compile(r"\.(?:json|xml)$")


@lru_cache(maxsize=20_000)
def _roots(text: str) -> tuple[str, ...]:
    """Words without a second ending ("buildings", "building"), nor the "e" that "batches" has more than "batch"."""
    return tuple(root.rstrip("e") if len(root) > 3 else root for root in map(stem, words(text)))


_IDS: Final = frozenset(
    _roots(
        "id ids uid uuid guid pk fk idfk key code number no num sid slug ref name username login email handle"
        " identifier"
    )
)
_SEARCH: Final = frozenset(_roots("search lookup find list query filter index all get"))
_BY: Final = _SEARCH | frozenset(_roots("id ids name names email username slug external"))
"""Words of a segment that says how things are looked up, not what they are: ``/customers/email/{email}``."""


@dataclass(frozen=True, slots=True)
class Want:
    """A parameter.

    Attributes:
        name: its words, as :func:`fields.input_lines` writes them; empty where all they say is that it is an id.
        weight: how likely its value comes from another call's answer.
        keys: of what supplies it, and how surely each does.
        reads: the key of what reads one of the things meant, by this parameter or another way; 0: there is none.
    """

    name: str
    weight: float
    keys: dict[int, float]
    reads: int


def keys_of(entry: Entry) -> list[int]:
    """One row of :data:`Keys`; none for a call that changes something, since none is made for its answer."""
    segments = _segments(entry.path)
    if entry.method not in {"GET", "HEAD"} and not any(map(_is_search, segments)):
        return [0] * KEYS
    collection, of_one = _collection(segments)
    keys = [_key("reads" if of_one else "lists", "/".join(collection))] if _is_place(collection) else []
    keys += [_ANYTHING] if segments and not collection else []
    keys += [_key("of", noun) for noun in dict.fromkeys([*_about(collection), *_nouns(entry.name)[-1:]])]
    keys += [_key("told", noun) for noun in dict.fromkeys(_told(entry.outputs))]
    return [*dict.fromkeys(keys), *[0] * KEYS][:KEYS]


def wants_of(entry: Entry) -> list[Want]:
    """The parameters whose values may come from other calls, those in the path first."""
    segments = _segments(entry.path)
    required = [line.partition("\t")[0] for line in required_lines(entry.inputs)]
    names = (*required, *optional_names(entry.inputs))
    found = [want for name in names if (want := _want(name, segments)) is not None]
    return sorted(found, key=lambda want: -want.weight)[:_MAX_WANTS]


class Feeds:
    """Positions by provider and key, as sorted numbers.

    Args:
        keys: (n, ``KEYS``) what each API supplies.
        owners: (n,) index of each one's provider.
    """

    def __init__(self, keys: Keys, owners: NDArray[np.int32]) -> None:
        rows, columns = np.nonzero(keys)
        numbers = _of_owner(owners[rows].astype(np.int64), keys[rows, columns])
        order = np.argsort(numbers, kind="stable")
        self._numbers, self._positions = numbers[order], rows[order].astype(np.int32)

    def positions(self, owner: int, keys: Sequence[int], most: int) -> list[list[int]]:
        """For each key, where the provider's APIs stand that have it, in order, at most so many."""
        wanted = _of_owner(np.int64(owner), np.array(keys, np.int32))
        first, end = np.searchsorted(self._numbers, wanted), np.searchsorted(self._numbers, wanted, "right")
        places = zip(first.tolist(), np.minimum(end, first + most).tolist(), strict=True)
        return [self._positions[start:stop].tolist() for start, stop in places]


def _of_owner(owner: NDArray[np.int64] | np.int64, keys: Keys) -> NDArray[np.int64]:
    return np.asarray(owner << 31) | keys


def _want(name: str, segments: Sequence[str]) -> Want | None:
    roots = _roots(name)
    nouns = _without_ids(roots)
    place = next((n for n, part in enumerate(segments) if _VARIABLE.search(part) and _roots(part) == roots), None)
    collection = [] if place is None else _collection(segments[:place])[0]
    about, reads, keys = _heads(nouns), 0, dict[int, float]()
    if _is_place(collection):
        path = "/".join(collection)
        about += _heads(_nouns(collection[-1]))
        reads = _key("reads", path)
        keys = {_key("lists", path): _LISTS, reads: _READS}
    elif place is None and not nouns:
        about = _about(segments)
    identifying = place is not None or len(nouns) < len(roots)
    for noun in list(dict.fromkeys(about))[:_MAX_NOUNS]:
        keys[_key("of", noun)] = _OF
        if identifying:
            keys |= {_key("told", noun): _TOLD, _ANYTHING: _FINDS}
    weight = _IN_PATH if place is not None else _IDENTIFYING if identifying else _OTHER
    return Want(name if nouns else "", weight, keys, reads) if keys else None


def _about(segments: Sequence[str]) -> list[str]:
    """What a path is about: the last of its segments that names something."""
    named = [nouns for part in segments if not _VARIABLE.search(part) and (nouns := _nouns(part))]
    return _heads(named[-1]) if named else []


def _segments(path: str) -> list[str]:
    parts = path[:_MAX_PATH].partition("?")[0].strip("/").split("/")[:_MAX_SEGMENTS]
    bare = [_ENDING.sub("", part) for part in parts if part]
    return [part if _VARIABLE.search(part) else part.lower() for part in bare]


def _collection(segments: Sequence[str]) -> tuple[list[str], bool]:
    """The path of the things that one ends in, its variables made alike, and whether it ends in one of them.

    ``/users/search`` and ``/users/search/{text}`` are about the users, as ``/users`` is.
    """
    rest = list(segments)
    of_one = bool(rest) and bool(_VARIABLE.search(rest[-1]))
    if of_one:
        rest.pop()
        of_one = not (rest and _is_search(rest[-1], _BY))
    while rest and _is_search(rest[-1], _BY):
        rest.pop()
    return ["{}" if _VARIABLE.search(part) else part for part in rest], of_one


def _is_place(collection: Sequence[str]) -> bool:
    return bool(collection) and collection[-1] != "{}"


def _is_search(segment: str, of: frozenset[str] = _SEARCH) -> bool:
    found = () if _VARIABLE.search(segment) else _roots(segment)
    return bool(found) and of.issuperset(found)


def _nouns(text: str) -> list[str]:
    return [root for root in _roots(text) if root not in _SEARCH]


def _heads(nouns: Sequence[str]) -> list[str]:
    """What the words name together, and the last of them alone."""
    return list(dict.fromkeys([" ".join(nouns), nouns[-1]])) if nouns else []


def _without_ids(roots: Sequence[str]) -> list[str]:
    """What an id is of: of ``customer id`` ``customer``, of ``id`` nothing."""
    rest = list(roots)
    while rest and rest[-1] in _IDS:
        rest.pop()
    return rest


def _told(outputs: str) -> Iterator[str]:
    """What there are ids of in an answer."""
    for line in outputs.splitlines():
        roots = _roots(line.partition("\t")[0])
        nouns = _without_ids(roots)
        if len(nouns) < len(roots):
            yield from _heads(nouns)


def _key(kind: str, text: str) -> int:
    return digest(f"{kind} {text}")


_ANYTHING: Final = _key("finds", "anything")
"""Of ``/search``: it is about nothing in particular."""
