"""Questions as fields of a form, and what comes back from it."""

import pytest
from pydantic import JsonValue

from gateway.console.forms import Field, Kind, entered, fields_of
from services.contracts.planning import Question
from services.errors import ValidationFailed


def _field(schema: dict[str, JsonValue]) -> Field:
    asked = Question(step="var1", api="a.b", argument="x", text="Which?", json_schema=schema)
    (field,) = fields_of([asked, asked])
    return field


@pytest.mark.parametrize(
    ("schema", "kind", "text", "value"),
    [
        ({}, "text", " Lisbon ", "Lisbon"),
        ({"type": "string"}, "text", "7", "7"),
        ({"type": ["string", "null"], "format": "date"}, "date", "2027-06-01", "2027-06-01"),
        ({"type": "string", "format": "date-time"}, "datetime", "2027-06-01T10:00", "2027-06-01T10:00:00+00:00"),
        ({"type": "string", "format": "date-time"}, "datetime", "2027-06-01T10:00:07Z", "2027-06-01T10:00:07+00:00"),
        ({"type": "integer", "minimum": 1}, "integer", "7", 7),
        ({"type": "number"}, "number", "7.5", 7.5),
        ({"type": "number"}, "number", "7", 7),
        ({"type": "boolean"}, "yes_no", "no", False),
        ({"enum": ["a", {"b": 1}]}, "choice", "1", {"b": 1}),
        ({"enum": []}, "text", "a", "a"),
        ({"type": "array"}, "json", "[1, 2]", [1, 2]),
        ({"$ref": "#/$defs/X"}, "text", "a", "a"),
        ({"type": 7, "format": [], "enum": "abc", "minimum": "x", "description": 1}, "text", "a", "a"),
    ],
)
def test_a_field_is_of_its_schemas_kind(schema: dict[str, JsonValue], kind: Kind, text: str, value: JsonValue) -> None:
    field = _field(schema)
    assert field.kind == kind
    assert entered([field], {"value.x": text}) == {"x": value}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "7.5"),
        ({"type": "integer"}, "true"),
        ({"type": "integer"}, '"7"'),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "seven"),
        ({"type": "object"}, "{"),
        ({"format": "date-time"}, "tomorrow"),
        ({"enum": ["a"]}, "1"),
        ({"enum": ["a"]}, "-1"),
        ({"enum": ["a"]}, "a"),
        ({"enum": ["a"]}, "\u0661"),
        ({"enum": ["a"]}, "9" * 5_000),
    ],
)
def test_what_does_not_fit_is_refused(schema: dict[str, JsonValue], text: str) -> None:
    with pytest.raises(ValidationFailed, match=r"^x: "):
        entered([_field(schema)], {"value.x": text})


def test_a_field_that_was_left_empty_has_no_value() -> None:
    assert entered([_field({})], {"value.x": "  ", "value.y": "1"}) == {}


def test_a_moment_is_one_of_the_readers_time_zone() -> None:
    field = _field({"type": "string", "format": "date-time"})
    given = {"value.x": "2027-06-01T10:00", "timezone": "Europe/Lisbon"}
    assert entered([field], given) == {"x": "2027-06-01T10:00:00+01:00"}
    for zone in ("Europe", "../etc/passwd", "/etc/passwd", "No/Where", "\x00", "x" * 300):
        with pytest.raises(ValidationFailed, match=r"^x: "):
            entered([field], given | {"timezone": zone})
