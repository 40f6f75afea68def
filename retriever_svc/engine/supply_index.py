"""Finds, by names, operations of a provider whose response may hold the value of another operation's parameter.

``/customers/{customerId}/orders`` needs a customer. ``GET /customers`` lists them; ``/contacts/search`` and ``GET
/orders`` may return one. So each operation that reads has keys for what it supplies, and each parameter has keys for
what can supply it. Two equal keys make an edge. Keys are digests in an index by provider: edges are looked up on
demand, and no pairs are stored.
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
"""Most keys that an API has for what it supplies."""
Keys = NDArray[np.int32]
"""(n, ``KEYS``), padded with 0."""

_LISTS, _ABOUT, _FINDS, _READS, _HAS_ID_OF = 1.0, 0.6, 0.5, 0.45, 0.4
"""How certain a supplier is: it lists such things, is about them, finds anything, reads one, has an id of one."""
_IN_PATH, _IDENTIFYING, _OTHER = 1.0, 0.8, 0.3
"""How likely a parameter's value comes from another call: in the path; named like an id; any other."""
_MAX_NEEDS: Final = 12
_MAX_NOUNS: Final = 3
_MAX_PATH: Final = 1_000
_MAX_SEGMENTS: Final = 24
"""A limit on the work, since every parameter is compared with every segment. Longer paths tell no more."""
_VARIABLE = re.compile(r"\{|^:")
_ENDING = re.compile(r"\.(?:json|xml)$")


@lru_cache(maxsize=20_000)
def _roots(text: str) -> tuple[str, ...]:
    """The words, stemmed twice ("buildings", "building"), and without the final "e" that "batches" is stemmed to."""
    return tuple(root.rstrip("e") if len(root) > 3 else root for root in map(stem, words(text)))


_IDS: Final = frozenset(
    _roots(
        "id ids uid uuid guid pk fk idfk key code number no num sid slug ref name username login email handle"
        " identifier"
    )
)
_SEARCH: Final = frozenset(_roots("search lookup find list query filter index all get"))
_BY: Final = _SEARCH | frozenset(_roots("id ids name names email username slug external"))
"""Words of a segment that says by what things are looked up, such as ``email`` in ``/customers/email/{email}``."""


@dataclass(frozen=True, slots=True)
class InputNeed:
    """A parameter whose value another call may supply.

    Attributes:
        name: its words, as :func:`fields.input_lines` writes them; empty if they only say that it is an id.
        weight: how likely its value comes from another call's response.
        keys: the keys of possible suppliers, with how certain each is.
        read_key: the key of operations that read one such thing, by this parameter or otherwise; 0: there are none.
    """

    name: str
    weight: float
    keys: dict[int, float]
    read_key: int


def keys_of(entry: Entry) -> list[int]:
    """One row of :data:`Keys`. It is empty for a call that changes something: plans make none for its output."""
    segments = _segments(entry.path)
    if entry.method not in {"GET", "HEAD"} and not any(map(_is_search, segments)):
        return [0] * KEYS
    collection, of_one = _collection(segments)
    keys = [_key("reads" if of_one else "lists", "/".join(collection))] if _has_name(collection) else []
    keys += [_ANYTHING] if segments and not collection else []
    keys += [_key("of", noun) for noun in dict.fromkeys([*_subject(collection), *_nouns(entry.name)[-1:]])]
    keys += [_key("told", noun) for noun in dict.fromkeys(_ids_in_outputs(entry.outputs))]
    return [*dict.fromkeys(keys), *[0] * KEYS][:KEYS]


def input_needs(entry: Entry) -> list[InputNeed]:
    """The parameters whose values may come from other calls, the most likely first."""
    segments = _segments(entry.path)
    required = [line.partition("\t")[0] for line in required_lines(entry.inputs)]
    names = (*required, *optional_names(entry.inputs))
    found = [need for name in names if (need := _input_need(name, segments)) is not None]
    return sorted(found, key=lambda need: -need.weight)[:_MAX_NEEDS]


class SupplyIndex:
    """An index from provider and key to positions, stored as sorted numbers.

    Args:
        keys: (n, ``KEYS``) the keys of what each API supplies.
        owners: (n,) index of each API's provider.
    """

    def __init__(self, keys: Keys, owners: NDArray[np.int32]) -> None:
        rows, columns = np.nonzero(keys)
        numbers = _of_owner(owners[rows].astype(np.int64), keys[rows, columns])
        order = np.argsort(numbers, kind="stable")
        self._numbers, self._positions = numbers[order], rows[order].astype(np.int32)

    def positions(self, owner: int, keys: Sequence[int], most: int) -> list[list[int]]:
        """For each key, the positions of the provider's APIs that have it: in order, at most ``most``."""
        wanted = _of_owner(np.int64(owner), np.array(keys, np.int32))
        first, end = np.searchsorted(self._numbers, wanted), np.searchsorted(self._numbers, wanted, "right")
        places = zip(first.tolist(), np.minimum(end, first + most).tolist(), strict=True)
        return [self._positions[start:stop].tolist() for start, stop in places]


def _of_owner(owner: NDArray[np.int64] | np.int64, keys: Keys) -> NDArray[np.int64]:
    return np.asarray(owner << 31) | keys


def _input_need(name: str, segments: Sequence[str]) -> InputNeed | None:
    roots = _roots(name)
    nouns = _without_ids(roots)
    place = next((n for n, part in enumerate(segments) if _VARIABLE.search(part) and _roots(part) == roots), None)
    collection = [] if place is None else _collection(segments[:place])[0]
    subject, read_key, keys = _heads(nouns), 0, dict[int, float]()
    if _has_name(collection):
        path = "/".join(collection)
        subject += _heads(_nouns(collection[-1]))
        read_key = _key("reads", path)
        keys = {_key("lists", path): _LISTS, read_key: _READS}
    elif place is None and not nouns:
        subject = _subject(segments)
    identifying = place is not None or len(nouns) < len(roots)
    for noun in list(dict.fromkeys(subject))[:_MAX_NOUNS]:
        keys[_key("of", noun)] = _ABOUT
        if identifying:
            keys |= {_key("told", noun): _HAS_ID_OF, _ANYTHING: _FINDS}
    weight = _IN_PATH if place is not None else _IDENTIFYING if identifying else _OTHER
    return InputNeed(name if nouns else "", weight, keys, read_key) if keys else None


def _subject(segments: Sequence[str]) -> list[str]:
    """The subject of a path: the last segment with a noun."""
    named = [nouns for part in segments if not _VARIABLE.search(part) and (nouns := _nouns(part))]
    return _heads(named[-1]) if named else []


def _segments(path: str) -> list[str]:
    parts = path[:_MAX_PATH].partition("?")[0].strip("/").split("/")[:_MAX_SEGMENTS]
    bare = [_ENDING.sub("", part) for part in parts if part]
    return [part if _VARIABLE.search(part) else part.lower() for part in bare]


def _collection(segments: Sequence[str]) -> tuple[list[str], bool]:
    """The path of the collection that a path ends in, its variables as ``{}``, and whether it ends in a single item.

    ``/users/search`` and ``/users/search/{text}`` have the same collection as ``/users``.
    """
    rest = list(segments)
    of_one = bool(rest) and bool(_VARIABLE.search(rest[-1]))
    if of_one:
        rest.pop()
        of_one = not (rest and _is_search(rest[-1], _BY))
    while rest and _is_search(rest[-1], _BY):
        rest.pop()
    return ["{}" if _VARIABLE.search(part) else part for part in rest], of_one


def _has_name(collection: Sequence[str]) -> bool:
    return bool(collection) and collection[-1] != "{}"


def _is_search(segment: str, of: frozenset[str] = _SEARCH) -> bool:
    found = () if _VARIABLE.search(segment) else _roots(segment)
    return bool(found) and of.issuperset(found)


def _nouns(text: str) -> list[str]:
    return [root for root in _roots(text) if root not in _SEARCH]


def _heads(nouns: Sequence[str]) -> list[str]:
    """All nouns as one text, and the last one alone."""
    return list(dict.fromkeys([" ".join(nouns), nouns[-1]])) if nouns else []


def _without_ids(roots: Sequence[str]) -> list[str]:
    """The words without those for an id at the end: ``customer`` for ``customer id``, nothing for ``id``."""
    rest = list(roots)
    while rest and rest[-1] in _IDS:
        rest.pop()
    return rest


def _ids_in_outputs(outputs: str) -> Iterator[str]:
    """The nouns of which a response contains ids."""
    for line in outputs.splitlines():
        roots = _roots(line.partition("\t")[0])
        nouns = _without_ids(roots)
        if len(nouns) < len(roots):
            yield from _heads(nouns)


def _key(kind: str, text: str) -> int:
    return digest(f"{kind} {text}")


_ANYTHING: Final = _key("finds", "anything")
"""The key of operations without a subject, such as ``/search``."""
