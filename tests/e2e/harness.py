"""Sends the sandbox's questions to Nestor over real sockets and compares answers, not plans.

``python -m tests.e2e.harness [dev|heldout|all] [-v]`` prints the share solved, and each failure among the development
questions. Of the held-out questions only counts are printed: who reads them would tune a planner to them.
"""

import asyncio
import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.onebox import running_stack
from services.clients import GatewayClient, open_http
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.errors import ServiceError
from services.telemetry import configure_logging
from tests.e2e.matching import missing
from tests.e2e.questions import read_questions


@dataclass(frozen=True)
class Result:
    """One question and its result."""

    question: dict[str, Any]
    run: Run | None
    failure: str
    """Empty if the question was solved."""

    @property
    def misleads(self) -> bool:
        """Whether it was answered wrongly, and the answer does not say that it may be wrong."""
        if not self.failure or self.run is None or self.run.status is not RunStatus.SUCCEEDED:
            return False
        return not self.run.unsure and not self.run.untold

    def __repr__(self) -> str:
        """Whether it was solved, without the question: test runners print what an assertion compared."""
        return f"Result({'failed' if self.failure else 'solved'})"


def questions(part: str) -> list[dict[str, Any]]:
    """The questions of a part: ``dev``, ``heldout`` or ``all``."""
    return read_questions("dev") + read_questions("heldout") if part == "all" else read_questions(part)


def held_out() -> frozenset[str]:
    """The ids of the held-out questions."""
    return frozenset(question["id"] for question in read_questions("heldout"))


def failure_of(question: dict[str, Any], run: Run) -> str:
    """The reason why the run does not solve the question; empty if it does."""
    if run.status.value != question["status"]:
        detail = run.reason or (run.diagnostics[0].message if run.diagnostics else "")
        failed = next((r.outcome for r in run.steps if r.outcome.kind == "failed"), None)
        return f"status {run.status.value}: {getattr(failed, 'message', '') or detail}"
    # A whole response does not count as an answer: the plan must select a part of it.
    values = [v.value for v in run.answer.values if v.path or not isinstance(v.value, dict)]
    absent = missing(question["expected"], values)
    return f"missing {json.dumps(absent)} in {json.dumps(values)[:300]}" if absent else ""


async def ask(gateway: GatewayClient, question: dict[str, Any]) -> Result:
    """Solve one question."""
    request = {"query": question["query"]} | {k: question[k] for k in ("options", "context") if k in question}
    try:
        run = await gateway.solve(SolveRequest.model_validate(request))
    except ServiceError as error:
        return Result(question, None, f"problem {error.slug}: {error.detail}")
    return Result(question, run, failure_of(question, run))


async def ask_all(gateway_url: str, asked: list[dict[str, Any]]) -> list[Result]:
    """Solve the questions one after another, because some of them change the sandbox's state."""
    gateway = GatewayClient(open_http(gateway_url))
    try:
        return [await ask(gateway, question) for question in asked]
    finally:
        await gateway.aclose()


def report(results: list[Result], *, verbose: bool = False) -> str:
    """The share solved, by kind, and each failure among the development questions with the plan that led to it.

    Args:
        results: of the questions asked.
        verbose: also list the development questions that were solved.
    """
    unseen = held_out()
    kinds = Counter(result.question["kind"] for result in results)
    solved = Counter(result.question["kind"] for result in results if not result.failure)
    total = sum(solved.values())
    lines = [f"solved {total} of {len(results)} = {100 * total / len(results):.1f} %"]
    misleading = sum(result.misleads for result in results)
    lines.append(f"answered wrongly, without a remark: {misleading} = {100 * misleading / len(results):.1f} %")
    lines += [f"  {kind:12} {solved[kind]:3} of {count}" for kind, count in sorted(kinds.items())]
    for result in results:
        if (result.failure or verbose) and result.question["id"] not in unseen:
            mark = "✗" if result.failure else "✓"
            lines.append(f"{mark} {result.question['id']} [{result.question['kind']}] {result.question['query']}")
            if result.run is not None and result.run.plan is not None:
                lines += [f"    {step.id} = {_call(step)}" for step in result.run.plan.steps]
            if result.failure:
                lines.append(f"    {result.failure}")
    return "\n".join(lines)


def _call(step: Any) -> str:
    arguments = {name: value.model_dump(exclude={"kind"}) for name, value in step.arguments.items()}
    return f"{step.api}({json.dumps(arguments, ensure_ascii=False)})"


def main() -> None:
    """Run a part of the questions from the command line."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    configure_logging(level="ERROR", json=False)
    asked = questions(arguments[0] if arguments else "dev")
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder)) as found_world:
        results = asyncio.run(ask_all(found_world.gateway_url, asked))
    print(report(results, verbose="-v" in sys.argv))


if __name__ == "__main__":
    main()
