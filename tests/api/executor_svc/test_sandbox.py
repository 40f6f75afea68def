"""The executor against the sandbox, imported from its published document, with all four kinds of credentials."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from deploy.sockets import address, listen, serving
from retriever_svc.importers import import_document
from sandbox.main import create_app
from sandbox.settings import SandboxSettings
from services.clients import ExecutorClient
from services.contracts.api import Api
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, InDoubt
from services.contracts.plan import ForEach, Value
from tests.api.executor_svc.conftest import Starter
from tests.support.executing import compiled, item, literal, ref, request, step

SECRET = "a-secret-of-these-tests"
Sandbox = tuple[str, dict[str, Any], dict[str, Api]]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    bound = listen("127.0.0.1", 0)
    host = address(bound)
    secret = SecretStr(SECRET)
    settings = SandboxSettings(
        public_url=f"http://{host}",
        api_key=secret,
        basic_password=secret,
        bearer_token=secret,
        oauth_client_secret=secret,
    )
    forms = {
        "apiKey": {"value": SECRET},
        "basic": {"username": settings.basic_username, "password": SECRET},
        "bearer": {"value": SECRET},
        "oauth2": {"client_id": settings.oauth_client_id, "client_secret": SECRET},
    }
    secrets = {f"sandbox.{scheme}": form | {"hosts": [host]} for scheme, form in forms.items()}
    with serving(create_app(settings), bound=bound) as url:
        document = httpx2.get(f"{url}/openapi.json", timeout=30).text
        imported = import_document(document, provider="sandbox")
        yield host, secrets, {known.name: known for known in imported.apis}


@pytest.fixture
async def executor(sandbox: Sandbox, started: Starter) -> ExecutorClient:
    host, secrets, _ = sandbox
    client: ExecutorClient = await started(secrets, allowed_private_hosts=(host,))
    return client


async def run(executor: ExecutorClient, plan: Any, **more: Any) -> ExecutionFinished:
    *_, last = [event async for event in executor.execute(request(plan, **more))]
    assert isinstance(last, ExecutionFinished)
    return last


async def test_a_chain_and_a_join(sandbox: Sandbox, executor: ExecutorClient) -> None:
    apis = sandbox[2]
    airport, sun = apis["getAirport"], apis["getSunTimes"]
    at = {"latitude": ref("var1", "latitude"), "longitude": ref("var1", "longitude")}
    plan = compiled(
        [airport, sun, apis["getDistance"]],
        step("var1", airport, {"iata": literal("LIS")}),
        step("var2", airport, {"iata": literal("OPO")}),
        step("var3", sun, at | {"date": literal("2027-05-01")}),
        step(
            "var4",
            apis["getDistance"],
            {
                "from_latitude": ref("var1", "latitude"),
                "from_longitude": ref("var1", "longitude"),
                "to_latitude": ref("var2", "latitude"),
                "to_longitude": ref("var2", "longitude"),
            },
        ),
        answer={"sun": ref("var3"), "distance": ref("var4")},
    )
    finished = await run(executor, plan)
    assert finished.status == "succeeded", finished
    assert len(finished.answer) == 2


async def test_foreach_over_a_list_from_another_call(sandbox: Sandbox, executor: ExecutorClient) -> None:
    apis = sandbox[2]
    codes = literal(["PT", "ES", "FR", "DE"])
    each = step("each", apis["getCountry"], {"country_code": item()}, foreach=ForEach(items=codes))
    finished = await run(executor, compiled([apis["getCountry"]], each, answer={"all": ref("each")}))
    assert finished.status == "succeeded", finished
    found = finished.answer[0].value
    assert isinstance(found, list)
    assert [json.dumps(country)[:60].count(code) for country, code in zip(found, ["PT", "ES", "FR", "DE"], strict=True)]


async def test_a_deep_object_in_the_query(sandbox: Sandbox, executor: ExecutorClient) -> None:
    products = sandbox[2]["searchProducts"]
    plan = compiled(
        [products],
        step("some", products, {"price": literal({"min": 20, "max": 60})}),
        step("none", products, {"price": literal({"min": 999_999})}),
        answer={"some": ref("some", "total"), "none": ref("none", "total")},
    )
    finished = await run(executor, plan)
    assert "?price%5Bmin%5D=20&price%5Bmax%5D=60" in finished.records[0].requests[0].url
    some, none = (answer.value for answer in finished.answer)
    assert isinstance(some, int)
    assert some > 0
    assert none == 0


@pytest.mark.parametrize(
    ("operation", "kind"),
    [("listRooms", "api key"), ("listReminders", "basic"), ("searchContacts", "bearer"), ("searchCustomers", "oauth2")],
)
async def test_every_kind_of_credential(
    sandbox: Sandbox, executor: ExecutorClient, started: Starter, operation: str, kind: str
) -> None:
    host, _, apis = sandbox
    plan = compiled([apis[operation]], step("a", apis[operation]))
    finished = await run(executor, plan)
    assert finished.status == "succeeded", (kind, finished)
    without = await started({}, allowed_private_hosts=(host,))
    refused = (await run(without, plan)).records[0].outcome
    assert isinstance(refused, Failed)
    assert refused.reason == "credential"


async def test_bookings_with_the_same_key_are_one_booking(sandbox: Sandbox, executor: ExecutorClient) -> None:
    apis = sandbox[2]
    rooms, create, listed = apis["listRooms"], apis["createBooking"], apis["listBookings"]
    assert create.idempotency_header == "Idempotency-Key"
    arguments: dict[str, Value] = {
        "room_id": ref("rooms", 0, "id"),
        "title": literal("Retro"),
        "start": literal("2027-03-02T10:00"),
        "end": literal("2027-03-02T11:00"),
    }
    plan = compiled([rooms, create], step("rooms", rooms), step("book", create, arguments), approvals=("book",))
    first, second = [
        await run(executor, plan, approved=plan.plan.id) for _ in range(2)
    ]  # same run id, same step: same key
    assert first.status == second.status == "succeeded", first
    assert first.records[1].outcome == second.records[1].outcome
    after = await run(executor, compiled([listed], step("l", listed), answer={"l": ref("l")}))
    assert json.dumps(after.answer[0].value).count("Retro") == 1


async def test_upstreams_that_misbehave(sandbox: Sandbox, executor: ExecutorClient) -> None:
    apis = sandbox[2]
    names = ["answerSlowly", "failAlways", "failThenSucceed", "answerWithinLimit", "dropConnection"]
    slow, fail, flaky, _, drop = (apis[name] for name in names)
    plan = compiled(
        [slow, fail, flaky, drop],
        step("slow", slow, {"seconds": literal(20)}),
        step("fail", fail, {"status": literal(418)}),
        step("flaky", flaky, {"token": literal("t1"), "failures": literal(1), "status": literal(503)}),
        step("drop", drop),
    )
    finished = await run(executor, plan, step_deadline_ms=1500)
    outcomes = {record.step: record.outcome for record in finished.records}
    assert getattr(outcomes["slow"], "reason", "") == "timeout"
    assert getattr(outcomes["fail"], "status", 0) == 418
    assert isinstance(outcomes["drop"], Failed)
    assert not any(isinstance(outcome, InDoubt) for outcome in outcomes.values())


async def test_a_throttled_upstream_is_waited_for(sandbox: Sandbox, executor: ExecutorClient) -> None:
    limited = sandbox[2]["answerWithinLimit"]
    arguments = {"token": literal("t2"), "limit": literal(2), "window_seconds": literal(1)}
    plan = compiled([limited], *(step(f"s{n}", limited, arguments) for n in range(4)))
    finished = await run(executor, plan)
    assert finished.status == "succeeded", finished
    assert sum(record.attempts for record in finished.records) > 4


async def test_concurrent_runs_share_one_token(sandbox: Sandbox, executor: ExecutorClient) -> None:
    customers = sandbox[2]["searchCustomers"]
    plan = compiled([customers], *(step(f"s{n}", customers) for n in range(20)))
    runs = await asyncio.gather(*(run(executor, plan) for _ in range(5)))
    assert {finished.status for finished in runs} == {"succeeded"}
