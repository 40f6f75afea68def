"""Implements ``nestor eval plan``: loads, asks, judges and prints."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from demo_svc.settings import DemoSettings
from evals.data import DataError, Dataset, read_dataset
from evals.planning.asking import SERVED, open_planner
from evals.planning.batches import NotAnswered, open_batch
from evals.planning.demonstrations import Solved, open_demo_selector, read_demos, read_shots
from evals.planning.evaluate import Conditions, EvaluatedRequest, Evaluator, PlanReport, report, write_line
from evals.planning.offers import Offers, Source, check_lists
from evals.planning.printing import print_report
from evals.planning.running import open_plan_runner
from evals.retrieve import build_snapshot
from planner_svc.backends.compact.confidence import CalibrationError
from planner_svc.backends.compact.second_stage import JudgeError
from planner_svc.settings import PlannerSettings
from retriever_svc.engine.ranking import shipped_options
from retriever_svc.engine.relevance import RelevanceError
from retriever_svc.settings import RetrieverSettings
from services.encoder import EncoderError, load_encoder

_AT_ONCE = 20
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


@dataclass(frozen=True, slots=True)
class Measurement:
    """What to measure.

    Attributes:
        data: folder of tools and requests.
        split: the split to measure; None: ``dev``, or the only one.
        limit: size of a random sample, the same every time.
        candidates: source of the planner's candidates.
        k: budget of the retriever, if it finds the candidates; None: the default of ``/solve``.
        distractors: number of wrong APIs added to the needed ones, if those are given.
        planner: name of the backend; None: the service's default.
        demos: folder or file of solved requests to show; None: none, or the folder's own if ``shots`` is set.
        shots: the most demos shown per request; None: as many of ``demos`` as the gateway asks for.
        encoder: another encoder for the retriever.
        cache: file that caches the catalogue's vectors.
        predictions: file to write a line about each request to.
        requests_out: file to write the unanswered prompts to, instead of measuring.
        responses_in: files of answers to such prompts, instead of the configured server.
    """

    data: Path
    split: str | None = None
    limit: int | None = None
    candidates: Source = Source.OWN
    k: int | None = None
    distractors: int = 0
    planner: str | None = None
    demos: Path | None = None
    shots: int | None = None
    encoder: str | None = None
    cache: Path | None = None
    predictions: Path | None = None
    requests_out: Path | None = None
    responses_in: tuple[Path, ...] = ()

    @property
    def offline(self) -> bool:
        """Whether a language model is asked through files."""
        return self.requests_out is not None or bool(self.responses_in)


def measure_planning(wanted: Measurement, *, as_json: bool) -> int:
    """Measure planning and print the report, or write prompts if that is requested. Progress goes to standard error.

    The services' settings, ``NESTOR_RETRIEVER_...`` and so on, apply as they do for the services.

    Returns:
        The exit status: 0, or 1 if the data, the planner or an encoder cannot be used.
    """
    err = Console(stderr=True)
    try:
        with errors_only(), Progress(*COLUMNS, console=err, transient=True) as progress:
            measured, notes = measure(wanted, progress)
    except (DataError, EncoderError, RelevanceError, CalibrationError, JudgeError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    for note in notes:
        err.print(note, markup=False, highlight=False, soft_wrap=True)
    if measured is None:
        return 0
    if as_json:
        print(measured.model_dump_json(indent=2))
    else:
        print_report(measured, Console())
    return 0


def measure(wanted: Measurement, progress: Progress) -> tuple[PlanReport | None, list[str]]:
    """Measure; see :func:`measure_planning`.

    Returns:
        The report (None if prompts were written instead), and notes to print.

    Raises:
        DataError: the data, the planner's name or a file cannot be used.
        EncoderError: an encoder cannot be loaded.
        RelevanceError: the retriever's relevance model cannot be used.
    """
    if wanted.k is not None and wanted.candidates not in (Source.OWN, Source.VENDOR):
        raise DataError("only the candidates `own` and `vendor` are found, so that only they can have a `k`")
    if wanted.distractors and wanted.candidates is not Source.GOLD:
        raise DataError("distractors stand beside the candidates `gold`")
    if wanted.offline and wanted.planner not in (None, SERVED):
        raise DataError(f"only the planner {SERVED!r} is asked by files")
    dataset = read_dataset(wanted.data, wanted.split, wanted.limit)
    if not dataset.instances:
        raise DataError(f"{wanted.data} holds no requests")
    if wanted.candidates is Source.GIVEN:
        check_lists(dataset.instances)
    solved = _solved(wanted, dataset)
    with tempfile.TemporaryDirectory(prefix="nestor-eval-") as folder, _opened(wanted.predictions) as out:
        return asyncio.run(_measure(wanted, dataset, solved, Path(folder), out, progress))


async def _measure(
    wanted: Measurement,
    dataset: Dataset,
    solved: Sequence[Solved] | None,
    folder: Path,
    out: TextIO | None,
    progress: Progress,
) -> tuple[PlanReport | None, list[str]]:
    async with AsyncExitStack() as stack:
        settings, demo_settings = PlannerSettings(), DemoSettings()
        batch = await open_batch(wanted.requests_out, wanted.responses_in, settings.served) if wanted.offline else None
        chat = batch.chat if batch is not None else None
        name = SERVED if wanted.offline else wanted.planner
        planner = await stack.enter_async_context(open_planner(name, chat=chat))
        offers = _offers(wanted, dataset, progress)  # takes minutes, so it comes after the check of the planner's name
        selector = None
        if solved is not None:
            encoder = load_encoder(demo_settings.encoder, demo_settings.encoder_threads)
            selector = await stack.enter_async_context(open_demo_selector(solved, encoder, folder, wanted.shots))
        runner = await stack.enter_async_context(open_plan_runner(dataset.apis, folder))
        for start in progress.track(range(0, len(dataset.apis), _AT_ONCE), description="reading APIs"):
            await planner.read(dataset.apis[start : start + _AT_ONCE])
        evaluator = Evaluator(dataset, offers, planner, runner, selector)
        asked: list[EvaluatedRequest] = []
        for instance in progress.track(dataset.instances, description="planning"):
            try:
                asked.append(await evaluator.ask(instance))
            except NotAnswered:
                continue
            if out is not None:
                write_line(out, asked[-1])
        notes = batch.close() if batch is not None else []
        if wanted.requests_out is not None:
            return None, notes
        under = Conditions(
            data=wanted.data,
            limit=wanted.limit,
            candidates=wanted.candidates.value,
            k=wanted.k,
            distractors=wanted.distractors,
            planner=planner.name,
            encoder=offers.encoder.name,
            demos=len(solved) if solved is not None else None,
            shots=wanted.shots if solved is not None else None,
        )
        return report(asked, dataset, under), notes


def _solved(wanted: Measurement, dataset: Dataset) -> list[Solved] | None:
    if wanted.shots == 0:
        return None
    if wanted.demos is not None:
        return read_demos(wanted.demos)
    return read_shots(wanted.data, dataset.instances) if wanted.shots is not None else None


def _offers(wanted: Measurement, dataset: Dataset, progress: Progress) -> Offers:
    settings = RetrieverSettings()
    model = wanted.encoder or settings.encoder
    served, embedding = load_encoder(model, settings.encoder_threads), load_encoder(model, os.cpu_count() or 1)
    options = shipped_options(settings, served.name)
    snapshot = build_snapshot(dataset.apis, embedding, progress, wanted.cache)
    apis = {api.id: api for api in dataset.apis}
    return Offers(snapshot, apis, served, options, wanted.candidates, wanted.k, wanted.distractors)


def _opened(file: Path | None) -> TextIO | nullcontext[None]:
    try:
        return nullcontext() if file is None else file.open("w", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror}") from None


@contextmanager
def errors_only() -> Iterator[None]:
    """Keep the services' routine logs off standard output, which the report uses."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.configure(**before)
