"""Lists of runs, access, and refused requests, on both databases."""

from collections.abc import AsyncIterator
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from services.contracts.run import RunStatus
from services.errors import NotFound, Unauthorized
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, Gateway, ask, open_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgresql"])
async def standing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway that is shared by all tests of refused requests, because these leave no state."""
    sqlite = request.param == "sqlite"
    database = tmp_path_factory.mktemp("standing") if sqlite else request.getfixturevalue("new_postgres_url")()
    async with open_gateway(database) as running:
        yield running


async def test_pages_follow_each_other_and_hold_every_run_once(either: Gateway) -> None:
    made = [(await either.client.solve(ask(ASK_ROOM if n % 3 == 0 else ASK_HOLIDAYS))).id for n in range(7)]
    for status, expected in (
        (None, made),
        (RunStatus.NEEDS_APPROVAL, made[::3]),
        (RunStatus.SUCCEEDED, [run for n, run in enumerate(made) if n % 3]),
        (RunStatus.CANCELLED, []),
    ):
        cursor, found, pages = None, list[str](), 0
        while pages == 0 or cursor:
            page = await either.client.runs(limit=2, cursor=cursor, status=status.value if status else None)
            assert len(page.runs) <= 2
            found += [run.id for run in page.runs]
            cursor, pages = page.next, pages + 1
        assert found == sorted(expected, reverse=True)
        assert pages == max(1, -(-len(expected) // 2))


async def test_runs_are_found_by_state_time_and_text(either: Gateway) -> None:
    asked = (ASK_HOLIDAYS, ASK_ROOM, "Make me a SANDWICH", "100% of_it \\ 'quoted'")
    runs = [await either.client.solve(ask(query)) for query in asked]

    async def found(**which: Any) -> list[int]:
        lines = (await either.client.runs(**which)).runs
        return sorted(next(n for n, run in enumerate(runs) if run.id == line.id) for line in lines)

    assert await found(status=["succeeded", "no_plan"]) == [0, 2, 3]
    assert await found(status=["cancelled", "running"]) == []
    assert await found(q="sandwich") == [2]
    for text, expected in (
        ("%", [3]),
        ("_", [3]),
        ("\\", [3]),
        ("'", [3]),
        ("portugal", [0]),
        ("0%", [3]),
        ("zzz", []),
    ):
        assert await found(q=text) == expected
    for n, run in enumerate(runs):
        assert await found(after=run.created_at) == list(range(n + 1, 4))
        assert await found(before=run.created_at) == list(range(n))
        elsewhere = run.created_at.astimezone(timezone(timedelta(hours=9)))
        assert await found(after=elsewhere) == list(range(n + 1, 4))
    assert await found(after=runs[0].created_at, before=runs[3].created_at, status="no_plan", q="me") == [2]
    page = await either.client.runs(limit=1, status=["no_plan"])
    assert page.next is not None
    assert [line.id for line in (await either.client.runs(cursor=page.next, status=["no_plan"])).runs] == [runs[2].id]


async def test_a_line_of_the_list_is_its_run(either: Gateway) -> None:
    run = await either.client.solve(ask(ASK_HOLIDAYS))
    (line,) = (await either.client.runs()).runs
    assert (line.id, line.status, line.query, line.created_at) == (run.id, run.status, run.query, run.created_at)
    assert line.total_ms == run.timings.total_ms


@pytest.mark.parametrize("query", ["a\x00b", "\ufeff%s{}--';", "\U0001f600" * 2_500, "x" * 10_000, "\u202e؀"])
async def test_a_query_of_odd_characters_is_kept_as_it_is(either: Gateway, query: str) -> None:
    run = await either.client.solve(ask(query))
    assert run.status is RunStatus.NO_PLAN
    assert (await either.client.run(run.id)).query == query
    (line,) = (await either.client.runs()).runs
    assert line.query.replace("\ufffd", "\x00") == query[:300]


@pytest.mark.parametrize("run_id", ["none", "run_", "%", "a b", "é", ".", "..", "'--"])
@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_run_is_not_found(standing: Gateway, run_id: str) -> None:
    with pytest.raises(NotFound):
        await standing.client.run(run_id)


@pytest.mark.parametrize(
    "path",
    [
        "/runs/%00",
        "/runs?cursor=%00",
        "/runs?cursor=" + "c" * 65,
        "/runs?cursor=zzz",
        "/runs?cursor=run_" + "0" * 31,
        "/audit?cursor=zzz",
        "/audit?cursor=aud_",
        "/keys?cursor=zzz",
        "/runs?limit=0",
        "/runs?limit=101",
        "/runs?limit=x",
        "/runs?status=odd",
        "/runs?status=succeeded&status=odd",
        "/runs?" + "status=succeeded&" * 21,
        "/runs?after=yesterday",
        "/runs?after=2026-01-01T00:00:00",
        "/runs?before=0001-01-01T00:00:00%2B14:00",
        "/runs?after=9999-12-31T23:59:59-14:00",
        "/runs?before=1e30",
        "/runs?q=",
        "/runs?q=%00",
        "/runs?q=" + "x" * 201,
        "/apis?limit=1000",
        "/apis?query=",
        "/apis/%00",
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_addresses_are_clear_problems(standing: Gateway, path: str) -> None:
    response = await standing.http.get(path)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert response.json()["errors"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b'{"query": "\xff"}', 400),
        (b'{"query": "\\ud800"}', 400),
        (b'{"query": " "}', 422),
        (b'{"query": 1}', 422),
        (b'{"query": "x", "extra": 1}', 422),
        (b'{"query": "x", "options": {"top_k": NaN}}', 400),
        (b'{"query": "x", "options": {"deadline_ms": 1}}', 422),
        (b'{"query": "x", "context": {"now": "yesterday"}}', 422),
        (b'{"query": "x", "context": {"values": ' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}}", 400),
        (b'{"query": "' + b"x" * 10_001 + b'"}', 422),
        (b'{"query": "' + b"x" * 1_100_000 + b'"}', 413),
        (b'{"query": "x", "' + b"k" * 100_000 + b'": 1}', 422),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_requests_are_clear_problems(standing: Gateway, body: bytes, status: int) -> None:
    for path in ("/solve", "/plan", "/solve:stream", "/v1/solve"):
        response = await standing.http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
        assert response.json()["detail"]
        assert len(response.content) < 5_000
    assert (await standing.client.runs()).runs == ()


async def test_another_media_type_is_not_json(gateway: Gateway) -> None:
    response = await gateway.http.post("/solve", content=b'{"query": "x"}', headers={"Content-Type": "text/plain"})
    assert response.status_code in (415, 422)


async def test_a_document_may_be_larger_than_a_request(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, max_body_bytes=100, max_document_bytes=2_000) as gateway:
        for path, size, status in (("/solve", 200, 413), ("/apis:import", 200, 422), ("/apis:import", 3_000, 413)):
            response = await gateway.http.post(path, json={"document": "x" * size, "query": "x"})
            assert (response.status_code, response.json()["status"]) == (status, status)


async def test_a_token_guards_everything_but_the_probes(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, token="s3cret-token") as gateway:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "s3cret-token"},
            {"Authorization": "é"},
        ):
            for method, path in (
                ("GET", "/runs"),
                ("GET", "/v1/runs/x"),
                ("GET", "/apis"),
                ("GET", "/demos"),
                ("DELETE", "/providers/x"),
                ("POST", "/solve"),
                ("POST", "/solve:stream"),
                ("POST", "/apis:import"),
            ):
                sent = {key.encode(): value.encode() for key, value in headers.items()}
                response = await gateway.http.request(method, path, headers=sent, json={})
                assert response.status_code == 401, path
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["type"] == "urn:nestor:problem:unauthorized"
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
            assert (await gateway.http.get(path)).status_code == 200
        with pytest.raises(Unauthorized):
            await gateway.client.runs()
        assert (await gateway.http.get("/runs", headers={"Authorization": "Bearer s3cret-token"})).status_code == 200
        assert gateway.fakes.retriever.calls == ["ready"]


def take_away(folder: Path) -> None:
    for file in folder.glob("gateway.db*"):
        file.unlink()
    (folder / "gateway.db").mkdir()


async def test_a_database_that_goes_away_is_named(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        await gateway.client.solve(ask(ASK_HOLIDAYS))  # completes the writes of the start
        store = gateway.app.state.service._store
        store._transactions._sync.dispose()
        await store._engine.dispose()
        take_away(tmp_path)
        response = await gateway.http.post("/solve", json={"query": ASK_HOLIDAYS})
        assert (response.status_code, response.json()["service"]) == (503, "sqlite")
        streamed = await gateway.http.post("/solve:stream", json={"query": ASK_HOLIDAYS})
        assert (streamed.status_code, streamed.json()["service"]) == (503, "sqlite")
        ready = await gateway.http.get("/readyz")
        assert ready.json()["checks"]["database"] == "The database (sqlite) cannot be reached."
