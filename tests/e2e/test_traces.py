"""One trace of one request through all five services, in one process and in five; and nothing of the request in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.onebox import world
from deploy.traces import sending_traces
from services.clients import GatewayClient, open_http
from services.contracts.run import Run, RunStatus, SolveRequest
from tests.support.otlp import Collector, SeenSpan, collecting

QUERY = "Convert 26.2 miles to kilometers."
VALUES = (b"26.2", b"miles", b"kilometer", b"42.16", b"Convert ")
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"

TREE = {
    ("gateway", "POST /solve"): "the caller",
    ("gateway", "run"): "POST /solve",
    ("gateway", "POST retriever_svc"): "run",
    ("retriever_svc", "POST /retrieve"): "POST retriever_svc",
    ("gateway", "GET executor_svc"): "run",
    ("executor_svc", "GET /credentials"): "GET executor_svc",
    ("gateway", "POST demo_svc"): "run",
    ("demo_svc", "POST /select"): "POST demo_svc",
    ("gateway", "POST planner_svc"): "run",
    ("planner_svc", "POST /plan"): "POST planner_svc",
    ("gateway", "POST executor_svc"): "run",
    ("executor_svc", "POST /execute"): "POST executor_svc",
    ("executor_svc", "execution"): "POST /execute",
    ("executor_svc", "step"): "execution",
    ("executor_svc", "GET"): "step",
}
"""What every solved request of one call has, and what each is part of."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield found


async def solve(url: str) -> Run:
    http = open_http(url)
    http.headers["traceparent"] = TRACEPARENT
    http.headers["tracestate"] = "vendor=of-the-caller"
    http.headers["baggage"] = "user=of-the-caller"
    gateway = GatewayClient(http)
    try:
        return await gateway.solve(SolveRequest(query=QUERY))
    finally:
        await gateway.aclose()


def tree(spans: list[SeenSpan]) -> dict[tuple[str, str], str]:
    """What each span of the trace is part of."""
    names = {span.span_id: span.name for span in spans} | {CALLER: "the caller"}
    return {(span.service, span.name): names.get(span.parent, "nobody") for span in spans}


def of_trace(spans: list[SeenSpan]) -> list[SeenSpan]:
    return [span for span in spans if span.trace_id == TRACE]


def check(run: Run, collector: Collector) -> None:
    spans = of_trace(collector.spans)
    found = tree(spans)
    assert found.items() >= TREE.items()
    drafts = {
        name for (service, name), part_of in found.items() if part_of == "POST /plan" and service == "planner_svc"
    }
    assert drafts
    assert all(name.startswith("draft ") for name in drafts)
    assert {name for _, name in found.keys() - TREE.keys()} == drafts
    of_run = next(span for span in spans if span.name == "run")
    assert of_run.attributes["nestor.run_id"] == run.id
    assert of_run.attributes["nestor.status"] == "succeeded"
    step = next(span for span in spans if span.name == "step")
    assert step.attributes["nestor.api"] == "sandbox.convertUnits"
    call = next(span for span in spans if span.name == "GET")
    assert call.attributes["http.response.status_code"] == 200
    assert not any(span.failed for span in spans)
    for secret in (*VALUES, b"of-the-caller"):
        assert not any(secret in body for body in collector.bodies), secret


async def test_one_process_makes_one_trace_of_a_request(collector: Collector, tmp_path: Path) -> None:
    with sending_traces(), world(tmp_path) as nestor:
        run = await solve(nestor.gateway_url)
        assert run.status is RunStatus.SUCCEEDED
        async with open_http(nestor.gateway_url) as http:
            collector.until(lambda spans: len(of_trace(spans)) > len(TREE))
            assert 'nestor_spans_total{outcome="exported"}' in (await http.get("/metrics")).text
    check(run, collector)
