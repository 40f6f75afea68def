"""The judge's file: where it is, and which one is refused."""

import dataclasses
from pathlib import Path

import pytest

from planner_svc.backends.compact.second_stage import JudgeError
from planner_svc.judging.fingerprint import JUDGE, fingerprint
from planner_svc.judging.judge import AnswerJudge, load_judges
from planner_svc.judging.signs import SIGNS
from planner_svc.main import create_app
from planner_svc.settings import PlannerSettings, ServedSettings
from services.encoder import PLANNER_MODEL, model_directory
from tests.unit.planner_svc.judging.test_judge import CHANGE, GOOD, REQUEST, answer_of, leaning

MODELS = [folder for folder in sorted(model_directory(PLANNER_MODEL).parent.iterdir()) if folder.is_dir()]
KEPT = AnswerJudge(leaning("calls that change something", low=2, high=0))


def test_a_judge_is_kept_beside_the_model(tmp_path: Path) -> None:
    KEPT.save(tmp_path)
    kept = AnswerJudge.load(tmp_path)
    assert kept is not None
    assert kept.weigh(REQUEST, answer_of(GOOD)) == pytest.approx(0.881, abs=1e-3)
    assert kept.weigh(REQUEST, answer_of(CHANGE)) == pytest.approx(0.5, abs=1e-3)


def test_a_judge_of_other_weights_is_refused(tmp_path: Path) -> None:
    weights, alone = tmp_path / "planner.onnx", tmp_path / "alone"
    weights.write_bytes(b"one")
    KEPT.save(tmp_path)
    assert AnswerJudge.load(tmp_path) is not None
    weights.write_bytes(b"two")
    with pytest.raises(JudgeError, match="fitted to other weights"):
        AnswerJudge.load(tmp_path)
    alone.mkdir()
    (alone / JUDGE).write_bytes((tmp_path / JUDGE).read_bytes())
    assert AnswerJudge.load(alone) is not None, "the weights are elsewhere"


@pytest.mark.parametrize("model", [one for one in MODELS if (one / JUDGE).exists()], ids=lambda one: one.name)
def test_a_shipped_judge_names_the_weights_it_was_fitted_to(model: Path) -> None:
    judge = AnswerJudge.load(model)
    assert judge is not None
    assert judge.trees.model == fingerprint(model)


@pytest.mark.parametrize("damage", ["text", "cut", "signs", "tree"])
def test_a_damaged_judge_is_refused(tmp_path: Path, damage: str) -> None:
    KEPT.save(tmp_path)
    file = tmp_path / JUDGE
    whole = file.read_bytes()
    file.unlink()
    match damage:
        case "text":
            file.write_text("[1]")
        case "cut":
            file.write_bytes(whole[: len(whole) // 2])
        case "signs":
            dataclasses.replace(KEPT.trees, signs=SIGNS[1:]).save(file)
        case "tree":
            judge = KEPT.trees
            far = dataclasses.replace(judge.trees, feature=judge.trees.feature + 1_000)
            dataclasses.replace(judge, trees=far).save(file)
    with pytest.raises(JudgeError, match=file.name):
        AnswerJudge.load(tmp_path)


def test_the_judge_of_a_models_word_is_where_the_setting_says(tmp_path: Path) -> None:
    compact, model = tmp_path / "compact", tmp_path / "model"
    model.mkdir()
    KEPT.save(model)
    assert load_judges(compact, None) == {}
    found = load_judges(compact, model)
    assert found.keys() == {"served"}
    assert found["served"].weigh(REQUEST, answer_of(GOOD)) == pytest.approx(0.881, abs=1e-3)
    assert ServedSettings.model_validate({"judge": ""}).judge is None


@pytest.mark.parametrize("damage", ["none", "text", "signs"])
def test_a_model_whose_judge_cannot_be_used_does_not_start(tmp_path: Path, damage: str) -> None:
    if damage == "text":
        (tmp_path / JUDGE).write_text("[1]")
    if damage == "signs":
        dataclasses.replace(KEPT.trees, signs=SIGNS[1:]).save(tmp_path / JUDGE)
    settings = PlannerSettings(served=ServedSettings(judge=tmp_path))
    wanted = {
        "none": f"NESTOR_PLANNER_SERVED_JUDGE: {tmp_path} holds no {JUDGE}",
        "text": JUDGE,
        "signs": "other signs",
    }
    with pytest.raises(JudgeError, match=wanted[damage]):
        create_app(settings)
