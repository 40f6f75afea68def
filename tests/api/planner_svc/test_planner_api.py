"""The planner over HTTP: its routes through the typed client, and its responses to invalid input."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from planner_svc.judging.fingerprint import JUDGE
from planner_svc.main import create_app
from planner_svc.models import PlanDraft
from planner_svc.sentences.writer import SentenceWriter
from planner_svc.settings import PlannerSettings
from services.clients.base import open_http
from services.clients.chat import Completion, Message
from services.clients.planner import PlannerClient
from services.clients.transport import InProcessTransport
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step
from services.contracts.planning import CompileRequest, DiagnosticCode, PlanRequest
from services.contracts.retrieval import Candidate
from services.contracts.sentence import Sentence, SentenceRequest
from services.encoder import PLANNER_MODEL, model_directory
from services.errors import ValidationFailed
from tests.unit.planner_svc.building import api, param, plan, record, step
from tests.unit.planner_svc.judging.test_judge_files import KEPT

FIND = api("find", param("name", required=True), returns=record(code={"type": "string"}))
GOOD = plan(step("a", "find", name="Portugal"), answer="$a.code$")
WRONG = plan(step("a", "find", name=3), answer="$a.cod$")


class First:
    """A backend without a model. It calls the first candidate with the whole query as ``name``."""

    name = "first"

    async def read(self, apis: Sequence[Api]) -> int:
        """Do nothing; no preparation is needed."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft one step, or none if there is no candidate."""
        if not request.candidates:
            return PlanDraft(None, reason="There is no candidate.")
        call = Step(id="a", api=request.candidates[0].api.id, arguments={"name": LiteralValue(value=request.query)})
        answer = AnswerOutput(name="answer", value=Reference(step="a"))
        return PlanDraft(Plan(steps=(call,), answer=(answer,)), confidence=0.5)


class Wordy:
    """A model that always returns the same text."""

    async def write(self, messages: Sequence[Message], max_tokens: int, end: float) -> Completion:
        """The code of the country."""
        return Completion("The code of Portugal is {code}.", finish="stop")


@pytest.fixture
async def http(request: pytest.FixtureRequest) -> AsyncIterator[httpx2.AsyncClient]:
    pool = ComputePool(1, 8)
    writer = SentenceWriter(Wordy(), pool, name="served", on=True, timeout_s=5) if hasattr(request, "param") else None
    app = create_app(
        PlannerSettings(default_backend="first", max_body_bytes=500_000), backends={"first": First()}, writer=writer
    )
    async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as client:
        yield client
    await pool.close()


@pytest.fixture
def client(http: httpx2.AsyncClient) -> PlannerClient:
    return PlannerClient(http)


async def test_plan(client: PlannerClient) -> None:
    await client.ready()
    request = PlanRequest(query="Portugal", candidates=(Candidate(api=FIND, score=1),))
    response = await client.plan(request)
    assert (response.status, response.backend, response.confidence) == ("planned", "first", 0.5)
    assert response.compiled is not None
    assert response.compiled.apis == {"t.find": FIND}
    nothing = await client.plan(PlanRequest(query="Portugal"))
    assert (nothing.status, nothing.reason) == ("no_plan", "There is no candidate.")


async def test_compile(client: PlannerClient) -> None:
    proved = await client.compile(CompileRequest(plan=GOOD, apis=(FIND,)))
    assert proved.compiled is not None
    assert proved.compiled.proof.stages == (("a",),)
    refused = await client.compile(CompileRequest(plan=WRONG, apis=(FIND,)))
    assert refused.compiled is None
    found = {diagnostic.code for diagnostic in refused.diagnostics}
    assert found == {DiagnosticCode.INVALID_LITERAL, DiagnosticCode.UNKNOWN_FIELD}


ASK_CODE = "What is the code of Portugal?"


@pytest.mark.parametrize("http", ["wordy"], indirect=True)
async def test_sentences(client: PlannerClient) -> None:
    request = PlanRequest(query=ASK_CODE, candidates=(Candidate(api=FIND, score=1),))
    assert (await client.plan(request)).sentences
    assert not (await client.plan(request.model_copy(update={"backend": "first"}))).sentences
    compiled = (await client.compile(CompileRequest(plan=GOOD, apis=(FIND,)))).compiled
    assert compiled is not None
    sentence = await client.sentence(SentenceRequest(query=ASK_CODE, compiled=compiled))
    assert sentence == Sentence(outcome="written", pieces=("The code of Portugal is ", 0, "."))
    refused = await client.sentence(SentenceRequest(query="What is it of Spain?", compiled=compiled))
    assert (refused.outcome, refused.pieces) == ("refused", ())


async def test_without_a_model_there_are_no_sentences(client: PlannerClient) -> None:
    request = PlanRequest(query="Portugal", candidates=(Candidate(api=FIND, score=1),))
    response = await client.plan(request)
    assert not response.sentences
    assert response.compiled is not None
    asked = SentenceRequest(query="Portugal", compiled=response.compiled, wanted=True)
    assert (await client.sentence(asked)).outcome == "off"


async def test_backends_and_metrics(client: PlannerClient, http: httpx2.AsyncClient) -> None:
    backends = await client.backends()
    assert (backends.default, backends.available) == ("first", ("first",))
    await client.plan(PlanRequest(query="x"))
    metrics = (await http.get("/metrics")).text
    assert 'nestor_plans_total{backend="first",status="no_plan"} 1.0' in metrics


async def test_an_unknown_backend_is_a_422(client: PlannerClient) -> None:
    with pytest.raises(ValidationFailed, match="served"):
        await client.plan(PlanRequest(query="x", backend="served"))


def body(**changes: Any) -> dict[str, Any]:
    """A compile request with some parts replaced."""
    request = CompileRequest(plan=GOOD, apis=(FIND,)).model_dump(mode="json")
    request["plan"].pop("id")
    return {**request, **changes}


@pytest.mark.parametrize(
    "bad",
    [
        {},
        body(plan={"steps": []}),
        body(plan={"id": "0" * 64, **body()["plan"]}),
        body(plan={"steps": [{"id": "a", "api": "x"}, {"id": "a", "api": "x"}]}),
        body(plan={"steps": [{"id": "not an id", "api": "x"}]}),
        body(plan={"steps": [{"id": "a", "api": "x", "arguments": {"y": {"kind": "magic"}}}]}),
        body(policy={"mutating": "maybe"}),
        body(surprise=1),
        body(apis=[FIND.model_dump(mode="json"), {**FIND.model_dump(mode="json"), "summary": "another"}]),
    ],
)
async def test_what_is_not_a_request_is_a_422(http: httpx2.AsyncClient, bad: dict[str, Any]) -> None:
    response = await http.post("/compile", content=json.dumps(bad), headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.headers["content-type"].startswith("application/problem+json")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff", 400),
        (b'{"query": NaN}', 400),
        (b'{"query": "\\ud800"}', 400),
        (b"[" * 5_000 + b"]" * 5_000, 400),
        (b'{"query": "' + b"x" * 600_000 + b'"}', 413),
        (json.dumps({"query": "x" * 10_001}).encode(), 422),
    ],
)
async def test_hostile_bodies_get_clear_refusals(http: httpx2.AsyncClient, content: bytes, status: int) -> None:
    for route in ("/plan", "/compile", "/sentences"):
        response = await http.post(route, content=content, headers={"content-type": "application/json"})
        assert response.status_code == status
        assert response.json()["type"].startswith("urn:nestor:problem:")


async def test_a_hostile_schema_neither_hangs_nor_breaks_the_service(client: PlannerClient) -> None:
    twice = {f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(60)}
    bomb = api("find", param("name", {"$ref": "#/$defs/L0"}), returns={"$ref": "#/$defs/L0"}, definitions=twice)
    response = await client.compile(CompileRequest(plan=GOOD, apis=(bomb,)))
    assert response.compiled is not None
    assert response.compiled.proof.assumed > 0


async def test_a_judge_beside_the_model_says_how_likely_its_word_is_right(tmp_path: Path) -> None:
    for file in model_directory(PLANNER_MODEL).iterdir():
        if file.name != JUDGE:
            (tmp_path / file.name).symlink_to(file)
    request = PlanRequest(query="Find Portugal", candidates=(Candidate(api=FIND, score=0.9),), backend="compact")
    judged = []
    for _ in range(2):
        app = create_app(PlannerSettings(model=str(tmp_path)))
        async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
            response = await PlannerClient(http).plan(request)
        assert response.confidence == pytest.approx(response.asked[0].judged or response.asked[0].confidence, abs=1e-3)
        judged.append(response.asked[0].judged)
        KEPT.save(tmp_path)
    assert judged == [None, pytest.approx(0.881, abs=1e-3)]
