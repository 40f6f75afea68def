"""``nestor runs`` against a running Nestor and a service that drops connections."""

import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.onebox import OneboxSettings, create_onebox
from deploy.sockets import serving
from services.contracts.api import ImportRequest
from tests.support.commands import import_document
from tests.support.house import REPORT, House, serve_house

runner = CliRunner()
BOOK = 'Book the meeting room "{}".'
PAUSE = "Pause for 3 seconds."


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, House]]:
    with serve_house() as house:
        settings = OneboxSettings(tmp_path_factory.mktemp("nestor"), None, (house.host,))
        with serving(create_onebox(settings)) as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("NESTOR_URL", url)
            request = ImportRequest(document=house.text, provider="house", server=f"http://{house.host}")
            import_document(request)
            yield url, house


@pytest.fixture
def house(world: tuple[str, House], monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("NESTOR_URL", world[0])
    monkeypatch.setenv("COLUMNS", "200")
    yield world[1]
    world[1].dropping.clear()
    world[1].going_on.set()


def run(*arguments: str, exit_code: int = 0) -> str:
    result = runner.invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def asked(*arguments: str, exit_code: int = 0) -> Any:
    return json.loads(run(*arguments, exit_code=exit_code))


def waiting_for_approval(room: str) -> str:
    found: str = asked("solve", "--json", BOOK.format(room), exit_code=1)["id"]
    return found


def in_doubt(house: House, *rooms: str) -> str:
    """A run in doubt: each booking took effect, but its response was an error."""
    house.dropping.update(rooms)
    query = " and ".join(f'book the meeting room "{room}"' for room in rooms) + "."
    found = asked("solve", "--json", "--mutations", "allow_unsure", query.capitalize(), exit_code=1)
    assert found["status"] == "in_doubt", found
    house.dropping.clear()
    run_id: str = found["id"]
    return run_id


def test_a_text_that_steers_the_terminal_is_escaped_in_json(house: House) -> None:
    hostile = BOOK.format("\x9b31mgreen\u202e")
    shown = run("solve", "--json", "--dry-run", hostile, exit_code=1)
    found = json.loads(shown)
    shown += run("runs", "show", "--json", found["id"]) + run("runs", "list", "--json", "--limit", "1")
    assert found["query"] == hostile
    assert shown.count("\\u009b31mgreen\\u202e") >= 3
    assert not {"\x9b", "\u202e"} & set(shown)


def test_without_waiting_the_id_is_printed_and_the_run_goes_on(house: House) -> None:
    house.going_on.clear()
    run_id = run("solve", "--no-wait", PAUSE).strip()
    assert asked("runs", "show", "--json", run_id)["status"] in ("planning", "running")
    house.going_on.set()
    events = [json.loads(line) for line in run("runs", "watch", "--json", run_id).splitlines()]
    assert [event["event"]["kind"] for event in events] == ["planned", "step_started", "step_finished", "finished"]
    assert events[-1]["event"]["run"]["status"] == "succeeded"
    shown = run("runs", "watch", run_id)
    assert "planned: 1 step\nvar1 house.pause …\nvar1 house.pause ✓" in shown
    assert "succeeded" in shown


def test_the_same_key_gives_the_same_run(house: House) -> None:
    first, again = (run("solve", "--no-wait", "--idempotency-key", "k1", PAUSE).strip() for _ in range(2))
    assert first == again
    assert asked("solve", "--json", "--idempotency-key", "k1", PAUSE)["id"] == first
    assert "another request" in runner.invoke(app, ["solve", "--idempotency-key", "k1", BOOK]).stderr
    run("solve", "--idempotency-key", "ü", PAUSE, exit_code=2)


def test_a_run_is_cancelled(house: House) -> None:
    house.going_on.clear()
    run_id = run("solve", "--no-wait", PAUSE).strip()
    assert f"{run_id} is " in run("runs", "cancel", run_id)
    assert "cancelled" in run("runs", "watch", run_id, exit_code=1)
    assert "ended already" in runner.invoke(app, ["runs", "cancel", run_id]).stderr


def test_several_runs_are_cancelled_save_those_that_have_ended(house: House) -> None:
    first, second = (waiting_for_approval(room) for room in ("opal", "jade"))
    run("runs", "cancel", first)
    told = runner.invoke(app, ["runs", "cancel", first, second])
    assert told.exit_code == 1
    assert "ended already" in told.stderr
    assert told.stdout == f"{second} is cancelled\n"


def test_a_run_that_is_not_there(house: House) -> None:
    for command in ("watch", "show", "cancel", "approve", "confirm", "reject"):
        assert "Not found" in runner.invoke(app, ["runs", command, "nowhere"]).stderr


def test_runs_are_listed_by_state_time_and_text(house: House) -> None:
    ids = [waiting_for_approval(room) for room in ("violet", "purple", "violet 2")]
    violet = asked("runs", "list", "--json", "--contains", "violet")
    assert [line["id"] for line in violet["runs"]] == [ids[2], ids[0]]
    states = ("--status", "needs_approval", "--status", "in_doubt", "--contains", "violet")
    assert len(asked("runs", "list", "--json", *states)["runs"]) == 2
    assert asked("runs", "list", "--json", "--status", "cancelled", "--contains", "violet")["runs"] == []
    assert asked("runs", "list", "--json", "--before", "2020-01-01")["runs"] == []
    assert asked("runs", "list", "--json", "--after", "2999-01-01T00:00:00")["runs"] == []
    first = run("runs", "list", "--limit", "1", "--contains", "violet")
    assert ids[2] in first
    cursor = first.split("--cursor ")[1].strip()
    assert ids[0] in run("runs", "list", "--limit", "1", "--contains", "violet", "--cursor", cursor)


def test_a_run_is_confirmed_and_rejected(house: House) -> None:
    run_id = asked("solve", "--json", 'Get the report "costs".')["id"]
    assert run("runs", "confirm", run_id) == f"{run_id} is confirmed\n"
    assert "confirmed by anonymous at " in run("runs", "show", run_id)
    assert [line["id"] for line in asked("runs", "list", "--json", "--feedback", "confirmed")["runs"]] == [run_id]
    rejected = asked("runs", "reject", "--json", "--reason", "last year's \x1b[2J", run_id)
    assert rejected["feedback"]["verdict"] == "rejected"
    assert asked("runs", "show", "--json", run_id) == rejected
    shown = run("runs", "show", run_id)
    assert "rejected by anonymous at " in shown
    assert "last year's \ufffd[2J" in shown
    assert f"{run_id}  succeeded  rejected" in run("runs", "list", "--feedback", "rejected")
    assert run_id not in run("runs", "list", "--feedback", "none")
    run("runs", "reject", "--reason", "x" * 1_001, run_id, exit_code=2)
    waiting = waiting_for_approval("beige")
    assert "once it has ended" in runner.invoke(app, ["runs", "reject", waiting]).stderr


def test_a_confirmed_run_becomes_a_demonstration(house: House) -> None:
    run_id = asked("solve", "--json", 'Get the report "plans".')["id"]
    result = runner.invoke(app, ["demos", "add", run_id])
    assert (result.exit_code, "not confirmed" in result.stderr) == (1, True)
    run("runs", "confirm", run_id)
    demo_id = run("demos", "add", run_id).split()[0]
    assert [(demo["id"], demo["source"]) for demo in asked("demos", "list", "--json")["demos"]] == [(demo_id, run_id)]
    run("runs", "reject", run_id)
    assert asked("demos", "list", "--json")["demos"] == []


def test_a_waiting_run_shows_its_requests(house: House) -> None:
    shown = run("runs", "show", waiting_for_approval("blue"))
    assert f"POST http://{house.host}/bookings" in shown
    assert '{"room": "blue"}' in shown
    assert "nestor runs approve" in shown


def test_an_approval_from_a_script(house: House) -> None:
    run_id = waiting_for_approval("green")
    assert "green" not in house.booked
    done = asked("runs", "approve", "--json", "--on-behalf-of", "Ada", run_id)
    assert (done["status"], done["approval"]["on_behalf_of"]) == ("succeeded", "Ada")
    assert house.booked.count("green") == 1
    other = waiting_for_approval("grey")
    assert f"{other} is running" in run("runs", "approve", "--no-wait", other)
    assert "✓" in run("runs", "watch", other)


@pytest.mark.parametrize(("answer", "booked"), [("y", 1), ("n", 0)])
def test_an_approval_at_a_terminal_shows_the_requests_first(house: House, answer: str, booked: int) -> None:
    room = f"terminal-{answer}"
    run_id = waiting_for_approval(room)
    said = at_a_terminal(["runs", "approve", run_id], "Approve this plan and run it?", answer)
    before, _, after = said.partition("Approve this plan")
    assert "/bookings" in before
    assert f'{{"room": "{room}"}}' in before
    assert ("succeeded" in after) == bool(booked)
    assert house.booked.count(room) == booked


def test_solving_at_a_terminal_asks_for_the_approval_at_once(house: House) -> None:
    said = at_a_terminal(["solve", BOOK.format("salon")], "Approve this plan and run it?", "y")
    assert '{"room": "salon"}' in said.partition("Approve this plan")[0]
    assert house.booked.count("salon") == 1


@pytest.mark.parametrize(("answer", "told"), [("n", "Aborted"), ("y", "Not found")])
def test_removing_a_provider_at_a_terminal_asks_first(house: House, answer: str, told: str) -> None:
    assert told in at_a_terminal(["apis", "remove", "nobody"], "Remove nobody with all its APIs?", answer)


def at_a_terminal(arguments: list[str], prompt: str, answer: str) -> str:
    """Run a command at a real terminal, type the answer at the prompt, and return the output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "deploy.cli", *arguments]
    environment = {**os.environ, "COLUMNS": "200", "TERM": "dumb"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said, answered = b"", False
        while select.select([ours], [], [], 60)[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not answered and prompt.encode() in said:
                os.write(ours, answer.encode() + b"\n")
                answered = True
        process.terminate()
    os.close(ours)
    assert answered, said
    return said.decode()


def test_doubts_are_listed_and_settled_one_by_one(house: House) -> None:
    run_id = in_doubt(house, "red", "pink")
    listed = [doubt for doubt in asked("runs", "doubts", "--json") if doubt["run"] == run_id]
    assert [(doubt["step"], doubt["request"]["body"]) for doubt in listed] == [
        ("var1", {"room": "red"}),
        ("var2", {"room": "pink"}),
    ]
    shown = run("runs", "doubts")
    assert f"nestor runs resolve {run_id} var2 --outcome" in shown
    assert '{"room": "pink"}' in shown
    value = '{"id": "bkg_red", "room": "red"}'
    left = run("runs", "resolve", run_id, "var1", "--outcome", "succeeded", "--value", value)
    assert "var2" in left
    assert "in_doubt" in left
    done = asked("runs", "resolve", "--json", run_id, "var2", "--outcome", "retry", "--message", "never came")
    assert done["status"] == "succeeded", done
    assert [record["outcome"]["value"]["room"] for record in done["steps"]] == ["red", "pink"]
    assert done["steps"][0]["outcome"]["value"]["id"] == "bkg_red"
    assert (house.booked.count("red"), house.booked.count("pink")) == (1, 2)
    assert run_id not in run("runs", "doubts")
    assert "Conflict" in runner.invoke(
        app, ["runs", "resolve", run_id, "var1", "--outcome", "failed"]
    ).stderr  # fmt: skip


def test_a_call_that_did_not_happen_fails_its_run(house: House) -> None:
    run_id = in_doubt(house, "ochre")
    shown = run("runs", "resolve", run_id, "var1", "--outcome", "failed", "--message", "asked the house")
    assert "✗" in shown
    assert "failed" in shown
    assert house.booked.count("ochre") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--outcome", "maybe"),
        ("--outcome", "retry", "--value", "1"),
        ("--outcome", "succeeded", "--value", "{"),
        ("--outcome", "succeeded", "--value", "NaN"),
        ("--outcome", "succeeded", "--value", "[" * 10_000),
        ("--outcome", "succeeded", "--item", "-1"),
        ("--outcome", "failed", "--message", "x" * 2_000),
    ],
)
def test_a_settlement_that_makes_no_sense_is_a_usage_error(house: House, wrong: tuple[str, ...]) -> None:
    run("runs", "resolve", "some-run", "var1", *wrong, exit_code=2)


def test_a_large_value_is_named_and_printed_in_full(house: House) -> None:
    solved = asked("solve", "--json", 'Get the report "sales".')
    stored = solved["steps"][0]["outcome"]["stored"]
    shown = run("runs", "show", solved["id"])
    assert f"stored as {stored['id']}" in shown
    assert REPORT not in shown
    assert asked("runs", "value", solved["id"], stored["id"]) == {"name": "sales", "text": REPORT}
    assert "Not found" in runner.invoke(app, ["runs", "value", solved["id"], "0" * 64]).stderr


def test_watching_goes_on_where_a_connection_broke(
    house: House, world: tuple[str, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = asked("solve", "--json", PAUSE)["id"]
    with cutting(world[0]) as proxy:
        monkeypatch.setenv("NESTOR_URL", proxy.url)
        result = runner.invoke(app, ["runs", "watch", "--json", run_id])
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"]["kind"] for event in events] == ["planned", "step_started", "step_finished", "finished"]
    assert "Retrying" in result.stderr
    asked_for = [line for line in proxy.requests if "/events" in line]
    assert len(asked_for) >= 2
    assert f"after={events[0]['id']}" in asked_for[1]


def test_a_gateway_that_stays_away_is_given_up(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.cli.gateway._PAUSES_S", (0.01, 0.01))
    monkeypatch.setenv("NESTOR_URL", "http://127.0.0.1:9")
    result = runner.invoke(app, ["runs", "watch", "some-run"])
    assert (result.exit_code, result.stderr.count("Retrying")) == (3, 2)
    assert "nestor runs watch some-run" in result.stderr


class Proxy:
    """Forwards connections. It cuts the first event stream off after its first event."""

    def __init__(self, listener: socket.socket, target: tuple[str, int]) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.requests: list[str] = []
        self._listener, self._target, self._cut = listener, target, False

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as upstream:
            threading.Thread(target=self._back, args=(upstream, client), daemon=True).start()
            while request := client.recv(65536):
                self.requests.append(request.partition(b"\r\n")[0].decode())
                upstream.sendall(request)

    def _back(self, upstream: socket.socket, client: socket.socket) -> None:
        forwarded = b""
        try:
            while answer := upstream.recv(65536):
                seen = forwarded + answer
                first = seen.find(b"\nid: ")
                end = seen.find(b"\n\n", first) if first >= 0 and b"text/event-stream" in seen else -1
                if end >= 0 and not self._cut:
                    self._cut = True
                    client.sendall(seen[len(forwarded) : end + 2])
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(answer)
                forwarded = seen
        except OSError:
            return


@contextmanager
def cutting(url: str) -> Iterator[Proxy]:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(listener, (host, int(port)))
        threading.Thread(target=proxy.serve, daemon=True).start()
        yield proxy
        listener.shutdown(socket.SHUT_RDWR)
