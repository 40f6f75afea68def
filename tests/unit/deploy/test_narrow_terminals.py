"""What the command line prints stays whole on a narrow terminal."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console
from rich.table import Table

from deploy.cli.credentials import print_missing
from deploy.cli.runs import print_run
from deploy.drawing import print_table
from services.contracts.api import NeededSecret, SecretKind
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
    print_table(table)
    assert capsys.readouterr().out.splitlines()[1].split() == ["x" * 90, "y" * 90]
    monkeypatch.setenv("COLUMNS", "60")
    print_table(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 60
