"""The share of a third of the sandbox's questions that Nestor answers, end to end, over real sockets."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.onebox import running_stack
from tests.e2e.harness import ask_all, questions, report

REACH = 0.70


@pytest.mark.long
def test_at_least_seventy_percent_are_solved(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    asked = questions("all")[::3]  # of every kind; `python -m tests.e2e.harness all` asks all
    assert len(asked) >= 60
    with running_stack(tmp_path) as found:
        results = asyncio.run(ask_all(found.gateway_url, asked))
    record_property("summary", report(results))
    assert sum(not result.failure for result in results) >= REACH * len(results)
