"""Goes through the requests of a folder one by one: candidates, demos, plan, run, score."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from evals.data import Dataset, Instance
from evals.planning.answer_coverage import AnswerCoverage, CoverageShares, answer_coverage, coverage_shares
from evals.planning.asking import Answer, Planner
from evals.planning.calls import (
    CallGraph,
    graph_of_calls,
    graph_of_plan,
    is_nested,
    links_of_answer,
    links_of_outputs,
)
from evals.planning.demonstrations import DemoSelector
from evals.planning.offers import Offer, Offers
from evals.planning.running import PlanRunner
from evals.planning.scoring import score
from evals.planning.summary import (
    Judged,
    Metrics,
    Published,
    Scores,
    calibration_error,
    confident_half,
    intervals,
    percentiles,
    published,
    right_and_unsure,
    summed,
    unfit_and_sure,
    wrong_and_sure,
)
from planner_svc.judging.signs import SIGNS
from planner_svc.settings import PlannerSettings
from services.codecs.nestful import encode
from services.codecs.seal import response_fields
from services.codecs.text import CodecError
from services.contracts.demo import SelectedDemo
from services.contracts.plan import Plan


class PlanReport(Metrics):
    """What was measured over all requests. Percentages are 0 to 100.

    Attributes:
        subsets: ``single``: solved by one call; ``multi``: by several, including nested ones; ``nested``: a call takes
            the output of another one.
        calibration_error: of the confidence in proposed plans, against their full match.
        confident_half: percent of full matches in the half of the proposed plans with the highest confidence.
        wrong_and_sure: percent of all requests with a wrong plan that is not marked as unsure (``unsure_below``);
            None in older reports that did not measure it.
        right_and_unsure: percent of the right plans that are marked as unsure; None if there are none, or in older
            reports.
        unfit_and_sure: percent of the requests that nothing fits that got calls (in a plan or behind questions) which
            are not marked as unsure; None if there are none, or in older reports.
        telling: whether the answers of right plans hold the requested outputs; None if the data does not name them.
        latency_ms: time for candidates (if the retriever finds them), demos and plan together, one request at a time.
        answers: percent planned, needing input, without a plan, and failed.
        late: percent that took longer than the planner's service waits for its backend (``backend_timeout_s``). In the
            service they would have failed. On an idle machine there should be none.
        intervals: 95 %, by bootstrap over the requests.
        as_published: the same counts as computed by Seal-Tools' own script.
        data: name of the folder.
        limit: size of the sample; None: all requests.
        candidates: source of the candidates.
        k: budget of the retriever; None: the default of ``/solve``, or the retriever does not find the candidates.
        distractors: number of wrong APIs added to the gold ones.
        planner: name of the backend.
        model: name of the language model, if one was asked.
        constraint: how that model's answers were constrained to their format; None also in older reports.
        encoder: of the retriever.
        catalogue: number of APIs in the folder.
        demos: number of solved requests to choose from; None: no demos were shown.
        shots: the most demos shown per request; None: as many as the gateway asks for, or none.
        demos_shown: number of demos shown to all requests together.
        unknown_gold: requests whose solution names an API that the folder does not describe. They are scored like all
            others.
    """

    subsets: dict[str, Scores]
    calibration_error: float
    confident_half: float
    wrong_and_sure: float | None = None
    right_and_unsure: float | None = None
    unfit_and_sure: float | None = None
    telling: CoverageShares | None = None
    latency_ms: dict[str, float]
    answers: dict[str, float]
    late: float = 0.0
    intervals: dict[str, tuple[float, float]]
    as_published: Published
    data: str
    split: str | None
    limit: int | None
    candidates: str
    k: int | None = None
    distractors: int = 0
    planner: str
    model: str | None = None
    constraint: str | None = None
    encoder: str
    catalogue: int
    demos: int | None
    shots: int | None = None
    demos_shown: int = 0
    unknown_gold: int


@dataclass(frozen=True, slots=True)
class EvaluatedRequest:
    """One request, answered and judged."""

    instance: Instance
    gold: CallGraph
    offer: Offer
    demos: tuple[SelectedDemo, ...]
    answer: Answer
    judged: Judged
    seconds: float
    run_problem: str
    coverage: AnswerCoverage | None = None
    """Whether the answer of a right plan holds the requested outputs, if that is known."""

    @property
    def subsets(self) -> Iterator[str]:
        """The names of the subsets it belongs to."""
        if len(self.gold.nodes) == 1:
            yield "single"
        if len(self.gold.nodes) > 1:
            yield "multi"
        if is_nested(self.instance.calls):
            yield "nested"


class Evaluator:
    """Asks and judges one request at a time.

    Args:
        dataset: the catalogue whose response fields number the slots.
        offers: makes the candidates.
        planner: plans the requests.
        runner: runs the plans.
        selector: chooses demos, if any are shown.
    """

    def __init__(
        self, dataset: Dataset, offers: Offers, planner: Planner, runner: PlanRunner, selector: DemoSelector | None
    ) -> None:
        self._outputs = {api.id: response_fields(api) for api in dataset.apis}
        self._unsure_below = PlannerSettings().unsure_below
        self._offers, self._planner, self._runner, self._selector = offers, planner, runner, selector

    async def ask(self, instance: Instance) -> EvaluatedRequest:
        """Ask and judge. Only the asking is timed."""
        start = time.perf_counter()
        offer = self._offers.offer(instance)
        demos = await self._selector.select(instance, offer.candidates) if self._selector is not None else ()
        answer = await self._planner.ask(instance.query, offer, demos, self._offers.look_up, instance.now)
        seconds = time.perf_counter() - start
        problem = await self._runner.run(answer.compiled) if answer.compiled is not None else "no proved plan"
        gold, predicted = graph_of_calls(instance.calls), graph_of_plan(answer.plan)
        judged = Judged(
            score=score(gold, predicted, self._outputs),
            well_formed=answer.well_formed,
            needs_call=bool(gold.nodes),
            ran=not problem,
            confidence=answer.confidence if answer.plan is not None else None,
            unsure=answer.plan is not None and answer.confidence < self._unsure_below,
        )
        asked = links_of_answer(instance.answer or (), instance.calls)
        shown = links_of_outputs(answer.plan) if answer.plan is not None else []
        coverage = answer_coverage(gold, asked, predicted, shown) if judged.score.any_order else None
        return EvaluatedRequest(instance, gold, offer, demos, answer, judged, seconds, problem, coverage)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a measurement; see :class:`PlanReport`. The report shows only the name of ``data``."""

    data: Path
    candidates: str
    planner: str
    encoder: str
    limit: int | None = None
    k: int | None = None
    distractors: int = 0
    demos: int | None = None
    shots: int | None = None


def report(asked: Sequence[EvaluatedRequest], dataset: Dataset, under: Conditions) -> PlanReport:
    """Aggregate the results.

    Args:
        asked: all requests.
        dataset: the requests and the catalogue.
        under: the conditions.
    """
    judged = [one.judged for one in asked]
    known = {api.id for api in dataset.apis}
    statuses = Counter(one.answer.status for one in asked)
    limit_s = PlannerSettings().backend_timeout_s
    traces = [trace for one in asked for trace in one.answer.traces]
    whole = summed(judged)
    subsets = {
        name: summed([one.judged for one in asked if name in one.subsets]) for name in ("single", "multi", "nested")
    }
    return PlanReport(
        **{name: getattr(whole, name) for name in Metrics.model_fields},
        subsets=subsets,
        calibration_error=calibration_error(judged),
        confident_half=confident_half(judged),
        wrong_and_sure=wrong_and_sure(judged),
        right_and_unsure=right_and_unsure(judged),
        unfit_and_sure=unfit_and_sure(judged),
        telling=coverage_shares([one.coverage for one in asked]),
        latency_ms=percentiles([one.seconds for one in asked]),
        answers={
            name: round(100 * statuses[name] / len(asked), 2) if asked else 0.0
            for name in ("planned", "needs_input", "no_plan", "failed")
        },
        late=round(100 * sum(one.seconds > limit_s for one in asked) / len(asked), 2) if asked else 0.0,
        intervals=intervals(judged),
        as_published=published(judged),
        data=Path(os.path.abspath(under.data)).name,  # as it was called: a link has its own name
        split=dataset.split,
        limit=under.limit,
        candidates=under.candidates,
        k=under.k,
        distractors=under.distractors,
        planner=under.planner,
        model=", ".join(sorted({trace.model for trace in traces})) or None,
        constraint=", ".join(sorted({attempt.constraint for trace in traces for attempt in trace.attempts})) or None,
        encoder=under.encoder,
        catalogue=len(dataset.apis),
        demos=under.demos,
        shots=under.shots,
        demos_shown=sum(len(one.demos) for one in asked),
        unknown_gold=sum(not one.instance.apis <= known for one in asked),
    )


def write_line(file: TextIO, asked: EvaluatedRequest) -> None:
    """Write a line about one request: the reference, the plan, and where they differ."""
    file.write(json.dumps(line_of(asked), ensure_ascii=False) + "\n")


def line_of(asked: EvaluatedRequest) -> dict[str, Any]:
    """One request for error analysis, with calls in NESTFUL's notation."""
    score = asked.judged.score
    return {
        "id": asked.instance.id,
        "query": asked.instance.query,
        "subsets": list(asked.subsets),
        "gold": [{"name": call.api, "arguments": call.args, "label": call.label} for call in asked.instance.calls],
        "predicted": _plan_json(asked.answer.plan),
        "status": asked.answer.status,
        "confidence": asked.answer.confidence,
        "sure": asked.answer.sure,
        "reason": asked.answer.reason,
        "outputs": _outputs(asked.answer),
        "diagnostics": [one.model_dump(mode="json", exclude_defaults=True) for one in asked.answer.diagnostics],
        "well_formed": asked.judged.well_formed,
        "full_match": score.full,
        "full_match_any_order": score.any_order,
        "partial_match": round(score.partial, 4),
        "told": asked.coverage.model_dump() if asked.coverage is not None else None,
        **{
            name: [counts.right, counts.predicted, counts.gold]
            for name, counts in (("tool", score.tool), ("param", score.param), ("reference", score.reference))
        },
        "passed": asked.judged.passed,
        "ran": asked.judged.ran,
        "run_problem": asked.run_problem,
        "missing_candidates": sorted(
            asked.instance.apis - {one.api.id for one in asked.offer.candidates} - {*asked.answer.looked_up}
        ),
        "looked_up": list(asked.answer.looked_up),
        "demos": [one.demo.query for one in asked.demos],
        "ms": round(asked.seconds * 1e3, 2),
        "vendor": _vendor(asked),
        "model": asked.answer.model,
        "signs": dict(zip(SIGNS, asked.answer.signs, strict=True)) if asked.answer.signs else None,
    }


def _vendor(asked: EvaluatedRequest) -> str:
    """The vendor that the request addresses: that of the solution's first call, else of the best candidate."""
    apis = [call.api for call in asked.instance.calls] or [one.api.id for one in asked.offer.candidates]
    known = {one.api.id: one.api.provider for one in asked.offer.candidates}
    return next((known.get(name, name.partition(".")[0]) for name in apis), "")


def _outputs(answer: Answer) -> list[dict[str, str]]:
    """What a language model wrote in each turn, and why that was no valid plan."""
    return [{"output": one.output, "problem": one.problem} for one in answer.attempts]


def _plan_json(plan: Plan | None) -> Any:
    if plan is None:
        return []
    try:
        return encode(plan)
    except CodecError:  # the notation cannot express this plan
        return plan.model_dump(mode="json")["steps"]
