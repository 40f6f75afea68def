"""Trains the planner on another machine: one that has a GPU, but neither the data nor the services' packages.

``nestor train planner --prepare`` writes a folder with all that the steps need. Over there, ``python -m
training.planner.prepared FOLDER`` trains, and writes the weights to the folder (``trained.pt``). Back home, the first
command, without ``--prepare``, takes them from there instead of training. The other machine needs this repository's
code, torch, transformers, tokenizers, numpy, pydantic, orjson and jsonschema-rs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel

from training.planner.api_tokens import ApiTokens
from training.planner.examples import Example, TrainingData
from training.planner.feeding import Feed
from training.planner.files import read_examples, write_examples
from training.planner.network import Halves, Lower, Network, Sizes
from training.planner.recipe import Recipe
from training.planner.trainer import Step, Trainer
from training.shared.checkpoints import CheckpointError
from training.shared.devices import choose_device, feeders

PREPARED: Final = "prepared"
"""Name of the folder in a run's work folder."""
_ABOUT, _START, _TRAINED = "prepared.json", "start.pt", "trained.pt"
_FROZEN: Final = "lower.embeddings."
"""Weights that training leaves as they are."""
_LOOKS: Final = 5
"""How often the held-out requests are measured, at equal shares of the training."""
_TOLD: Final = 50
"""Steps between two lines about the loss."""


def halves_of(encoder: torch.nn.Module, recipe: Recipe) -> tuple[Network, Lower]:
    """Both halves of a new network, with the layers of an encoder (``BertModel``)."""
    torch.manual_seed(recipe.seed)
    sizes = Sizes(lower=recipe.lower, width=recipe.width, layers=recipe.layers)
    network = Network(encoder, encoder.config.hidden_size, sizes, recipe.dropout)
    return network, Lower(encoder, recipe.lower)


def write_prepared(
    folder: Path, data: TrainingData, halves: Halves, encoder: Any, tokenizer: Tokenizer, recipe: Recipe, key: str
) -> None:
    """Write the folder. Weights are halved in precision, since the folder is to be copied.

    Args:
        folder: to write.
        data: all examples.
        halves: the network to start from.
        encoder: configuration of its encoder.
        tokenizer: of its encoder.
        recipe: the training options.
        key: of the data, for :func:`read_trained`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(data.held_out)
    for name, examples in (("recorded", data.recorded), ("made", data.made)):
        write_examples(folder / f"{name}.jsonl.gz", examples)
    for number, name in enumerate(names):
        write_examples(folder / f"held-out-{number}.jsonl.gz", data.held_out[name])
    torch.save({name: weight.half() for name, weight in halves.state_dict().items()}, folder / _START)
    encoder.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"recipe": recipe.model_dump(mode="json"), "key": key, "held_out": names}
    (folder / _ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def read_trained(folder: Path, halves: Halves, recipe: Recipe, key: str) -> bool:
    """Take the weights that were trained elsewhere; False if there are none.

    Raises:
        CheckpointError: they cannot be read, or are of another recipe, other data or another network.
    """
    file = folder / _TRAINED
    if not file.exists():
        return False
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        told, weights = (state["recipe"], state["key"]), dict(state["weights"])
    except Exception as error:  # the unpickler may raise anything
        raise CheckpointError(f"{file} cannot be read, remove it: {error}") from error
    if told != (recipe.model_dump_json(), key):
        raise CheckpointError(f"{file} is of another recipe or of other data: remove it, or prepare again")
    frozen = {name: weight for name, weight in halves.state_dict().items() if name.startswith(_FROZEN)}
    try:
        halves.load_state_dict(frozen | weights)
    except RuntimeError as error:
        raise CheckpointError(f"{file} is of another network: remove it, or prepare again") from error
    return True


def train_prepared(folder: Path, device: torch.device, work: Path) -> None:
    """Train what a folder holds, and write the weights to it. A killed run is continued.

    Args:
        folder: that :func:`write_prepared` wrote.
        device: to train on.
        work: folder of the checkpoint.

    Raises:
        CheckpointError: the work folder is of another run.
        OSError: the folder cannot be read.
    """
    about = json.loads((folder / _ABOUT).read_bytes())
    recipe, key = Recipe.model_validate(about["recipe"]), str(about["key"])
    encoder = AutoModel.from_config(AutoConfig.from_pretrained(str(folder)), add_pooling_layer=False)
    network, lower = halves_of(encoder, recipe)
    start = torch.load(folder / _START, map_location="cpu", weights_only=True)
    Halves(network, lower).load_state_dict({name: weight.float() for name, weight in start.items()})
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    held = {name: _read(folder, f"held-out-{number}") for number, name in enumerate(about["held_out"])}
    feed = Feed(_read(folder, "recorded"), _read(folder, "made"), ApiTokens(tokenizer), tokenizer, recipe)
    work.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(network, lower, recipe, partial(feed.batches, processes=feeders(device)), work, key, device)
    looked = int(_LOOKS * trainer.progress)

    def look() -> None:
        for name, shares in look_at(trainer, feed, held).items():
            _say({"progress": round(trainer.progress, 3), "of": name, **shares})

    def note(step: Step) -> None:
        nonlocal looked
        if step.number % _TOLD == 0:
            _say({"step": step.number, "progress": round(step.progress, 4), "loss": sum(step.loss.values())})
        if looked < int(_LOOKS * step.progress) < _LOOKS:
            looked = int(_LOOKS * step.progress)
            look()

    trainer.train(note)
    look()
    weights = {
        name: weight.half().cpu()
        for name, weight in Halves(trainer.network, trainer.lower).state_dict().items()
        if not name.startswith(_FROZEN)
    }
    torch.save({"recipe": recipe.model_dump_json(), "key": key, "weights": weights}, folder / _TRAINED)


def look_at(trainer: Trainer, feed: Feed, held_out: Mapping[str, Sequence[Example]]) -> dict[str, dict[str, float]]:
    """How often the heads are right on the held-out requests, by folder; in percent."""
    return {name: trainer.measure(feed.all(held)) for name, held in held_out.items()}


def _read(folder: Path, name: str) -> list[Example]:
    return list(read_examples(folder / f"{name}.jsonl.gz"))


def _say(line: Mapping[str, object]) -> None:
    print(json.dumps(line), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m training.planner.prepared", description=__doc__)
    parser.add_argument("folder", type=Path, help="that `nestor train planner --prepare` wrote")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")
    parser.add_argument("--work", type=Path, help="folder of the checkpoint (default: FOLDER)")
    given = parser.parse_args(arguments)
    try:
        train_prepared(given.folder, torch.device(choose_device(given.device)), given.work or given.folder)
    except (CheckpointError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
