"""What ``nestor eval`` does once its options are read: load, measure, print."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evals.data import DataError, read_dataset
from evals.retrieve import METHODS, build_snapshot, evaluate, name_providers, ranking_options, table
from retriever_svc.engine.ranking import RankingOptions
from retriever_svc.settings import RetrieverSettings
from services.encoder import EncoderError, load_encoder


def measure_retrieval(
    data: Path,
    split: str | None,
    limit: int | None,
    ks: Sequence[int],
    methods: Sequence[str],
    name_provider: bool,
    encoder: str | None,
    cache: Path | None,
    *,
    as_json: bool,
) -> int:
    """Measure retrieval and print the report: see :mod:`evals.retrieve`. Progress goes to standard error.

    The retriever's settings, ``NESTOR_RETRIEVER_...``, count as they do for the service.

    Returns:
        The exit status: 0, or 1 where the data, a method or the encoder is not usable.
    """
    settings, err = RetrieverSettings(), Console(stderr=True)
    shipped = RankingOptions(dense_weight=settings.dense_weight)
    model = encoder or settings.encoder
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        for name in methods:
            ranking_options(name, shipped)  # a typo is seen before minutes of embedding
        dataset = read_dataset(data, split, limit)
        if name_provider:
            dataset = name_providers(dataset)
        served, embedding = load_encoder(model, settings.encoder_threads), load_encoder(model, os.cpu_count() or 1)
        with Progress(*columns, console=err, transient=True) as progress:
            snapshot = build_snapshot(dataset.apis, embedding, progress, cache)
            report = evaluate(snapshot, served, dataset.instances, methods or list(METHODS), ks, shipped, progress)
    except (DataError, EncoderError) as error:
        err.print(str(error), markup=False)
        return 1
    if as_json:
        print(report.model_dump_json(indent=2))
        return 0
    console = Console()
    console.print(table(report))
    left_out = f", {report.left_out} left out that need no API or one that is not there" if report.left_out else ""
    split_text = f" of {dataset.split}" if dataset.split else ""
    console.print(f"{report.n} requests{split_text}{left_out}; {report.catalogue} APIs; {report.encoder}")
    times = ", ".join(f"{name} {value:.1f} ms" for name, value in report.latency_ms.items())
    console.print(f"one search as shipped, encoding included: {times}")
    return 0
