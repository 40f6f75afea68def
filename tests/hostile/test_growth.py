"""Thousands of failing calls, each to another address: the memory they leave behind is bounded."""

import asyncio
import gc
import itertools
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from executor_svc.adapters.http import HttpAdapter, open_http_adapter
from executor_svc.models import Call
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Api, SecretKind, SecurityRequirement
from services.contracts.outcome import Failed
from tests.support.executing import api
from tests.support.upstream import serve_raw

MANY, PLENTY = "many.example", "plenty.example"


def rotating() -> Any:
    """A `getaddrinfo` that returns another address at every call."""
    addresses = itertools.cycle(f"127.0.{n >> 8}.{n & 255}" for n in range(256, 65_000))

    def answer(host: str, port: int, *_more: object) -> list[tuple[object, ...]]:
        if host.endswith("unknown.example"):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        address = "127.0.0.1" if host.endswith(PLENTY) else next(addresses)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    return answer


def failing(host: str, n: int) -> Api:
    """The n-th failing API; each has its own address."""
    needed = SecurityRequirement(
        scheme="oauth",
        kind=SecretKind.OAUTH2,
        secret="test.oauth",
        token_url=f"http://{host}/token/{n}",
        scopes=(f"scope-{n}",),
    )
    match n % 6:
        case 0:
            return api(f"http://n{n}.unknown.example", name=f"op{n}")
        case 1:
            return api(f"http://{MANY}:{20_000 + n}", name=f"op{n}")  # nothing listens there
        case 2:
            return api(f"http://10.0.0.{n % 50}", name=f"op{n}")  # function caches have their own bounds
        case 3:
            return api(f"http://n{n}.private.example", name=f"op{n}")
        case 4:
            return api(f"http://{host}", name=f"op{n}", security=((needed,),))
        case _:
            return api(f"http://{PLENTY}:{host.rpartition(':')[2]}", name=f"op{n}")


REFUSAL = (
    b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
)


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(REFUSAL)
    await writer.drain()


@pytest.fixture
async def opened(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[HttpAdapter, str]]:
    """An adapter, and the address of the only host that answers."""
    async with serve_raw(refuse) as host:
        monkeypatch.setattr(socket, "getaddrinfo", rotating())
        secrets = {"test.oauth": {"client_id": "c", "client_secret": "s3cret-s3cret", "hosts": [host]}}
        settings = ExecutorSettings(
            allowed_private_hosts=(host, MANY, PLENTY), max_attempts=1, secrets=SecretStr(json.dumps(secrets))
        )
        monkeypatch.setattr("executor_svc.adapters.http.guard._MAX_ADMITTED", 100)
        monkeypatch.setattr("executor_svc.adapters.http.hosts._MAX_HOSTS", 100)
        monkeypatch.setattr("executor_svc.adapters.http.adapter._MAX_PAGINGS", 100)
        monkeypatch.setattr("executor_svc.adapters.http.tokens._MAX_TOKENS", 100)
        async with open_http_adapter(settings, SecretStore.load(None, settings.secrets)) as adapter:
            yield adapter, host


async def fail(adapter: HttpAdapter, host: str, numbers: range) -> int:
    """Make these calls, which must all fail. Returns the number of objects afterwards."""
    deadline = asyncio.get_running_loop().time() + 30
    for start in range(0, len(numbers), 100):
        calls = [Call(failing(host, n), {}, f"run/{n}", deadline) for n in numbers[start : start + 100]]
        for result in await asyncio.gather(*map(adapter.call, calls)):
            assert isinstance(result.outcome, Failed)
            assert result.outcome.reason in ("connection", "refused", "credential", "upstream_error")
    gc.collect()
    return len(gc.get_objects())


async def test_two_thousand_failures_more_leave_nothing_more(opened: tuple[HttpAdapter, str]) -> None:
    await fail(*opened, range(1, 6_000, 6))  # fills the HTTP client's own cache of a thousand names
    before = await fail(*opened, range(6_000, 8_000))
    grown = await fail(*opened, range(8_000, 10_000)) - before
    assert grown < 100  # one object for each call of one kind would already be over three hundred
