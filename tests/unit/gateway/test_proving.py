"""How given plans are proved: in turns, and with no more APIs in memory than a plan may have."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from gateway.peers import Peers
from gateway.proving import Prover
from gateway.quotas import Quotas
from services.contracts.api import ApiResponse
from services.contracts.plan import Plan
from services.contracts.planning import MAX_APIS_BYTES, CompileRequest, CompileResponse, Policy
from services.contracts.retrieval import LookupRequest, LookupResponse
from tests.support.executing import api, step

LARGE = ApiResponse(json_schema={"type": "object", "description": "x" * 250_000})


class World:
    """The services that prove a plan, each with APIs of 250 kB."""

    def __init__(self) -> None:
        self.asked, self.compiled, self.paced = list[int](), list[CompileRequest](), list[tuple[str, int]]()
        self.at_once = self.most = 0
        peers = SimpleNamespace(retriever=self, planner=self, executor=self)
        self.prover = Prover(cast(Peers, peers), cast(Quotas, self))

    async def lookup(self, request: LookupRequest) -> LookupResponse:
        self.asked.append(len(request.ids))
        made = (api("http://x", name=one.partition(".")[2]) for one in request.ids)
        return LookupResponse(apis=tuple(one.model_copy(update={"response": LARGE}) for one in made))

    async def credentials(self, _tenant: str) -> Any:
        return SimpleNamespace(secrets=())

    async def pace(self, tenant: str, size: int) -> None:
        self.paced.append((tenant, size))

    async def compile(self, request: CompileRequest) -> CompileResponse:
        self.compiled.append(request)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return CompileResponse()


def plan(apis: int) -> Plan:
    return Plan(steps=tuple(step(f"s{number}", f"test.op{number}") for number in range(apis)))


async def test_no_more_apis_are_looked_up_than_show_that_a_plan_has_too_many() -> None:
    world = World()
    await world.prover.prove(plan(500), Policy(tenant="one"))
    assert world.asked == [16]
    (asked,) = world.compiled
    assert MAX_APIS_BYTES < sum(len(one.model_dump_json()) for one in asked.apis) < MAX_APIS_BYTES + 300_000


async def test_plans_are_proved_in_turns_and_count_by_their_apis() -> None:
    world = World()
    plans = (world.prover.prove(plan(3), Policy(tenant="one")) for _ in range(10))
    await asyncio.gather(*plans, world.prover.prove(plan(1), Policy(tenant="two")))
    assert len(world.compiled) == 11
    assert world.most <= 3
    counts = [3 if tenant == "one" else 1 for tenant, _ in world.paced]
    sizes = [size / count for (_, size), count in zip(world.paced, counts, strict=True)]
    assert all(4 * 250_000 <= size < 4 * 260_000 for size in sizes)
