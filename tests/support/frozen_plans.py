"""Freezes the plans for the sandbox's development questions, and compares two such files: guards a refactoring.

``python -m tests.support.frozen_plans write FILE`` plans each question at a fixed clock and writes, by its id, the hash
of the plan or the status without one. Nothing is executed. ``compare BEFORE AFTER`` prints the questions whose plans
differ, and exits with 1 if there are any.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from deploy.onebox import running_stack
from services.clients import GatewayClient, open_http
from services.contracts.solve import SolveRequest
from services.telemetry import configure_logging
from tests.e2e.questions import read_questions

_NOW: Final = datetime(2027, 6, 1, 12, tzinfo=UTC).isoformat()
"""The clock of questions that have none: "tomorrow" is the same day in every file."""


async def freeze(gateway_url: str, asked: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The hash of the plan for each question, by id; the run's status where there is no plan."""
    gateway, found = GatewayClient(open_http(gateway_url)), dict[str, str]()
    try:
        for question in asked:
            context = {"now": _NOW} | question.get("context", {})
            request = {"query": question["query"], "options": question.get("options", {}), "context": context}
            run = await gateway.plan(SolveRequest.model_validate(request))
            found[question["id"]] = run.plan.id if run.plan is not None else run.status.value
    finally:
        await gateway.aclose()
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The ids of the questions whose plans differ, or that only one of the two has."""
    return [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]


def main(argv: Sequence[str] | None = None) -> int:
    """Write or compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.frozen_plans", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("file", type=Path)
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    options = parser.parse_args(argv)
    if options.command == "write":
        configure_logging(level="ERROR", json=False)
        with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder)) as stack:
            plans = asyncio.run(freeze(stack.gateway_url, read_questions("dev")))
        options.file.write_text(json.dumps(plans, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    changed = differences(json.loads(options.before.read_bytes()), json.loads(options.after.read_bytes()))
    print("\n".join([*changed, f"{len(changed)} plans differ"]))
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
