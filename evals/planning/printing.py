"""Prints the report of a measurement."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from evals.planning.evaluate import PlanReport
from evals.planning.summary import Metrics, Ratio


def print_report(report: PlanReport, console: Console) -> None:
    """Print a table of the main figures, in total and by subset, and some lines below it."""
    console.print(_table(report))
    told = report.answers
    split = f" of {report.split}" if report.split else ""
    shown = "no demos" if report.demos is None else f"{report.demos_shown} demos shown, of {report.demos}"
    candidates = f"{report.candidates} candidates"
    candidates += f" and {report.distractors} distractors" if report.distractors else ""
    candidates += f", k {report.k}" if report.k is not None else ""
    console.print(f"{report.n} requests{split}; {report.catalogue} APIs; {candidates}; {shown}")
    model = f" ({report.model})" if report.model else ""
    console.print(f"planner {report.planner}{model}; {report.encoder}", markup=False)
    console.print(
        f"planned {told['planned']:.1f} %, asks for input {told['needs_input']:.1f} %, no plan {told['no_plan']:.1f} %,"
        f" failed {told['failed']:.1f} %; well-formed {report.format_acc:.1f} %"
    )
    console.print(
        f"confidence is off by {report.calibration_error:.1f} points; of the surer half of the plans "
        f"{report.confident_half:.1f} % match in full; wrong, and not said to be unsure: "
        f"{_share(report.wrong_and_sure)} % of the requests; right, and said to be unsure: "
        f"{_share(report.right_and_unsure)} % of the right plans"
    )
    if (shares := report.telling) is not None:
        console.print(
            f"of {shares.n} right plans {shares.all:.1f} % tell all that is asked, "
            f"{shares.only:.1f} % nothing beside it, {shares.just:.1f} % just that"
        )
    times = f"p50 {report.latency_ms['p50']:.0f} ms, p95 {report.latency_ms['p95']:.0f} ms"
    console.print(f"candidates and plan: {times}; later than the service would wait: {report.late:.1f} %")


def _table(report: PlanReport) -> Table:
    columns = ("n", "tool F1", "param F1", "ref F1", "partial", "full", "any order", "passed", "ran")
    drawn = Table(Column(""), *(Column(name, justify="right") for name in columns), box=None)
    rows: dict[str, Metrics] = {"all": report, **report.subsets}
    for name, one in rows.items():
        shares = (one.partial_match, one.full_match, one.full_match_any_order, one.pass_rate, one.ran)
        ratios = (_f1(ratio) for ratio in (one.tool, one.param, one.reference))
        drawn.add_row(name, str(one.n), *ratios, *(_share(share) if one.n else "-" for share in shares))
    return drawn


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _f1(ratio: Ratio) -> str:
    return f"{ratio.f1:.1f}" if ratio.gold or ratio.predicted else "-"
