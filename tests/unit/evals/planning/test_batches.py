"""A language model that is asked by files: prompts out, answers in, a second round, and whatever answers may be."""

import json
import math
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deploy.cli import app
from evals.data import DataError
from evals.planning.batches import Answers, NotAnswered, RecordingModel, ReplayingModel, prompt_id, read_answers
from services.clients.answers import Completion
from services.clients.chat import ChatError
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.worlds import ROWS, TOOLS

Row = dict[str, Any]
SOLUTIONS = {row["query"]: row["calls"] for row in ROWS[:3]}
MESSAGES = [{"role": "system", "content": "Plan."}, {"role": "user", "content": "Weather in Faro"}]


def call(data: Path, *options: str | Path) -> Result:
    return CliRunner().invoke(app, ["eval", "plan", "--data", str(data), *map(str, options)])


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def asked_of(row: Row) -> str:
    """The request in a prompt: the first thing that is said after the system's message and the demonstrations."""
    return next(str(one["content"]) for one in row["body"]["messages"] if one["content"] in {r["query"] for r in ROWS})


def solved(row: Row) -> str:
    """What a model writes that knows the solutions."""
    calls = [
        {"name": one["api"], "label": one["label"].replace("_", ""), "arguments": one["args"]}
        for one in SOLUTIONS.get(asked_of(row), [])
    ]
    return json.dumps({"calls": calls}).replace("$var_", "$var")


def answered(row: Row, text: str) -> Row:
    """A line of a batch's answers."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    body = {"object": "chat.completion", "model": "oracle-1", "choices": [choice], "usage": {"prompt_tokens": 7}}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "batch_1", "custom_id": row["custom_id"], "response": response, "error": None}


def written(file: Path, rows: Sequence[Row | str]) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def round_of(data: Path, name: str, answer: Callable[[Row], str], *options: str | Path) -> tuple[list[Row], Path]:
    """Write prompts and have them answered; the prompts, and the file of answers."""
    prompts = data.parent / f"{name}-requests.jsonl"
    result = call(data, "--requests-out", prompts, *options)
    assert result.exit_code == 0, result.output
    rows = rows_of(prompts)
    assert f"{len(rows)} prompts written" in result.output
    answers = [answered(row, answer(row)) for row in reversed(rows)]  # in no order
    return rows, written(data.parent / f"{name}-responses.jsonl", answers)


def measured(data: Path, *options: str | Path) -> Row:
    result = call(data, "--json", *options)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_prompts_leave_and_answers_are_measured(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", TOOLS, ROWS)
    rows, answers = round_of(data, "first", solved, "--candidates", "given")
    assert [asked_of(row) for row in rows] == [row["query"] for row in ROWS]
    for row in rows:
        assert row.keys() == {"custom_id", "method", "url", "body"}
        assert (row["method"], row["url"]) == ("POST", "/v1/chat/completions")
        assert row["body"].keys() == {"model", "messages", "max_completion_tokens", "temperature", "response_format"}
        assert row["body"]["response_format"]["type"] == "json_schema"
        assert row["body"]["messages"][0]["role"] == "system"
    assert len({row["custom_id"] for row in rows}) == len(rows)
    assert len(rows[0]["custom_id"]) <= 64  # what a batch takes
    lines = tmp_path / "lines.jsonl"
    told = measured(data, "--candidates", "given", "--responses-in", answers, "--predictions", lines)
    assert (told["planner"], told["model"], told["n"], told["format_acc"]) == ("served", "oracle-1", 4, 100.0)
    # The fourth needs an API that nobody describes: the model says that nothing fits.
    assert told["full_match"] == told["pass_rate"] == told["ran"] == 75.0
    assert told["answers"] == {"planned": 75.0, "needs_input": 0.0, "no_plan": 25.0, "failed": 0.0}
    first = rows_of(lines)[0]
    assert first["outputs"] == [{"output": solved(rows[0]), "problem": ""}]
    assert [row["sure"] for row in rows_of(lines)] == [0.8] * 4, "the model's own confidence"
    odds = math.log(0.8 / 0.2)
    signs = ("plans", "refuses", "sure of a plan", "sure of a refusal", "calls", "calls that change something")
    assert [[round(row["signs"][name], 4) for name in signs] for row in rows_of(lines)] == [
        [1, 0, round(odds, 4), 0, 1, 0],
        [1, 0, round(odds, 4), 0, 2, 0],
        [1, 0, round(odds, 4), 0, 2, 0],
        [0, 1, 0, round(odds, 4), 0, 0],
    ]
    # The same prompts, whenever they are written, and other ones under other conditions.
    again, _ = round_of(data, "again", solved, "--candidates", "given")
    assert again == rows
    gold, _ = round_of(data, "gold", solved, "--candidates", "gold")
    assert len(gold) == 3  # without a candidate nobody is asked
    assert gold[0]["custom_id"] not in {row["custom_id"] for row in rows}


def test_a_second_round_repairs(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", TOOLS, ROWS[:2])

    def at_first(row: Row) -> str:
        return solved(row).replace('"city"', '"town"') if asked_of(row) == ROWS[0]["query"] else solved(row)

    rows, first = round_of(data, "first", at_first)
    told = measured(data, "--responses-in", first)  # who does not go on has no answer to it
    assert (told["answers"]["failed"], told["answers"]["planned"], told["format_acc"]) == (50.0, 50.0, 100.0)
    assert call(data, "--responses-in", first).stderr.strip().startswith("2 of 3 prompts are answered.")
    more, second = round_of(data, "second", solved, "--responses-in", first)
    assert len(more) == 1
    roles = [one["role"] for one in more[0]["body"]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert '"town"' in more[0]["body"]["messages"][2]["content"]
    assert "town" in more[0]["body"]["messages"][3]["content"]  # what the compiler found
    assert more[0]["custom_id"] not in {row["custom_id"] for row in rows}
    told = measured(data, "--responses-in", second, "--responses-in", first)
    assert (told["full_match"], told["answers"]["planned"]) == (100.0, 100.0)
    none, _ = round_of(data, "third", solved, "--responses-in", first, "--responses-in", second)
    assert none == []


def test_a_second_round_shows_what_was_looked_up(tmp_path: Path) -> None:
    rows = [ROWS[0] | {"query": "Find a hotel in Faro"}]  # with one candidate, the weather is not among them
    data = folder(tmp_path / "data", TOOLS, rows)
    need = json.dumps({"calls": [], "need": ["the weather of a city"]})
    first, answers = round_of(data, "first", lambda _: need, "--k", "1")
    call_it = {"name": "getWeather", "label": "var1", "arguments": {"city": "Faro"}}
    second, more = round_of(
        data, "second", lambda _: json.dumps({"calls": [call_it]}), "--k", "1", "--responses-in", answers
    )
    shown = ["getWeather" in row["body"]["messages"][0]["content"] for row in (*first, *second)]
    assert shown == [False, True]
    told = measured(data, "--k", "1", "--responses-in", answers, "--responses-in", more)
    assert (told["full_match"], told["pass_rate"], told["format_acc"]) == (100.0, 100.0, 100.0)


def test_a_wish_for_operations_has_no_signs(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", TOOLS, ROWS[:2])
    need = json.dumps({"calls": [], "need": ["the weather of a city"]})
    given = ("--candidates", "given")
    _, answers = round_of(data, "first", lambda row: solved(row) if asked_of(row) == ROWS[0]["query"] else need, *given)
    measured(data, *given, "--responses-in", answers, "--predictions", tmp_path / "lines.jsonl")
    first, second = rows_of(tmp_path / "lines.jsonl")
    assert (first["status"], first["signs"]["plans"]) == ("planned", 1)
    assert (second["status"], second["signs"]) == ("no_plan", None), "and not those of the request before"


def test_what_could_not_be_read_is_no_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_PLANNER_SERVED_REPAIRS", "0")
    data = folder(tmp_path / "data", TOOLS, ROWS[:2])
    _, answers = round_of(data, "first", lambda row: "I cannot." if asked_of(row) == ROWS[0]["query"] else solved(row))
    told = measured(data, "--responses-in", answers)
    assert (told["format_acc"], told["full_match"]) == (50.0, 50.0)


def test_a_batch_with_everything_wrong_in_it(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", TOOLS, ROWS)
    rows, _ = round_of(data, "first", solved)
    error = answered(rows[2], "") | {"response": None, "error": {"code": "x", "message": "the server\nburnt down"}}
    lines: list[Row | str] = [
        "",
        "{",
        error,
        answered(rows[0], solved(rows[0])),
        answered(rows[0], "{}"),  # again, and worse
        answered({"custom_id": "nestor-of-another"}, "{}"),
        error,
        # Nothing of rows[1] and rows[3].
    ]
    answers = written(tmp_path / "answers.jsonl", lines)
    result = call(data, "--json", "--responses-in", answers, "--predictions", tmp_path / "lines.jsonl")
    assert result.exit_code == 0, result.output
    assert result.stderr.strip().splitlines() == [
        "1 of 4 prompts are answered.",
        "1 have an error in place of an answer.",
        "2 have no line.",
        "1 answers belong to no prompt of this measurement.",
        "1 lines answer what was answered before; the first answer counts.",
        "Not read: answers.jsonl, line 2: invalid JSON",
    ]
    told = json.loads(result.stdout)
    assert (told["answers"]["failed"], told["full_match"], told["format_acc"]) == (75.0, 25.0, 25.0)
    assert "the batch says (None): the server burnt down" in rows_of(tmp_path / "lines.jsonl")[2]["reason"]
    # What has no answer, or an error, is asked again; an answer wins over an error that came before.
    more, again = round_of(data, "again", solved, "--responses-in", answers)
    assert [row["custom_id"] for row in more] == [row["custom_id"] for row in rows[1:]]
    assert measured(data, "--responses-in", answers, "--responses-in", again)["full_match"] == 75.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--planner", "compact", "--requests-out", "x"], "only the planner 'served' is asked by files"),
        (["--requests-out", "/nowhere/at/all"], "cannot be written"),
        (["--responses-in", "/nowhere/at/all"], "cannot be read"),
        (["--responses-in", "EMPTY"], "there is no answer of a batch: empty.jsonl is empty"),
        (["--responses-in", "DATA/tools.jsonl"], "there is no answer of a batch: tools.jsonl, line 1: no custom_id"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, options: list[str], says: str) -> None:
    data = folder(tmp_path / "data", TOOLS, ROWS[:1])
    empty = written(tmp_path / "empty.jsonl", [])
    result = call(data, *(one.replace("EMPTY", str(empty)).replace("DATA", str(data)) for one in options))
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.output.replace("\n", "")
    assert "Traceback" not in result.output


def ok(body: Any, **more: Any) -> str:
    return json.dumps({"custom_id": "a", "response": {"status_code": 200, "body": body}} | more)


GOOD = ok({"choices": [{"message": {"content": "yes"}}]})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (GOOD, Completion("yes", finish="stop", tokens=1)),
        (GOOD.replace("yes", "y" * 5000), Completion("y" * 5000, finish="stop", tokens=1)),
        (GOOD.replace('"yes"}', '"y"}, "finish_reason": "length"'), Completion("y", finish="length", tokens=1)),
        (ok({"choices": [{"message": {"content": None}}]}), Completion("", finish="stop")),
        (ok({"choices": []}), "the answer is JSON that is not a completion"),
        (ok({"choices": [7]}), "the answer is an invalid choice"),
        (ok("text"), "the batch says (200): text"),
        (ok(None), "the batch says (200): no answer"),
        (ok({"error": {"message": "too long"}}) .replace("200", "400"), "the batch says (400): too long"),
        (ok({}, error={"message": 7}), "the batch says (200): no answer"),
        (ok({}, response=["x"]), "the batch says (None): no answer"),
        (ok({}, error="x " * 1000), None),
    ],
)  # fmt: skip
async def test_answers_of_all_kinds(tmp_path: Path, line: str, found: Completion | str | None) -> None:
    answers = await read_answers([written(tmp_path / "a.jsonl", [line])])
    assert answers.unreadable == []
    if found is None:
        assert len(str(answers.found["a"])) < 400
    else:
        assert answers.found == {"a": found}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("null", "no custom_id"),
        ("[]", "no custom_id"),
        ('{"custom_id": 7}', "no custom_id"),
        ('{"custom_id": ""}', "no custom_id"),
        ('{"custom_id": "b", "response": NaN}', "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("\udcff", "invalid JSON"),
    ],
)
async def test_lines_that_are_none(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(f"{line}\n{GOOD}\n".encode(errors="surrogateescape"))
    answers = await read_answers([file])
    assert list(answers.found) == ["a"]
    assert len(answers.unreadable) == 1
    assert answers.unreadable[0].startswith(f"a.jsonl, line 1: {why}")
    with pytest.raises(DataError, match="there is no answer of a batch"):
        await read_answers([written(tmp_path / "b.jsonl", ["{}"])])


async def test_a_line_of_100_mb_costs_one_answer_and_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with file.open("wb") as out:
        out.write(b'{"custom_id": "b", "x": "')
        for _ in range(100):
            out.write(b"x" * 1_000_000)
        out.write(f'"}}\n{GOOD}\n'.encode() + b"y" * 5_000_000)  # and one without an end
    tracemalloc.start()
    answers = await read_answers([file])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert list(answers.found) == ["a"]
    assert [one.partition(": ")[0] for one in answers.unreadable] == ["a.jsonl, line 1", "a.jsonl, line 3"]
    assert peak < 20_000_000


async def test_the_two_models() -> None:
    recording = RecordingModel("m", 0.5)
    key = prompt_id(MESSAGES)
    for _ in range(2):
        with pytest.raises(NotAnswered, match=key):
            await recording.complete(MESSAGES, max_tokens=9, deadline_s=0, extra={"response_format": {"type": "x"}})
    assert recording.prompts == 1
    assert prompt_id([*MESSAGES, {"role": "user", "content": "And?"}]) != key
    assert prompt_id([{"role": "system", "content": "Plan."}, {"role": "user", "content": "Weather"}]) != key

    answers = Answers(found={key: Completion("here")}, models={"b", "a"})
    replaying = ReplayingModel(answers, "m", recording)
    assert replaying.model == "a, b"
    assert (await replaying.complete(MESSAGES, max_tokens=9, deadline_s=0)).text == "here"
    with pytest.raises(NotAnswered):
        await replaying.complete(MESSAGES[:1], max_tokens=9, deadline_s=0)
    assert recording.prompts == 2
    with pytest.raises(ChatError, match="no answer"):
        await ReplayingModel(answers, "m").complete(MESSAGES[1:], max_tokens=9, deadline_s=0)
    assert ReplayingModel(Answers(), "m").model == "m"
