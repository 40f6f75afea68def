"""The data of the scenarios: an upstream's APIs, plans for them, and queries."""

import json
from typing import Any

from services.contracts.api import ImportRequest
from services.contracts.outcome import Failed, Succeeded
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value
from services.contracts.planning import CompiledPlan, CompileRequest
from services.contracts.solve import SolveOptions, SolveRequest
from tests.congruence.houses import House
from tests.congruence.transcript import collected

HOLIDAYS_ASKED = "Which holidays does the country Portugal have?"
ROOM_ASKED = "Book the blue room"
BROKEN_ASKED = "Ask the broken one"


def document(upstream: str, **more: str) -> str:
    """An OpenAPI document of the upstream; ``more`` adds paths by operation."""

    def operation(name: str, summary: str, *parameters: str) -> dict[str, Any]:
        declared = [{"name": p, "in": "query", "required": True, "schema": {"type": "string"}} for p in parameters]
        good = {"description": "fine", "content": {"application/json": {"schema": _ANSWERS.get(name, {})}}}
        return {"operationId": name, "summary": summary, "parameters": declared, "responses": {"200": good}}

    paths = {
        "/findCountry": {"get": operation("findCountry", "Find a country and its code by name", "name")},
        "/listHolidays": {"get": operation("listHolidays", "List the holidays of a country", "country")},
        "/bookRoom": {"post": operation("bookRoom", "Book a room", "room")},
        "/broken": {"get": operation("broken", "Ask the broken one")},
    } | {path: {"get": operation(name, name)} for name, path in more.items()}
    head = {"openapi": "3.1.0", "info": {"title": "World", "version": "1"}, "servers": [{"url": upstream}]}
    return json.dumps(head | {"paths": paths})


_ANSWERS: dict[str, Any] = {
    "findCountry": {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}},
    "listHolidays": {
        "type": "object",
        "required": ["names"],
        "properties": {"names": {"type": "array", "items": {"type": "string"}}},
    },
    "bookRoom": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
}


def step(step_id: str, api: str, **arguments: Value | str | int) -> Step:
    values = {k: LiteralValue(value=v) if isinstance(v, str | int) else v for k, v in arguments.items()}
    return Step(id=step_id, api=api, arguments=values)


def nested(provider: str) -> Plan:
    return Plan(
        steps=(
            step("var1", f"{provider}.findCountry", name="Portugal"),
            step("var2", f"{provider}.listHolidays", country=Reference(step="var1", path=("code",))),
        ),
        answer=(AnswerOutput(name="holidays", value=Reference(step="var2", path=("names",))),),
    )


def booking(provider: str) -> Plan:
    return Plan(
        steps=(step("var1", f"{provider}.bookRoom", room="blue"),),
        answer=(AnswerOutput(name="booking", value=Reference(step="var1", path=("id",))),),
    )


def broken(provider: str) -> Plan:
    steps = (step("var1", f"{provider}.broken"), Step(id="var2", api=f"{provider}.broken", after=("var1",)))
    return Plan(steps=steps, answer=(AnswerOutput(name="why", value=Reference(step="var2")),))


async def learn(house: House, upstream: str, provider: str) -> None:
    """Import the upstream as this provider, and give the fakes its answers."""
    await collected(house.retriever.import_document(ImportRequest(document=document(upstream), provider=provider)))
    house.script.plans |= {HOLIDAYS_ASKED: nested(provider), ROOM_ASKED: booking(provider)}
    house.script.plans |= {BROKEN_ASKED: broken(provider)}
    house.script.outcomes |= {
        f"{provider}.findCountry": Succeeded(value={"code": "PT"}, status=200),
        f"{provider}.listHolidays": Succeeded(value={"names": ["Labour Day"]}, status=200),
        f"{provider}.bookRoom": Succeeded(value={"id": "bkg_1"}, status=200),
        f"{provider}.broken": Failed(reason="upstream_error", message="the upstream answered 404", status=404),
    }


async def compiled(house: House, plan: Plan) -> CompiledPlan:
    apis = [await house.retriever.get(api) for api in dict.fromkeys(s.api for s in plan.steps)]
    answer = await house.planner.compile(CompileRequest(plan=plan, apis=tuple(apis)))
    assert answer.compiled is not None, answer.diagnostics
    return answer.compiled


def ask(query: str, **options: Any) -> SolveRequest:
    return SolveRequest(query=query, options=SolveOptions(**options))
