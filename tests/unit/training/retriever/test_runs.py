"""Training for real on a handful of APIs. Needs the train requirements: pip install -r requirements/train.txt."""

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.contracts.api import Api
from services.encoder import DEFAULT_MODEL, RETRIEVER_MODEL, load_encoder, model_directory
from tests.unit.evals.folders import folder
from training.retriever.examples import Document, Pair, document
from training.retriever.mining import mine
from training.retriever.recipe import Recipe
from training.retriever.synthesis import synthetic_pairs

torch = pytest.importorskip("torch", reason="needs requirements/train.txt")
pytest.importorskip("sentence_transformers", reason="needs requirements/train.txt")

from training.retriever.towers import Towers  # noqa: E402
from training.retriever.trainer import Step, Trainer  # noqa: E402
from training.shared.checkpoints import CheckpointError  # noqa: E402
from training.shared.devices import DeviceError, choose_device, use_all_processors  # noqa: E402

pytestmark = pytest.mark.training

RECIPE = Recipe(batch=8, run=2, epochs=2, learning_rate=1e-4, bfloat16=False)
THINGS = ("invoice", "holiday", "parcel", "recipe", "flight", "meeting", "song", "reminder")
DOCUMENTS: dict[str, Document] = {
    one.id: one
    for one in (
        document("s", Api(id=f"{verb}_{thing}", provider="-", name=f"{verb} {thing}", description=f"{verb}s a {thing}"))
        for verb in ("create", "delete", "find")
        for thing in THINGS
    )
}


def pairs_of(epoch: int) -> Sequence[Pair]:
    return synthetic_pairs(DOCUMENTS.values(), random.Random(epoch))


def trainer(folder: Path, recipe: Recipe = RECIPE, every: int = 50) -> Trainer:
    folder.mkdir(exist_ok=True)
    return Trainer(Towers(recipe, "cpu"), recipe, pairs_of, DOCUMENTS, folder, every)


def weights(made: Trainer) -> list[Any]:
    return [weight.detach().clone() for weight in made.towers.model.parameters()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, list[Step]]:
    """A run from beginning to end."""
    made = trainer(tmp_path_factory.mktemp("whole"))
    steps: list[Step] = []
    assert made.train(steps.append)
    return made, steps


def test_training_lowers_the_loss_and_changes_all_but_the_word_table(whole: tuple[Trainer, list[Step]]) -> None:
    made, steps = whole
    assert [step.number for step in steps] == list(range(1, made.total + 1))
    assert steps[-1].progress == 1
    assert steps[-1].loss < steps[0].loss
    before = dict(Towers(RECIPE, "cpu").model.named_parameters())
    changed = {name for name, weight in made.towers.model.named_parameters() if not torch.equal(weight, before[name])}
    assert {name for name in before if "word_embeddings" in name} == before.keys() - changed - _unused(before)


def _unused(names: Any) -> set[str]:
    """The pooler's weights: mean pooling does not use them."""
    return {name for name in names if "pooler" in name}


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(whole: tuple[Trainer, list[Step]], tmp_path: Path) -> None:
    first = trainer(tmp_path)
    assert not first.train(lambda step: None, stop=lambda done: done == 3)
    second = trainer(tmp_path)
    steps: list[Step] = []
    assert second.done == 3
    assert second.train(steps.append)
    assert steps[0].number == 4
    assert all(torch.equal(one, other) for one, other in zip(weights(second), weights(whole[0]), strict=True))


def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    def die(step: Step) -> None:
        if step.number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, every=2).train(die)
    assert trainer(tmp_path).done == 4


def test_a_checkpoint_of_another_recipe_is_not_mixed_in(tmp_path: Path) -> None:
    trainer(tmp_path).train(lambda step: None, stop=lambda done: done == 1)
    with pytest.raises(CheckpointError, match="another recipe"):
        trainer(tmp_path, RECIPE.model_copy(update={"learning_rate": 2e-4}))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"half a fi")
    with pytest.raises(CheckpointError, match="cannot be read"):
        trainer(tmp_path)


def test_a_time_limit_ends_the_run(tmp_path: Path) -> None:
    made = trainer(tmp_path, RECIPE.model_copy(update={"minutes": 1e-6}))
    steps: list[Step] = []
    assert made.train(steps.append)
    assert len(steps) == 1 < made.total
    assert trainer(tmp_path, RECIPE.model_copy(update={"minutes": 1e-6})).train(steps.append)
    assert len(steps) == 1


def test_devices() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") in ("cpu", "cuda")
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        choose_device("tpu")


@pytest.mark.parametrize(("limit", "threads"), [("1", 1), ("", os.cpu_count()), ("0", os.cpu_count())])
def test_a_limit_of_threads_is_kept(monkeypatch: pytest.MonkeyPatch, limit: str, threads: int) -> None:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    try:
        use_all_processors()
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_the_command_trains_exports_measures_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from training.retriever.command import train_retriever

    tools = [
        {"name": f"{verb}.{thing}", "description": f"{verb}s the {thing}", "parameters": {}}
        for verb in ("create", "delete", "find")
        for thing in THINGS
    ]
    asked = [
        {"id": str(n), "split": "dev", "query": f"{verb} my {thing}", "calls": [{"api": f"{verb}.{thing}"}]}
        for n, (verb, thing) in enumerate((verb, thing) for verb in ("create", "find") for thing in THINGS)
    ]
    data = folder(tmp_path / "own", tools, asked)
    recipe, out = tmp_path / "recipe.json", tmp_path / "model"
    recipe.write_text(json.dumps({"batch": 8, "run": 2, "mined": 3, "bfloat16": False}))
    run = ([data], {"own": 2}, 3, out, tmp_path / "work", recipe, "cpu")
    assert train_retriever(*run) == 0
    assert "own (provider named)" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report["data"] == [
        {"name": "own", "licence": "not stated", "apis": 24, "trained": 12, "validation": 2, "held_out": 2}
    ]
    assert report["validation"]["own"]["trained"]["n"] == 2
    assert report["validation"]["own"]["base"]["encoder"].startswith(DEFAULT_MODEL)
    assert "| own | " in (out / "MODEL_CARD.md").read_text()
    before = (out / "model.onnx").read_bytes()
    assert train_retriever(*run) == 0  # nothing is left to train
    assert "going on after step" in capsys.readouterr().err
    assert (out / "model.onnx").read_bytes() == before
    trained, base = load_encoder(str(out)), load_encoder()
    assert trained.name != base.name
    assert trained.dimension == base.dimension

    (tmp_path / "work").rename(tmp_path / "model.work")
    recipe.write_text(json.dumps({"batch": 8, "run": 2, "mined": 3, "base": str(tmp_path / "model.work")}))
    second = ([data], {"own": 2}, 3, tmp_path / "second", tmp_path / "second.work", recipe, "cpu")
    assert train_retriever(*second) == 0
    report = json.loads((tmp_path / "second" / "report.json").read_text())
    assert report["validation"]["own"]["base"]["encoder"] == trained.name


def test_training_goes_further_from_a_model_that_ships() -> None:
    texts = ["What are the public holidays in Portugal next year?", "GET /pets: find pets by status. status"]
    shipped = load_encoder(RETRIEVER_MODEL)
    held, plain = (
        Towers(Recipe(base=base, bfloat16=False), "cpu").embed(texts, query=True)
        for base in (str(model_directory(RETRIEVER_MODEL)), None)
    )
    for text, read, untrained in zip(texts, held, plain, strict=True):
        told = shipped.encode([text])[0]
        assert float(read @ told) > 0.99
        assert float(untrained @ told) < 0.9


def test_a_provider_left_out_is_not_trained_on_but_stays_in_the_catalogue(tmp_path: Path) -> None:
    from training.retriever.command import read_folder

    tools = [
        {"name": f"{owner}.{thing}", "description": f"Finds a {thing} of {owner}", "parameters": {}}
        for owner in ("ours", "theirs")
        for thing in THINGS
    ]
    asked = [
        {"id": "1", "split": "dev", "query": "Which songs are new?", "calls": [{"api": "ours.song"}]},
        {"id": "2", "split": "dev", "query": "Find my flight", "calls": [{"api": "theirs.flight"}]},
        {"id": "3", "split": "dev", "query": "Meet Ana", "calls": [{"api": "ours.song"}, {"api": "theirs.meeting"}]},
    ]
    data = folder(tmp_path / "own", tools, asked)
    read = read_folder(data, 0, 0, Recipe(leave_out=("theirs",)))
    assert {one.api.provider for one in read.source.documents.values()} == {"ours"}
    assert [one.query for one in read.source.requests] == ["Which songs are new?"]
    assert {api.provider for api in read.validation.apis} == {"ours", "theirs"}
    found = ["own/theirs.song", "own/ours.song", "own/ours.flight"]
    mined = mine(read.source.requests, read.source.documents, lambda _: found, 5)
    assert mined == {frozenset({"own/ours.song"}): ("own/ours.flight",)}
    assert len(read_folder(data, 0, 0, Recipe()).source.requests) == 3


def test_what_is_wrong_with_data_or_recipe_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from training.retriever.command import train_retriever

    data, recipe = folder(tmp_path / "own"), tmp_path / "recipe.json"
    recipe.write_text('{"bach": 8}')
    assert train_retriever([data], {}, 1, tmp_path / "out", tmp_path / "work", recipe, "cpu") == 1
    assert "bach" in capsys.readouterr().err
    assert train_retriever([tmp_path], {}, 1, tmp_path / "out", tmp_path / "work", None, "cpu") == 1
    assert "has none of" in capsys.readouterr().err
    assert train_retriever([data], {"other": 5}, 1, tmp_path / "out", tmp_path / "work", None, "cpu") == 1
    assert "no folder 'other'" in capsys.readouterr().err
    recipe.write_text(json.dumps({"base": str(tmp_path)}))
    assert train_retriever([data], {}, 1, tmp_path / "out", tmp_path / "work", recipe, "cpu") == 1
    assert str(tmp_path) in capsys.readouterr().err
    assert train_retriever([data], {}, 1, tmp_path / "out", tmp_path / "work", None, "tpu") == 1
    assert "no device" in capsys.readouterr().err
