"""The Demo Selector of TPTU-v2 (section 3.4): which solved requests to show a planner.

The paper, as built here:

1. *Task level.* The request is embedded and compared by cosine with the requests in the knowledge base. Only demos
   whose similarity *exceeds* the threshold count (0.8 by default; exactly 0.8 is not enough). Where more than k do, the
   k most similar are taken, most similar first; of equally similar ones, the one added first.
2. *API level.* Where only n < k are found, the k - n missing are API-level demos, taken in the order of the API
   descriptions that come with the request. The paper does not say what happens when an API has several demos, or when
   every API has been served and places are left. Here each API gives one demo in turn, its most similar first, and
   the round is repeated until k are found or none is left. The threshold does not apply to them: they show how an API
   is called, whatever the request.

3. *Like wording*, ours, for callers that ask for it (``alike``): the same question with other names and numbers is far
   below any threshold. Of the nearest demos of both levels, those that share most words with the request come behind.

Two more rules are ours. A tenant is shown its own demos and everyone's. And a demo that uses an API which was not
offered is left out before anything is counted, because planners pick up APIs they have seen only in an example. Where
no APIs are offered nothing is left out, and steps 2 and 3 find nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from demo_svc.models import Match, Snapshot
from services.encoder import Vectors

MIN_SHARE: Final = 0.3
"""Of the words of the longer of two requests, how many both must have to be worded alike."""
_SCANNED: Final = 5_000
"""Demos, most similar first, that are looked at in search of those that use offered APIs only."""


def select(
    snapshot: Snapshot, query: Vectors, apis: Sequence[str], k: int, threshold: float, tenant: str | None = None
) -> list[Match]:
    """Choose at most k demos: task-level ones by similarity, then API-level ones in the order of the APIs.

    Args:
        snapshot: the knowledge base.
        query: (d,) L2-normalised vector of the request, from the encoder that made the snapshot's vectors.
        apis: ids of the APIs offered, best first; empty: not known, so no demo is left out and none is filled in.
        k: how many demos are wanted, at least 0.
        threshold: cosine that a task-level demo must exceed.
        tenant: whose demos count besides everyone's.
    """
    if k <= 0 or not snapshot.entries:
        return []
    similarities = np.clip(snapshot.vectors @ query, -1.0, 1.0).astype(np.float64)
    offered = dict.fromkeys(apis)
    seen = snapshot.seen(tenant)
    chosen = _task_level(snapshot, np.where(seen, similarities, -np.inf), offered, k, threshold)
    for row in _api_level(snapshot, similarities, list(offered), seen):
        if len(chosen) == k:
            break
        chosen.append(Match(snapshot.entries[row], float(similarities[row]), "api"))
    return chosen


def nearest(
    snapshot: Snapshot, query: Vectors, apis: Sequence[str], limit: int, tenant: str | None = None
) -> list[Match]:
    """The demos of either level that use offered APIs only, most similar first, however similar: at most ``limit``."""
    if not snapshot.entries or not apis:
        return []
    similarities = np.clip(snapshot.vectors @ query, -1.0, 1.0).astype(np.float64)
    offered = dict.fromkeys(apis)
    found: list[Match] = []
    order = np.argsort(-similarities, kind="stable")
    for row in order[snapshot.seen(tenant)[order]][:_SCANNED]:
        entry = snapshot.entries[row]
        if len(found) == limit:
            break
        if entry.apis <= offered.keys():
            found.append(Match(entry, float(similarities[row]), entry.level))
    return found


def worded_alike(query: str, near: Sequence[Match], texts: Mapping[str, str], limit: int) -> list[Match]:
    """Those whose requests share most of their words with the query: at most ``limit``, most first.

    Args:
        query: the request.
        near: demos, most similar first.
        texts: their requests, by the demos' ids; what is not there is left out.
        limit: how many are wanted.
    """
    own = _words(query)
    shares: list[tuple[float, Match]] = []
    for match in near:
        words = _words(texts.get(match.entry.id, ""))
        share = len(own & words) / max(len(own), len(words), 1)
        if share >= MIN_SHARE:
            shares.append((share, match))
    return [match for _, match in sorted(shares, key=lambda one: -one[0])][:limit]


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _task_level(
    snapshot: Snapshot, similarities: NDArray[np.float64], offered: dict[str, None], k: int, threshold: float
) -> list[Match]:
    near = snapshot.tasks[similarities[snapshot.tasks] > threshold]
    chosen: list[Match] = []
    for row in near[np.argsort(-similarities[near], kind="stable")]:
        entry = snapshot.entries[row]
        if not offered or entry.apis <= offered.keys():
            chosen.append(Match(entry, float(similarities[row]), "task"))
            if len(chosen) == k:
                break
    return chosen


def _api_level(
    snapshot: Snapshot, similarities: NDArray[np.float64], offered: Sequence[str], seen: NDArray[np.bool_]
) -> Iterator[int]:
    """Rows of the API-level demos that are seen: one of each API in turn, each API's most similar first."""
    rows = ([row for row in snapshot.by_api.get(api, ()) if seen[row]] for api in offered)
    queues = [sorted(own, key=lambda row: -similarities[row]) for own in rows]
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))
