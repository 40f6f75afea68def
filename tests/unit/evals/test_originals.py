"""The papers' own files: the same folders as their repositories hold, small."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.data import DataError, read_dataset
from evals.planning.calls import is_nested

TOOLS: list[dict[str, Any]] = [
    {
        "api_name": "findRoom",
        "api_description": "Find a room",
        "field": "Travel/Hotels",
        "parameters": {"city": {"type": "str", "description": "Where"}},
        "required": ["city"],
        "responses": {
            "room_id": {"type": "str", "description": "The room"},
            "price": {"type": "float", "description": "Its price"},
        },
    },
    {
        "api_name": "bookRoom",
        "api_description": "Book a room",
        "field": "Travel/Hotels",
        "parameters": {"room": {"type": "str"}, "nights": {"type": "int"}},
        "required": ["room"],
        "responses": {"ticket": {"type": "str", "description": "The ticket"}},
    },
]
CALLING = [
    {"api": "findRoom", "parameters": {"city": "Faro"}, "responses": ["API_call_0", "API_call_1"]},
    {"api": "bookRoom", "parameters": {"room": "API_call_0", "nights": "2"}, "responses": ["API_call_2"]},
]
SPEC: list[dict[str, Any]] = [
    {
        "name": "SearchAirport",
        "description": "Search airports",
        "method": "GET",
        "endpoint": "/airports",
        "host": "air.example",
        "query_parameters": {"query": {"type": "string", "required": True}},
        "output_parameters": {"skyId": {"type": "string", "description": "Its id"}},
        "output_parser": "result.data[0].{param}",
    },
    {
        "name": "SearchFlights",
        "description": "Search flights",
        "query_parameters": {"originSkyId": {"type": "string", "required": True}},
        "output_parameters": {"flightId": {"type": "string"}},
    },
]
DATA: list[dict[str, Any]] = [
    {
        "input": "Flights from Faro",
        "output": [
            {"name": "SearchAirport", "arguments": {"query": "Faro"}, "label": "var1"},
            {"name": "SearchFlights", "arguments": {"originSkyId": "$var1.skyId$"}, "label": "var2"},
            {"name": "var_result", "arguments": {"flights": "$var2$"}},
        ],
    }
]


def lines(file: Path, rows: list[Any]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def seal_tools(folder: Path, rows: list[Any] | None = None) -> Path:
    lines(folder / "tool.jsonl", TOOLS)
    lines(folder / "field.jsonl", [{"field": "Travel"}])
    lines(folder / "dev.jsonl", [{"id": "dev-1", "query": "Book", "calling": CALLING}] if rows is None else rows)
    return folder


def nestful(folder: Path) -> Path:
    (folder / "executable-spec.json").write_text(json.dumps(SPEC), encoding="utf-8")
    (folder / "executable-data.json").write_text(json.dumps(DATA), encoding="utf-8")
    return folder


def test_seal_tools(tmp_path: Path) -> None:
    lines(tmp_path / "test_in_domain.jsonl", [])
    dataset = read_dataset(seal_tools(tmp_path))
    find, book = dataset.apis
    assert (find.id, find.method, find.tags) == ("seal-tools.findRoom", "POST", ("Travel/Hotels",))
    assert find.response.json_schema["properties"]["price"]["type"] == "number"  # type: ignore[index,call-overload]
    assert [one.required for one in book.parameters] == [True, False]
    (one,) = dataset.instances
    assert (one.id, one.split, dataset.split) == ("dev-1", "dev", "dev")
    assert [call.api for call in one.calls] == [find.id, book.id]
    assert one.calls[1].args == {"room": "$var_1.room_id$", "nights": "2"}
    assert is_nested(one.calls)


def test_seal_tools_older_form_counts_its_slots_itself(tmp_path: Path) -> None:
    calls = [{"api": call["api"], "parameters": call["parameters"]} for call in CALLING]
    (one,) = read_dataset(seal_tools(tmp_path, [[*calls, "Book me a room"]])).instances
    assert (one.id, one.query) == ("dev-1", "Book me a room")
    assert one.calls[1].args["room"] == "$var_1.room_id$"


def test_a_slot_that_no_call_has_stays_a_text(tmp_path: Path) -> None:
    calling = [{"api": "gone", "parameters": {"x": "API_call_9", "y": ["API_call_0"]}}]
    (one,) = read_dataset(seal_tools(tmp_path, [{"id": "1", "query": "Go", "calling": calling}])).instances
    assert one.calls[0].api == "gone"
    assert one.calls[0].args == {"x": "API_call_9", "y": ["$var_1$"]}


def test_nestful(tmp_path: Path) -> None:
    dataset = read_dataset(nestful(tmp_path))
    airport, flights = dataset.apis
    assert (airport.method, airport.server, airport.path) == ("GET", "https://air.example", "/airports")
    # Where a live answer holds it does not matter here: references name the field.
    assert list(airport.response.json_schema["properties"]) == ["skyId"]  # type: ignore[arg-type]
    assert flights.method == "POST"
    (one,) = dataset.instances
    assert (one.split, len(one.calls)) == ("executable", 2)
    assert [call.api for call in one.calls] == [airport.id, flights.id]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "1", "query": "Go"}, r"dev\.jsonl, line 1: .*Field required"),
        ([{"api": "findRoom", "parameters": {}}], r"dev\.jsonl, line 1: a list must hold calls"),
        (["Go", "twice"], "a list must hold calls"),
        ([], "a list must hold calls"),
        ({"id": "1", "query": " ", "calling": []}, "line 1: query: "),
        (7, "line 1"),
    ],
)
def test_bad_lines_of_seal_tools(tmp_path: Path, row: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_dataset(seal_tools(tmp_path, [row]))


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("executable-data.json", "[{]", r"executable-data\.json: .*Invalid JSON"),
        ("executable-data.json", '[{"input": "x"}]', r"executable-data\.json: 0\.output: Field required"),
        ("executable-data.json", '[{"input": "", "output": []}]', r"executable-data\.json, request 1: query: "),
        ("executable-data.json", b"\xff\xfe", "cannot be read"),
        (
            "executable-data.json",
            '[{"input": "x", "output": [{"name": "y", "arguments": {"z": NaN}}]}]',
            "Invalid JSON",
        ),
        ("executable-spec.json", "[{]", "is not JSON"),
        ("executable-spec.json", "[" * 100_000, "is not JSON|deep"),
        ("executable-spec.json", "{}", r"executable-spec\.json: "),
        ("executable-spec.json", '[{"name": "x", "query_parameters": 5}]', "cannot be read"),
    ],
)
def test_bad_files_of_nestful(tmp_path: Path, file: str, content: str | bytes, says: str) -> None:
    folder = nestful(tmp_path)
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=says):
        read_dataset(folder)


def test_half_a_folder(tmp_path: Path) -> None:
    (nestful(tmp_path) / "executable-data.json").unlink()
    with pytest.raises(DataError, match=r"executable-data\.json is missing"):
        read_dataset(tmp_path)
    (tmp_path / "executable-spec.json").unlink()
    lines(tmp_path / "tool.jsonl", TOOLS)
    with pytest.raises(DataError, match="no file of requests"):
        read_dataset(tmp_path)
