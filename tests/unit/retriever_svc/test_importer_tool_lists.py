"""Lists of tools: functions without HTTP, and NESTFUL's APIs with the parsers of their answers."""

import json
from typing import Any

import pytest

from retriever_svc.importers import Imported, import_document
from services.contracts.api import Location
from services.errors import InvalidDocument

EVIDENCE = {
    "api_name": "analyzeEvidence",
    "api_description": "Analyze the evidence collected from a crime scene",
    "field": "Chemical Engineering/Forensic engineering",
    "parameters": {
        "sample": {"type": "str", "description": "The sample (e.g., hair)"},
        "priority": {"type": "int", "description": "1, 2 or 3", "example": "1"},
        "tags": {"type": "list[str]"},
    },
    "required": ["sample"],
    "responses": {"result": {"type": "str", "description": "What was found"}, "certain": {"type": "bool"}},
}
SCORE = {"api_name": "getScore", "api_description": "The score", "field": "Sports", "parameters": {}, "responses": {}}
AIRPORT = {
    "name": "SkyScrapperSearchAirport",
    "description": "Search for airports",
    "method": "GET",
    "endpoint": "/api/v1/flights/searchAirport",
    "host": "sky.example",
    "url": "https://market.example/sky/playground",
    "query_parameters": {
        "query": {"type": "string", "description": "Where", "required": True},
        "on": {"type": "Date (yyyy-mm-dd)", "optional": False},
        "limit": {"type": "number", "default": 10},
    },
    "output_parser": "result.data[0].{param}",
    "output_parameters": {"skyId": {"type": "string", "description": "The airport"}, "score": {"type": "float"}},
}
BUS = {
    "name": "Buses.FindBus",
    "description": "Find a bus",
    "query_parameters": {
        "origin": {"description": "Where from", "required": True, "allowed_values": []},
        "fare": {"required": False, "default_value": "Economy", "allowed_values": ["Economy", "Flexible"]},
    },
    "output_parameters": {"price": {"description": "The price", "allowed_values": []}},
}


def lines(*tools: Any) -> str:
    """JSON lines."""
    return "\n".join(json.dumps(tool) for tool in tools) + "\n"


def listed(*tools: Any, **options: Any) -> Imported:
    """What importing a JSON list of these gives."""
    return import_document(json.dumps(tools), **options)


@pytest.mark.parametrize("text", [lines(EVIDENCE, SCORE), json.dumps([EVIDENCE, SCORE]), f"\n{lines(EVIDENCE, SCORE)}"])
def test_seal_tools(text: str) -> None:
    result = import_document(text)
    assert (result.provider, result.format, result.skipped) == ("seal-tools", "seal-tools", ())
    evidence, score = result.apis
    assert (evidence.id, evidence.method, evidence.path, evidence.server) == (
        "seal-tools.analyzeEvidence", "POST", "/analyzeEvidence", "",
    )  # fmt: skip
    assert (evidence.description, evidence.tags) == (EVIDENCE["api_description"], (EVIDENCE["field"],))
    assert [(p.name, p.location, p.required, p.json_schema["type"]) for p in evidence.parameters] == [
        ("sample", Location.BODY, True, "string"),
        ("priority", Location.BODY, False, "integer"),
        ("tags", Location.BODY, False, "array"),
    ]
    assert evidence.response.json_schema["properties"] == {
        "result": {"type": "string", "description": "What was found"},
        "certain": {"type": "boolean"},
    }
    assert (score.parameters, score.body, score.response.json_schema) == ((), None, {})
    assert any("no title" in warning for warning in result.warnings)
    assert any("no operation has a server" in warning for warning in result.warnings)


def test_a_tool_that_states_no_method_counts_as_mutating() -> None:
    assert all(api.mutating for api in listed(SCORE).apis)
    assert all(api.mutating for api in listed(BUS).apis)


def test_a_list_can_be_given_a_provider_and_a_server() -> None:
    result = listed(SCORE, provider="sports", server="https://tools.example/run/")
    assert (result.apis[0].id, result.apis[0].server) == ("sports.getScore", "https://tools.example/run")
    assert result.warnings == ("POST /getScore: its path suggests that it only reads; it counts as a change",)


def test_nestful() -> None:
    result = listed(AIRPORT, BUS)
    assert (result.provider, result.format, result.skipped) == ("nestful", "nestful", ())
    airport, bus = result.apis
    assert (airport.method, airport.server, airport.path) == (
        "GET", "https://sky.example", "/api/v1/flights/searchAirport",
    )  # fmt: skip
    assert [(p.name, p.location, p.required) for p in airport.parameters] == [
        ("query", Location.QUERY, True),
        ("on", Location.QUERY, True),
        ("limit", Location.QUERY, False),
    ]
    assert airport.parameters[1].json_schema == {"type": "string", "format": "date"}
    assert (bus.id, bus.method, bus.server) == ("nestful.Buses.FindBus", "POST", "")
    assert [dict(p.json_schema) for p in bus.parameters] == [
        {"description": "Where from"},
        {"default": "Economy", "enum": ["Economy", "Flexible"]},
    ]


FOUND = {"type": "object", "properties": {"skyId": {"type": "string"}}}


@pytest.mark.parametrize(
    ("parser", "schema"),
    [
        ("result.{param}", FOUND),
        ("result[0].{param}", {"type": "array", "items": FOUND}),
        ("result.data[0].{param}",
         {"type": "object", "properties": {"data": {"type": "array", "items": FOUND}}}),
        ("result.Realtime Currency Exchange Rate.{param}",
         {"type": "object", "properties": {"Realtime Currency Exchange Rate": FOUND}}),
        ("result.{}.{param}", {"type": "object", "additionalProperties": FOUND}),
        (None, FOUND),
    ],
)  # fmt: skip
def test_the_parser_says_where_in_the_answer_outputs_are(parser: str | None, schema: dict[str, Any]) -> None:
    tool = AIRPORT | {"output_parser": parser, "output_parameters": {"skyId": {"type": "string"}}}
    assert listed(tool).apis[0].response.json_schema == schema


@pytest.mark.parametrize(
    "parser", ["eval(x)", "result", "result.{param}.x", "result..{param}", 7, "result" + ".a" * 99]
)
def test_an_unknown_parser_skips_the_tool(parser: Any) -> None:
    result = listed(AIRPORT | {"output_parser": parser}, BUS)
    assert [api.name for api in result.apis] == ["Buses.FindBus"]
    assert "output_parser is not understood" in result.skipped[0].reason


def test_tools_that_cannot_be_read_are_skipped() -> None:
    result = listed(
        SCORE, 7, {"api_name": ""}, {"api_name": "x", "parameters": [1]}, {"api_name": "y", "responses": "z"}
    )
    assert [(skipped.operation, skipped.reason) for skipped in result.skipped] == [
        ("* tool 2", "the tool has no usable `api_name`"),
        ("* tool 3", "the tool has no usable `api_name`"),
        ("* /x", "`parameters` is not an object"),
        ("* /y", "`responses` is not an object"),
    ]
    assert listed(AIRPORT | {"method": "FETCH"}).skipped[0].reason == "the method 'fetch' is not imported"


def test_a_broken_line_refuses_the_whole_list() -> None:
    with pytest.raises(InvalidDocument, match="line 2 of the document is not valid JSON"):
        import_document(lines(SCORE) + '{"api_name": ')


@pytest.mark.parametrize("text", ["[]", "[1, 2]", '[{"name": "x"}]', '{"a": 1}\n{"b": 2}'])
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(InvalidDocument, match="nor a list of tools"):
        import_document(text)
