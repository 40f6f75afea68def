"""The steps of docs/finetuning.md on the sandbox's catalogue with a tiny budget: data, train, gate, serve, solve.

Needs the train requirements and llama.cpp. ``NESTOR_TEST_BASE`` names the base model's file; without it, and without
`make llm` before, the package index is needed. ``NESTOR_TEST_FINETUNING=short`` goes on from the adapter that ships,
with less data and 18 seconds of training. That shows that the steps work together, not that a model learns.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.llm.install import BASE_NAME, shipped_registry
from deploy.sockets import free_port
from services.contracts.run import Run
from services.registry import read_registry
from training.llm.builder import read_stats
from training.llm.card import read_report

pytest.importorskip("torch", reason="needs requirements/train.txt")
pytest.importorskip("trl", reason="needs requirements/train.txt")
pytest.importorskip("gguf", reason="needs requirements/llm.txt")
pytest.importorskip("xllamacpp", reason="needs requirements/llm.txt")

pytestmark = pytest.mark.training

ROOT = Path(__file__).parents[2]
LIMIT_S = 15 * 60
SHORT = os.environ.get("NESTOR_TEST_FINETUNING") == "short"
BASE = Path(os.environ.get("NESTOR_TEST_BASE", ROOT / "var/llm" / BASE_NAME))
START = shipped_registry() / "smollm2-135m-planner"


def test_from_a_catalogue_to_a_request_solved_by_its_own_model(tmp_path: Path) -> None:
    nestor = tmp_path / "nestor-command"
    nestor.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from deploy.cli import main; main()" "$@"\n')
    nestor.chmod(0o755)
    place = tmp_path / "place"
    if BASE.is_file():
        (place / "llm").mkdir(parents=True)
        shutil.copy(BASE, place / "llm")
    minutes, budget = ("0.3", {"MADE": "40", "LIMIT": "1", "START": str(START)}) if SHORT else ("3", {"LIMIT": "4"})
    ports = {"PORT": str(free_port()), "SANDBOX_PORT": str(free_port())}
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    began = time.monotonic()
    done = subprocess.run(
        [ROOT / "deploy/llm/finetune_sandbox.sh", place, minutes],
        env=os.environ | ports | budget | {"NESTOR": str(nestor), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-6_000:]
    assert time.monotonic() - began < LIMIT_S

    stats = read_stats(place / "data")
    assert stats.folders["recorded"].apis > 60
    report = read_report(place / "sandbox-planner")
    assert report is not None
    assert report.data.sha256 == stats.sha256
    assert (report.start is not None) == SHORT
    losses = [one["loss"] for one in report.training.losses]
    assert SHORT or len(losses) == 1 or losses[-1] < losses[0]
    size = (place / "sandbox-planner/adapter_model.safetensors").stat().st_size
    assert 5e6 < size < 15e6

    promoted = "promoted in" in done.stdout
    current = read_registry(place / "models").current()
    assert (current is not None) == promoted
    assert current is None or current.base_sha256 == report.base.sha256

    run = Run.model_validate_json((place / "solved.json").read_bytes())
    assert run.status.value in ("succeeded", "needs_input", "no_plan")  # after so little training a plan may be wrong
    assert run.planners[0].backend == "served"
    attempt = run.traces[0].attempts[0]
    assert attempt.readable, attempt.output
    assert attempt.constraint == "gbnf"
