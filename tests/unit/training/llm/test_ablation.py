"""Each property of the data can be taken away by itself, and nobody learns what all are measured by."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from deploy.cli import app
from deploy.cli.training import ablation
from deploy.llm import gate
from services.registry import PromptForm
from tests.unit.training.llm.data import small
from training.llm.ablation import PROPERTIES, WHOLE, variants
from training.llm.builder import TRAIN, build
from training.llm.recipe import DataRecipe, FolderRecipe

RECIPE = DataRecipe(others=FolderRecipe(rounds=2, made=40, turns=3))


def conversations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / TRAIN).read_text("utf-8").splitlines()]


def calls(row: dict[str, Any]) -> list[int]:
    said = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
    return [len(json.loads(answer)["calls"]) for answer in said]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    place = tmp_path_factory.mktemp("ablation")
    folder, found = small(place / "small"), {}
    for name, recipe in variants(RECIPE).items():
        with Progress(disable=True) as progress:
            build([folder], recipe, [], place / name, progress)
        found[name] = conversations(place / name)
    return found


def test_without_a_property_its_rows_are_gone_and_those_of_the_others_stay(
    built: dict[str, list[dict[str, Any]]],
) -> None:
    def has(name: str) -> dict[str, bool]:
        rows = built[name]
        return {
            "real requests": any(row["source"] == "small" for row in rows),
            "instruction diversity": any(sum(number > 0 for number in calls(row)) > 1 for row in rows),
            "output diversity": any(number > 1 for row in rows for number in calls(row)),
            "masking": any(row.get("masked") for row in rows),
            "off-topic requests": any(number == 0 for row in rows for number in calls(row)),
        }

    assert all(has(WHOLE).values())
    for name in PROPERTIES:
        others = {"prompt diversity": False} | has(name)  # that of the APIs' order: see below
        assert others.pop(name) is False, name
        lost = [other for other, there in others.items() if not there and other != "prompt diversity"]
        assert not lost, (name, lost)


def test_without_prompt_diversity_the_needed_apis_stand_first(built: dict[str, list[dict[str, Any]]]) -> None:
    def first(row: dict[str, Any]) -> bool:
        lines = row["messages"][0]["content"].split("APIs:\n")[1].splitlines()
        answers = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
        called = {call["name"] for answer in answers for call in json.loads(answer)["calls"]}
        return all(any(line.startswith(name) for name in called) for line in lines[: len(called)])

    assert all(first(row) for row in built["prompt diversity"])
    assert not all(first(row) for row in built[WHOLE])


@pytest.mark.training
def test_the_command_trains_each_and_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    asked: set[tuple[str, ...]] = set()

    def train(base: Path, data: Path, out: Path, work: Path, tuning: object, device: str) -> object:
        trained.append(data.parent.name)
        work.mkdir(exist_ok=True)
        return object()

    def reports(model: Path, folders: Sequence[Path], work: Path, limit: int, detail: PromptForm) -> dict[str, Any]:
        asked.add(tuple(str(folder) for folder in folders))
        if len(trained) == 3 and len(asked) == 1 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            raise KeyboardInterrupt
        bounds = {"tool.f1": (40.0, 60.0), "param.f1": (30.0, 51.0), "full_match_any_order": (0.0, 3.0)}
        f1 = {"tool": SimpleNamespace(f1=50.25), "param": SimpleNamespace(f1=40.0)}
        report = SimpleNamespace(n=limit, full_match_any_order=1.0, intervals=bounds, **f1)
        return {one.name: report for one in folders}

    monkeypatch.setattr(ablation, "require", lambda names: None)
    monkeypatch.setattr(gate, "export", lambda adapter, base, out: None)
    monkeypatch.setattr(gate, "reports", reports)
    monkeypatch.setattr("training.llm.command.train_llm", train, raising=True)
    base = tmp_path / "base.gguf"
    base.touch()
    recipe = tmp_path / "recipe.json"
    recipe.write_text(RECIPE.model_dump_json(), "utf-8")
    line = ["train", "ablate", "--base", str(base), "--folder", str(small(tmp_path / "small"))]
    line += ["--out", str(tmp_path / "out"), "--data-recipe", str(recipe), "--limit", "7"]
    assert CliRunner().invoke(app, line).exit_code != 0
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    names = [name.replace(" ", "-") for name in (WHOLE, *PROPERTIES)]
    assert trained == [*names[:3], *names[2:]]
    assert asked == {(str(tmp_path / "out" / names[0] / "data/held-out/small"),)}
    assert "| without masking | small | 7 | 50.2 (40.0-60.0) | 40.0 (30.0-51.0) | 1.0 (0.0-3.0) |" in done.output
    held_out = {json.loads(line)["query"] for line in (Path(*asked.pop()) / "instances.jsonl").open(encoding="utf-8")}
    assert held_out
    for name in names:
        learnt = {one["content"] for row in conversations(tmp_path / "out" / name / "data") for one in row["messages"]}
        assert not held_out & learnt
