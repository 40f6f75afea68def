"""The command line against a running Nestor with its sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.onebox import RunningStack, running_stack

runner = CliRunner()


@pytest.fixture(scope="module")
def nestor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with running_stack(tmp_path_factory.mktemp("nestor")) as found:
        yield found


@pytest.fixture
def nestor_url(nestor: RunningStack, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NESTOR_URL", nestor.gateway_url)
    monkeypatch.setenv("COLUMNS", "200")
    return nestor.gateway_url


def run(*arguments: str, exit_code: int = 0) -> str:
    result = runner.invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    return result.stdout if "--json" in arguments else result.output


def test_solve_draws_the_plan_and_the_answer(nestor_url: str) -> None:
    shown = run("solve", "Convert 26.2 miles to kilometers.")
    assert "sandbox.convertUnits" in shown
    assert "42.16" in shown
    assert "succeeded" in shown


def test_solve_json_is_the_run_and_the_run_is_kept(nestor_url: str) -> None:
    run_ = json.loads(run("solve", "--json", "Convert 26.2 miles to kilometers."))
    assert run_["status"] == "succeeded"
    assert run_["id"] in run("runs", "list", "--json")
    assert "26.2 miles" in run("runs", "show", run_["id"])
    assert json.loads(run("runs", "show", "--json", run_["id"])) == run_


def test_a_dry_run_sends_nothing(nestor_url: str) -> None:
    run_ = json.loads(run("solve", "--json", "--dry-run", "Convert 26.2 miles to kilometers."))
    assert (run_["status"], run_["steps"]) == ("planned", [])
    assert run_["proof"]["checks"] > 0


def test_what_nothing_fits_exits_1_and_says_why(nestor_url: str) -> None:
    assert "no_plan" in run("solve", "Call me a taxi to the central station", exit_code=1)


def test_what_is_pinned_and_filtered_is_what_is_planned_with(nestor_url: str) -> None:
    asked = ("solve", "--json", "--dry-run", "Convert 26.2 miles to kilometers.")
    run_ = json.loads(run(*asked, "--pin", "sandbox.getSunTimes", "--pin", "nobody.knows", "--top-k", "5"))
    first, *others = run_["candidates"]
    assert (first["api"], first["found_by"]) == ("sandbox.getSunTimes", "pinned")
    assert {other["found_by"] for other in others} <= {"exact_name", "meaning", "words", "provider", "supplier"}
    assert "sandbox.convertUnits" in {other["api"] for other in others}
    shown = run("runs", "show", run_["id"], "--candidates")
    assert "sandbox.getSunTimes" in shown
    assert "pinned" in shown
    posts = json.loads(run(*asked, "--method", "post", "--provider", "sandbox", "--no-deprecated", exit_code=1))
    assert "sandbox.convertUnits" not in {candidate["api"] for candidate in posts["candidates"]}
    nothing = json.loads(run(*asked, "--tag", "no such tag", exit_code=1))
    assert (nothing["status"], nothing["candidates"]) == ("no_plan", [])
    assert "pattern" in run("solve", "x", "--method", "G T", exit_code=2)
    assert "100" in run("solve", "x", *(["--pin", "a"] * 101), exit_code=2)


def test_a_search_is_filtered_and_says_what_found_each(nestor_url: str) -> None:
    assert "exact name" in run("apis", "search", "sandbox.convertUnits", "--method", "get")
    listed = json.loads(run("apis", "search", "--method", "POST", "--method", "PUT", "--json", "--limit", "100"))
    assert {hit["method"] for hit in listed["hits"]} <= {"POST", "PUT"}
    assert len(listed["hits"]) == listed["total"] > 0
    assert "0 of 0" in run("apis", "search", "--tag", "no such tag")
    found = json.loads(run("apis", "search", "create an order", "--json"))["hits"]
    assert len(found) > 10
    assert [hit["relevance"] for hit in found] == sorted((hit["relevance"] for hit in found), reverse=True)
    assert run("apis", "search", "create an order").split()[:3] == ["likely", "score", "by"]


def test_apis_are_searched_shown_imported_and_removed(nestor_url: str, tmp_path: Path) -> None:
    assert "sandbox.convertUnits" in run("apis", "search", "convert miles")
    assert json.loads(run("apis", "show", "sandbox.convertUnits"))["method"] == "GET"
    document = tmp_path / "tiny.json"
    paths = {"/pings": {"get": {"operationId": "ping", "responses": {"200": {"description": "pong"}}}}}
    document.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "Tiny", "version": "1"}, "paths": paths}))
    assert "1 added" in run("apis", "import", str(document), "--server", "http://tiny.example")
    assert "1 unchanged" in run("apis", "import", str(document), "--server", "http://tiny.example")
    assert "tiny removed" in run("apis", "remove", "tiny")
    assert "Not found" in run("apis", "remove", "tiny", exit_code=1)


def test_apis_are_imported_from_a_url(nestor: RunningStack, nestor_url: str) -> None:
    assert "66 unchanged" in run("apis", "import", nestor.sandbox_url + "/openapi.json", "--provider", "sandbox")


def test_a_bad_document_is_refused_and_explained(nestor_url: str, tmp_path: Path) -> None:
    document = tmp_path / "bad.yaml"
    document.write_text("openapi: 3.1.0\ninfo: [")
    assert "cannot be imported" in run("apis", "import", str(document), exit_code=1)


def test_demos_are_listed_imported_and_deleted(nestor_url: str, tmp_path: Path) -> None:
    listed = json.loads(run("demos", "list", "--json"))
    demo = listed["demos"][0]
    file = tmp_path / "demos.jsonl"
    file.write_text(json.dumps(demo) + "\n")
    assert "1 already present" in run("demos", "import", str(file))
    run("demos", "delete", demo["id"])
    assert "1 added" in run("demos", "import", str(file))
    file.write_text("{}\n")
    assert "line 1" in run("demos", "import", str(file), exit_code=2)


def test_a_mutating_plan_waits_and_is_approved(nestor_url: str) -> None:
    query = 'Create a reminder "water the plants" for 2027-03-01T09:00:00Z'
    waiting = json.loads(run("solve", "--json", query, exit_code=1))
    assert waiting["status"] == "needs_approval", waiting
    done = json.loads(run("runs", "approve", "--json", waiting["id"]))
    assert done["status"] == "succeeded", done
    assert "Conflict" in run("runs", "approve", waiting["id"], exit_code=1)


def test_without_a_gateway_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_URL", "http://127.0.0.1:9")
    assert "nestor serve --sandbox" in run("solve", "anything", exit_code=3)


@pytest.mark.parametrize("arguments", [("solve", ""), ("solve", "x" * 20_000), ("apis", "import", "nowhere.json")])
def test_bad_arguments_are_usage_errors(arguments: tuple[str, ...]) -> None:
    run(*arguments, exit_code=2)


@pytest.mark.parametrize("command", [(), ("solve",), ("apis",), ("apis", "import"), ("demos",), ("runs",), ("serve",)])
def test_help_teaches(command: tuple[str, ...]) -> None:
    assert "Usage" in run(*command, "--help")


def test_tenants_rules_and_approvals_as_the_page_on_them_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/approvals.md. The sandbox is imported although the gateway requires a token."""
    principals = [
        {"name": "desk", "tenant": "office", "token": "desk-token"},
        {"name": "kiosk", "tenant": "guests", "token": "kiosk-token"},
    ]
    rules = [
        {"decision": "deny", "tenant": "guests", "method": "[!GHO]*"},
        {"decision": "ask", "api": "sandbox.*Contact*"},
        {"decision": "allow", "api": "sandbox.createReminder"},
    ]
    monkeypatch.setenv("NESTOR_GATEWAY_PRINCIPALS", json.dumps(principals))
    monkeypatch.setenv("NESTOR_GATEWAY_POLICY_RULES", json.dumps(rules))
    remind = 'Remind me to "water the plants" at 2027-03-01T09:00:00Z'
    with running_stack(tmp_path) as found:
        monkeypatch.setenv("NESTOR_URL", found.gateway_url)
        assert "Not authorised" in run("runs", "list", exit_code=1)
        monkeypatch.setenv("NESTOR_TOKEN", "desk-token")
        run("solve", remind)
        order = "Order one KIT-4003 for cus_6, bill it in GBP, and afterwards cancel that order"
        waiting = json.loads(run("solve", "--json", "--backend", "compact", order, exit_code=1))
        urls = [preview["request"]["url"] for preview in waiting["previews"]]
        assert urls == [found.sandbox_url + "/orders", found.sandbox_url + "/orders/{var1.id}/cancel"]
        done = json.loads(run("runs", "approve", "--json", "--on-behalf-of", "Ada Lovelace", waiting["id"]))
        assert done["status"] == "succeeded"
        assert (done["approval"]["approver"], done["approval"]["on_behalf_of"]) == ("desk", "Ada Lovelace")
        asked = run("solve", "--backend", "compact", 'Search contacts for "Grace"', exit_code=1)
        assert "GET " + found.sandbox_url + "/contacts" in asked
        monkeypatch.setenv("NESTOR_TOKEN", "kiosk-token")
        run("runs", "show", waiting["id"], exit_code=1)
        assert "the policy does not allow calls of sandbox.createReminder" in run("solve", remind, exit_code=1)
        run("solve", "Convert 26.2 miles to kilometers.")
