"""The services' images hold neither ``evals`` nor ``training``: nothing they run imports those on loading."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LEFT_OUT = {"bench", "evals", "training"}

_AS_IN_AN_IMAGE = """
import sys

LEFT_OUT = {left_out!r}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in LEFT_OUT else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
_LIBRARIES = {"torch", "sentence_transformers", "transformers", "peft", "trl", "sklearn", "onnx", "onnxscript", "gguf"}
_SERVE = """
import importlib
import deploy.cli
from deploy.serve import SERVICES
for service in SERVICES:
    importlib.import_module(f"{service}.main")
import planner_svc.backends.compact.backend
"""


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    hidden = _AS_IN_AN_IMAGE.format(left_out={*LEFT_OUT, "tests", *_LIBRARIES})
    command = [sys.executable, "-c", hidden + script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def _packages() -> set[str]:
    house = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return set(house["root_packages"])


def test_an_image_is_built_of_the_packages_that_serve() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"  # all is left out but what is named
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert let_in & _packages() == _packages() - LEFT_OUT
    assert not any(one.startswith(f"{name}/") for one in let_in for name in LEFT_OUT)


def test_the_command_line_and_the_services_load_with_what_an_image_holds() -> None:
    done = _run(_SERVE)
    assert done.returncode == 0, done.stderr


def test_left_out_packages_are_hidden_from_these_tests() -> None:
    done = _run("import training")
    assert "ModuleNotFoundError: No module named 'training'" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["retriever", "--data", ".", "--out", "never"],
        ["planner", "--data", ".", "--out", "never"],
        ["relevance", "--data", ".", "--out", "never"],
        ["data", "--out", "never"],
    ],
    ids=lambda command: command[0],
)
def test_training_in_an_image_says_that_it_is_not_installed(command: list[str]) -> None:
    done = _run("from deploy.cli import main\nmain()", "train", *command)
    assert done.returncode == 1
    assert "it lacks the packages training, evals" in done.stderr
    assert "Traceback" not in done.stderr
