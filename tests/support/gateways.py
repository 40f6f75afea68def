"""A gateway in front of fakes, and the small set of APIs and plans it is tested with."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
from fastapi import FastAPI

from gateway.main import create_app
from gateway.peers import Peers
from gateway.settings import GatewaySettings
from services.clients import GatewayClient, InProcessTransport, open_http
from services.contracts.api import Api, Location, Parameter
from services.contracts.outcome import Succeeded
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.ownership.heartbeat import Heartbeat
from services.ownership.members import Membership
from tests.fakes import FakeDemos, FakeExecutor, FakePlanner, FakeRetriever


def world_api(name: str, summary: str, *required: str, method: str = "GET") -> Api:
    """An API of provider `world` with its parameters in the query."""
    parameters = tuple(Parameter(name=p, wire_name=p, location=Location.QUERY, required=True) for p in required)
    return Api(
        id=f"world.{name}",
        provider="world",
        name=name,
        summary=summary,
        method=method,
        server="http://world.example",
        path=f"/{name}",
        parameters=parameters,
    )


FIND = world_api("findCountry", "Find a country by name", "name")
HOLIDAYS = world_api("listHolidays", "List the holidays of a country", "country")
BOOK = world_api("bookRoom", "Book a room", "room", method="POST")


def call(step: str, api: Api, **arguments: Value | str) -> Step:
    """A step; arguments that are texts become literals."""
    values = {k: LiteralValue(value=v) if isinstance(v, str) else v for k, v in arguments.items()}
    return Step(id=step, api=api.id, arguments=values)


NESTED = Plan(
    steps=(call("var1", FIND, name="Portugal"), call("var2", HOLIDAYS, country=Reference(step="var1", path=("code",)))),
    answer=(AnswerOutput(name="holidays", value=Reference(step="var2", path=("names",))),),
)
BOOKING = Plan(
    steps=(call("var1", BOOK, room="blue"),),
    answer=(AnswerOutput(name="booking", value=Reference(step="var1", path=("id",))),),
)
TWO_ROOMS = Plan(
    steps=(call("var1", BOOK, room="red"), call("var2", BOOK, room="green").model_copy(update={"after": ("var1",)})),
    answer=(AnswerOutput(name="second", value=Reference(step="var2", path=("id",))),),
)
ASK_TWO_ROOMS = "Book the red room, then the green one"
ASK_HOLIDAYS = "Which holidays does the country Portugal have?"
ASK_ROOM = "Book the blue room"
ASK_BUG = "Find a country and fall over"


@dataclass
class Fakes:
    """The fakes of the four peers."""

    retriever: FakeRetriever = field(default_factory=lambda: FakeRetriever(FIND, HOLIDAYS, BOOK))
    demos: FakeDemos = field(default_factory=FakeDemos)
    planner: FakePlanner = field(default_factory=FakePlanner)
    executor: FakeExecutor = field(default_factory=FakeExecutor)

    def __post_init__(self) -> None:
        self.planner.plans |= {ASK_HOLIDAYS: NESTED, ASK_ROOM: BOOKING, ASK_TWO_ROOMS: TWO_ROOMS}
        self.executor.outcomes |= {
            FIND.id: Succeeded(value={"code": "PT"}, status=200),
            HOLIDAYS.id: Succeeded(value={"names": ["Labour Day", "Portugal Day"]}, status=200),
            BOOK.id: Succeeded(value={"id": "bkg_1"}, status=201),
        }

    @property
    def peers(self) -> Peers:
        return Peers(retriever=self.retriever, demos=self.demos, planner=self.planner, executor=self.executor)


@dataclass
class Gateway:
    """A running gateway, its peers, a typed client and a plain HTTP client."""

    app: FastAPI
    fakes: Fakes
    client: GatewayClient
    http: httpx2.AsyncClient
    keepers: frozenset[asyncio.Task[Any]]
    """The gateway's background tasks, such as the search for orphaned runs."""
    heartbeat: Heartbeat

    async def die(self) -> None:
        """Stop everything at once, like a killed process: nothing more is written or sent."""
        await self.go_silent()
        tasks = self.app.state.service._runs._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def go_silent(self) -> None:
        """Stop the heartbeats but go on working, like a process that is slow or cut off from the database."""
        for task in self.keepers:
            task.cancel()
        await asyncio.gather(*self.keepers, return_exceptions=True)
        await self.heartbeat.stop()

    def as_principal(self, token: str) -> GatewayClient:
        """A client that sends this token. It needs no closing, because it holds no connection."""
        return GatewayClient(open_http("http://gateway", InProcessTransport(self.app)), token)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds. Raises TimeoutError after 20 seconds."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


async def ended(client: GatewayClient, run_id: str) -> Run:
    """Wait until the run is neither planning nor running, and return it."""
    async with asyncio.timeout(20):
        while (run := await client.run(run_id)).status in (RunStatus.PLANNING, RunStatus.RUNNING):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return run


@asynccontextmanager
async def open_gateway(database: Path | str, fakes: Fakes | None = None, **settings: Any) -> AsyncIterator[Gateway]:
    """Open a gateway on the database at that URL or in that folder."""
    url = database if isinstance(database, str) else f"sqlite+aiosqlite:///{database}/gateway.db"
    fakes = fakes or Fakes()
    app = create_app(GatewaySettings(database_url=url, **{"warm_apis": 0} | settings), peers=fakes.peers)
    before = asyncio.all_tasks()
    heartbeats: list[Heartbeat] = []

    def heartbeat(membership: Membership) -> Heartbeat:
        heartbeats.append(Heartbeat(membership))
        return heartbeats[0]

    async with AsyncExitStack() as stack:
        with patch("gateway.recovery.Heartbeat", heartbeat):
            await stack.enter_async_context(app.router.lifespan_context(app))
        keepers = frozenset(asyncio.all_tasks() - before)
        typed, http = [
            await stack.enter_async_context(open_http("http://gateway", InProcessTransport(app))) for _ in range(2)
        ]
        yield Gateway(app, fakes, GatewayClient(typed), http, keepers, heartbeats[0])


def ask(query: str, **options: Any) -> SolveRequest:
    """A request with these options."""
    return SolveRequest(query=query, options=SolveOptions(**options))
