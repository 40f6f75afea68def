"""Nestor's ranking beside other tool retrievers: the same catalogue, the same requests, one after the other.

The data is a folder in the form of ``evals/data.py``, the requests the sample of ``nestor eval retrieve --limit 200``.
A peer that is slow is asked for as long as ``BUDGET_S``; how many requests it was asked stands in its row, and where
they are not all, Nestor has a row for the same ones.
"""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from bench.figures import Report, Skipped
from bench.peers.retrieval import PEERS, Embed, Searcher
from evals.data import Dataset, Instance, read_dataset
from evals.embedding import embed
from evals.metrics import all_at, recall_at
from evals.retrieve import build_snapshot
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.ranking import find, shipped_options
from retriever_svc.settings import RetrieverSettings
from services.encoder import DEFAULT_MODEL, load_encoder

DATA, CACHE = "NESTOR_BENCH_DATA", "NESTOR_BENCH_CACHE"
REQUESTS = 200
K = 10
BUDGET_S = 150.0
COLUMNS = ("", f"all-tools@{K}, %", f"recall@{K}, %", "p50, ms", "p95, ms", "requests", "made ready in, s")


@dataclass(frozen=True)
class Answers:
    """What one retriever answered to the first requests: ids, and milliseconds; and seconds to be made ready."""

    name: str
    asked: Sequence[Instance]
    ranked: Sequence[Sequence[str]]
    took_ms: Sequence[float]
    ready_s: float

    def first(self, count: int) -> "Answers":
        """The same for fewer requests."""
        name = f"{self.name}, the first {count}"
        return Answers(name, self.asked[:count], self.ranked[:count], self.took_ms[:count], self.ready_s)

    def row(self) -> tuple[str, ...]:
        """The cells of ``COLUMNS``."""
        pairs = [(ids, one.apis) for ids, one in zip(self.ranked, self.asked, strict=True)]
        found = 100 * np.mean([all_at(K, ids, needed) for ids, needed in pairs])
        recall = 100 * np.mean([recall_at(K, ids, needed) for ids, needed in pairs])
        p50, p95 = np.percentile(self.took_ms, [50, 95])
        figures = [f"{value:,.1f}" for value in (found, recall, p50, p95)]
        return self.name, *figures, f"{len(pairs)}", f"{self.ready_s:.0f}"


def measure(report: Report) -> None:
    """Ask everybody, and put the table into the report."""
    data = os.environ.get(DATA)
    if not data:
        raise Skipped(f"no data: give --data FOLDER or set {DATA} (a folder of tools and requests)")
    dataset = read_dataset(Path(data), limit=REQUESTS)
    known = {api.id for api in dataset.apis}
    asked = [one for one in dataset.instances if one.apis and one.apis <= known]
    own = ask("Nestor", lambda: nestor(dataset), asked)
    rows = [own.row()]
    for name, peer in PEERS.items():
        try:
            answers = ask(name, partial(peer, dataset.apis, base_encoder()), asked)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises, the others are measured
            report.note(f"{name}: skipped: {type(error).__name__}: {error}")
            continue
        rows.append(answers.row())
        if len(answers.asked) < len(asked):
            rows.append(own.first(len(answers.asked)).row())
    report.table(f"retrieval beside others: {len(dataset.apis):,} APIs, {Path(data).name}", COLUMNS, rows)


def ask(name: str, make: Callable[[], Searcher], asked: Sequence[Instance]) -> Answers:
    """Make a retriever ready, its first request included, and ask until all is asked or its time is up."""
    began = time.perf_counter()
    search = make()
    search(asked[0].query, K)  # indices that are made when they are first needed
    ready = time.perf_counter()
    ranked, took = list[list[str]](), list[float]()
    for one in asked:
        start = time.perf_counter()
        if ranked and start - ready > BUDGET_S:
            break
        ranked.append(search(one.query, K))
        took.append(1_000 * (time.perf_counter() - start))
    return Answers(name, asked[: len(ranked)], ranked, took, ready - began)


def nestor(dataset: Dataset) -> Searcher:
    """The service's ranking with the options and the encoder it ships with, without HTTP."""
    settings = RetrieverSettings()
    encoder, embedding = load_encoder(settings.encoder), load_encoder(settings.encoder, os.cpu_count() or 1)
    options = shipped_options(settings, encoder.name)
    with _progress() as progress:
        snapshot = build_snapshot(dataset.apis, embedding, progress, _cache())

    def search(query: str, k: int) -> list[str]:
        return [hit.entry.id for hit in find(snapshot, encoder, query, k, 0, Filters(), options)[1]]

    return search


def base_encoder() -> Embed:
    """The base encoder as peers take one: texts in, lists of numbers out. Few texts are read one by one, as queries."""
    few, many = load_encoder(DEFAULT_MODEL), load_encoder(DEFAULT_MODEL, os.cpu_count() or 1)

    def encode(texts: Sequence[str]) -> list[list[float]]:
        if len(texts) == 1:
            return list(few.encode(texts).tolist())
        with _progress() as progress:
            vectors = embed({_hash(text): text for text in texts}, many, progress, _cache())
        return [vectors[_hash(text)].tolist() for text in texts]

    return encode


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _progress() -> Progress:
    return Progress(console=Console(stderr=True), transient=True)


def _cache() -> Path | None:
    """Where vectors are kept between runs; nowhere unless somebody says where."""
    file = os.environ.get(CACHE)
    return Path(file) if file else None
