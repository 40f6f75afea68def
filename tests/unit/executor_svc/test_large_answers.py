"""Large answers stall nobody: they take turns, are bounded before they are parsed, and are read beside the loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from aiohttp import web

from executor_svc.adapters.http import adapter as adapter_module
from executor_svc.adapters.http.coding import Decoder
from executor_svc.adapters.http.response import decode
from executor_svc.masking import Masker
from services.byte_budget import BudgetTimeout, ByteBudget
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, needs
from tests.support.upstream import Seen, Upstream, serve_raw
from tests.unit.executor_svc.conftest import Opener

WAIT_S = 20.0


async def test_more_values_than_the_limit_are_refused(upstream: Upstream, opened: Opener) -> None:
    """Nine megabytes of them took seconds of the loop and a hundred times their size."""
    upstream.replies("/wide", web.Response(body=b"[" + b"[]," * 1_000_000 + b"[]]", content_type="application/json"))
    upstream.replies("/text", web.json_response([",[{" * 400_000]))
    call = await opened()
    wide = (await call(api(upstream.origin, "/wide"))).outcome
    assert isinstance(wide, Failed)
    assert (wide.reason, wide.message) == ("bad_response", "the answer has more than 1000000 values")
    assert isinstance((await call(api(upstream.origin, "/text"))).outcome, Succeeded)  # in a string they are none


@pytest.mark.parametrize("part", ["decode", "mask"])
async def test_the_loop_turns_while_a_large_answer_is_read(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Reading waits for what only the loop can do."""
    loop, turned = asyncio.get_running_loop(), threading.Event()

    def waiting(work: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            loop.call_soon_threadsafe(turned.set)
            assert turned.wait(WAIT_S), "the loop was held up"
            return work(*arguments)

        return read

    if part == "decode":
        monkeypatch.setattr(adapter_module, "decode", waiting(decode))
    else:
        monkeypatch.setattr(Masker, "json", waiting(Masker.json))
    upstream.replies("/large", {"said": ["x" * 70_000, "a-long-s3cret"]})
    call = await opened({"test.it": {"value": "a-long-s3cret", "hosts": [upstream.host]}})
    result = await call(api(upstream.origin, "/large", security=((needs("bearer"),),)))
    assert result.outcome == Succeeded(value={"said": ["x" * 70_000, "***"]}, status=200)
    assert turned.is_set()


async def test_little_of_an_answer_is_parsed_at_a_time(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be in small chunks, and a hundred answers may arrive at once."""
    pieces = list[int]()

    class Counting(Decoder):
        def feed(self, data: bytes) -> Iterator[bytes]:
            pieces.append(len(data))
            return super().feed(data)

    monkeypatch.setattr("executor_svc.adapters.http.transport.Decoder", Counting)

    @upstream.on("/a")
    async def large(_: Seen) -> web.Response:
        return web.json_response({"text": "x" * 2_000_000})

    call = await opened()
    assert isinstance((await call(api(upstream.origin, "/a"))).outcome, Succeeded)
    assert sum(pieces) > 2_000_000
    assert max(pieces) < 64 * 1024


async def test_an_answer_that_finds_no_room_fails_as_one_to_ask_again(opened: Opener) -> None:
    """An upstream that stops in the middle of its first answer."""
    half_sent, go_on = asyncio.Event(), asyncio.Event()
    body = b'"' + b"x" * 300_000 + b'"'

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
        writer.write(head + b"%d\r\n\r\n" % len(body) + body[:200_000])
        await writer.drain()
        if not half_sent.is_set():
            half_sent.set()
            await go_on.wait()
        writer.write(body[200_000:])
        await writer.drain()

    async with serve_raw(script) as host:
        call = await opened(max_answers_bytes=300_000, answers_wait_s=0.2)
        operation = api(f"http://{host}")
        first = asyncio.create_task(call(operation))
        await half_sent.wait()
        refused = (await call(operation)).outcome
        go_on.set()
        assert isinstance((await first).outcome, Succeeded)
        assert isinstance((await call(operation)).outcome, Succeeded)
    assert isinstance(refused, Failed)
    assert (refused.reason, refused.status) == ("overloaded", 200)
    assert "try again" in refused.message


async def test_answers_wait_for_room_and_then_fail_as_what_can_be_asked_again() -> None:
    budget = ByteBudget(1_000, patience_s=1)
    clock = asyncio.get_running_loop().time
    with budget.share("a", "red") as first, budget.share("a", "red") as second, budget.share("b", "blue") as other:
        await first.take(400, clock())
        await second.take(100, clock())  # half of all for one upstream
        with pytest.raises(BudgetTimeout):
            await second.take(1, clock())
        await other.take(500, clock() + WAIT_S)
        with pytest.raises(BudgetTimeout):
            await other.take(1, clock())
        await first.take(10_000, clock())  # who came first goes on, or nobody would
        waiting = asyncio.create_task(second.take(300, clock() + WAIT_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        first.give_back(first.held)
        await waiting
        assert (first.held, second.held, other.held) == (0, 400, 500)


async def test_a_tenant_leaves_half_of_the_memory_to_others_whatever_it_calls() -> None:
    budget = ByteBudget(1_000, patience_s=1)
    clock = asyncio.get_running_loop().time
    with ExitStack() as stack:
        red = [stack.enter_context(budget.share(f"red-{number}", "red")) for number in range(6)]
        for share in red[:5]:
            await share.take(100, clock())
        with pytest.raises(BudgetTimeout):
            await red[5].take(100, clock())
        first, second = (stack.enter_context(budget.share(f"blue-{number}", "blue")) for number in range(2))
        await first.take(400, clock())
        with pytest.raises(BudgetTimeout):
            await second.take(101, clock())
        await first.take(100, clock())


async def test_a_tenants_oldest_answer_is_read_to_its_end() -> None:
    """Its other answers may all wait for it, while another tenant's is the oldest."""
    budget = ByteBudget(1_000, patience_s=1)
    clock = asyncio.get_running_loop().time
    with budget.share("a", "red") as stalled, budget.share("b", "blue") as first, budget.share("c", "blue") as second:
        await stalled.take(10, clock())
        await first.take(250, clock())
        await second.take(250, clock())
        with pytest.raises(BudgetTimeout):
            await second.take(100, clock())
        await first.take(100, clock())


async def test_who_gives_up_waiting_holds_up_nobody() -> None:
    budget = ByteBudget(1_000, patience_s=1)
    clock = asyncio.get_running_loop().time
    with budget.share("a", "red") as first, budget.share("b", "blue") as second:
        await first.take(1_000, clock())
        waiting = asyncio.create_task(second.take(600, clock() + WAIT_S))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        first.give_back(1_000)
        with budget.share("c", "blue") as third:
            await third.take(2_000, clock())  # nobody is before it
