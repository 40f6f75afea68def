"""The Demo Selector of TPTU-v2 (section 3.4): which solved requests to show a planner.

The paper, as built here:

1. *Task level.* The request is embedded and compared by cosine with the requests in the knowledge base. Only demos
   whose similarity *exceeds* the threshold count (0.8 by default; exactly 0.8 is not enough). If there are more than k,
   the k most similar are taken, most similar first; of equally similar ones, the one added first.
2. *API level.* If only n < k are found, the k - n missing ones are API-level demos, taken in the order of the API
   descriptions that come with the request. The paper does not say what happens if an API has several demos, or if
   places are left after one demo of each API. Here each API gives one demo in turn, its most similar first, and the
   round is repeated until k are found or none is left. The threshold does not apply to them: they show how an API is
   called, for any request.

3. *Similar wording*, our addition, for callers that ask for it (``alike``). The same question with other names and
   numbers can be far below the threshold. So the nearest demos of both levels are compared with the request word by
   word, and those that share most words with it are appended.

Two more rules are our additions. A tenant is shown its own demos and everyone's. And a demo that uses an API which was
not offered is left out first, because planners tend to use APIs that they have seen only in an example. If no APIs are
offered, no demo is left out, and steps 2 and 3 find nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from demo_svc.models import Match, Snapshot
from services.encoder import Vectors

MIN_SHARE: Final = 0.3
"""Two requests have similar wording if they share at least this part of the words of the longer one."""
_SCANNED: Final = 5_000
"""Most demos, most similar first, that are checked for whether they use only offered APIs."""


def select(
    snapshot: Snapshot, query: Vectors, apis: Sequence[str], k: int, threshold: float, tenant: str | None = None
) -> list[Match]:
    """Choose at most k demos: task-level ones by similarity, then API-level ones in the order of the APIs.

    Args:
        snapshot: the knowledge base.
        query: (d,) L2-normalised vector of the request, from the encoder that made the snapshot's vectors.
        apis: ids of the offered APIs, best first; empty: not known, so no demo is left out and no API-level one added.
        k: number of demos wanted, at least 0.
        threshold: cosine that a task-level demo must exceed.
        tenant: the tenant whose demos are considered besides everyone's.
    """
    if k <= 0 or not snapshot.entries:
        return []
    similarities = np.clip(snapshot.vectors @ query, -1.0, 1.0).astype(np.float64)
    offered = dict.fromkeys(apis)
    visible = snapshot.visible_rows(tenant)
    chosen = _task_level(snapshot, np.where(visible, similarities, -np.inf), offered, k, threshold)
    for row in _api_level(snapshot, similarities, list(offered), visible):
        if len(chosen) == k:
            break
        chosen.append(Match(snapshot.entries[row], float(similarities[row]), "api"))
    return chosen


def nearest(
    snapshot: Snapshot, query: Vectors, apis: Sequence[str], limit: int, tenant: str | None = None
) -> list[Match]:
    """At most ``limit`` demos of either level that use only offered APIs, most similar first, without a threshold."""
    if not snapshot.entries or not apis:
        return []
    similarities = np.clip(snapshot.vectors @ query, -1.0, 1.0).astype(np.float64)
    offered = dict.fromkeys(apis)
    found: list[Match] = []
    order = np.argsort(-similarities, kind="stable")
    for row in order[snapshot.visible_rows(tenant)[order]][:_SCANNED]:
        entry = snapshot.entries[row]
        if len(found) == limit:
            break
        if entry.apis <= offered.keys():
            found.append(Match(entry, float(similarities[row]), entry.level))
    return found


def similarly_worded(query: str, near: Sequence[Match], texts: Mapping[str, str], limit: int) -> list[Match]:
    """At most ``limit`` demos whose requests share many words with the query, those that share most first.

    Args:
        query: the request.
        near: demos, most similar first.
        texts: their requests, by the demos' ids; demos without a text are left out.
        limit: number of demos wanted.
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
    snapshot: Snapshot, similarities: NDArray[np.float64], offered: Sequence[str], visible: NDArray[np.bool_]
) -> Iterator[int]:
    """Rows of the API-level demos that the tenant sees: one of each API in turn, each API's most similar first."""
    rows = ([row for row in snapshot.by_api.get(api, ()) if visible[row]] for api in offered)
    queues = [sorted(own, key=lambda row: -similarities[row]) for own in rows]
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))
