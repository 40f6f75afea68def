"""``nestor train retriever``: what it says before anything is loaded."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.cli.training import retriever
from tests.unit.evals.folders import folder


def run(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["train", "retriever", *options], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_without_the_train_requirements_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retriever, "TO_TRAIN", ("json", "no_such_library"))
    status, said = run("--data", str(folder(tmp_path / "own")), "--out", str(tmp_path / "model"))
    assert status == 1
    assert "(no_such_library)" in said
    assert "pip install -r requirements/train.txt" in said
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("wrong", ["own", "own=", "=5", "own=many", "own=-1"])
def test_hold_out_is_a_folder_and_a_number(tmp_path: Path, wrong: str) -> None:
    status, said = run("--data", str(tmp_path), "--out", str(tmp_path / "model"), "--hold-out", wrong)
    assert status == 2
    assert "FOLDER=N" in said
