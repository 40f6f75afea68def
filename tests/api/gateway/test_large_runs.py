"""Runs of megabytes: no more of them is parsed than is shown."""

import gc
from contextlib import suppress
from typing import Any

import pytest

from gateway.tables import run_of, run_row
from services.collecting import no_collection
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.run import Run
from tests.support.console_pages import PRINCIPALS, get, visit
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, HOLIDAYS, Gateway, ask, open_gateway


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is parsed in full of stored runs and events."""
    found = list[str]()
    for name in ("run_of", "run_event", "stored_run"):
        original = getattr(__import__("gateway.storage", fromlist=[name]), name)

        def counted(*arguments: Any, name: str = name, original: Any = original) -> Any:
            found.append(name)
            return original(*arguments)

        for module in ("storage", "console.runs"):
            monkeypatch.setattr(f"gateway.{module}.{name}", counted, raising=False)
    return found


async def test_an_export_passes_on_what_is_stored(tmp_path: Any, parsed: list[str]) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as gateway:
        token = PRINCIPALS[0]["token"]
        client = gateway.as_principal(token)
        gateway.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(
            value={"names": ["é漢\u2028\U0001f600\x7f"]}, status=200
        )
        run = await client.solve(ask(ASK_HOLIDAYS))
        parsed.clear()
        path = f"/tenants/{PRINCIPALS[0]['tenant']}/export"
        answer = await gateway.http.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.text.isascii()
        lines = [line async for line in client.export_tenant(PRINCIPALS[0]["tenant"])]
        assert [Run.model_validate(line.data) for line in lines if line.kind == "run"] == [run]
        assert parsed == []


async def test_a_page_of_a_run_reads_its_values_once(gateway: Gateway, parsed: list[str]) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, _ = await visit(gateway)
    parsed.clear()
    page = (await get(gateway, f"runs/{run.id}", cookie)).text
    assert parsed == ["run_of"]
    for said in ("planned, 2 steps", "<b>var2</b> begun at", "<b>var2</b> succeeded", "finished: succeeded"):
        assert said in page
    assert "the last" not in page
    parsed.clear()
    assert (await get(gateway, f"runs/{run.id}/json", cookie)).text == (await gateway.http.get(f"/runs/{run.id}")).text
    assert parsed == []


async def test_only_the_newest_events_of_a_run_are_listed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.console.runs._EVENTS", 2)
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    cookie, _ = await visit(gateway)
    page = (await get(gateway, f"runs/{run.id}", cookie)).text
    assert "the last 2 of 6" in page
    assert "finished: succeeded" in page
    assert "begun at" not in page


async def test_events_are_followed_without_reading_the_run(gateway: Gateway, parsed: list[str]) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    parsed.clear()
    events = [event async for event in gateway.client.events(run.id)]
    assert events[-1].event.kind == "finished"
    assert set(parsed) == {"run_event"}


async def test_a_page_of_approvals_shows_as_many_in_full_as_fit(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = [await gateway.client.solve(ask(ASK_ROOM)) for _ in range(3)]
    cookie, _ = await visit(gateway)
    for room, shown in ((10, [first]), (2 * len(second.model_dump_json()) + 50, [first, second])):
        monkeypatch.setattr("gateway.console.runs._WAITING_BYTES", room)
        page = (await get(gateway, "approvals", cookie)).text
        assert page.count('<article class="case"') == len(shown)
        assert all(one.id in page for one in (first, second, third))
        assert f"{3 - len(shown)} further" in page


def test_no_garbage_is_collected_while_a_run_is_parsed() -> None:
    value: Any = [{"n": [n]} for n in range(20_000)]
    record = StepRecord(step="a", api="p.a", outcome=Succeeded(value=value, status=200), started_ms=0, duration_ms=1)
    made = {"id": "run_1", "status": "succeeded", "query": "q", "created_at": "2026-01-01T00:00:00Z"}
    document = str(run_row(Run.model_validate(made).model_copy(update={"steps": (record,)}))["document"])
    collected = list[str]()

    def told(phase: str, _info: Any) -> None:
        collected.append(phase)

    gc.callbacks.append(told)
    try:
        assert run_of(document, None).steps == (record,)
    finally:
        gc.callbacks.remove(told)
    assert collected.count("start") <= 3
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    with suppress(KeyError), no_collection():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
