"""``nestor train confidence``: the probabilities of a planner's folder are fitted to what became of requests."""

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs requirements/train.txt")

from evals.data import DataError
from planner_svc.backends.compact.confidence import SIGNS, Calibration
from planner_svc.judging.fingerprint import JUDGE, fingerprint
from training.planner.recalibrate import recalibrate

pytestmark = pytest.mark.training


def predictions(file: Path, count: int) -> Path:
    """Of a planner that is far too sure: what it holds for 0.9 likely is right four times in ten."""
    rng = random.Random(3)
    rows = []
    for _ in range(count):
        confidence = rng.choice((0.9, 0.6))
        right = rng.random() < (0.4 if confidence == 0.9 else 0.1)
        rows.append({"status": "planned", "sure": confidence, "full_match_any_order": right})
    rows.append({"status": "no_plan", "sure": 0.9, "full_match_any_order": True})
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_it_is_as_sure_as_it_is_right_and_keeps_the_order(tmp_path: Path) -> None:
    Calibration((1.0,) * len(SIGNS), 0.5).save(tmp_path)
    told = recalibrate(tmp_path, [predictions(tmp_path / "one.jsonl", 400), predictions(tmp_path / "two.jsonl", 200)])
    assert told.plans == 600
    assert told.before > 0.4 > 0.1 > told.after
    fitted = Calibration.load(tmp_path)
    rest = (0.0,) * (len(SIGNS) - 1)
    sure, unsure = (2.1972 - 0.5, *rest), (0.4055 - 0.5, *rest)  # 0.9 and 0.6 before
    assert fitted.probability(sure) == pytest.approx(0.4, abs=0.06)
    assert fitted.probability(unsure) == pytest.approx(0.1, abs=0.04)


def test_the_judge_of_another_confidence_is_removed(tmp_path: Path) -> None:
    Calibration((1.0,) * len(SIGNS), 0.5).save(tmp_path)
    (tmp_path / JUDGE).write_bytes(b"of the confidence before")
    recalibrate(tmp_path, [predictions(tmp_path / "lines.jsonl", 400)])
    assert not (tmp_path / JUDGE).exists()


def test_predictions_of_another_confidence_are_refused(tmp_path: Path) -> None:
    Calibration((1.0,) * len(SIGNS), 0.5).save(tmp_path)
    lines = predictions(tmp_path / "lines.jsonl", 400)
    rows = [json.loads(line) | {"model": fingerprint(tmp_path)} for line in lines.read_text().splitlines()]
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    recalibrate(tmp_path, [lines])
    with pytest.raises(DataError, match=r"lines\.jsonl was made with other weights or another confidence"):
        recalibrate(tmp_path, [lines])


def test_too_few_plans_and_other_files_are_refused(tmp_path: Path) -> None:
    Calibration((1.0,) * len(SIGNS), 0.5).save(tmp_path)
    before = Calibration.load(tmp_path)
    with pytest.raises(DataError, match="too few"):
        recalibrate(tmp_path, [predictions(tmp_path / "few.jsonl", 20)])
    (tmp_path / "other.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(DataError, match=r"other\.jsonl"):
        recalibrate(tmp_path, [tmp_path / "other.jsonl"])
    assert Calibration.load(tmp_path) == before
