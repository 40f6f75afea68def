"""One tenant's long sentences do not keep the planner from another's request."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from planner_svc.main import create_app
from planner_svc.settings import PlannerSettings
from retriever_svc.importers.documents import import_document
from sandbox.main import create_app as create_sandbox
from sandbox.settings import SandboxSettings
from services.clients.base import open_http
from services.clients.planner import PlannerClient
from services.clients.transport import InProcessTransport
from services.contracts.api import Candidate, Clause
from services.contracts.planning import PlanRequest, Policy

PART = "convert 5 miles to km and "
LONG = (PART * 20).strip()
CLAUSES = tuple(Clause(text=PART, start=n * len(PART), end=(n + 1) * len(PART)) for n in range(20))
PLANNER = {"default_backend": "rules", "backend_timeout_s": 600}
WANTED = ("convertUnits", "computeDateDifference", "getCountry", "listHolidays", "convertCurrency")


@pytest.fixture(scope="module")
def candidates() -> tuple[Candidate, ...]:
    """The sandbox's operations, as far as a request has so many."""
    document = json.dumps(create_sandbox(SandboxSettings()).openapi())
    apis = import_document(document, "sandbox", "http://sandbox.example").apis
    wanted = sorted(apis, key=lambda api: api.name not in WANTED)
    return tuple(Candidate(api=api, score=0.5) for api in wanted[:26])


@pytest.fixture
async def planner() -> AsyncIterator[PlannerClient]:
    app = create_app(PlannerSettings.model_validate(PLANNER))
    async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
        yield PlannerClient(http)


def request(
    query: str, tenant: str, candidates: tuple[Candidate, ...], clauses: tuple[Clause, ...] = ()
) -> PlanRequest:
    return PlanRequest(query=query, candidates=candidates, clauses=clauses, policy=Policy(tenant=tenant))


async def test_long_sentences_give_way_to_another_tenants(
    planner: PlannerClient, candidates: tuple[Candidate, ...]
) -> None:
    short = request("Convert 26.2 miles to kilometers.", "office", candidates[:4])
    await planner.plan(short)  # reads the APIs
    attack = [
        asyncio.create_task(planner.plan(request(LONG, "guests", candidates, CLAUSES), timeout_s=600)) for _ in range(6)
    ]
    await asyncio.sleep(0.5)  # let them begin
    response = await planner.plan(short, timeout_s=600)
    assert response.status == "planned"
    assert not any(task.done() for task in attack)
    for task in attack:
        task.cancel()
    await asyncio.gather(*attack, return_exceptions=True)


async def test_the_rules_give_up_where_a_sentence_takes_too_long(candidates: tuple[Candidate, ...]) -> None:
    app = create_app(PlannerSettings.model_validate(PLANNER | {"default_backend": "judged", "draft_cpu_s": 0.2}))
    async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
        response = await PlannerClient(http).plan(request(LONG, "guests", candidates, CLAUSES), timeout_s=600)
    outcomes = {one.backend: one.outcome for one in response.asked}
    assert outcomes["rules"] == "late"
    assert outcomes["compact"] != "late"
