"""Tools and requests made with a model behind a real server, which answers rightly, wrongly, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rich.console import Console
from rich.progress import Progress

from evals.data import DataError, licence, read_all
from services.clients.chat import ChatError, Patience, open_chat
from services.contracts.api import Api
from tests.support.chat_server import ChatServer, Reply, answers, calls, hangs, says, serve_chat
from tests.unit.training.instruct.player import AGAIN, ALL_TOOLS, Player, playing
from training.instruct.asking import Asker, Terms
from training.instruct.export import Stats, summary, write
from training.instruct.journal import JOURNAL, Head, Journal
from training.instruct.making import Maker, Wanted, made_apis

SMALL = Wanted(fields=2, subfields=2, tools=2, single=6, multiple=4, nested=4)
NONE = SMALL.model_copy(update={"single": 0, "multiple": 0, "nested": 0})
AT_ONCE = Terms(concurrency=1, pauses_s=(0.0,))
WRITTEN = {JOURNAL, "tools.jsonl", "instances.jsonl", "info.json", "stats.json"}
KEY = "sk-canary-4711"


async def make(
    server: ChatServer,
    out: Path,
    wanted: Wanted = SMALL,
    terms: Terms = AT_ONCE,
    catalogue: tuple[Api, ...] | None = None,
) -> Stats:
    chat = open_chat(server.url, "player", key=SecretStr(KEY))
    with Journal(out, Head(model=chat.model, catalogue=None, seed=wanted.seed)) as journal:
        try:
            with Progress(console=Console(quiet=True)) as progress:
                await Maker(Asker(chat, journal, terms), journal, wanted, catalogue, progress).make()
        finally:
            await chat.aclose()
            stats = write(out, chat.model, journal, wanted, catalogue or made_apis(journal), None)
    return stats


def journal_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / JOURNAL).read_text().splitlines()]


def files_in(folder: Path) -> set[str]:
    return {str(place.relative_to(folder)) for place in folder.rglob("*") if not place.is_dir()}


def changed(call: int, **arguments: Any) -> Any:
    """Spoils an answer: these arguments in a call, None to leave one out."""

    def spoil(right: dict[str, Any]) -> dict[str, Any]:
        given = right["calls"][call]["arguments"] | arguments
        right["calls"][call]["arguments"] = {name: value for name, value in given.items() if value is not None}
        return right

    return spoil


def without_arguments(right: dict[str, Any]) -> dict[str, Any]:
    right["calls"][0]["arguments"] = {}
    return right


FAULTS = {
    "form": lambda right: "I would rather not.",
    "declined": lambda right: {},
    "request": lambda right: right | {"query": f"{right['query']} with {right['calls'][0]['name']}"},
    "calls": lambda right: right | {"calls": []},
    "unknown tool": lambda right: right | {"calls": [right["calls"][0] | {"name": "rm"}]},
    "unknown parameter": changed(0, colour="red"),
    "missing parameter": without_arguments,
    "value not said": lambda right: right | {"query": "Tell me about something entirely different now"},
}


async def test_everything_is_made_checked_and_counted(tmp_path: Path) -> None:
    player = Player(FAULTS.values())
    async with playing(player) as server:
        stats = await make(server, tmp_path / "out")
    assert {name: (one.wanted, one.asked, one.accepted) for name, one in stats.stages.items()} == {
        "fields": (2, 1, 2),
        "subfields": (4, 2, 4),
        "tools": (8, 4, 8),
        "single": (6, 12, 6),
        "multiple": (4, 6, 4),
        "nested": (4, 4, 4),
    }
    dropped = stats.stages["single"].dropped | stats.stages["multiple"].dropped
    assert dropped == dict.fromkeys(FAULTS, 1)
    assert sum(AGAIN in prompt for prompt in player.asked) == len(FAULTS)
    found = read_all(tmp_path / "out")
    assert {api.name for api in found.apis} == {tool["api_name"] for tool in ALL_TOOLS}
    assert [len(one.calls) for one in found.instances] == [1] * 6 + [2] * 8
    nested = [one for one in found.instances if one.id.startswith("nested")]
    assert all(str(one.calls[1].args).count("$var_1.") == 1 for one in nested)
    assert sum(sum(kinds.values()) for kinds in stats.requests.values()) == 14
    assert "player" in licence(tmp_path / "out")
    assert json.loads((tmp_path / "out/stats.json").read_text())["tokens"] == stats.tokens > 0
    printed = summary(stats, tmp_path / "out")
    assert "| nested | 4 | 4 | 4 | - |" in printed
    assert "declined 1" in printed


async def test_what_is_there_is_not_asked_for_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with playing(Player()) as server:
        first = await make(server, out, SMALL.model_copy(update={"single": 2}))
    before = (out / JOURNAL).read_text()
    with (out / JOURNAL).open("a") as file:
        file.write('{"task":"single/2","tok')  # killed in the middle of a line
    async with playing(player := Player(begin=100)) as server:
        again = await make(server, out, SMALL.model_copy(update={"single": 2}))
        assert (player.asked, again) == ([], first)
        assert (out / JOURNAL).read_text() == before
        await make(server, out)
    assert len(player.asked) == 4
    assert (out / JOURNAL).read_text().startswith(before)
    assert len(read_all(out).instances) == 14


async def test_a_task_that_brings_nothing_is_given_up_for_good(tmp_path: Path) -> None:
    fields = says('["Travel"]')
    async with serve_chat(fields, fields, fields, fields, says('["Trains", "Planes"]'), says("no")) as server:
        stats = await make(server, tmp_path / "out")
        assert stats.stages["fields"].dropped == {"duplicate": 3}
        assert (stats.stages["tools"].asked, stats.stages["tools"].dropped) == (6, {"form": 6})
        asked = len(server.asked)
        assert await make(server, tmp_path / "out") == stats
        assert len(server.asked) == asked


async def test_requests_are_made_for_ones_own_apis(tmp_path: Path) -> None:
    async with playing(Player()) as server:
        await make(server, tmp_path / "tools", NONE)
        own = read_all(tmp_path / "tools").apis
        stats = await make(server, tmp_path / "out", catalogue=own)
    assert read_all(tmp_path / "out").apis == own
    assert {name: one.accepted for name, one in stats.stages.items() if one.accepted} == {
        "single": 6,
        "multiple": 4,
        "nested": 4,
    }


async def test_the_budget_is_kept(tmp_path: Path) -> None:
    terms = Terms(concurrency=3, max_tokens=500, budget=3_000, pauses_s=())
    async with playing(Player()) as server:
        stats = await make(server, tmp_path / "out", terms=terms)
        assert 0 < stats.tokens <= 3_000
        assert stats.stages["fields"].accepted == 2
        assert stats.stages["nested"].asked == 0
        more = await make(server, tmp_path / "out", terms=Terms(concurrency=3))
    assert more.stages["nested"].accepted == 4


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '["\\ud800", "x"]',
        "[" + '{"api_name": "x"},' * 500 + "{}]",
        '["' + "x" * 30_000 + '"]',
        "[1e999]",
        '["../../etc/passwd", "/tmp/x", "..", "\\u0000"]',
        "",
    ],
)
async def test_hostile_answers_are_dropped_and_write_nothing_else(tmp_path: Path, answer: str) -> None:
    out = tmp_path / "out"
    async with serve_chat(says(answer)) as server:
        stats = await make(server, out)
    assert (stats.stages["fields"].asked, stats.apis) == (3, 0)
    assert files_in(tmp_path) == {f"out/{name}" for name in WRITTEN}


async def test_the_key_is_sent_and_never_written(tmp_path: Path) -> None:
    async with serve_chat(says(json.dumps(["Travel", f"Key {KEY}"])), says(json.dumps([KEY]))) as server:
        await make(server, tmp_path / "out", NONE)
        assert set(server.keys) == {f"Bearer {KEY}"}
    assert all(KEY not in file.read_text() for file in (tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("replies", "trouble", "asked"),
    [
        ([answers(401)], "denied_access", 1),
        ([answers(400, "no such parameter")], "refused", 1),
        ([answers(500)], "down", 2),
        ([says('["Travel"]'), calls(), hangs()], "hung", 4),
    ],
)
async def test_a_server_that_does_not_work_ends_the_run_and_what_came_is_kept(
    tmp_path: Path, replies: list[Reply], trouble: str, asked: int
) -> None:
    chat_terms = Terms(concurrency=1, pauses_s=(0.0,), timeout_s=300)
    async with serve_chat(*replies) as server:
        chat = open_chat(server.url, "player", patience=Patience(0.3, 0.3) if trouble == "hung" else None)
        with Journal(tmp_path / "out", Head(model="player", catalogue=None, seed=7)) as journal:
            maker = Maker(Asker(chat, journal, chat_terms), journal, SMALL, None, Progress(console=Console(quiet=True)))
            with pytest.raises(ChatError) as error:
                await maker.make()
        await chat.aclose()
        assert (error.value.trouble, len(server.asked)) == (trouble, asked)
    assert len(journal_of(tmp_path / "out")) == 1 + (2 if trouble == "hung" else 0)


async def test_one_question_that_is_refused_or_cut_is_not_the_end(tmp_path: Path) -> None:
    replies = [says('["Travel", "Kit', finish="length"), answers(400, "too long"), answers(500), Player().reply()]
    async with serve_chat(*replies) as server:
        stats = await make(server, tmp_path / "out", NONE)
    assert stats.stages["fields"].dropped == {"cut": 1, "refused": 1}
    assert stats.stages["tools"].accepted == 8


def test_a_folder_is_of_one_run(tmp_path: Path) -> None:
    head = Head(model="a", catalogue=None, seed=7)
    with Journal(tmp_path / "out", head), pytest.raises(DataError, match="another process"):
        Journal(tmp_path / "out", head)
    for other in (head.model_copy(update={"model": "b"}), head.model_copy(update={"catalogue": "x"})):
        with pytest.raises(DataError, match="begun with another model"):
            Journal(tmp_path / "out", other)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/tools.jsonl").write_text("")
    with pytest.raises(DataError, match="holds something else"):
        Journal(tmp_path / "own", head)
    assert not (tmp_path / "own" / JOURNAL).exists()


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "x",
        '{"model":"a","catalogue":null,"seed":7}',
        '{"task":"fields","tokens":1,"more":1}',
        '{"task":"tools/../../x/y","tokens":1}',
    ],
)
def test_a_journal_that_is_none_is_an_error(tmp_path: Path, line: str) -> None:
    head = Head(model="a", catalogue=None, seed=7)
    with Journal(tmp_path / "out", head):
        pass
    with (tmp_path / "out" / JOURNAL).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(DataError, match=JOURNAL):
        Journal(tmp_path / "out", head)


@pytest.mark.parametrize(
    "line",
    [
        '{"task":"tools/Travel/Trains","tokens":1,"found":[{"api_name":""}]}',
        '{"task":"tools/Travel/Trains","tokens":1,"found":[7]}',
        '{"task":"single/0","tokens":1,"found":[7]}',
        '{"task":"single/0","tokens":1,"found":[{"query":"q","calls":[{"api":7}]}]}',
    ],
)
async def test_a_journal_with_what_is_no_tool_or_request_is_an_error(tmp_path: Path, line: str) -> None:
    with Journal(tmp_path / "out", Head(model="player", catalogue=None, seed=7)):
        pass
    with (tmp_path / "out" / JOURNAL).open("a") as file:
        file.write(f"{line}\n")
    async with playing(Player()) as server:
        with pytest.raises(DataError, match="the journal has"):
            await make(server, tmp_path / "out")
