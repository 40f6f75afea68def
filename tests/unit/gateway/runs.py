"""Runs to be stored."""

from datetime import UTC, datetime

from gateway.storage import new_run_id
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest

REQUEST = SolveRequest(query="Book a room")


def a_run(status: RunStatus = RunStatus.PLANNING) -> Run:
    return Run(id=new_run_id(), status=status, query="q", created_at=datetime.now(UTC))
