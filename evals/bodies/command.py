"""Implements ``nestor eval bodies``: measures and prints."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from evals.bodies.measuring import BodyReport, measure_bodies
from evals.data import DataError
from evals.planning.command import COLUMNS, errors_only
from services.encoder import EncoderError


def print_bodies(folder: Path, sample: int, seed: int, planner: str | None, *, verbose: bool, as_json: bool) -> int:
    """Measure and print. Progress goes to standard error. ``verbose`` also prints each request with a wrong body.

    Returns:
        The exit status: 0, or 1 if the documents, the planner or the encoder cannot be used.
    """
    err = Console(stderr=True)
    try:
        with errors_only(), Progress(*COLUMNS, console=err, transient=True) as progress:
            report = measure_bodies(folder, sample, seed, planner, progress)
    except (DataError, EncoderError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        _print(report, Console(), verbose=verbose)
    return 0


def _print(report: BodyReport, console: Console, *, verbose: bool) -> None:
    share = 100 * report.built / max(report.asked, 1)
    lines = [f"{report.built} of {report.asked} bodies hold every value where it belongs: {share:.1f} %"]
    lines += [f"{count:5} {reason}" for reason, count in report.reasons.items()]
    if report.unsayable:
        lines.append("drawn besides, and not asked for, as the body ...")
        lines += [f"{count:5} {reason}" for reason, count in report.unsayable.items()]
    if verbose:
        for one in report.tried:
            if one.reason:
                lines += ["", f"{one.api}: {one.reason}", f"  {one.query}", f"  {one.detail[:500]}"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
