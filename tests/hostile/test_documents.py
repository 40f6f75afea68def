"""Hostile documents are refused or imported, without a crash, a fetch, a hang or a partial import."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from retriever_svc.importers import import_document
from retriever_svc.importers.limits import Limits
from retriever_svc.main import create_app
from retriever_svc.settings import RetrieverSettings
from services.clients.base import open_http
from services.clients.transport import InProcessTransport
from services.encoder import load_encoder
from tests.hostile.documents import DOCUMENTS, FAMILIES
from tests.hostile.making import MIB, Hostile, one
from tests.hostile.openapi_documents import INJECTIONS
from tests.unit.retriever_svc.documents import document, operation

GROWTH = 800 * MIB
"""The memory that a document of 20 MB may cost: three million values of about two hundred bytes, and the text."""
TEXTS = [name for name, hostile in DOCUMENTS.items() if hostile.is_text]
ZOO = document({f"/{name}": {"get": operation(operationId=name)} for name in ("animals", "tickets", "hours")})


def outcomes(family: str) -> dict[str, dict[str, Any]]:
    """The results of a family's documents, imported in a separate process with limited CPU time and memory."""
    command = [sys.executable, "-m", "tests.hostile.document_probe", family]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, dict[str, Any]] = {line["name"]: line for line in map(json.loads, ended.stdout.splitlines())}
    unread = [name for name in TEXTS if name.partition(" ")[0] == family and name not in found]
    assert (ended.returncode, unread) == (0, []), f"it ended at {unread[:1]}: {ended.stderr[-2_000:]}"
    return found


def is_sound(found: dict[str, Any], expected: Hostile) -> bool:
    """Whether a document was refused with a short reason or read, as expected, in bounded memory and with no fetch."""
    if "crashed" in found or found["opened"] or found["grown_mib"] * MIB > GROWTH:
        return False
    if expected.refused is not None:
        return expected.refused in found.get("refused", "") and len(found["refused"]) < 600
    if expected.apis is not None:
        return (found.get("apis"), found.get("skipped")) == (expected.apis, expected.skipped)
    return "refused" not in found


def test_there_are_enough_of_them() -> None:
    assert len(DOCUMENTS) >= 250


@pytest.mark.parametrize("family", sorted({name.partition(" ")[0] for name in TEXTS}))
def test_documents_are_refused_or_read(family: str) -> None:
    found = outcomes(family)
    assert {name: one for name, one in found.items() if not is_sound(one, DOCUMENTS[name])} == {}


PEEKING = """
import sys, tests.hostile.document_probe as probe
from tests.hostile.making import Hostile
sys.addaudithook(probe.watch)
probe.import_document = lambda text: {action}
print(probe.outcome(Hostile(lambda: "x"))["opened"])
"""


@pytest.mark.parametrize(
    ("action", "event"),
    [
        ("open('/etc/hostname')", "open"),
        ("__import__('socket').create_connection(('127.0.0.1', 9))", "socket.connect"),
        ("__import__('subprocess').run(['true'])", "subprocess.Popen"),
        ("__import__('urllib.request').request.urlopen('http://127.0.0.1:9/')", "urllib.Request"),
    ],
)
def test_the_watch_sees_a_fetch(action: str, event: str) -> None:
    code = PEEKING.replace("{action}", action)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert event in ended.stdout


@pytest.fixture
async def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A retriever with three APIs."""
    if family == "amplifiers":  # low limits save time here; the probe runs with the real ones
        monkeypatch.setattr("retriever_svc.main.Limits", partial(Limits, steps=300_000, api_bytes=20_000_000))
    settings = RetrieverSettings(database_url=f"sqlite+aiosqlite:///{tmp_path}/retriever.db")
    app = create_app(settings, encoder=load_encoder())
    async with app.router.lifespan_context(app), open_http("http://retriever", InProcessTransport(app)) as client:
        await send(client, json.dumps(ZOO).encode())
        yield client


async def send(http: httpx2.AsyncClient, document: bytes) -> httpx2.Response:
    """Post these bytes as a document, even if they are not the UTF-8 that JSON requires."""
    text = document.decode("utf-8", "replace")
    if text.encode() == document:
        body = json.dumps({"document": text}).encode()
    else:
        escaped = document.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        body = b'{"document": "' + escaped + b'"}'
    return await http.post("/imports", content=body, headers={"Content-Type": "application/json"}, timeout=120)


async def catalogue(http: httpx2.AsyncClient) -> dict[str, Any]:
    status: dict[str, Any] = (await http.get("/status")).json()
    return status


async def check_refused(http: httpx2.AsyncClient, name: str, answer: httpx2.Response) -> None:
    assert 400 <= answer.status_code < 500, (name, answer.status_code)
    assert answer.headers["content-type"] == "application/problem+json", name
    assert len(answer.content) < 2_000, name


async def check_imported(http: httpx2.AsyncClient, name: str, hostile: Hostile, answer: httpx2.Response) -> None:
    """The whole document is imported, and its provider can be deleted."""
    assert answer.status_code == 200, (name, answer.content[:500])
    report = json.loads(answer.content.splitlines()[-1])
    assert report["kind"] == "report", name
    if hostile.apis is not None:
        assert (report["added"], len(report["skipped"])) == (hostile.apis, hostile.skipped), name
    assert (await catalogue(http))["apis"] == 3 + report["added"], name
    await http.delete(f"/providers/{report['provider']}")


@pytest.mark.parametrize("family", FAMILIES)
async def test_over_http_a_document_is_imported_whole_or_refused(http: httpx2.AsyncClient, family: str) -> None:
    for name, hostile in DOCUMENTS.items():
        if name.partition(" ")[0] != family:
            continue
        before, made = await catalogue(http), hostile.make()
        answer = await send(http, made if isinstance(made, bytes) else made.encode())
        nothing = hostile.apis == 0 or (hostile.apis is None and answer.status_code == 422)
        if hostile.refused is None and not nothing:
            await check_imported(http, name, hostile, answer)
        else:
            await check_refused(http, name, answer)
            assert await catalogue(http) == before, name
    assert (await catalogue(http))["providers"] == {"the-zoo": 3}
    assert (await http.get("/readyz")).status_code == 200


@pytest.mark.parametrize("name", INJECTIONS)
def test_text_stays_text(name: str) -> None:
    """A description is kept as visible text and changes nothing else; invisible characters are removed."""
    text = INJECTIONS[name]
    poisoned = import_document(one({"description": text, "summary": text, "tags": [text]})).apis[0]
    plain = import_document(one({})).apis[0]
    kept = {"summary", "description", "tags", "content_hash"}
    assert poisoned.model_dump(exclude=kept) == plain.model_dump(exclude=kept)
    seen = "".join(character for character in text if character.isprintable() or character == "\n")
    assert poisoned.description == seen
    assert poisoned.tags == (seen[:200],)
