"""``nestor eval plan``: the shipped planner on a small folder, over sockets, from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner_svc.judging.fingerprint import fingerprint
from planner_svc.judging.signs import SIGNS
from services.encoder import PLANNER_MODEL, model_directory
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.test_batches import call, measured
from tests.unit.evals.planning.worlds import ROWS, TOOLS
from tests.unit.evals.test_originals import nestful, seal_tools

KEYS = {
    "n", "format_acc", "tool", "param", "reference", "partial_match", "full_match", "pass_rate", "ran", "subsets",
    "calibration_error", "latency_ms",
}  # fmt: skip
PERCENTAGES = ("format_acc", "partial_match", "full_match", "full_match_any_order", "pass_rate", "ran")


def test_the_shipped_planner_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "lines.jsonl"
    told = measured(
        folder(tmp_path / "data", TOOLS, ROWS), "--predictions", str(out), "--cache", str(tmp_path / "v.npz")
    )
    assert told.keys() >= KEYS
    assert (told["n"], told["planner"], told["candidates"], told["split"]) == (4, "compact", "own", None)
    for scores in (told, *told["subsets"].values()):
        for name in PERCENTAGES:
            assert 0 <= scores[name] <= 100
        for name in ("tool", "param", "reference"):
            assert all(0 <= scores[name][key] <= 100 for key in ("p", "r", "f1"))
    assert told["subsets"].keys() == {"single", "multi", "nested"}
    assert told["intervals"]["tool.f1"][0] <= told["tool"]["f1"] <= told["intervals"]["tool.f1"][1]
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == [row["id"] for row in ROWS]
    weather = lines[0]
    assert weather["predicted"][0] == {"name": "getWeather", "arguments": {"city": "Faro"}, "label": "var1"}
    assert (weather["status"], weather["full_match"], weather["passed"]) == ("planned", True, True)
    assert (weather["outputs"], weather["diagnostics"], weather["well_formed"]) == ([], [], True)
    assert (weather["vendor"], weather["signs"].keys(), weather["signs"]["calls"]) == ("-", {*SIGNS}, 1)
    assert 0 < weather["sure"] < 1
    assert weather["model"] == fingerprint(model_directory(PLANNER_MODEL))
    for figure, key in (("pass_rate", "passed"), ("ran", "ran")):
        assert told[figure] == 100 * sum(line[key] for line in lines) / 4


@pytest.mark.parametrize("candidates", ["given", "gold"])
def test_other_candidates(tmp_path: Path, candidates: str) -> None:
    told = measured(folder(tmp_path, TOOLS, ROWS[:2]), "--candidates", candidates, "--planner", "compact")
    assert (told["candidates"], told["n"]) == (candidates, 2)
    assert told["tool"]["right"] > 0


def test_demos_are_read(tmp_path: Path) -> None:
    data = folder(tmp_path, TOOLS, ROWS)
    assert measured(data, "--demos", str(data))["demos"] == 7


def test_shots_and_distractors(tmp_path: Path) -> None:
    rows = [row | {"split": "test" if number else "train"} for number, row in enumerate(ROWS)]
    rows += [rows[2] | {"id": "like", "split": "train", "query": f"{rows[2]['query']} Please."}]
    data = folder(tmp_path / "data", TOOLS, rows)
    told = measured(data, "--split", "test", "--shots", "1", "--candidates", "gold", "--distractors", "1")
    assert (told["demos"], told["shots"], told["distractors"], told["k"]) == (3, 1, 1, None)
    assert 0 < told["demos_shown"] <= told["n"]
    told = measured(data, "--split", "test", "--shots", "0", "--demos", str(data), "--k", "2")
    assert (told["demos"], told["shots"], told["demos_shown"], told["k"]) == (None, None, 0, 2)


def test_a_sample_of_a_split(tmp_path: Path) -> None:
    rows = [row | {"split": "dev" if number else "test"} for number, row in enumerate(ROWS)]
    data = folder(tmp_path, TOOLS, rows)
    assert measured(data, "--limit", "1")["split"] == "dev"
    assert measured(data, "--split", "test")["n"] == 1


@pytest.mark.parametrize("make", [seal_tools, nestful])
def test_the_papers_own_files(tmp_path: Path, make: Any) -> None:
    told = measured(make(tmp_path))
    assert (told["n"], told["catalogue"], told["reference"]["gold"]) == (1, 2, 1)


def test_for_people(tmp_path: Path) -> None:
    result = call(folder(tmp_path, TOOLS, ROWS[:1]))
    assert result.exit_code == 0, result.output
    assert {"ref F1", "any order", "passed", "ran"} <= {
        part.strip() for part in result.stdout.splitlines()[0].split("  ")
    }
    assert "1 requests; 3 APIs; own candidates; no demos" in result.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--split", "train"], "no split 'train'"),
        (["--planner", "oracle"], "there is no planner 'oracle'; there is compact"),
        (["--k", "5", "--candidates", "gold"], "can have a `k`"),
        (["--distractors", "5"], "distractors stand beside the candidates `gold`"),
        (["--shots", "3"], "none can be shown"),
        (["--candidates", "given"], "1 of 1 requests have no `tools`"),
        (["--encoder", "/nowhere/at/all"], "sentence-transformers"),
        (["--demos", "/nowhere/at/all"], "cannot be read"),
        (["--predictions", "/nowhere/at/all"], "cannot be written"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, options: list[str], says: str) -> None:
    result = call(folder(tmp_path, TOOLS, [ROWS[0] | {"tools": None}]), *options)
    assert result.exit_code == 1
    assert says in result.output
    assert "Traceback" not in result.output


def test_without_a_model_served_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NESTOR_LLM_MODEL", str(tmp_path / "none.gguf"))
    result = call(folder(tmp_path, TOOLS, ROWS[:1]), "--planner", "served")
    assert result.exit_code == 1
    assert "the model's server ended with status 1" in result.output
    assert "make llm" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("instances.jsonl", '{"id": "1"}\n', "instances.jsonl, line 1: query: Field required"),
        ("instances.jsonl", "", "holds no requests"),
        ("tools.jsonl", "[", "tools.jsonl, line 1: Invalid JSON"),
    ],
)
def test_folders_that_are_none(tmp_path: Path, file: str, content: str, says: str) -> None:
    data = folder(tmp_path, TOOLS, ROWS)
    (data / file).write_text(content, encoding="utf-8")
    for result, expected in ((call(data), says), (call(tmp_path / "nowhere"), "has none of tools.jsonl")):
        assert result.exit_code == 1
        assert expected in result.output
        assert "Traceback" not in result.output
