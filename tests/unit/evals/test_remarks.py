"""Counting the remarks about plans that only read."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.remarks import main
from tests.unit.evals.folders import folder

TOOLS: list[dict[str, Any]] = [
    {
        "name": name,
        "description": "Get an order",
        "category": "Shop",
        "parameters": {"id": {"type": "string", "required": True}},
        "outputs": {"status": {"type": "string"}, field: {"type": "number"}},
    }
    for name, field in (("getOrder", "total"), ("getParcel", "weight"))
]
CALLS = [{"api": "getOrder", "args": {"id": "7"}}]
INSTANCES: list[dict[str, Any]] = [
    {"id": "1", "query": "Which status has order 7?", "calls": CALLS},
    {"id": "2", "query": "How heavy is order 7?", "calls": CALLS},  # the vendor's other API tells
    {"id": "3", "query": "Which colour has order 7?", "calls": CALLS},
    {"id": "4", "query": "Which carrier has order 7?", "calls": [], "tools": ["getOrder"]},
]


def predicted(number: str, outcome: str) -> str:
    calls = [{"name": "getOrder", "arguments": {"id": "7"}, "label": "var1"}, {"name": "var_result", "arguments": {}}]
    return json.dumps({"id": number, "status": outcome, "predicted": calls})


def test_what_is_said_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, file = folder(tmp_path / "data", TOOLS, INSTANCES), tmp_path / "lines.jsonl"
    file.write_text("\n".join([predicted("3", "planned"), predicted("4", "planned"), predicted("4", "needs_input")]))
    assert main([str(data), "--predictions", str(file)]) == 0
    told = capsys.readouterr().out
    assert "as candidates (wrongly): 1 of 3 plans" in told
    assert "no other candidates (wrongly): 2 of 3 plans" in told
    assert "what nothing fits: 0 of 0 plans" in told  # of two lines about a request the last one counts
    file.write_text(predicted("4", "planned"))
    assert main([str(data), "--predictions", str(file)]) == 0
    told = capsys.readouterr().out
    assert "what nothing fits: 1 of 1 plans" in told
    assert "none of the APIs tells “carrier”." in told


def test_values_that_a_solution_leaves_out_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = TOOLS[0] | {"parameters": {"id": {"type": "string", "required": True}, "carrier": {"type": "string"}}}
    rows = [INSTANCES[0], INSTANCES[0] | {"id": "5", "query": 'Which status has order 7 of "Red Post"?'}]
    assert main([str(folder(tmp_path / "data", [tool], rows))]) == 0
    told = capsys.readouterr().out
    assert "values left out (wrongly): 1 of 2 plans" in told
    assert told.rstrip().endswith("Red Post")


def test_what_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
