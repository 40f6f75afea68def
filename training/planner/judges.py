"""Fits the second stage of the planner (``planner_svc.backends.compact.second_stage``), on requests new to the network.

The network overfits its training requests. Its outputs on them are too good to fit the second stage to.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from planner_svc.backends.compact.calls import CALL_SIGNS, call_evidence
from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.inputs import Floats
from planner_svc.backends.compact.links import LINK_SIGNS
from planner_svc.backends.compact.second_stage import Judge, Judges
from planner_svc.backends.compact.sets import SET_SIGNS
from planner_svc.backends.compact.spans import SPAN_SIGNS, ParameterTarget
from planner_svc.backends.compact.task import Task
from services.contracts.base import JsonPath
from training.planner.examples import Example, LabelledCall, Ref, Span, Unstated, items
from training.shared.boosting import TreeOptions, fit_trees

FOLDS: Final = 4
_TREE_OPTIONS: Final = TreeOptions(trees=100, leaves=12, depth=None, rate=0.08, least=20)
_CALL_TREE_OPTIONS: Final = TreeOptions(trees=200, leaves=12, depth=None, rate=0.05, least=40)
"""More rows per leaf: which candidates are called differs between data sets."""
_FEWEST: Final = 200
"""The minimum number of rows for fitting."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The rows of one request for a judge.

    Attributes:
        source: the data set.
        fold: of the request.
        rows: (m, signs) of spans or links, parameter by parameter, the network's first choice first; or of candidates.
        right: (m,) whether each is its parameter's value, or is called.
        sizes: how many rows each parameter has.
    """

    source: str
    fold: int
    rows: Floats
    right: NDArray[np.bool_]
    sizes: tuple[int, ...]

    def best(self, judge: Judge | None) -> tuple[int, int, int]:
        """The numbers of parameters with a right row, of right first choices of the network, and of the judge."""
        starts = np.cumsum([0, *self.sizes])[:-1].tolist()
        likely = judge(self.rows) if judge is not None and len(self.rows) else np.zeros(len(self.rows))
        spans = [slice(start, start + size) for start, size in zip(starts, self.sizes, strict=True)]
        asked = [span for span in spans if self.right[span].any()]
        return (
            len(asked),
            sum(bool(self.right[span.start]) for span in asked),
            sum(bool(self.right[span][int(likely[span].argmax())]) for span in asked),
        )


@dataclass(frozen=True, slots=True)
class FittedJudges:
    """Judges fitted to all requests, and for each fold those fitted without it.

    ``shares``, by data set: among parameters whose right words or output were considered, the percentage for which the
    network's first choice is right, and the same for judges that had not seen the request. Also the percentage of
    requests for which exactly the right candidates are called.
    """

    whole: Judges
    without: tuple[Judges, ...]
    shares: Mapping[str, Mapping[str, float]]

    def unseen(self, example: Example) -> Judges:
        """The judges that have not seen this example."""
        return self.without[fold_of(example)]


def fold_of(example: Example) -> int:
    """The fold of a request, the same in every run."""
    return zlib.crc32(example.id.encode()) % FOLDS


def fit_judges(
    tasks: Mapping[str, Sequence[tuple[Example, Task]]],
    unstated: Collection[str],
    known: Mapping[str, Sequence[tuple[Example, Task]]],
    progress: Progress,
    others: Mapping[str, Sequence[tuple[Example, Task]]] = MappingProxyType({}),
) -> FittedJudges:
    """Fit all stages: spans compete only for called APIs, and links consider how surely the request states a value.

    Args:
        tasks: held-out examples by data set, each read by the network.
        unstated: data sets whose requests do not state their values: no spans are learnt from them.
        known: examples that the network was trained on: only links are learnt from them.
        progress: shows a bar per stage.
        others: the held-out examples with other candidates: few, as in a small catalogue, or without those that they
            need. Calls and sets are learnt from these as well.
    """
    new = [(name, *one) for name, read in tasks.items() for one in read]
    changed = [(name, *one) for name, read in others.items() for one in read]
    calls = [_calls(*one) for one in new]
    called = [*calls, *(_calls(*one) for one in changed)]
    folds = [Judges(_fit(called, CALL_SIGNS, fold, _CALL_TREE_OPTIONS)) for fold in range(FOLDS)]
    weighed = progress.track([*new, *changed], description="weighing sets")
    every_set = [_sets(*one, folds[fold_of(one[1])]) for one in weighed]
    sets = every_set[: len(new)]
    folds = [replace(one, sets=_fit(every_set, SET_SIGNS, fold)) for fold, one in enumerate(folds)]
    stated = [one for one in new if one[0] not in unstated]
    spans = [_spans(*one, folds[fold_of(one[1])]) for one in progress.track(stated, description="weighing spans")]
    folds = [replace(one, spans=_fit(spans, SPAN_SIGNS, fold)) for fold, one in enumerate(folds)]
    seen = [*new, *((name, *one) for name, read in known.items() for one in read)]
    links = [_links(*one, folds[fold_of(one[1])]) for one in progress.track(seen, description="weighing links")]
    without = tuple(replace(one, links=_fit(links, LINK_SIGNS, fold)) for fold, one in enumerate(folds))
    whole = Judges(
        _fit(called, CALL_SIGNS, None, _CALL_TREE_OPTIONS),
        _fit(spans, SPAN_SIGNS),
        _fit(links, LINK_SIGNS),
        _fit(every_set, SET_SIGNS),
    )
    of_calls = _exact(calls, sets, without)
    of_spans = _shares("words", spans, [one.spans for one in without])
    of_links = _shares("links", links, [one.links for one in without])
    shares = {name: of_calls[name] | of_spans.get(name, {}) | of_links.get(name, {}) for name in tasks if tasks[name]}
    return FittedJudges(whole, without, shares)


def _exact(
    calls: Sequence[Evidence], sets: Sequence[Evidence], unseen: Sequence[Judges]
) -> dict[str, dict[str, float]]:
    """The percentage of a data set's requests for which exactly the right candidates are called.

    Computed for three rules: candidates with probability above one half by the network, or by the judge, and the most
    likely set.
    """
    found: dict[str, list[tuple[bool, bool, bool]]] = {}
    for one, several in zip(calls, sets, strict=True):
        judge, judge_of_sets = unseen[one.fold].calls, unseen[one.fold].sets
        network = one.rows[:, 0] >= 0
        judged = network if judge is None else judge(one.rows) >= 0.5
        right = (bool((network == one.right).all()), bool((judged == one.right).all()))
        together = right[1]
        if judge_of_sets is not None:
            together = bool(several.right[int(judge_of_sets(several.rows).argmax())])
        found.setdefault(one.source, []).append((*right, together))
    stages = ("network", "judged", "together")
    return {
        name: {
            f"calls, {stage}": 100 * float(share) for stage, share in zip(stages, np.mean(right, axis=0), strict=True)
        }
        for name, right in found.items()
    }


def _shares(what: str, seen: Sequence[Evidence], unseen: Sequence[Judge | None]) -> dict[str, dict[str, float]]:
    counts: dict[str, list[tuple[int, int, int]]] = {}
    for one in seen:
        counts.setdefault(one.source, []).append(one.best(unseen[one.fold]))
    totals = {name: tuple(map(sum, zip(*found, strict=True))) for name, found in counts.items()}
    return {
        name: {f"{what}, network": 100 * network / asked, f"{what}, judged": 100 * judged / asked}
        for name, (asked, network, judged) in totals.items()
        if asked
    }


def _fit(
    seen: Sequence[Evidence], signs: tuple[str, ...], left_out: int | None = None, options: TreeOptions = _TREE_OPTIONS
) -> Judge | None:
    """Trees fitted to all folds or all but one; None if there are too few rows.

    The weight of a data set is the square root of its size, so that large ones do not dominate.
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
    return Judge(signs, fit_trees(rows, right, options, weights))


def _calls(source: str, example: Example, task: Task) -> Evidence:
    profiles = [one.profile for one in task.apis]
    rows = call_evidence(task.query, profiles, task.reading.inputs, task.reading.logits)
    called = {call.api for call in example.calls}
    right = np.asarray([api.profile.api.id in called for api in task.apis], bool)
    return Evidence(source, fold_of(example), rows, right, (len(rows),))


def _sets(source: str, example: Example, task: Task, judges: Judges) -> Evidence:
    order, rows = Decoder(task, judges).sets()
    ids = [api.profile.api.id for api in task.apis]
    called = {call.api for call in example.calls}
    right = [{ids[number] for number in order[:size]} == called for size in range(len(rows))]
    return Evidence(source, fold_of(example), rows, np.asarray(right, bool), (len(rows),))


def _spans(source: str, example: Example, task: Task, judges: Judges) -> Evidence:
    spans = Decoder(task, judges).filler.spans
    offsets = task.reading.offsets
    rows, right, sizes = [np.zeros((0, len(SPAN_SIGNS)), np.float32)], list[bool](), list[int]()
    for target, calls in _wanted(example, task):
        said = {(part.start, part.end) for call in calls for part in _parts(call, target) if isinstance(part, Span)}
        found = spans.candidates(target, len(calls))
        rows.append(spans.evidence(target, found))
        sizes.append(len(found))
        right += [(offsets[first][0], offsets[last][1]) in said for first, last in found]
    return Evidence(source, fold_of(example), np.concatenate(rows), np.asarray(right, bool), tuple(sizes))


def _links(source: str, example: Example, task: Task, judges: Judges) -> Evidence:
    filler = Decoder(task, judges).filler
    ids = [api.profile.api.id for api in task.apis]
    chosen = [number for number, one in enumerate(ids) if any(call.api == one for call in example.calls)]
    rows, right, sizes = [np.zeros((0, len(LINK_SIGNS)), np.float32)], list[bool](), list[int]()
    for target, calls in _wanted(example, task):
        refs = [part for call in calls for part in _parts(call, target) if isinstance(part, Ref)]
        fed = {(example.calls[ref.call].api, names_of(ref.path)) for ref in refs}
        candidates = filler.link_candidates(target, chosen)
        rows.append(filler.link_evidence(target, len(calls), candidates))
        sizes.append(len(candidates))
        right += [(ids[one.api], names_of(one.output.path)) in fed for one in candidates]
    return Evidence(source, fold_of(example), np.concatenate(rows), np.asarray(right, bool), tuple(sizes))


def names_of(path: JsonPath) -> tuple[str, ...]:
    """A path without list indices: the index of an item does not distinguish fields."""
    return tuple(part for part in path if isinstance(part, str))


def _wanted(example: Example, task: Task) -> Iterator[tuple[ParameterTarget, list[LabelledCall]]]:
    """The parameters of the called APIs with their calls, except those with a value that is not stated."""
    filler = Decoder(task).filler
    for number, api in enumerate(task.apis):
        calls = [call for call in example.calls if call.api == api.profile.api.id]
        for target in filler.targets(number) if calls else ():
            if not any(isinstance(part, Unstated) for call in calls for part in _parts(call, target)):
                yield target, calls


def _parts(call: LabelledCall, target: ParameterTarget) -> Sequence[object]:
    label = call.arguments.get(target.slot.name)
    return items(label) if label is not None else ()
