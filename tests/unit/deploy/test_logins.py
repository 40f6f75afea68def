"""Logging in at a real authorization server, and at ones that lie, refuse, redirect or hang."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from aiohttp import web
from pydantic import SecretStr
from yarl import URL

from deploy import logins
from deploy.cli.login import _Dialogue, _log_in
from deploy.logins import Endpoints, LoginFailed, LoginRequest, find_endpoints, log_in_with_browser, log_in_with_code
from executor_svc.adapters.http.tokens import Issued
from executor_svc.adapters.http.transport import Transport, open_transport
from executor_svc.secret_store import Client
from executor_svc.settings import ExecutorSettings
from services.contracts.api import NeededSecret, SecretKind, SecurityRequirement
from tests.support.authorization import CLIENT, SECRET, AuthorizationServer, serve_authorization
from tests.support.upstream import Seen


@pytest.fixture
async def server() -> AsyncIterator[AuthorizationServer]:
    async with serve_authorization() as running:
        yield running


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    async with open_transport(ExecutorSettings(allowed_private_hosts=("127.0.0.1",))) as opened:
        yield opened


def login_request(server: AuthorizationServer, secret: str | None = None, *scopes: str) -> LoginRequest:
    held = None if secret is None else SecretStr(secret)
    return LoginRequest(Client(client_id=CLIENT, client_secret=held, hosts=(server.host,)), scopes)


async def endpoints(transport: Transport, server: AuthorizationServer) -> Endpoints:
    need = SecurityRequirement(
        scheme="oidc", kind=SecretKind.OPENID_CONNECT, secret="b.oidc", openid_url=server.origin + "/"
    )
    return await find_endpoints(transport, need, URL(server.origin))


class Browser:
    """Opens addresses and follows where it is sent, as a person's browser does."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self._tasks: list[asyncio.Task[httpx2.Response]] = []

    def __call__(self, address: str) -> None:
        self.opened.append(address)
        self._tasks.append(asyncio.create_task(self._open(address)))

    async def _open(self, address: str) -> httpx2.Response:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as client:
            return await client.get(address)

    async def pages(self) -> list[str]:
        return [(await task).text for task in self._tasks]


async def log_in(
    transport: Transport, server: AuthorizationServer, ask: LoginRequest | None = None
) -> tuple[Issued, Browser]:
    browser = Browser()
    return await log_in_with_browser(
        transport, await endpoints(transport, server), ask or login_request(server), browser
    ), browser


async def test_a_login_in_the_browser(transport: Transport, server: AuthorizationServer) -> None:
    issued, browser = await log_in(transport, server, login_request(server, None, "read", "offline_access"))
    assert issued.access_token in server.valid
    assert issued.refresh_token in server.refreshes
    assert issued.lifetime_s == 3600
    shown = URL(browser.opened[0])
    assert shown.query["scope"] == "read offline_access"
    assert shown.query["code_challenge_method"] == "S256"
    assert URL(shown.query["redirect_uri"]).host == "127.0.0.1"
    assert "canary" not in repr(issued) + browser.opened[0]
    assert "close this window" in (await browser.pages())[0]


async def test_each_login_has_a_state_and_a_verifier_of_its_own(
    transport: Transport, server: AuthorizationServer
) -> None:
    queries = [URL((await log_in(transport, server))[1].opened[0]).query for _ in range(2)]
    for name in ("state", "code_challenge"):
        assert queries[0][name] != queries[1][name]
        assert min(len(query[name]) for query in queries) >= 43


async def test_a_confidential_client_shows_its_secret(transport: Transport, server: AuthorizationServer) -> None:
    server.public = False
    with pytest.raises(LoginFailed, match="answered 401 \\(invalid_client\\)"):
        await log_in(transport, server)
    assert (await log_in(transport, server, login_request(server, SECRET)))[0].access_token in server.valid


@pytest.mark.parametrize(
    ("tampered", "words"),
    [
        ({"state": "another"}, "another state"),
        ({"state": ""}, "another state"),
        ({"iss": "https://evil.example"}, "another authorization server"),
        ({"code": ""}, "contains no code"),
        ({"code": "code-of-somebody-else"}, "invalid_grant"),
        ({"error": "access_denied\x1b[2J"}, "the login was refused: access_denied2J"),
    ],
)
async def test_a_callback_that_is_not_the_answer(
    transport: Transport, server: AuthorizationServer, tampered: dict[str, str], words: str
) -> None:
    server.tampered = tampered
    with pytest.raises(LoginFailed, match=words):
        await log_in(transport, server)
    assert server.valid == set()


async def test_a_code_that_was_asked_for_with_another_verifier(
    transport: Transport, server: AuthorizationServer
) -> None:
    original = server.authorize

    async def swapped(seen: Seen) -> web.StreamResponse:
        """The code that is given belongs to somebody else's login, with her challenge."""
        answer = await original(seen)
        for known in server.codes.values():
            known["code_challenge"] = "A" * 43
        return answer

    server.upstream.answers["/authorize"] = swapped
    with pytest.raises(LoginFailed, match="invalid_grant"):
        await log_in(transport, server)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (web.Response(status=302, headers={"Location": "https://evil.example/token"}), "answered 302"),
        (web.Response(text="<html>"), "not valid JSON"),
        (web.json_response({"access_token": "a b"}), "no usable access_token"),
        (web.json_response({"access_token": "dpop-token", "token_type": "DPoP"}), "of an unsupported type"),
        (web.Response(body=b"x" * 11_000_000), "larger than"),
    ],
)
async def test_a_token_endpoint_that_misbehaves(
    transport: Transport, server: AuthorizationServer, reply: web.Response, words: str
) -> None:
    server.upstream.replies("/token", reply)
    with pytest.raises(LoginFailed, match=words):
        await log_in(transport, server)


async def test_a_token_endpoint_that_hangs(
    transport: Transport, server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    @server.upstream.on("/token")
    async def never(_: Seen) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(logins, "ANSWER_S", 0.3)
    with pytest.raises(LoginFailed, match="before the deadline"):
        await log_in(transport, server)


async def test_nobody_logs_in(
    transport: Transport, server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "PERSON_S", 0.1)
    with pytest.raises(LoginFailed, match="nobody logged in"):
        await log_in_with_browser(transport, await endpoints(transport, server), login_request(server), lambda _: None)


async def test_a_port_that_is_taken(transport: Transport, server: AuthorizationServer) -> None:
    where = await endpoints(transport, server)
    with pytest.raises(LoginFailed, match="cannot listen on port"):
        await log_in_with_browser(transport, where, login_request(server), lambda _: None, URL(server.origin).port or 0)


@pytest.mark.parametrize(
    ("settle", "words"),
    [(lambda s: None, ""), (lambda s: setattr(s, "denied", True), "access_denied")],
)
async def test_a_login_on_another_device(
    transport: Transport, server: AuthorizationServer, settle: Callable[[Any], None], words: str
) -> None:
    server.approved = False  # the first time it is asked, the code is not typed yet
    settle(server)
    shown = list[tuple[str, str]]()
    where = await endpoints(transport, server)
    work = log_in_with_code(transport, where, login_request(server), lambda *what: shown.append(what))
    if words:
        with pytest.raises(LoginFailed, match=words):
            await work
    else:
        issued = await work
        assert issued.access_token in server.valid
        assert server.upstream.count("/token") == 2
    assert shown == [(f"{server.origin}/activate", "WDJB-MJHT")]


@pytest.mark.parametrize(
    "given",
    [{}, [], {"device_code": "d", "user_code": "a\x1b[31m", "verification_uri": "https://x.example"},
     {"device_code": "d", "user_code": "A", "verification_uri": "file:///etc/passwd"}],
)  # fmt: skip
async def test_an_endpoint_for_devices_that_gives_no_code(
    transport: Transport, server: AuthorizationServer, given: Any
) -> None:
    server.upstream.replies("/device", given)
    with pytest.raises(LoginFailed, match="gave no code"):
        await log_in_with_code(transport, await endpoints(transport, server), login_request(server), lambda *_: None)


async def test_where_to_log_in(transport: Transport, server: AuthorizationServer) -> None:
    need = SecurityRequirement(scheme="s", kind=SecretKind.OAUTH2, secret="b.s")
    with pytest.raises(LoginFailed, match="no token endpoint"):
        await find_endpoints(transport, need, URL(server.origin))
    server.issuer = "https://accounts.example"
    with pytest.raises(LoginFailed, match="another issuer"):
        await endpoints(transport, server)
    plain = need.model_copy(update={"token_url": "/t", "authorization_url": "https://a.example/x"})
    found = await find_endpoints(transport, plain, URL(server.origin))
    assert (str(found.token), str(found.authorization)) == (f"{server.origin}/t", "https://a.example/x")
    with pytest.raises(LoginFailed, match="no device authorization endpoint"):
        await log_in_with_code(transport, found, login_request(server), lambda *_: None)


async def test_a_scheme_without_a_place_to_log_in_at_asks_nobody() -> None:
    dialogue = _Dialogue((), with_code=False, browser=False, skip_confirmation=False, secret=True)
    needed = NeededSecret(
        secret="bank.clients", scheme="clients", kind=SecretKind.OAUTH2, token_url="https://bank.example/token"
    )
    client = Client(client_id=CLIENT, client_secret=SecretStr(SECRET), hosts=("bank.example",))
    with pytest.raises(LoginFailed, match=r"nestor secrets set bank\.clients --client-id"):
        await _log_in(dialogue, needed, client, None, (), 0)
