"""The in-process transport treats an app as a remote service would be treated."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.testing import capture_logs

from services.app import create_service, service_router
from services.clients import InProcessTransport
from services.errors import ServiceUnavailable
from services.settings import ServiceSettings
from services.streams import NdjsonResponse

color: contextvars.ContextVar[str] = contextvars.ContextVar("color", default="none")


def client_of(app: ASGIApp, timeout: float = 5.0) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://svc", timeout=timeout)


async def start(send: Send, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})


async def chunk(send: Send, body: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def test_the_app_sees_the_request_as_a_server_would_show_it() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        assert message == {"type": "http.request", "body": b"abc", "more_body": False}
        seen.append(scope)
        await start(send, 201)
        await chunk(send, b"done", more=False)

    async with client_of(app) as http:
        response = await http.post("/a%2Fb/%C3%A9?q=1&q=%26", content=b"abc", headers={"X-Color": "Red"})
    assert (response.status_code, response.text) == (201, "done")
    (scope,) = seen
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a/b/é", b"/a%2Fb/%C3%A9", b"q=1&q=%26")
    assert (b"x-color", b"Red") in scope["headers"]
    assert (b"content-length", b"3") in scope["headers"]


async def test_a_stream_arrives_piece_by_piece() -> None:
    second = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await chunk(send, b"one")
        await second.wait()
        await chunk(send, b"two", more=False)

    async with client_of(app) as http, http.stream("GET", "/") as response:
        pieces = response.aiter_bytes()
        assert await anext(pieces) == b"one"  # the second does not exist yet
        second.set()
        assert [piece async for piece in pieces] == [b"two"]


async def test_a_slow_reader_holds_the_app_back() -> None:
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await start(send)
        for number in range(100):
            await chunk(send, b"x", more=number < 99)
            sent += 1

    async with client_of(app) as http, http.stream("GET", "/") as response:
        for _ in range(50):
            await asyncio.sleep(0)
        assert sent <= 2
        assert len(b"".join([piece async for piece in response.aiter_bytes()])) == 100
    assert sent == 100


async def test_the_time_between_two_pieces_is_bounded() -> None:
    cancelled = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await start(send)
            await chunk(send, b"one")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with client_of(app, timeout=0.05) as http:
        with pytest.raises(httpx2.ReadTimeout):
            await http.get("/")
    assert cancelled.is_set()


async def test_closing_early_tells_the_app_and_stops_it() -> None:
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await start(send)
            while True:
                await chunk(send, b"x")
        finally:
            ended.set()

    async with client_of(app) as http:
        async with http.stream("GET", "/") as response:
            assert await anext(response.aiter_bytes()) == b"x"
        assert ended.is_set()


async def test_an_app_that_waits_for_the_end_of_the_connection_learns_of_it() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await start(send)
        await chunk(send, b"all", more=False)
        seen.append((await receive())["type"])

    async with client_of(app) as http:
        assert (await http.get("/")).text == "all"
    await asyncio.sleep(0)
    assert seen == ["http.disconnect"]


async def test_work_after_the_answer_is_not_cut_off() -> None:
    done = asyncio.Event()

    async def later() -> None:
        await asyncio.sleep(0.01)
        done.set()

    def answer(request: Request) -> Response:
        return PlainTextResponse("first", background=BackgroundTask(later))

    async with client_of(Starlette(routes=[Route("/", answer)])) as http:
        assert (await http.get("/")).text == "first"
        assert not done.is_set()
        await asyncio.wait_for(done.wait(), 5)


@pytest.mark.parametrize("after", ["nothing", "start", "body", "half"])
async def test_an_app_that_fails_is_a_broken_connection(after: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if after != "nothing":
            await start(send)
        if after in ("body", "half"):
            await chunk(send, b"one")
        if after != "half":
            raise ValueError("a bug")

    async with client_of(app) as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get("/")


async def test_an_app_cancelled_from_within_does_not_leave_its_caller_waiting() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise asyncio.CancelledError

    async with client_of(app) as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await asyncio.wait_for(http.get("/"), 5)


async def test_a_bug_after_the_answer_is_the_apps_own_business() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await chunk(send, b"fine", more=False)
        await chunk(send, b"too much")
        raise ValueError("a bug")

    async with client_of(app) as http:
        assert (await http.get("/")).text == "fine"


async def test_the_callers_cancellation_reaches_the_app() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with client_of(app) as http:
        call = asyncio.create_task(http.get("/"))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert ended.is_set()


async def test_context_variables_do_not_cross() -> None:
    inside: list[str] = []

    async def answer(request: Request) -> Response:
        inside.append(color.get())
        color.set("blue")
        return PlainTextResponse("ok")

    color.set("red")
    async with client_of(Starlette(routes=[Route("/", answer)])) as http:
        await http.get("/")
        await http.get("/")
    assert inside == ["none", "none"]
    assert color.get() == "red"


class Number(BaseModel):
    value: int


def service_of(router: APIRouter) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    return create_service(
        name="numbers",
        title="Numbers",
        description="",
        settings=ServiceSettings(),
        routers=[router],
        lifespan=lifespan,
    )


async def test_a_stream_of_events_is_closed_when_its_reader_leaves() -> None:
    closed = asyncio.Event()

    async def numbers() -> AsyncGenerator[Number, None]:
        try:
            for value in range(1_000_000):
                yield Number(value=value)
        finally:
            await asyncio.sleep(0)  # what a generator closes may take its time
            closed.set()

    async def answer(request: Request) -> Response:
        return NdjsonResponse(numbers())

    async with client_of(Starlette(routes=[Route("/", answer)])) as http, http.stream("GET", "/") as response:
        assert await anext(response.aiter_lines()) == '{"value":0}'
        await response.aclose()
        assert closed.is_set()


@pytest.mark.parametrize(("before", "status"), [(0, 503), (1, 200)])
async def test_a_stream_that_cannot_begin_is_a_problem_and_one_that_cannot_go_on_is_cut_off(
    before: int, status: int
) -> None:
    async def numbers() -> AsyncGenerator[Number, None]:
        for value in range(before):
            yield Number(value=value)
        raise ServiceUnavailable("The ledger is away.", service="ledger")

    router = service_router()

    @router.get("/numbers")
    async def answer() -> NdjsonResponse:
        return NdjsonResponse(numbers())

    with capture_logs() as logged:
        async with client_of(service_of(router)) as http, http.stream("GET", "/numbers") as response:
            assert response.status_code == status
            if before:
                with pytest.raises(httpx2.RemoteProtocolError):
                    await response.aread()
            else:
                assert "The ledger is away." in (await response.aread()).decode()
    assert logged == []  # nothing but bugs is logged in tests


async def test_a_caller_that_hangs_up_while_it_asks_is_no_bug() -> None:
    router = service_router()

    @router.post("/numbers")
    async def answer(number: Number) -> Number:
        return number

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope: Scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/numbers", "query_string": b""}
    scope["headers"] = [(b"host", b"test")]
    with capture_logs() as logged:
        await service_of(router)(scope, receive, send)
    assert logged == []
