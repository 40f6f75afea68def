"""Scenarios with raw HTTP, for the houses of real services."""

import asyncio
from typing import Any

from services.contracts.api import ImportRequest
from services.contracts.execution import ExecuteRequest
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.run import RunStatus
from services.errors import InvalidDocument
from services.telemetry import REQUEST_ID_HEADER
from tests.congruence.houses import SERVICES, House
from tests.congruence.scenarios import Scenario
from tests.congruence.transcript import Transcript, answered, collected, problem, shown
from tests.congruence.world import HOLIDAYS_ASKED, ask, compiled, document, learn, step
from tests.support.upstream import Upstream


async def one_request_id_through_all_services(house: House, log: Transcript, upstream: str) -> None:
    """The app's request id is in every call made for it, in the response, and in the problem."""
    await learn(house, upstream, "rid")
    for number, query in enumerate((HOLIDAYS_ASKED, "x" * 10_001)):
        headers = {REQUEST_ID_HEADER: f"app-{house.name}-{number}"}
        response = await house.raw["gateway"].post("/solve", json={"query": query}, headers=headers)
        assert response.headers[REQUEST_ID_HEADER] == headers[REQUEST_ID_HEADER]
        arrived = {service for service, given in house.seen if given == headers[REQUEST_ID_HEADER]}
        log.note([response.status_code, sorted(arrived)])
        if number:
            assert response.json()["instance"] == f"urn:nestor:request:{headers[REQUEST_ID_HEADER]}"
        else:
            assert arrived == set(SERVICES)
    without = await house.raw["gateway"].post("/plan", json={"query": HOLIDAYS_ASKED})
    made = without.headers[REQUEST_ID_HEADER]
    log.note(sorted({service for service, given in house.seen if given == made}))
    await house.retriever.delete_provider("rid")


async def addresses_that_are_not_there(house: House, log: Transcript, upstream: str) -> None:
    """Unknown routes, wrong methods and trailing slashes give problems from every service."""
    for service in SERVICES:
        for method, path in (
            ("GET", "/nowhere"),
            ("GET", "/healthz/"),
            ("POST", "/healthz"),
            ("GET", "/../etc/passwd"),
            ("GET", "/%00"),
            ("GET", "/%ff"),
            ("PATCH", "/healthz"),
            ("OPTIONS", "/readyz"),
        ):
            response = await house.raw[service].request(method, path)
            assert response.status_code in (404, 405), (service, method, path)
            assert response.headers["content-type"] == "application/problem+json"
            log.note([service, method, path, answered(response)])


BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe\x00",
    b'{"query": "\\ud800"}',
    b'{"query": NaN}',
    b'{"query": 1e999}',
    b'{"query": "x", "unknown": 1}',
    b'{"query": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"' + b"k" * 10_000 + b'": 1}',
]
POSTS = {
    "gateway": (
        "/solve",
        "/plan",
        "/solve:stream",
        "/apis:import",
        "/demos",
        "/demos:import",
        "/runs/x:approve",
        "/runs/x/feedback",
    ),
    "retriever_svc": ("/retrieve", "/apis", "/apis:lookup", "/imports"),
    "demo_svc": ("/select", "/demos", "/demos:import"),
    "planner_svc": ("/plan", "/compile"),
    "executor_svc": ("/execute",),
}


async def bodies_that_are_not_requests(house: House, log: Transcript, upstream: str) -> None:
    """Invalid bodies of every kind, for every service and every route with a body."""
    for service, paths in POSTS.items():
        for path in paths:
            for body in BODIES:
                for media_type in ("application/json", "text/plain"):
                    headers = {"Content-Type": media_type}
                    response = await house.raw[service].post(path, content=body, headers=headers)
                    assert 400 <= response.status_code < 500, (service, path, body[:50])
                    assert response.headers["content-type"] == "application/problem+json"
                    assert len(response.content) < 5_000
                    log.note([service, path, answered(response)])


async def documents_that_are_hostile(house: House, log: Transcript, upstream: str) -> None:
    """Hostile documents are refused or imported in part, with the same messages, and nothing is fetched."""
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for this, last in zip("bcdefghi", "abcdefgh", strict=True):
        bomb += f"{this}: &{this} [{', '.join(['*' + last] * 9)}]\n"
    remote = document(upstream).replace('"schema": {"type": "string"}', '"schema": {"$ref": "http://127.0.0.1:1/x"}')
    local = document(upstream).replace('"schema": {"type": "string"}', '"schema": {"$ref": "file:///etc/passwd"}')
    circular = document(upstream).replace('"schema": {"type": "string"}', '"schema": {"$ref": "#/paths"}')
    for text in (bomb, remote, local, circular, "openapi: 3.1.0", "\x00", "!!python/object:os.system {}", "[" * 9_000):
        events = house.retriever.import_document(ImportRequest(document=text, provider="hostile"))
        try:
            log.note(await collected(events))
        except InvalidDocument as error:
            log.note(shown(error))
    if (await house.retriever.search(provider="hostile")).total:
        await house.retriever.delete_provider("hostile")


async def hanging_up_stops_the_run(house: House, log: Transcript, upstream: str) -> None:
    """When the reader of the executor's stream disconnects, the open calls are cancelled."""
    await collected(
        house.retriever.import_document(ImportRequest(document=document(upstream, hang="/hang"), provider="hup"))
    )
    answer = AnswerOutput(name="never", value=Reference(step="var1"))
    proved = await compiled(house, Plan(steps=(step("var1", "hup.hang"),), answer=(answer,)))
    events = house.executor.execute(ExecuteRequest(run_id="run-1", compiled=proved, deadline_ms=30_000))
    log.note((await anext(events)).kind)
    await asyncio.wait_for(HANGING.arrived.wait(), 10)
    await events.aclose()
    await asyncio.wait_for(HANGING.dropped.wait(), 10)
    HANGING.arrived.clear()
    HANGING.dropped.clear()
    await house.retriever.delete_provider("hup")


class Hanging:
    """An upstream that never answers. It signals when a request arrives and when the caller disconnects."""

    def __init__(self) -> None:
        self.arrived, self.dropped = asyncio.Event(), asyncio.Event()

    def install(self, upstream: Upstream) -> None:
        """Never answer ``/hang``."""

        @upstream.on("/hang")
        async def hang(_: Any) -> Any:
            self.arrived.set()
            try:
                await asyncio.sleep(60)
            finally:
                self.dropped.set()


HANGING = Hanging()


async def the_planner_that_ships(house: House, log: Transcript, upstream: str) -> None:
    """No script: retrieval, the trained planner, the compiler and the executor."""
    await learn(house, upstream, "ships")
    run = await house.gateway.solve(ask("Which holidays does the country Portugal have?", backend="compact"))
    log.note(run)
    assert run.plan is not None
    assert run.status is RunStatus.SUCCEEDED
    log.note(await house.gateway.plan(ask("What is the meaning of life?", backend="compact")))
    log.note(await house.planner.backends())
    log.note(shown(await problem(house.gateway.solve(ask(HOLIDAYS_ASKED, backend="none")))))
    await house.retriever.delete_provider("ships")


WIRE: list[Scenario] = [
    one_request_id_through_all_services,
    addresses_that_are_not_there,
    bodies_that_are_not_requests,
    documents_that_are_hostile,
    hanging_up_stops_the_run,
    the_planner_that_ships,
]
