"""Arguments that are objects or lists of them, booleans and units by symbol, from single values of a request."""

from datetime import UTC, datetime
from typing import Any

import pytest

from planner_svc.backends.rules.fit import Fitter
from planner_svc.backends.rules.objects import build
from planner_svc.reading.profile import Library, Profile
from planner_svc.reading.values import find_spans
from services.contracts.api import Api, Location, Parameter
from services.encoder import load_encoder

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
ITEM = {
    "type": "object",
    "required": ["part_number", "pieces"],
    "properties": {
        "part_number": {"type": "string", "pattern": "^PT[0-9]+$", "examples": ["PT100"]},
        "pieces": {"type": "integer", "minimum": 1},
    },
}
BOUNDS = {"type": "object", "properties": {"min": {"type": "number"}, "max": {"type": "number"}}}
UNITS = {"type": "string", "enum": ["kilometer_per_hour", "mile_per_hour", "gram", "fahrenheit"]}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(load_encoder())


def profile_of(library: Library, schema: dict[str, Any], name: str = "value") -> Profile:
    parameter = Parameter(name=name, wire_name=name, location=Location.BODY, required=True, json_schema=schema)
    return library.profile(Api(id="test.send", provider="test", name="send", parameters=(parameter,)))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (
            {"type": "array", "items": ITEM},
            "send 3 of PT12 and two PT7",
            [{"part_number": "PT12", "pieces": 3}, {"part_number": "PT7", "pieces": 2}],
        ),
        ({"type": "array", "items": ITEM}, "send one PT12", [{"part_number": "PT12", "pieces": 1}]),
        ({"type": "array", "items": ITEM}, "send some bolts", None),
        (BOUNDS, "everything under 50", {"max": 50}),
        (BOUNDS, "between 20 and 100", {"min": 20, "max": 100}),
        (BOUNDS, "all 7 of them", None),
    ],
)
def test_objects_are_built_from_values(library: Library, schema: dict[str, Any], text: str, value: Any) -> None:
    profile = profile_of(library, schema)
    built = build(Fitter(library, UTC, [profile]), profile, profile.slots[0], find_spans(text, NOW))
    assert (built.value if built else None) == value


@pytest.mark.parametrize(
    ("schema", "name", "text", "value"),
    [
        ({"type": "boolean"}, "archived", "the archived ones", True),
        ({"type": "boolean"}, "archived", "those that are not archived", False),
        ({"type": "boolean"}, "archived", "all of them", None),
        (UNITS, "unit", "65 mph", "mile_per_hour"),
        (UNITS, "unit", "at 100 km/h", "kilometer_per_hour"),
        (UNITS, "unit", "90°F", "fahrenheit"),
        ({"type": "string", "enum": ["A", "B"]}, "tier", "with grade B steel", "B"),
        ({"type": "string", "enum": ["A", "B"]}, "tier", "Vitamin B", None),
        ({"type": "string", "enum": ["-", "_"]}, "joiner", "joined by underscores", "_"),
    ],
)
def test_listed_values_are_named(library: Library, schema: dict[str, Any], name: str, text: str, value: Any) -> None:
    profile = profile_of(library, schema, name)
    found = Fitter(library, UTC, [profile]).choices(profile.slots[0], text, 0)
    assert (found[0].value if found else None) == value
