"""POST /execute and GET /credentials over real sockets, through the typed client."""

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from aiohttp import web
from pydantic import JsonValue

from services.clients import ExecutorClient
from services.contracts.api import ApiResponse, Location, RequestBody, SecretKind, SecurityRequirement
from services.contracts.execution import ExecuteRequest, ExecutionEvent, ExecutionFinished, StepFinished, StepStarted
from services.contracts.outcome import Failed, Succeeded
from services.contracts.planning import CompiledPlan
from services.contracts.preview import PreviewRequest
from services.contracts.secret import SecretTestRequest
from services.errors import Conflict, Overloaded, PayloadTooLarge, ValidationFailed
from tests.api.executor_svc.conftest import Starter
from tests.support.executing import api, compiled, item, literal, parameter, ref, request, step
from tests.support.upstream import Seen, Upstream


async def run(executor: ExecutorClient, asked: ExecuteRequest) -> tuple[list[ExecutionEvent], ExecutionFinished]:
    events = [event async for event in executor.execute(asked)]
    assert isinstance(events[-1], ExecutionFinished)
    return events, events[-1]


async def text(executor: ExecutorClient, path: str) -> str:
    return (await executor._http.get(path)).text


async def test_a_nested_plan_from_first_call_to_answer(upstream: Upstream, executor: ExecutorClient) -> None:
    upstream.replies("/countries", [{"name": "Portugal", "code": "PT"}])
    upstream.replies("/holidays/PT", {"days": [{"date": "2027-05-01"}, {"date": "2027-06-10"}], "total": 2})
    find = api(upstream.origin, "/countries", parameter("name"), name="find")
    days = api(upstream.origin, "/holidays/{code}", parameter("code", "path"), parameter("count"), name="days")
    plan = compiled(
        [find, days],
        step("var1", find, {"name": literal("Portugal")}),
        step("var2", days, {"code": ref("var1", 0, "code")}),
        answer={"first": ref("var2", "days", 0, "date"), "total": ref("var2", "total")},
    )
    events, finished = await run(executor, request(plan))
    assert [type(e) for e in events] == [StepStarted, StepFinished, StepStarted, StepFinished, ExecutionFinished]
    assert finished.status == "succeeded"
    assert [(a.name, a.value) for a in finished.answer] == [("first", "2027-05-01"), ("total", 2)]
    assert [r.requests[0].url for r in finished.records] == [
        f"{upstream.origin}/countries?name=Portugal",
        f"{upstream.origin}/holidays/PT",
    ]
    metrics = await text(executor, "/metrics")
    assert 'nestor_steps_total{outcome="succeeded",provider="test"} 2.0' in metrics
    assert 'nestor_executions_total{status="succeeded"} 1.0' in metrics
    assert "nestor_executions_active 0.0" in metrics


async def test_a_call_that_takes_long_keeps_the_stream_open(
    upstream: Upstream, executor: ExecutorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.streams.HEARTBEAT_S", 0.01)
    go_on = asyncio.Event()

    @upstream.on("/slow")
    async def slow(_: Seen) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response({})

    get = api(upstream.origin, "/slow", name="slow")
    asked = request(compiled([get], step("var1", get)))
    text = b""
    async with executor._http.stream("POST", "/execute", json=asked.model_dump(mode="json", by_alias=True)) as answer:
        async for part in answer.aiter_bytes():
            text += part
            if b"\n\n" in text:
                go_on.set()
    assert text.startswith(b'{"kind":"step_started"')
    assert b'"execution_finished"' in text.rpartition(b"\n\n")[2]


async def test_its_status_tells_processes_and_hosts_in_trouble(upstream: Upstream, started: Starter) -> None:
    executor = await started(circuit_failures=2, circuit_open_s=60, retry_base_s=1e-6, lease_s=30)
    status = await executor.status()
    assert (status.lease_s, [(one.alive, one.runs) for one in status.workers], status.breakers) == (30, [(True, 0)], ())
    upstream.replies("/bad", web.json_response({}, status=503))
    bad = api(upstream.origin, "/bad", name="bad")
    await run(executor, request(compiled([bad], step("a", bad))))
    breaker = (await executor.status()).breakers[0]
    assert (breaker.host, breaker.state) == (upstream.origin.removeprefix("http://"), "open")
    assert breaker.failures >= 2
    assert 0 < breaker.probe_in_s <= 60


def barrier_upstream(upstream: Upstream, path: str, parties: int) -> None:
    """Make the upstream answer only when this number of requests is in flight at the same time."""
    barrier = asyncio.Barrier(parties)

    @upstream.on(path)
    async def answer(_: Seen) -> web.StreamResponse:
        await barrier.wait()
        return web.json_response({})


async def test_independent_calls_are_in_flight_together(upstream: Upstream, executor: ExecutorClient) -> None:
    barrier_upstream(upstream, "/b", 100)
    call = api(upstream.origin, "/b")
    _, finished = await run(executor, request(compiled([call], *(step(f"s{n}", call) for n in range(100)))))
    assert finished.status == "succeeded"


async def test_items_of_a_foreach_are_in_flight_together(upstream: Upstream, executor: ExecutorClient) -> None:
    barrier_upstream(upstream, "/b", 5)
    call = api(upstream.origin, "/b", parameter("x"))
    each = {"items": literal(list(range(10))), "parallel": 5}
    _, finished = await run(executor, request(compiled([call], step("s", call, {"x": item()}, foreach=each))))
    assert finished.status == "succeeded"
    assert [r.url.split("=")[1] for r in finished.records[0].requests] == [str(n) for n in range(10)]


async def test_outputs_with_any_line_separator_arrive_whole(upstream: Upstream, executor: ExecutorClient) -> None:
    odd = "a\u2028b\u2029c\u0085d\x0b\x0ce\x1cf\r\ng 🎈"
    upstream.replies("/odd", {"text": odd, "big": 2**70})
    call = api(upstream.origin, "/odd")
    _, finished = await run(executor, request(compiled([call], step("a", call), answer={"t": ref("a")})))
    assert finished.answer[0].value == {"text": odd, "big": 2**70}


async def test_a_failed_step_is_data_and_the_rest_goes_on(upstream: Upstream, executor: ExecutorClient) -> None:
    upstream.replies("/bad", web.json_response({"why": "because"}, status=500))
    bad, good = api(upstream.origin, "/bad", name="bad"), api(upstream.origin, "/good", name="good")
    plan = compiled([bad, good], step("a", bad), step("b", good, after=("a",)), step("c", good))
    _, finished = await run(executor, request(plan))
    first = finished.records[0].outcome
    assert isinstance(first, Failed)
    assert (first.reason, first.status, first.detail) == ("upstream_error", 500, {"why": "because"})
    assert [r.outcome.kind for r in finished.records] == ["failed", "skipped", "succeeded"]
    assert finished.status == "failed"


@pytest.mark.parametrize("deadline", [{"deadline_ms": 300}, {"step_deadline_ms": 300}])
async def test_deadlines_give_a_record_for_everything(
    upstream: Upstream, executor: ExecutorClient, deadline: dict[str, int]
) -> None:
    @upstream.on("/never")
    async def never(_: Seen) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    slow, fast = api(upstream.origin, "/never", name="slow"), api(upstream.origin, "/fast", name="fast")
    post = api(upstream.origin, "/never", name="post", method="POST")
    plan = compiled(
        [slow, fast, post], step("a", slow), step("b", fast, after=("a",)), step("c", fast), step("d", post)
    )
    _, finished = await run(executor, request(plan, **deadline))
    assert [r.outcome.kind for r in finished.records] == ["failed", "skipped", "succeeded", "in_doubt"]
    assert getattr(finished.records[0].outcome, "reason", None) == "timeout"
    assert finished.status == "in_doubt"


async def test_when_the_caller_hangs_up_the_run_is_cancelled(upstream: Upstream, executor: ExecutorClient) -> None:
    arrived, cut = asyncio.Event(), asyncio.Event()

    @upstream.on("/never")
    async def never(_: Seen) -> web.StreamResponse:
        arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        raise AssertionError

    slow, later = api(upstream.origin, "/never", name="slow"), api(upstream.origin, "/later", name="later")
    plan = compiled([slow, later], step("a", slow), step("b", later, after=("a",)))
    async with aclosing(executor.execute(request(plan))) as events:
        assert isinstance(await anext(events), StepStarted)
        await asyncio.wait_for(arrived.wait(), 10)
    await asyncio.wait_for(cut.wait(), 10)
    while "nestor_executions_active 0.0" not in (metrics := await text(executor, "/metrics")):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert 'nestor_executions_total{status="cancelled"} 1.0' in metrics
    assert upstream.count("/later") == 0


def changed(plan: CompiledPlan, **update: Any) -> CompiledPlan:
    return plan.model_copy(update=update)


async def test_nothing_is_sent_for_a_plan_that_is_not_proved(upstream: Upstream, executor: ExecutorClient) -> None:
    call = api(upstream.origin, "/x", method="POST")
    plan = compiled([call], step("a", call), approvals=("a",))
    other = call.model_copy(update={"content_hash": "another"})
    refused = [
        request(plan),
        request(plan, approved="0" * 64),
        request(changed(plan, apis={}), approved=plan.plan.id),
        request(changed(plan, apis={call.id: other}), approved=plan.plan.id),
        request(changed(plan, apis={call.id: other.model_copy(update={"id": "test.other"})}), approved=plan.plan.id),
        request(changed(plan, proof=plan.proof.model_copy(update={"api_hashes": {}})), approved=plan.plan.id),
    ]
    for asked in refused:
        with pytest.raises(Conflict):
            await run(executor, asked)
    assert upstream.seen == []
    _, finished = await run(executor, request(plan, approved=plan.plan.id))
    assert (finished.status, len(upstream.seen)) == ("succeeded", 1)


async def test_an_argument_changed_after_approval_changes_the_plan(
    upstream: Upstream, executor: ExecutorClient
) -> None:
    call = api(upstream.origin, "/x", parameter("amount"), method="POST")
    plan = compiled([call], step("a", call, {"amount": literal(1)}), approvals=("a",))
    document = request(plan, approved=plan.plan.id).model_dump(mode="json")
    document["compiled"]["plan"]["steps"][0]["arguments"]["amount"]["value"] = 1_000_000
    response = await executor._http.post("/execute", json=document)
    assert response.status_code == 422
    assert response.json()["type"] == "urn:nestor:problem:validation-failed"
    assert upstream.seen == []


async def test_what_is_no_graph_is_refused(executor: ExecutorClient) -> None:
    call = api("http://x", "/", parameter("x"))
    for steps in ([step("a", call, {"x": ref("a")})], [step("a", call, after=("b",))]):
        with pytest.raises(ValidationFailed, match="cannot be run"):
            await run(executor, request(compiled([call], *steps)))


async def test_a_plan_of_too_large_apis_is_refused(upstream: Upstream, executor: ExecutorClient) -> None:
    many: dict[str, JsonValue] = {f"field{number:06}": {"type": "string"} for number in range(8_500)}
    large = [
        api(upstream.origin, "/", name=f"large{number}").model_copy(
            update={"response": ApiResponse(json_schema={"type": "object", "properties": many})}
        )
        for number in range(8)
    ]
    plan = compiled(large, step("a", large[0]))
    with pytest.raises(ValidationFailed, match="more than 2,000,000 bytes"):
        await run(executor, request(plan))
    for reads in (False, True):
        with pytest.raises(ValidationFailed, match="more than 2,000,000 bytes"):
            await executor.preview(PreviewRequest(compiled=plan, reads=reads))
    assert upstream.seen == []


async def test_too_many_runs_are_refused(upstream: Upstream, started: Starter) -> None:
    executor = await started(max_concurrent_runs=1)

    @upstream.on("/never")
    async def never(_: Seen) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    call = api(upstream.origin, "/never")
    plan = request(compiled([call], step("a", call)))
    async with aclosing(executor.execute(plan)) as events:
        await anext(events)
        with pytest.raises(Overloaded):
            await run(executor, plan)


async def test_too_large_a_plan_is_refused(started: Starter) -> None:
    executor = await started(max_body_bytes=10_000)
    call = api("http://x", "/", parameter("x"))
    with pytest.raises(PayloadTooLarge):
        await run(executor, request(compiled([call], step("a", call, {"x": literal("x" * 20_000)}))))


async def test_credentials_are_listed_by_name_and_seen_nowhere(
    upstream: Upstream, started: Starter, capfd: pytest.CaptureFixture[str]
) -> None:
    canaries = [f"canary-{kind}-s3cret" for kind in ("key", "query", "password", "bearer", "client", "token")]
    hosts = [upstream.host]
    executor = await started(
        {
            "t.key": {"value": canaries[0], "hosts": hosts},
            "t.query": {"value": canaries[1], "in": "query", "name": "key", "hosts": hosts},
            "t.basic": {"username": "me", "password": canaries[2], "hosts": hosts},
            "t.bearer": {"value": canaries[3], "hosts": hosts},
            "t.oauth": {"client_id": "me", "client_secret": canaries[4], "hosts": hosts},
        },
        log_level="DEBUG",
    )
    assert (await executor.credentials("default")).secrets == ("t.basic", "t.bearer", "t.key", "t.oauth", "t.query")
    upstream.replies("/token", {"access_token": canaries[5], "expires_in": 60})
    status = itertools.cycle([200, 500, 302])

    @upstream.on("/echo")
    async def echo(seen: Seen) -> web.StreamResponse:
        everything = {"headers": dict(seen.headers), "target": seen.target, "body": seen.body.decode()}
        return web.json_response(everything, status=next(status), headers={"Location": seen.target})

    def needs(kind: str, name: str, **more: Any) -> SecurityRequirement:
        return SecurityRequirement(scheme=name, kind=SecretKind(kind), secret=f"t.{name}", **more)

    kinds = [
        needs("api_key", "key", location=Location.HEADER, parameter="X-Key"),
        needs("api_key", "query", location=Location.QUERY, parameter="key"),
        needs("basic", "basic"),
        needs("bearer", "bearer"),
        needs("oauth2_client_credentials", "oauth", token_url=f"{upstream.origin}/token"),
    ]
    apis = [
        api(
            upstream.origin,
            "/echo",
            parameter("b", "body"),
            method="POST",
            body=RequestBody(),
            name=k.scheme,
            security=((k,),),
        )
        for k in kinds
    ]
    # Each secret is also in an argument of the call that presents it.
    own = {"key": 0, "query": 1, "basic": 2, "bearer": 3, "oauth": 5}
    steps = [step(f"s{n}_{a.name}", a, {"b": literal(canaries[own[a.name]])}) for n in range(3) for a in apis]
    events, finished = await run(executor, request(compiled(apis, *steps)))
    assert {type(r.outcome) for r in finished.records} == {Succeeded, Failed}
    assert len(upstream.seen) == 16
    sent = str([(s.target, dict(s.headers)) for s in upstream.seen])
    assert all(canary in sent for canary in (canaries[0], canaries[1], canaries[3], canaries[5]))
    streamed = "".join(event.model_dump_json() for event in events)
    public = [await text(executor, path) for path in ("/metrics", "/credentials", "/readyz")]
    assert "canary" not in "".join([streamed, *public, *capfd.readouterr()])


async def test_problems_and_documentation(executor: ExecutorClient) -> None:
    http: httpx2.AsyncClient = executor._http
    for body in (b"", b"{", b"[]", b"\xff", b'{"run_id": NaN}', b'{"run_id": "\\ud800"}', b'{"run_id":' + b"[" * 200):
        response = await http.post("/execute", content=body, headers={"Content-Type": "application/json"})
        assert 400 <= response.status_code < 500
        assert response.headers["content-type"] == "application/problem+json"
    document = (await http.get("/openapi.json")).json()
    assert "application/x-ndjson" in document["paths"]["/execute"]["post"]["responses"]["200"]["content"]


@pytest.mark.parametrize("method", ["GET", "POST"])  # both lanes: reads and mutating calls
async def test_a_secret_of_some_tenants_is_there_for_their_runs_alone(
    upstream: Upstream, started: Starter, method: str
) -> None:
    entry = {"value": "canary-s3cret", "hosts": [upstream.host], "tenants": ["red"]}
    executor = await started({"t.key": entry, "t.all": entry | {"tenants": ["red", "blue"]}})
    assert [(await executor.credentials(tenant)).secrets for tenant in ("red", "blue", "green")] == [
        ("t.all", "t.key"), ("t.all",), (),
    ]  # fmt: skip
    needed = SecurityRequirement(scheme="key", kind=SecretKind.BEARER, secret="t.key")
    made = api(upstream.origin, "/x", method=method, name=method.lower(), security=((needed,),))
    plan = compiled([made], step("var1", made))
    ended = {}
    for tenant in ("blue", "default", "red"):
        asked = request(plan, tenant=tenant).model_copy(update={"run_id": f"run-{tenant}"})
        ended[tenant] = (await run(executor, asked))[1].records[0].outcome
        tried = await executor.test_secret(SecretTestRequest(api=made, tenant=tenant))
        assert tried.outcome == ("ready" if tenant == "red" else "unavailable")
    assert [outcome.kind for outcome in ended.values()] == ["failed", "failed", "succeeded"]
    assert isinstance(ended["blue"], Failed)
    assert (ended["blue"].reason, upstream.count("/x")) == ("credential", 1)


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (401, "invalid_client", "refused"),
        (400, "invalid_client", "refused"),
        (400, "invalid_grant", "refused"),
        (400, "invalid_scope", "unavailable"),
        (500, "", "unavailable"),
    ],
)
async def test_a_client_that_the_token_endpoint_refuses_tests_as_refused(
    upstream: Upstream, started: Starter, status: int, error: str, outcome: str
) -> None:
    upstream.replies("/token", web.json_response({"error": error}, status=status))
    entry = {"client_id": "me", "client_secret": "canary-s3cret", "hosts": [upstream.host]}
    executor = await started({"t.login": entry})
    needed = SecurityRequirement(
        scheme="login", kind=SecretKind.OAUTH2, secret="t.login", token_url=f"{upstream.origin}/token"
    )
    made = api(upstream.origin, "/x", security=((needed,),))
    tried = await executor.test_secret(SecretTestRequest(api=made, send=True))
    assert (tried.outcome, upstream.count("/x")) == (outcome, 0)
    assert f"answered {status}" in tried.message
