"""What the command line prints stays whole on a narrow terminal."""

import io
from datetime import UTC, datetime

from rich.console import Console

from deploy.cli.credentials import print_missing
from deploy.cli.runs import print_run
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
