"""``nestor secrets bind``, ``list``, and the place that ``set`` keeps. The gateway is not asked."""

import getpass
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from deploy.cli import app
from deploy.cli.binding import chosen_place
from executor_svc.secret_changes import told_changes
from executor_svc.secret_store import parse
from services.clients import GatewayClient
from services.contracts.api import Location, NeededSecret, SecretKind
from services.errors import Unauthorized

VALUE = "key-canary-1234"
runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")
    found = tmp_path / "secrets.json"
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS_FILE", str(found))
    return found


def run(*arguments: str, exit_code: int = 0) -> str:
    result = runner.invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    assert VALUE not in result.output
    return result.output


def write(file: Path, **more: Any) -> None:
    file.write_text(json.dumps({"crm.apiKey": {"value": VALUE, "hosts": ["api.crm.example"]} | more}))


def entry(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())["crm.apiKey"]
    return {name: value for name, value in found.items() if name not in ("value", "hosts")}


def test_a_place_and_tenants_are_bound_and_the_value_stays(file: Path) -> None:
    write(file, header="X-Old")
    run("secrets", "bind", "crm.apiKey", "--query", "api key")
    assert entry(file) == {"in": "query", "name": "api key", "scheme": "api_key"}
    run("secrets", "bind", "crm.apiKey", "--tenant", "red", "--tenant", "blue")
    assert entry(file)["tenants"] == ["red", "blue"]
    run("secrets", "bind", "crm.apiKey", "--scheme", "bearer", "--every-tenant")
    assert entry(file) == {"scheme": "bearer"}
    assert json.loads(file.read_text())["crm.apiKey"]["value"] == VALUE


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--query", "a", "--header", "b"),
        ("--tenant", "a", "--every-tenant"),
        ("--tenant", "no tenant"),
        ("--header", "X Key"),
    ],
)
def test_what_says_nothing_or_two_things_is_refused(file: Path, options: tuple[str, ...]) -> None:
    write(file)
    run("secrets", "bind", "crm.apiKey", *options, exit_code=2)
    assert entry(file) == {}
    run("secrets", "bind", "crm.none", "--query", "key", exit_code=2)


def test_the_name_of_no_secret_cannot_be_tested() -> None:
    assert "is not PROVIDER.SCHEME" in run("secrets", "test", "nodot", exit_code=2)


def test_a_gateway_that_is_not_there_or_refuses_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise Unauthorized

    monkeypatch.setenv("NESTOR_URL", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1 (NESTOR_URL)" in run("keys", "list", exit_code=3)
    monkeypatch.setattr(GatewayClient, "keys", refused)
    assert "NESTOR_TOKEN" in run("keys", "list", exit_code=1)


def test_who_changed_what_is_told_without_values(file: Path) -> None:
    write(file, tenants=["red"])
    run("secrets", "bind", "crm.apiKey", "--query", "key")
    run("secrets", "remove", "crm.apiKey")
    told = file.with_name("secrets.json.changes")
    assert told.stat().st_mode & 0o777 == 0o600
    with told.open("a") as opened:
        opened.write("half a li")
    assert VALUE not in told.read_text()
    lines = run("secrets", "history").splitlines()[1:]
    assert [line.split()[3:5] for line in lines] == [["remove", "crm.apiKey"], ["bind", "crm.apiKey"]]
    for part in ("api.crm.example", "in query, name key", "red", getpass.getuser()):
        assert part in lines[1]
    assert len(run("secrets", "history", "crm.other").splitlines()) == 1
    run("secrets", "bind", "crm.apiKey", "--query", "key", exit_code=2)
    assert len(list(told_changes(file))) == 2, "what was refused changed nothing"


def test_the_list_warns_of_what_is_open(file: Path) -> None:
    write(file)
    shown = run("secrets", "list")
    assert "warning: may be used by every tenant: crm.apiKey" in shown
    assert "warning: may be sent in any header or cookie that a document names: crm.apiKey" in shown
    write(file, tenants=["red"], scheme="api_key", name="X-Key", **{"in": "header"})
    shown = run("secrets", "list")
    assert "warning" not in shown
    assert "header X-Key" in shown
    assert "red" in shown


def needed(location: str, name: str) -> NeededSecret:
    return NeededSecret(
        scheme="apiKey", kind=SecretKind.API_KEY, secret="crm.apiKey", location=Location(location), parameter=name
    )


def test_set_keeps_the_place_of_the_operations_and_no_document_moves_it(capsys: pytest.CaptureFixture[str]) -> None:
    first = chosen_place("crm.apiKey", {}, None, needed("header", "X-Key"))
    assert first == {"in": "header", "name": "X-Key", "scheme": "api_key"}
    there = parse({"crm.apiKey": {"value": VALUE, "hosts": ["api.crm.example"], **first}}, "here")["crm.apiKey"]
    assert chosen_place("crm.apiKey", {}, there, needed("header", "x-key"))["name"] == "X-Key"
    assert chosen_place("crm.apiKey", {}, there, None) == first
    with pytest.raises(typer.BadParameter) as refused:
        chosen_place("crm.apiKey", {}, there, needed("query", "text"))
    assert str(refused.value) == (
        "crm.apiKey is set for the header 'X-Key', but the imported document declares the query parameter 'text'. "
        "If the document is right, run: nestor secrets bind crm.apiKey --query text"
    )
    given: dict[str, Any] = {"in": "query", "name": "text", "scheme": "api_key"}
    assert chosen_place("crm.apiKey", given, there, needed("query", "text")) == given
