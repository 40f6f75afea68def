"""The services behind the gateway check everything: the caller's token and the signature of a proof."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from demo_svc.main import create_app as create_demo_svc
from demo_svc.settings import DemoSettings
from deploy.serve import main
from deploy.sockets import UnprotectedService, refuse_unprotected, serving
from executor_svc.main import create_app as create_executor_svc
from executor_svc.settings import ExecutorSettings
from gateway.peers import open_peers
from gateway.settings import GatewaySettings
from planner_svc.main import create_app as create_planner_svc
from planner_svc.models import PlanDraft
from planner_svc.settings import PlannerSettings
from retriever_svc.main import create_app as create_retriever_svc
from retriever_svc.settings import RetrieverSettings
from services.clients import ExecutorClient, PlannerClient, open_http
from services.contracts.api import Api, SecurityRequirement
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.plan import Plan
from services.contracts.planning import CompiledPlan, CompileRequest, Decision, PlanRequest, Policy
from services.contracts.retrieval import Candidate
from services.contracts.secret import SecretTestRequest
from services.errors import Conflict, ServiceUnavailable
from services.signing import PlanSigner, load_or_create_key
from tests.support.executing import api, compiled, ref, step
from tests.support.unread import status_without_body
from tests.support.upstream import Upstream, serve_upstream

TOKEN = "executor-token"
PLANNER_TOKEN = "planner-token"
ASKED = [("GET", "/credentials"), ("POST", "/execute"), ("GET", "/openapi.json"), ("GET", "/metrics"), ("GET", "/no")]
KEY = SecretStr("k" * 40)
BEARER = SecurityRequirement(scheme="token", kind="bearer", secret="bank.token")


@pytest.fixture
async def bank() -> AsyncIterator[Upstream]:
    async with serve_upstream() as running:
        yield running


Starter = Callable[..., Any]


@pytest.fixture
async def executor(tmp_path: Path, bank: Upstream) -> AsyncIterator[Starter]:
    """Starts executors on sockets; they have the bank's token."""
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> str:
            host = bank.host
            entry = {"bank.token": {"value": "operators-bank-token", "hosts": [host]}}
            app = create_executor_svc(
                ExecutorSettings(
                    allowed_private_hosts=("127.0.0.1",),
                    database_url=f"sqlite+aiosqlite:///{tmp_path}/executor.db",
                    secrets=SecretStr(json.dumps(entry)),
                    **settings,
                )
            )
            server = serving(app)
            url = await asyncio.to_thread(server.__enter__)
            stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)
            return url

        yield start


def pay(bank: Upstream) -> Api:
    """An API that was never imported."""
    return api(bank.origin, "/ok", method="POST", name="pay", security=((BEARER,),))


def forged(bank: Upstream) -> CompiledPlan:
    """A plan whose proof does not come from a planner."""
    return compiled([pay(bank)], step("var1", pay(bank)))


async def test_nobody_asks_the_executor_without_its_token(executor: Starter, bank: Upstream) -> None:
    url = await executor(service_token=TOKEN)
    ask = ExecuteRequest(run_id="run_forged", compiled=forged(bank)).model_dump(mode="json", by_alias=True)
    async with httpx2.AsyncClient(base_url=url) as http:
        for headers in ({}, {"Authorization": "Bearer wrong-token"}, {"Authorization": f"Basic {TOKEN}"}):
            for method, path in ASKED:
                answer = await http.request(method, path, json=ask, headers=headers)
                assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
        assert [(await http.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert (await http.get("/credentials", headers=right)).json() == {"secrets": ["bank.token"]}
        twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong-token")]
        assert (await http.get("/credentials", headers=twice)).status_code == 400
    assert bank.seen == []


@pytest.mark.parametrize("key", [KEY, None])
async def test_a_forged_plan_is_not_run_for_whoever_has_the_token(
    executor: Starter, bank: Upstream, key: SecretStr | None
) -> None:
    """Without a proof key the plan does run."""
    client = ExecutorClient(open_http(await executor(service_token=TOKEN, proof_key=key)), TOKEN)
    events = client.execute(ExecuteRequest(run_id="run_forged", compiled=forged(bank)))
    if key is None:
        assert [event async for event in events]
        assert len(bank.seen) == 1
    else:
        with pytest.raises(Conflict, match="not signed by the planner"):
            await anext(events)
        assert bank.seen == []
    await client.aclose()


class Scripted:
    """A planner backend that drafts a given plan."""

    name = "scripted"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def read(self, apis: Sequence[Api]) -> int:
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        return PlanDraft(self._plan, confidence=1.0)


def changed(plan: CompiledPlan) -> list[CompiledPlan]:
    """Copies of a signed plan with one change each, as an attacker could make them."""
    (name, known), signature = next(iter(plan.apis.items())), plan.signature
    assert signature is not None
    other = Plan(steps=(step("var2", known),))
    return [
        plan.model_copy(update={"plan": other}),
        # The API's own content hash is still the proved one.
        plan.model_copy(update={"apis": {name: known.model_copy(update={"path": "/all"})}}),
        plan.model_copy(update={"proof": plan.proof.model_copy(update={"approvals": ()})}),
        *(
            plan.model_copy(update={"signature": signature.model_copy(update=update)})
            for update in ({"tenant": "other"}, {"expires_at": signature.expires_at + 1}, {"mac": "0" * 64})
        ),
    ]


async def signed_by_a_planner(bank: Upstream, tenant: str) -> CompiledPlan:
    """A plan that a planner on a socket signed; both ``compile`` and ``plan`` sign it."""
    plan = compiled([pay(bank)], step("var1", pay(bank)), answer={"answer": ref("var1")}).plan
    policy = Policy(mutating=Decision.ASK, tenant=tenant)
    settings = PlannerSettings(service_token=PLANNER_TOKEN, proof_key=KEY, default_backend="scripted")
    app = create_planner_svc(settings, backends={"scripted": Scripted(plan)})
    with serving(app) as url:
        client = PlannerClient(open_http(url), PLANNER_TOKEN)
        proved = (await client.compile(CompileRequest(plan=plan, apis=(pay(bank),), policy=policy))).compiled
        candidates = (Candidate(api=pay(bank), score=1.0),)
        asked = PlanRequest(query="Pay", candidates=candidates, policy=policy, backend="scripted")
        planned = (await client.plan(asked)).compiled
        await client.aclose()
    assert proved is not None
    assert planned is not None
    assert planned.signature is not None
    assert planned.signature.tenant == tenant
    return proved


async def run(client: ExecutorClient, plan: CompiledPlan, run_id: str, tenant: str) -> list[Any]:
    """Execute an approved plan and return its events."""
    ask = ExecuteRequest(run_id=run_id, compiled=plan, tenant=tenant, approved=plan.plan.id)
    return [event async for event in client.execute(ask)]


async def test_what_the_planner_signed_is_run_as_it_is_and_for_its_tenant(executor: Starter, bank: Upstream) -> None:
    plan = await signed_by_a_planner(bank, "desk")
    client = ExecutorClient(open_http(await executor(service_token=TOKEN, proof_key=KEY)), TOKEN)
    for one in changed(plan):
        with pytest.raises(Conflict):
            await run(client, one, "run_changed", "desk")
    with pytest.raises(Conflict, match="another tenant"):
        await run(client, plan, "run_changed", "other")
    assert bank.seen == []
    *_, last = await run(client, plan, "run_1", "desk")
    assert isinstance(last, ExecutionFinished)
    assert [seen.headers["Authorization"] for seen in bank.seen] == ["Bearer operators-bank-token"]
    # A run that has begun can be followed without a valid signature; that starts nothing.
    unsigned = plan.model_copy(update={"signature": None})
    assert isinstance((await run(client, unsigned, "run_1", "desk"))[-1], ExecutionFinished)
    assert len(bank.seen) == 1
    await client.aclose()


async def test_reads_want_a_signature_too(executor: Starter, bank: Upstream) -> None:
    read = api(bank.origin, "/ok", name="balance", security=((BEARER,),))
    client = ExecutorClient(open_http(await executor(service_token=TOKEN, proof_key=KEY)), TOKEN)
    with pytest.raises(Conflict, match="not signed"):
        await run(client, compiled([read], step("var1", read)), "run_read", "default")
    assert bank.seen == []
    await client.aclose()


def test_a_signature_holds_for_a_day(bank_less: CompiledPlan) -> None:
    now = [1_000.0]
    signer = PlanSigner(KEY, lambda: now[0])
    plan = signer.signed(bank_less, "desk")
    now[0] += 86_399
    signer.check(plan, "desk")
    now[0] += 1
    with pytest.raises(Conflict, match="too long ago"):
        signer.check(plan, "desk")
    with pytest.raises(Conflict, match="another proof key"):
        PlanSigner(SecretStr("other" * 8), lambda: 0.0).check(plan, "desk")


@pytest.fixture
def bank_less() -> CompiledPlan:
    known = api("https://bank.example")
    return compiled([known], step("var1", known))


def test_a_key_is_drawn_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "secrets" / "proof.key"
    key = load_or_create_key(file).get_secret_value()
    assert len(key) >= 32
    assert load_or_create_key(file).get_secret_value() == key
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    file.write_text("short")
    with pytest.raises(ValueError, match="has no key"):
        load_or_create_key(file)


def internal_apps(folder: Path, token: str | None, **settings: Any) -> dict[str, FastAPI]:
    """The apps of the four services, not started."""
    database = f"sqlite+aiosqlite:///{folder}/one.db"
    return {
        "RETRIEVER": create_retriever_svc(RetrieverSettings(database_url=database, service_token=token, **settings)),
        "DEMO": create_demo_svc(DemoSettings(database_url=database, service_token=token, **settings)),
        "PLANNER": create_planner_svc(PlannerSettings(service_token=token, **settings)),
        "EXECUTOR": create_executor_svc(ExecutorSettings(database_url=database, service_token=token, **settings)),
    }


def test_without_a_token_no_service_listens_to_other_machines(tmp_path: Path) -> None:
    for name, app in internal_apps(tmp_path, None).items():
        refuse_unprotected(app, "127.0.0.1")
        with pytest.raises(UnprotectedService, match=f"NESTOR_{name}_SERVICE_TOKEN"):
            refuse_unprotected(app, "0.0.0.0")
    for app in (*internal_apps(tmp_path, TOKEN).values(), *internal_apps(tmp_path, None, allow_anybody=True).values()):
        refuse_unprotected(app, "0.0.0.0")


def test_a_service_that_would_be_open_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["executor_svc", "--host", "0.0.0.0", "--port", "0"])
    assert ended.value.code == 2
    assert "NESTOR_EXECUTOR_SERVICE_TOKEN" in capsys.readouterr().err


async def test_no_service_reads_a_body_without_its_token(tmp_path: Path) -> None:
    for app in internal_apps(tmp_path, TOKEN).values():
        for path in ("/", "/execute", "/plan", "/retrieve", "/demos", "/imports"):
            assert await status_without_body(app, path, ["Bearer wrong-token"]) == 401


async def test_a_gateway_sends_each_service_its_own_token_and_says_when_one_is_wrong(executor: Starter) -> None:
    url = await executor(service_token=TOKEN)
    for given, works in ((TOKEN, True), ("another-token", False), (None, False)):
        peers, clients = open_peers(GatewaySettings(executor_url=url, executor_token=given), {})
        if works:
            await peers.executor.ready()
            assert (await peers.executor.credentials("default")).secrets == ("bank.token",)
        else:
            with pytest.raises(ServiceUnavailable, match="executor_svc does not accept the token"):
                await peers.executor.credentials("default")
        if given == "another-token":
            with pytest.raises(ServiceUnavailable):
                await peers.executor.ready()
        for client in clients:
            await client.aclose()


async def test_metrics_may_have_a_token_of_their_own(executor: Starter) -> None:
    url = await executor(service_token=TOKEN, metrics_token="metrics-token")
    async with httpx2.AsyncClient(base_url=url) as http:
        codes = [
            (await http.get("/metrics", headers={"Authorization": f"Bearer {token}"})).status_code
            for token in (TOKEN, "metrics-token")
        ]
    assert codes == [401, 200]


async def test_a_credential_is_tried_with_reads_alone_whatever_the_caller_says_of_the_api(
    executor: Starter, bank: Upstream
) -> None:
    client = ExecutorClient(open_http(await executor(service_token=TOKEN, proof_key=KEY)), TOKEN)
    claimed = pay(bank).model_copy(update={"effect": "read"})
    tried = await client.test_secret(SecretTestRequest(api=claimed, send=True))
    assert tried.outcome == "ready"
    assert bank.seen == []
    await client.aclose()
