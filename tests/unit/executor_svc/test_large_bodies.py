"""Large bodies of requests are built beside the event loop, and only as far as there is memory for them."""

import asyncio
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from executor_svc.adapters.http import adapter, request, sending
from executor_svc.adapters.http.serialise import encode
from services.contracts.api import Api, RequestBody
from services.contracts.outcome import Failed, Succeeded
from services.size_budget import SizeBudget, SizeExceeded
from tests.support.executing import api, key_in, parameter
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
KEY = key_in("body", "k", "test.k")


def taking(upstream: Upstream, media_type: str, name: str = "text", *, keyed: bool = False) -> Api:
    """A read that takes a body."""
    made = api(
        upstream.origin,
        "/take",
        parameter(name, "body"),
        method="POST",
        body=RequestBody(media_type=media_type),
        security=((KEY,),) if keyed else (),
    )
    return made.model_copy(update={"effect": "read"})


def note_threads(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, on_loop: list[bool]) -> None:
    work: Callable[..., Any] = getattr(place, name)

    def noting(*args: Any, **more: Any) -> Any:
        if args[1]:  # there is something to add
            on_loop.append(threading.current_thread() is threading.main_thread())
        return work(*args, **more)

    monkeypatch.setattr(place, name, noting)


@pytest.mark.parametrize("media_type", [JSON, FORM, MULTIPART])
@pytest.mark.parametrize("keyed", [False, True])
async def test_large_requests_are_built_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, upstream: Upstream, opened: Opener, media_type: str, keyed: bool
) -> None:
    """A form of 10 MB took 0.7 s, and eight of them six seconds of everybody's time."""
    on_loop: list[bool] = []
    note_threads(monkeypatch, request, "build_body", on_loop)
    note_threads(monkeypatch, request, "with_fields", on_loop)
    secret = {"value": "KEY-0123456789", "hosts": [upstream.host], "in": "body", "name": "k"}
    call = await opened({"test.k": secret} if keyed else {})
    taken = taking(upstream, media_type, keyed=keyed)
    assert isinstance((await call(taken, text="y", value_bytes=1)).outcome, Succeeded)
    assert on_loop
    assert all(on_loop)
    on_loop.clear()
    result = await call(taken, text="€" * 50_000, value_bytes=150_000)
    assert isinstance(result.outcome, Succeeded)
    assert on_loop
    assert not any(on_loop)
    assert result.request is not None
    assert "bytes, not kept" in str(result.request.body)
    assert (b"KEY-0123456789" in upstream.seen[-1].body) is keyed


async def test_a_request_that_cannot_be_built_in_time_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, upstream: Upstream, opened: Opener
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(adapter, "build_request", lambda *_: go_on.wait(20))
    call = await opened()
    posting = taking(upstream, FORM).model_copy(update={"effect": "write"})
    outcome = (await call(posting, within_s=0.1, text="y", value_bytes=100_000)).outcome
    go_on.set()
    assert isinstance(outcome, Failed)
    assert (outcome.reason, upstream.count("/take")) == ("timeout", 0)
    assert "nothing was sent" in outcome.message


async def test_bodies_in_flight_have_so_much_memory_and_no_more(upstream: Upstream, opened: Opener) -> None:
    """A form takes three times the room of its values: eight of 10 MB were 240 MB."""
    go_on = asyncio.Event()

    @upstream.on("/take")
    async def slow(_: Seen) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response({})

    call = await opened(max_answers_bytes=1_000_000, answers_wait_s=0.3)
    calls = [asyncio.create_task(call(taking(upstream, FORM), text="€" * 33_000, value_bytes=99_000)) for _ in range(8)]
    await asyncio.sleep(0.6)
    go_on.set()
    outcomes = [(await one).outcome for one in calls]
    sent = [len(seen.body) for seen in upstream.seen]
    assert sent == [297_005] * 2  # a host may use half of the memory
    assert [one.reason for one in outcomes if isinstance(one, Failed)] == ["overloaded"] * 6


async def test_a_body_that_repeats_the_name_of_its_field_waits_for_memory(
    monkeypatch: pytest.MonkeyPatch, upstream: Upstream, opened: Opener
) -> None:
    held: list[int] = []
    hold = sending.Sender.hold

    async def noting(self: Any, pending: Any, size: int) -> None:
        await hold(self, pending, size)
        held.append(pending.share.held)

    monkeypatch.setattr(sending.Sender, "hold", noting)
    call = await opened()
    result = await call(taking(upstream, MULTIPART, "n" * 200), value_bytes=70_000, **{"n" * 200: ["y"] * 1_000})
    assert isinstance(result.outcome, Succeeded)
    assert held == [70_000 - 65_536, len(upstream.seen[0].body) - 65_536]


def test_encoding_takes_no_memory_for_each_byte() -> None:
    """It took an object for each: 80 MB in addition for a form of 10 MB."""
    text = "€" * 300_000
    tracemalloc.start()
    try:
        encoded = encode(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert encoded == "%E2%82%AC" * 300_000
    assert peak < 3 * len(encoded)


def test_text_from_an_answer_counts_in_bytes() -> None:
    budget = SizeBudget(250)
    budget.take("€" * 80)
    assert budget.taken == 240
    with pytest.raises(SizeExceeded):
        budget.take("é" * 6)
