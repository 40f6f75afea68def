"""The corpus of requests: what its check finds, what it writes, and that what ships is sound."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from evals.data import licence, read_all
from training.corpus.catalogue import Corpus, shipped
from training.corpus.command import check_corpus, export_corpus
from training.corpus.requests import check_requests, read_requests

DESK: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "Desk", "version": "1"},
    "servers": [{"url": "https://desk.example.com"}],
    "paths": {
        "/guests": {
            "get": {
                "operationId": "searchGuests",
                "summary": "Find guests by name",
                "parameters": [{"name": "name", "in": "query", "required": True, "schema": {"type": "string"}}],
                "responses": {
                    "200": {
                        "description": "Guests",
                        "content": {
                            "application/json": {
                                "schema": {
                                    "type": "object",
                                    "properties": {
                                        "guests": {
                                            "type": "array",
                                            "items": {"type": "object", "properties": {"id": {"type": "integer"}}},
                                        }
                                    },
                                }
                            }
                        },
                    }
                },
            }
        },
        "/guests/{id}/bill": {
            "get": {
                "operationId": "getBill",
                "summary": "What a guest owes",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "The bill"}},
            }
        },
    },
}
FIND: dict[str, Any] = {"name": "searchGuests", "label": "var1", "arguments": {"name": "Amina Diallo"}}
BILL: dict[str, Any] = {"name": "getBill", "label": "var2", "arguments": {"id": "$var1.guests[0].id$"}}
OWED: dict[str, Any] = {"name": "var_result", "arguments": {"bill": "$var2$"}}
CHAIN: dict[str, Any] = {
    "id": "desk-001",
    "query": "What does Amina Diallo owe us?",
    "kind": "chain",
    "plan": [FIND, BILL, OWED],
}
ASKS: dict[str, Any] = {
    "id": "desk-002",
    "query": "How high is the bill?",
    "kind": "asks",
    "plan": [
        {"name": "getBill", "label": "var1", "arguments": {}},
        {"name": "var_result", "arguments": {"bill": "$var1$"}},
    ],
    "asks": ["id"],
}
REFUSED: dict[str, Any] = {
    "id": "desk-003",
    "query": "Check out Amina Diallo today",
    "kind": "refused",
    "why": "no check-out",
}
EACH: dict[str, Any] = {
    "id": "desk-004",
    "query": "All bills of everybody called Diallo",
    "kind": "each",
    "plan": [
        {**FIND, "arguments": {"name": "Diallo"}},
        {"name": "getBill", "label": "var2", "foreach": {"items": "$var1.guests$"}, "arguments": {"id": "$@.id$"}},
        OWED,
    ],
}
GOOD: list[dict[str, Any]] = [CHAIN, ASKS, REFUSED, EACH]


def corpus(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "systems").mkdir(parents=True)
    (folder / "requests").mkdir()
    (folder / "vendors.json").write_text(json.dumps([{"name": "desk", "documents": [], "part": "train"}]))
    (folder / "systems" / "desk.json").write_text(json.dumps(DESK))
    (folder / "requests" / "desk.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_a_sound_corpus_passes_and_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_corpus(tmp_path, [], [], corpus(tmp_path / "c", GOOD)) == 0
    printed = capsys.readouterr().out
    assert "| train | 0 | 1 | 4 | 0 | 0 | 1 | 1 | 1 | 1 | 5 |" in printed
    assert "0 problems" in printed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plan": [FIND, {**BILL, "name": "payBill"}, OWED]}, "no API called 'payBill'"),
        ({"plan": [FIND, {**BILL, "arguments": {"id": "$var1.total$"}}, OWED]}, "has no field 'total'"),
        ({"plan": [FIND, {**BILL, "arguments": {}}, OWED]}, "the plan is parallel, the request says chain"),
        ({"plan": [FIND, {**BILL, "arguments": {"id": "$var7.id$"}}, OWED]}, "var7"),
        ({"kind": "parallel"}, "the plan is chain, the request says parallel"),
        ({"query": "The bill"}, "has not 3 to 120 words"),
        ({"id": "other-001"}, "the id is not desk-NNN"),
        ({"kind": "refused"}, "a refused request has no plan"),
        ({"kind": "asks"}, "`asks` names []"),
        (ASKS | {"asks": ["name"]}, "`asks` names ['name'], and the plan lacks ['id']"),
        (ASKS | {"plan": ASKS["plan"][:1]}, "does not say what answers"),
        ({"plan": [FIND, BILL]}, "does not say what answers"),
        ({"plan": []}, "a plan has between 1 and"),
    ],
)
def test_what_is_wrong_is_said(
    change: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_corpus(tmp_path, [], [], corpus(tmp_path / "c", [CHAIN | change])) == 1
    assert said in capsys.readouterr().out


def test_requests_that_are_near_another_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = [CHAIN, CHAIN | {"id": "desk-002", "query": "what does Amina Diallo owe us"}]
    place = corpus(tmp_path / "c", twice)
    measured = tmp_path / "measured"
    measured.mkdir()
    (measured / "tools.jsonl").write_text(json.dumps({"name": "bill"}) + "\n")
    (measured / "instances.jsonl").write_text(json.dumps({"id": "1", "query": CHAIN["query"], "calls": []}) + "\n")
    assert check_corpus(tmp_path, ["desk"], [measured], place) == 1
    printed = capsys.readouterr().out
    assert "desk-002: nearly equals" in printed
    assert "desk-001: measured asks 'What does Amina Diallo owe us?'" in printed


def test_a_line_that_is_no_request_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = corpus(tmp_path / "c", [CHAIN, {"id": "desk-002", "ask": "x"}])
    assert check_corpus(tmp_path, [], [], place) == 1
    assert "desk.jsonl, line 2" in capsys.readouterr().err
    assert check_corpus(tmp_path, ["nobody"], [], place) == 1
    assert "no vendor called 'nobody'" in capsys.readouterr().err


def test_an_exported_part_is_read_as_data(tmp_path: Path) -> None:
    clocked = CHAIN | {
        "id": "desk-005",
        "query": "Amina Diallo's bill as of today, please",
        "now": "2026-03-02T09:00:00",
    }
    assert export_corpus(tmp_path, "train", tmp_path / "out", corpus(tmp_path / "c", [*GOOD, clocked])) == 0
    found = {one.id: one for one in read_all(tmp_path / "out").instances}
    assert set(found) == {"desk-001", "desk-002", "desk-003", "desk-004", "desk-005"}
    assert found["desk-004"].calls[1].args == {"id": "$var_1.guests.*.id$"}
    assert [call.args for call in found["desk-001"].calls] == [
        {"name": "Amina Diallo"}, {"id": "$var_1.guests[0].id$"},
    ]  # fmt: skip
    assert found["desk-003"].calls == ()
    assert found["desk-003"].tools is not None
    assert set(found["desk-003"].tools) == {"desk.searchGuests", "desk.getBill"}
    assert licence(tmp_path / "out").startswith("Apache-2.0")
    assert found["desk-005"].now is not None
    assert found["desk-005"].now.isoformat() == "2026-03-02T09:00:00+00:00"


def test_keys_are_not_among_the_arguments_that_are_exported(tmp_path: Path) -> None:
    """Who wrote the request saw the document, and gave a key; Nestor presents it, and asks nobody for it."""
    folder = corpus(tmp_path / "c", [CHAIN | {"plan": [FIND | {"arguments": {"name": "Amina", "apikey": "k-1"}}]}])
    keyed = json.loads(json.dumps(DESK))
    keyed["paths"]["/guests"]["get"]["parameters"].append(
        {"name": "apikey", "in": "header", "required": True, "schema": {"type": "string"}}
    )
    (folder / "systems" / "desk.json").write_text(json.dumps(keyed))
    assert export_corpus(tmp_path, "train", tmp_path / "out", folder) == 0
    (found,) = read_all(tmp_path / "out").instances
    assert [call.args for call in found.calls] == [{"name": "Amina"}]


def test_the_first_requests_to_every_invented_system_that_ships_are_sound() -> None:
    """`nestor train corpus check` checks all of them."""
    ships = Corpus(shipped(), None)
    systems = [vendor for vendor in ships.vendors if not vendor.documents]
    assert len(systems) >= 20
    for system in systems:
        problems = list(check_requests(read_requests(ships.file(system))[:8], ships.apis(system), system.name))
        assert problems == []


def test_every_file_that_ships_is_of_a_vendor_and_holds_requests() -> None:
    ships = Corpus(shipped(), None)
    named = {vendor.name for vendor in ships.vendors}
    files = sorted((ships.folder / "requests").glob("*.jsonl"))
    assert {file.stem for file in files} <= named
    assert sum(len(read_requests(file)) for file in files) >= 5_000


def test_the_command_line(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["train", "corpus", "list", "ward-desk", "--documents", str(tmp_path)])
    wrong = CliRunner().invoke(app, ["train", "corpus", "list", "xkcd", "--documents", str(tmp_path)])
    assert (wrong.exit_code, "xkcd.com__main__1.0.0.openapi.json" in wrong.stderr) == (1, True)
    assert (ran.exit_code, "| ward-desk GET /" in ran.stdout) == (0, True)


def test_second_solutions_are_held_against_the_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = corpus(tmp_path / "c", GOOD)
    bill = {**BILL, "arguments": {"id": "$var1.guests[1].id$"}}
    solved = [
        {"id": "desk-001", "plan": [{**FIND, "arguments": {"name": "amina  diallo"}}, bill]},
        {"id": "desk-002", "plan": [{"name": "getBill", "label": "var1", "arguments": {"id": 7}}]},
        {"id": "desk-003", "plan": [FIND], "doubt": "?"},
        {"id": "other-001", "plan": []},
    ]
    (place / "second.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in solved))
    assert check_corpus(tmp_path, [], [], place) == 0
    assert "solved twice: 3; same calls: 2; the same as a whole: 1" in capsys.readouterr().out
    (place / "second.jsonl").write_text('{"id": "desk-001"}\n')
    assert check_corpus(tmp_path, [], [], place) == 1
    assert "second.jsonl, line 1: it has no plan" in capsys.readouterr().err
