"""The training loop: batches, the loss, checkpoints, and going on where a killed run stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from training.planner.learning import Batch, Tally, losses, to_device
from training.planner.network import Network
from training.planner.recipe import Recipe
from training.shared.checkpoints import Checkpoint, Course
from training.shared.devices import faster_in_bfloat16
from training.shared.steps import Resumable

_EVERY: Final = 100
_DECAY: Final = 0.01

Batches = Callable[[int], Iterator[Batch]]
"""The batches from a step on, the same ones whenever they are asked for."""


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one step: its number from 1, progress from 0 to 1, and the loss by head."""

    number: int
    progress: float
    loss: dict[str, float]


class Trainer(Resumable):
    """Trains the network, in place.

    Args:
        network: what is trained.
        recipe: how.
        batches: on what.
        folder: where the checkpoint is kept; one of the same recipe and data is resumed.
        key: of the data; another key is another run.
        device: where.

    Raises:
        CheckpointError: the folder holds a checkpoint of another recipe or of other data.
    """

    def __init__(
        self, network: Network, recipe: Recipe, batches: Batches, folder: Path, key: str, device: torch.device
    ) -> None:
        self.network = network.to(device)
        self._batches, self._device = batches, device
        self._bfloat16 = faster_in_bfloat16(device.type) if recipe.bfloat16 is None else recipe.bfloat16
        encoder, rest = _parted(network)
        self._optimizer = torch.optim.AdamW(
            [
                {"params": encoder, "lr": recipe.encoder_rate, "peak": recipe.encoder_rate},
                {"params": rest, "lr": recipe.rate, "peak": recipe.rate},
            ],
            weight_decay=_DECAY,
        )
        checkpoint = Checkpoint(folder, f"{recipe.model_dump_json()} {key}", network, self._optimizer)
        super().__init__(Course(recipe.steps, recipe.minutes, recipe.warmup), checkpoint, recipe.seed, _EVERY)

    def train(self, report: Callable[[Step], None], stop: Callable[[int], bool] = lambda done: False) -> bool:
        """Do the steps that are left.

        Args:
            report: told of every step.
            stop: asked before each step with the number of steps done; True leaves a checkpoint and stops.

        Returns:
            Whether the run is over.
        """
        return self._go_on(
            self._batches(self.done),
            self._step,
            lambda loss: report(Step(self.done, self.progress, loss)),
            stop,
        )

    def measure(self, batches: Iterator[Batch]) -> dict[str, float]:
        """How often each head is right on these, as percentages."""
        self.network.eval()
        tally = Tally.empty()
        with torch.inference_mode():
            for batch in batches:
                moved = to_device(batch, self._device)
                tally.add(self.network(*moved.inputs), moved)
        return tally.shares()

    def _step(self, batch: Batch) -> dict[str, float]:
        self.network.train()
        for group in self._optimizer.param_groups:
            group["lr"] = group["peak"] * self._course.rate
        moved = to_device(batch, self._device)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bfloat16):
            said = self.network(*moved.inputs)
        parts = losses(type(said)(*(one.float() for one in said)), moved)
        self._optimizer.zero_grad(set_to_none=True)
        torch.stack(list(parts.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimizer.step()
        return {name: float(loss.detach()) for name, loss in parts.items()}


def _parted(network: Network) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """The encoder's weights, without the word table, which stays as it is; and the others."""
    encoder, rest = [], []
    for name, weight in network.named_parameters():
        if "word_embeddings" in name:
            weight.requires_grad_(False)
        elif name.startswith("encoder."):
            encoder.append(weight)
        else:
            rest.append(weight)
    return encoder, rest
