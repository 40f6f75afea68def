"""``nestor train planner`` on a handful of requests. Needs the train requirements: requirements/train.txt."""

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from planner_svc.backends import load_backends
from services.compute import ComputePool
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.worlds import TOOLS
from tests.unit.training.planner.test_data import CITIES, weather

pytest.importorskip("torch", reason="needs requirements/train.txt")
pytest.importorskip("transformers", reason="needs requirements/train.txt")

import torch

from evals.data import DataError, read_all
from training.planner.command import train_planner
from training.planner.prepared import PREPARED
from training.planner.prepared import main as train_there
from training.planner.recipe import Recipe
from training.planner.refit import refit_second_stage
from training.shared.checkpoints import CHECKPOINT
from training.shared.runs import progress_on

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


def test_a_run_is_prepared_here_trained_elsewhere_and_finished_here(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, work, file = tmp_path / "mine", tmp_path / "work", recipe(tmp_path / "recipe.json", lower_rate=1e-4)
    assert train_planner([data], out, work, file, "cpu", prepare=True) == 0
    assert not out.exists()
    folder = shutil.copytree(work / PREPARED, tmp_path / "elsewhere")
    assert train_there([str(folder), "--device", "cpu"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["progress"] for line in told if line.get("of") == "weather"] == [0.5, 1.0]
    shutil.copy(folder / "trained.pt", work / PREPARED)
    assert train_planner([data], out, work, file, "cpu") == 0
    assert not (work / CHECKPOINT).exists()  # nothing was trained here
    trained = torch.load(folder / "trained.pt", weights_only=True)["weights"]["network.items.weight"]
    start = torch.load(folder / "start.pt", weights_only=True)["network.items.weight"]
    assert not torch.equal(trained, start)
    assert (out / "planner.onnx").exists()
    other = recipe(tmp_path / "other.json", lower_rate=1e-4, seed=8)
    assert train_planner([data], out, work, other, "cpu") == 1
    assert "of another recipe or of other data" in capsys.readouterr().err
    (folder / "start.pt").unlink()
    assert train_there([str(folder)]) == 1


def test_the_second_stage_is_fitted_again_and_nothing_else(data: Path, tmp_path: Path) -> None:
    out, work, told = tmp_path / "mine", tmp_path / "work", Recipe.model_validate(RECIPE)
    assert train_planner([data], out, work, recipe(tmp_path / "recipe.json"), "cpu") == 0
    before = {one.name: one.read_bytes() for one in out.iterdir()}
    (out / "calibration.json").unlink()
    with progress_on(Console(file=StringIO())) as progress:
        found = refit_second_stage(out, [data], work, told, progress)
        with pytest.raises(DataError, match="nothing to learn"):
            refit_second_stage(out, [], work, told, progress)
    assert found["weather"].keys() >= {"calls, network", "calls, judged"}
    assert {one.name: one.read_bytes() for one in out.iterdir()} == before


def test_what_cannot_be_trained_on_is_said(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = recipe(tmp_path / "wrong.json", steps=0)
    assert train_planner([data], tmp_path / "out", tmp_path / "work", wrong, "cpu") == 1
    assert "steps" in capsys.readouterr().err
    assert train_planner([tmp_path / "none"], tmp_path / "out", tmp_path / "work", None, "cpu") == 1
    assert "none" in capsys.readouterr().err
