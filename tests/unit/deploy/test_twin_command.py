"""``nestor twin`` as a process: what it prints, what it serves, and how it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
from typer.testing import CliRunner

import tests.vendors
from deploy.cli import app

DOCUMENTS = Path(tests.vendors.__file__).parent / "documents"
LINE = [sys.executable, "-m", "deploy.cli", "twin"]


def test_a_twin_is_served_until_a_signal(tmp_path: Path) -> None:
    items = tmp_path / "items.json"
    items.write_text('{"/books/31": {"title": "Salt"}}', encoding="utf-8")
    options = ["--port", "0", "--token", "a-long-token", "--items", str(items), "--provider", "library"]
    line = [*LINE, str(DOCUMENTS / "library.yaml"), *options]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(6)]
        server = told[-1].split("--server ")[1].strip()
        assert "8 operations" in told[0]
        assert '"library.member"' in told[3]
        headers = {"Authorization": "Bearer a-long-token"}
        assert httpx2.get(f"{server}/books/31", headers=headers).json()["title"] == "Salt"
        assert httpx2.get(f"{server}/books/31").status_code == 401
        assert "City Library" in httpx2.get(f"{server}/.twin/document").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_shown_document_sends_clients_to_the_twin_for_tokens() -> None:
    line = [*LINE, str(DOCUMENTS / "depot.yaml"), "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(6)]
        server = told[-1].split("--server ")[1].strip()
        assert f"{server}/.twin/token" in httpx2.get(f"{server}/.twin/document").text
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_twin_is_called_as_the_service_would_be(tmp_path: Path) -> None:
    root = {"openapi": "3.0.3", "info": {"title": "Orders API", "version": "1"}, "paths": {"/orders": {"get": {}}}}
    document = tmp_path / "orders.json"
    document.write_text(json.dumps(root | {"servers": [{"url": "https://api.acme.com/v1"}]}), encoding="utf-8")
    with subprocess.Popen([*LINE, str(document), "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "A twin of acme-orders-api answers" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    text, items = tmp_path / "text.yaml", tmp_path / "items.json"
    text.write_text("no: document", encoding="utf-8")
    items.write_text('{"/nothing/1": {}}', encoding="utf-8")
    library = str(DOCUMENTS / "library.yaml")
    for arguments, status, said in (
        ([str(text)], 1, "openapi"),
        ([library, "--items", str(items)], 1, "/nothing/1"),
        ([library, "--items", str(text)], 1, "items"),
        ([library, "--token", "short"], 2, "token"),
    ):
        result = CliRunner().invoke(app, ["twin", *arguments, "--port", "0"])
        assert (result.exit_code, said in result.output) == (status, True), result.output
