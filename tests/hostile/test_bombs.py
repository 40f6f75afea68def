"""Decompression bombs: they cost at most the cap and 32 MiB of memory, and the step fails with a reason."""

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.support.upstream import Seen, Upstream, serve_raw

CAP = 4 * 1024 * 1024
MARGIN = 32 * 1024 * 1024
GIB = 1024 * 1024 * 1024


def gzip_bomb(size: int, level: int = 9) -> bytes:
    """``size`` spaces, compressed to about a thousandth of that."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    block = b" " * (1024 * 1024)
    return b"".join([*(packer.compress(block) for _ in range(size // len(block))), packer.flush()])


def deflate_bomb(wbits: int) -> bytes:
    """256 MiB as zlib or raw deflate."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    block = b" " * (1024 * 1024)
    return b"".join([*(packer.compress(block) for _ in range(256)), packer.flush()])


def members() -> bytes:
    """Two hundred thousand empty gzip members."""
    return gzip.compress(b"") * 200_000


def answer(coding: str, body: bytes, status: int = 200, **headers: str) -> Callable[[Seen], Any]:
    """A handler that sends these bytes unchanged."""

    async def send(_: Seen) -> web.Response:
        given = {"Content-Type": "application/json", **({"Content-Encoding": coding} if coding else {}), **headers}
        return web.Response(body=body, status=status, headers=given)

    return send


async def probe(origin: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.hostile.memory_probe", origin, str(CAP), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize(
    ("coding", "bomb", "words"),
    [
        ("gzip", lambda: gzip_bomb(GIB), "larger than"),
        ("GZIP", lambda: gzip_bomb(GIB // 4), "larger than"),
        ("deflate", lambda: deflate_bomb(15), "larger than"),
        ("deflate", lambda: deflate_bomb(-15), "larger than"),
        ("gzip", members, ""),
        ("gzip, gzip", lambda: gzip.compress(gzip_bomb(GIB // 4)), "was not requested"),
        ("br", lambda: b"\x00" * 1_000, "was not requested"),
        ("zstd", lambda: b"\x28\xb5\x2f\xfd" * 1_000, "was not requested"),
        ("gzip", lambda: b"this is not gzip", "not valid gzip"),
        ("gzip", lambda: gzip.compress(b'{"a": 1}')[:-6], "incomplete"),
        ("", lambda: b" " * (64 * 1024 * 1024), "larger than"),
    ],
)
async def test_a_bomb_is_a_failed_step(upstream: Upstream, coding: str, bomb: Callable[[], bytes], words: str) -> None:
    upstream.answers["/bomb"] = answer(coding, await asyncio.to_thread(bomb))
    found = await probe(upstream.origin)
    outcome = found["outcome"]
    assert (outcome["kind"], outcome["reason"], outcome["status"]) == ("failed", "bad_response", 200)
    assert words in outcome["message"]
    assert found["grown"] <= CAP + MARGIN, found


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_the_body_of_an_error_may_be_a_bomb_too(upstream: Upstream, status: int) -> None:
    upstream.answers["/bomb"] = answer("gzip", await asyncio.to_thread(gzip_bomb, GIB // 4), status)
    found = await probe(upstream.origin)
    assert (found["outcome"]["reason"], found["outcome"]["status"]) == ("upstream_error", status)
    assert found["grown"] <= MARGIN, found


HARMLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNK = b"100000\r\n" + b" " * 0x100000 + b"\r\n"


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK),
        (OK + b"Content-Length: 5368709120\r\n\r\n", b" " * 0x100000),
        (OK + b"Connection: close\r\n\r\n", b" " * 0x100000),
        (OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n", gzip.compress(b"")),
        (OK, b"X-Filler: " + b"x" * 1_000 + b"\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"\x00\xff garbage without a line end "),
    ],
    ids=["chunked", "five gigabytes", "until closed", "empty gzip members", "headers", "continue", "garbage"],
)
async def test_an_answer_without_end_is_a_failed_step(head: bytes, piece: bytes) -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/harmless" in await reader.readuntil(b"\r\n\r\n"):
            writer.write(HARMLESS)
            return
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    async with serve_raw(pour) as host:
        found = await probe(f"http://{host}")
    assert found["outcome"]["kind"] == "failed"
    assert found["outcome"]["reason"] in ("bad_response", "timeout")
    assert found["grown"] <= CAP + MARGIN, found
