"""Fits the second stage of the planner (``planner_svc.backends.compact.judging``), on requests new to the network.

What the network says of requests that it has learnt from is too good to learn from: it knows nearly all their values.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.filling import Task
from planner_svc.backends.compact.inputs import Floats
from planner_svc.backends.compact.judging import Judge, Judges
from planner_svc.backends.compact.links import LINK_SIGNS
from planner_svc.backends.compact.spans import SPAN_SIGNS, Wish
from planner_svc.training.examples import Example, LabelledCall, Ref, Span, Unsaid, items
from services.boosting import Growth, boosted

FOLDS: Final = 4
_GROWTH: Final = Growth(trees=100, leaves=12, depth=None, rate=0.08, least=20)
_FEWEST: Final = 200
"""Rows, from which anything is learnt."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What one request offers its parameters.

    Attributes:
        source: the data set.
        fold: of the request.
        rows: (m, signs) of spans or links.
        right: (m,) whether each is a parameter's value.
    """

    source: str
    fold: int
    rows: Floats
    right: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Judges of all requests, and for each fold those that have not seen it."""

    whole: Judges
    without: tuple[Judges, ...]

    def unseen(self, example: Example) -> Judges:
        """Those that have not seen an example."""
        return self.without[fold_of(example)]


def fold_of(example: Example) -> int:
    """The fold of a request: the same in every run."""
    return zlib.crc32(example.id.encode()) % FOLDS


def fit_judges(tasks: Mapping[str, Sequence[tuple[Example, Task]]], progress: Progress) -> Fitted:
    """Fit both stages: links weigh how surely the request says a value, so spans come first.

    Args:
        tasks: held-out examples by data set, each read by the network.
        progress: told of each request.
    """
    seen = [(name, *one) for name, read in tasks.items() for one in read]
    spans = [_spans(*one) for one in progress.track(seen, description="weighing spans")]
    folds = [Judges(_fit(spans, SPAN_SIGNS, fold)) for fold in range(FOLDS)]
    links = [_links(*one, folds[fold_of(one[1])]) for one in progress.track(seen, description="weighing links")]
    without = tuple(Judges(one.spans, _fit(links, LINK_SIGNS, fold)) for fold, one in enumerate(folds))
    return Fitted(Judges(_fit(spans, SPAN_SIGNS), _fit(links, LINK_SIGNS)), without)


def _fit(seen: Sequence[Evidence], signs: tuple[str, ...], left_out: int | None = None) -> Judge | None:
    """Trees fitted to all folds or all but one; None where there is too little.

    A data set counts as the square root of its size: many rows of one kind are not to drown the others.
    """
    used = [one for one in seen if one.fold != left_out and len(one.right)]
    if sum(len(one.right) for one in used) < _FEWEST:
        return None
    rows, right = np.concatenate([one.rows for one in used]), np.concatenate([one.right for one in used])
    if right.all() or not right.any():
        return None
    sizes = Counter[str]()
    for one in used:
        sizes[one.source] += len(one.right)
    each = len(rows) / len(sizes)
    weights = np.concatenate([np.full(len(one.right), (each / sizes[one.source]) ** 0.5) for one in used])
    return Judge(signs, boosted(rows, right, _GROWTH, weights))


def _spans(source: str, example: Example, task: Task) -> Evidence:
    spans = Decoder(task).filler.spans
    offsets = task.reading.offsets
    rows, right = [np.zeros((0, len(SPAN_SIGNS)), np.float32)], list[bool]()
    for wish, calls in _wanted(example, task):
        said = {(part.start, part.end) for call in calls for part in _parts(call, wish) if isinstance(part, Span)}
        found = spans.candidates(wish, several=len(calls) > 1 or wish.slot.kinds == {"array"})
        rows.append(spans.evidence(wish, found))
        right += [(offsets[first][0], offsets[last][1]) in said for first, last in found]
    return Evidence(source, fold_of(example), np.concatenate(rows), np.asarray(right, bool))


def _links(source: str, example: Example, task: Task, judges: Judges) -> Evidence:
    filler = Decoder(task, judges).filler
    ids = [api.profile.api.id for api in task.apis]
    chosen = [number for number, one in enumerate(ids) if any(call.api == one for call in example.calls)]
    rows, right = [np.zeros((0, len(LINK_SIGNS)), np.float32)], list[bool]()
    for wish, calls in _wanted(example, task):
        refs = [part for call in calls for part in _parts(call, wish) if isinstance(part, Ref)]
        fed = {(example.calls[ref.call].api, _names(ref.path)) for ref in refs}
        offers = filler.offers(wish, chosen)
        rows.append(filler.link_evidence(wish, len(calls), offers))
        right += [(ids[one.api], _names(one.output.path)) in fed for one in offers]
    return Evidence(source, fold_of(example), np.concatenate(rows), np.asarray(right, bool))


def _names(path: Sequence[str | int]) -> tuple[str, ...]:
    return tuple(part for part in path if isinstance(part, str))


def _wanted(example: Example, task: Task) -> Iterator[tuple[Wish, list[LabelledCall]]]:
    """The parameters of the APIs that are called, with the calls; none whose values nobody says."""
    filler = Decoder(task).filler
    for number, api in enumerate(task.apis):
        calls = [call for call in example.calls if call.api == api.profile.api.id]
        for wish in filler.wishes(number) if calls else ():
            if not any(isinstance(part, Unsaid) for call in calls for part in _parts(call, wish)):
                yield wish, calls


def _parts(call: LabelledCall, wish: Wish) -> Sequence[object]:
    label = call.arguments.get(wish.slot.name)
    return items(label) if label is not None else ()
