"""``nestor train judge``: what became of requests teaches which of a planner's words are right."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("sklearn", reason="needs requirements/train.txt")

from deploy.cli import app
from evals.data import DataError
from planner_svc.judging.fingerprint import JUDGE
from planner_svc.judging.judge import AnswerJudge, load_judges
from planner_svc.judging.signs import SIGNS
from training.planner.judge_fitting import fit_answer_judge

pytestmark = pytest.mark.training


def predictions(file: Path, count: int, vendors: int = 8, **changed: object) -> Path:
    """Plans whose words are accounted for are right, others mostly where the planner is sure."""
    rng = random.Random(3)
    rows = []
    for number in range(count):
        strange, sure = float(rng.random() < 0.6), rng.choice((-2.0, 2.0))
        signs = dict.fromkeys(SIGNS, 0.0) | {"words unaccounted for": strange, "sure of a plan": sure}
        signs["calls that change something"] = float(number % 2)
        right = not strange or (sure > 0 and rng.random() < 0.8)
        row = {"status": "planned", "vendor": f"v{number % vendors}", "sure": 0.9, "full_match_any_order": right}
        rows.append(row | {"signs": signs} | changed)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_the_judge_learns_which_words_are_right(tmp_path: Path) -> None:
    file = predictions(tmp_path / "lines.jsonl", 400)
    (found,) = fit_answer_judge(tmp_path, [file])
    assert (found.requests, found.vendors) == (400, 8)
    assert found.error < 0.15 < found.before
    first, last = found.thresholds[0], found.thresholds[-1]
    assert (first.plans, first.right) == (400, found.right)
    assert last.right / last.plans > first.right / first.plans + 0.15
    judge = AnswerJudge.load(tmp_path)
    assert judge is not None
    rows = [json.loads(line)["signs"] for line in file.read_text().splitlines()]
    matrix = np.array([[row[sign] for sign in SIGNS] for row in rows], np.float32)
    known, sure = matrix[:, SIGNS.index("words unaccounted for")] == 0, matrix[:, SIGNS.index("sure of a plan")] > 0
    assert judge.trees(matrix)[known].min() > 0.8 > 0.2 > judge.trees(matrix)[~known & ~sure].max()


def test_a_fit_to_several_files_is_told_for_each(tmp_path: Path) -> None:
    """All learn together; a file of answers that are never right shows it in its own figures alone."""
    good, bad = predictions(tmp_path / "good.jsonl", 200), predictions(tmp_path / "bad.jsonl", 60)
    rows = [json.loads(line) | {"full_match_any_order": False} for line in bad.read_text().splitlines()]
    bad.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    first, second = fit_answer_judge(tmp_path, [good, bad])
    assert (first.requests, second.requests, second.right) == (200, 60, 0)
    assert first.right == sum(json.loads(line)["full_match_any_order"] for line in good.read_text().splitlines())


@pytest.mark.parametrize("status", ["failed", "no_plan"])
def test_what_failed_or_asked_for_operations_is_no_word(tmp_path: Path, status: str) -> None:
    file = predictions(tmp_path / "lines.jsonl", 200)
    lines = file.read_text().splitlines()
    failed = json.dumps(json.loads(lines[0]) | {"status": status, "signs": None})
    file.write_text("\n".join([*lines, failed]))
    assert [one.requests for one in fit_answer_judge(tmp_path, [file])] == [200]


def test_the_command_tells_what_thresholds_would_do(tmp_path: Path) -> None:
    file = predictions(tmp_path / "lines.jsonl", 200)
    result = CliRunner().invoke(app, ["train", "judge", str(tmp_path), "--predictions", str(file)])
    assert result.exit_code == 0, result.output
    assert "200 requests to 8 vendors" in result.output
    assert (tmp_path / JUDGE).exists()


def test_the_judge_of_a_language_model_is_fitted_in_its_folder(tmp_path: Path) -> None:
    """As `nestor eval plan --planner served` writes it: with each turn's text, and refusals among the answers."""
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    plans = predictions(tmp_path / "plans.jsonl", 200, outputs=[{"output": '{"calls": []}', "problem": ""}])
    refusals = predictions(tmp_path / "refusals.jsonl", 60, status="no_plan")
    files = ["--predictions", str(plans), "--predictions", str(refusals)]
    result = CliRunner().invoke(app, ["train", "judge", str(adapter), *files])
    assert result.exit_code == 0, result.output
    assert "200 requests to 8 vendors" in result.output
    assert "60 requests to 8 vendors" in result.output
    assert load_judges(tmp_path, adapter).keys() == {"served"}
    gone = CliRunner().invoke(app, ["train", "judge", str(tmp_path / "gone"), *files])
    assert (gone.exit_code, (tmp_path / "gone").exists()) == (2, False)


@pytest.mark.parametrize(
    ("count", "vendors", "changed", "said"),
    [
        (20, 8, {}, "too few"),
        (200, 1, {}, "several vendors"),
        (100, 8, {"signs": {"another": 1}}, "other signs"),
        (100, 8, {"signs": 7}, r"lines\.jsonl holds no predictions"),
    ],
)
def test_what_teaches_nothing_is_refused(
    tmp_path: Path, count: int, vendors: int, changed: dict[str, object], said: str
) -> None:
    file = predictions(tmp_path / "lines.jsonl", count, vendors, **changed)
    with pytest.raises(DataError, match=said):
        fit_answer_judge(tmp_path, [file])
    result = CliRunner().invoke(app, ["train", "judge", str(tmp_path), "--predictions", str(file)])
    assert result.exit_code == 1
    assert not (tmp_path / JUDGE).exists()
