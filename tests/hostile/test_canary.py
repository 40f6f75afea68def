"""Canary secrets for every scheme, and upstreams that echo them: no secret appears in any output."""

import base64
import io
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from services.contracts.api import ImportRequest
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Skipped, Succeeded
from services.contracts.plan import AnswerOutput, Plan, Reference, Step
from services.encoder import load_encoder
from services.telemetry import configure_logging
from tests.congruence.houses import SERVICES, House, Script, open_onebox
from tests.congruence.world import compiled
from tests.hostile.echoes import SCHEMES, SHAPES, Echo, document
from tests.support.upstream import serve_upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")
READ, CHANGE = "Read what is said again", "Change what is said again"
CORES = {scheme: f"Kq7{scheme}9ZxW2mT5vB8" for scheme in (*SCHEMES, "issued")}
"""Parts that only base64 and hexadecimal encoding change. No half of one may appear either."""
SECRETS = {
    "header": "{}+/\"&<é>'%20;=",
    "query": "{} +/?&=%#ü\\",
    "cookie": "{}+/=.~",
    "basic": "{}:+/ ü&",
    "bearer": "{}-._~+/==",
    "oauth": "{}+/ &=%ü",
    "refused": "{}+/&=%",
    "issued": "{}-._~+/=",
}
VALUES = {scheme: SECRETS[scheme].format(core) for scheme, core in CORES.items()}
USER = "tester"
SHOWN: dict[str, tuple[str, ...]] = {
    "echo": tuple(SHAPES),
    "some": ("json", "names", "encoded", "large", "error", "cut"),  # the most that a planner is shown at a time
}
"""The shapes of each provider."""


def configured(host: str) -> str:
    """The executor's secrets."""
    entries: dict[str, dict[str, Any]] = {
        scheme: {"value": VALUES[scheme]} for scheme in ("header", "query", "cookie", "bearer")
    }
    entries["query"] |= {"in": "query", "name": "key"}
    entries["basic"] = {"username": USER, "password": VALUES["basic"]}
    entries["oauth"] = {"client_id": USER, "client_secret": VALUES["oauth"]}
    entries["refused"] = {"client_id": USER, "client_secret": VALUES["refused"], "client_auth": "body"}
    every = [(provider, *entry) for provider in SHOWN for entry in entries.items()]
    return json.dumps({f"{provider}.{scheme}": {**entry, "hosts": [host]} for provider, scheme, entry in every})


def _needles() -> dict[bytes, str]:
    """The byte strings that must not be found, in lower case, with the scheme of their secret."""
    login = base64.b64encode(f"{USER}:{VALUES['basic']}".encode()).decode()
    texts = [*CORES.items(), ("basic", login[12:40])]
    needles: dict[bytes, str] = {}
    for scheme, text in texts:
        middle = len(text) // 2
        needles |= {text[:middle].lower().encode(): scheme, text[middle:].lower().encode(): scheme}
        needles[text.encode().hex().encode()] = scheme
        for offset in range(3):
            packed = base64.b64encode(b"\0" * offset + text.encode()).decode()
            needles[packed[4:-4].lower().encode()] = scheme
    return needles


NEEDLES = _needles()


def found_in(content: bytes) -> set[str]:
    """The schemes whose secrets, or halves of them, occur in the content."""
    lower = content.lower()
    return {scheme for needle, scheme in NEEDLES.items() if needle in lower}


def plan_of(provider: str, verb: str) -> Plan:
    """A plan with all of a provider's shapes and every scheme in parallel. The answer is one step's whole output."""
    pairs = [(shape, scheme) for shape in SHOWN[provider] for scheme in SCHEMES]
    steps = [
        Step(id=f"var{n}", api=f"{provider}.{verb}_{shape}_{scheme}") for n, (shape, scheme) in enumerate(pairs, 1)
    ]
    return Plan(steps=tuple(steps), answer=(AnswerOutput(name="said", value=Reference(step="var1")),))


@dataclass
class Told:
    """All outputs of Nestor, by their place."""

    echo: Echo
    finished: dict[str, ExecutionFinished] = field(default_factory=dict)
    out: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def logs() -> Iterator[io.StringIO]:
    """Capture all log lines of all levels."""
    with pytest.MonkeyPatch.context() as patch:
        stream = io.StringIO()
        patch.setattr(sys, "stderr", stream)
        configure_logging(level="DEBUG", json=True)
        yield stream
    configure_logging(level="ERROR", json=False)


async def _executed(house: House, told: Told, verb: str) -> None:
    plan = await compiled(house, plan_of("echo", verb))
    request = ExecuteRequest(run_id=f"run-{verb}", compiled=plan, approved=plan.plan.id, deadline_ms=60_000)
    http = house.raw["executor_svc"]
    for time in ("first", "again"):  # the second answer for a durable run comes from the ledger
        response = await http.post("/execute", json=request.model_dump(mode="json"), timeout=60)
        told.out[f"executor: {verb} {time}"] = response.content
    finished = ExecutionFinished.model_validate_json(response.content.strip().splitlines()[-1])
    told.finished[verb] = finished
    previews = await http.post("/preview", json={"compiled": plan.model_dump(mode="json")})
    told.out[f"executor: preview of {verb}"] = previews.content
    stored = {r.outcome.stored.id for r in finished.records if isinstance(r.outcome, Succeeded) and r.outcome.stored}
    assert stored, [(r.outcome, r.attempts) for r in finished.records if "_large_" in r.api]
    for value in stored:
        told.out[f"executor: value {value}"] = (await http.get(f"/values/{value}")).content


async def _solved(house: House, told: Told) -> None:
    gateway = house.raw["gateway"]
    options: dict[str, Any] = {
        "mutations": "allow",
        "demos": 0,
        "top_k": 100,
        "providers": ["some"],
        "deadline_ms": 60_000,
    }
    for verb, query in (("read", READ), ("change", CHANGE)):
        body = {"query": query, "options": options}
        answered = await gateway.post("/solve", json=body, timeout=60)
        told.out[f"gateway: {verb}"] = answered.content
        assert answered.json()["steps"], answered.json()
        run = f"/runs/{answered.json()['id']}"
        told.out[f"gateway: run of {verb}"] = (await gateway.get(run)).content
        told.out[f"gateway: server-sent events of {verb}"] = (await gateway.get(f"{run}/events")).content
        told.out[f"gateway: stream of {verb}"] = (await gateway.post("/solve:stream", json=body, timeout=60)).content
    asking = await gateway.post("/solve", json={"query": CHANGE, "options": options | {"mutations": "ask"}}, timeout=60)
    told.out["gateway: previews"] = asking.content
    assert asking.json()["previews"]
    approval = {"plan_id": asking.json()["plan"]["id"]}
    approved = await gateway.post(f"/runs/{asking.json()['id']}:approve", json=approval, timeout=60)
    told.out["gateway: approved"] = approved.content
    late = {"query": READ, "options": options | {"deadline_ms": 100}}
    told.out["gateway: too late"] = (await gateway.post("/solve", json=late)).content
    told.out["gateway: list"] = (await gateway.get("/runs")).content


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def told(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Told]:
    folder: Path = tmp_path_factory.mktemp("canary")
    with pytest.MonkeyPatch.context() as patch, logs() as logged:
        async with serve_upstream() as upstream:
            echo = Echo(upstream, VALUES["issued"])
            patch.setenv("NESTOR_EXECUTOR_SECRETS", configured(upstream.host))
            patch.setenv("NESTOR_EXECUTOR_CIRCUIT_FAILURES", "1000000")
            script = Script({READ: plan_of("some", "read"), CHANGE: plan_of("some", "change")})
            told = Told(echo)
            async with open_onebox(folder, script, load_encoder(), upstream.host) as house:
                for provider, shapes in SHOWN.items():
                    learning = ImportRequest(document=document(upstream.origin, shapes), provider=provider)
                    async for _ in house.retriever.import_document(learning):
                        pass
                for verb in ("read", "change"):
                    await _executed(house, told, verb)
                await _solved(house, told)
                for service, http in house.raw.items():
                    told.out[f"metrics of {service}"] = (await http.get("/metrics")).content
                _look_at(folder, told, "while open")
            _look_at(folder, told, "closed")
        told.out["logs"] = logged.getvalue().encode()
    yield told


def _look_at(folder: Path, told: Told, when: str) -> None:
    """Read the databases as bytes and as rows, because a value may cross a page boundary."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        told.out[f"{file.relative_to(folder)} {when}"] = file.read_bytes()
        if file.suffix == ".db":
            with closing(sqlite3.connect(file)) as database:
                told.out[f"rows of {file.name} {when}"] = "\n".join(database.iterdump()).encode()


async def test_the_upstream_was_shown_every_secret_and_said_it_again(told: Told) -> None:
    """The control: the upstream's echoes do contain the secrets."""
    for (shape, scheme), spoken in told.echo.spoken.items():
        wanted = "issued" if scheme == "oauth" else scheme
        assert wanted in found_in(spoken), (shape, scheme)
    assert len(told.echo.spoken) == len(SHAPES) * (len(SCHEMES) - 1) + 1
    for finished in told.finished.values():
        assert not [record for record in finished.records if isinstance(record.outcome, Skipped)]
        assert b"***" in finished.model_dump_json().encode()


async def test_no_secret_is_found_anywhere(told: Told) -> None:
    hits = {where: found for where, content in told.out.items() if (found := found_in(content))}
    assert not hits
    looked_at = {where.partition(":")[0] for where, content in told.out.items() if content}
    databases = {f"{name}.db {when}" for name in ("executor", "gateway") for when in ("while open", "closed")}
    assert looked_at >= {"executor", "gateway", "logs", *databases, *(f"metrics of {service}" for service in SERVICES)}
