"""``nestor train judge``: what both planners said of requests teaches whose word is right."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("sklearn", reason="needs requirements/train.txt")

from deploy.cli import app
from evals.data import DataError
from planner_svc.cascade import PAIR
from planner_svc.judging.judge import SIGNS, WordJudge, file_of
from training.planner.words import fit_judge

pytestmark = pytest.mark.training


def predictions(file: Path, count: int, vendors: int = 8, **changed: object) -> Path:
    """Rules is right where the plans are the same; compact as well, and mostly where it is sure."""
    rng = random.Random(3)
    rows = []
    for number in range(count):
        same, sure = rng.random() < 0.4, rng.choice((-2.0, 2.0))
        signs = dict.fromkeys(SIGNS, 0.0) | {"same plan": float(same), "compact sure of a plan": sure}
        signs["rules calls that change something"] = float(number % 2)
        right = {"rules": same, "compact": same or (sure > 0 and rng.random() < 0.8)}
        words = {name: {"outcome": "planned", "sure": 0.9, "right": right[name]} for name in PAIR}
        rows.append({"status": "planned", "vendor": f"v{number % vendors}", "signs": signs, "words": words} | changed)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_the_judge_learns_whose_word_is_right(tmp_path: Path) -> None:
    file = predictions(tmp_path / "lines.jsonl", 400)
    found = fit_judge(tmp_path, [file])
    assert (found.requests, found.vendors) == (400, 8)
    assert max(found.alone.values()) <= found.right <= found.best
    assert found.error < 0.15
    first, last = found.kept[0], found.kept[-1]
    assert first.plans == 400
    assert last.right / last.plans > first.right / first.plans + 0.2
    judge = WordJudge.load(tmp_path)
    rows = [json.loads(line)["signs"] for line in file.read_text().splitlines()]
    sure = {name: judge.trees[name] for name in PAIR}
    matrix = np.array([[row[sign] for sign in SIGNS] for row in rows], np.float32)
    same = matrix[:, SIGNS.index("same plan")] > 0
    assert sure["rules"](matrix)[same].min() > 0.8 > 0.2 > sure["rules"](matrix)[~same].max()


def test_the_command_tells_what_thresholds_would_do(tmp_path: Path) -> None:
    file = predictions(tmp_path / "lines.jsonl", 200)
    result = CliRunner().invoke(app, ["train", "judge", str(tmp_path), "--predictions", str(file)])
    assert result.exit_code == 0, result.output
    assert "200 requests to 8 vendors" in result.output
    assert (tmp_path / file_of("rules")).exists()


@pytest.mark.parametrize(
    ("count", "vendors", "changed", "said"),
    [
        (20, 8, {}, "too few"),
        (200, 1, {}, "several vendors"),
        (100, 8, {"signs": {"another": 1}}, "other signs"),
        (100, 8, {"words": 7}, r"lines\.jsonl holds no predictions"),
    ],
)
def test_what_teaches_nothing_is_refused(
    tmp_path: Path, count: int, vendors: int, changed: dict[str, object], said: str
) -> None:
    file = predictions(tmp_path / "lines.jsonl", count, vendors, **changed)
    with pytest.raises(DataError, match=said):
        fit_judge(tmp_path, [file])
    result = CliRunner().invoke(app, ["train", "judge", str(tmp_path), "--predictions", str(file)])
    assert result.exit_code == 1
    assert not (tmp_path / file_of("rules")).exists()
