"""An index of a million vectors: build time, recall, search latency, and memory.

Every part is a separate process, ``python -m bench.index ROLE ...``, so that the serving process never holds the raw
vectors. The vectors are synthetic, generated in portions from a seed. They imitate the embeddings of the 33,194
operations of public APIs that ``nestor eval retrieve`` uses: the same share of a common direction, the same decay of
variance, and neighbours (a provider's operations, and groups of similar ones among them) that cells miss as often. If
1 vector in 32 of 33,194 is searched, recall@10 is 0.964 on the real vectors and 0.954 on these.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure
from bench.processes import peak_rss_mb, rss_mb
from retriever_svc.engine.vectors import Ids, Indexes, Source, VectorIndex, open_indexes

COUNT = 1_000_000
FLAT = (33_000, 100_000)
DIMENSION = 384
SEARCHES = 2_000
JUDGED = 500
"""Number of searches whose result is compared with the exact one."""
DEPTH = 50
"""Neighbours per search, as in the retriever. The first ten are compared."""

_SOURCE = Source("synthetic", DIMENSION, "1")
_PORTION = 10_000
_IMPORT = 50_000
"""Vectors inserted at a time."""
_PROVIDER, _GROUP = 125, 20
"""Number of vectors of a provider, and of a group of similar ones within it."""
_TOPICS = 1_000
_SHARES = {"common": 0.17, "provider": 0.23, "group": 0.15, "own": 0.45}
"""Mean share of each component in a vector's squared length."""

Floats = NDArray[np.float32]


def measure() -> list[Figure]:
    """The figures of an index with cells, and of flat ones for comparison."""
    with tempfile.TemporaryDirectory() as folder:
        built = _child("build", "auto", folder, COUNT)
        served = _child("serve", "auto", folder, COUNT)
        name = f"{COUNT:,} vectors"
        figures = [
            Figure(f"{name}: build", built["build_s"], "s"),
            Figure(f"{name}: most memory while building", built["peak_mb"], "MB"),
            Figure(f"{name}: file", built["file_mb"], "MB"),
            Figure(f"{name}: load, every byte checked", served["load_s"], "s"),
            Figure(f"{name}: recall@10 against exact", served["recall"], "", 0.95, at_least=True),
            Figure(f"{name}: search, p50", served["p50_ms"], "ms"),
            Figure(f"{name}: search, p99", served["p99_ms"], "ms", 5),
            Figure(f"{name}: search among one in ten, p99", served["filtered_ms"], "ms"),
            Figure(f"{name}: memory of the process that serves it", served["rss_mb"], "MB", 600),
            Figure(f"{name}: change one", served["change_ms"], "ms"),
        ]
    for count in FLAT:
        with tempfile.TemporaryDirectory() as folder:
            built, served = (_child(role, "flat", folder, count) for role in ("build", "serve"))
        name = f"{count:,} vectors, flat"
        figures += [
            Figure(f"{name}: build", built["build_s"], "s"),
            Figure(f"{name}: search, p50", served["p50_ms"], "ms"),
            Figure(f"{name}: search, p99", served["p99_ms"], "ms"),
            Figure(f"{name}: memory of the process that serves it", served["rss_mb"], "MB"),
        ]
    return figures


def portions(count: int) -> Iterator[tuple[Ids, Floats]]:
    """Deterministic ids and vectors of length 1, in portions, ``count`` in total."""
    for start in range(0, count, _PORTION):
        yield np.arange(start, min(start + _PORTION, count)), _portion(start)[: count - start]


def queries(count: int) -> Floats:
    """Query vectors, (n, d): each is a random stored vector plus noise."""
    chance = np.random.default_rng((2, count))
    starts = np.sort(chance.integers(0, count // _PORTION, SEARCHES)) * _PORTION
    meant = np.concatenate(
        [chance.permutation(_portion(start))[: (starts == start).sum()] for start in np.unique(starts)]
    )
    worded = meant + 1.2 * _directions(chance, SEARCHES) @ _rotation()
    return _unit(chance.permutation(worded))


def _portion(start: int) -> Floats:
    chance = np.random.default_rng((1, start))
    common = _directions(np.random.default_rng(0), 1)
    providers = _directions(chance, _PORTION // _PROVIDER).repeat(_PROVIDER, axis=0)
    groups = chance.choice(_topics(), _PORTION // _GROUP).repeat(_GROUP, axis=0)
    own = _directions(chance, _PORTION)
    # The share of a vector's own direction varies: some are near duplicates, others are distinct.
    shares = chance.uniform(0, 2 * _SHARES["own"], (_PORTION, 1)).astype(np.float32)
    parts = [(common, "common"), (providers, "provider"), (groups, "group")]
    return _unit((sum(np.sqrt(_SHARES[name]) * part for part, name in parts) + np.sqrt(shares) * own) @ _rotation())


def _directions(chance: np.random.Generator, count: int) -> Floats:
    """Random directions of length about 1; the variance along the j-th axis falls as 1/j."""
    variances = 1 / (np.arange(DIMENSION) + 3)
    scale = np.sqrt(variances / variances.sum()).astype(np.float32)
    directions: Floats = chance.standard_normal((count, DIMENSION), np.float32) * scale
    return directions


@cache
def _topics() -> Floats:
    """Topics of operations, shared between providers."""
    return _directions(np.random.default_rng(4), _TOPICS)


@cache
def _rotation() -> Floats:
    """A random rotation, so that the axes of variance differ from the vector components."""
    axes: Floats = np.linalg.qr(np.random.default_rng(3).normal(size=(DIMENSION, DIMENSION)))[0].astype(np.float32)
    return axes


def _unit(rows: NDArray[np.floating]) -> Floats:
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def _child(role: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.index", role, *map(str, arguments)]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer


def _build(indexes: Indexes, folder: Path, count: int) -> dict[str, float]:
    """Fill an index in batches as imports do, and save it together with the exact nearest neighbours."""
    index, took_s, waiting = indexes.empty(), 0.0, list[tuple[Ids, Floats]]()
    asked = queries(count)
    nearest = _Nearest(asked[:JUDGED])
    for ids, vectors in portions(count):
        nearest.see(ids, vectors)
        waiting.append((ids, vectors))
        if len(waiting) * _PORTION >= _IMPORT or ids[-1] == count - 1:
            began = time.perf_counter()
            index.upsert(*(np.concatenate(part) for part in zip(*waiting, strict=True)))
            took_s += time.perf_counter() - began
            waiting.clear()
    index.save(folder / "index", _SOURCE)
    np.savez(folder / "asked.npz", queries=asked, nearest=nearest.ids)
    return {"build_s": took_s, "file_mb": (folder / "index").stat().st_size / 1e6, "peak_mb": peak_rss_mb(os.getpid())}


def _serve(indexes: Indexes, folder: Path, count: int) -> dict[str, float]:
    """Load the index and search it sequentially on one thread."""
    with np.load(folder / "asked.npz") as asked:
        rows, nearest = asked["queries"], asked["nearest"]
    began = time.perf_counter()
    index = indexes.load(folder / "index", _SOURCE)
    load_s = time.perf_counter() - began
    assert index is not None
    found = [index.search(row[None], DEPTH)[0][0, : nearest.shape[1]] for row in rows]  # also warms the file cache
    recall = np.mean([np.isin(right, ids).mean() for right, ids in zip(nearest, found, strict=False)])
    p50, p99 = _percentiles_ms(rows, lambda row: index.search(row, DEPTH))
    memory_mb = rss_mb(os.getpid())
    some = np.arange(0, count, 10)
    filtered = _percentiles_ms(rows[:JUDGED], lambda row: index.search(row, DEPTH, some))[1]
    change = _percentiles_ms(rows[:JUDGED], lambda row: _change(index, row))[0]
    return {
        "load_s": load_s,
        "recall": float(recall),
        "p50_ms": p50,
        "p99_ms": p99,
        "rss_mb": memory_mb,
        "filtered_ms": filtered,
        "change_ms": change,
    }


def _change(index: VectorIndex, row: Floats) -> None:
    """Publish one changed vector as a service does."""
    index.copy().upsert(np.array([7]), row)


class _Nearest:
    """The ten nearest vectors of each query, found by exhaustive search."""

    def __init__(self, asked: Floats) -> None:
        self._asked = asked
        self.ids = np.empty((len(asked), 0), np.int64)
        self._scores = np.empty((len(asked), 0), np.float32)

    def see(self, ids: Ids, vectors: Floats) -> None:
        """Search more vectors."""
        scores = np.hstack([self._scores, self._asked @ vectors.T])
        every = np.hstack([self.ids, np.broadcast_to(ids, (len(self._asked), len(ids)))])
        best = np.argpartition(-scores, 10, axis=1)[:, :10]
        self._scores, self.ids = np.take_along_axis(scores, best, 1), np.take_along_axis(every, best, 1)


def _percentiles_ms(rows: Floats, work: Callable[[Floats], object]) -> tuple[float, float]:
    """Median and 99th percentile of the time that each row takes."""
    took_s = []
    for row in rows:
        began = time.perf_counter()
        work(row[None])
        took_s.append(time.perf_counter() - began)
    p50, p99 = np.percentile(took_s, [50, 99]) * 1_000
    return float(p50), float(p99)


def main(role: str, kind: str, folder: str, count: str) -> None:
    """Run one part of the measurement in this process, and print its figures as JSON."""
    indexes = open_indexes("flat" if kind == "flat" else "auto", _SOURCE.encoder, DIMENSION)
    figures = {"build": _build, "serve": _serve}[role](indexes, Path(folder), int(count))
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
