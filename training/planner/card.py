"""Writes the report (JSON) and the model card of a trained planner."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from training.planner.recipe import Recipe
from training.shared.cards import file_row, table

_LIBRARIES = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime", "tokenizers")
_FILES = (
    "model.onnx",
    "planner.onnx",
    "tokenizer.json",
    "calls.npz",
    "sets.npz",
    "spans.npz",
    "links.npz",
    "calibration.json",
)


@dataclass(frozen=True, slots=True)
class Data:
    """A folder that was trained on, with the numbers of its APIs and requests."""

    name: str
    licence: str
    apis: int
    recorded: int
    made: int
    held_out: int


Shares = Mapping[str, Mapping[str, float]]


def write_card(out: Path, recipe: Recipe, data: Sequence[Data], held_out: Shares, judged: Shares) -> str:
    """Write ``report.json`` and ``MODEL_CARD.md`` next to the model.

    Args:
        out: the model's folder.
        recipe: of the run.
        data: the folders it read.
        held_out: how often each head is right on the held-out requests of each folder, in percent.
        judged: how often the first choices of the network and of the second stage are right, in percent.

    Returns:
        The table of figures.
    """
    # Names only, no local paths.
    places = {name: Path(place).name for name in ("base", "start") if (place := getattr(recipe, name)) is not None}
    recipe = recipe.model_copy(update=places)
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    content = {"recipe": recipe.model_dump(), "data": [asdict(one) for one in data], "versions": versions}
    measured = {"held_out": held_out, "second_stage": judged}
    report = content | {what: {name: dict(one) for name, one in shares.items()} for what, shares in measured.items()}
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    heads = figures(held_out)
    parts = [
        f"# {out.name}\n\nThe compact planner's network (docs/adr/0009-planner-network.md). int8 ONNX.",
        table(("file", "size", "SHA-256"), [file_row(out / name) for name in _FILES if (out / name).exists()]),
        "## Data\n\n" + table(tuple(asdict(data[0])), [tuple(map(str, asdict(one).values())) for one in data]),
        f"## Recipe\n\n```json\n{recipe.model_dump_json(indent=2)}\n```\n\n"
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "## What the heads are right about\n\nRequests held out, with the retriever's own candidates; percent. "
        f"`calls`: the set of APIs is just the right one.\n\n{heads}",
        "## The second stage\n\nHow often just the right candidates are called, and the first choice is right of the "
        "words and other calls' outputs that were looked at: by the network, and by judges that had not seen the "
        "request; percent. `calls, together`: the set that is likeliest right as a whole, which is what is called.\n\n"
        f"{figures(judged)}",
    ]
    (out / "MODEL_CARD.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return heads


def figures(held_out: Shares) -> str:
    """A table of percentages, with a row for each folder."""
    heads = list(dict.fromkeys(head for shares in held_out.values() for head in shares))
    rows = [
        (name, *(f"{shares[head]:.1f}" if head in shares else "" for head in heads))
        for name, shares in held_out.items()
    ]
    return table(("folder", *heads), rows)
