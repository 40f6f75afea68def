"""Tokens that logins left, against a real authorization server: renewed once, kept safe, and clear when they end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import SecretStr
from yarl import URL

from executor_svc.adapters.http import open_http_adapter
from executor_svc.adapters.http.tokens import CredentialUnavailable, endpoint, read_token
from executor_svc.adapters.http.transport import Reply
from executor_svc.masking import Masker
from executor_svc.models import Call, CallResult
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Api, SecretKind, SecurityRequirement
from services.contracts.outcome import Failed, Succeeded
from tests.support.authorization import CLIENT, PASSWORD, SECRET, USER, AuthorizationServer, serve_authorization
from tests.support.executing import api, failed
from tests.support.upstream import Seen, serve_upstream
from tests.unit.executor_svc.conftest import Caller, Opener

NAME = "bank.login"
SECOND = SecurityRequirement(scheme="again", kind=SecretKind.OAUTH2, secret=NAME, token_url="/token")
"""Another document's, for the same entry and token endpoint, which it writes differently."""


@pytest.fixture
async def server() -> AsyncIterator[AuthorizationServer]:
    async with serve_authorization() as running:
        yield running


def operation(server: AuthorizationServer, kind: str = "oauth2", **more: Any) -> Api:
    """The API's operation; the document names no token endpoint unless it is said here."""
    need = SecurityRequirement(scheme="login", kind=SecretKind(kind), secret=NAME, **more)
    return api(server.origin, "/api", security=((need,),))


def logged_in(server: AuthorizationServer, **more: Any) -> dict[str, Any]:
    """The entry of somebody who logged in a while ago: the access token has expired."""
    given = {
        "access_token": "access-old-canary",
        "expires_at": time.time() - 60,
        "refresh_token": server.issue("refresh"),
    }
    return {"client_id": CLIENT, "token_url": f"{server.origin}/token", "hosts": [server.host]} | given | more


@asynccontextmanager
async def executor(file: Path) -> AsyncIterator[Caller]:
    """An executor's adapter that reads this file."""
    async with open_http_adapter(
        ExecutorSettings(allowed_private_hosts=("127.0.0.1",)), SecretStore.load(file, None)
    ) as adapter:

        async def call(wanted: Api, /) -> CallResult:
            return await adapter.call(Call(wanted, {}, "run/step", asyncio.get_running_loop().time() + 20))

        yield call


def write(file: Path, entry: dict[str, Any]) -> Path:
    file.write_text(json.dumps({NAME: entry, "other.key": {"value": "other-value", "hosts": ["x.example"]}}))
    file.chmod(0o600)
    return file


def told(result: CallResult) -> str:
    return failed(result, "credential").message


@pytest.mark.parametrize("kind", ["oauth2", "openid_connect", "bearer", "other"])
async def test_a_login_is_renewed_and_its_rotated_token_is_kept(
    server: AuthorizationServer, tmp_path: Path, kind: str
) -> None:
    file = write(tmp_path / "secrets.json", logged_in(server))
    async with executor(file) as call:
        for _ in range(3):
            assert isinstance((await call(operation(server, kind))).outcome, Succeeded)
    assert server.upstream.count("/token") == 1
    kept = json.loads(file.read_text())
    assert kept["other.key"]["value"] == "other-value"
    assert server.refreshes[kept[NAME]["refresh_token"]] is True
    assert kept[NAME]["access_token"] in server.valid
    assert kept[NAME]["expires_at"] > time.time() + 3_000
    assert file.stat().st_mode & 0o777 == 0o600
    async with executor(file) as call:  # another process, later: it needs no renewal
        assert isinstance((await call(operation(server))).outcome, Succeeded)
    assert server.upstream.count("/token") == 1


async def test_processes_that_share_a_file_renew_once(server: AuthorizationServer, tmp_path: Path) -> None:
    file = write(tmp_path / "secrets.json", logged_in(server))
    async with executor(file) as one, executor(file) as other:
        results = await asyncio.gather(*(call(operation(server)) for call in (one, other) for _ in range(10)))
    assert {type(result.outcome) for result in results} == {Succeeded}
    assert server.upstream.count("/token") == 1


async def test_a_token_that_is_revoked_in_mid_run_is_renewed_once(server: AuthorizationServer, tmp_path: Path) -> None:
    file = write(tmp_path / "secrets.json", logged_in(server))
    async with executor(file) as call:
        await call(operation(server))
        server.valid.clear()
        assert isinstance((await call(operation(server))).outcome, Succeeded)
        assert server.upstream.count("/token") == 2
        server.valid.clear()
        server.refreshes.clear()
        message = told(await call(operation(server)))
    assert message == (
        "the token endpoint of 'bank.login' answered 400 (invalid_grant); the grant is no longer valid: log in again"
    )
    assert server.upstream.count("/token") == 3


async def test_an_api_that_refuses_every_token_gets_two(server: AuthorizationServer, tmp_path: Path) -> None:
    @server.upstream.on("/api")
    async def never(_: Seen) -> Any:

        return web.json_response({}, status=401)

    file = write(tmp_path / "secrets.json", logged_in(server))
    async with executor(file) as call:
        outcome = (await call(operation(server))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status) == ("upstream_error", 401)
    assert server.upstream.count("/api") == server.upstream.count("/token") == 2


async def test_a_login_that_cannot_be_renewed_ends_clearly(server: AuthorizationServer, opened: Opener) -> None:
    entry = logged_in(server, access_token=server.issue("access"), expires_at=time.time() + 3_600)
    del entry["refresh_token"]
    call = await opened({NAME: entry})
    assert isinstance((await call(operation(server))).outcome, Succeeded)
    server.valid.clear()
    assert told(await call(operation(server))).endswith("has expired or was refused; log in again: nestor login bank")
    assert server.upstream.count("/token") == 0


async def test_a_setting_cannot_be_written_back_and_is_renewed_all_the_same(
    server: AuthorizationServer, opened: Opener
) -> None:
    server.lifetime_s = 0  # each call needs another token, and each of them rotates
    call = await opened({NAME: logged_in(server)})
    for _ in range(3):
        assert isinstance((await call(operation(server))).outcome, Succeeded)
    assert server.upstream.count("/token") == 3


@pytest.mark.parametrize(
    "entry",
    [
        {"value": "pasted-token-canary"},
        {"client_id": CLIENT, "username": USER, "password": PASSWORD},
        {"client_id": CLIENT, "client_secret": SECRET},
        {"client_id": CLIENT, "client_secret": SECRET, "client_auth": "body"},
    ],
    ids=["pasted", "password", "client", "client in the body"],
)
@pytest.mark.parametrize("kind", ["oauth2", "openid_connect"])
async def test_other_ways_to_a_token(server: AuthorizationServer, opened: Opener, kind: str, entry: Any) -> None:
    server.public = "client_secret" not in entry
    server.valid.add("pasted-token-canary")
    call = await opened({NAME: entry | {"hosts": [server.host]}})
    named = {"openid_url": server.origin} if kind == "openid_connect" else {"token_url": f"{server.origin}/token"}
    for _ in range(2):
        result = await call(operation(server, kind, **named))
        assert isinstance(result.outcome, Succeeded), result.outcome
    assert server.upstream.count("/token") == ("value" not in entry)
    assert "canary" not in repr(result) + str(result.request)


async def test_a_discovery_document_that_lies(server: AuthorizationServer, opened: Opener) -> None:
    call = await opened({NAME: {"client_id": CLIENT, "client_secret": SECRET, "hosts": [server.host]}})
    asked = operation(server, "openid_connect", openid_url=f"{server.origin}/.well-known/openid-configuration")
    server.issuer = "https://accounts.example"
    assert "has another issuer" in told(await call(asked))
    server.issuer = server.origin
    async with serve_upstream() as evil:
        moved: dict[str, object] = {"issuer": server.origin, "token_endpoint": f"{evil.origin}/token"}
        server.upstream.replies("/.well-known/openid-configuration", moved)
        assert "not bound to its token endpoint" in told(await call(asked))
        assert evil.seen == []
    assert server.upstream.count("/token") == server.upstream.count("/api") == 0


@pytest.mark.parametrize("declared", ["http://[::1]@/token", "http://[:99999]", "http://[", "", None])
def test_what_is_no_url_is_no_endpoint(declared: str | None) -> None:
    assert endpoint(declared, URL("https://bank.example")) is None


async def test_a_refresh_token_goes_to_no_foreign_endpoint(server: AuthorizationServer, opened: Opener) -> None:
    async with serve_upstream() as evil:
        entry = logged_in(server)
        del entry["token_url"]
        call = await opened({NAME: entry})
        message = told(await call(operation(server, token_url=f"{evil.origin}/token")))
        assert evil.seen == []
    assert "not bound to its token endpoint" in message


async def test_a_changed_file_is_read_again(server: AuthorizationServer, tmp_path: Path) -> None:
    file = write(tmp_path / "secrets.json", {"value": "first-token-canary", "hosts": [server.host]})
    async with executor(file) as call:
        refused = (await call(operation(server))).outcome
        assert isinstance(refused, Failed)
        assert refused.status == 401
        server.valid.add("second-token-canary")
        write(file, {"value": "second-token-canary", "hosts": [server.host]})

        @server.upstream.on("/echo")
        async def echo(seen: Seen) -> Any:

            return web.json_response({"said": seen.headers["Authorization"], "before": "first-token-canary"})

        assert isinstance((await call(operation(server))).outcome, Succeeded)
        echoed = await call(operation(server).model_copy(update={"path": "/echo"}))
        assert isinstance(echoed.outcome, Succeeded)
        # What the call did not present is not masked: whoever guesses it would see that he is right.
        assert echoed.outcome.value == {"said": "Bearer ***", "before": "first-token-canary"}
        file.write_text("{")  # half written by somebody else: what was known stays
        assert isinstance((await call(operation(server))).outcome, Succeeded)


@pytest.mark.parametrize("where", ["setting", "file", "file beside which no lock can be made"])
async def test_a_renewal_that_outlives_its_caller_is_joined(
    server: AuthorizationServer, tmp_path: Path, where: str
) -> None:
    """A refresh token that is used twice counts as stolen, and ends the login."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    @server.upstream.on("/token")
    async def slow(seen: Seen) -> web.StreamResponse:
        asked.set()
        await go_on.wait()
        return await server.token(seen)

    entry = {name: part for name, part in logged_in(server).items() if name != "token_url"}
    if where == "setting":
        store = SecretStore.load(None, SecretStr(json.dumps({NAME: entry})))
    else:
        store = SecretStore.load(write(tmp_path / (("x" if where == "file" else "x" * 245) + ".json"), entry), None)
    async with open_http_adapter(ExecutorSettings(allowed_private_hosts=("127.0.0.1",)), store) as adapter:
        wanted, clock = operation(server, token_url=f"{server.origin}/token"), asyncio.get_running_loop().time
        first = asyncio.create_task(adapter.call(Call(wanted, {}, "run/a", clock() + 0.5)))
        await asked.wait()
        assert "before the deadline" in told(await first)
        second = asyncio.create_task(adapter.call(Call(wanted, {}, "run/b", clock() + 20)))
        other = api(server.origin, "/api", security=((SECOND,),))
        third = asyncio.create_task(adapter.call(Call(other, {}, "run/c", clock() + 20)))
        await asyncio.sleep(0.1)
        go_on.set()
        assert [type((await call).outcome) for call in (second, third)] == [Succeeded] * 2
    assert server.upstream.count("/token") == 1


async def test_a_renewal_that_fails_when_nobody_waits_is_logged(
    server: AuthorizationServer, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, logged = asyncio.Event(), list[dict[str, Any]]()

    class Log:
        def warning(self, _: str, **fields: Any) -> None:
            logged.append(fields)
            ended.set()

    monkeypatch.setattr("executor_svc.adapters.http.tokens._log", Log())

    @server.upstream.on("/token")
    async def refuses(_: Seen) -> web.StreamResponse:
        await asyncio.sleep(0.8)
        return web.json_response({"error": "invalid_grant"}, status=400)

    call = await opened({NAME: logged_in(server)})
    assert "before the deadline" in told(await call(operation(server), within_s=0.5))
    async with asyncio.timeout(10):
        await ended.wait()
    assert logged == [{"secret": NAME, "why": "CredentialRefused"}]


@pytest.mark.parametrize("renewable", [False, True])
async def test_a_call_that_is_refused_whatever_its_token_is_takes_it_from_no_other(
    server: AuthorizationServer, opened: Opener, renewable: bool
) -> None:
    """A path that asks for more rights answers 401, and the token cannot be replaced."""

    @server.upstream.on("/api/admin")
    async def never(_: Seen) -> Any:
        return web.json_response({}, status=401)

    @server.upstream.on("/token")
    async def broken(_: Seen) -> Any:
        return web.json_response({"error": "server_error"}, status=500)

    entry = logged_in(server, access_token=server.issue("access"), expires_at=time.time() + 3_600)
    if not renewable:
        del entry["refresh_token"]
    call = await opened({NAME: entry})
    allowed = operation(server)
    assert isinstance((await call(allowed)).outcome, Succeeded)
    told(await call(allowed.model_copy(update={"path": "/api/admin", "content_hash": ""})))
    assert isinstance((await call(allowed)).outcome, Succeeded)


@pytest.mark.parametrize(
    ("token", "usable"),
    [("a1-._~+/=" * 900, True), ("a1-._~+/=" * 1_000, False), ("<a%\\b>" * 150, True), ("<a%\\b>" * 5_000, False)],
)
def test_a_token_that_takes_long_to_mask_is_not_used(token: str, usable: bool) -> None:
    """32,768 characters that are escaped everywhere took a minute of the event loop and 2 GB."""
    reply = Reply(200, CIMultiDictProxy(CIMultiDict()), json.dumps({"access_token": token}).encode(), truncated=False)
    with nullcontext() if usable else pytest.raises(CredentialUnavailable, match="no usable access_token"):
        assert read_token(reply, "the endpoint", Masker(())).access_token == token
