"""Requests that a shipped demo solves, with the demo's values and with others, over real sockets."""

import asyncio
from pathlib import Path

from deploy.onebox import running_stack, shipped_demos
from services.clients import GatewayClient, open_http
from services.contracts.demo import Demo
from services.contracts.plan import LiteralValue, Plan
from services.contracts.run import Run
from services.contracts.solve import SolveRequest

MILES = "Turn 45 miles into kilometres"
REMINDER = 'Set a reminder "pay the rent" for 2028-05-01T07:00:00Z'


async def _solved(url: str, *asked: tuple[str, dict[str, object]]) -> list[Run]:
    gateway = GatewayClient(open_http(url))
    try:
        requests = [SolveRequest.model_validate({"query": query, "options": options}) for query, options in asked]
        return [await gateway.solve(request) for request in requests]
    finally:
        await gateway.aclose()


def test_a_demonstrated_request_is_solved_as_demonstrated(tmp_path: Path) -> None:
    plans = {demo.query: demo.plan for demo in shipped_demos()}
    asked: list[tuple[str, dict[str, object]]] = [
        (MILES, {}),
        ("turn 3 feet into inches", {}),
        (REMINDER.replace("pay the rent", "call mum"), {}),
        (f"{MILES} and 3 feet into inches", {"dry_run": True}),
        (MILES, {"backend": "compact", "dry_run": True}),
    ]
    with running_stack(tmp_path) as found:
        same, other, change, another, alone = asyncio.run(_solved(found.gateway_url, *asked))
    assert (same.plan, same.backend, same.confidence) == (plans[MILES], "demonstrated", 1.0)
    assert _literals(other) == {"value": 3, "from_unit": "foot", "to_unit": "inch"}
    assert (other.backend, other.answer.values[0].value) == ("demonstrated", 36)
    assert [(one.backend, one.stood) for one in other.planners] == [("demonstrated", True)]
    assert (change.status.value, change.backend) == ("needs_approval", "demonstrated")
    assert _literals(change)["text"] == "call mum"
    assert [one.backend for one in another.planners] == ["demonstrated", "compact"]
    assert [one.backend for one in alone.planners] == ["compact"]


def test_the_very_same_request_gives_the_very_same_plan_wherever_its_apis_rank(tmp_path: Path) -> None:
    plan = next(demo.plan for demo in shipped_demos() if demo.query == MILES)
    asked = ("Which public holidays does Portugal have in 2027?", "The usual figure for the harvest ledger")
    narrow: dict[str, object] = {"top_k": 1, "dry_run": True}
    changing: dict[str, object] = {"methods": ["POST"], "dry_run": True}

    async def all_of(url: str) -> tuple[list[Run], list[Run]]:
        before = await _solved(url, *((query, narrow) for query in asked))
        gateway = GatewayClient(open_http(url))
        for query in asked:
            await gateway.add_demo(Demo(query=query, plan=plan))
        await gateway.aclose()
        return before, await _solved(url, *((query, options) for query in asked for options in (narrow, changing)))

    with running_stack(tmp_path) as found:
        before, after = asyncio.run(all_of(found.gateway_url))
    used = {step.api for step in plan.steps}
    assert all(used.isdisjoint(candidate.api for candidate in run.candidates) for run in before)
    for same, filtered in (after[:2], after[2:]):
        assert (same.plan, same.backend, same.confidence) == (plan, "demonstrated", 1.0)
        assert {c.api for c in same.candidates if c.found_by == "demonstrated"} == used
        assert used.isdisjoint(candidate.api for candidate in filtered.candidates)
        assert filtered.backend != "demonstrated"


def _literals(run: Run) -> dict[str, object]:
    assert isinstance(run.plan, Plan)
    arguments = run.plan.steps[0].arguments
    return {name: value.value for name, value in arguments.items() if isinstance(value, LiteralValue)}
