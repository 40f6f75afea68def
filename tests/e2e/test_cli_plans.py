"""``nestor runs start``, ``approve --digest`` and ``delete`` against a running Nestor; the service counts calls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from tests.e2e.test_evidence import world as directory_world
from tests.support.commands import run
from tests.support.directory import Directory

world = directory_world
CALLS = [
    {"name": "directory.findColleague", "arguments": {"name": "Grace Hopper"}, "label": "var1"},
    {
        "name": "directory.addNote",
        "arguments": {"person_id": "$var1.items[0].person_id$", "text": "likes ships"},
        "label": "var2",
    },
    {"name": "var_result", "arguments": {"note": "$var2.note_id$"}},
]


@pytest.fixture
def directory(world: tuple[str, Directory], monkeypatch: pytest.MonkeyPatch) -> Iterator[Directory]:
    monkeypatch.setenv("NESTOR_URL", world[0])
    monkeypatch.setenv("COLUMNS", "200")
    world[1].people["colleague"]["Grace Hopper"] = "per_7"
    yield world[1]
    world[1].reset()


@pytest.fixture
def plan(tmp_path: Path) -> str:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(CALLS))
    return str(file)


def asked(*arguments: str, exit_code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    assert result.stdout, result.output
    return json.loads(result.stdout)


def test_a_plan_from_a_file_is_started_shown_approved_and_deleted(directory: Directory, plan: str) -> None:
    waiting = asked("runs", "start", "--json", "--query", "Note it", plan, exit_code=1)
    assert (waiting["status"], waiting["query"], directory.notes) == ("needs_approval", "Note it", [])
    wrong = run("runs", "approve", "--digest", "0" * 64, waiting["id"], exit_code=1)
    assert "Nothing was approved" in wrong
    assert 'var1.items[0].person_id = "per_7"' in wrong
    assert f"GET http://{directory.host}/colleagues?name=Grace%20Hopper" in wrong
    assert waiting["digest"] in wrong
    run("runs", "delete", waiting["id"], exit_code=1)
    done = asked("runs", "approve", "--json", "--digest", waiting["digest"], waiting["id"])
    assert (done["status"], directory.notes) == ("succeeded", [("per_7", "likes ships")])
    assert "is deleted" in run("runs", "delete", waiting["id"])
    assert "no run" in run("runs", "show", waiting["id"], exit_code=1)


def test_a_file_may_hold_the_query_as_well_as_the_calls(directory: Directory, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"query": "Note it", "calls": CALLS}))
    assert asked("runs", "start", "--json", "--dry-run", str(file), exit_code=1)["query"] == "Note it"
    assert asked("runs", "start", "--json", "--dry-run", "--query", "Other", str(file), exit_code=1)["query"] == "Other"
    file.write_text(json.dumps({"calls": CALLS, "options": {"mutations": "allow"}}))
    assert "not options" in run("runs", "start", str(file), exit_code=2)
    file.write_text(json.dumps({"calls": 7}))
    assert "tuple" not in run("runs", "start", str(file), exit_code=2)
    assert directory.notes == []


def test_what_was_read_and_is_not_so_any_more_is_shown_and_not_sent(directory: Directory, plan: str) -> None:
    waiting = asked("runs", "start", "--json", plan, exit_code=1)
    directory.people["colleague"]["Grace Hopper"] = "per_1"
    again = asked("runs", "approve", "--json", waiting["id"], exit_code=1)
    assert (again["status"], directory.notes) == ("needs_approval", [])
    assert again["previews"][0]["request"]["body"] == {"person_id": "per_1", "text": "likes ships"}
    run("runs", "approve", waiting["id"])
    assert directory.notes == [("per_1", "likes ships")]


def test_a_change_that_is_allowed_needs_no_approval(directory: Directory, plan: str) -> None:
    assert asked("runs", "start", "--json", "--mutations", "allow", plan)["status"] == "succeeded"
    assert directory.notes == [("per_7", "likes ships")]
    assert asked("runs", "start", "--json", "--dry-run", "--mutations", "allow", plan)["status"] == "planned"


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "[1]", '[{"arguments": {}}]'])
def test_a_file_that_holds_no_plan(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert run("runs", "start", str(file), exit_code=1 if text.startswith("[{") else 2)
