"""``nestor train instruct`` against a fake model server: killed, resumed, and its output read by other commands."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from evals.data import read_all
from tests.unit.training.instruct.player import Player, playing

KEY = "sk-canary-0042"
SIZES = ("--fields=2", "--subfields=2", "--tools=2", "--single=8", "--multiple=4", "--nested=4", "--concurrency=1")


async def start(*arguments: str) -> Process:
    environment = os.environ | {"THE_KEY": KEY, "COLUMNS": "200"}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.cli", *arguments, stdout=PIPE, stderr=PIPE, env=environment
    )


async def run(*arguments: str) -> tuple[int | None, str, str]:
    process = await start(*arguments)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_a_killed_run_goes_on_and_what_it_writes_is_read(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    options = ("train", "instruct", "--out", out, "--key-env", "THE_KEY", *SIZES)
    async with playing(first := Player(), hold_at=11) as server:
        process = await start(*options, "--model", server.url)
        await server.has_been_asked(11)
        process.send_signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL
        assert server.keys == [f"Bearer {KEY}"] * 11
    lines = (tmp_path / "out/journal.jsonl").read_text().splitlines()
    assert len(lines) == 1 + len(first.asked) == 11
    assert not (tmp_path / "out/instances.jsonl").exists()

    async with playing(second := Player(begin=100)) as server:
        status, told, err = await run(*options, "--model", server.url)
    assert (status, err.strip()) == (0, "")
    assert "| nested | 4 | 4 | 4 | - |" in told
    assert "8 APIs, 16 requests" in told
    assert len(first.asked) + len(second.asked) == 1 + 2 + 4 + 16
    assert not set(first.asked) & set(second.asked)
    everything = "".join(file.read_text() for file in (tmp_path / "out").iterdir())
    assert KEY not in everything + told

    splits = {one.split for one in read_all(tmp_path / "out").instances}
    assert "train" in splits
    status, told, err = await run(
        "eval", "plan", "--data", out, "--planner", "compact", "--split", "train", "--candidates", "gold", "--json"
    )
    assert status == 0, err
    assert json.loads(told)["unknown_gold"] == 0
    status, told, err = await run("train", "data", "--folder", out, "--made", "0", "--out", str(tmp_path / "data"))
    assert status == 0, err
    assert "| out | " in told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "ftp://x"), "not an http or https URL"),
        (("--model", "http://"), "not an http or https URL"),
        (("--model", "http://x:y"), "not an http or https URL"),
        (("--model", "http://127.0.0.1:1", "--key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY is not set"),
    ],
)
async def test_what_cannot_be_asked_is_said_before_anything_is_written(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    status, _, err = await run("train", "instruct", "--out", str(tmp_path / "out"), *options)
    assert status == 2
    assert said in err
    assert not (tmp_path / "out").exists()


async def test_a_server_that_lets_nobody_in_is_said_without_its_key(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    async with playing(Player()) as server:
        address = f"{server.url}/elsewhere"
        status, told, err = await run("train", "instruct", "--out", out, "--key-env", "THE_KEY", "--model", address)
    assert status == 1
    assert "key, model or address; the same command goes on from here" in err
    assert "0 APIs, 0 requests" in told
    assert KEY not in told + err
    status, _, err = await run("train", "instruct", "--out", str(tmp_path), "--model", address)
    assert (status, "holds something else" in err) == (1, True)
    status, _, err = await run("train", "instruct", "--out", out, "--model", address, "--catalogue", str(tmp_path))
    assert (status, "has none of tools.jsonl" in err) == (1, True)
