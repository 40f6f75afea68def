"""The service made from descriptions, called by the executor over real sockets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evals.data import read_dataset
from evals.planning.running import ANYTHING, open_plan_runner
from evals.planning.upstream import misfit, stand_in
from planner_svc.compile import compile_plan
from services.codecs import nestful
from services.contracts.api import Api, Location
from services.contracts.planning import CompiledPlan
from tests.unit.evals.folders import folder
from twin.values import example_of

TOOLS: list[dict[str, Any]] = [
    {
        "name": "findHotels",
        "description": "Hotels of a city",
        "parameters": {"city": {"type": "string", "required": True}, "stars": {"type": "integer"}},
        "outputs": {
            "hotels": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
            "count": {"type": "integer", "description": "How many (e.g., 12)"},
        },
    },
    {
        "name": "book Hotel",
        "description": "Book a hotel",
        "parameters": {
            "hotel": {"type": "integer", "required": True},
            "guests": {"type": "array", "items": {"type": "string"}, "required": True},
        },
        "outputs": {"ticket": {"type": "string", "description": "The ticket"}},
    },
    {
        "name": "rates.get",
        "description": "A rate",
        "parameters": {"base": {"type": "string", "required": True}, "currency": {"type": "string", "required": True}},
        "outputs": {"rate": {"type": "number"}, "open": {"type": "boolean"}, "when": {"type": "any"}},
        "http": {"method": "GET", "path": "/v1/{base}/rate", "host": "rates.example"},
    },
    {"name": "silent", "description": "Says nothing", "parameters": {}},
]
FIND = {"name": "findHotels", "arguments": {"city": "Faro", "stars": 3}, "label": "a"}


@pytest.fixture
def apis(tmp_path: Path) -> tuple[Api, ...]:
    rows = [{"id": "1", "query": "Go"}]
    return read_dataset(folder(tmp_path / "data", TOOLS, rows)).apis


def proved(apis: tuple[Api, ...], *calls: dict[str, Any]) -> CompiledPlan:
    """A plan of these calls, answered with all that the last one gives unless it says otherwise."""
    last = calls[-1]
    given = calls if last["name"] == "var_result" else (*calls, {"name": "var_result", "arguments": {"it": "$last$"}})
    plan = nestful.decode([{**one, "label": "last"} if one is last and given is not calls else one for one in given])
    found = compile_plan(plan, apis, ANYTHING)
    assert found.compiled is not None, found.diagnostics
    return found.compiled


def run(apis: tuple[Api, ...], folder: Path, *plans: CompiledPlan) -> list[str]:
    async def go() -> list[str]:
        async with open_plan_runner(apis, folder) as runner:
            return [await runner.run(plan) for plan in plans]

    return asyncio.run(go())


def test_plans_run_over_sockets(apis: tuple[Api, ...], tmp_path: Path) -> None:
    nested = proved(
        apis,
        FIND,
        {"name": "book_Hotel", "arguments": {"hotel": "$a.hotels[0].id$", "guests": ["Ana", "Rui"]}, "label": "b"},
        {"name": "var_result", "arguments": {"ticket": "$b.ticket$"}},
    )
    rate = proved(apis, {"name": "rates.get", "arguments": {"base": "EUR", "currency": "a b&c"}})
    silent = proved(apis, {"name": "silent", "arguments": {}})
    assert run(apis, tmp_path, nested, nested, rate, silent) == ["", "", "", ""]


def test_a_plan_that_cannot_run_says_why(apis: tuple[Api, ...], tmp_path: Path) -> None:
    beyond = proved(
        apis, FIND, {"name": "book_Hotel", "arguments": {"hotel": "$a.hotels[7].id$", "guests": []}, "label": "b"}
    )
    # No schema tells what `silent` answers, so that this is proved on trust; it answers with a text.
    trusting = proved(
        apis,
        {"name": "silent", "arguments": {}, "label": "s"},
        {"name": "var_result", "arguments": {"x": "$s.anything$"}},
    )
    untyped = proved(
        apis,
        {"name": "rates.get", "arguments": {"base": "EUR", "currency": "USD"}, "label": "r"},
        {"name": "book_Hotel", "arguments": {"hotel": "$r.when$", "guests": []}, "label": "b"},
    )
    first, second, third = run(apis, tmp_path, beyond, trusting, untyped)
    assert "hotels[7]" in first
    assert "anything" in second
    assert "422" in third
    assert "hotel is not of type integer" in third


def test_the_same_answers_every_time(apis: tuple[Api, ...]) -> None:
    find, book, rate, silent = (example_of(api.response.json_schema, api.name, {}) for api in apis)
    assert find == {"hotels": [{"id": 1}], "count": 12}
    assert book == {"ticket": "ticket 1"}
    assert rate == {"rate": 1, "open": True, "when": "when 1"}
    assert silent == "silent 1"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["b", "a"]}, "b"),
        ({"type": "integer", "minimum": 7}, 7),
        ({"type": "number", "description": "the price (e.g. 9.5)"}, 9.5),
        ({"type": "boolean", "description": "e.g., false"}, False),
        ({"type": "string", "format": "date"}, "2024-05-17"),
        ({"type": ["null", "string"]}, "x 1"),
        ({"type": "string", "description": 'a place (e.g., "Lisbon", Faro)'}, "Lisbon"),
        ({"type": "object", "properties": ["title", "link"]}, {"title": "title 1", "link": "link 1"}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        (
            {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"const": 2}}}]},
            {"a": 1, "b": 2},
        ),
        ({"$ref": "#/$defs/Pair"}, {"left": "left 1", "next": "deeper"}),
        (5, "x 1"),
        (None, "x 1"),
    ],
)
def test_values_from_schemas(schema: Any, value: Any) -> None:
    pair: dict[str, Any] = {"type": "object", "properties": {"left": {}, "next": {"$ref": "#/$defs/Pair"}}}
    found = example_of(schema, "x", {"Pair": pair})
    if value == {"left": "left 1", "next": "deeper"}:  # a schema that holds itself ends somewhere
        assert isinstance(found, dict)
        assert found["left"] == "left 1"
        assert len(str(found)) < 1_000
    else:
        assert found == value


def test_stand_ins_keep_what_the_data_says(apis: tuple[Api, ...]) -> None:
    find, _, rate, _ = (stand_in(api, n, "http://here") for n, api in enumerate(apis))
    assert (find.method, find.server, find.path) == ("POST", "http://here", "/0/findHotels")
    assert find.body is not None
    assert {one.location for one in find.parameters} == {Location.BODY}
    assert (rate.method, rate.path) == ("GET", "/2/v1/{base}/rate")
    assert [one.location for one in rate.parameters] == [Location.PATH, Location.QUERY]


def test_bodies_are_checked(apis: tuple[Api, ...]) -> None:
    find = stand_in(apis[0], 0, "")
    assert misfit(find, {"city": "Faro", "stars": 3.0}) == ""
    assert misfit(find, {"city": None}) == ""
    assert misfit(find, {"stars": 3}) == "city is missing"
    assert misfit(find, {"city": 5}) == "city is not of type string"
    assert misfit(find, {"city": "Faro", "stars": True}) == "stars is not of type integer"
    assert misfit(find, {"city": "Faro", "stars": 3.5}) == "stars is not of type integer"
    assert misfit(find, ["Faro"]) == "the body is not an object"
