"""Asks Nestor the sandbox's questions over real sockets and compares answers, not plans.

``python -m tests.e2e.harness [dev|heldout|all] [-v]`` prints the share solved and each failure.
"""

import asyncio
import json
import math
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.onebox import world
from services.clients import GatewayClient, open_http
from services.contracts.run import Run, SolveRequest
from services.errors import ServiceError
from services.telemetry import configure_logging

HERE = Path(__file__).parent
DEFAULT_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Result:
    """One question and what became of it."""

    question: dict[str, Any]
    run: Run | None
    failure: str
    """Empty where the question was solved."""


def questions(part: str) -> list[dict[str, Any]]:
    """The questions of a part: ``dev``, ``heldout`` or ``all``."""
    parts = ("dev", "heldout") if part == "all" else (part,)
    lines = [line for p in parts for line in (HERE / f"questions_{p}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


def matches(expected: Any, got: Any, tolerance: float = DEFAULT_TOLERANCE) -> bool:
    """Whether an answer value is the expected one: numbers within a relative tolerance, text without case and space."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, (int, float)) and isinstance(got, (int, float)):
        return math.isclose(expected, got, rel_tol=tolerance, abs_tol=1e-9)
    if isinstance(expected, str) and isinstance(got, str):
        return " ".join(expected.casefold().split()) == " ".join(got.casefold().split())
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(matches(e, g, tolerance) for e, g in zip(expected, got, strict=True))
    return bool(expected == got)


def found(expected: dict[str, Any], values: list[Any]) -> bool:
    """Whether an expected value is among the answer's values."""
    tolerance = expected.get("tolerance", DEFAULT_TOLERANCE)
    return any(matches(expected["value"], value, tolerance) for value in values)


def failure_of(question: dict[str, Any], run: Run) -> str:
    """Why the run does not solve the question, or the empty string."""
    if run.status.value != question["status"]:
        detail = run.reason or (run.diagnostics[0].message if run.diagnostics else "")
        failed = next((r.outcome for r in run.steps if r.outcome.kind == "failed"), None)
        return f"status {run.status.value}: {getattr(failed, 'message', '') or detail}"
    values = [value.value for value in run.answer.values]
    missing = [expected["value"] for expected in question.get("expected", []) if not found(expected, values)]
    return f"missing {json.dumps(missing)} in {json.dumps(values)[:300]}" if missing else ""


async def ask(gateway: GatewayClient, question: dict[str, Any]) -> Result:
    """Solve one question."""
    request = {"query": question["query"]} | {k: question[k] for k in ("options", "context") if k in question}
    try:
        run = await gateway.solve(SolveRequest.model_validate(request))
    except ServiceError as error:
        return Result(question, None, f"problem {error.slug}: {error.detail}")
    return Result(question, run, failure_of(question, run))


async def ask_all(gateway_url: str, asked: list[dict[str, Any]]) -> list[Result]:
    """Solve the questions one after another: some of them change the sandbox's state."""
    gateway = GatewayClient(open_http(gateway_url))
    try:
        return [await ask(gateway, question) for question in asked]
    finally:
        await gateway.aclose()


def report(results: list[Result], *, verbose: bool = False) -> str:
    """The share solved, by kind, and each failure with the plan that led to it."""
    kinds = Counter(result.question["kind"] for result in results)
    solved = Counter(result.question["kind"] for result in results if not result.failure)
    total = sum(solved.values())
    lines = [f"solved {total} of {len(results)} = {100 * total / len(results):.1f} %"]
    lines += [f"  {kind:12} {solved[kind]:3} of {count}" for kind, count in sorted(kinds.items())]
    for result in results:
        if result.failure or verbose:
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
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as found_world:
        results = asyncio.run(ask_all(found_world.gateway_url, asked))
    print(report(results, verbose="-v" in sys.argv))


if __name__ == "__main__":
    main()
