"""One trace of one request through all five services, in one process and in five, without data of the request."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI, Request

from deploy.onebox import OneboxSettings, create_onebox
from deploy.sockets import address, free_port, listen, serving
from deploy.traces import sending_traces
from services.clients import GatewayClient, open_http
from services.contracts.api import ImportRequest
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveOptions, SolveRequest
from services.errors import ServiceError
from tests.support.otlp import Collector, SeenSpan, collecting

ROOT = Path(__file__).parents[2]
SERVICES = ("gateway", "retriever_svc", "demo_svc", "planner_svc", "executor_svc")
QUERY = "Please get the temperature in the room magnolia."
VALUES = (b"magnolia", b"Please", b"23.75", b"of-the-caller")
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

TREE = {
    ("gateway", "POST /solve"): "the caller",
    ("gateway", "run"): "POST /solve",
    ("gateway", "POST retriever_svc"): "run",
    ("retriever_svc", "POST /retrieve"): "POST retriever_svc",
    ("gateway", "GET executor_svc"): "run",
    ("executor_svc", "GET /credentials"): "GET executor_svc",
    ("gateway", "POST demo_svc"): "run",
    ("demo_svc", "POST /select"): "POST demo_svc",
    ("demo_svc", "POST /select:same"): "POST demo_svc",
    ("gateway", "POST planner_svc"): "run",
    ("planner_svc", "POST /plan"): "POST planner_svc",
    ("planner_svc", "draft compact"): "POST /plan",
    ("gateway", "POST executor_svc"): "run",
    ("executor_svc", "POST /execute"): "POST executor_svc",
    ("executor_svc", "execution"): "POST /execute",
    ("executor_svc", "step"): "execution",
    ("executor_svc", "GET"): "step",
}
"""The spans of a solved request with one call, and the parent of each."""
SPANS = len(TREE) + 1
"""The demonstrations' service is called twice: for demonstrations of the very same request, and for similar ones."""


@dataclass
class Estate:
    """A customer's API on a real port. ``told`` holds the `traceparent` of each call; empty if it had none."""

    host: str
    document: str = ""
    told: list[str] = field(default_factory=list)


@pytest.fixture
def estate() -> Iterator[Estate]:
    bound = listen("127.0.0.1", 0)
    found = Estate(address(bound))
    app = FastAPI(title="Estate", version="1", servers=[{"url": f"http://{found.host}"}])

    @app.get("/rooms/{room}/temperature", operation_id="getTemperature", summary="Get the temperature in a room")
    def temperature(room: str, request: Request) -> dict[str, float]:
        """The temperature in a room, by the name of the room."""
        found.told.append(request.headers.get("traceparent", ""))
        return {"celsius": 23.75}

    found.document = json.dumps(app.openapi())
    with serving(app, bound=bound):
        yield found


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield found


async def solved(url: str, estate: Estate) -> Run:
    """Import the estate's document and solve a request within the caller's trace."""
    http = open_http(url)
    gateway = GatewayClient(http)
    try:
        _ = [one async for one in gateway.import_apis(ImportRequest(document=estate.document, provider="estate"))]
        http.headers["traceparent"] = f"00-{TRACE}-{CALLER}-01"
        http.headers["tracestate"] = http.headers["baggage"] = "vendor=of-the-caller"
        options = SolveOptions(backend="compact", deadline_ms=120_000)
        run = await gateway.solve(SolveRequest(query=QUERY, options=options))
    finally:
        await gateway.aclose()
    assert run.status is RunStatus.SUCCEEDED, run.reason
    assert run.answer is not None
    assert "23.75" in run.answer.text
    return run


def of_trace(spans: list[SeenSpan]) -> list[SeenSpan]:
    return [span for span in spans if span.trace_id == TRACE]


def tree(spans: list[SeenSpan]) -> dict[tuple[str, str], str]:
    """The parent of each span of the trace."""
    names = {span.span_id: span.name for span in spans} | {CALLER: "the caller"}
    return {(span.service, span.name): names.get(span.parent, "nobody") for span in spans}


def whole(spans: list[SeenSpan]) -> bool:
    """Whether all expected spans have arrived."""
    return len(of_trace(spans)) >= SPANS


def check(run: Run, collector: Collector) -> None:
    spans = of_trace(collector.spans)
    assert tree(spans) == TREE
    assert len(spans) == SPANS
    assert not [span for span in spans if span.failed]
    by_name = {span.name: span.attributes for span in spans}
    assert (by_name["run"]["nestor.run_id"], by_name["run"]["nestor.status"]) == (run.id, "succeeded")
    assert by_name["step"]["nestor.api"] == "estate.getTemperature"
    assert by_name["GET"]["http.response.status_code"] == 200
    for value in VALUES:
        assert not any(value in body for body in collector.bodies), value


def test_one_process_makes_one_trace_of_a_request(collector: Collector, estate: Estate, tmp_path: Path) -> None:
    with sending_traces():
        app = create_onebox(OneboxSettings(tmp_path, allowed_private_hosts=(estate.host,)))
        with serving(app) as url:
            run = asyncio.run(solved(url, estate))
            collector.until(whole)
            metrics = httpx2.get(f"{url}/metrics").text
    check(run, collector)
    exported = re.search(r'nestor_spans_total\{outcome="exported"\} (\S+)', metrics)
    assert exported is not None
    assert float(exported[1]) > 0
    assert estate.told == [""]  # vendors get no trace header unless a setting allows it


def test_five_processes_make_the_same_trace_and_go_on_upstream(
    collector: Collector, estate: Estate, tmp_path: Path
) -> None:
    with five_processes(tmp_path, estate) as url:
        run = asyncio.run(solved(url, estate))
    check(run, collector)  # the remaining spans were sent at the end
    call = next(span for span in of_trace(collector.spans) if span.name == "GET")
    assert estate.told == [f"00-{TRACE}-{call.span_id}-01"]


@contextmanager
def five_processes(folder: Path, estate: Estate) -> Iterator[str]:
    """Start each service as a container does; yields the gateway's address."""
    ports = {name: free_port() for name in SERVICES}
    env = {**os.environ, "NESTOR_GATEWAY_WARM_APIS": "0"}
    for setting in ("ALLOWED_PRIVATE_HOSTS", "TRACEPARENT_HOSTS"):
        env[f"NESTOR_EXECUTOR_{setting}"] = json.dumps([estate.host])
    for name in SERVICES:
        prefix = name.removesuffix("_svc").upper()
        if name != "planner_svc":
            env[f"NESTOR_{prefix}_DATABASE_URL"] = f"sqlite+aiosqlite:///{folder / name}.db"
        if name != "gateway":
            env[f"NESTOR_GATEWAY_{prefix}_URL"] = f"http://127.0.0.1:{ports[name]}"
    with ExitStack() as stack:
        for name, port in ports.items():
            stack.enter_context(process(name, port, env, folder / f"{name}.log"))
        url = f"http://127.0.0.1:{ports['gateway']}"
        asyncio.run(ready(url))
        yield url


@contextmanager
def process(name: str, port: int, env: dict[str, str], log: Path) -> Iterator[None]:
    """Run a service, which must exit with 0."""
    command = [sys.executable, "-m", "deploy.serve", name, "--port", str(port)]
    with log.open("wb") as said, subprocess.Popen(command, env=env, stderr=said, cwd=ROOT) as service:
        try:
            yield
        finally:
            service.terminate()
            code = service.wait(60)
    assert code == 0, log.read_text("utf-8")


async def ready(url: str) -> None:
    """Wait until the gateway and the services behind it are ready. Raises TimeoutError after 300 seconds."""
    gateway = GatewayClient(open_http(url))
    try:
        async with asyncio.timeout(300):
            while True:
                try:
                    return await gateway.ready()
                except ServiceError:
                    await asyncio.sleep(0.2)
    finally:
        await gateway.aclose()
