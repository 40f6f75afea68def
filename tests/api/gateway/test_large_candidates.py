"""Plans with large candidates: their bytes are bounded, with those looked up later, and count for the tenant."""

from pathlib import Path

from services.contracts.api import Api
from services.contracts.retrieval import MAX_ANSWER_BYTES
from services.contracts.solve import SolveOptions, SolveRequest
from tests.fakes.retriever import FakeRetriever
from tests.support.gateways import Fakes, open_gateway

APIS = tuple(
    Api(id=f"p.{what}{n}", provider="p", name=f"{what}{n}", summary=f"list {what}", description="x" * 200_000)
    for what in ("things", "stores")
    for n in range(20)
)
PRINCIPALS = ({"name": "kiosk", "tenant": "guests", "token": "kiosk-token"},)


async def test_candidates_of_a_plan_are_bounded_together(tmp_path: Path) -> None:
    fakes = Fakes(retriever=FakeRetriever(*APIS))
    fakes.planner.needs["show things"] = ("show stores",)
    async with open_gateway(tmp_path, fakes=fakes) as gateway:
        for top_k in (15, 100):
            options = SolveOptions(top_k=top_k, lookups=3)
            await gateway.client.plan(SolveRequest(query="show things", options=options))
            sizes = [
                sum(len(one.api.model_dump_json()) for one in asked.candidates) for asked in fakes.planner.requests
            ]
            assert max(sizes) <= MAX_ANSWER_BYTES
            assert sizes[0] >= 3_000_000
            fakes.planner.requests.clear()


async def test_large_candidates_count_as_requests(tmp_path: Path) -> None:
    limits = {"requests_per_s": 10}
    async with open_gateway(
        tmp_path, principals=PRINCIPALS, limits=limits, fakes=Fakes(retriever=FakeRetriever(*APIS))
    ) as gateway:
        client = gateway.as_principal("kiosk-token")
        await client.plan(SolveRequest(query="show things"))
        assert gateway.app.state.service.quotas._left("guests", 10) < 0
