"""Makes batches from examples: draws candidates, tokenises requests, looks up items, and keeps padding small."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final, TypeVar

import numpy as np
from torch.utils.data import DataLoader, Dataset

from planner_svc.backends.compact.inputs import FEATURES, arrange
from services.contracts.api import Api
from training.planner.api_encodings import ApiEncodings
from training.planner.api_tokens import ApiTokens
from training.planner.examples import Example
from training.planner.learning import Batch, Prepared, collate
from training.planner.recipe import Recipe
from training.planner.synthesis import MADE
from training.planner.targets import Layout, targets
from training.planner.varied import Variation, both
from training.planner.withheld import withhold

_BUCKET: Final = 16
"""Number of batches that are drawn together and sorted by size, so that examples of similar size share a batch."""
_FEW: Final = 6
_HARDLY: Final = 2
_ENDLESS: Final = 10**9
_EVENING: Final = 0.3
"""The weight of a source is its size to this power, so that small ones are drawn often enough."""
_UNSCORED: Final = (0.0,) * FEATURES
_READ: Final = 50
"""APIs that another process reads at a time."""

Made = TypeVar("Made")


class Feed:
    """Batches drawn from recorded and generated examples. The same recipe and examples give the same batches.

    Args:
        recorded: examples of people's requests.
        made: generated examples.
        apis: reads APIs; their tokens, if the lower half is trained.
        tokenizer: of the network's encoder; truncates by itself.
        recipe: how to mix them.
    """

    def __init__(
        self,
        recorded: Sequence[Example],
        made: Sequence[Example],
        apis: ApiEncodings | ApiTokens,
        tokenizer: Any,
        recipe: Recipe,
    ) -> None:
        short = ([one for one in kind if len(one.query) <= recipe.chars] for kind in (recorded, made))
        self._kinds = [_Sources(kind, recipe.weights) for kind in short if kind]
        self._variation = Variation(recorded)
        self._share = recipe.recorded if len(self._kinds) > 1 else float(bool(recorded))
        self._apis, self._tokenizer, self._recipe = apis, tokenizer, recipe
        self._texts = apis if isinstance(apis, ApiTokens) else None

    def batches(self, first: int, processes: int = 0) -> Iterator[Batch]:
        """An endless sequence of batches, starting at that step.

        Args:
            first: number of the first step, from 0.
            processes: that prepare batches besides this one; their number does not change the batches.
        """
        start = first // _BUCKET
        if processes:
            self._read_ahead(processes)
            buckets = _in_processes(self._bucket, range(start, start + _ENDLESS), processes)
        else:
            buckets = map(self._bucket, count(start))
        yield from next(buckets)[first - start * _BUCKET :]
        for bucket in buckets:
            yield from bucket

    def _read_ahead(self, processes: int) -> None:
        """Read all APIs in other processes: each process that prepares batches would read each of them again."""
        if (texts := self._texts) is None:
            return
        examples = (one for kind in self._kinds for one in kind.examples())
        apis = texts.unread(api for one in examples for api in one.candidates)
        parts = [apis[start : start + _READ] for start in range(0, len(apis), _READ)]
        reads = _in_processes(lambda number: [texts.read(api) for api in parts[number]], range(len(parts)), processes)
        for part, read in zip(parts, reads, strict=True):
            for api, one in zip(part, read, strict=True):
                texts.add(api, one)

    def _bucket(self, number: int) -> list[Batch]:
        """``_BUCKET`` batches."""
        rng = random.Random(f"{self._recipe.seed} {number}")  # noqa: S311 - a repeatable order, not a secret
        prepared = [self.prepare(self._draw(rng), rng) for _ in range(_BUCKET * self._recipe.batch)]
        size = self._recipe.batch
        prepared = _alike(prepared, 2 * size)
        chunks = [prepared[start : start + size] for start in range(0, len(prepared), size)]
        rng.shuffle(chunks)
        return [collate(chunk, self._texts) for chunk in chunks]

    def all(self, examples: Sequence[Example]) -> Iterator[Batch]:
        """These examples in batches, each once, with their own scores."""
        rng = random.Random(self._recipe.seed)  # noqa: S311
        size = self._recipe.batch
        for start in range(0, len(examples), size):
            chosen = examples[start : start + size]
            yield collate([self.prepare(one, rng, keep=True) for one in chosen], self._texts)

    def prepare(self, example: Example, rng: random.Random, *, keep: bool = False) -> Prepared:
        """One example as arrays. Draws candidates and scores unless ``keep`` is set."""
        chosen = list(range(len(example.candidates))) if keep else self._candidates(example, rng)
        apis = [example.candidates[index] for index in chosen]
        scores = example.scores if keep or rng.random() >= self._recipe.unscored else None
        features = [_UNSCORED if scores is None else scores[index] for index in chosen]
        encoded = [self._apis.of(api) for api in apis]
        tokens = self._tokenizer.encode(example.query)
        layout = Layout([one.profile for one in encoded], [one.items for one in encoded])
        shown = replace(example, candidates=tuple(apis))
        arranged = arrange(example.query, tokens.offsets, encoded, features)
        return np.asarray(tokens.ids, np.int64), arranged, targets(shown, layout, tokens.offsets)

    def _draw(self, rng: random.Random) -> Example:
        if rng.random() >= self._share:
            return self._kinds[-1].draw(rng)
        found = self._recorded(rng)
        if rng.random() < self._recipe.withheld:
            return withhold(found, rng) or found
        if rng.random() < self._recipe.joined:
            other = self._kinds[0].another(found, rng)
            if len(found.query) + len(other.query) < self._recipe.chars:
                found = both(found, other, rng) or found
        return found

    def _recorded(self, rng: random.Random) -> Example:
        found = self._kinds[0].draw(rng)
        return self._variation.vary(found, rng) if rng.random() < self._recipe.varied else found

    def _candidates(self, example: Example, rng: random.Random) -> list[int]:
        """The right candidates, filled up with others: the first ones of the retriever, or random ones."""
        needed = {call.api for call in example.calls}
        right = [index for index, api in enumerate(example.candidates) if api.id in needed]
        others = [index for index, api in enumerate(example.candidates) if api.id not in needed]
        if example.scores is None or rng.random() >= self._recipe.ranked:
            rng.shuffle(others)
        most = rng.randint(min(_FEW, self._recipe.candidates), self._recipe.candidates)
        if rng.random() < self._recipe.few:
            most = max(1, len(right) + rng.randint(0, _HARDLY))
        units = sum(self._units(example.candidates[index]) for index in right)
        for index in others[: max(0, most - len(right))]:
            units += self._units(example.candidates[index])
            if units > self._recipe.units:
                break
            right.append(index)
        rng.shuffle(right)
        return right

    def _units(self, api: Api) -> int:
        encoded = self._apis.of(api)
        return len(encoded.items) + len(encoded.head)


def _in_processes(make: Callable[[int], Made], numbers: range, processes: int) -> Iterator[Made]:
    """``make`` of each number, made in other processes, a few ahead."""
    loader = DataLoader(
        _Packed(make),
        batch_size=None,
        sampler=numbers,
        num_workers=processes,
        multiprocessing_context="fork",
    )
    for packed in loader:
        yield pickle.loads(packed)  # noqa: S301 - a worker of this process wrote it


class _Packed(Dataset[bytes]):  # type: ignore[misc]  # torch is not installed where types are checked
    """Results as bytes: passed as tensors, they would fill the shared memory, which is small in containers."""

    def __init__(self, make: Callable[[int], object]) -> None:
        self._make = make

    def __getitem__(self, number: int) -> bytes:
        return pickle.dumps(self._make(number))


def _alike(prepared: list[Prepared], group: int) -> list[Prepared]:
    """Group examples of similar length, and sort each group by the number of units."""
    by_length = sorted(prepared, key=lambda one: len(one[0]))
    groups = (by_length[start : start + group] for start in range(0, len(by_length), group))
    return [one for near in groups for one in sorted(near, key=lambda one: len(one[1].units))]


class _Sources:
    """Examples by data set."""

    def __init__(self, examples: Sequence[Example], weights: Mapping[str, float]) -> None:
        by_name: defaultdict[str, list[Example]] = defaultdict(list)
        for example in examples:
            by_name[example.source].append(example)
        self._by_name = dict(by_name)
        self._weights = [
            len(own) ** _EVENING * weights.get(name.removesuffix(MADE), 1.0) for name, own in by_name.items()
        ]

    def examples(self) -> Iterator[Example]:
        """All examples."""
        return chain.from_iterable(self._by_name.values())

    def draw(self, rng: random.Random) -> Example:
        """Draw a source, then one of its examples."""
        return rng.choice(rng.choices(list(self._by_name.values()), self._weights)[0])

    def another(self, example: Example, rng: random.Random) -> Example:
        """Draw another example of the same source."""
        return rng.choice(self._by_name[example.source])
