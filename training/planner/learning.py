"""Batches, the loss, and the accuracy of the network on unseen examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from planner_svc.backends.compact.inputs import NOWHERE, Ints, Origin
from planner_svc.backends.compact.inputs import Inputs as Arranged
from training.planner.api_tokens import ApiTokens, gathered
from training.planner.network import Inputs, Outputs
from training.planner.targets import UNKNOWN, Targets

_CALLED: Final = 4.0
"""Weight of the loss on calls; see :func:`losses`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded inputs and targets. The targets are as in :class:`Targets`, with an additional first axis.

    ``ids``: (B, T) input of the lower half; ``inputs.read`` is empty until that has run. ``texts``: (C, L) texts of the
    APIs, if the lower half is trained. ``inputs.units`` are ranges of their tokens then, until it has run.
    """

    ids: Tensor
    texts: Tensor
    inputs: Inputs
    call: Tensor
    count: Tensor
    source: Tensor
    form: Tensor
    start: Tensor
    end: Tensor
    option: Tensor
    reference: Tensor
    answer: Tensor
    size: Tensor


Prepared = tuple[Ints, Arranged, Targets]
"""The ids of a request's tokens, the network's inputs, and its targets."""


def collate(examples: Sequence[Prepared], texts: ApiTokens | None = None) -> Batch:
    """Pad examples to one size. ``texts`` are those of the APIs, if the lower half is trained."""
    ids, given, wanted = zip(*examples, strict=True)
    tokens, items = max(map(len, ids)), max(len(one.kind) for one in given)
    starts = np.cumsum([0, *(len(one.units) for one in given)])
    width = max(one.rows.shape[1] for one in given)
    most = max(len(one.rows) for one in given)
    units = np.concatenate([one.units for one in given])
    shown: list[Ints] = []
    if texts is not None:
        units, shown = gathered(units, texts)
    inputs = Inputs(
        read=torch.zeros(0),
        mask=_padded([np.ones_like(one) for one in ids], (tokens,), 0),
        looks=_padded([one.looks for one in given], (tokens,), 0),
        units=torch.from_numpy(units),
        unit_kind=torch.from_numpy(np.concatenate([one.unit_kind for one in given])),
        unit_shape=torch.from_numpy(np.concatenate([one.unit_shape for one in given])),
        rows=torch.cat(
            [
                _padded(list(np.where(one.rows < 0, NOWHERE, one.rows + start)), (width,), NOWHERE)
                for one, start in zip(given, starts, strict=False)
            ]
        ),
        request=torch.from_numpy(np.repeat(np.arange(len(given)), [len(one.rows) for one in given])),
        tops=_padded([one.rows[:, 0] + start for one, start in zip(given, starts, strict=False)], (most,), NOWHERE),
        place=_padded([one.place + start for one, start in zip(given, starts, strict=False)], (items,), NOWHERE),
        kind=_padded([one.kind for one in given], (items,), -1),
        shape=_padded([one.shape for one in given], (items,), 0),
        owner=_padded([one.owner for one in given], (items,), -1),
        parent=_padded([one.parent for one in given], (items,), 0),
        features=_padded([one.features for one in given], (items,), 0),
        matches=_padded([one.matches > 0 for one in given], (items, tokens), 0),
    )
    per_item = {
        name: _padded([getattr(one, name) for one in wanted], (items,), UNKNOWN)
        for name in ("call", "count", "source", "form", "option", "reference", "answer")
    }
    return Batch(
        _padded(ids, (tokens,), 0),
        _padded(shown, (max(map(len, shown)),), 0) if shown else torch.zeros(0),
        inputs,
        **per_item,
        size=torch.tensor([one.size for one in wanted]),
        start=_padded([one.start for one in wanted], (items, tokens), 0),
        end=_padded([one.end for one in wanted], (items, tokens), 0),
    )


def losses(said: Outputs, batch: Batch) -> dict[str, Tensor]:
    """The loss of each head, each a mean over its known targets.

    Nothing else matters if the wrong APIs are called, and most candidates are easy. So the loss on calls has a larger
    weight, and a second loss lets candidates compete with each other and with calling none.
    """
    spans = batch.source == Origin.SPAN
    references = (batch.source == Origin.REFERENCE) & (batch.reference != UNKNOWN)
    return {
        "call": _CALLED * _binary(said.call, batch.call),
        "choice": _chosen(said.call, batch.call),
        "count": _choice(said.count, batch.count),
        "source": _choice(said.source, batch.source),
        "form": _choice(said.form, batch.form),
        "start": _pointed(said.start, batch.start, spans),
        "end": _pointed(said.end, batch.end, spans),
        "option": _binary(said.option, batch.option),
        "reference": _choice(said.reference, torch.where(references, batch.reference, UNKNOWN)),
        "answer": _binary(said.answer, batch.answer),
        "size": functional.cross_entropy(said.size, batch.size),
    }


@dataclass(slots=True)
class Tally:
    """Counts of right answers: pairs of (right, asked) by head; ``calls`` compares whole sets of APIs."""

    counts: dict[str, list[int]]

    @classmethod
    def empty(cls) -> Tally:
        """A tally without counts."""
        return cls({})

    def add(self, said: Outputs, batch: Batch) -> None:
        """Count one batch."""
        known = batch.call != UNKNOWN
        right = ((said.call > 0).long() == batch.call) | ~known
        self._note("calls", right.all(dim=1), torch.ones(len(right), dtype=torch.bool))
        self._note("size", said.size.argmax(dim=1) == batch.size, torch.ones(len(right), dtype=torch.bool))
        self._note("source", said.source.argmax(dim=2) == batch.source, batch.source != UNKNOWN)
        self._note("form", said.form.argmax(dim=2) == batch.form, batch.form != UNKNOWN)
        spans = batch.source == Origin.SPAN
        whole = _at(batch.start, said.start) & _at(batch.end, said.end)
        self._note("span", whole, spans)
        self._note("option", (said.option > 0).long() == batch.option, batch.option != UNKNOWN)
        self._note("reference", said.reference.argmax(dim=2) == batch.reference, batch.reference != UNKNOWN)
        self._note("answer", (said.answer > 0).long() == batch.answer, batch.answer != UNKNOWN)

    def shares(self) -> dict[str, float]:
        """Percentages by head."""
        return {name: round(100 * right / asked, 1) for name, (right, asked) in self.counts.items() if asked}

    def _note(self, name: str, right: Tensor, asked: Tensor) -> None:
        count = self.counts.setdefault(name, [0, 0])
        count[0] += int((right & asked).sum())
        count[1] += int(asked.sum())


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the batch to the network's device. What is true or false is moved in a byte, and becomes a float there."""

    def to(one: Tensor) -> Tensor:
        there = one.to(device)
        return there.float() if one.dtype == torch.bool else there

    moved = {name: to(getattr(batch, name)) for name in Batch.__slots__ if name != "inputs"}
    return Batch(inputs=Inputs(*map(to, batch.inputs)), **moved)


def _at(wanted: Tensor, said: Tensor) -> Tensor:
    """Whether the token with the highest score is a target."""
    return torch.gather(wanted, 2, said.argmax(dim=2, keepdim=True)).squeeze(2) > 0


def _binary(logits: Tensor, wanted: Tensor) -> Tensor:
    known = wanted != UNKNOWN
    if not known.any():
        return _zero(logits)
    return functional.binary_cross_entropy_with_logits(logits[known], wanted[known].float())


def _chosen(logits: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy over a request's candidates and "none", with the called ones as targets."""
    none = logits.new_zeros(len(logits), 1)
    offered = torch.cat([logits.masked_fill(wanted == UNKNOWN, -1e4), none], dim=1)
    called = torch.cat([wanted == 1, ~(wanted == 1).any(dim=1, keepdim=True)], dim=1).to(logits.dtype)
    return functional.cross_entropy(offered, called / called.sum(dim=1, keepdim=True))


def _choice(logits: Tensor, wanted: Tensor) -> Tensor:
    known = wanted != UNKNOWN
    return functional.cross_entropy(logits[known], wanted[known]) if known.any() else _zero(logits)


def _pointed(logits: Tensor, wanted: Tensor, asked: Tensor) -> Tensor:
    """Cross-entropy with equal shares for all target tokens."""
    if not asked.any():
        return _zero(logits)
    share = wanted[asked] / wanted[asked].sum(dim=1, keepdim=True).clamp(min=1)
    return functional.cross_entropy(logits[asked], share)


def _zero(logits: Tensor) -> Tensor:
    return 0 * logits.sum()


def _padded(arrays: Iterable[np.ndarray], shape: tuple[int, ...], filling: int) -> Tensor:
    """Arrays with different first axes as one tensor."""
    listed = list(arrays)
    full = np.full((len(listed), *shape, *listed[0].shape[len(shape) :]), filling, listed[0].dtype)
    for row, array in enumerate(listed):
        full[row][tuple(slice(0, size) for size in array.shape)] = array
    return torch.from_numpy(full)
