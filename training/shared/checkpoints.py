"""State shared by training loops: progress, learning rate and checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

CHECKPOINT: Final = "checkpoint.pt"
"""File name of a run's checkpoint in its work folder."""


class CheckpointError(RuntimeError):
    """The checkpoint in the work folder belongs to another run. The message says what to do."""


@dataclass(slots=True)
class Schedule:
    """The learning rate and the progress of a run.

    Attributes:
        total: steps of the whole run.
        minutes: time limit of training, if any.
        warmup: share of the run in which the learning rate rises.
        done: steps so far.
        seconds: of training so far.
    """

    total: int
    minutes: float | None
    warmup: float
    done: int = 0
    seconds: float = 0.0

    @property
    def progress(self) -> float:
        """0 to 1, by steps done or by time spent, whichever is further."""
        spent = min(1.0, self.seconds / (60 * self.minutes)) if self.minutes else 0.0
        return max(self.done / self.total, spent)

    @property
    def rate(self) -> float:
        """The factor on the learning rate: linear warm-up, then linear decay, never 0 before the end."""
        if self.progress < self.warmup:
            return max(self.progress, 1 / self.total) / self.warmup
        return (1 - self.progress) / (1 - self.warmup) if self.warmup < 1 else 1.0


class Checkpoint:
    """The state of a run on disk.

    Args:
        folder: its work folder.
        key: of everything that determines the steps: another key is another run.
        model: whose weights are saved.
        optimizer: whose state is saved.
    """

    def __init__(self, folder: Path, key: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._file, self._key, self._model, self._optimizer = folder / CHECKPOINT, key, model, optimizer

    def save(self, schedule: Schedule) -> None:
        """Write a temporary file and rename it, so that a kill never leaves a partial checkpoint."""
        part = self._file.with_suffix(".part")
        state = {
            "key": self._key,
            "done": schedule.done,
            "seconds": schedule.seconds,
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        torch.save(state, part)
        part.replace(self._file)

    def resume(self, schedule: Schedule) -> None:
        """Restore the state from the checkpoint; do nothing if there is none.

        Raises:
            CheckpointError: it cannot be read, or belongs to another run.
        """
        if not self._file.exists():
            return
        try:
            state: dict[str, Any] = torch.load(self._file, map_location="cpu", weights_only=True)
        except Exception as error:  # the unpickler may raise anything
            raise CheckpointError(f"{self._file} cannot be read, remove it: {error}") from error
        if state["key"] != self._key:
            raise CheckpointError(f"{self._file} is of another recipe or of other data: remove it, or go on with those")
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        schedule.done, schedule.seconds = int(state["done"]), float(state["seconds"])


def start(model: torch.nn.Module, folder: Path) -> None:
    """Load the weights of an earlier run into a model. Weights that the earlier one lacks are kept.

    Raises:
        CheckpointError: its checkpoint cannot be read, or is of another kind of model.
    """
    try:
        state: dict[str, Any] = torch.load(folder / CHECKPOINT, map_location="cpu", weights_only=True)
        model.load_state_dict(_fitted(state["model"], model.state_dict()))
    except Exception as error:  # the unpickler may raise anything
        raise CheckpointError(f"cannot start from {folder / CHECKPOINT}: {error}") from error


def _fitted(earlier: dict[str, torch.Tensor], own: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The earlier weights, with the model's own values for new tensors and for new rows of larger ones."""
    fitted = {name: weight.clone() for name, weight in own.items()}
    for name, weight in earlier.items():
        (fitted[name][: len(weight)] if weight.dim() else fitted[name]).copy_(weight)
    return fitted
