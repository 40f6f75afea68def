"""`nestor keys` and `nestor audit` against a gateway on a real socket."""

import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.sockets import refusing, serving
from gateway.main import create_app
from gateway.settings import GatewaySettings
from services.clients import GatewayClient
from services.contracts.operations import Breaker, ModelServer
from services.contracts.tenant import ExportLine
from tests.support.gateways import ASK_HOLIDAYS, Fakes

PRINCIPALS = [{"name": "boss", "tenant": "red", "token": "red-boss-token"}]


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    return result.stdout if exit_code == 0 else result.output


def test_a_tenant_is_exported_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/gateway.db"
    people = [{"name": "operator", "token": "operator-token"}]
    settings = GatewaySettings.model_validate({"database_url": url, "principals": people, "warm_apis": 0})
    with serving(create_app(settings, peers=Fakes().peers)) as address:
        monkeypatch.setenv("NESTOR_URL", address)
        monkeypatch.setenv("NESTOR_TOKEN", "operator-token")
        red = run("keys", "create", "desk", "--tenant", "red", "--role", "ask").strip()
        monkeypatch.setenv("NESTOR_TOKEN", red)
        run("solve", ASK_HOLIDAYS)
        assert "Forbidden" in run("tenants", "export", "red", exit_code=1)
        monkeypatch.setenv("NESTOR_TOKEN", "operator-token")
        kinds = [json.loads(line)["kind"] for line in run("tenants", "export", "red").splitlines()]
        assert kinds == ["key", "run", "end"]
        run("tenants", "export", "red", "--out", str(tmp_path / "red.ndjson"))
        assert len((tmp_path / "red.ndjson").read_text().splitlines()) == 3
        assert "cannot be written" in run("tenants", "export", "red", "--out", f"{tmp_path}/none/x", exit_code=2)
        told = CliRunner().invoke(app, ("tenants", "export", "red")).stderr
        assert told.startswith("exported: key 1, run 1")
        assert "Nothing is stored for a tenant rde." in CliRunner().invoke(app, ("tenants", "export", "rde")).stderr
        run("tenants", "delete", "red", exit_code=1)
        assert "deleted: 1 keys, 1 runs, 0 demos, 0 providers" in run("tenants", "delete", "red", "--yes")
        assert "Conflict" in run("tenants", "delete", "default", "--yes", exit_code=1)


def test_an_export_replaces_a_file_only_if_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "red.ndjson"
    file.write_text("the last one")
    export = ("tenants", "export", "red", "--out", str(file))
    with refusing() as address:
        monkeypatch.setenv("NESTOR_URL", address)
        run(*export, exit_code=3)

    async def ends_early(_: GatewayClient, name: str) -> AsyncGenerator[ExportLine, None]:
        yield ExportLine(kind="run", data=name)

    monkeypatch.setattr(GatewayClient, "export_tenant", ends_early)
    assert "ended before it was complete" in run(*export, exit_code=1)
    assert (file.read_text(), os.listdir(tmp_path)) == ("the last one", ["red.ndjson"])

    async def complete(_: GatewayClient, name: str) -> AsyncGenerator[ExportLine, None]:
        yield ExportLine(kind="end", data={})

    monkeypatch.setattr(GatewayClient, "export_tenant", complete)
    run(*export)
    assert '"end"' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    run("tenants", "export", "red", "--out", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_the_operator_is_told_of_processes_and_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/gateway.db"
    fakes = Fakes()
    fakes.executor.breakers = (Breaker(host="flights.example:443", state="open", failures=7, probe_in_s=4),)
    fakes.planner.servers = (ModelServer(url="http://llm:8080/v1", model="small", state="down", trouble="it hung"),)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NESTOR_TOKEN", raising=False)
    with serving(create_app(GatewaySettings(database_url=url, warm_apis=0), peers=fakes.peers)) as address:
        monkeypatch.setenv("NESTOR_URL", address)
        shown = run("operations")
        assert "held" in shown
        assert "flights.example:443" in shown
        assert "down: it hung" in shown
        assert "0 of 100" in shown
        told = json.loads(run("operations", "--json"))
        assert told["workers"][0]["alive"]
        assert told["quotas"]["tenants"][0]["tenant"] == "default"
    settings = GatewaySettings.model_validate({"database_url": url, "principals": PRINCIPALS, "warm_apis": 0})
    with serving(create_app(settings, peers=fakes.peers)) as address:
        monkeypatch.setenv("NESTOR_URL", address)
        monkeypatch.setenv("NESTOR_TOKEN", "red-boss-token")
        shown = run("operations")
        assert "red" in shown
        assert "llm" not in shown
        assert "held" not in shown


def test_keys_are_made_rotated_and_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/gateway.db"
    settings = GatewaySettings.model_validate({"database_url": url, "principals": PRINCIPALS, "warm_apis": 0})
    monkeypatch.setenv("COLUMNS", "200")
    with serving(create_app(settings, peers=Fakes().peers)) as address:
        monkeypatch.setenv("NESTOR_URL", address)
        monkeypatch.setenv("NESTOR_TOKEN", "red-boss-token")
        old = run("keys", "create", "desk", "--role", "administer").strip()
        monkeypatch.setenv("NESTOR_TOKEN", old)
        assert "`approve`" in run("keys", "create", "desk", "--role", "approve", exit_code=1)
        new = json.loads(run("keys", "create", "desk", "--role", "administer", "--days", "0", "--json"))
        assert (new["tenant"], new["created_by"], new["expires_at"]) == ("red", "desk", None)
        monkeypatch.setenv("NESTOR_TOKEN", new["key"])
        key_id = old.split("_")[1]
        assert f"{key_id} revoked" in run("keys", "revoke", key_id)
        listed = run("keys", "list")
        assert "revoked" in listed
        assert "never expires" in listed
        assert new["key"] not in listed
        shown = run("audit", "--action", "key.revoke")
        assert f"desk ({new['id']})" in shown
        assert key_id in shown
        found = json.loads(run("audit", "--principal", "desk", "--json"))["entries"]
        assert len(run("audit", "--before", "2020-01-01").splitlines()) == 1
        assert run("audit", "--after", "2020-01-01", "--action", "key.revoke") == shown
        assert [one["action"] for one in found] == ["key.revoke", "key.create"]
        monkeypatch.setenv("NESTOR_TOKEN", old)
        assert "Not authorised" in run("audit", exit_code=1)
        assert "Not found" not in run("keys", "create", "", "--role", "ask", exit_code=2)
