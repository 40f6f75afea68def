"""``python -m tests.vendors``: run every vendor's requests and print a table of the results.

python -m tests.vendors [NAME ...] [-v] [--planner NAME] [--operations]
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from retriever_svc.importers import import_document
from services.errors import InvalidDocument
from services.telemetry import configure_logging
from tests.vendors.operations import try_all
from tests.vendors.proving import Row, Stand, ask, bring_in, client_of, standing
from tests.vendors.requests import VARIABLE, read_vendors


async def prove(url: str, stands: list[Stand], planner: str | None, verbose: bool) -> list[Row]:
    """Import the documents and send the requests, one vendor after the other. Print each row when it is complete."""
    rows = []
    async with client_of(url) as gateway:
        for stand in stands:
            await bring_in(gateway, stand)
            row = Row(stand)
            rows.append(row)
            for asked in stand.vendor.requests:
                result = await ask(gateway, stand, asked, planner)
                row.results.append(result)
                if verbose and (result.failure or result.refused):
                    print(
                        f"  {stand.vendor.name}: {asked.ask}\n    {result.failure}: {result.detail[:400]}", flush=True
                    )
                    for line in result.refused:
                        print(f"    refused: {line[:300]}", flush=True)
            print(_line(row), file=sys.stderr, flush=True)
    return rows


def _line(row: Row) -> str:
    right = sum(result.planned for result in row.results)
    return f"{row.stand.vendor.name}: {right} of {len(row.results)} planned right"


def print_table(rows: list[Row], console: Console) -> None:
    """Print the table of all vendors with the totals."""
    table = Table(title="Vendors' twins", title_justify="left")
    for name in (
        "vendor",
        "operations",
        "imported",
        "requests",
        "planned right",
        "sent",
        "accepted",
        "not planned right",
    ):
        table.add_column(name, justify="left" if name in ("vendor", "not planned right") else "right")
    sums, reasons = Counter[str](), Counter[str]()
    for row in rows:
        imported = row.stand.imported
        told = {
            "operations": len(imported.apis) + len(imported.skipped),
            "imported": len(imported.apis),
            "requests": len(row.results),
            "right": sum(result.planned for result in row.results),
            "sent": sum(result.sent for result in row.results),
            "refused": sum(len(result.refused) for result in row.results),
        }
        sums.update(told)
        reasons.update(row.reasons)
        table.add_row(row.stand.vendor.name, *_cells(told), _said(row.reasons))
    table.add_section()
    table.add_row("all", *_cells(sums), _said(reasons))
    console.print(table)
    share = 100 * (sums["sent"] - sums["refused"]) / max(sums["sent"], 1)
    console.print(f"HTTP requests that the twins accept as valid: {share:.1f} % of {sums['sent']}")
    for row in rows:
        for line in dict.fromkeys(line for result in row.results for line in result.refused):
            console.print(f"  {row.stand.vendor.name}: {line}", markup=False, soft_wrap=True)


def _cells(told: dict[str, int] | Counter[str]) -> list[str]:
    keys = ("operations", "imported", "requests", "right", "sent")
    return [*(str(told[key]) for key in keys), str(told["sent"] - told["refused"])]


def _said(reasons: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in reasons.most_common())


def call_operations(console: Console) -> int:
    """Call every operation of every document in the folder once; print the calls that are not possible, by class.

    Returns:
        The exit status: 1 if there is no folder.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} names no folder", file=sys.stderr)
        return 1
    every, writing, problems = Counter[str](), Counter[str](), Counter[str]()
    for file in sorted(Path(folder).iterdir()):
        try:
            imported = import_document(file.read_text(encoding="utf-8"), file.name[:40], "http://127.0.0.1:1")
        except InvalidDocument as error:
            problems[f"document: {error.detail}"] += 1
            continue
        every["not imported"] += len(imported.skipped)
        for tried in try_all(imported.apis):
            every[tried.kind] += 1
            writing[tried.kind] += tried.api.body is not None
            problems[f"{tried.kind}: {tried.problem}"] += bool(tried.problem)
    table = Table(title="Operations, called with what their schemas make", title_justify="left")
    for name in ("", "all", "share", "with a body", "share of these"):
        table.add_column(name, justify="right" if name else "left")
    for kind, count in every.most_common():
        wrote = writing[kind]
        shares = (f"{100 * count / every.total():.1f} %", f"{100 * wrote / max(writing.total(), 1):.1f} %")
        table.add_row(kind, str(count), shares[0], str(wrote), shares[1])
    console.print(table)
    for problem, count in problems.most_common(20):
        if count:
            console.print(f"{count:5} {problem[:160]}", markup=False, highlight=False)
    return 0


def main() -> int:
    """Parse the command line and print the results. Returns 1 if the documents are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.vendors", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these vendors")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what is not planned right")
    parser.add_argument("--planner", help="backend of the planner; default: the service's")
    parser.add_argument("--operations", action="store_true", help="call every operation of every document instead")
    given = parser.parse_args()
    if given.operations:
        return call_operations(Console())
    vendors = [one for one in read_vendors() if not given.names or one.name in given.names]
    missing = [one.document for one in vendors if one.file is None]
    if missing:
        print(f"{len(missing)} documents are not there; {VARIABLE} names their folder", file=sys.stderr)
        vendors = [one for one in vendors if one.file is not None]
    if not vendors:
        return 1
    configure_logging(level="ERROR", json=False)
    os.environ.setdefault("NESTOR_PLANNER_BACKEND_TIMEOUT_S", "300")  # results must not depend on the machine's load
    with tempfile.TemporaryDirectory() as folder, standing(vendors, Path(folder)) as (url, stands):
        rows = asyncio.run(prove(url, stands, given.planner, given.verbose))
    print_table(rows, Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "180"))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
