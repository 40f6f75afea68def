"""Server-side request forgery: hundreds of ways to name an inner host, and a listener that no call may reach.

Every variant is tested end to end: an API with that server, through the real adapter. The listener listens on all
addresses of the loopback interface, at the port that the variants name.
"""

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from executor_svc.adapters.http import HttpAdapter, open_http_adapter
from executor_svc.models import Call
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import SecretKind, SecurityRequirement
from services.contracts.outcome import Failed
from tests.support.connects import connects
from tests.support.executing import api, parameter
from tests.support.upstream import Seen, Upstream

INNER_V4 = (
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
)  # fmt: skip
INNER_V6 = (
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "100::1",
    "64:ff9b:1::7f00:1", "5f00::1", "3fff::1", "4000::1",
)  # fmt: skip
NAMES = (
    "localhost", "LOCALHOST", "localhost.", "sub.localhost", "localhost.localdomain", "ip6-localhost", "metadata",
    "metadata.google.internal", "instance-data", "kubernetes.default.svc", "router.local", "127.0.0.1.",
)  # fmt: skip

URLS = (
    "HTTP://127.0.0.1:{}/", " http://127.0.0.1:{}/", "http:127.0.0.1:{}/", "http:/127.0.0.1:{}/", "http:///127.0.0.1:{}/",
    "http:\\\\127.0.0.1:{}\\", "//127.0.0.1:{}/", "127.0.0.1:{}", "https://127.0.0.1:{}/", "ws://127.0.0.1:{}/",
    "ftp://127.0.0.1:{}/", "gopher://127.0.0.1:{}/_GET", "http+unix://%2Frun%2Fdocker.sock:{}/", "file:///etc/hostname#{}",
    "http://127.0.0.1:{}@127.0.0.1/", "http://127.0.0.1:0{}/", "http://[::ffff:127.0.0.1%25lo]:{}/", "http://[v1.::1]:{}/",
)  # fmt: skip


def spellings(text: str) -> Iterator[str]:
    """Spellings of an IPv4 address that some resolver or parser accepts."""
    address = ipaddress.IPv4Address(text)
    number, parts = int(address), text.split(".")
    a, b, c, d = map(int, parts)
    yield text
    yield str(number)
    yield hex(number)
    yield f"0{number:o}"
    yield f"{a}.{(b << 16) + (c << 8) + d}"
    yield f"{a}.{b}.{(c << 8) + d}"
    yield ".".join(f"0{part:o}" for part in (a, b, c, d))
    yield ".".join(f"0x{part:x}" for part in (a, b, c, d))
    yield ".".join(f"{part:03d}" for part in (a, b, c, d))
    yield f"{a}.{b}.{c}.{d}."
    yield f"[::ffff:{text}]"
    yield f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]"
    yield f"[::{text}]"
    yield f"[64:ff9b::{text}]"
    yield f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]"
    yield text.replace(".", "\u3002")
    yield text.replace(".", "%2e")
    yield "".join(chr(0xFF10 + int(char)) if char.isdigit() else char for char in text)
    yield f"public.example@{text}"
    yield f"{text}#@public.example"
    yield f"{text}?.public.example"
    yield f"{text}\\@public.example"
    yield f"{text}%00.public.example"
    yield f"{text}%0d%0aHost:%20x"


def hosts() -> list[str]:
    """All variants, without a port."""
    v4 = [spelling for address in INNER_V4 for spelling in spellings(address)]
    v6 = [form for address in INNER_V6 for form in (f"[{address}]", f"[{address.upper()}]", f"[{address}%25lo]")]
    names = [
        *NAMES,
        *(f"user:pass@{name}" for name in NAMES),
        "ⓛocalhost",
        "loc\u00adalhost",
        "localhost%00",
        "%6cocalhost",
        *(
            "xn--a",
            "xn--",
            "a..b",
            ".",
            "..",
            "a" * 70,
            "a." * 200,
            "*",
            "a b",
            "a_b",
            "-",
            "\ud800",
            "[]",
            "[::1",
            "::1",
        ),
    ]
    return [*v4, *v6, *names]


@pytest.fixture
async def listener() -> AsyncIterator[tuple[int, list[str]]]:
    """A port on every address of the loopback interface, and a record of the connections to it."""
    knocks: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        knocks.append(str(writer.get_extra_info("sockname")))
        writer.close()

    server = await asyncio.start_server(answer, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    servers = [server]
    with suppress(OSError):  # no IPv6, or the socket above covers it
        servers.append(await asyncio.start_server(answer, "::", port))
    yield port, knocks
    for each in servers:
        each.close()


@asynccontextmanager
async def adapter(**settings: object) -> AsyncIterator[HttpAdapter]:
    given = ExecutorSettings.model_validate({"max_attempts": 1, "connect_timeout_s": 1.0} | settings)
    async with open_http_adapter(given, SecretStore.load(None, given.secrets)) as opened:
        yield opened


async def outcome_of(opened: HttpAdapter, server: str, within_s: float = 1.5) -> Failed:
    deadline = asyncio.get_running_loop().time() + within_s
    result = await opened.call(Call(api(server), {}, "run/step", deadline))
    assert isinstance(result.outcome, Failed), (server, result.outcome)
    return result.outcome


async def test_the_listener_hears_what_is_let_through(
    listener: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control for the tests below: without the guard's check, inner hosts are reached."""
    port, knocks = listener
    monkeypatch.setattr("executor_svc.adapters.http.guard.is_public", lambda _address: True)
    with connects() as tried:
        async with adapter() as opened:
            for host in ("127.0.0.1", "127.1", "localhost"):
                await outcome_of(opened, f"http://{host}:{port}/")
    assert len(knocks) >= 2
    assert len(tried) >= 2


async def test_no_spelling_of_an_inner_host_is_connected_to(
    listener: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this test all names resolve to inner addresses; numeric hosts are read by the system's resolver."""
    port, knocks = listener
    system = socket.getaddrinfo

    def inner(host: str, port: int, family: int = 0, kind: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
        try:
            return system(host, port, family, kind, proto, flags | socket.AI_NUMERICHOST)
        except socket.gaierror:
            return system("169.254.169.254" if "metadata" in host else "127.0.0.1", port, family, kind, proto, flags)

    monkeypatch.setattr(socket, "getaddrinfo", inner)
    variants = [f"http://{host}:{port}/" for host in hosts()] + [url.format(port) for url in URLS]
    assert len(variants) > 400
    with connects() as tried:
        async with adapter() as opened:
            outcomes = await asyncio.gather(*(outcome_of(opened, variant) for variant in variants))
    assert (tried, knocks) == ([], [])
    let_through = [v for v, o in zip(variants, outcomes, strict=True) if o.reason not in ("refused", "bad_request")]
    assert not let_through


class Names:
    """A `getaddrinfo` controlled by an attacker: each query gets the next answer."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, host: str, port: int, *_more: object) -> list[tuple[object, ...]]:
        addresses = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]


@pytest.mark.parametrize(
    "answers",
    [
        (("127.0.0.1",),),
        (("8.8.8.8", "127.0.0.1"),),
        (("::ffff:127.0.0.1",),),
        (("64:ff9b::7f00:1",),),
        (("169.254.169.254",),),
        (("::1",),),
    ],
)
async def test_a_name_that_stands_for_an_inner_address_is_refused(
    listener: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch, answers: tuple[tuple[str, ...], ...]
) -> None:
    port, knocks = listener
    monkeypatch.setattr(socket, "getaddrinfo", Names(*answers))
    async with adapter() as opened:
        assert (await outcome_of(opened, f"http://rebind.example:{port}/")).reason == "refused"
    assert knocks == []


async def test_a_name_that_changes_its_mind_is_asked_once(
    listener: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: public at the check, inner at the connection. There is no second lookup."""
    port, knocks = listener
    names = Names(("192.0.2.1",), ("127.0.0.1",))
    monkeypatch.setattr(socket, "getaddrinfo", names)
    monkeypatch.setattr("executor_svc.adapters.http.guard.is_public", lambda address: str(address) == "192.0.2.1")
    async with adapter() as opened:
        await outcome_of(opened, f"http://rebind.example:{port}/")
    assert (names.asked, knocks) == (1, [])


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(listener: tuple[int, list[str]], upstream: Upstream, status: int) -> None:
    port, knocks = listener

    @upstream.on("/")
    async def answer(_: Seen) -> web.Response:
        return web.Response(status=status, headers={"Location": f"http://127.0.0.1:{port}/secret"})

    async with adapter(allowed_private_hosts=(upstream.host,)) as opened:
        failed = await outcome_of(opened, upstream.origin)
    assert (failed.reason, failed.status, knocks) == ("upstream_error", status, [])


async def test_an_allowed_host_is_allowed_at_its_port_and_under_its_name_only(
    listener: tuple[int, list[str]], upstream: Upstream
) -> None:
    port, knocks = listener
    async with adapter(allowed_private_hosts=(upstream.host,)) as opened:
        for host in ("127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"):
            assert (await outcome_of(opened, f"http://{host}:{port}/")).reason in ("refused", "bad_request")
    assert knocks == []


async def test_a_token_endpoint_is_guarded_like_any_upstream(
    listener: tuple[int, list[str]], upstream: Upstream
) -> None:
    port, knocks = listener
    inner = f"127.0.0.1:{port}"
    client = {"client_id": "c", "client_secret": "s3cret-s3cret", "hosts": [upstream.host, inner]}
    secrets = json.dumps({"test.oauth": client})
    needed = SecurityRequirement(
        scheme="oauth",
        kind=SecretKind.OAUTH2,
        secret="test.oauth",
        token_url=f"http://{inner}/token",
    )
    called = api(upstream.origin, "/", parameter("x"), security=((needed,),))
    async with adapter(allowed_private_hosts=(upstream.host,), secrets=SecretStr(secrets)) as opened:
        deadline = asyncio.get_running_loop().time() + 2
        result = await opened.call(Call(called, {}, "run/step", deadline))
    assert isinstance(result.outcome, Failed)
    assert (result.outcome.reason, knocks, upstream.seen) == ("credential", [], [])
