"""Fitting the second stage: what it learns from held-out requests, and that folds do not see each other."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress

pytest.importorskip("sklearn", reason="needs requirements/train.txt")

from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.second_stage import Judges
from planner_svc.backends.compact.spans import SPAN_SIGNS
from planner_svc.backends.compact.task import Task
from tests.unit.planner_svc.building import api
from tests.unit.planner_svc.test_compact_second_stage import CLAIM, POLICY, judge, task, values
from training.planner import judges
from training.planner.calibration import with_few
from training.planner.examples import Example, LabelledCall, Span
from training.planner.judges import FOLDS, Evidence, fit_judges, fold_of
from training.shared.boosting import TreeOptions

pytestmark = pytest.mark.training

TYPES = ("health", "life", "auto")
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def read(number: int) -> tuple[Example, Task]:
    """The network points at a word too many; the description's examples say what is right."""
    said, holder = TYPES[number % 3], f"Ada{number}"
    query = f"Create a new {said} insurance for {holder}."
    arguments = {
        name: Span(query.index(text), query.index(text) + len(text), text)
        for name, text in (("policy_type", said), ("holder", holder))
    }
    calls = (LabelledCall(POLICY.id, dict(arguments)),)
    example = Example(f"row-{number}", "policies", query, (POLICY,), calls, None, NOW)
    return example, task(query, (POLICY,), {"policy_type": f"new {said}", "holder": holder})


def test_trees_learn_what_the_network_does_not_see() -> None:
    rows = [read(number) for number in range(80)]
    fitted = fit_judges({"policies": rows}, (), {}, Progress(disable=True))
    shares = fitted.shares["policies"]
    assert shares["words, network"] == pytest.approx(50)  # the holder is right, the type never
    assert shares["words, judged"] > 95
    example, unseen = read(100)
    assert values(unseen, Judges())["policy_type"] != "auto"
    assert values(unseen, fitted.unseen(example))["policy_type"] == TYPES[100 % 3]


def test_a_request_is_judged_by_trees_that_have_not_seen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [read(number) for number in range(60)]
    learnt: list[tuple[int | None, set[int]]] = []
    real = judges._fit

    def watched(seen: list[Evidence], signs: tuple[str, ...], left_out: int | None = None, *more: TreeOptions) -> Any:
        found = real(seen, signs, left_out, *more)
        learnt.append((left_out, {one.fold for one in seen if one.fold != left_out}))
        return found

    monkeypatch.setattr(judges, "_fit", watched)
    fitted = fit_judges({"policies": made}, (), {}, Progress(disable=True))
    assert {fold for fold, _ in learnt} == {None, *range(FOLDS)}
    assert all(fold not in seen for fold, seen in learnt)
    assert [fitted.unseen(one) is fitted.without[fold_of(one)] for one, _ in made] == [True] * len(made)


def test_what_is_called_is_learnt_and_only_links_of_what_the_network_knows() -> None:
    rows = []
    for number in range(160):
        example, read_task = read(number)
        both = task(read_task.query, (POLICY, CLAIM), {"policy_type": TYPES[number % 3]})
        both.reading.inputs.features[both.reading.inputs.first[1], 0] = -1  # the retriever knows better
        rows.append((replace(example, candidates=(POLICY, CLAIM)), both))
    fitted = fit_judges({"policies": rows}, (), {}, Progress(disable=True))
    shares = fitted.shares["policies"]
    assert [shares[f"calls, {stage}"] for stage in ("network", "judged", "together")] == [0, 100, 100]
    assert Decoder(rows[0][1], fitted.unseen(rows[0][0])).chosen() == [0]
    known = fit_judges({"policies": []}, (), {"policies": rows}, Progress(disable=True))
    assert (known.whole.calls, known.whole.spans) == (None, None)


def test_a_request_is_asked_of_a_small_catalogue_too() -> None:
    others = tuple(api(f"other_{number}") for number in range(20))
    example = replace(
        read(1)[0], candidates=(*others[:9], POLICY, *others[9:]), scores=tuple((n,) * 5 for n in range(21))
    )
    small = [with_few(replace(example, id=str(number))) for number in range(50)]
    assert {len(one.candidates) for one in small} == set(range(1, 7))
    assert all(POLICY in one.candidates for one in small)
    assert all(one.scores and one.scores[one.candidates.index(POLICY)] == (9,) * 5 for one in small)
    nothing_fits = [with_few(replace(example, id=str(number), calls=())) for number in range(50)]
    assert {len(one.candidates) for one in nothing_fits} == set(range(1, 7))


def test_too_little_to_learn_from_leaves_the_network_alone() -> None:
    fitted = fit_judges({"policies": [read(1)]}, (), {}, Progress(disable=True))
    assert fitted.whole == Judges()
    assert fitted.unseen(read(1)[0]) == Judges()


def test_only_parameters_that_can_be_right_are_counted() -> None:
    rows = np.zeros((5, len(SPAN_SIGNS)), np.float32)
    rows[1, SPAN_SIGNS.index("example")] = 1
    right = np.array([False, True, False, False, True])
    seen = Evidence("policies", 0, rows, right, (2, 2, 1))
    assert seen.best(None) == (2, 1, 1)
    assert seen.best(judge(SPAN_SIGNS, "example")) == (2, 1, 2)
