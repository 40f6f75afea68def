"""The training loop: batches, the loss, checkpoints, and resuming a killed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from training.planner.learning import Batch, Tally, losses, to_device
from training.planner.network import Halves, Inputs, Lower, Network
from training.planner.recipe import Recipe
from training.shared.checkpoints import Checkpoint, Schedule
from training.shared.devices import faster_in_bfloat16
from training.shared.steps import Resumable

_EVERY: Final = 100
_DECAY: Final = 0.01
MASK: Final = 103
"""The token that hides a word, in BERT's vocabulary."""

Batches = Callable[[int], Iterator[Batch]]
"""Returns the batches from a step on, always the same ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step: its number from 1, progress from 0 to 1, and the loss by head."""

    number: int
    progress: float
    loss: dict[str, float]


class Trainer(Resumable):
    """Trains the network, in place.

    Args:
        network: the network to train.
        lower: the lower half, trained if the recipe says so.
        recipe: the training options.
        batches: the training data.
        folder: holds the checkpoint; one of the same recipe and data is resumed.
        key: of the data; another key is another run.
        device: to train on.

    Raises:
        CheckpointError: the folder holds a checkpoint of another recipe or of other data.
    """

    def __init__(
        self,
        network: Network,
        lower: Lower,
        recipe: Recipe,
        batches: Batches,
        folder: Path,
        key: str,
        device: torch.device,
    ) -> None:
        self.network, self.lower = network.to(device), lower.to(device).eval()
        self._batches, self._device = batches, device
        self._bfloat16 = faster_in_bfloat16(device.type) if recipe.bfloat16 is None else recipe.bfloat16
        self._share_masked, self._share_kept = recipe.masked, recipe.kept
        self._start = [weight.detach().clone() for half in (network, lower) for weight in half.parameters()]
        encoder, rest = _parted(network)
        parts = [(encoder, recipe.encoder_rate), (rest, recipe.rate)]
        lower.requires_grad_(False)
        if recipe.lower_rate is not None:
            parts.append((list(lower.layers.requires_grad_(True).parameters()), recipe.lower_rate))
        groups = [{"params": weights, "lr": rate, "peak": rate} for weights, rate in parts]
        self._optimizer = torch.optim.AdamW(groups, weight_decay=_DECAY)
        self._trained = [weight for weights, _ in parts for weight in weights]
        checkpoint = Checkpoint(folder, f"{recipe.model_dump_json()} {key}", Halves(network, lower), self._optimizer)
        super().__init__(Schedule(recipe.steps, recipe.minutes, recipe.warmup), checkpoint, recipe.seed, _EVERY)

    def train(self, report: Callable[[Step], None], stop: Callable[[int], bool] = lambda done: False) -> bool:
        """Do the remaining steps.

        Args:
            report: called after every step.
            stop: called before each step with the number of steps done; True saves a checkpoint and stops.

        Returns:
            Whether the run is complete.
        """
        complete = self._go_on(
            self._batches(self.done),
            self._step,
            lambda loss: report(Step(self.done, self.progress, loss)),
            stop,
        )
        if complete:
            self._average()
        return complete

    def measure(self, batches: Iterator[Batch]) -> dict[str, float]:
        """The accuracy of each head on these batches, as percentages."""
        self.network.eval()
        tally = Tally.empty()
        with torch.inference_mode():
            for batch in batches:
                moved = to_device(batch, self._device)
                tally.add(self.network(*self._read(moved)), moved)
        return tally.shares()

    def _average(self) -> None:
        """Mix the weights with those of the start."""
        weights = (weight for half in (self.network, self.lower) for weight in half.parameters())
        with torch.no_grad():
            for weight, start in zip(weights, self._start, strict=True):
                weight.lerp_(start, self._share_kept)

    def _read(self, batch: Batch) -> Inputs:
        """The inputs with the lower half's output, in the precision of the computation."""
        kind = torch.bfloat16 if self._bfloat16 and self.network.training else torch.float32
        read = self.lower(batch.ids, batch.inputs.mask)
        units = batch.inputs.units
        if batch.texts.numel():
            units = self.lower.units(self._masked(batch.texts) if self.network.training else batch.texts, units)
        return batch.inputs._replace(read=read.to(kind), units=units.to(kind))

    def _masked(self, texts: Tensor) -> Tensor:
        """Texts of APIs with some tokens hidden; not their first one, nor the padding."""
        hidden = (torch.rand(texts.shape, device=texts.device) < self._share_masked) & (texts > 0)
        hidden[:, 0] = False
        return texts.masked_fill(hidden, MASK)

    def _step(self, batch: Batch) -> dict[str, float]:
        self.network.train()
        for group in self._optimizer.param_groups:
            group["lr"] = group["peak"] * self._schedule.rate
        moved = to_device(batch, self._device)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bfloat16):
            said = self.network(*self._read(moved))
        parts = losses(type(said)(*(one.float() for one in said)), moved)
        self._optimizer.zero_grad(set_to_none=True)
        torch.stack(list(parts.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimizer.step()
        told = torch.stack([loss.detach() for loss in parts.values()]).tolist()
        return dict(zip(parts, told, strict=True))


def _parted(network: Network) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """The weights of the encoder's layers, and the others."""
    encoder: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, weight in network.named_parameters():
        (encoder if name.startswith("upper.") else rest).append(weight)
    return encoder, rest
