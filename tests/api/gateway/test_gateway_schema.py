"""The gateway against its own OpenAPI document: no request made from it may get a 5xx.

The fakes behind it can plan and execute, so that requests reach all parts of the gateway.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from gateway.main import create_app
from gateway.settings import GatewaySettings, Limits
from services.contracts.planning import PlanRequest, PlanResponse
from services.contracts.retrieval import Candidate
from tests.fakes import FakePlanner
from tests.support.fuzz import BOUNDED, check, schema_of
from tests.support.gateways import BOOKING, NESTED, Fakes


class PlansAnything(FakePlanner):
    """Plans reads for most requests, a booking for some, and nothing for a few."""

    async def plan(self, request: PlanRequest, timeout_s: float = 30.0) -> PlanResponse:
        plan = (NESTED, BOOKING, None)[min(2, len(request.query) % 5)]
        self.plans = {request.query: plan} if plan else {}
        offered = tuple(Candidate(api=api, score=1) for api in Fakes().retriever.apis.values())
        return await super().plan(request.model_copy(update={"candidates": offered}), timeout_s)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path: Path = tmp_path_factory.mktemp("schema")
    fakes = Fakes(planner=PlansAnything())
    limits = Limits(requests_per_s=None)  # no rate limit, so that every request reaches the gateway
    settings = GatewaySettings(database_url=f"sqlite+aiosqlite:///{path}/gateway.db", limits=limits)
    app = create_app(settings, peers=fakes.peers)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


SCHEMA = schema_of(create_app(GatewaySettings(database_url="sqlite+aiosqlite://")))


@SCHEMA.parametrize()
@BOUNDED
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    check(case, client)


def test_plans_are_reached(client: TestClient) -> None:
    statuses = {client.post("/solve", json={"query": "x" * n}).json()["status"] for n in range(1, 6)}
    assert statuses == {"succeeded", "needs_approval", "no_plan"}
