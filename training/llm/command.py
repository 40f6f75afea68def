"""Implements ``nestor train llm``: loads, trains, and writes the model with its card."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from evals.data import DataError
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from planner_svc.judging.fingerprint import JUDGE
from training.llm.base import ADAPTER, Base, Start, find_base, find_start, load_base
from training.llm.builder import TRAIN, Stats, read_stats
from training.llm.card import BaseReport, Report, StartReport, TrainingReport, read_report, versions, write_card
from training.llm.settings import FULL_RATE, Method, Tuning
from training.llm.trainer import FinetuningResult, finetune
from training.shared.base import BaseError
from training.shared.checkpoints import CheckpointError
from training.shared.devices import DeviceError, choose_device
from training.shared.runs import read_recipe

_KEY: Final = "run.json"
_CONFIG: Final = "adapter_config.json"


def train_llm(
    base: Path, data: Path, out: Path, work: Path, tuning: Tuning, device: str, start: Path | None = None
) -> Report | None:
    """Train and write the model. Progress goes to standard error.

    A run that was killed is continued. A finished run is not repeated.

    Args:
        base: a Hugging Face folder, or a GGUF file.
        data: folder that ``nestor train data`` wrote.
        out: folder of the model: an adapter in peft's format, in half precision, or a whole model (``full``).
        work: folder of checkpoints.
        tuning: the training options.
        device: ``cpu``, ``cuda`` or ``auto``.
        start: adapter to continue from; its rank overrides the recipe's.

    Returns:
        The report; None if an input could not be used, in which case a message was printed.
    """
    console = Console(stderr=True)
    try:
        found = find_base(base)
        before = find_start(start, found) if start is not None else None
        if before is not None:
            tuning = _going_on(tuning, before)
        return _train(found, before, data, out, work, tuning, choose_device(device), console)
    except (DataError, BaseError, CheckpointError, DeviceError) as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return None


def _going_on(tuning: Tuning, start: Start) -> Tuning:
    if tuning.method == "full":
        raise BaseError("an adapter is gone on from with --method lora or qlora: full finetuning has none")
    return tuning.model_copy(update={"rank": start.rank})


def _train(
    base: Base, start: Start | None, data: Path, out: Path, work: Path, tuning: Tuning, device: str, console: Console
) -> Report:
    stats = read_stats(data)
    conversations = _read(data / TRAIN, stats)
    begun = StartReport(name=start.name, sha256=start.sha256) if start is not None else None
    key = _key(base, stats, tuning) | ({"start": begun.sha256} if begun is not None else {})
    _claim(work, key)
    if (done := read_report(out)) is not None and (
        done.base.sha256,
        done.start,
        done.data.sha256,
        done.tuning,
    ) == (base.sha256, begun, stats.sha256, tuning):
        console.print(f"{out} is trained already", markup=False)
        return done
    model, tokenizer = load_base(base, tuning.method, device)
    size = sum(one.numel() for one in model.parameters())
    console.print(
        f"{base.name}: {size / 1e6:.1f} million parameters; {len(conversations):,} conversations", markup=False
    )
    result = finetune(model, tokenizer, conversations, work, tuning, start.path if start is not None else None)
    learnt = sum(one.numel() for one in result.model.parameters() if one.requires_grad)
    write_model(result.model, tokenizer, base, tuning, out)
    report = Report(
        prompt_version=stats.prompt_version,
        base=BaseReport(name=base.name, sha256=base.sha256, parameters=size),
        start=begun,
        tuning=tuning,
        training=_training_report(result, learnt, device),
        data=stats,
        versions=versions(),
    )
    write_card(out, report)
    return report


def read_tuning(recipe: Path | None, method: Method, minutes: float | None, epochs: float | None) -> Tuning:
    """The training options: the defaults, changed by a recipe, then by the command line.

    Full finetuning has a lower default rate: it changes every weight.

    Raises:
        DataError: the recipe cannot be read.
    """
    given = {"minutes": minutes, "epochs": epochs}
    changed: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    read = read_recipe(Tuning, recipe)
    if method == "full" and "rate" not in read.model_fields_set:
        changed["rate"] = FULL_RATE
    return read.model_copy(update=changed | {"method": method})


def write_model(model: Any, tokenizer: Any, base: Base, tuning: Tuning, out: Path) -> None:
    """Write the adapter in half precision, with the name of its base; or the whole model with its tokenizer."""
    out.mkdir(parents=True, exist_ok=True)
    (out / JUDGE).unlink(missing_ok=True)  # it was fitted to the answers of the weights that are replaced
    if tuning.method == "full":
        model.half().save_pretrained(out)
        tokenizer.save_pretrained(out)
        return
    model.save_pretrained(out)
    weights = {name: tensor.half().contiguous() for name, tensor in load_file(out / ADAPTER).items()}
    save_file(weights, out / ADAPTER, metadata={"format": "pt"})
    (out / ADAPTER).chmod(0o644)  # safetensors writes it unreadable for other users
    config = json.loads((out / _CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base.name  # not a local path
    config["target_modules"] = sorted(config["target_modules"])  # peft stores a set
    (out / _CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (out / "README.md").unlink(missing_ok=True)  # peft's empty model card


def _read(file: Path, stats: Stats) -> list[dict[str, Any]]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != stats.sha256:
        raise DataError(f"{file} is not what its statistics were made of: make the data anew")
    if stats.prompt_version != PROMPT_VERSIONS[stats.recipe.properties.detail]:
        raise DataError(f"{file} was made with version {stats.prompt_version} of the prompt: make the data anew")
    return [json.loads(line) for line in content.splitlines()]


def _key(base: Base, stats: Stats, tuning: Tuning) -> dict[str, str]:
    return {"base": base.sha256, "data": stats.sha256, "tuning": tuning.model_dump_json(exclude={"minutes"})}


def _claim(work: Path, key: dict[str, str]) -> None:
    """Check that the checkpoints in a folder belong to this run."""
    file = work / _KEY
    work.mkdir(parents=True, exist_ok=True)
    if file.exists() and json.loads(file.read_text(encoding="utf-8")) != key:
        raise CheckpointError(f"{work} holds checkpoints of another base, data or recipe: remove it, or choose --work")
    file.write_text(json.dumps(key), encoding="utf-8")


def _training_report(result: FinetuningResult, learnt: int, device: str) -> TrainingReport:
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return TrainingReport(
        conversations=result.conversations,
        too_long=result.too_long,
        tokens=result.tokens,
        learnt_tokens=result.learnt,
        steps=result.steps,
        epochs=result.epochs,
        minutes=result.minutes,
        device=name,
        learnt_parameters=learnt,
        losses=list(result.losses),
    )
