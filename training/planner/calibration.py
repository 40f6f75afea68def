"""Fits the stages after the network, on requests that it was not trained on: the second stage and its confidence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from rich.progress import Progress
from sklearn.linear_model import LogisticRegression

from planner_svc.backends.compact.backend import MAX_CANDIDATES
from planner_svc.backends.compact.confidence import SIGNS, Calibration, signs_of
from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.draft_calls import DraftCall, ReferenceArgument
from planner_svc.backends.compact.inputs import FEATURES
from planner_svc.backends.compact.reader import Reader
from planner_svc.backends.compact.second_stage import Judges
from planner_svc.backends.compact.task import Task
from services.contracts.base import JsonPath
from training.planner.api_encodings import ApiEncodings
from training.planner.examples import Example, Label, ListLabel, Ref, Unstated, items, labels
from training.planner.judges import FittedJudges, fit_judges, names_of
from training.planner.withheld import withhold

_FEW: Final = 6
_NOW = datetime(2024, 1, 1, 12, tzinfo=UTC)

Arguments = frozenset[tuple[str, str]]


def fit_stages(
    directory: Path,
    held_out: Mapping[str, Sequence[Example]],
    aside: Mapping[str, Sequence[Example]],
    encodings: ApiEncodings,
    withheld: float,
    progress: Progress,
) -> Mapping[str, Mapping[str, float]]:
    """Fit the second stage and the calibration to the network in a folder, and write both there.

    If most requests of a data set do not state all values of their solutions, only links are learnt from it.

    Args:
        directory: of the model.
        held_out: examples by data set, with the retriever's candidates.
        aside: data sets whose held-out examples the second stage is not trained on, with examples that the network was
            trained on. The network judges links on these well enough to serve as training data for links.
        encodings: encodings of their APIs.
        withheld: share of the requests that calls and sets are also learnt from without the APIs they need.
        progress: shows a bar per data set.

    Returns:
        How often the second stage is right, by data set; see :class:`~training.planner.judges.FittedJudges`.
    """
    reader = Reader(directory)

    def read(examples: Mapping[str, Sequence[Example]]) -> dict[str, list[tuple[Example, Task]]]:
        return {
            name: [(one, task_of(reader, encodings, one)) for one in progress.track(of, description=f"reading {name}")]
            for name, of in examples.items()
        }

    tasks = read(held_out)
    unstated = {name for name, examples in held_out.items() if not _states_values(examples)}
    fresh = {name: of for name, of in tasks.items() if name not in aside}
    others = {
        name: [*map(with_few, of), *_withheld(of, withheld)] for name, of in held_out.items() if name not in aside
    }
    fitted = fit_judges(fresh, unstated, read(aside), progress, read(others))
    fitted.whole.save(directory)
    stated = {name: read for name, read in tasks.items() if name not in unstated}
    _calibration(stated, fitted, progress).save(directory)
    return fitted.shares


def with_few(example: Example) -> Example:
    """The request with a small catalogue: the needed candidates and only a few others."""
    rng = random.Random(example.id)  # noqa: S311 - a repeatable choice, not a secret
    needed = {call.api for call in example.calls}
    others = [place for place, api in enumerate(example.candidates) if api.id not in needed]
    kept = set(rng.sample(others, min(len(others), rng.randrange(_FEW) + (not needed))))
    places = [place for place, api in enumerate(example.candidates) if api.id in needed or place in kept]
    return replace(
        example,
        candidates=tuple(example.candidates[place] for place in places),
        scores=tuple(example.scores[place] for place in places) if example.scores else None,
    )


def _withheld(examples: Sequence[Example], share: float) -> Iterator[Example]:
    for one in examples:
        rng = random.Random(one.id)  # noqa: S311 - a repeatable choice, not a secret
        if rng.random() < share and (found := withhold(one, rng)) is not None:
            yield found


def _calibration(
    tasks: Mapping[str, Sequence[tuple[Example, Task]]], fitted: FittedJudges, progress: Progress
) -> Calibration:
    """Fit to drafts by judges that had not seen the request. All data sets have the same weight."""
    rows: list[tuple[float, ...]] = []
    right: list[bool] = []
    weights: list[float] = []
    for name, read in tasks.items():
        for example, task in progress.track(read, description=f"calibrating on {name}"):
            decoder, calls = decoded(task, fitted.unseen(example))
            rows.append(signs_of(decoder, calls))
            right.append(is_right(example, calls))
            weights.append(1 / len(read))
    if len(set(right)) < 2:  # not enough data
        return Calibration((0.0,) * len(SIGNS), 0.0)
    model = LogisticRegression(C=10.0, max_iter=5_000)
    model.fit(np.array(rows), right, sample_weight=np.array(weights) * len(rows) / len(tasks))
    return Calibration(tuple(map(float, model.coef_[0])), float(model.intercept_[0]))


def _states_values(examples: Sequence[Example]) -> bool:
    unsaid = sum(any(isinstance(item, Unstated) for *_, item in labels(example)) for example in examples)
    return unsaid < len(examples) / 2


def task_of(reader: Reader, encodings: ApiEncodings, example: Example) -> Task:
    """Read an example with the network."""
    apis = [encodings.of(api) for api in example.candidates[:MAX_CANDIDATES]]
    told = example.scores or ((0.0,) * FEATURES,) * len(apis)
    reading = reader.read(example.query, apis, told[: len(apis)])
    return Task(example.query, apis, reading, example.now or _NOW, {})


def decoded(task: Task, judges: Judges) -> tuple[Decoder, list[DraftCall]]:
    """The planner's draft for an example."""
    decoder = Decoder(task, judges)
    return decoder, decoder.calls(decoder.chosen())


def is_right(example: Example, calls: Sequence[DraftCall]) -> bool:
    """Whether exactly the recorded calls are made, with exactly the recorded arguments."""
    wanted = Counter(
        (call.api, frozenset((name, _wanted(example, label)) for name, label in call.arguments.items()))
        for call in example.calls
    )
    made = Counter((example.candidates[call.api].id, _made(example, call)) for call in calls)
    return wanted == made


def _wanted(example: Example, label: Label) -> str:
    parts = items(label)
    if any(isinstance(part, Ref) for part in parts):
        first = next(part for part in parts if isinstance(part, Ref))
        return _reference(example.calls[first.call].api, first.path)
    values = [part.value for part in parts if not isinstance(part, Ref)]
    return str(values if isinstance(label, ListLabel) else values[0])


def _made(example: Example, call: DraftCall) -> Arguments:
    return frozenset(
        (
            name,
            _reference(example.candidates[one.api].id, one.field.path)
            if isinstance(one, ReferenceArgument)
            else str(one.value),
        )
        for name, one in call.arguments.items()
    )


def _reference(api: str, path: JsonPath) -> str:
    return f"{api} {names_of(path)}"
