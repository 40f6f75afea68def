"""One tenant's long queries do not block another tenant's request in the planner."""

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
from services.contracts.planning import PlanRequest, Policy
from services.contracts.retrieval import Candidate, Clause

PART = "convert 5 miles to km and "
LONG = (PART * 20).strip()
CLAUSES = tuple(Clause(text=PART, start=n * len(PART), end=(n + 1) * len(PART)) for n in range(20))
WANTED = ("convertUnits", "computeDateDifference", "getCountry", "listHolidays", "convertCurrency")


@pytest.fixture(scope="module")
def candidates() -> tuple[Candidate, ...]:
    """The sandbox's operations, up to a request's limit."""
    document = json.dumps(create_sandbox(SandboxSettings()).openapi())
    apis = import_document(document, "sandbox", "http://sandbox.example").apis
    wanted = sorted(apis, key=lambda api: api.name not in WANTED)
    return tuple(Candidate(api=api, score=0.5) for api in wanted[:26])


@pytest.fixture
async def planner() -> AsyncIterator[PlannerClient]:
    app = create_app(PlannerSettings(backend_timeout_s=600))
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
    long = request(LONG, "guests", candidates, CLAUSES)
    attack = [asyncio.create_task(planner.plan(long, timeout_s=600)) for _ in range(16)]
    await asyncio.sleep(0.5)  # let them begin
    response = await planner.plan(short, timeout_s=600)
    assert response.status == "planned"
    assert sum(task.done() for task in attack) < len(attack) / 2
    for task in attack:
        task.cancel()
    await asyncio.gather(*attack, return_exceptions=True)
