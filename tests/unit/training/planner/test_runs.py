"""``nestor train planner`` on a handful of requests. Needs the train requirements: requirements/train.txt."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner_svc.backends import load_backends
from services.compute import ComputePool
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.worlds import TOOLS
from tests.unit.training.planner.test_data import CITIES, weather

pytest.importorskip("torch", reason="needs requirements/train.txt")
pytest.importorskip("transformers", reason="needs requirements/train.txt")

from evals.data import read_all
from training.planner.command import train_planner

pytestmark = pytest.mark.training

RECIPE: dict[str, Any] = {
    "steps": 2,
    "batch": 4,
    "candidates": 3,
    "width": 32,
    "layers": 1,
    "made": 8,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("data") / "weather", TOOLS, [weather(city) for city in CITIES])


def recipe(path: Path, **changed: Any) -> Path:
    path.write_text(json.dumps(RECIPE | changed))
    return path


async def test_a_run_makes_a_planner_with_its_card(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, work = tmp_path / "mine", tmp_path / "work"
    assert train_planner([data], out, work, recipe(tmp_path / "recipe.json"), "cpu") == 0
    assert "| weather |" in capsys.readouterr().out
    assert {one.name for one in out.iterdir()} >= {
        "planner.onnx",
        "tokenizer.json",
        "calibration.json",
        "MODEL_CARD.md",
    }
    assert json.loads((out / "report.json").read_bytes())["recipe"]["steps"] == 2
    pool = ComputePool(1, 1)
    try:
        backend = load_backends(pool, str(out))["compact"]
        candidates = tuple(Candidate(api=api, score=1) for api in read_all(data).apis)
        draft = await backend.plan(PlanRequest(query="What is the weather in Faro?", candidates=candidates))
        assert 0 <= draft.confidence <= 1
    finally:
        await pool.close()
    again = train_planner([data], tmp_path / "second", work, recipe(tmp_path / "recipe.json"), "cpu")
    assert again == 0  # the run was over: only what is made of it is made anew
    assert (tmp_path / "second" / "planner.onnx").read_bytes() == (out / "planner.onnx").read_bytes()


def test_what_cannot_be_trained_on_is_said(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = recipe(tmp_path / "wrong.json", steps=0)
    assert train_planner([data], tmp_path / "out", tmp_path / "work", wrong, "cpu") == 1
    assert "steps" in capsys.readouterr().err
    assert train_planner([tmp_path / "none"], tmp_path / "out", tmp_path / "work", None, "cpu") == 1
    assert "none" in capsys.readouterr().err
