"""``python -m tests.chaos``: run the campaigns, print a table, and exit with 1 if a guarantee was broken."""

import argparse
import random
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import uvloop
from rich.console import Console
from rich.table import Table

from services.telemetry import configure_logging
from tests.chaos.campaigns import Report
from tests.chaos.house import Log, open_zygote
from tests.chaos.judge import Kind
from tests.chaos.setups import SETUPS, Setup, open_campaign

_KINDS: tuple[Kind, ...] = get_args(Kind)
_SHOWN = 20
_LOG_WIDTH = 180


async def make(setups: Sequence[Setup], seconds: float, seed: int, log: Log, console: Console) -> bool:
    """Run the campaigns one after the other and print the results. Returns whether all guarantees held."""
    reports, shares, ends = list[Report](), sum(setup.share for setup in setups), time.monotonic() + seconds
    async with open_zygote(log) as zygote:
        for setup in setups:
            # The remaining time is divided among the remaining campaigns by their shares.
            share, shares = setup.share / shares, shares - setup.share
            async with open_campaign(setup, zygote, random.Random(f"{seed} {setup.name}")) as campaign:
                reports.append(await campaign.run(max(1.0, (ends - time.monotonic()) * share)))
            console.print(f"{reports[-1].name}: {len(reports[-1].findings)} findings", highlight=False)
    console.print(_table(reports, seed))
    for report in reports:
        for finding in report.findings[:_SHOWN]:
            console.print(f"{finding.kind}: {finding.run_id}: {finding.text}", markup=False, soft_wrap=True)
    for bug, times in log.bugs.most_common(_SHOWN):
        console.print(f"bug, {times} times: {bug}", markup=False, soft_wrap=True)
    return not log.bugs and not any(report.findings for report in reports)


def _table(reports: Sequence[Report], seed: int) -> Table:
    table = Table(title=f"What was broken, and what it did (seed {seed})")
    table.add_column("campaign")
    for heading in ("strikes", "of", "runs", "calls", "taken over", "in doubt", *_KINDS, "s"):
        table.add_column(heading, justify="right")
    for report in reports:
        found = [report.count(kind) for kind in _KINDS]
        cells = (report.strikes, report.wanted, report.runs, report.calls, report.takeovers, report.listed, *found)
        table.add_row(report.name, *map(str, cells), f"{report.seconds:.0f}")
    return table


def main() -> int:
    """Read the command line and run the campaigns; returns 1 if a guarantee was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for all campaigns together; 600 make full ones")
    parser.add_argument("--seed", type=int, help="of the plans and the moments; how processes interleave stays chance")
    parser.add_argument("--only", nargs="+", default=[""], help="campaigns with one of these words in their names")
    parser.add_argument("--log", type=Path, help="file for what the executors said last")
    options = parser.parse_args()
    configure_logging(level="ERROR", json=False)
    setups = [setup for setup in SETUPS if any(word in setup.name for word in options.only)]
    if not setups:
        parser.error(f"there are only: {'; '.join(setup.name for setup in SETUPS)}")
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    log, console = Log(), Console(width=None if sys.stdout.isatty() else _LOG_WIDTH)
    try:
        return int(not uvloop.run(make(setups, options.seconds, seed, log, console)))
    finally:
        if options.log:
            options.log.write_text("\n".join(log.lines))


if __name__ == "__main__":
    raise SystemExit(main())
