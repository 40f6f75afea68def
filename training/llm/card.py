"""Writes the files that accompany a finetuned model: ``report.json``, ``MODEL_CARD.md`` and ``NOTICE``."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from services.registry import Entry, PromptForm
from training.llm.builder import Stats
from training.llm.settings import Tuning
from training.llm.statistics import ALL, as_table
from training.shared.base import BaseError
from training.shared.cards import file_row, table

REPORT: Final = "report.json"
_LIBRARIES: Final = ("torch", "transformers", "peft", "trl", "datasets", "accelerate")
_SHOWN_LOSSES: Final = 24


class BaseReport(BaseModel):
    """The base model."""

    name: str
    sha256: str
    parameters: int


class StartReport(BaseModel):
    """The adapter that training continued from."""

    name: str
    sha256: str


class TrainingReport(BaseModel):
    """The results of the run; see :class:`training.llm.trainer.FinetuningResult`."""

    conversations: int
    too_long: int
    tokens: int
    learnt_tokens: int
    steps: int
    epochs: float
    minutes: float
    device: str
    learnt_parameters: int
    losses: list[dict[str, float]]


class Report(BaseModel):
    """The content of ``report.json``."""

    prompt_version: str
    base: BaseReport
    start: StartReport | None = None
    tuning: Tuning
    training: TrainingReport
    data: Stats
    versions: dict[str, str]

    @property
    def detail(self) -> PromptForm:
        """The form of the prompt that was trained with."""
        return self.data.recipe.properties.detail

    def entry(self, name: str) -> Entry:
        """The model's entry in the registry, before it is measured."""
        return Entry(
            name=name,
            base=self.base.name,
            base_sha256=self.base.sha256,
            prompt_version=self.prompt_version,
            detail=self.detail,
            data_sha256=self.data.sha256,
        )


def versions() -> dict[str, str]:
    """Versions of the libraries that affect the result."""
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}


def read_report(folder: Path) -> Report | None:
    """The report of a finished run; None if there is none.

    Raises:
        BaseError: it is malformed.
    """
    try:
        return Report.model_validate_json((folder / REPORT).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise BaseError(f"{folder / REPORT} cannot be read: {error}") from None


def write_card(out: Path, report: Report) -> None:
    """Write report, card and notice next to the weights."""
    (out / REPORT).write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (out / "NOTICE").write_text(_notice(report), encoding="utf-8")
    (out / "MODEL_CARD.md").write_text(_card(out, report), encoding="utf-8")


def _card(out: Path, report: Report) -> str:
    told, tuning, data = report.training, report.tuning, report.data
    weights = sorted(file for file in out.iterdir() if file.suffix in (".safetensors", ".gguf"))
    losses = told.losses[:: max(len(told.losses) // _SHOWN_LOSSES, 1)]
    facts = [
        ("base", f"{report.base.name}, {report.base.parameters / 1e6:.1f} million parameters"),
        ("base's SHA-256", f"`{report.base.sha256}`"),
        ("begun from", f"{report.start.name}, SHA-256 `{report.start.sha256}`" if report.start else "the base"),
        ("method", f"{tuning.method}, {told.learnt_parameters / 1e6:.1f} million parameters learnt"),
        (
            "prompt",
            f"version {report.prompt_version} (`planner_svc/backends/served/prompt.py`), form `{report.detail}`",
        ),
        ("conversations", f"{told.conversations:,}; {told.too_long:,} longer than {tuning.longest:,} tokens left out"),
        ("tokens", f"{told.tokens:,}, of which {told.learnt_tokens:,} are learnt: those of answers"),
        ("training", f"{told.steps:,} steps, {told.epochs:g} passes, {told.minutes:g} minutes on a {told.device}"),
        ("libraries", ", ".join(f"{name} {version}" for name, version in report.versions.items())),
    ]
    parts = [
        f"# {out.name}\n\nA language model that plans API calls: it reads Nestor's prompt and answers with calls as "
        "JSON. Its plans are compiled and checked like any other planner's.",
        table(("file", "size", "SHA-256"), [file_row(file) for file in weights]),
        table(("", ""), facts),
        f"## Data\n\n{as_table(data.counts)}\n\n"
        + table(("folder", "licence and source"), [(name, one.licence) for name, one in data.folders.items()])
        + f"\n\n{data.counts[ALL].requests:,} requests; tokens of this table are estimated. Held out and left out: "
        "see `report.json`.",
        "## Loss\n\nOn answers' tokens, mean since the line before.\n\n"
        + table(("step", "loss"), [(f"{one['step']:.0f}", f"{one['loss']:.3f}") for one in losses]),
        f"## Recipe\n\n```json\n{tuning.model_dump_json(indent=2)}\n```",
        "## Limits\n\nIt answers in JSON and in nothing else. It was taught with this form of the "
        "prompt; with another form or version it is of no use. Small models invent values: serve it behind the "
        "compiler.",
    ]
    return "\n\n".join(parts) + "\n"


def _notice(report: Report) -> str:
    learnt = [f"- {name}: {one.licence}" for name, one in report.data.folders.items() if one.recorded or one.made]
    return (
        f"Finetuned from {report.base.name}, whose own licence and notice apply to what is made of both.\n\n"
        "It was trained on data of others, none of which is part of this folder:\n" + "\n".join(learnt) + "\n"
    )
