"""``nestor secrets`` and ``nestor login`` against a running Nestor and a bank with an authorization server."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.onebox import OneboxSettings, create_onebox
from deploy.sockets import serving
from tests.support.authorization import CLIENT, SECRET, AuthorizationServer, serve_authorization

runner = CliRunner()
KEY = "api-key-canary"


@pytest.fixture(scope="module")
def bank() -> Iterator[AuthorizationServer]:
    """The bank, served in a thread, because the command line runs its own event loops."""
    up: Future[AuthorizationServer] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serve_authorization() as server:
            up.set_result(server)
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    yield up.result(20)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nestor")


@pytest.fixture(scope="module")
def url(data: Path, bank: AuthorizationServer) -> Iterator[str]:
    settings = OneboxSettings(data, allowed_private_hosts=("127.0.0.1",))
    with serving(create_onebox(settings)) as url:
        yield url


@pytest.fixture(autouse=True)
def nestor(url: str, data: Path, bank: AuthorizationServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_URL", url)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS_FILE", str(data / "secrets" / "executor.json"))
    monkeypatch.setenv("NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS", '["127.0.0.1"]')


def run(*arguments: str, exit_code: int = 0, answers: str | None = None) -> str:
    result = runner.invoke(app, arguments, input=answers)
    assert result.exit_code == exit_code, result.output
    assert "canary" not in result.output
    return result.output


def document(bank: AuthorizationServer) -> dict[str, Any]:
    """Three ways to authenticate: a login, a declared key, and a key that is declared as a parameter."""
    flow = {"authorizationUrl": f"{bank.origin}/authorize", "tokenUrl": f"{bank.origin}/token", "scopes": {"read": "r"}}
    ok = {"responses": {"200": {"description": "ok"}}}
    city = {"name": "city", "in": "query", "required": True, "schema": {"type": "string"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Bank", "version": "1"},
        "servers": [{"url": bank.origin}],
        "components": {
            "securitySchemes": {
                "login": {"type": "oauth2", "flows": {"authorizationCode": flow}},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-Key"},
            }
        },
        "paths": {
            "/api": {"get": {"operationId": "getBalance", "summary": "Get the balance of my account",
                             "security": [{"login": ["read"]}], **ok}},
            "/rates": {"get": {"operationId": "listRates", "summary": "List the exchange rates of all currencies",
                               "security": [{"apiKey": []}], **ok}},
            "/branches": {"get": {"operationId": "findBranches", "summary": "Find the bank's branches in a city", **ok,
                                  "parameters": [city, city | {"name": "api_key"}]}},
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def imported(url: str, bank: AuthorizationServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Import the bank's document and return the output."""
    file = tmp_path_factory.mktemp("documents") / "bank.json"
    file.write_text(json.dumps(document(bank)))
    os.environ["NESTOR_URL"] = url
    try:
        return runner.invoke(app, ["import", str(file), "--provider", "bank"], env={"COLUMNS": "200"}).output
    finally:
        del os.environ["NESTOR_URL"]


def test_an_import_ends_with_what_is_missing(imported: str) -> None:
    lines = [line.split("#")[0].strip() for line in imported.splitlines() if "nestor " in line]
    assert lines == [
        "nestor secrets set bank.apiKey",
        "nestor secrets set bank.api_key",
        "nestor login bank --scheme login",
    ]


def test_a_plan_needs_no_key_and_a_run_says_what_to_do(imported: str, bank: AuthorizationServer) -> None:
    planned = json.loads(run("solve", "List the exchange rates of all currencies", "--dry-run", "--json"))
    assert (planned["status"], planned["proof"]["missing"]) == ("planned", ["bank.apiKey"])
    assert [d["severity"] for d in planned["diagnostics"] if d["code"] == "missing_credential"] == ["warning"]
    failed = json.loads(run("solve", "List the exchange rates of all currencies", "--json", exit_code=1))
    assert failed["status"] == "failed"
    assert "nestor secrets set bank.apiKey" in failed["reason"]
    assert bank.upstream.count("/rates") == 0


def test_a_key_is_set_listed_and_tried(imported: str, bank: AuthorizationServer, data: Path) -> None:
    assert "unavailable" in run("secrets", "test", "bank.apiKey", exit_code=1)
    shown = run("secrets", "set", "bank.apiKey", answers=f"{KEY}\n")
    assert f"only for {bank.host}." in shown
    file = data / "secrets" / "executor.json"
    assert json.loads(file.read_text())["bank.apiKey"] == {
        "hosts": [bank.host], "value": KEY, "in": "header", "name": "X-Key", "scheme": "api_key",
    }  # fmt: skip
    assert file.stat().st_mode & 0o777 == 0o600
    assert "bank.apiKey: accepted. GET /rates answered 200." in run("secrets", "test", "bank.apiKey")
    assert "configured" in next(line for line in run("secrets", "list", "bank").splitlines() if "bank.apiKey" in line)
    assert "bank.apiKey" in run("secrets", "list")
    solved = json.loads(run("solve", "List the exchange rates of all currencies", "--json"))
    assert solved["status"] == "succeeded"
    assert bank.upstream.seen[-1].headers["X-Key"] == KEY


def test_a_key_that_is_a_parameter_is_asked_of_nobody(imported: str, bank: AuthorizationServer) -> None:
    run("secrets", "set", "bank.api_key", answers=f"{KEY}-2\n")
    solved = json.loads(run("solve", "Find the bank's branches in the city 'Porto'", "--json"))
    assert solved["status"] == "succeeded"
    assert bank.upstream.seen[-1].query == f"city=Porto&api_key={KEY}-2"
    assert "api_key=***" in json.dumps(solved)
    assert "canary" not in json.dumps(solved)


def test_a_login(imported: str, bank: AuthorizationServer, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[threading.Thread]()

    def browse(address: str) -> None:
        thread = threading.Thread(target=lambda: httpx2.get(address, follow_redirects=True, trust_env=False))
        opened.append(thread)
        thread.start()

    monkeypatch.setattr("webbrowser.open", browse)
    assert "Are these the right hosts" in run("login", "bank", "--client-id", CLIENT, answers="n\n", exit_code=1)
    assert opened == []
    shown = run("login", "bank", "--client-id", CLIENT, answers="y\n")
    assert f"bank.login is set in {data / 'secrets' / 'executor.json'}, only for {bank.host}." in shown
    opened[0].join()
    assert "accepted" in run("secrets", "test", "bank.login")
    bank.valid.clear()  # the executor refreshes the token and keeps the rotated one
    assert "accepted" in run("secrets", "test", "bank.login")
    kept = json.loads((data / "secrets" / "executor.json").read_text())["bank.login"]
    assert bank.refreshes[kept["refresh_token"]]
    bank.denied = True
    assert "the login was refused: access_denied" in run("login", "bank", "--yes", exit_code=1)
    bank.denied = False


def test_a_secret_goes_to_no_unknown_token_endpoint_unasked(imported: str, bank: AuthorizationServer) -> None:
    asked = bank.upstream.count("/token")
    options = ("--yes", "--client-secret", "--client-id", CLIENT, "--host", "api.example")
    shown = run("login", "bank", *options, exit_code=1, answers="client-s3cret-canary\n")  # no confirmation
    assert f"tokens come from {bank.host}" in shown
    assert "Are these the right hosts?" in shown
    assert bank.upstream.count("/token") == asked


@pytest.mark.parametrize(
    ("arguments", "answers", "words"),
    [
        (("set", "nodot"), KEY, "PROVIDER.SCHEME"),
        (("set", "nobody.key"), KEY, "use --host"),
        (("set", "bank.apiKey"), "", "shorter than 6 characters"),
        (("set", "bank.apiKey", "--host", "https://evil.example/"), KEY, "is not `host` or `host:port`"),
        (("set", "bank.apiKey", "--token-url", "https://login.example/token"), KEY, "--token-url needs --client-id"),
        (("set", "bank.apiKey", "--key", __file__), KEY, "needs --certificate and --key"),
        (("set", "bank.apiKey", "--tenant", "a b"), KEY, "the entry: bank.apiKey: tenants.0: String should match"),
        (("remove", "nobody.key"), None, "is not in"),
    ],
)
def test_what_cannot_be_set(imported: str, arguments: tuple[str, ...], answers: str | None, words: str) -> None:
    shown = " ".join(run("secrets", *arguments, exit_code=2, answers=answers).replace("│", " ").split())
    assert words in shown
    assert "Value error" not in shown
    assert "validation" not in shown


def test_a_later_document_does_not_move_a_secret(imported: str, bank: AuthorizationServer, tmp_path: Path) -> None:
    run("secrets", "set", "bank.apiKey", answers=f"{KEY}\n")
    file = tmp_path / "bank.json"
    file.write_text(json.dumps(document(bank) | {"servers": [{"url": "https://evil.example"}]}))
    run("import", str(file), "--provider", "bank", "--accept-changes")
    assert f"only for {bank.host}." in run("secrets", "set", "bank.apiKey", answers=f"{KEY}\n")
    assert "not bound to evil.example" in run("secrets", "test", "bank.apiKey", exit_code=1)
    file.write_text(json.dumps(document(bank)))
    run("import", str(file), "--provider", "bank", "--accept-changes")
    run("secrets", "remove", "bank.apiKey")
    assert "unavailable" in run("secrets", "test", "bank.apiKey", exit_code=1)


def described(bank: AuthorizationServer, schemes: dict[str, Any], tmp_path: Path, provider: str) -> str:
    """Import a document with one operation for each scheme and return the output."""
    ok = {"responses": {"200": {"description": "ok"}}}
    read = {name: {"operationId": f"read{name}", "security": [{name: []}], **ok} for name in schemes}
    root = {
        "openapi": "3.0.3",
        "info": {"title": provider, "version": "1"},
        "servers": [{"url": bank.origin}],
        "components": {"securitySchemes": schemes},
        "paths": {"/api": {"get": read.popitem()[1]}, **{f"/{name}": {"get": one} for name, one in read.items()}},
    }
    file = tmp_path / f"{provider}.json"
    file.write_text(json.dumps(root))
    return run("import", str(file), "--provider", provider)


def test_a_client_where_the_document_names_no_token_endpoint(
    bank: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank, "public", False)  # clients must authenticate
    flow = {"authorizationUrl": f"{bank.origin}/authorize", "scopes": {}}
    shown = described(bank, {"sso": {"type": "oauth2", "flows": {"implicit": flow}}}, tmp_path, "office")
    assert "nestor secrets set office.sso" in shown
    assert ("--token-url" in shown, "nestor login" in shown) == (True, False)
    assert "nestor secrets set office.sso" in run("login", "office", exit_code=2)
    client = ("secrets", "set", "office.sso", "--client-id", CLIENT)
    assert "use --token-url" in run(*client, exit_code=2, answers=SECRET)
    assert "not an http or https URL" in run(*client, "--token-url", "bank/token", exit_code=2, answers=SECRET)
    run(*client, "--token-url", f"{bank.origin}/token", answers=SECRET)
    assert "accepted" in run("secrets", "test", "office.sso")
    run(*client, answers=SECRET)  # only the secret is new
    assert "accepted" in run("secrets", "test", "office.sso")


def test_a_key_that_is_the_whole_authorization_header(bank: AuthorizationServer, tmp_path: Path) -> None:
    said = {"type": "apiKey", "in": "header", "name": "Authorization"}
    shown = described(bank, {"own": said | {"description": "Your key"}}, tmp_path, "garden")
    assert "the whole value" in shown
    token = bank.issue("access")
    run("secrets", "set", "garden.own", answers=f"Bearer {token}\n")
    assert "accepted" in run("secrets", "test", "garden.own")
    described(bank, {"own": said | {"description": "Write Bearer and your token"}}, tmp_path, "garage")
    for pasted in (f"Bearer {token}\n", f"{token}\n"):
        run("secrets", "set", "garage.own", answers=pasted)
        assert "accepted" in run("secrets", "test", "garage.own")


def test_a_password_alone_is_not_taken_for_the_user_name(bank: AuthorizationServer, tmp_path: Path) -> None:
    described(bank, {"door": {"type": "http", "scheme": "basic"}}, tmp_path, "gate")
    assert "use --username" in run("secrets", "set", "gate.door", exit_code=2, answers="pass-w0rd\n")
    assert "is set in" in run("secrets", "set", "gate.door", "--username", "ada", answers="pass-w0rd\n")
    assert "is set in" in run("secrets", "set", "gate.door", answers="ada\npass-w0rd\n")


def test_a_name_that_nobody_asks_for_is_told_those_that_are_asked_for(imported: str) -> None:
    assert "bank.apiKey, bank.api_key, bank.login" in run("secrets", "set", "bank.apikey", exit_code=2, answers=KEY)
    assert "bank.apiKey, bank.api_key, bank.login" in run("secrets", "test", "bank.apikey", exit_code=1)


def test_a_credential_that_the_document_does_not_declare(bank: AuthorizationServer, tmp_path: Path) -> None:
    rooms = {
        "operationId": "listRooms",
        "summary": "List the rooms of the inn",
        "responses": {"200": {"description": "-"}},
    }
    root = {"openapi": "3.0.3", "info": {"title": "Inn", "version": "1"}, "servers": [{"url": bank.origin}]}
    file = tmp_path / "inn.json"
    file.write_text(json.dumps(root | {"paths": {"/api": {"get": rooms}}}))
    command = ("import", str(file), "--provider", "inn")
    run(*command)
    ask = ("solve", "List the rooms of the inn", "--provider", "inn")
    assert "with --auth" in run(*ask, exit_code=1)
    assert "with --auth" in run("secrets", "set", "inn.bearer", exit_code=2, answers=KEY)
    assert "with --auth" in run("apis", "doctor", "inn")
    assert "must be one of" in run(*command, "--auth", "token", exit_code=2)
    assert "nestor secrets set inn.bearer" in run(*command, "--auth", "bearer", "--accept-changes")
    run("secrets", "set", "inn.bearer", answers=bank.issue("access"))
    assert "accepted" in run("secrets", "test", "inn.bearer")
    run(*ask)
    assert "! inn.listRooms" in run(*command, "--yes", exit_code=1)  # without the flag the credential would be lost


@pytest.mark.parametrize("host", ["http://x.example", "x.example/path", "x y"])
def test_a_host_that_is_none_is_named_before_the_value_is_read(host: str) -> None:
    said = run("secrets", "set", "other.key", "--host", host, exit_code=2, answers="a-secret-value")
    assert f"{host} is not `host` or `host:port`" in " ".join(said.split())
    assert "will be sent only to" not in said
