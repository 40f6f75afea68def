"""Responses that are not what they claim: the step fails with a reason, and independent steps complete."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from executor_svc.main import open_executor
from executor_svc.service import ExecutorService
from executor_svc.settings import ExecutorSettings
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, compiled, ref, step
from tests.support.upstream import serve_raw


def http(body: bytes, content_type: str = "application/json", status: str = "200 OK", **headers: str) -> bytes:
    """The bytes of a response."""
    given = {"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"} | headers
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


DEEP = b"[" * 5_000 + b"]" * 5_000
ANSWERS: dict[str, tuple[bytes, str]] = {
    "html": (http(b"<html>Sign in</html>", "text/html"), "text/html"),
    "html_as_json": (http(b"<html>Sign in</html>"), "not valid JSON"),
    "nan": (http(b'{"a": NaN}'), "not valid JSON"),
    "infinity": (http(b'{"a": 1e999}'), "not valid JSON"),
    "charset": (http(b"\xff\xfe\xfa", "text/plain; charset=utf-8"), "utf-8"),
    "unknown_charset": (http(b"abc", "text/plain; charset=klingon"), "klingon"),
    "not_utf8": (http(b'{"a": "\xff"}'), "not valid JSON"),
    "duplicates": (http(b'{"a": 1, "a": 2}'), "same name"),
    "deep": (http(DEEP), ""),
    "surrogate": (http(b'{"a": "\\ud800"}'), ""),
    "empty": (http(b""), ""),
    "two_values": (http(b'{"a": 1} {"b": 2}'), "not valid JSON"),
    "cut_off": (http(b'{"a": 1}', Content_Length="500"), ""),
    "longer_than_said": (http(b'{"a": 1}', Content_Length="3"), ""),
    "no_http": (b"SSH-2.0-OpenSSH_9.9\r\n", "not valid HTTP"),
    "http09": (b'{"a": 1}', "not valid HTTP"),
    "status_garbage": (b"HTTP/1.1 abc OK\r\n\r\n", "not valid HTTP"),
    "smuggled": (http(b"{}", Transfer_Encoding="chunked"), ""),
    "redirect": (http(b"", status="302 Found", Location="http://169.254.169.254/"), "redirect"),
    "closed": (b"", ""),
}
PROMISED = {"html": None, "charset": "text/plain", "unknown_charset": "text/plain"}


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[ExecutorService]:
    settings = ExecutorSettings(
        database_url=f"sqlite+aiosqlite:///{tmp_path}/executor.db",
        allowed_private_hosts=("127.0.0.1",),
        max_attempts=1,
        circuit_failures=1_000,
    )
    async with open_executor(settings, CollectorRegistry()) as (service, _):
        yield service


async def test_every_hostile_answer_fails_its_own_step_and_no_other(executor: ExecutorService) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode().lstrip("/")
        writer.write(http(b'{"fine": true}') if target == "fine" else ANSWERS[target][0])
        await writer.drain()

    async with serve_raw(script) as host:
        origin = f"http://{host}"
        hostile = [
            api(origin, f"/{name}", name=name, answers=PROMISED.get(name) or "application/json") for name in ANSWERS
        ]
        fine = api(origin, "/fine", name="fine")
        steps = [step(f"bad_{called.name}", called) for called in hostile]
        steps += [step(f"good_{number}", fine, after=(f"good_{number - 1}",) if number else ()) for number in range(5)]
        plan = compiled([*hostile, fine], *steps, answer={"fine": ref("good_4", "fine")})
        request = ExecuteRequest(run_id="run-1", compiled=plan, deadline_ms=10_000)
        async with asyncio.timeout(20):
            finished = [event async for event in executor.execute(request)][-1]
    assert isinstance(finished, ExecutionFinished)
    assert finished.answer[0].value is True
    for record in finished.records:
        if record.step.startswith("good_"):
            assert isinstance(record.outcome, Succeeded), record
        else:
            assert isinstance(record.outcome, Failed), record
            words = ANSWERS[record.step.removeprefix("bad_")][1]
            assert words in record.outcome.message, record
    json.loads(finished.model_dump_json())
