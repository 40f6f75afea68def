"""``nestor apis set``: a value that all calls of a provider need is set once, and then sent, shown and kept."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.onebox import OneboxSettings, create_onebox
from deploy.sockets import serving
from tests.support.commands import run

seen: list[tuple[str, str, str | None, bytes]] = []


class Wiki(BaseHTTPRequestHandler):
    """Answers with one page and records the requests."""

    def do_GET(self) -> None:
        """List, or create."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen.append((self.command, self.path, self.headers.get("Wiki-Version"), body))
        page: Any = {"id": "p1", "title": "Roses"}
        content = json.dumps([page] if self.command == "GET" else page).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """As GET."""
        self.do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write nothing to the terminal."""


@pytest.fixture(scope="module")
def wiki() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Wiki) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = OneboxSettings(tmp_path_factory.mktemp("nestor"), allowed_private_hosts=("127.0.0.1",))
    with serving(create_onebox(settings)) as url:
        yield url


@pytest.fixture(autouse=True)
def nestor(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_URL", url)
    monkeypatch.setenv("COLUMNS", "200")


def document(server: str) -> dict[str, Any]:
    """Two operations of a wiki, each with a space in its path and a version in a header."""
    page = {"type": "object", "properties": {"id": {"type": "string"}, "title": {"type": "string"}}}
    listed = {"type": "array", "items": page}
    shared = [
        {
            "name": "space_id",
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": "The space's id",
        },
        {"name": "Wiki-Version", "in": "header", "required": True, "schema": {"type": "string"}},
    ]
    body = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}

    def answer(schema: dict[str, Any]) -> dict[str, Any]:
        return {"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}}

    return {
        "openapi": "3.1.0",
        "info": {"title": "Wiki", "version": "1"},
        "servers": [{"url": server}],
        "paths": {
            "/spaces/{space_id}/pages": {
                "parameters": shared,
                "get": {
                    "operationId": "listPages",
                    "summary": "List the pages of the wiki",
                    "responses": answer(listed),
                },
                "post": {
                    "operationId": "createPage",
                    "summary": "Create a page of the wiki",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                    "responses": answer(page),
                },
            }
        },
    }


def test_what_every_call_needs_is_set_once(wiki: str, tmp_path: Path) -> None:
    file = tmp_path / "wiki.json"
    file.write_text(json.dumps(document(wiki)))
    run("import", str(file), "--provider", "wiki")
    asked = run("solve", "List the pages of the wiki", exit_code=1)
    assert "space id" in asked
    shown = run("apis", "set", "wiki", "space_id=s-7", "wiki-version=2022-06-28")
    assert "Wiki-Version=2022-06-28  # 2 operations of wiki" in shown
    assert "space_id=s-7" in run("apis", "doctor", "wiki")
    assert json.loads(run("apis", "show", "wiki.listPages"))["parameters"][0]["constant"] == "s-7"

    assert "Roses" in run("solve", "List the pages of the wiki")
    assert seen[-1] == ("GET", "/spaces/s-7/pages", "2022-06-28", b"")
    assert "Roses" in run("solve", 'List the pages of the wiki, space id "s-9"')
    assert seen[-1][:3] == ("GET", "/spaces/s-9/pages", "2022-06-28")

    run("solve", "List the pages of the wiki", "--value", "space_id=s-8")
    assert seen[-1][:3] == ("GET", "/spaces/s-8/pages", "2022-06-28")

    waiting = run("solve", 'Create a page of the wiki with title "Tulips"', exit_code=1)
    assert "/spaces/s-7/pages" in waiting
    assert "2022-06-28" in waiting

    newer = document(wiki)
    newer["paths"]["/spaces/{space_id}/pages"]["parameters"].pop()
    file.write_text(json.dumps(newer))
    report = run("import", str(file), "--provider", "wiki", "--accept-changes")
    assert "the constant 'Wiki-Version' is kept, but no operation uses it now" in " ".join(report.split())
    assert "space_id=s-7" in run("apis", "unset", "wiki", "Wiki-Version")
    assert "has no constants" in run("apis", "unset", "wiki", "space_id")
    assert "space id" in run("solve", "List the pages of the wiki", exit_code=1)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("set", "garden", "space_id"), "is not NAME=VALUE", 2),
        (("set", "garden", "space_id="), "space_id: String should have at least 1 character", 2),
        (("set", "garden", "bed=1"), "No operation of 'garden' takes a parameter 'bed'", 1),
        (("set", "garden", "space_id=Bearer abcdefgh"), "nestor secrets set garden.SCHEME", 1),
        (("unset", "garden", "space_id"), "has no constant 'space_id'", 1),
        (("set", "nobody", "space_id=1"), "No document was imported for a provider 'nobody'", 1),
    ],
)
def test_what_cannot_be_set_says_why(
    wiki: str, tmp_path: Path, arguments: tuple[str, ...], said: str, code: int
) -> None:
    file = tmp_path / "garden.json"
    file.write_text(json.dumps(document(wiki)))
    run("import", str(file), "--provider", "garden")
    assert said in " ".join(run("apis", *arguments, exit_code=code).replace("\u2502", " ").split())
