"""Nestor's lanes: everything that ``POST /execute`` runs, in this process, including the lines it would send."""

import uuid
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from bench.runner import Runner
from bench.workload import Node, Workload
from executor_svc.main import open_executor
from executor_svc.settings import ExecutorSettings
from planner_svc.compile import compile_plan
from services.contracts.api import Api, ApiResponse, Location, Parameter, RequestBody, Style
from services.contracts.base import JsonSchema
from services.contracts.execution import ExecuteRequest
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value, content_hash
from services.contracts.planning import CompiledPlan, Decision, Policy
from services.streams import NdjsonResponse

_ANSWER = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": "integer"},
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "value"],
}


class Lane(Runner):
    """The executor as in production, but without its socket. The plan determines the lane.

    Args:
        database_url: database of the ledger.
    """

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    async def open(self) -> None:
        """Start the executor's parts."""
        self._stack = AsyncExitStack()
        settings = ExecutorSettings(
            allowed_private_hosts=("127.0.0.1",), max_concurrent_runs=10_000, database_url=self._database_url
        )
        self._service, _ = await self._stack.enter_async_context(open_executor(settings, CollectorRegistry()))

    def prepare(self, workload: Workload) -> None:
        """Compile the plan. It is not timed."""
        prepared(workload)

    async def run(self, workload: Workload) -> Any:
        """Run the graph. Returns the last line."""
        compiled = prepared(workload)
        request = ExecuteRequest(run_id=uuid.uuid4().hex, compiled=compiled, approved=compiled.plan.id)
        lines = [line async for line in NdjsonResponse(self._service.execute(request)).body_iterator]
        return lines[-1]

    def values(self, answer: Any) -> dict[str, int]:
        """The value of every call, from the last line."""
        finished = orjson.loads(answer)
        if finished["kind"] != "execution_finished" or finished["status"] != "succeeded":
            raise RuntimeError(finished)
        return {record["step"]: record["outcome"]["value"]["value"] for record in finished["records"]}

    async def close(self) -> None:
        """Stop the executor's parts."""
        await self._stack.aclose()


@lru_cache(maxsize=64)
def prepared(workload: Workload) -> CompiledPlan:
    """The graph as a proved plan. Preparing it is not timed."""
    apis = {mutating: call_api(workload.origin, mutating=mutating, keyed=workload.keyed) for mutating in (False, True)}
    steps = tuple(_step(node, apis[node.mutating], workload.salt) for node in workload.nodes)
    needed = {need for node in workload.nodes for need in node.needs}
    answer = tuple(
        AnswerOutput(name=node.name, value=Reference(step=node.name, path=("value",)))
        for node in workload.nodes
        if node.name not in needed
    )
    proved = compile_plan(Plan(steps=steps, answer=answer), apis.values(), Policy(mutating=Decision.ALLOW))
    if proved.compiled is None:
        raise RuntimeError([found.message for found in proved.diagnostics])
    return proved.compiled


def call_api(origin: str, *, mutating: bool, keyed: bool = False) -> Api:
    """The upstream's operation: a GET with its inputs in the query, or a POST with a JSON body."""
    where = Location.BODY if mutating else Location.QUERY
    api = Api(
        id=f"bench.{'change' if mutating else 'read'}",
        provider="bench",
        name="change" if mutating else "read",
        method="POST" if mutating else "GET",
        server=origin,
        path="/call/{name}",
        parameters=(
            _parameter("name", Location.PATH, "string", required=True),
            _parameter("ms", Location.QUERY, "string", required=True),
            _parameter("salt", Location.QUERY, "integer", required=True),
            _parameter("in0", where, "integer"),
            _parameter("in1", where, "integer"),
        ),
        body=RequestBody() if mutating else None,
        response=ApiResponse(json_schema=_ANSWER),
        idempotency_header="Idempotency-Key" if keyed and mutating else None,
    )
    return api.model_copy(update={"content_hash": content_hash(api.model_dump(mode="json", exclude={"content_hash"}))})


def _parameter(name: str, location: Location, kind: str, *, required: bool = False) -> Parameter:
    style = Style.FORM if location is Location.QUERY else Style.SIMPLE
    schema: JsonSchema = {"type": kind}
    return Parameter(name=name, wire_name=name, location=location, required=required, json_schema=schema, style=style)


def _step(node: Node, api: Api, salt: int) -> Step:
    arguments: dict[str, Value] = {
        "name": LiteralValue(value=node.name),
        "ms": LiteralValue(value=f"{node.delay_ms:.3f}"),
        "salt": LiteralValue(value=salt),
    }
    arguments |= {f"in{place}": Reference(step=need, path=("value",)) for place, need in enumerate(node.needs)}
    return Step(id=node.name, api=api.id, arguments=arguments)
