"""``nestor runs rerun`` and ``compare`` against a running Nestor, with a service that counts its calls."""

import json
from pathlib import Path

import pytest

from tests.e2e import test_cli_plans
from tests.e2e.test_cli_plans import CALLS, asked
from tests.support.commands import run
from tests.support.directory import Directory

world, directory, plan = test_cli_plans.world, test_cli_plans.directory, test_cli_plans.plan
AGENDA = [
    *CALLS[:2],
    {"name": "directory.getAgenda", "arguments": {"person_id": "$var1.items[0].person_id$"}, "label": "var3"},
    {"name": "var_result", "arguments": {"note": "$var2.note_id$", "when": "$var3.next_appointment$"}},
]


@pytest.fixture
def failed(directory: Directory, tmp_path: Path) -> str:
    """A run that added a note and then found no agenda."""
    directory.after_note = True  # both are called at the same time, and no step starts after a failure
    file = tmp_path / "agenda.json"
    file.write_text(json.dumps(AGENDA))
    done = asked("runs", "start", "--json", "--mutations", "allow", str(file), exit_code=1)
    assert (done["status"], directory.notes) == ("failed", [("per_7", "likes ships")])
    return str(done["id"])


def test_what_failed_is_mended_and_the_change_is_not_made_twice(directory: Directory, failed: str) -> None:
    directory.agendas["per_7"] = "Monday"
    dry = run("runs", "rerun", "--from", "var3", "--dry-run", failed)
    assert "again   var3 directory.getAgenda, reads, before: failed" in dry
    assert f"reused  var2 directory.addNote, a change of {failed}" in dry
    before = directory.calls.copy()
    done = asked("runs", "rerun", "--json", "--from", "var3", failed)
    assert (done["status"], done["rerun_of"]) == ("succeeded", failed)
    assert {value["name"]: value["value"] for value in done["answer"]["values"]} == {"note": "note_1", "when": "Monday"}
    assert directory.calls - before == {"/agendas": 1}
    assert directory.notes == [("per_7", "likes ships")]
    parts = asked("runs", "compare", "--json", failed, done["id"], exit_code=1)["divergence"]
    assert (parts["step"], parts["what"], parts["run"], parts["other"]) == ("var3", "response", "failed", "succeeded")


def test_an_edited_change_is_shown_and_approved_anew(directory: Directory, failed: str) -> None:
    waiting = asked(
        "runs", "rerun", "--json", "--from", "var2", "--set", 'var2.text="likes trains"', failed, exit_code=1
    )
    assert waiting["status"] == "needs_approval"
    assert [shown["request"]["body"] for shown in waiting["previews"]] == [
        {"person_id": "per_7", "text": "likes trains"}
    ]
    assert len(directory.notes) == 1
    directory.agendas["per_7"] = "Monday"
    asked("runs", "approve", "--json", "--digest", waiting["digest"], waiting["id"])
    assert directory.notes == [("per_7", "likes ships"), ("per_7", "likes trains")]
    told = run("runs", "compare", failed, waiting["id"], exit_code=1)
    assert "The runs differ in step var2, in the plan: arguments.text.value" in told
    assert '"likes trains"' in told
    assert "do not differ" in run("runs", "compare", failed, failed)


def test_another_input_of_a_read_reaches_all_that_rests_on_it(directory: Directory, failed: str) -> None:
    directory.people["colleague"]["Ada Lovelace"] = "per_9"
    waiting = asked("runs", "rerun", "--json", "--set", 'var1.name="Ada Lovelace"', failed, exit_code=1)
    assert [one["step"] for one in waiting["resent"]] == ["var1", "var2", "var3"]
    assert waiting["previews"][0]["request"]["body"]["person_id"] == "per_9"


def test_what_does_not_hold_is_refused(directory: Directory, failed: str) -> None:
    assert "is not valid with the current" in run(
        "runs", "rerun", "--set", "var2.text=1", "--from", "var2", failed, exit_code=1
    )
    assert "no step var9" in run("runs", "rerun", "--from", "var9", failed, exit_code=1)
    for wrong in ("var2.text", "text=1", "var2.text=likes"):
        run("runs", "rerun", "--set", wrong, failed, exit_code=2)
    assert len(directory.notes) == 1
