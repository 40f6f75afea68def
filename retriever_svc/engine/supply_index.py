"""An index of what each provider's operations supply, to find those that a parameter's value may come from.

``/customers/{customerId}/orders`` needs a customer. ``GET /customers`` lists them; ``/contacts/search`` and ``GET
/orders`` may return one. So each operation that reads has keys for what it supplies, and each parameter has keys for
what can supply it. Two equal keys make an edge, which :mod:`services.supply` weighs. Keys are digests in an index by
provider: edges are looked up on demand, and no pairs are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.fields import optional_names, required_lines
from retriever_svc.engine.traits import digest
from retriever_svc.models import Entry
from services.supply import Input, Operation, heads, is_search, without_ids

KEYS: Final = 28
"""Most keys that an API has for what it supplies."""
Keys = NDArray[np.int32]
"""(n, ``KEYS``), padded with 0."""

_MAX_NEEDS: Final = 12
_SAFE: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Reading:
    """An API's names: as an operation that supplies, and its parameters whose values may come from other calls."""

    operation: Operation
    inputs: tuple[Input, ...]


def reading_of(entry: Entry) -> Reading:
    """What an entry's names tell. Inputs that identify something come first."""
    operation = _operation_of(entry)
    required = [line.partition("\t") for line in required_lines(entry.inputs)]
    found = [Input.of(operation, name, about) for name, _, about in required]
    found += [Input.of(operation, name, required=False) for name in optional_names(entry.inputs)]
    known = [one for one in found if one.subject or one.collection]
    return Reading(operation, tuple(sorted(known, key=lambda one: (not one.in_path, not one.identifying))[:_MAX_NEEDS]))


def _operation_of(entry: Entry) -> Operation:
    required, outputs = (
        tuple(dict.fromkeys(line.partition("\t")[0] for line in lines))
        for lines in (required_lines(entry.inputs), entry.outputs.splitlines())
    )
    found = Operation(entry.provider, entry.name, entry.path, required=required, outputs=outputs)
    return found if entry.method in _SAFE or any(map(is_search, found.segments)) else replace(found, reads=False)


def keys_of(entry: Entry) -> list[int]:
    """One row of :data:`Keys`. It is empty for a call that changes something: plans make none for its output."""
    found = _operation_of(entry)
    if not found.reads:
        return [0] * KEYS
    keys = [_key("reads" if found.of_one else "lists", found.collection)] if found.collection else []
    keys += [_ANYTHING] if found.finds_anything else []
    keys += [_key("of", noun) for noun in found.nouns]
    for words in found.fields:
        nouns = without_ids(words)
        keys += [_key("told", noun) for noun in heads(nouns)] if len(nouns) < len(words) else []
    return [*dict.fromkeys(keys), *[0] * KEYS][:KEYS]


def supplier_keys(need: Input) -> list[int]:
    """The keys of operations that may supply a parameter, the most telling first."""
    kinds = ("lists", "reads") if need.collection else ()
    keys = [_key(kind, need.collection) for kind in kinds] + [_key("of", noun) for noun in need.subject]
    return keys + ([*(_key("told", noun) for noun in need.subject), _ANYTHING] if need.identifying else [])


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

    def positions(
        self, owner: int, keys: Sequence[int], most: int, seen: NDArray[np.bool_] | None = None
    ) -> list[list[int]]:
        """For each key, the positions of the provider's APIs that have it: in order, at most ``most``.

        ``seen`` (n,): only positions that it holds for; None: all.
        """
        wanted = _of_owner(np.int64(owner), np.array(keys, np.int32))
        first, end = np.searchsorted(self._numbers, wanted), np.searchsorted(self._numbers, wanted, "right")
        found = (self._positions[start:stop] for start, stop in zip(first.tolist(), end.tolist(), strict=True))
        return [(some if seen is None else some[seen[some]])[:most].tolist() for some in found]


def _of_owner(owner: NDArray[np.int64] | np.int64, keys: Keys) -> NDArray[np.int64]:
    return np.asarray(owner << 31) | keys


def _key(kind: str, text: str) -> int:
    return digest(f"{kind} {text}")


_ANYTHING: Final = _key("finds", "anything")
"""The key of operations without a subject, such as ``/search``."""
