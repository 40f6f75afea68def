"""Nestor's ranking compared with other tool retrievers: the same catalogue and the same requests, in sequence.

The data is a folder in the format of ``evals/data.py``. The requests are the sample of ``nestor eval retrieve --limit
200``. A slow peer gets requests for at most ``BUDGET_S`` seconds. Its row shows how many it got. If these are not all,
Nestor has an additional row for the same requests.
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
    """Results of one retriever for the first requests: ids and milliseconds; and the seconds of its preparation."""

    name: str
    asked: Sequence[Instance]
    ranked: Sequence[Sequence[str]]
    took_ms: Sequence[float]
    ready_s: float

    def first(self, count: int) -> "Answers":
        """The results for the first ``count`` requests."""
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
    """Measure all retrievers, and add the table to the report."""
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
        except Exception as error:  # noqa: BLE001 - an error of one peer does not stop the others
            report.note(f"{name}: skipped: {type(error).__name__}: {error}")
            continue
        rows.append(answers.row())
        if len(answers.asked) < len(asked):
            rows.append(own.first(len(answers.asked)).row())
    report.table(f"retrieval beside others: {len(dataset.apis):,} APIs, {Path(data).name}", COLUMNS, rows)


def ask(name: str, make: Callable[[], Searcher], asked: Sequence[Instance]) -> Answers:
    """Prepare a retriever, including its first request, and send requests until all are sent or its time is up."""
    began = time.perf_counter()
    search = make()
    search(asked[0].query, K)  # some indices are built lazily
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
    """The service's ranking with its default options and encoder, without HTTP."""
    settings = RetrieverSettings()
    encoder, embedding = load_encoder(settings.encoder), load_encoder(settings.encoder, os.cpu_count() or 1)
    options = shipped_options(settings, encoder.name)
    with _progress() as progress:
        snapshot = build_snapshot(dataset.apis, embedding, progress, _cache())

    def search(query: str, k: int) -> list[str]:
        return [hit.entry.id for hit in find(snapshot, encoder, query, k, 0, Filters(), options)[1]]

    return search


def base_encoder() -> Embed:
    """The base encoder in the form that peers need: from texts to lists of numbers. A single text is a query."""
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
    """File that caches vectors between runs; None unless it is configured."""
    file = os.environ.get(CACHE)
    return Path(file) if file else None
