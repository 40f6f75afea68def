"""Runs the requests end to end: documents imported, requests planned by the default planner, run against the twins."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.onebox import OneboxSettings, create_onebox
from deploy.sockets import address, listen, serving
from evals.planning.calls import graph_of_calls, graph_of_plan
from evals.planning.scoring import score
from retriever_svc.importers import Imported, import_document
from services.clients import GatewayClient, open_http
from services.contracts.api import ImportRequest, Location
from services.contracts.outcome import Failed
from services.contracts.planning import Decision
from services.contracts.run import Run
from services.contracts.solve import SolveOptions, SolveRequest
from services.errors import ServiceError
from tests.vendors.requests import Asked, Vendor
from twin.main import create_app
from twin.service import Twin

TOKEN = "a-token-of-the-twins"
INVALID = frozenset({400, 401, 405, 413, 415, 422})
"""The statuses with which a twin rejects a request that its document does not allow. 404 and 409 concern its items."""
_DEADLINE_MS = 600_000


@dataclass(frozen=True)
class Stand:
    """A running vendor: its document's operations and its twin."""

    vendor: Vendor
    imported: Imported
    twin: Twin


@dataclass(frozen=True)
class Result:
    """The result of a request.

    Attributes:
        asked: the request.
        run: the run; None if there was none.
        planned: whether the plan has exactly the expected calls.
        sent: the number of HTTP requests that arrived.
        refused: the twin's reasons for rejecting some of them as invalid.
        failure: the class of the planning failure; empty if there was none.
        detail: details of the failure.
    """

    asked: Asked
    run: Run | None
    planned: bool
    sent: int = 0
    refused: tuple[str, ...] = ()
    failure: str = ""
    detail: str = ""


@dataclass
class Row:
    """A row of the table."""

    stand: Stand
    results: list[Result] = field(default_factory=list)

    @property
    def reasons(self) -> Counter[str]:
        """The number of failures of each class."""
        return Counter(result.failure for result in self.results if result.failure)


@contextmanager
def standing(vendors: Sequence[Vendor], folder: Path) -> Iterator[tuple[str, list[Stand]]]:
    """Start every vendor's twin and a Nestor that may call them. Gives the gateway's URL; nothing is imported yet."""
    with ExitStack() as stack:
        stands, hosts, secrets = [], [], dict[str, Any]()
        for vendor in vendors:
            assert vendor.file is not None
            bound = listen("127.0.0.1", 0)
            hosts.append(address(bound))
            text = vendor.file.read_text(encoding="utf-8")
            imported = import_document(text, vendor.name, f"http://{hosts[-1]}")
            twin = Twin(imported.apis, TOKEN)
            secrets |= twin.access.secrets(hosts[-1])
            stack.enter_context(serving(create_app(twin, text), bound=bound))
            stands.append((vendor, imported, twin, f"http://{hosts[-1]}"))
        settings = OneboxSettings(folder, json.dumps(secrets), tuple(hosts))
        gateway = stack.enter_context(serving(create_onebox(settings)))
        yield gateway, [Stand(vendor, imported, twin) for vendor, imported, twin, _ in stands]


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[GatewayClient]:
    """A client of the gateway."""
    client = GatewayClient(open_http(url))
    try:
        yield client
    finally:
        await client.aclose()


async def bring_in(gateway: GatewayClient, stand: Stand) -> None:
    """Import the vendor's document, as a user would."""
    assert stand.vendor.file is not None
    server = next(api.server for api in stand.imported.apis)
    text = stand.vendor.file.read_text(encoding="utf-8")
    base = "/".join(server.split("/")[:3])
    request = ImportRequest(document=text, provider=stand.vendor.name, server=base)
    async for _ in gateway.import_apis(request):
        pass


async def ask(gateway: GatewayClient, stand: Stand, asked: Asked, planner: str | None = None) -> Result:
    """Solve one request with the vendor's operations and with mutations allowed, against its twin."""
    prepare(stand, asked)
    options = SolveOptions(
        mutations=Decision.ALLOW_UNSURE, providers=(stand.vendor.name,), deadline_ms=_DEADLINE_MS, backend=planner
    )
    try:
        run = await gateway.solve(SolveRequest(query=asked.ask, options=options))
    except ServiceError as error:
        return Result(asked, None, planned=False, failure="problem", detail=f"{error.title}: {error.detail}")
    gold = graph_of_calls(asked.gold(stand.vendor.name))
    planned = score(gold, graph_of_plan(run.plan), {}).any_order
    calls = list(stand.twin.calls)
    refused = tuple(f"{call.api} {call.status}: {call.problem}" for call in calls if call.status in INVALID)
    failure, detail = ("", "") if planned else _failure(asked, stand.vendor.name, run)
    return Result(asked, run, planned, len(calls), refused, failure, detail)


def prepare(stand: Stand, asked: Asked) -> None:
    """Create the items at the twin that the request needs: those in its calls' paths, and those in ``known``."""
    stand.twin.reset()
    apis = {api.id: api for api in stand.imported.apis}
    for call in asked.gold(stand.vendor.name):
        api = apis[call.api]
        path = api.path
        for parameter in api.parameters:
            value = call.args.get(parameter.name)
            if parameter.location is Location.PATH and value is not None and "$var" not in str(value):
                path = path.replace(f"{{{parameter.wire_name}}}", str(value))
        steps = path.strip("/").split("/")
        for end in range(1, len(steps) + 1):
            if "{" not in steps[end - 1]:
                stand.twin.preset("/" + "/".join(steps[:end]), {})
    for path, fields in asked.known.items():
        assert stand.twin.preset(path, fields), f"{stand.vendor.name}: nothing is read at {path}"


def _failure(asked: Asked, provider: str, run: Run) -> tuple[str, str]:
    """Why a plan differs from the expected one: the class and details."""
    said = run.reason or (run.diagnostics[0].message if run.diagnostics else "")
    if run.plan is None or run.status.value in ("needs_input", "no_plan"):
        if any("credential" in one.message for one in run.diagnostics):
            return "credential", said
        questions = "; ".join(question.text for question in run.questions)
        return ("asks", questions) if run.status.value == "needs_input" else ("no plan", said)
    wanted = sorted(call.api for call in asked.gold(provider))
    made = sorted(step.api for step in run.plan.steps)
    if wanted != made:
        return "other calls", ", ".join(made)
    values = {step.id: {name: value.model_dump() for name, value in step.arguments.items()} for step in run.plan.steps}
    return "other arguments", json.dumps(values, ensure_ascii=False, default=str)


def failed_step(run: Run) -> str:
    """The message of the first failed step; empty if there is none."""
    return next((one.outcome.message for one in run.steps if isinstance(one.outcome, Failed)), "")
