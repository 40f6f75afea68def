"""Demonstrations, and requests that are theirs with other values, over four catalogues."""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from deploy.onebox import shipped_demos
from retriever_svc.importers import import_document
from sandbox.main import create_app as create_sandbox
from services.contracts.api import Api, ApiResponse
from services.contracts.context import Context
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import AnswerOutput, Plan, Reference, Step
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import value
from tests.unit.planner_svc.worlds import DAY, NUMBER, SHOP, TEXT, WHOLE, param

NOW = datetime.fromisoformat("2026-11-20T09:00:00+00:00")
_PAIRS = json.loads((Path(__file__).parent / "demonstrated_pairs.json").read_text(encoding="utf-8"))


def _listed(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _api(api_id: str, about: str, *parameters: Any, returns: Mapping[str, Any], **more: Any) -> Api:
    provider, name = api_id.split(".")
    schema = {"type": "object", "properties": dict(returns)}
    return Api(
        id=api_id, provider=provider, name=name, description=about, parameters=parameters,
        response=ApiResponse(json_schema=schema), **more,
    )  # fmt: skip


TRAVEL = (
    _api(
        "travel.searchHotels", "Search hotels in a city.", param("city", required=True), param("check_in", DAY),
        param("check_out", DAY), param("guests", WHOLE), param("limit", WHOLE),
        param("amenities", {"type": "array", "items": _listed("pool", "gym", "wifi", "parking")}),
        returns={"hotels": {"type": "array", "items": {"type": "object", "properties": {"id": TEXT, "name": TEXT}}}},
    ),
    _api(
        "travel.findFlights", "Find flights.", param("origin", required=True), param("destination", required=True),
        param("departure", DAY), param("cabin", _listed("economy", "premium_economy", "business", "first")),
        param("max_price", NUMBER), param("sort", _listed("price", "duration")),
        returns={"flights": {"type": "array", "items": {"type": "object", "properties": {"number": TEXT}}}},
    ),
    _api(
        "travel.bookHotel", "Book a hotel.", param("hotel_id", required=True), param("nights", WHOLE),
        param("rooms", WHOLE), param("arrival", DAY), returns={"booking_id": TEXT}, method="POST",
    ),
)  # fmt: skip
OFFICE = (
    _api("office.findCompany", "Find a company.", param("name", required=True), returns={"id": TEXT}),
    _api(
        "office.findInvoices", "Find invoices.", param("company_id", required=True),
        param("status", _listed("open", "paid", "overdue")), param("since", DAY), param("min_amount", NUMBER),
        param("currency", _listed("EUR", "USD", "GBP")),
        returns={"invoices": {"type": "array", "items": {"type": "object", "properties": {"number": TEXT}}}},
    ),
    _api(
        "office.transferMoney", "Transfer money.", param("amount", NUMBER, required=True), param("currency"),
        param("from_account", _listed("savings", "checking"), required=True), param("to_email", required=True),
        param("pin", {"type": "string", "format": "password"}), returns={"id": TEXT}, method="POST",
    ),
    _api(
        "office.createTicket", "Create a ticket.", param("title", required=True), param("assignee"),
        param("priority", _listed("low", "medium", "high")), param("due", {"type": "string", "format": "date-time"}),
        returns={"ticket_id": TEXT}, method="POST",
    ),
    _api(
        "office.listTickets", "List tickets.", param("assignee"), param("account_id"), param("year", WHOLE),
        param("month", WHOLE), param("labels", {"type": "array", "items": TEXT}), param("rate", NUMBER),
        returns={"tickets": {"type": "array", "items": {"type": "object", "properties": {"ticket_id": TEXT}}}},
    ),
)  # fmt: skip


@cache
def apis() -> dict[str, Api]:
    """All APIs, by id."""
    sandbox = import_document(json.dumps(create_sandbox().openapi()), provider="sandbox").apis
    return {api.id: api for api in (*sandbox, *SHOP, *TRAVEL, *OFFICE)}


def demo_of(document: Mapping[str, Any]) -> Demo:
    """A demonstration in the short form of the file."""
    steps = tuple(
        Step(id=name, api=called, arguments={key: value(raw) for key, raw in arguments.items()})
        for name, (called, arguments) in document["steps"].items()
    )
    answer = value(document["answer"])
    assert isinstance(answer, Reference)
    return Demo(query=document["query"], plan=Plan(steps=steps, answer=(AnswerOutput(name="result", value=answer),)))


@cache
def demos() -> dict[str, Demo]:
    """Those that ship and the file's own, by their requests."""
    return {demo.query: demo for demo in (*shipped_demos(), *map(demo_of, _PAIRS["demos"]))}


def pairs(part: str) -> list[dict[str, Any]]:
    """The pairs of a part of the file: ``first``, ``second``, or those that are ``unsafe``."""
    return list(_PAIRS["unsafe"]) if part == "unsafe" else [pair for pair in _PAIRS["pairs"] if pair["part"] == part]


def asking(query: str, *shown: Demo, now: str | None = None, **context: Any) -> PlanRequest:
    """A request with demonstrations. Their APIs are its candidates, and one more."""
    names = dict.fromkeys([*(name for demo in shown for name in demo.apis), "shop.findCustomer"])
    clock = NOW if now is None else datetime.fromisoformat(now)
    return PlanRequest(
        query=query,
        context=Context(now=clock, **context),
        candidates=tuple(Candidate(api=apis()[name], score=1) for name in names),
        demos=tuple(SelectedDemo(demo=demo, similarity=0.9, level="task") for demo in shown),
    )


def wanted(pair: Mapping[str, Any]) -> Plan:
    """The demonstration's plan with the pair's values."""
    document = deepcopy(demos()[pair["demo"]].plan.model_dump(mode="json", exclude={"id"}))
    steps = {step["id"]: step["arguments"] for step in document["steps"]}
    for place, new in pair["values"].items():
        step, name, *inner = place.split(".")
        holder: Any = steps[step][name]
        key: Any = "value"
        for part in inner:
            holder, key = holder[key], int(part) if part.isdigit() else part
        holder[key] = new
    return Plan.model_validate(document)
