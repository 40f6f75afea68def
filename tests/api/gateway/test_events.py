"""Server-sent events: from memory, from the table, from another process, and resumed after the last seen one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.contracts.event import RunEvent, RunFinished
from services.contracts.run import RunStatus
from services.errors import NotFound, Overloaded, ServiceUnavailable
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOKING,
    Fakes,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)

KINDS = ["planned", "step_started", "step_finished", "step_started", "step_finished", "finished"]


@pytest.fixture
async def pair(database_url: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways on one database."""
    fakes = Fakes()
    async with open_gateway(database_url, fakes) as one, open_gateway(database_url, fakes) as two:
        yield one, two


async def followed(gateway: Gateway, run_id: str, after: int = 0) -> list[RunEvent]:
    async with asyncio.timeout(20):
        return [event async for event in gateway.client.events(run_id, after)]


async def test_a_run_is_followed_from_any_process_and_later_from_the_table(pair: tuple[Gateway, Gateway]) -> None:
    one, two = pair
    one.fakes.executor.gate = asyncio.Event()
    run = await one.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    following = [asyncio.create_task(followed(gateway, run.id)) for gateway in (one, two, one)]
    await until(lambda: "execute" in one.fakes.executor.calls)
    one.fakes.executor.gate.set()
    lives = await asyncio.gather(*following)
    stored = [await followed(gateway, run.id) for gateway in pair]
    assert [event.event.kind for event in lives[0]] == KINDS
    assert [event.id for event in lives[0]] == [1, 2, 3, 4, 5, 6]
    assert all(events == lives[0] for events in lives + stored)


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    events = await followed(gateway, run.id)
    for seen in range(6):
        assert await followed(gateway, run.id, seen) == events[seen:]
        path = f"/runs/{run.id}/events?after=6"
        again = await gateway.http.get(path, headers={"Last-Event-ID": str(seen)})
        assert again.text.count("\ndata: ") == 6 - seen
    for seen in (6, 7, 2**53):
        done = await gateway.http.get(f"/runs/{run.id}/events", headers={"Last-Event-ID": str(seen)})
        assert (done.status_code, done.content) == (204, b"")
        assert await followed(gateway, run.id, seen) == []


async def test_the_form_of_the_stream(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask("Make me a sandwich \u2028 \u0085"))
    response = await gateway.http.get(f"/runs/{run.id}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    head, block, rest = response.text.split("\n\n")
    assert (head, rest) == ("retry: 1000", "")
    fields = [line.partition(": ") for line in block.split("\n")]
    assert [name for name, _, _ in fields] == ["event", "data", "id"]
    assert (fields[0][2], fields[2][2]) == ("finished", "1")
    assert RunFinished.model_validate_json(fields[1][2]).run == run
    assert response.text.isascii()


async def test_an_approval_goes_on_where_the_events_ended(gateway: Gateway) -> None:
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    (asked,) = await followed(gateway, waiting.id)
    assert asked.event.kind == "finished"
    await gateway.client.approve(waiting.id, BOOKING.id)
    later = await followed(gateway, waiting.id, asked.id)
    assert [event.event.kind for event in later] == ["planned", "step_started", "step_finished", "finished"]
    assert sorted({event.id for event in later} | {asked.id}) == [asked.id, *(event.id for event in later)]
    assert await followed(gateway, waiting.id) == [asked, *later]


async def test_a_silent_run_keeps_its_streams_open(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.streams.HEARTBEAT_S", 0.01)
    gateway.fakes.executor.gate = asyncio.Event()
    run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    async with gateway.http.stream("GET", f"/runs/{run.id}/events") as response:
        text = ""
        async for part in response.aiter_text():
            text += part
            if ": ping" in text.partition("event: step_started")[2]:
                gateway.fakes.executor.gate.set()
    assert text.index("event: step_started") < text.rindex(": ping") < text.index("event: finished")


async def test_a_silent_run_keeps_a_stream_of_lines_open(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.streams.HEARTBEAT_S", 0.01)
    gateway.fakes.executor.gate = asyncio.Event()
    lines = b""
    async with gateway.http.stream("POST", "/solve:stream", json={"query": ASK_HOLIDAYS}) as response:
        async for part in response.aiter_bytes():
            lines += part
            if b"\n\n" in lines.partition(b"step_started")[2]:
                gateway.fakes.executor.gate.set()
    assert b'"finished"' in lines.rpartition(b"\n\n")[2]


async def test_a_silent_run_of_another_process_does_too(
    pair: tuple[Gateway, Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    one.fakes.executor.gate = asyncio.Event()
    run = await one.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    async with two.http.stream("GET", f"/runs/{run.id}/events") as response:
        text = ""
        async for part in response.aiter_text():
            text += part
            if ": ping" in text:
                one.fakes.executor.gate.set()
    assert text.count("event: finished") == 1


async def test_followers_are_bounded_and_let_go(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, max_followers=2) as gateway:
        gateway.fakes.executor.gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        streams = [gateway.client.events(run.id) for _ in range(2)]
        for stream in streams:
            assert (await anext(stream)).event.kind == "planned"
        with pytest.raises(Overloaded, match="streams"):
            await anext(gateway.client.events(run.id))
        assert "nestor_run_followers 2.0" in (await gateway.http.get("/metrics")).text
        await streams[0].aclose()
        third = gateway.client.events(run.id)
        assert (await anext(third)).event.kind == "planned"
        for stream in (streams[1], third):
            await stream.aclose()
        assert "nestor_run_followers 0.0" in (await gateway.http.get("/metrics")).text
        gateway.fakes.executor.gate.set()
        assert (await ended(gateway.client, run.id)).status is RunStatus.SUCCEEDED


async def test_a_gateway_that_stops_ends_its_streams(tmp_path: Path) -> None:
    fakes = Fakes()
    fakes.executor.gate = asyncio.Event()
    async with open_gateway(tmp_path, fakes, shutdown_grace_s=0) as gateway:
        run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
        events = gateway.client.events(run.id)
        assert (await anext(events)).event.kind == "planned"
        following = asyncio.create_task(_rest(events))
    assert (await following)[-1:] in ([], ["step_started"])


async def _rest(events: AsyncIterator[RunEvent]) -> list[str]:
    return [event.event.kind async for event in events]


async def test_events_wait_for_a_database_that_is_away(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    store = gateway.app.state.service._store
    append, events, away = store.append, store.events, True

    async def sometimes(ask_store: object, *args: object, **options: object) -> object:
        if away:
            raise ServiceUnavailable("The database (sqlite) cannot be reached.", service="sqlite")
        return await ask_store(*args, **options)  # type: ignore[operator]

    monkeypatch.setattr(store, "append", lambda *args: sometimes(append, *args))
    gateway.fakes.executor.gate = asyncio.Event()
    run = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    following = asyncio.create_task(followed(gateway, run.id))
    await until(lambda: "execute" in gateway.fakes.executor.calls)
    with pytest.raises(ServiceUnavailable):
        await gateway.app.state.service._streams._events.write()  # no event is lost
    away = False
    gateway.fakes.executor.gate.set()
    assert [event.event.kind for event in await following] == KINDS
    assert [event.event.kind for event in await followed(gateway, run.id)] == KINDS
    assert await events(run.id, 0) == await followed(gateway, run.id)


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?after=-1", {}),
        ("?after=x", {}),
        ("?after=9007199254740993", {}),
        ("?after=1e400", {}),
        ("", {"Last-Event-ID": "x"}),
        ("", {"Last-Event-ID": "-1"}),
        ("", {"Last-Event-ID": "9" * 400}),
        ("", {"Last-Event-ID": "\u0663"}),
    ],
)
async def test_numbers_that_are_none(gateway: Gateway, query: str, headers: dict[str, str]) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    sent = {key.encode(): value.encode() for key, value in headers.items()}
    response = await gateway.http.get(f"/runs/{run.id}/events{query}", headers=sent)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


async def test_an_unknown_run_is_a_problem_and_no_stream(gateway: Gateway) -> None:
    with pytest.raises(NotFound):
        await anext(gateway.client.events("run_none"))
    response = await gateway.http.get("/runs/run_none/events")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
