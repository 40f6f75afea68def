"""The training loop: ranking loss over batches of neighbours, checkpoints, and resuming a killed run.

Model and loss are from sentence-transformers. Its trainer would need `datasets` and `accelerate` (pyarrow, pandas) for
what takes a page here, and could not put neighbours into one batch without a custom sampler.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from training.retriever.batches import Batch, make_batches
from training.retriever.examples import Document, Pair
from training.retriever.recipe import Recipe
from training.retriever.towers import Towers
from training.shared.checkpoints import Checkpoint, Schedule
from training.shared.steps import Resumable

PairsOfEpoch = Callable[[int], Sequence[Pair]]
"""Returns the pairs of an epoch, counted from 0; always the same ones."""


class NothingToTrain(ValueError):
    """No batch can be made of the data."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step.

    Attributes:
        number: from 1.
        total: number of steps.
        progress: 0 to 1, by steps or by time, whichever is further.
        loss: of the batch, before the step.
        first: share of its queries that are nearer to their own document than to any other.
    """

    number: int
    total: int
    progress: float
    loss: float
    first: float


class Trainer(Resumable):
    """Trains the towers. Two trainers with the same recipe and pairs do the same steps on one machine.

    Args:
        towers: the model; changed in place.
        recipe: the training options.
        pairs_of: the training pairs by epoch.
        documents: all documents of the pairs, by id.
        folder: holds the checkpoint; one of the same recipe and pairs is resumed.
        every: steps between checkpoints.

    Raises:
        CheckpointError: the folder holds a checkpoint of another recipe or of other data.
        NothingToTrain: there are too few pairs.
    """

    def __init__(
        self,
        towers: Towers,
        recipe: Recipe,
        pairs_of: PairsOfEpoch,
        documents: Mapping[str, Document],
        folder: Path,
        every: int = 50,
    ) -> None:
        self.towers = towers
        self._recipe, self._documents = recipe, documents
        self._batches = [self._batches_of(epoch, pairs_of(epoch)) for epoch in range(recipe.epochs)]
        schedule = Schedule(sum(map(len, self._batches)), recipe.minutes, recipe.warmup)
        if not schedule.total:
            raise NothingToTrain("there is nothing to train on: fewer pairs than a quarter of a batch")
        self._loss = MultipleNegativesRankingLoss(towers.model, scale=recipe.scale)
        self._optimizer = torch.optim.AdamW(towers.trainable(), lr=recipe.learning_rate, weight_decay=0.01)
        checkpoint = Checkpoint(folder, self._fingerprint(), towers.model, self._optimizer)
        super().__init__(schedule, checkpoint, recipe.seed, every)

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self._schedule.total

    def train(self, report: Callable[[Step], None], stop: Callable[[int], bool] = lambda done: False) -> bool:
        """Do the remaining steps.

        Args:
            report: called after every step.
            stop: called before each step with the number of steps done; True saves a checkpoint and stops.

        Returns:
            Whether the run is complete.
        """
        batches = islice((batch for epoch in self._batches for batch in epoch), self.done, None)
        return self._go_on(
            batches,
            self._step,
            lambda told: report(Step(self.done, self.total, self.progress, *told)),
            stop,
        )

    def _step(self, batch: Batch) -> tuple[float, float]:
        self.towers.model.train()
        texts = [self._documents[pair.document].text for pair in batch.pairs]
        wrong = [self._documents[one].text for one in batch.negatives]
        queries = self.towers.queries([pair.query for pair in batch.pairs])
        documents = self.towers.documents([*texts, *wrong])
        columns = [queries, documents[: len(texts)], documents[len(texts) :]]
        # Every mined document is wrong for every query of the batch, so their number need not match.
        loss = self._loss.compute_loss_from_embeddings([one for one in columns if len(one)], None)
        for group in self._optimizer.param_groups:
            group["lr"] = self._recipe.learning_rate * self._schedule.rate
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.towers.trainable(), 1.0)
        self._optimizer.step()
        return float(loss.detach()), _first(queries.detach(), documents.detach())

    def _batches_of(self, epoch: int, pairs: Sequence[Pair]) -> list[Batch]:
        recipe = self._recipe
        rng = random.Random(f"{recipe.seed} {epoch}")  # noqa: S311 - a repeatable order, not a secret
        return make_batches(pairs, self._documents, recipe.batch, recipe.run, recipe.negatives, rng)

    def _fingerprint(self) -> str:
        """A hash of everything that determines the steps."""
        digest = hashlib.sha256(self._recipe.model_dump_json().encode())
        for batch in (batch for epoch in self._batches for batch in epoch):
            for pair in batch.pairs:
                digest.update(f"{pair.query}\0{self._documents[pair.document].text}\0".encode("utf-8", "replace"))
            digest.update("\0".join(batch.negatives).encode("utf-8", "replace"))
        return digest.hexdigest()


def _first(queries: torch.Tensor, documents: torch.Tensor) -> float:
    """The share of queries that are nearer to their own document than to any other of the batch."""
    near = torch.nn.functional.normalize(queries, dim=1) @ torch.nn.functional.normalize(documents, dim=1).T
    return float((near.argmax(dim=1) == torch.arange(len(queries), device=near.device)).float().mean())
