"""The table of what the planner is meant to reach, what it reaches, and the command that measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from evals.planning.evaluate import PlanReport

NOT_MEASURED: Final = "not measured"
_PLAN: Final = "nestor eval plan --data DATA/{} --split {}"


@dataclass(frozen=True, slots=True)
class Aim:
    """A measure and what it is meant to reach.

    Attributes:
        measure: what is measured.
        aim: what is to be reached.
        run: folder and split of ``nestor eval plan`` whose report holds the figure.
        candidates: source of the candidates in that report.
        figure: reads the figure from that report.
        command: another command that measures it; empty: there is none.
        elsewhere: where the figure stands if it is not in such a report.
    """

    measure: str
    aim: str
    run: tuple[str, str] | None = None
    figure: Callable[[PlanReport], str] | None = None
    command: str = ""
    elsewhere: str = NOT_MEASURED
    candidates: str = "own"

    def row(self, reports: Sequence[PlanReport]) -> tuple[str, str, str, str]:
        """Measure, aim, what is reached, and the command.

        Args:
            reports: all reports. The figure is of the trained planner's whole run with these candidates.
        """
        source = "" if self.candidates == "own" else f" --candidates {self.candidates}"
        command = self.command or (_PLAN.format(*self.run) + source if self.run else "")
        return self.measure, self.aim, self._reached(reports), f"`{command}`" if command else "none"

    def _reached(self, reports: Sequence[PlanReport]) -> str:
        if self.run is None or self.figure is None:
            return self.elsewhere
        wanted = (self.run[0].rpartition("/")[2], self.run[1], self.candidates, "compact", None, None, None)
        for one in reports:
            if (one.data, one.split, one.candidates, one.planner, one.limit, one.k, one.demos) == wanted:
                return self.figure(one)
        return NOT_MEASURED


def aims(reports: Sequence[PlanReport]) -> Iterator[tuple[str, str, str, str]]:
    """The rows of the table."""
    return (aim.row(reports) for aim in _AIMS)


def refused(report: PlanReport) -> str:
    """Of the requests that nothing fits (their solution has no calls), the percentage that got no calls."""
    with_calls = [report.subsets[name] for name in ("single", "multi")]
    total = report.n - sum(one.n for one in with_calls)
    right = round((report.n * report.full_match - sum(one.n * one.full_match for one in with_calls)) / 100)
    return f"{100 * right / total:.1f} ({right} of {total})" if total else NOT_MEASURED


def doubted(report: PlanReport) -> str:
    """Of the requests that nothing fits, the percentage that got no calls, or calls that are marked as unsure."""
    return NOT_MEASURED if report.unfit_and_sure is None else f"{100 - report.unfit_and_sure:.1f}"


def _f1(report: PlanReport) -> str:
    return f"{report.tool.f1:.1f} / {report.param.f1:.1f} / {report.reference.f1:.1f}"


_CORPUS: Final = ("held-out/corpus", "test")
_SEAL: Final = ("seal_tools", "test_in_domain")
_AIMS: Final = (
    Aim("corpus, test part, all vendors together: full match", ">= 55", _CORPUS, lambda one: f"{one.full_match:.1f}"),
    Aim(
        "the same, each request among its own vendor's APIs: full match",
        ">= 65",
        _CORPUS,
        lambda one: f"{one.full_match:.1f}",
        candidates="vendor",
    ),
    Aim("corpus, test part, requests that nothing fits: no calls, or marked as unsure", ">= 95", _CORPUS, doubted),
    Aim("the same: no calls", "as many as possible", _CORPUS, refused),
    Aim(
        "corpus, test part: all needed APIs among 20 candidates and suppliers",
        ">= 93",
        command="nestor eval retrieve --data DATA/held-out/corpus --split test --k 20 --method offered",
        elsewhere="[retrieval](retrieval.md#the-rest-of-a-chain)",
    ),
    Aim(
        "ComplexFuncBench dev: tool / parameter / reference F1",
        "75 / 50 / 50",
        ("held-out/complexfuncbench", "dev"),
        _f1,
    ),
    Aim(
        "NESTFUL glaive: partial / full match; reference F1",
        "60 / 34; 60",
        ("nestful_v1", "glaive"),
        lambda one: f"{one.partial_match:.1f} / {one.full_match:.1f}; {one.reference.f1:.1f}",
    ),
    Aim(
        "Seal-Tools test_in_domain: tool / parameter F1",
        "96 / 86",
        _SEAL,
        lambda one: f"{one.tool.f1:.1f} / {one.param.f1:.1f}",
    ),
    Aim("NesTools held out: reference F1", "75", ("held-out/nestools", "test"), lambda one: f"{one.reference.f1:.1f}"),
    Aim(
        "4,076 APIs, retrieval included: p50 / p95 in ms",
        "<= 100 / 250",
        _SEAL,
        lambda one: f"{one.latency_ms['p50']:.0f} / {one.latency_ms['p95']:.0f}",
    ),
    Aim(
        "sandbox questions, held out: answered rightly",
        ">= 85",
        command="python -m tests.e2e.harness heldout",
        elsewhere="[README](../README.md#what-was-measured)",
    ),
    Aim(
        "the same: answered wrongly, without a remark, %",
        "<= 5",
        command="python -m tests.e2e.harness heldout",
        elsewhere="[README](../README.md#what-was-measured)",
    ),
    Aim(
        "requests like a demonstration's, with other values: right plan",
        ">= 85",
        command="pytest tests/unit/planner_svc/test_demonstrated.py",
        elsewhere="[planning](planning.md#a-demonstration-is-followed)",
    ),
)
"""The planner's aims."""
