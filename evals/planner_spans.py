"""Fits the trees that say which words a value is, on requests that the network did not learn from.

See ``planner_svc.backends.compact.spans``. What the network says of requests that it has learnt from is too good to
learn from: it knows nearly all their values.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.filling import Task
from planner_svc.backends.compact.inputs import FEATURES, Floats
from planner_svc.backends.compact.reader import Reader
from planner_svc.backends.compact.spans import SpanModel, Wish
from planner_svc.training.examples import Example, Item, Span, Unsaid, items
from planner_svc.training.shelf import Shelf
from services.boosting import Growth, boosted

FOLDS: Final = 4
MAX_CANDIDATES: Final = 12
_NOW: Final = datetime(2024, 1, 1, 12, tzinfo=UTC)
_GROWTH: Final = Growth(trees=100, leaves=12, depth=None, rate=0.08, least=20)
_FEWEST: Final = 200
"""Spans, from which anything is learnt."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The spans that one request offers its parameters.

    Attributes:
        source: the data set.
        fold: of the request.
        rows: (m, COLUMNS) evidence.
        right: (m,) whether each is a value.
    """

    source: str
    fold: int
    rows: Floats
    right: NDArray[np.bool_]


def fold_of(example: Example) -> int:
    """The fold of a request: the same in every run."""
    return zlib.crc32(example.id.encode()) % FOLDS


def task_of(reader: Reader, shelf: Shelf, example: Example) -> Task:
    """An example, read."""
    apis = [shelf.of(api) for api in example.candidates[:MAX_CANDIDATES]]
    told = example.scores or ((0.0,) * FEATURES,) * len(apis)
    reading = reader.read(example.query, apis, told[: len(apis)])
    return Task(example.query, apis, reading, example.now or _NOW, {})


def gather(reader: Reader, held_out: Mapping[str, Sequence[Example]], shelf: Shelf, progress: Progress) -> list[Seen]:
    """Look at the spans of examples, by data set."""
    return [
        seen
        for name, examples in held_out.items()
        for example in progress.track(examples, description=f"spans of {name}")
        if (seen := _seen(name, example, task_of(reader, shelf, example))) is not None
    ]


def fit(seen: Sequence[Seen], left_out: int | None = None) -> SpanModel | None:
    """Trees fitted to all folds, or all but one; None where there is too little. Each data set counts as much."""
    used = [one for one in seen if one.fold != left_out]
    if sum(len(one.right) for one in used) < _FEWEST:
        return None
    rows, right = np.concatenate([one.rows for one in used]), np.concatenate([one.right for one in used])
    if right.all() or not right.any():
        return None
    sizes: dict[str, int] = {}
    for one in used:
        sizes[one.source] = sizes.get(one.source, 0) + len(one.right)
    each = len(rows) / len(sizes)
    weights = np.concatenate([np.full(len(one.right), (each / sizes[one.source]) ** 0.5) for one in used])
    return SpanModel(boosted(rows, right, _GROWTH, weights))


def _seen(source: str, example: Example, task: Task) -> Seen | None:
    spans = Decoder(task).spans
    rows: list[Floats] = []
    right: list[bool] = []
    for wish, wanted, times in _wanted(example, task):
        found = spans.candidates(wish, several=times > 1 or wish.slot.kinds == {"array"})
        rows.append(spans.evidence(wish, found))
        offsets = task.reading.offsets
        right += [(offsets[first][0], offsets[last][1]) in wanted for first, last in found]
    if not right:
        return None
    return Seen(source, fold_of(example), np.concatenate(rows), np.asarray(right))


def _wanted(example: Example, task: Task) -> Iterator[tuple[Wish, set[tuple[int, int]], int]]:
    """The parameters of the APIs that are called, with the characters that say their values, and the number of calls.

    Left out are those whose values nobody says.
    """
    for number, api in enumerate(task.apis):
        calls = [call for call in example.calls if call.api == api.profile.api.id]
        for wish in task.wishes(number) if calls else ():
            labels = [call.arguments[wish.slot.name] for call in calls if wish.slot.name in call.arguments]
            parts: list[Item] = [part for label in labels for part in items(label)]
            if not any(isinstance(part, Unsaid) for part in parts):
                yield wish, {(part.start, part.end) for part in parts if isinstance(part, Span)}, len(calls)
