"""Coded answers are decoded in small steps, and end where they hold nothing."""

import asyncio
import gzip
import json
import os
import zlib
from collections.abc import Iterator

import pytest
from aiohttp import web

from executor_svc.adapters.http.coding import Decoder, Undecodable
from tests.support.executing import api
from tests.support.upstream import Upstream
from tests.unit.executor_svc.conftest import Opener

EMPTY_BLOCKS = b"\x00\x00\x00\xff\xff" * 200_000
"""A megabyte of deflate blocks without content."""


def coded(content: bytes, wbits: int, flushed_every: int, level: int = 6, strategy: int = 0) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, wbits, strategy=strategy)
    parts = [content[at : at + flushed_every] for at in range(0, len(content), flushed_every)]
    return b"".join(packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts) + packer.flush()


@pytest.mark.parametrize("held", [b"", b"[" + b" " * 30_000], ids=["nothing", "a little"])
@pytest.mark.parametrize(("name", "wbits"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
@pytest.mark.parametrize("at_once", [1_000, 1_000_000])
def test_coded_data_that_holds_nothing_ends(name: str, wbits: int, held: bytes, at_once: int) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    data = packer.compress(held) + packer.flush(zlib.Z_SYNC_FLUSH) + EMPTY_BLOCKS
    decoder = Decoder(name)
    decoded, taken = bytearray(), 0

    def read() -> None:
        nonlocal decoded, taken
        for at in range(0, len(data), at_once):
            taken = at + at_once
            for piece in decoder.feed(data[at : at + at_once]):
                decoded += piece

    with pytest.raises(Undecodable, match=f"much longer than the content of its {name} data"):
        read()
    assert bytes(decoded) == held
    assert taken < 120_000 or at_once > 120_000


@pytest.mark.parametrize(("name", "wbits"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
@pytest.mark.parametrize("flushed_every", [1_000, 65_536, 3_000_000])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_what_cannot_be_compressed_is_read_whole(name: str, wbits: int, flushed_every: int, level: int) -> None:
    content = os.urandom(3_000_000)
    data = coded(content, wbits, flushed_every, level)
    assert len(data) > len(content)
    decoder = Decoder(name)
    pieces = [piece for at in range(0, len(data), 100_000) for piece in decoder.feed(data[at : at + 100_000])]
    assert b"".join(pieces) + decoder.end() == content


async def test_others_have_turns_while_an_answer_is_decoded(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, turns = 0, list[int]()
    feed = Decoder.feed

    def counted(self: Decoder, data: bytes) -> Iterator[bytes]:
        for piece in feed(self, data):
            turns.append(turn)
            yield piece

    async def others() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    monkeypatch.setattr(Decoder, "feed", counted)
    packed = gzip.compress(json.dumps("a" * 8_000_000).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    upstream.replies("/z", web.Response(body=packed, headers=headers))
    task = asyncio.create_task(others())
    await (await opened())(api(upstream.origin, "/z"))
    task.cancel()
    assert len(turns) > 30
    assert len(set(turns)) == len(turns)
