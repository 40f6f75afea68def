"""What the command line prints stays whole on a narrow terminal."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from deploy.cli.credentials import print_missing
from deploy.cli.operating import operations
from deploy.cli.runs import print_run
from deploy.cli.sources import Source
from deploy.cli.tally import Outcome, Tally
from deploy.drawing import screen
from services.contracts.api import ImportReport, NeededSecret, SecretKind
from services.contracts.operations import Allowance, Operations, QuotaUse, Worker
from services.contracts.run import RunStatus, RunSummary


def test_a_command_to_copy_is_neither_cut_nor_broken() -> None:
    out, name = io.StringIO(), "vendor-with-a-long-name_and-an-api.accountSid_authToken"
    needed = NeededSecret(scheme="x", kind=SecretKind.BASIC, secret=name, operations=31)
    print_missing(Console(file=out, width=60), [needed])
    line = out.getvalue().splitlines()[-1]
    assert line == f"   nestor secrets set {name}  # user name and password; 31 operations"


def test_a_run_has_its_whole_status_and_its_request_on_a_line_of_its_own() -> None:
    out = io.StringIO()
    summary = RunSummary(
        id="run_" + "0" * 32,
        status=RunStatus.NEEDS_APPROVAL,
        query="Assign ticket 4400 to T-99",
        created_at=datetime(2026, 11, 28, tzinfo=UTC),
        total_ms=821.4,
    )
    print_run(Console(file=out, width=60), summary)
    first, second = out.getvalue().splitlines()
    assert (first[:53], first[-6:], second) == (f"{summary.id}  needs_approval "[:53], "821 ms", f"  {summary.query}")


def test_a_table_that_is_piped_is_not_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table("id", "detail", box=None)
    table.add_row("x" * 90, "y" * 90)
    screen().print(table)
    assert capsys.readouterr().out.splitlines()[1].split() == ["x" * 90, "y" * 90]
    monkeypatch.setenv("COLUMNS", "60")
    screen().print(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 60


def test_what_is_piped_has_one_line_for_each_row_and_each_remark(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    worker = Worker(id="w" * 90, alive=True, runs=3, seen_s=1)
    free = Allowance(used=0, most=9)
    found = Operations(lease_s=10, workers=(worker,), quotas=QuotaUse(tenants=(), runs=free, waiting=free))
    monkeypatch.setattr("deploy.cli.operating.ask", lambda _: found)
    operations()
    counts: dict[str, Any] = dict.fromkeys(("added", "updated", "unchanged", "removed", "skipped_total"), 0)
    report = ImportReport.model_construct(related_total=1, warnings=("",), **counts)
    tally = Tally(dry_run=False)
    tally.add(Outcome(Source("a", ("a",)), report))
    tally.print(screen(), 1)
    reason = "a reason of many words " * 9 + "."
    screen(stderr=True).print(reason)
    shown = capsys.readouterr()
    assert f"{'w' * 90}  held" in shown.out
    assert "1 operation like another API" in shown.out
    assert "1 warning;" in shown.out
    assert shown.err == f"{reason}\n"
