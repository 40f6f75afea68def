"""Nestor in one process: the same five apps as in containers, with in-process transports between them.

The sandbox is not one of them. It plays a customer's service, so it is served on a real socket and called over HTTP.
"""

import asyncio
import importlib.resources
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from demo_svc.main import create_app as create_demo_svc
from demo_svc.settings import DemoSettings
from deploy.llm.supervisor import planning_model
from deploy.serve import freeze_loaded_objects, shorten_switch_interval, warn_about_variables
from deploy.sockets import address, listen, refuse_unprotected, serving
from deploy.traces import sending_traces
from executor_svc.main import create_app as create_executor_svc
from executor_svc.secret_file import DEFAULT_FILE, change_file, read_entries
from executor_svc.settings import ExecutorSettings
from gateway.main import create_app as create_gateway
from gateway.settings import GatewaySettings, PrincipalSettings
from planner_svc.main import create_app as create_planner_svc
from planner_svc.settings import PlannerSettings
from retriever_svc.main import create_app as create_retriever_svc
from retriever_svc.settings import RetrieverSettings
from sandbox.main import create_app as create_sandbox
from sandbox.settings import SandboxSettings
from services.app import ReadinessCheck
from services.clients import GatewayClient, InProcessTransport, open_http
from services.contracts.api import ImportReport, ImportRequest
from services.contracts.demo import Demo, ImportDemosRequest
from services.encoder import load_encoder
from services.errors import NotReady
from services.server import raise_file_limit
from services.signing import load_or_create_key
from services.telemetry import MergedCollector, configure_logging, get_logger

_log = get_logger(__name__)

SANDBOX_POLICY = ("sandbox.analyzeText", "sandbox.fitLine", "sandbox.createQrCode")
"""The sandbox's POSTs that need no approval, because they only compute."""
_OWN = {f"NESTOR_{one}_DATABASE_URL" for one in ("GATEWAY", "RETRIEVER", "DEMO", "EXECUTOR")} | {
    f"NESTOR_{one}_PROOF_KEY" for one in ("PLANNER", "EXECUTOR")
}
"""Settings that one process replaces: its databases are SQLite files, and its key lies beside them."""
_DESCRIBE_S = 120.0
"""How long the sandbox may take to describe itself. It starts at the same time; a busy machine needs half a minute."""


@dataclass(frozen=True)
class SandboxAccess:
    """A sandbox's settings, and the executor's secrets that go with them."""

    settings: SandboxSettings
    secrets: str
    """JSON of the executor's secrets by name. Each may be sent to the sandbox's address only."""


def sandbox_access(host: str, provider: str = "sandbox") -> SandboxAccess:
    """Random credentials for a sandbox at ``host`` (``name:port``). Only the sandbox and the executor get them."""
    key, password, bearer, client = (secrets.token_urlsafe(24) for _ in range(4))
    settings = SandboxSettings(
        public_url=f"http://{host}",
        api_key=SecretStr(key),
        basic_password=SecretStr(password),
        bearer_token=SecretStr(bearer),
        oauth_client_secret=SecretStr(client),
    )
    known: dict[str, dict[str, str]] = {
        "apiKey": {"value": key, "scheme": "api_key", "in": "header", "name": "X-API-Key"},
        "basic": {"username": settings.basic_username, "password": password},
        "bearer": {"value": bearer, "scheme": "bearer"},
        "oauth2": {"client_id": settings.oauth_client_id, "client_secret": client},
    }
    entries = {f"{provider}.{scheme}": {**entry, "hosts": [host]} for scheme, entry in known.items()}
    return SandboxAccess(settings=settings, secrets=json.dumps(entries))


@dataclass(frozen=True)
class OneboxSettings:
    """Settings of the single process. All others come from the services' own environment variables."""

    data_dir: Path
    executor_secrets: str | None = None
    """JSON of further secrets by name, besides those in the executor's own settings."""
    allowed_private_hosts: tuple[str, ...] = ()
    policy_allow: tuple[str, ...] = ()
    """Mutating APIs that need no approval, as patterns."""
    operator_token: SecretStr | None = None
    """Token of one more operator principal, besides those in the gateway's own settings."""
    readiness: dict[str, ReadinessCheck] = field(default_factory=dict)
    """Further checks that `/readyz` requires, by name."""


def _database(settings: OneboxSettings, name: str) -> str:
    return f"sqlite+aiosqlite:///{settings.data_dir.absolute() / name}.db"


def _secrets_file(named: Path | None, data_dir: Path) -> Path:
    """The file that `nestor secrets set` writes. It is created if missing, so that the executor can watch it."""
    file = named or data_dir.absolute() / "secrets" / DEFAULT_FILE.name
    if not file.exists():
        change_file(file, {})
    return file


def secrets_hint(data_dir: Path) -> str:
    """What to set so that ``nestor secrets`` writes the file that this server reads; empty if it does without."""
    named = ExecutorSettings().secrets_file
    file = _secrets_file(named, data_dir)
    if named is not None or file == DEFAULT_FILE.absolute():
        return ""
    return f"\nCredentials are read from {file}. For nestor secrets: export NESTOR_EXECUTOR_SECRETS_FILE={file}\n"


def create_onebox(settings: OneboxSettings) -> FastAPI:
    """The gateway's app with the four services inside it. Those that store data have an SQLite file in ``data_dir``."""
    executor = ExecutorSettings()
    # Only this process can reach the four services. They ask for no token, even if the environment sets one.
    inside: dict[str, Any] = {"service_token": None}
    proof_key = load_or_create_key(settings.data_dir.absolute() / "secrets" / "proof.key")
    secrets_file = _secrets_file(executor.secrets_file, settings.data_dir)
    given: dict[str, object] = {
        "allowed_private_hosts": executor.allowed_private_hosts + settings.allowed_private_hosts,
        "database_url": _database(settings, "executor"),
        "secrets_file": secrets_file,
        "proof_key": proof_key,
        **inside,
    }
    if settings.executor_secrets is not None:
        configured = executor.secrets.get_secret_value() if executor.secrets is not None else "{}"
        entries = read_entries(configured, "the secrets setting") | json.loads(settings.executor_secrets)
        given["secrets"] = SecretStr(json.dumps(entries))
    executor_app = create_executor_svc(executor.model_copy(update=given))  # first, since its secrets may be unreadable
    retriever = RetrieverSettings(database_url=_database(settings, "retriever"), **inside)
    demos = DemoSettings(database_url=_database(settings, "demos"), **inside)
    planner = PlannerSettings(proof_key=proof_key, **inside)
    # Services that use the same encoder share one loaded model.
    encoders = {name: load_encoder(name, threads=os.cpu_count() or 1) for name in {retriever.encoder, demos.encoder}}
    peers = {
        "retriever_svc": create_retriever_svc(retriever, encoder=encoders[retriever.encoder]),
        "demo_svc": create_demo_svc(demos, encoder=encoders[demos.encoder]),
        "planner_svc": create_planner_svc(planner),
        "executor_svc": executor_app,
    }
    gateway = GatewaySettings(database_url=_database(settings, "gateway"))
    update: dict[str, object] = {"policy_allow": gateway.policy_allow + settings.policy_allow}
    if settings.operator_token is not None:
        own = PrincipalSettings(name="onebox", tenant=gateway.operator_tenant, token=settings.operator_token)
        update["principals"] = (*gateway.principals, own)
    app = create_gateway(
        gateway.model_copy(update=update),
        transports={name: InProcessTransport(peer) for name, peer in peers.items()},
    )
    app.state.exposed = CollectorRegistry()
    app.state.exposed.register(MergedCollector([one.state.registry for one in (app, *peers.values())]))
    own_lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for peer in peers.values():
                await stack.enter_async_context(peer.router.lifespan_context(peer))
            await stack.enter_async_context(own_lifespan(app))
            app.state.readiness |= settings.readiness
            yield

    app.router.lifespan_context = lifespan
    return app


@dataclass(frozen=True)
class RunningStack:
    """Addresses of a running Nestor and its sandbox."""

    gateway_url: str
    sandbox_url: str
    token: str | None = field(default=None, repr=False)
    """Token for the gateway; None if the gateway asks for none."""


@contextmanager
def running_stack(
    data_dir: Path, *, host: str = "127.0.0.1", port: int = 0, sandbox_port: int = 0
) -> Iterator[RunningStack]:
    """Run Nestor in one process with a sandbox beside it, on real sockets. Port 0 takes a free one.

    When this yields, the sandbox's APIs and demos are imported.
    """
    bound = listen("127.0.0.1", sandbox_port)
    sandbox_host = address(bound)
    access = sandbox_access(sandbox_host)
    imported = threading.Event()

    async def sandbox_imported() -> None:
        if not imported.is_set():
            raise NotReady("its APIs are being imported")

    checks: dict[str, ReadinessCheck] = {"sandbox": sandbox_imported}
    own_token = _own_token()
    settings = OneboxSettings(data_dir, access.secrets, (sandbox_host,), SANDBOX_POLICY, own_token, checks)
    app = create_onebox(settings)
    refuse_unprotected(app, host)
    with ExitStack() as stack:
        stack.enter_context(serving(create_sandbox(access.settings), bound=bound))
        gateway_url = stack.enter_context(serving(app, host=host, port=port))
        token = own_token.get_secret_value() if own_token else None
        found = RunningStack(gateway_url=gateway_url, sandbox_url=f"http://{sandbox_host}", token=token)
        asyncio.run(import_sandbox(found))
        imported.set()
        yield found


def _own_token() -> SecretStr | None:
    """A token with which this process imports the sandbox for all tenants; None if the gateway asks for none."""
    settings = GatewaySettings()
    return SecretStr(secrets.token_urlsafe(24)) if settings.asks_for_tokens else None


async def import_sandbox(stack: RunningStack) -> ImportReport:
    """Import the sandbox's document and demos, the same way as a customer's."""
    async with open_http(stack.sandbox_url) as sandbox:
        document = (await sandbox.get("/openapi.json", timeout=_DESCRIBE_S)).raise_for_status().text
    gateway = GatewayClient(open_http(stack.gateway_url), stack.token)
    try:
        request = ImportRequest(document=document, provider="sandbox")
        report = await _imported(gateway, request)
        if not report.applied:  # its port differs from last time: confirm, it is the same sandbox
            report = await _imported(gateway, request.model_copy(update={"confirm": report.change_hash}))
        await gateway.import_demos(ImportDemosRequest(demos=tuple(shipped_demos())), shared=True)
        return report
    finally:
        await gateway.aclose()


async def _imported(gateway: GatewayClient, request: ImportRequest) -> ImportReport:
    report = [event async for event in gateway.import_apis(request)][-1]
    assert isinstance(report, ImportReport)
    return report


def shipped_demos() -> Iterator[Demo]:
    """The demos that ship with Nestor, all for the sandbox."""
    text = (importlib.resources.files("demo_svc") / "data" / "sandbox_demos.jsonl").read_text(encoding="utf-8")
    return (Demo.model_validate_json(line) for line in text.splitlines() if line.strip())


def serve_onebox(*, host: str, port: int, data_dir: Path, sandbox_port: int | None, llm: bool = False) -> None:
    """Serve until a signal arrives. With a sandbox port, also serve the sandbox and import its APIs and demos.

    With ``llm``, the language model plans; a separate process serves it.

    Raises:
        LlmError: the model's server does not start.
        UnprotectedService: other machines could use the gateway without a token.
    """
    settings = GatewaySettings()
    raise_file_limit()
    shorten_switch_interval()
    configure_logging(level=settings.log_level, json=settings.log_json and not sys.stderr.isatty())
    warn_about_variables(GatewaySettings, RetrieverSettings, DemoSettings, PlannerSettings, ExecutorSettings)
    for name in _OWN & os.environ.keys():
        _log.warning(f"nestor serve ignores {name}: it keeps its own under --data")
    stop = threading.Event()
    with sending_traces(), ExitStack() as stack:
        if llm:
            listen(host, port).close()  # the model takes its time, and a port that is taken would be told after it
            stack.enter_context(planning_model())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        if sandbox_port is None:
            app = create_onebox(OneboxSettings(data_dir))
            refuse_unprotected(app, host)
            url = stack.enter_context(serving(app, host=host, port=port))
        else:
            url = stack.enter_context(
                running_stack(data_dir, host=host, port=port, sandbox_port=sandbox_port)
            ).gateway_url
        print(f"Nestor is ready on {url} (console: {url}/console, docs: {url}/docs). Try:\n")
        asks = 'solve "Which public holidays does Portugal have in June 2027?"'
        print(
            f"  nestor {'import openapi.yaml' if sandbox_port is None else asks}\n{secrets_hint(data_dir)}", flush=True
        )
        freeze_loaded_objects()
        stop.wait()
