"""Writes the files of a trained model: the weights, a report in JSON, and a model card."""

from __future__ import annotations

import importlib.metadata
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import onnx

from training.retriever.export_encoder import MODEL, export_fp32
from training.retriever.recipe import Recipe
from training.retriever.towers import Towers
from training.shared.cards import file_row, table
from training.shared.exports import save_tokenizer
from training.shared.quantisation import to_int8_dynamic

_LIBRARIES = ("torch", "sentence-transformers", "transformers", "onnx", "onnxscript", "onnxruntime", "tokenizers")
_FILES = (MODEL, "tokenizer.json")


@dataclass(frozen=True, slots=True)
class Data:
    """A folder that was trained on, with the numbers of its APIs and requests."""

    name: str
    licence: str
    apis: int
    trained: int
    validation: int
    held_out: int


class Measured(Protocol):
    """A report of one encoder on one set of requests."""

    @property
    def n(self) -> int:
        """Number of measured requests."""
        ...

    @property
    def catalogue(self) -> int:
        """Number of searched APIs."""
        ...

    @property
    def methods(self) -> dict[str, dict[str, float]]:
        """Percentages by metric, by method."""
        ...

    def model_dump(self) -> dict[str, object]:
        """The whole report."""
        ...


def write_model(towers: Towers, out: Path) -> None:
    """Export the towers in the form that is served: int8 ONNX and the tokenizer."""
    out.mkdir(parents=True, exist_ok=True)
    model = towers.model.to("cpu").float().eval()
    with warnings.catch_warnings(action="ignore"), redirect_stdout(io.StringIO()):  # the exporter's own output
        exported = export_fp32(model)
    onnx.save(to_int8_dynamic(exported), out / MODEL)
    save_tokenizer(model.tokenizer.backend_tokenizer, out / "tokenizer.json")


def write_card(out: Path, recipe: Recipe, data: Sequence[Data], reports: Mapping[str, Mapping[str, Measured]]) -> str:
    """Write ``report.json`` and ``MODEL_CARD.md`` next to the model.

    Args:
        out: the model's folder.
        recipe: of the run.
        data: the folders it read.
        reports: by set of requests, then ``base`` and ``trained``.

    Returns:
        The table of figures.
    """
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    told = {key: {name: one.model_dump() for name, one in pair.items()} for key, pair in reports.items()}
    content = {"recipe": recipe.model_dump(), "data": [asdict(one) for one in data], "versions": versions}
    (out / "report.json").write_text(json.dumps(content | {"validation": told}, indent=2) + "\n", encoding="utf-8")
    figures = _figures(reports)
    parts = [
        f"# {out.name}\n\nThe API Retriever's encoder: requests and APIs to unit vectors of 384 numbers. int8 ONNX.",
        table(("file", "size", "SHA-256"), [file_row(out / name) for name in _FILES]),
        "## Data\n\n" + table(tuple(asdict(data[0])), [tuple(map(str, asdict(one).values())) for one in data]),
        f"## Recipe\n\n```json\n{recipe.model_dump_json(indent=2)}\n```\n\n"
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"## Figures\n\nRequests not trained on, the engine that serves; percent, base > trained.\n\n{figures}",
    ]
    (out / "MODEL_CARD.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return figures


def _figures(reports: Mapping[str, Mapping[str, Measured]]) -> str:
    rows = []
    for key, pair in reports.items():
        base, trained = pair["base"], pair["trained"]
        for method, scores in trained.methods.items():
            changes = (f"{base.methods[method][metric]:.1f} > {value:.1f}" for metric, value in scores.items())
            rows.append((key, f"{trained.n} of {trained.catalogue}", method, *changes))
    metrics = tuple(next(iter(next(iter(reports.values()))["trained"].methods.values()))) if reports else ()
    return table(("requests", "n of APIs", "method", *metrics), rows)
