"""What requests without an accepted token may take: counted turns, and whom they delay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from services import turns
from services.turns import MOST, TurnsMiddleware, accept, give_up, waits


class House:
    """Requests of two addresses, served by the middleware alone. Paths name what becomes of a request."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.waited: list[bool] = []
        self.go_on = asyncio.Event()
        self.turns = TurnsMiddleware(self._app)
        self._tasks: list[asyncio.Task[None]] = []

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.served.append(scope["path"])
        match scope["path"]:
            case "/accepted":
                accept(scope, "owner")
                await self.go_on.wait()
            case "/waits":
                await self.go_on.wait()
            case "/fails":
                raise RuntimeError
            case "/streams":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await self.go_on.wait()
            case "/listens":  # for its client's end, beside the work
                listening = asyncio.ensure_future(receive())
                await asyncio.sleep(0)
                self.waited.append(waits(scope))
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await self.go_on.wait()
                await listening
            case "/reads":
                await receive()
            case "/revoked":
                await send({"type": "http.response.start", "status": 401, "headers": []})

    def ask(self, path: str, *, token: str = "", address: str = "192.0.2.1", receive: Any = None) -> Scope:
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope: Scope = {"type": "http", "path": path, "client": (address, 1), "headers": headers}

        async def sent(_message: Message) -> None:
            return None

        self._tasks.append(asyncio.create_task(self.turns(scope, receive or self._silent, sent)))
        return scope

    async def _silent(self) -> Message:
        await self.go_on.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def until_served(self, path: str, times: int) -> None:
        async with asyncio.timeout(10):
            while self.served.count(path) < times:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        self.go_on.set()
        async with asyncio.timeout(10):
            await asyncio.gather(*self._tasks, return_exceptions=True)
            while self.turns._lines:  # noqa: ASYNC110 - every turn has been given back
                await asyncio.sleep(0.001)


@asynccontextmanager
async def opened() -> AsyncIterator[House]:
    house = House()
    try:
        yield house
    finally:
        await house.close()


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with opened() as one:
        yield one


@pytest.fixture
def without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that was not accepted rests until the test ends."""
    monkeypatch.setattr(turns, "REST_TIMES", 1e12)
    monkeypatch.setattr(turns, "MOST_REST_S", 0.5)


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_few_requests_of_an_address_are_worked_on_at_once(house: House) -> None:
    for _ in range(50):
        house.ask("/waits")
    await _settle()
    assert len(house.served) == MOST
    house.ask("/waits", address="192.0.2.2")
    await _settle()
    assert len(house.served) == MOST + 1
    house.go_on.set()
    await house.until_served("/waits", 51)


async def test_accepted_requests_wait_for_nobody(house: House) -> None:
    for _ in range(50):
        house.ask("/waits")
    for _ in range(50):
        house.ask("/accepted", token="good")
    await house.until_served("/accepted", 50)
    for _ in range(50):
        house.ask("/waits", token="wrong")
    house.ask("/accepted", token="good")
    await house.until_served("/accepted", 51)
    assert house.served.count("/waits") == 2 * MOST


async def test_a_token_that_is_not_valid_any_more_delays_its_address_only(house: House) -> None:
    house.ask("/accepted", token="good")
    house.ask("/accepted", token="lost")
    house.ask("/revoked", token="lost")
    await house.until_served("/revoked", 1)
    for _ in range(50):
        house.ask("/waits", token="lost")
    house.ask("/accepted", token="good")
    await house.until_served("/accepted", 3)


@pytest.mark.usefixtures("without_end")
@pytest.mark.parametrize("path", ["/waits", "/fails", "/streams", "/revoked"])
async def test_a_turn_rests_unless_its_request_was_accepted(house: House, path: str) -> None:
    house.go_on.set()
    for _ in range(MOST):
        house.ask("/accepted", token="good")
    await house.until_served("/accepted", MOST)
    for _ in range(2 * MOST):
        house.ask(path)
    await _settle()
    assert house.served.count(path) == MOST
    house.ask("/accepted", token="good")
    await house.until_served("/accepted", MOST + 1)


@pytest.mark.parametrize("path", ["/streams", "/reads", "/fails"])
async def test_a_client_cannot_hold_a_turn(house: House, path: str) -> None:
    for _ in range(3 * MOST):
        house.ask(path)
    await house.until_served(path, 3 * MOST)


async def test_after_its_body_a_request_waits_for_a_turn_again(house: House) -> None:
    arrived = asyncio.Event()
    done: list[None] = []

    async def receive() -> Message:
        await arrived.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        done.append(None)

    for _ in range(MOST):
        house.ask("/reads", receive=receive)
    await house.until_served("/reads", MOST)
    await asyncio.sleep(0.02)  # their turns have rested
    for _ in range(MOST):
        house.ask("/waits")
    await house.until_served("/waits", MOST)
    house.turns.app = app
    arrived.set()
    house.ask("/late", receive=receive)
    await _settle()
    assert not done


async def test_who_has_gone_is_not_served(house: House) -> None:
    scopes = [house.ask("/waits") for _ in range(3 * MOST)]
    await _settle()
    for scope in scopes[MOST : 2 * MOST]:
        give_up(scope)
    for task in house._tasks[2 * MOST :]:
        task.cancel()
    house.go_on.set()
    await asyncio.gather(*house._tasks, return_exceptions=True)
    assert len(house.served) == MOST


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on(house: House) -> None:
    for _ in range(MOST):
        house.ask("/waits")
    house.ask("/late")
    house.ask("/next")
    await _settle()
    waiting = next(iter(house.turns._lines.values()))._waiting
    waiting.popitem(last=False)[0].set_result(True)
    house._tasks[MOST].cancel()
    await house.until_served("/next", 1)
    assert "/late" not in house.served


async def test_who_has_gone_takes_no_memory(house: House) -> None:
    for _ in range(MOST + 1):
        house.ask("/waits")
    gone = [house.ask("/waits") for _ in range(20)]
    await _settle()
    (line,) = house.turns._lines.values()
    assert len(line._waiting) == 21
    for scope in gone:
        assert waits(scope)
        give_up(scope)
    await _settle()
    assert len(line._waiting) == 1


@pytest.mark.usefixtures("without_end")
async def test_a_request_whose_response_has_begun_waits_for_nothing(house: House) -> None:
    async def body() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    for _ in range(MOST - 1):
        house.ask("/waits")
    scope = house.ask("/listens", receive=body)
    await house.until_served("/listens", 1)
    await _settle()
    assert house.waited == [True]
    assert not waits(scope)


async def test_an_owner_cannot_displace_what_others_are_known_by(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_MOST_KNOWN", 500)
    monkeypatch.setattr(turns, "_MOST_OF_OWNER", 100, raising=False)
    house.turns.remember(b"other", "other")
    for number in range(1_000):
        house.turns.remember(b"%d" % number, "owner")
    assert house.turns._owners[b"other"] == "other"
    assert set(house.turns._owners) == {b"other"} | {b"%d" % number for number in range(900, 1_000)}
    for number in range(1_000):
        house.turns.remember(b"%d" % number, f"owner {number}")
    assert len(house.turns._owners) == 500
    for credential in list(house.turns._owners):
        house.turns.forget(credential)
    assert not house.turns._known


@pytest.mark.usefixtures("without_end")
async def test_who_goes_while_the_body_waits_for_a_turn_is_told_as_gone(house: House) -> None:
    arrived, got = asyncio.Event(), list[str]()

    async def receive() -> Message:
        await arrived.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def app(scope: Scope, receive: Receive, _send: Send) -> None:
        if scope["path"] == "/waits":
            await house.go_on.wait()
        else:
            got.append((await receive())["type"])

    house.turns.app = app
    scope = house.ask("/late", receive=receive)
    await _settle()
    await asyncio.sleep(0.6)  # its turn has rested
    for _ in range(MOST):
        house.ask("/waits")
    await _settle()
    arrived.set()
    await _settle()
    assert waits(scope)
    give_up(scope)
    await _settle()
    assert got == ["http.disconnect"]
