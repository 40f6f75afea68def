"""Training steps that a killed run can resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from training.shared.checkpoints import Checkpoint, Schedule
from training.shared.devices import use_all_processors

BatchT = TypeVar("BatchT")
LossT = TypeVar("LossT")


class Resumable:
    """A trainer that saves its progress.

    Args:
        schedule: the progress, resumed from the checkpoint.
        checkpoint: stores the state.
        seed: of random draws in a step.
        every: steps between checkpoints.

    Raises:
        CheckpointError: the checkpoint belongs to another run.
    """

    def __init__(self, schedule: Schedule, checkpoint: Checkpoint, seed: int, every: int) -> None:
        self._schedule, self._checkpoint, self._seed, self._every = schedule, checkpoint, seed, every
        checkpoint.resume(schedule)

    @property
    def done(self) -> int:
        """Steps done."""
        return self._schedule.done

    @property
    def progress(self) -> float:
        """0 to 1, by steps done or by time spent, whichever is further."""
        return self._schedule.progress

    def save(self) -> None:
        """Write the checkpoint."""
        self._checkpoint.save(self._schedule)

    def _go_on(
        self,
        batches: Iterator[BatchT],
        step: Callable[[BatchT], LossT],
        report: Callable[[LossT], None],
        stop: Callable[[int], bool],
    ) -> bool:
        """Do the remaining steps.

        Args:
            batches: of those steps.
            step: does one step; its time, and the time of waiting for its batch, are counted.
            report: called with the result of every step, after it is counted and saved.
            stop: called before each step with the number of steps done; True saves a checkpoint and stops.

        Returns:
            Whether the run is complete.
        """
        use_all_processors()
        while self.progress < 1:
            if stop(self.done):
                self.save()
                return False
            start = time.monotonic()
            batch = next(batches)
            torch.manual_seed(self._seed * 1_000_003 + self.done)  # same dropout after a resume
            loss = step(batch)
            self._schedule.done += 1
            self._schedule.seconds += time.monotonic() - start
            if self.done % self._every == 0 or self.progress == 1:
                self.save()
            report(loss)
        return True
