"""Implements ``nestor eval``: loads, measures and prints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evals.absence import measure_absence
from evals.data import DataError, read_all, read_dataset
from evals.retrieve import METHODS, build_snapshot, evaluate, name_providers, ranking_options, table
from retriever_svc.engine.ranking import shipped_options
from retriever_svc.engine.relevance import RelevanceError
from retriever_svc.settings import RetrieverSettings
from services.encoder import EncoderError, load_encoder

_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


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

    The retriever's settings, ``NESTOR_RETRIEVER_...``, apply as they do for the service.

    Returns:
        The exit status: 0, or 1 if the data, a method or the encoder cannot be used.
    """
    settings, err = RetrieverSettings(), Console(stderr=True)
    model = encoder or settings.encoder
    try:
        served, embedding = load_encoder(model, settings.encoder_threads), load_encoder(model, os.cpu_count() or 1)
        shipped = shipped_options(settings, served.name)
        for name in methods:
            ranking_options(name, shipped)  # report a typo before minutes of embedding
        dataset = read_dataset(data, split, limit)
        if name_provider:
            dataset = name_providers(dataset)
        with Progress(*_COLUMNS, console=err, transient=True) as progress:
            snapshot = build_snapshot(dataset.apis, embedding, progress, cache)
            report = evaluate(snapshot, served, dataset.instances, methods or list(METHODS), ks, shipped, progress)
    except (DataError, EncoderError, RelevanceError) as error:
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


def measure_refusals(
    data: Path, split: str | None, limit: int | None, encoder: str | None, cache: Path | None, *, as_json: bool
) -> int:
    """Measure whether the retriever notices requests that no API fits, and print the report: see :mod:`evals.absence`.

    If the data gives requests their own lists of tools, all splits are asked unless one is chosen.

    Returns:
        The exit status: 0, or 1 if the data or the encoder cannot be used.
    """
    settings, err = RetrieverSettings(), Console(stderr=True)
    model = encoder or settings.encoder
    try:
        served, embedding = load_encoder(model, settings.encoder_threads), load_encoder(model, os.cpu_count() or 1)
        options = shipped_options(settings, served.name)
        dataset = read_all(data)
        if split is not None or limit is not None or not any(one.tools for one in dataset.instances):
            dataset = read_dataset(data, split, limit)
        with Progress(*_COLUMNS, console=err, transient=True) as progress:
            snapshot = build_snapshot(dataset.apis, embedding, progress, cache)
            report = measure_absence(snapshot, served, dataset.instances, options, progress)
    except (DataError, EncoderError, RelevanceError) as error:
        err.print(str(error), markup=False)
        return 1
    if as_json:
        print(report.model_dump_json(indent=2))
        return 0
    console = Console()
    console.print(f"AUROC {report.auroc:.3f}, of the likelihood that any API is needed")
    console.print(f"answered with an empty list: {report.refused_unfitting:.1f} % of {report.unfitting} requests that")
    console.print(f"nothing fits, {report.refused_fitting:.1f} % of {report.fitting} that something fits")
    console.print(f"{report.catalogue} APIs; {report.encoder}")
    return 0
