"""Fitting the relevance model for real. Needs the train requirements: pip install -r requirements/train.txt."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from retriever_svc.engine.features import COLUMNS
from retriever_svc.engine.relevance import RelevanceModel
from services.encoder import DEFAULT_MODEL, RETRIEVER_MODEL, load_encoder
from tests.unit.evals.folders import folder

pytest.importorskip("sklearn", reason="needs requirements/train.txt")

from training.retriever import relevance
from training.retriever.forest import fit
from training.retriever.relevance import Example, fitted

pytestmark = pytest.mark.training

NAMED, REMOVES = COLUMNS.index("named"), COLUMNS.index("removes")


def examples(count: int, seed: int = 3) -> list[Example]:
    """Requests whose one needed candidate is the one that is named; half of them have none."""
    rng, made = np.random.default_rng(seed), []
    for number in range(count):
        rows = rng.random((20, len(COLUMNS)), np.float32)
        rows[:, NAMED] = np.round(rows[:, NAMED] * 0.4, 1)  # few values: else some share a histogram's bin with 0.9
        fits = number % 2 == 0
        needed = np.zeros(20, bool)
        if fits:
            needed[number % 20] = True
            rows[needed, NAMED] = 0.9
        kind = "fitting" if fits else "unfitting"
        made.append(Example(kind, f"group {number // 2}", rows, rng.random((2, 20), np.float32), needed, int(fits)))
    return made


def test_trees_learn_what_tells_the_needed_apart(tmp_path: Path) -> None:
    model, quality = fitted(examples(400), "an encoder")  # those needed fill a leaf, whichever fold is left out
    assert quality.found["fitting"][1] > 95
    assert quality.auroc == {"unfitting": 1.0}
    assert quality.refused["unfitting"] > 95
    assert quality.refused["fitting"] <= 100 * relevance.REFUSED + 1
    model.save(tmp_path / "model.npz")
    read = RelevanceModel.load(tmp_path / "model.npz")
    assert read.encoder.item() == "an encoder"
    assert float(read.threshold) == pytest.approx(quality.threshold)
    rows = np.full((2, len(COLUMNS)), 0.3, np.float32)
    rows[1, NAMED] = 0.9
    low, high = read.probabilities(rows).tolist()
    assert low < 0.1 < 0.7 < high


def test_the_same_examples_give_the_same_model() -> None:
    rows, needed = examples(1)[0].evidence.repeat(20, axis=0), np.tile([True, False], 200)
    one, other = (fit(rows, needed, "", 0.1) for _ in range(2))
    assert (one.trees.split == other.trees.split).all()
    assert (one.trees.value == other.trees.value).all()


def test_groups_are_never_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    sides: list[set[str]] = []
    real = relevance._fit

    def watched(of: list[Example], encoder: str, threshold: float) -> RelevanceModel:
        sides.append({one.group for one in of})
        return real(of, encoder, threshold)

    monkeypatch.setattr(relevance, "_fit", watched)
    made = examples(60)
    relevance.cross_validated(made)
    groups = {one.group for one in made}
    assert len(sides) == relevance.FOLDS
    assert all(groups - side for side in sides)
    assert set.union(*(groups - side for side in sides)) == groups  # every group is left out once


def test_the_command_fits_writes_and_prints(tmp_path: Path) -> None:
    from deploy.cli import app

    tools = [
        {"name": f"{verb}{thing}", "description": f"{verb} a {thing}", "parameters": {}}
        for verb in ("create", "delete", "find", "list")
        for thing in ("Invoice", "Holiday", "Parcel", "Recipe", "Flight", "Meeting", "Song", "Reminder")
    ]
    instances = [
        {"id": str(n), "query": f"Please {tool['description']} number {n}", "calls": [{"api": tool["name"]}]}
        for n, tool in enumerate(tools * 2)
    ]
    data, out = str(folder(tmp_path / "data", tools, instances)), tmp_path / "relevance.npz"
    ran = CliRunner().invoke(app, ["train", "relevance", "--data", data, "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "short list of others" in ran.stdout
    measured = CliRunner().invoke(
        app,
        ["eval", "retrieve", "--data", data, "--k", "5", "--method", "fused", "--json"],
        env={"NESTOR_RETRIEVER_RELEVANCE": str(out)},
    )
    assert json.loads(measured.stdout)["methods"]["shipped"]["recall@5"] > 60
    other, seen = ["--evidence", DEFAULT_MODEL], tmp_path / "vectors.npz"
    ran = CliRunner().invoke(
        app, ["train", "relevance", "--data", data, "--out", str(out), "--cache", str(seen), *other]
    )
    assert ran.exit_code == 0, ran.output
    assert RelevanceModel.load(out).encoder.item() == load_encoder(RETRIEVER_MODEL).name  # which serves
    assert {key.rpartition(":")[0] for key in np.load(seen).files} == {load_encoder(DEFAULT_MODEL).name}
    nothing = CliRunner().invoke(app, ["train", "relevance", "--data", str(tmp_path), "--out", str(out)])
    assert (nothing.exit_code, "has none of" in nothing.stderr) == (1, True)
