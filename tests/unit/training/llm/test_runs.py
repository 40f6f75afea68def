"""``nestor train llm`` on a tiny random model. Needs the train requirements: requirements/train.txt."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from deploy.cli import app
from deploy.llm import gate
from deploy.llm.install import registered_adapter
from deploy.llm.trained import sha256_of
from evals.data import DataError
from tests.unit.training.llm.data import ROWS, small
from training.llm.builder import TRAIN, build
from training.llm.recipe import DataRecipe, FolderRecipe
from training.llm.settings import FULL_RATE, Tuning

pytest.importorskip("torch", reason="needs requirements/train.txt")
pytest.importorskip("transformers", reason="needs requirements/train.txt")
pytest.importorskip("peft", reason="needs requirements/train.txt")
pytest.importorskip("trl", reason="needs requirements/train.txt")

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support.llama import tiny_llama
from tests.unit.training.llm.models import save_tiny, tiny_model, tiny_tokenizer
from training.llm.command import read_tuning, train_llm
from training.llm.trainer import IGNORED, Encoded, attention_mask, batches, encode

pytestmark = pytest.mark.training

TUNING = Tuning(minutes=10, epochs=1, rank=4, rate=0.01, batch_tokens=1_500, longest=2_000, save_steps=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llm")
    recipe = DataRecipe(others=FolderRecipe(rounds=1, made=0, turns=2))
    with Progress(disable=True) as progress:
        build([small(place / "small", ROWS[:18])], recipe, [], place / "data", progress)
    return place / "data"


@pytest.fixture(scope="module")
def rows(data: Path) -> list[list[dict[str, str]]]:
    return [json.loads(line)["messages"] for line in (data / TRAIN).read_text().splitlines()]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, rows: list[list[dict[str, str]]]) -> Path:
    return save_tiny(tmp_path_factory.mktemp("base") / "tiny", [said["content"] for row in rows for said in row])


def test_only_answers_are_learnt_and_the_text_is_the_templates(rows: list[list[dict[str, str]]]) -> None:
    tokenizer = tiny_tokenizer([said["content"] for row in rows for said in row])
    row = next(one for one in rows if len(one) == 5)
    found = encode(tokenizer, row, 4_000)
    assert found is not None
    assert tokenizer.decode(found.ids) == tokenizer.apply_chat_template(row, tokenize=False)
    learnt = tokenizer.decode([one for one in found.labels if one != IGNORED])
    assert learnt == "".join(f"{said['content']}<|im_end|>" for said in row if said["role"] == "assistant")
    assert encode(tokenizer, row, len(found.ids) - 1) is None


def test_batches_hold_every_conversation_and_few_enough_tokens(rows: list[list[dict[str, str]]]) -> None:
    tokenizer = tiny_tokenizer([said["content"] for row in rows for said in row])
    encoded = [one for row in rows if (one := encode(tokenizer, row, 4_000))]
    found = batches(encoded, 1_500, 2)
    assert sum(len(batch["input_ids"]) for batch in found) == len(encoded)
    for batch in found:
        sizes = {len(ids) for ids in (*batch["input_ids"], *batch["labels"])}
        assert len(sizes) == 1
        assert len(batch["input_ids"]) == 1 or len(batch["input_ids"]) * sizes.pop() <= 1_500


def test_requests_that_are_apart_are_learnt_as_if_each_were_the_first(rows: list[list[dict[str, str]]]) -> None:
    tokenizer = tiny_tokenizer([said["content"] for row in rows for said in row])
    model = tiny_model(len(tokenizer)).eval()
    row = next(one for one in rows if len(one) == 5)

    def losses(*encoded: Encoded | None) -> torch.Tensor:
        batch = {
            name: torch.tensor(value) for name, value in batches([one for one in encoded if one], 9_999, 2)[0].items()
        }
        mask, positions = attention_mask(batch["branches"], torch.float32)
        with torch.no_grad():
            told = model(input_ids=batch["input_ids"], attention_mask=mask, position_ids=positions).logits[:, :-1]
        targets = batch["labels"][:, 1:]
        learnt = targets != IGNORED
        return torch.nn.functional.cross_entropy(told[learnt], targets[learnt], reduction="none")

    apart = losses(encode(tokenizer, row, 4_000, apart=True))
    each = [encode(tokenizer, [row[0], *row[at : at + 2]], 4_000) for at in (1, 3)]
    assert torch.allclose(apart, torch.cat([losses(one) for one in each]), atol=1e-5)
    assert torch.allclose(apart.sort().values, losses(*each).sort().values, atol=1e-5), "padding is not seen"
    assert not torch.allclose(apart, losses(encode(tokenizer, row, 4_000)), atol=1e-3)


def test_a_run_lowers_the_loss_and_writes_an_adapter_with_card(data: Path, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    tuning = TUNING.model_copy(update={"epochs": 12})
    report = train_llm(base, data, out, tmp_path / "work", tuning, "cpu")
    assert report is not None
    losses = [one["loss"] for one in report.training.losses]
    assert losses[-1] < losses[0] - 0.3
    assert report.training.steps > 10
    weights = load_file(out / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"
    assert {one.name for one in out.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "report.json",
        "MODEL_CARD.md",
        "NOTICE",
    }
    assert str(tmp_path) not in "".join(one.read_text() for one in out.iterdir() if one.suffix != ".safetensors")
    assert report.base.sha256 in (out / "MODEL_CARD.md").read_text()
    assert "- small:" in (out / "NOTICE").read_text()
    assert train_llm(base, data, out, tmp_path / "work", tuning, "cpu") == report  # it stands


def test_a_run_goes_on_from_an_adapter(
    data: Path, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuning = TUNING.model_copy(update={"epochs": 12})
    first = train_llm(base, data, tmp_path / "first", tmp_path / "work1", tuning, "cpu")
    assert first is not None
    other_rank = tuning.model_copy(update={"rank": 8, "rate": 0.001})
    where = (tmp_path / "second", tmp_path / "work2")
    second = train_llm(base, data, *where, other_rank, "cpu", tmp_path / "first")
    assert second is not None
    assert second.start is not None
    assert second.start.name == "first"
    assert second.tuning.rank == 4  # the adapter's
    assert second.training.losses[0]["loss"] < first.training.losses[0]["loss"] - 0.2
    assert second.start.sha256 in (tmp_path / "second" / "MODEL_CARD.md").read_text()
    assert train_llm(base, data, *where, other_rank, "cpu", tmp_path / "first") == second  # it stands
    capsys.readouterr()
    assert train_llm(base, data, tmp_path / "third", tmp_path / "work2", other_rank, "cpu") is None
    assert "of another base, data or recipe" in capsys.readouterr().err
    assert train_llm(base, data, tmp_path / "third", tmp_path / "work3", tuning, "cpu", data) is None
    assert "is no adapter" in capsys.readouterr().err
    full = tuning.model_copy(update={"method": "full"})
    assert train_llm(base, data, tmp_path / "third", tmp_path / "work3", full, "cpu", tmp_path / "first") is None
    assert "full finetuning has none" in capsys.readouterr().err
    report = (tmp_path / "first" / "report.json").read_text().replace(first.base.sha256, "0" * 64)
    (tmp_path / "first" / "report.json").write_text(report)
    assert train_llm(base, data, tmp_path / "third", tmp_path / "work3", tuning, "cpu", tmp_path / "first") is None
    assert "was trained on" in capsys.readouterr().err


def test_the_adapter_changes_what_the_base_says(data: Path, base: Path, tmp_path: Path) -> None:
    assert train_llm(base, data, tmp_path / "mine", tmp_path / "work", TUNING, "cpu") is not None
    model = AutoModelForCausalLM.from_pretrained(str(base))
    ids = AutoTokenizer.from_pretrained(str(base))("Text hello", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        before = model(ids).logits
        after = PeftModel.from_pretrained(model, str(tmp_path / "mine"))(ids).logits
    assert not torch.allclose(before, after, atol=1e-3)


def test_a_run_that_was_killed_goes_on_where_it_stood(data: Path, base: Path, tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "mine"
    tuning = TUNING.model_copy(update={"epochs": 40})
    code = (
        f"import sys; sys.path += {[one for one in sys.path if one]!r}; from pathlib import Path; "
        "from training.llm.command import train_llm; from training.llm.settings import Tuning; "
        f"train_llm(Path({str(base)!r}), Path({str(data)!r}), Path({str(out)!r}), Path({str(work)!r}), "
        f"Tuning.model_validate_json({tuning.model_dump_json()!r}), 'cpu')"
    )
    killed = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 300
    while not (found := sorted(work.glob("checkpoint-*/trainer_state.json"))) and killed.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    assert found
    assert not out.exists()
    at = max(int(one.parent.name.rpartition("-")[2]) for one in work.glob("checkpoint-*/trainer_state.json"))
    kept = json.loads((work / f"checkpoint-{at}/trainer_state.json").read_text())["log_history"]
    (work / "elapsed.json").write_text("60")  # what the first sitting took, on a slow machine
    short = tuning.model_copy(update={"minutes": 20})  # another budget is the same run
    report = train_llm(base, data, out, work, short, "cpu")
    assert report is not None
    assert report.training.steps > at >= 3
    before = [one["loss"] for one in kept if "loss" in one]
    assert [one["loss"] for one in report.training.losses][: len(before)] == before
    assert 60 < json.loads((work / "elapsed.json").read_text()) < 1_200
    assert 1 <= report.training.minutes <= 20


def test_a_budget_of_time_ends_the_run(data: Path, base: Path, tmp_path: Path) -> None:
    tuning = TUNING.model_copy(update={"minutes": 0.02, "epochs": 500})
    report = train_llm(base, data, tmp_path / "mine", tmp_path / "work", tuning, "cpu")
    assert report is not None
    assert 1 <= report.training.steps < 500
    assert report.training.epochs < 500


def test_full_finetuning_writes_a_model(data: Path, base: Path, tmp_path: Path) -> None:
    tuning = TUNING.model_copy(update={"method": "full", "rate": 0.001})
    judge = tmp_path / "mine" / "judge.npz"
    judge.parent.mkdir()
    judge.touch()
    assert train_llm(base, data, tmp_path / "mine", tmp_path / "work", tuning, "cpu") is not None
    assert not judge.exists(), "it was fitted to the answers of other weights"
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "mine"))
    assert sum(one.numel() for one in model.parameters()) > 50_000
    assert AutoTokenizer.from_pretrained(str(tmp_path / "mine")).chat_template


def test_full_finetuning_of_a_gguf_file_gives_one_that_can_be_served_and_registered(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    (tmp_path / "recipe.json").write_text('{"steps": 2, "longest": 4000, "rate": 0.01, "batch_tokens": 4000}')
    line = ["train", "llm", "--base", base, "--data", data, "--out", tmp_path / "mine", "--device", "cpu"]
    line += ["--method", "full", "--recipe", tmp_path / "recipe.json", "--no-gate"]
    result = CliRunner().invoke(app, list(map(str, line)))
    assert result.exit_code == 0, result.output
    assert [one.name for one in (tmp_path / "mine.work").glob("*.gguf")] == ["planner.gguf"]
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "mine"), dtype=torch.float32)
    ids = torch.tensor([[72, 101, 108, 108, 111, 44, 32, 119]])
    with torch.inference_mode():
        wanted, before = model(ids).logits, _from_gguf(base)(ids).logits
        found = _from_gguf(tmp_path / "mine.work" / "planner.gguf")(ids).logits
    assert (found - wanted).abs().mean() < 0.2 * (before - wanted).abs().mean()

    # Had the base been a folder, the report would hold that folder's hash. What is installed is the GGUF file.
    report = tmp_path / "mine/report.json"
    report.write_text(report.read_text().replace(sha256_of([base]), "0" * 64))
    measured = {"mine.work": 20.0, "work": 10.0, tmp_path.name: 10.0}
    monkeypatch.setattr(gate, "measured", lambda model, *_: {"small": {gate.PARAMETER_F1: measured[model.parent.name]}})
    line = ["train", "gate", tmp_path / "mine", "--gguf", base, "--data", data]
    result = CliRunner().invoke(app, list(map(str, line)), env={"NESTOR_LLM_REGISTRY": str(tmp_path / "models")})
    assert "promoted in" in result.output, result.output
    found = registered_adapter(tmp_path / "models")
    assert (found.folder, found.base()) == (tmp_path / "models/mine", base.resolve()), "serving needs no --base"
    assert AutoTokenizer.from_pretrained(str(tmp_path / "models/mine")).chat_template


def _from_gguf(file: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)


def test_what_cannot_be_exported_is_not_trained(data: Path, tmp_path: Path) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf", architecture="gemma")
    line = ["train", "llm", "--base", base, "--data", data, "--out", tmp_path / "mine", "--method", "full"]
    result = CliRunner().invoke(app, list(map(str, line)))
    assert result.exit_code == 1
    assert "architecture 'gemma'" in result.output
    assert not (tmp_path / "mine.work").exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"method": "qlora"}, "needs a GPU"),
        ({"longest": 16}, "no conversation has 16 tokens"),
    ],
)
def test_what_cannot_be_done_is_said(
    data: Path, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], told: str
) -> None:
    tuning = TUNING.model_copy(update=changed)
    assert train_llm(base, data, tmp_path / "mine", tmp_path / "work", tuning, "cpu") is None
    assert told in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


def test_other_data_another_base_and_spoilt_files_are_refused(
    data: Path, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, out = tmp_path / "work", tmp_path / "mine"
    assert train_llm(tmp_path / "none", data, out, work, TUNING, "cpu") is None
    assert "neither a GGUF file nor a folder" in capsys.readouterr().err
    assert train_llm(base, tmp_path, out, work, TUNING, "cpu") is None
    assert "not what `nestor train data` writes" in capsys.readouterr().err
    work.mkdir()
    (work / "run.json").write_text('{"base": "another"}')
    assert train_llm(base, data, out, work, TUNING, "cpu") is None
    assert "of another base, data or recipe" in capsys.readouterr().err
    copied = tmp_path / "copied"
    copied.mkdir()
    (copied / "stats.json").write_bytes((data / "stats.json").read_bytes())
    (copied / TRAIN).write_bytes((data / TRAIN).read_bytes() + b"{}\n")
    assert train_llm(base, copied, out, tmp_path / "other", TUNING, "cpu") is None
    assert "make the data anew" in capsys.readouterr().err


def test_the_command_line_counts_before_the_recipe_and_that_before_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text('{"batch_tokens": 1280, "minutes": 5, "rank": 8}')
    found = read_tuning(tmp_path / "recipe.json", "full", 7, None)
    assert found == Tuning(method="full", batch_tokens=1_280, minutes=7, rank=8, rate=FULL_RATE)
    assert read_tuning(None, "lora", None, None) == Tuning()
    (tmp_path / "recipe.json").write_text('{"minutes": 0}')
    with pytest.raises(DataError, match="minutes"):
        read_tuning(tmp_path / "recipe.json", "lora", None, None)
