"""The shipped language model plans, served by llama.cpp on this machine; `make llm` installs it."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.llm.settings import MERGED_NAME
from deploy.llm.supervisor import planning_model
from deploy.onebox import RunningStack, running_stack
from services.clients import GatewayClient, open_http
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest

MODEL = Path(__file__).parents[2] / "var" / "llm" / MERGED_NAME
QUESTION = "Convert 26.2 miles to kilometers."

pytestmark = pytest.mark.skipif(not MODEL.is_file(), reason="the language model is not installed: make llm")


@pytest.fixture(scope="module")
def nestor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", os.environ.copy())
        patch.setitem(os.environ, "NESTOR_LLM_MODEL", str(MODEL))
        # Timeouts are long because other tests run in parallel. The test is about planning, not about speed.
        for name in ("TIMEOUT_S", "FIRST_TOKEN_S", "BETWEEN_TOKENS_S"):
            patch.setitem(os.environ, f"NESTOR_PLANNER_SERVED_{name}", "120")
        patch.setitem(os.environ, "NESTOR_PLANNER_BACKEND_TIMEOUT_S", "120")
        with planning_model(), running_stack(tmp_path_factory.mktemp("nestor")) as found:
            yield found


def test_the_model_answers_nestor_solve(nestor: RunningStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_URL", nestor.gateway_url)
    result = CliRunner().invoke(app, ["solve", QUESTION, "--backend", "served", "--json", "--deadline", "120"])
    assert result.exit_code == 0, result.output
    run = Run.model_validate(json.loads(result.output))
    assert "42.16" in json.dumps([value.value for value in run.answer.values], default=str)
    assert [(one.backend, one.outcome, one.stood) for one in run.planners] == [("served", "planned", True)]
    (trace,) = run.traces
    assert trace.model == "nestor-planner"
    assert [(one.constraint, one.readable, one.problem) for one in trace.attempts] == [("gbnf", True, "")]
    assert (trace.attempts[0].completion_tokens or 0) > 10


def test_eight_at_once_are_all_answered(nestor: RunningStack) -> None:
    async def ask() -> list[Run]:
        gateway = GatewayClient(open_http(nestor.gateway_url))
        request = {"query": QUESTION, "options": {"deadline_ms": 240_000, "backend": "served"}}
        try:
            return await asyncio.gather(*(gateway.solve(SolveRequest.model_validate(request)) for _ in range(8)))
        finally:
            await gateway.aclose()

    runs = asyncio.run(ask())
    for run in runs:  # batched requests round differently, so two equally likely words may swap
        assert run.status in (RunStatus.SUCCEEDED, RunStatus.NEEDS_INPUT), run.reason
        assert [one.backend for one in run.planners if one.stood] == ["served"], run.planners
        assert all(attempt.readable for trace in run.traces for attempt in trace.attempts), run.traces
