"""A demonstration of the very same request reaches the planner with all its APIs, wherever the retriever ranks them."""

from pathlib import Path
from typing import Any

import pytest

from services.contracts.demo import Demo
from services.contracts.plan import Plan, Step
from services.contracts.planning import PlanRequest
from services.contracts.run import RunStatus
from services.errors import ServiceUnavailable
from tests.support.console_pages import PRINCIPALS
from tests.support.gateways import BOOKING, FIND, HOLIDAYS, NESTED, Fakes, Gateway, ask, call, open_gateway, world_api

USUAL = "Find a country, the usual way"
"""FIND shares most words with it."""
UNLIKE = "Zzz"
"""No API shares a word with it."""
HIDDEN = world_api("hidden", "Zebra").model_copy(update={"tenants": ("blue",)})


async def offered(gateway: Gateway, query: str, **options: Any) -> PlanRequest:
    """What the planner is asked."""
    gateway.fakes.planner.requests.clear()
    await gateway.client.solve(ask(query, **options))
    return gateway.fakes.planner.requests[0]


def apis(asked: PlanRequest) -> list[str]:
    return [candidate.api.id for candidate in asked.candidates]


def demonstrated(asked: PlanRequest) -> list[Plan]:
    return [one.demo.plan for one in asked.demos]


@pytest.mark.parametrize("query", [USUAL, UNLIKE])
async def test_what_is_ranked_too_low_or_not_at_all_is_offered(gateway: Gateway, query: str) -> None:
    before = await offered(gateway, query, top_k=1)
    assert HOLIDAYS.id not in apis(before)
    assert "lookup" not in gateway.fakes.retriever.calls
    await gateway.fakes.demos.add(Demo(query=query, plan=NESTED))
    after = await offered(gateway, query, top_k=1)
    assert sorted(apis(after)) == [FIND.id, HOLIDAYS.id]
    assert apis(after)[: len(before.candidates)] == apis(before)
    assert demonstrated(after) == [NESTED]
    last = after.candidates[-1]
    assert (last.score, last.found_by, len(last.clause_scores)) == (0, "demonstrated", len(after.clauses))
    other = await offered(gateway, f"{query}!", top_k=1)
    assert HOLIDAYS.id not in apis(other)


@pytest.mark.parametrize(
    "options",
    [{"providers": ["mars"]}, {"tags": ["books"]}, {"methods": ["GET"]}, {"deprecated": False}, {"demos": 0}],
    ids=str,
)
async def test_a_demonstration_does_not_pass_the_requests_filters(gateway: Gateway, options: dict[str, Any]) -> None:
    retriever = gateway.fakes.retriever
    booked = retriever.apis[BOOKING.steps[0].api].model_copy(update={"deprecated": True})
    retriever.apis[booked.id] = booked
    await gateway.fakes.demos.add(Demo(query=UNLIKE, plan=BOOKING))
    assert apis(await offered(gateway, UNLIKE)) == [booked.id]
    refused = await offered(gateway, UNLIKE, **options)
    assert (apis(refused), demonstrated(refused)) == ([], [])


async def test_a_demonstration_with_one_excluded_api_brings_none(gateway: Gateway) -> None:
    two = Plan(steps=(*BOOKING.steps, call("var2", FIND, name="Portugal")))
    await gateway.fakes.demos.add(Demo(query=UNLIKE, plan=two))
    assert sorted(apis(await offered(gateway, UNLIKE))) == sorted(step.api for step in two.steps)
    assert apis(await offered(gateway, UNLIKE, methods=["GET"])) == []
    gone = Plan(steps=(Step(id="var1", api="world.gone"), *two.steps[1:]))
    await gateway.fakes.demos.add(Demo(query="Yyy", plan=gone))
    assert apis(await offered(gateway, "Yyy")) == []


async def test_other_tenants_demonstrations_and_apis_stay_theirs(tmp_path: Path) -> None:
    fakes = Fakes()
    fakes.retriever.apis[HIDDEN.id] = HIDDEN
    hidden = Plan(steps=(Step(id="var1", api=HIDDEN.id),))
    await fakes.demos.add(Demo(query=UNLIKE, plan=BOOKING), tenant="blue")
    await fakes.demos.add(Demo(query=USUAL, plan=hidden))
    async with open_gateway(tmp_path, fakes, principals=PRINCIPALS) as gateway:
        seen = {}
        for tenant in ("red", "blue"):
            for query in (UNLIKE, USUAL):
                fakes.planner.requests.clear()
                await gateway.as_principal(f"{tenant}-token-1").solve(ask(query, top_k=1))
                asked = fakes.planner.requests[0]
                seen[tenant, query] = apis(asked)[-1:], demonstrated(asked)
    assert seen["blue", UNLIKE] == ([BOOKING.steps[0].api], [BOOKING])
    assert seen["red", UNLIKE] == ([], [])
    assert seen["blue", USUAL] == ([HIDDEN.id], [hidden])
    assert seen["red", USUAL][0] != [HIDDEN.id]
    assert seen["red", USUAL][1] == []


async def test_many_demonstrations_of_one_request_stay_within_what_a_planner_takes(gateway: Gateway) -> None:
    wide = [world_api(f"wide{n}", "Wide") for n in range(250)]
    gateway.fakes.retriever.apis |= {api.id: api for api in wide}
    for first in range(0, 250, 50):
        steps = tuple(call(f"var{n}", api) for n, api in enumerate(wide[first : first + 50]))
        await gateway.fakes.demos.add(Demo(query=UNLIKE, plan=Plan(steps=steps)))
    asked = await offered(gateway, UNLIKE, demos=20)
    assert (len(asked.candidates), len(demonstrated(asked))) == (200, 4)
    assert len((await offered(gateway, UNLIKE, demos=1)).candidates) == 50


async def test_a_catalogue_that_fails_fails_the_request(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise ServiceUnavailable("away", service="retriever_svc")

    await gateway.fakes.demos.add(Demo(query=UNLIKE, plan=NESTED))
    monkeypatch.setattr(gateway.fakes.retriever, "lookup", away)
    with pytest.raises(ServiceUnavailable):
        await gateway.client.solve(ask(UNLIKE))
    assert (await gateway.client.runs(limit=1)).runs[0].status is RunStatus.FAILED
