"""Requests that a shipped demo solves, with the demo's values and with others, over real sockets."""

import asyncio
from pathlib import Path

from deploy.onebox import running_stack, shipped_demos
from services.clients import GatewayClient, open_http
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


def _literals(run: Run) -> dict[str, object]:
    assert isinstance(run.plan, Plan)
    arguments = run.plan.steps[0].arguments
    return {name: value.value for name, value in arguments.items() if isinstance(value, LiteralValue)}
