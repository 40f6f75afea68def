"""The chassis answers bad input with problem documents, and tells the truth about itself."""

import asyncio
import base64
import hashlib
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import SecretStr, ValidationError, field_validator

import services.http
from services.app import create_service, service_router
from services.clients import InProcessTransport
from services.contracts.base import Contract
from services.errors import Conflict, Overloaded, ServiceError, ServiceUnavailable
from services.http import BODY_LIMIT
from services.settings import ServiceSettings


class Thing(Contract):
    validated_in: ClassVar[list[threading.Thread]] = []

    name: str
    size: float = 0
    inner: dict[str, object] | None = None

    @field_validator("name")
    @classmethod
    def _note(cls, name: str) -> str:
        cls.validated_in.append(threading.current_thread())
        return name


def build(*, broken: bool = False, settings: ServiceSettings | None = None) -> FastAPI:
    router = service_router()

    @router.post("/things")
    async def add(thing: Thing) -> Thing:
        if thing.name == "bug":
            raise RuntimeError("secret detail")
        if thing.name == "taken":
            raise Conflict("There is one already.", taken_by="me")
        if thing.name == "slow":
            await asyncio.sleep(60)
        return thing

    @router.post("/files", openapi_extra={BODY_LIMIT: "max_body_bytes"})
    async def keep(_file: Thing) -> None:
        return None

    @router.get("/secret-changes")
    @router.get("/status")
    @router.get("/secret-changes")
    async def status() -> dict[str, int]:
        return {"apis": 0}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async def on_fire() -> None:
            raise ServiceUnavailable("the attic is on fire", service="attic")

        if broken:
            app.state.readiness["attic"] = on_fire
        yield

    return create_service(
        name="test_svc",
        title="Test",
        description="",
        settings=settings or ServiceSettings(),
        routers=[router],
        lifespan=lifespan,
    )


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    app = build()
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://test_svc") as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"name": "a", "size": NaN}', 400),
        (b'{"name": "\\ud800"}', 400),
        (b"[" * 100_000, 400),
        (b'{"name": "a", "inner": ' + b'{"a":' * 80 + b"1" + b"}" * 80 + b"}", 400),
        (b'{"name": 1}', 422),
        (b'{"name": "a", "unknown": 1}', 422),
        (b'{"name": "a", "size": 1e999}', 400),
        (b"[]", 422),
        (b'{"name": "' + b"a" * 1_100_000 + b'"}', 413),
        (b'{"name": "taken"}', 409),
    ],
)
async def test_bad_input_is_a_problem(http: httpx2.AsyncClient, body: bytes, status: int) -> None:
    response = await http.post("/things", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:nestor:problem:")
    assert problem["instance"].endswith(response.headers["x-request-id"])


async def test_a_bug_is_answered_without_its_details(http: httpx2.AsyncClient) -> None:
    response = await http.post("/things", json={"name": "bug"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["type"] == "urn:nestor:problem:internal-error"


async def test_unknown_routes_and_methods_are_problems(http: httpx2.AsyncClient) -> None:
    missing = await http.get("/nowhere")
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:nestor:problem:not-found")
    wrong = await http.delete("/things")
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"


async def test_request_ids_are_kept_when_sane_and_replaced_when_not(http: httpx2.AsyncClient) -> None:
    kept = await http.get("/healthz", headers={"X-Request-ID": "abc-123"})
    assert kept.headers["x-request-id"] == "abc-123"
    replaced = await http.get("/healthz", headers={"X-Request-ID": "a b\tc" * 50})
    assert len(replaced.headers["x-request-id"]) == 32


async def test_metrics_count_by_route_template(http: httpx2.AsyncClient) -> None:
    await http.get("/nowhere/at/all")
    text = (await http.get("/metrics")).text
    assert 'route="unmatched"' in text
    assert "/nowhere" not in text


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (ServiceUnavailable("The database cannot be reached.", service="sqlite"), "2"),
        (Overloaded("Too much work."), "2"),
        (Overloaded("Too much work.", retry_after_s=7.2), "8"),
        (Conflict("There is one already."), None),
    ],
)
def test_an_outage_says_when_to_try_again(error: ServiceError, after: str | None) -> None:
    assert services.http.problem_response(error).headers.get("retry-after") == after


async def test_readyz_names_what_is_broken() -> None:
    app = build(broken=True)
    client = httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://test_svc")
    async with app.router.lifespan_context(app), client:
        response = await client.get("/readyz")
        assert response.status_code == 503
        assert response.json()["checks"] == {"attic": "the attic is on fire"}
        assert (await client.get("/healthz")).status_code == 200


async def test_whoever_asks_for_readiness_shares_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    app, made, broken = build(), [0], asyncio.Event()

    async def check() -> None:
        made[0] += 1
        await asyncio.sleep(0)
        if broken.is_set():
            raise ServiceUnavailable("the attic is on fire", service="attic")

    async def statuses(calls: int) -> set[int]:
        return {one.status_code for one in await asyncio.gather(*(client.get("/readyz") for _ in range(calls)))}

    client = httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://test_svc")
    async with app.router.lifespan_context(app), client:
        app.state.readiness["attic"] = check
        monkeypatch.setattr("services.app.SHARED_S", 1e9)
        assert (await statuses(50), made) == ({200}, [1])
        broken.set()
        assert (await statuses(1), made) == ({200}, [1])
        monkeypatch.setattr("services.app.SHARED_S", 0.0)
        assert (await statuses(1), made) == ({503}, [2])
        monkeypatch.setattr("services.app.SHARED_S", 1e9)
        assert (await statuses(50), made) == ({503}, [2])
        app.state.readiness["cellar"] = check  # a service that is starting adds its checks
        assert (await statuses(1), made) == ({503}, [4])


async def test_in_process_calls_time_out(http: httpx2.AsyncClient) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        await http.post("/things", json={"name": "slow"}, timeout=0.05)


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example:8080"])
async def test_a_name_that_is_not_ours_is_refused(http: httpx2.AsyncClient, host: str) -> None:
    """DNS rebinding: the page's own name leads to us, so to its browser we are of its origin."""
    refused = await http.post("/things", json={"name": "a"}, headers={"Host": host, "Origin": f"http://{host}"})
    assert (refused.status_code, refused.json()["type"]) == (421, "urn:nestor:problem:misdirected")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "192.0.2.7", "gateway:8000", "LOCALHOST."]
)
async def test_names_that_nobody_else_can_have_are_ours(http: httpx2.AsyncClient, host: str) -> None:
    assert (await http.post("/things", json={"name": "a"}, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["", "a b", "user@localhost", "localhost:x", "localhost/x"])
async def test_what_is_no_name_is_refused(http: httpx2.AsyncClient, host: str) -> None:
    assert (await http.get("/healthz", headers={"Host": host})).status_code == 400


async def test_names_are_listed() -> None:
    app = build(settings=ServiceSettings(allowed_hosts=("nestor.example.com", "*.internal.example")))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as http,
    ):
        for host, status in (
            ("Nestor.Example.com:443", 200),
            ("a.internal.example", 200),
            ("internal.example", 421),
            ("evilinternal.example", 421),
            ("localhost", 200),
        ):
            assert (await http.get("/healthz", headers={"Host": host})).status_code == status, host
        # A proxy in front may change the name; the page is still known by its own.
        own = {"Host": "localhost", "Origin": "https://nestor.example.com"}
        assert (await http.post("/things", json={"name": "a"}, headers=own)).status_code == 200


@pytest.mark.parametrize("origin", ["http://attacker.example", "http://localhost:3000", "null", "file://", "https://"])
async def test_pages_of_other_origins_are_refused(http: httpx2.AsyncClient, origin: str) -> None:
    answer = await http.post("/things", json={"name": "a"}, headers={"Host": "localhost:8080", "Origin": origin})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:nestor:problem:forbidden")


async def test_pages_of_our_own_are_taken(http: httpx2.AsyncClient) -> None:
    headers = {"Host": "localhost:8080", "Origin": "http://localhost:8080"}
    assert (await http.post("/things", json={"name": "a"}, headers=headers)).status_code == 200


async def test_metrics_may_want_a_token() -> None:
    app = build(settings=ServiceSettings(metrics_token=SecretStr("scraper-token")))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as http,
    ):
        for token, status in (("", 401), ("wrong-token", 401), ("scraper-token", 200)):
            answer = await http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == status
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/healthz")).status_code == 200


async def test_too_many_values_are_refused() -> None:
    app = build(settings=ServiceSettings(max_json_values=1_000, max_body_bytes=10_000_000))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as http,
    ):
        for count in (2_000, 500_000):  # the second is read beside the loop
            body = b'{"name": "a", "inner": {"a": [' + b"[]," * count + b"0]}}"
            answer = await http.post("/things", content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 400
            assert "1000 values" in answer.json()["detail"]


async def test_routes_for_documents_take_ten_times_as_many_values() -> None:
    app = build(settings=ServiceSettings(max_json_values=1_000))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as http,
    ):
        for path, count, status in (("/things", 2_000, 400), ("/files", 2_000, 200), ("/files", 11_000, 400)):
            answer = await http.post(path, json={"name": "a", "inner": {"a": [0] * count}})
            assert answer.status_code == status


@pytest.mark.parametrize("members", [3_000, 30_000])
@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+JSON"])
async def test_very_many_unknown_names_are_not_each_an_error(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, members: int, content_type: str
) -> None:
    built: list[int] = []
    listed = services.http._listed

    def counted(error: ValidationError) -> list[Any]:
        built.append(error.error_count())
        return listed(error)

    monkeypatch.setattr("services.http._listed", counted)
    body = json.dumps({"name": "a"} | dict.fromkeys(map(str, range(members)), 1))
    answer = await http.post("/things", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 422
    assert answer.json()["errors"][0] == {
        "field": "body.0",
        "message": "Extra inputs are not permitted",
        "kind": "extra_forbidden",
    }
    assert built == [50]


@pytest.mark.parametrize(
    ("length", "values", "status"), [(30_000, 1_000, 200), (400_000, 100, 400), (40_000, 1_000, 400)]
)
async def test_long_names_around_many_values_are_refused_before_each_may_be_an_error(
    http: httpx2.AsyncClient, length: int, values: int, status: int
) -> None:
    """An error holds its whole place: a demonstration of half a megabyte with ten thousand wrong values took 4 GB."""
    for inner in ([0] * values, {str(number): 0 for number in range(values)}):
        answer = await http.post("/things", json={"name": "a", "inner": {"n" * length: inner}})
        assert answer.status_code == status


async def test_an_error_is_described_alike_in_bodies_of_every_size(http: httpx2.AsyncClient) -> None:
    for padding in ("", "." * 100_000):  # the second is validated beside the loop
        answer = await http.post("/things", json={"name": 5, "inner": {"a": padding}, "other": 1})
        assert answer.json()["errors"] == [
            {"field": "body.name", "message": "Input should be a valid string", "kind": "string_type"},
            {"field": "body.other", "message": "Extra inputs are not permitted", "kind": "extra_forbidden"},
        ]


async def test_large_bodies_are_validated_once_and_beside_the_loop(http: httpx2.AsyncClient) -> None:
    for padding, beside in (1, False), (100_000, True):
        Thing.validated_in.clear()
        assert (await http.post("/things", json={"name": "." * padding})).status_code == 200
        (thread,) = Thing.validated_in
        assert (thread is not threading.current_thread()) is beside


async def test_the_page_of_docs_runs_what_is_pinned_only(http: httpx2.AsyncClient) -> None:
    page = await http.get("/docs")
    assert page.status_code == 200
    loaded = re.findall(r"<(?:script|link)[^>]*(?:src|href)=[^>]*>", page.text)
    assert len(loaded) == 2
    assert all(re.search(r'@\d+\.\d+\.\d+/.* integrity="sha384-[A-Za-z0-9+/=]{64}"', tag) for tag in loaded)
    (inline,) = re.findall(r"<script>(.*?)</script>", page.text)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page.headers["content-security-policy"]
    assert (await http.get("/redoc")).status_code == 404


async def test_what_watchers_ask_is_not_logged_each_time(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, str]] = []

    class Log:
        def debug(self, _event: str, **said: Any) -> None:
            lines.append(("debug", said["route"]))

        def info(self, _event: str, **said: Any) -> None:
            lines.append(("info", said["route"]))

    monkeypatch.setattr("services.middleware._log", Log())
    polled = ("/healthz", "/readyz", "/status", "/secret-changes")
    for path in polled:
        await http.get(path)
    await http.post("/things", json={"name": "a"})
    assert lines == [*(("debug", path) for path in polled), ("info", "/things")]


async def test_the_openapi_document_is_rendered_once(http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await http.get("/openapi.json")
    assert (first.status_code, first.headers["content-type"]) == (200, "application/json")
    assert "/things" in first.json()["paths"]
    monkeypatch.setattr(FastAPI, "openapi", lambda _: {})
    monkeypatch.setattr("fastapi.responses.JSONResponse.render", lambda _, content: b"again")
    assert (await http.get("/openapi.json")).content == first.content
