"""``nestor serve`` that cannot start prints one line with the reason, and no traceback."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from uvicorn.config import STARTUP_FAILURE

from deploy.onebox import OneboxSettings, create_onebox, secrets_hint
from deploy.serve import main
from deploy.sockets import address, listen
from executor_svc.main import create_app as create_executor_svc
from executor_svc.secret_store import SecretStore
from gateway.settings import GatewaySettings
from planner_svc.settings import PlannerSettings
from services.settings import unknown_variables
from tests.support.commands import run

CANARY = "s3cret-canary"
begin = SecretStore.__init__


def refused(tmp_path: Path, *arguments: str) -> str:
    line = [sys.executable, "-m", "deploy.cli", "serve", "--port", "0", "--data", str(tmp_path / "data"), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert CANARY not in done.stderr
    assert "Not started: " in done.stderr.splitlines()[-1]
    return done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS", CANARY, "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS: it must be JSON"),
        ("NESTOR_EXECUTOR_KEEP_DAYS", CANARY, "NESTOR_EXECUTOR_KEEP_DAYS: Input should be a valid number"),
        ("NESTOR_GATEWAY_TOKEN", "short", "NESTOR_GATEWAY_TOKEN: should have at least 8 characters ("),
        (
            "NESTOR_GATEWAY_PRINCIPALS",
            f'[{{"name": "{CANARY}", "token": "short"}}]',
            "NESTOR_GATEWAY_PRINCIPALS in 0.token: ",
        ),
        ("NESTOR_EXECUTOR_SECRETS", CANARY, "the secrets setting is not a JSON object"),
    ],
)
def test_a_setting_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    assert words in refused(tmp_path)


@pytest.mark.parametrize(
    ("service", "name", "value", "words"),
    [
        ("planner_svc", "NESTOR_PLANNER_PROOF_KEY", CANARY, "should have at least 32"),
        (
            "gateway",
            "NESTOR_GATEWAY_DATABASE_URL",
            f"postgresql+asyncpg://x:{CANARY}@h:port/db",
            "it must be",
        ),
        (
            "demo_svc",
            "NESTOR_DEMO_DATABASE_URL",
            f"mysql://x:{CANARY}@h/db",
            "it must be sqlite+aiosqlite",
        ),
        ("retriever_svc", "NESTOR_RETRIEVER_REDIS_URL", f"http://:{CANARY}@h", "it must be redis://"),
        ("gateway", "NESTOR_GATEWAY_DEMO_URL", f"{CANARY}:8002", "it must be an http or https URL"),
        ("gateway", "NESTOR_GATEWAY_LOG_LEVEL", CANARY, "it must be DEBUG, INFO"),
        ("gateway", "NESTOR_GATEWAY_TRUSTED_PROXIES", f'["{CANARY}"]', "in 0: it must be an address"),
        ("gateway", "NESTOR_GATEWAY_ALLOWED_HOSTS", f'["https://{CANARY}"]', "in 0: it must be a host"),
        ("executor_svc", "NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS", f'["http://{CANARY}"]', "in 0: it must be a host"),
    ],
)
def test_a_service_of_its_own_does_not_print_a_bad_secret(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    service: str,
    name: str,
    value: str,
    words: str,
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="2"):
        main([service])
    said = capsys.readouterr().err
    assert name in said
    assert words in said
    assert CANARY not in said


@pytest.mark.parametrize(
    ("service", "name", "value", "words"),
    [
        ("gateway", "NESTOR_GATEWAY_DATABASE_URL", f"postgresql+asyncpg://x:{CANARY}@127.0.0.1:1/db", "refused"),
        ("executor_svc", "NESTOR_EXECUTOR_DATABASE_URL", "sqlite+aiosqlite:////dev/null/x.db", "/dev/null"),
        ("demo_svc", "NESTOR_DEMO_DATABASE_URL", f"sqlite+aiosqlite:///{__file__}", "file is not a database"),
        ("demo_svc", "NESTOR_DEMO_ENCODER", "/no/model", "'/no/model' is neither a model"),
        ("planner_svc", "NESTOR_PLANNER_MODEL", "/no/model", "/no/model has no planner.onnx"),
        ("retriever_svc", "NESTOR_RETRIEVER_INDEX", "pgvector", "needs a catalogue in PostgreSQL"),
    ],
)
def test_a_service_that_cannot_start_says_why_in_a_line_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    service: str,
    name: str,
    value: str,
    words: str,
) -> None:
    own = service.removesuffix("_svc").upper()
    monkeypatch.setenv(f"NESTOR_{own}_DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path}/own.db")
    monkeypatch.setenv(name, value)
    monkeypatch.setenv(f"NESTOR_{own}_LOG_JSON", "true")
    line = [sys.executable, "-m", "deploy.serve", service, "--port", "0"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=180, check=False)
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == STARTUP_FAILURE
    assert [line["level"] for line in said if words in line["event"]] == ["error"]
    assert not any("Traceback" in str(line) or CANARY in str(line) for line in said)


def test_a_data_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gateway.db").write_text("no database")
    assert "file is not a database" in refused(tmp_path).partition("Not started: ")[0]


def test_a_setting_without_effect_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    misspelt = ["NESTOR_GATEWAY_POLICY_DENNY", "NESTOR_PLANNER_ENCODER", "NESTOR_PLANNER_SERVED_URLS"]
    for name in (*misspelt, "NESTOR_GATEWAY_POLICY_DENY", "NESTOR_PLANNER_SERVED_URL", "NESTOR_EXECUTOR_OTHER"):
        monkeypatch.setenv(name, CANARY)
    assert unknown_variables(GatewaySettings, PlannerSettings) == misspelt


@pytest.mark.parametrize("service", ["GATEWAY", "PLANNER_SVC"])
def test_variables_that_kubernetes_sets_for_services_are_no_settings(
    monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    port = ["PORT", *(f"PORT_8000_TCP{end}" for end in ("", "_PROTO", "_PORT", "_ADDR"))]
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", *port):
        monkeypatch.setenv(f"NESTOR_{service}_{name}", CANARY)
    misspelt = "NESTOR_GATEWAY_TRUSTED_PORT"
    monkeypatch.setenv(misspelt, CANARY)
    assert unknown_variables(GatewaySettings, PlannerSettings) == [misspelt]


def test_a_secrets_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "executor.json"
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS_FILE", str(file))
    file.write_text(CANARY)
    assert f"the secrets file {file} is not a JSON object" in refused(tmp_path)
    file.write_text('{"crm.key": {"hosts": ["crm.example"]}}')
    assert "crm.key" in refused(tmp_path)


def test_a_missing_secrets_file_of_the_executor_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none.json"
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS_FILE", str(file))
    with pytest.raises(SystemExit):
        main(["executor_svc", "--port", "0"])
    said = capsys.readouterr().err
    assert f"the secrets file {file} cannot be read: FileNotFoundError" in said
    assert "Traceback" not in said


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as bound:
        bound.listen()
        port = address(bound).partition(":")[2]
        assert f"ddress already in use: 127.0.0.1:{port}" in refused(tmp_path, "--port", port)


def test_a_port_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    run("serve", "--port", "65536", exit_code=2)
    with pytest.raises(SystemExit, match="2"):
        main(["gateway", "--port", "65536"])
    assert "--port must be 0 to 65535" in capsys.readouterr().err


def test_the_secrets_are_read_once_and_the_setting_is_kept_beside_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[SecretStore]()

    def reading(store: SecretStore, *given: Any) -> None:
        read.append(store)
        begin(store, *given)

    monkeypatch.setattr(SecretStore, "__init__", reading)
    entry = '{"%s": {"value": "a-secret", "hosts": ["api.example"]}}'
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS", entry % "crm.key")
    create_onebox(OneboxSettings(tmp_path / "data", entry % "sandbox.key"))
    assert [sorted(one.entries) for one in read] == [["crm.key", "sandbox.key"]]
    monkeypatch.setenv("NESTOR_EXECUTOR_DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path}/executor.db")
    with TestClient(create_executor_svc()):
        assert len(read) == 2


def test_a_secrets_file_that_is_not_there_yet_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "elsewhere" / "keys.json"
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS_FILE", str(file))
    create_onebox(OneboxSettings(tmp_path / "data"))
    assert (file.read_text().strip(), file.stat().st_mode & 0o777) == ("{}", 0o600)


def test_a_data_folder_of_its_own_is_told_to_those_who_set_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NESTOR_EXECUTOR_SECRETS_FILE", raising=False)
    own = tmp_path / "data" / "secrets" / "executor.json"
    assert f"NESTOR_EXECUTOR_SECRETS_FILE={own}\n" in secrets_hint(tmp_path / "data")
    assert secrets_hint(Path("var")) == ""
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS_FILE", str(own))
    assert secrets_hint(tmp_path / "data") == ""


def test_a_base_model_that_does_not_exist_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    base = str(tmp_path / "none.gguf")
    told = run("train", "llm", "--base", base, "--data", str(tmp_path), "--out", str(tmp_path / "o"), exit_code=2)
    assert "--base" in told
    assert "does not exist" in told
