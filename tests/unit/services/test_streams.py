"""Streams of events: what is sent while nothing happens, and how they end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import httpx2
import pytest
from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel

from services.app import create_service, service_router
from services.clients import InProcessTransport
from services.errors import ServiceUnavailable
from services.http import StrictRoute
from services.settings import ServiceSettings
from services.streams import EventResponse, NdjsonResponse, SseResponse


class Counted(BaseModel):
    kind: Literal["counted"] = "counted"
    value: int


class Numbered(BaseModel):
    id: int
    event: Counted


def numbered(value: int) -> Numbered:
    return Numbered(id=value, event=Counted(value=value))


Events = AsyncGenerator[Numbered, None]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.streams.HEARTBEAT_S", 0.01)


def client(router: APIRouter) -> httpx2.AsyncClient:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        yield

    app = create_service(
        name="events", title="Events", description="", settings=ServiceSettings(), routers=[router], lifespan=lifespan
    )
    return httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://svc", timeout=20)


def answering(response: EventResponse) -> httpx2.AsyncClient:
    router = service_router()

    @router.get("/", response_model=None)
    async def answer() -> EventResponse:
        return response

    return client(router)


async def read_until(response: httpx2.Response, sign: bytes, go_on: asyncio.Event) -> bytes:
    """The whole stream. The event is set when the sign has been read."""
    text = b""
    async for part in response.aiter_bytes():
        text += part
        if sign in text:
            go_on.set()
    return text


async def paused(go_on: asyncio.Event) -> Events:
    yield numbered(1)
    await go_on.wait()
    yield numbered(2)


async def test_lines_have_heartbeats_between_events() -> None:
    go_on = asyncio.Event()
    async with answering(NdjsonResponse(paused(go_on))) as http, http.stream("GET", "/") as response:
        text = await read_until(response, b"}\n\n\n", go_on)
    assert [line for line in text.split(b"\n") if line] == [
        b'{"id":1,"event":{"kind":"counted","value":1}}',
        b'{"id":2,"event":{"kind":"counted","value":2}}',
    ]


async def test_server_sent_events_have_comments_between_them() -> None:
    go_on = asyncio.Event()
    async with answering(SseResponse(paused(go_on))) as http, http.stream("GET", "/") as response:
        text = await read_until(response, b"id: 1\n\n: ping\n\n: ping", go_on)
    assert text.startswith(b"retry: 1000\n\nevent: counted\n")
    assert text.endswith(b'data: {"kind":"counted","value":2}\nid: 2\n\n')


async def refused_late(*events: Numbered) -> Events:
    await asyncio.sleep(0.1)
    for event in events:
        yield event
    raise ServiceUnavailable("The ledger is away.", service="ledger")


async def test_a_late_refusal_is_a_problem_unless_the_request_was_accepted() -> None:
    async with answering(NdjsonResponse(refused_late())) as http:
        response = await http.get("/")
        assert (response.status_code, response.headers["content-type"]) == (503, "application/problem+json")
    async with answering(NdjsonResponse(refused_late(), accepted=True)) as http, http.stream("GET", "/") as begun:
        assert begun.status_code == 200
        with pytest.raises(httpx2.RemoteProtocolError):
            await begun.aread()


async def test_a_check_that_fails_ends_a_silent_stream() -> None:
    closed = asyncio.Event()

    async def silent() -> Events:
        try:
            yield numbered(1)
            await asyncio.Event().wait()
        finally:
            closed.set()

    checks = 0

    class Checked(StrictRoute):
        async def readmit(self, request: Request) -> None:
            nonlocal checks
            checks += 1
            if checks > 3:
                raise ServiceUnavailable("The key has ended.", service="keys")

    router = service_router(route_class=Checked)

    @router.get("/", response_model=None)
    async def answer() -> EventResponse:
        return NdjsonResponse(silent())

    async with client(router) as http, http.stream("GET", "/") as stream:
        with pytest.raises(httpx2.RemoteProtocolError):
            await stream.aread()
    assert closed.is_set()


async def test_what_a_generator_has_open_stays_in_one_task() -> None:
    """A timeout around several events interrupts the generator although heartbeats were sent meanwhile."""
    tasks = set[object]()

    async def bounded() -> Events:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                for value in (1, 2):
                    tasks.add(asyncio.current_task())
                    yield numbered(value)
                    await asyncio.sleep(0.05)
                await asyncio.sleep(20)
        tasks.add(asyncio.current_task())
        yield numbered(3)

    async with answering(NdjsonResponse(bounded())) as http:
        text = (await http.get("/")).text
    assert '"value":3' in text
    assert "\n\n" in text
    assert len(tasks) == 1


async def test_no_event_is_made_before_the_one_before_is_sent() -> None:
    made = 0

    async def many() -> Events:
        nonlocal made
        for value in range(100):
            made += 1
            yield numbered(value)

    async with answering(NdjsonResponse(many())) as http, http.stream("GET", "/") as response:
        lines = response.aiter_lines()
        await anext(lines)
        await asyncio.sleep(0.1)
        assert made < 5  # the transport holds a few
        assert len([line async for line in lines if line]) == 99
