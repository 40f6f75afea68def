"""A language model's server that fails in every known way, and how the planner's answers end.

Each request must end with a plan of the next planner, a question or a clear "nothing fits", within its deadline. The
planner is a separate process. The failing server shares this process with the client, so it makes times longer, not
shorter. After a failure the planner rests the server and probes it; here the probes get a token, so that the next
requests meet the fault again.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from bench.figures import Figure
from bench.processes import service
from deploy.sockets import free_port
from services.clients.base import open_http
from services.clients.planner import PlannerClient
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.contracts.planning import PlanRequest, PlanResponse
from services.contracts.retrieval import Candidate
from services.errors import ServiceError
from tests.support.chat_server import Reply, says, serve_chat
from tests.support.model_faults import FAULTS, KEY

DEADLINE_MS = 1_000
OVERRUN_MS = 50.0
TRIES = 6
PATIENCE_S = 20.0
"""How long an answer is awaited, far beyond its deadline."""
_PAUSE_S = 0.1
_PROBE_TOKENS = 1


@dataclass
class Ends:
    """How the requests ended."""

    asked: int = 0
    met: int = 0
    properly: int = 0
    overruns_ms: list[float] = field(default_factory=list)


def measure() -> list[Figure]:
    """Let the server fail in each way, several times, and count how the requests ended."""
    ends = Ends()
    for fault in FAULTS.values():
        asyncio.run(_ask(fault, ends))
    in_time = 100 * sum(one <= OVERRUN_MS for one in ends.overruns_ms) / ends.asked
    return [
        Figure(f"requests that met one of {len(FAULTS)} failures, of {ends.asked}", ends.met, ""),
        Figure("  ended with the next planner's word", 100 * ends.properly / ends.asked, "%", 100, at_least=True),
        Figure(f"  and within {DEADLINE_MS} + {OVERRUN_MS:g} ms", in_time, "%", 100, at_least=True),
        Figure("  beyond the deadline, the worst (0: none)", max([0.0, *ends.overruns_ms]), "ms", OVERRUN_MS),
    ]


async def _ask(fault: Reply, ends: Ends) -> None:
    """Ask a fresh planner several times, in turn, while its model's server fails."""
    failures = 0

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal failures
        if (await request.json())["max_tokens"] == _PROBE_TOKENS:
            return await says("a")(request)
        failures += 1
        return await fault(request)

    async with serve_chat(reply) as server:
        with _planner(server.url) as url:
            planner = PlannerClient(open_http(url))
            await planner.plan(REQUEST.model_copy(update={"backend": "compact"}), PATIENCE_S)  # reads the APIs once
            for _ in range(TRIES):
                before = failures
                await _once(planner, ends)
                ends.met += failures > before
                await asyncio.sleep(_PAUSE_S)
            await planner.aclose()


async def _once(planner: PlannerClient, ends: Ends) -> None:
    began = time.perf_counter()
    try:
        response = await planner.plan(REQUEST, PATIENCE_S)
        ends.properly += _is_proper(response)
    except ServiceError:
        pass  # no proper end
    ends.asked += 1
    ends.overruns_ms.append(1_000 * (time.perf_counter() - began) - DEADLINE_MS)


def _is_proper(response: PlanResponse) -> bool:
    """Whether the next planner planned, asked the user, or said why there is no plan."""
    said = response.compiled is not None or response.questions or response.reason
    return response.backend != "served" and bool(said)


@contextmanager
def _planner(model_url: str) -> Iterator[str]:
    """A planner process that asks the model at this URL first. Yields its own URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "NESTOR_PLANNER_LOG_LEVEL": "ERROR",
        "NESTOR_PLANNER_CASCADE": "model_first",
        "NESTOR_PLANNER_SERVED_URL": model_url,
        "NESTOR_PLANNER_SERVED_API_KEY": KEY,
        "NESTOR_PLANNER_SERVED_REST_S": "0",
    }
    with service("deploy.serve", "planner_svc", "--port", str(port), env=env, url=url, ready="/readyz"):
        yield url


def _api(name: str, summary: str, parameter: str, field_name: str) -> Api:
    text = {"type": "string"}
    return Api(
        id=f"places.{name}",
        provider="places",
        name=name,
        summary=summary,
        path=f"/{name}",
        parameters=(
            Parameter(name=parameter, wire_name=parameter, location=Location.QUERY, required=True, json_schema=text),
        ),
        response=ApiResponse(json_schema={"type": "object", "properties": {field_name: text}}),
    )


REQUEST = PlanRequest(
    query="What is the capital of Portugal?",
    candidates=(
        Candidate(api=_api("getCapital", "The capital of a country", "country", "capital"), score=1),
        Candidate(api=_api("getCurrency", "The currency of a country", "country", "currency"), score=0.5),
    ),
    deadline_ms=DEADLINE_MS,
)
