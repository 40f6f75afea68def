"""A person logs in to an authorization server, in a browser here (RFC 8252, 7636) or on any device (RFC 8628).

An authorization server is not trusted: it may lie, hang or redirect. Its answers are read with the executor's own
transport and parser. A request to the loopback address is accepted only with the state that was sent.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

from aiohttp import web
from pydantic import JsonValue
from yarl import URL

from executor_svc.adapters.http.response import BadResponse, parse_json
from executor_svc.adapters.http.tokens import (
    CredentialUnavailable,
    Issued,
    ask_token,
    discover,
    endpoint,
    error_of,
    read_token,
)
from executor_svc.adapters.http.transport import Reply, SendFailed, Transport
from executor_svc.masking import Masker
from executor_svc.secret_store import Client
from services.contracts.api import SecurityRequirement

ANSWER_S: Final = 30.0
"""Seconds that an authorization server may take to answer."""
PERSON_S: Final = 600.0
"""Seconds that a person may take to log in."""
_CALLBACK: Final = "/callback"
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL_S: Final = 5.0
_ENDPOINT_LABEL: Final = "the token endpoint"
_CALLBACK_PAGE: Final = "Nestor has received the answer. You can close this window; the terminal shows the result."
T = TypeVar("T")


class LoginFailed(Exception):
    """The login failed. The message says why and contains no secret value."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The URLs of an authorization server.

    Attributes:
        token: the token endpoint.
        authorization: the authorization endpoint, if known.
        device: the device authorization endpoint, if known.
        issuer: the server's issuer identifier, if its discovery document gives one.
        offline: whether the server supports the scope ``offline_access``.
    """

    token: URL
    authorization: URL | None = None
    device: URL | None = None
    issuer: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """The scopes to ask for, and the client that asks. A client with a secret authenticates with it."""

    client: Client = field(repr=False)
    scopes: tuple[str, ...]


async def find_endpoints(transport: Transport, requirement: SecurityRequirement, server: URL) -> Endpoints:
    """The endpoints given by the API's document, or by the discovery document that it names.

    Raises:
        LoginFailed: there is no token endpoint, or the discovery document cannot be read.
    """
    named: dict[str, JsonValue] = {
        "token_endpoint": requirement.token_url,
        "authorization_endpoint": requirement.authorization_url,
        "device_authorization_endpoint": requirement.device_url,
    }
    if requirement.openid_url:
        where = endpoint(requirement.openid_url, server)
        if where is None:
            raise LoginFailed("the address of the OpenID discovery document is not a URL")
        named = dict(await _awaited(discover(transport, where, _answer_deadline())))
    found = {name: endpoint(str(url), server) for name, url in named.items() if isinstance(url, str)}
    token = found.get("token_endpoint")
    if token is None:
        raise LoginFailed(f"the scheme {requirement.scheme!r} has no token endpoint; set a token instead")
    issuer, scopes = named.get("issuer"), named.get("scopes_supported")
    return Endpoints(
        token,
        found.get("authorization_endpoint"),
        found.get("device_authorization_endpoint"),
        issuer if isinstance(issuer, str) else None,
        isinstance(scopes, list) and "offline_access" in scopes,
    )


async def log_in_with_browser(
    transport: Transport, endpoints: Endpoints, login: LoginRequest, show: Callable[[str], None], port: int = 0
) -> Issued:
    """Run the authorization code flow with PKCE.

    Args:
        transport: sends the request to the token endpoint.
        endpoints: of the authorization server.
        login: the scopes and the client.
        show: called with the address to open in a browser on this machine.
        port: of the loopback address that receives the answer; 0 takes a free one.

    Raises:
        LoginFailed: nobody logged in in time, the server refused, or the answer cannot be trusted.
    """
    if endpoints.authorization is None:
        raise LoginFailed("the document names no authorization endpoint")
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    async with _Callback(port) as callback:
        wanted = {
            "response_type": "code",
            "client_id": login.client.client_id,
            "redirect_uri": callback.address,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if login.scopes:
            wanted["scope"] = " ".join(login.scopes)
        show(str(endpoints.authorization.extend_query(wanted)))
        try:
            async with asyncio.timeout(PERSON_S):
                answer = await callback.answer
        except TimeoutError:
            raise LoginFailed(f"nobody logged in within {PERSON_S / 60:g} minutes") from None
        code = _code(answer, state, endpoints.issuer)
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback.address}
        return await _token(transport, endpoints, login, form | {"code_verifier": verifier})


async def log_in_with_code(
    transport: Transport, endpoints: Endpoints, login: LoginRequest, show: Callable[[str, str], None]
) -> Issued:
    """Run the device flow. ``show`` is called with an address to open on any device, and the code to type there.

    Raises:
        LoginFailed: nobody logged in in time, the server refused, or its answers are invalid.
    """
    if endpoints.device is None:
        raise LoginFailed("the document names no device authorization endpoint")
    form = {"client_id": login.client.client_id} | ({"scope": " ".join(login.scopes)} if login.scopes else {})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    sent = transport.send(
        "POST", endpoints.device, headers, urlencode(form).encode(), deadline=_answer_deadline(), once=True
    )
    reply = await _awaited(sent)
    try:
        given = parse_json(reply.body) if reply.status == 200 else None
    except BadResponse:
        given = None
    given = given if isinstance(given, dict) else {}
    device, code = given.get("device_code"), given.get("user_code")
    where = endpoint(str(given.get("verification_uri") or given.get("verification_url") or ""), endpoints.device)
    if not (isinstance(device, str) and isinstance(code, str) and code.isprintable() and len(code) < 100 and where):
        raise LoginFailed(f"the device authorization endpoint gave no code; it answered {reply.status}")
    show(str(where), code)
    interval_s = min(max(_number(given.get("interval"), _INTERVAL_S), 1.0), 60.0)
    polled = {"grant_type": _DEVICE_GRANT, "device_code": device}
    try:
        async with asyncio.timeout(min(_number(given.get("expires_in"), PERSON_S), PERSON_S)):
            return await _polled(transport, endpoints, login, polled, interval_s)
    except TimeoutError:
        raise LoginFailed("nobody entered the code in time") from None


async def _polled(
    transport: Transport, endpoints: Endpoints, login: LoginRequest, form: dict[str, str], interval_s: float
) -> Issued:
    while True:
        await asyncio.sleep(interval_s)
        reply = await _awaited(ask_token(transport, endpoints.token, login.client, form, _answer_deadline()))
        error = error_of(reply, Masker(login.client.masked())) if reply.status != 200 else ""
        if error not in ("authorization_pending", "slow_down"):
            return _read(reply, login)
        interval_s += 5.0 if error == "slow_down" else 0.0


async def _token(transport: Transport, endpoints: Endpoints, login: LoginRequest, form: dict[str, str]) -> Issued:
    return _read(await _awaited(ask_token(transport, endpoints.token, login.client, form, _answer_deadline())), login)


def _read(reply: Reply, login: LoginRequest) -> Issued:
    try:
        return read_token(reply, _ENDPOINT_LABEL, Masker(login.client.masked()))
    except CredentialUnavailable as error:
        raise LoginFailed(str(error)) from None


async def _awaited(answer: Awaitable[T]) -> T:
    """Await an answer; transport and credential errors become LoginFailed."""
    try:
        return await answer
    except CredentialUnavailable as error:
        raise LoginFailed(str(error)) from None
    except SendFailed as error:
        raise LoginFailed(f"the authorization server: {error.message}") from None


def _code(answer: Mapping[str, str], state: str, issuer: str | None) -> str:
    """The code in a callback. Raises LoginFailed if the callback does not belong to this request."""
    if not hmac.compare_digest(answer.get("state", "").encode(), state.encode()):
        raise LoginFailed("the answer has another state than the one sent: it may be forged")
    if issuer is not None and answer.get("iss", issuer) != issuer:
        raise LoginFailed("the answer came from another authorization server than the one asked")
    if error := answer.get("error"):
        raise LoginFailed(f"the login was refused: {printable(error)}")
    if not answer.get("code"):
        raise LoginFailed("the answer contains no code")
    return answer["code"]


def printable(text: str) -> str:
    """An untrusted error code, cut and filtered so that it is safe to print."""
    return "".join(char for char in text[:60] if char.isascii() and (char.isalnum() or char in "_-. "))


def _number(value: JsonValue, otherwise: float) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise


def _answer_deadline() -> float:
    return asyncio.get_running_loop().time() + ANSWER_S


class _Callback:
    """A server on the loopback address that waits for one request. It runs within ``async with``.

    Attributes:
        address: the redirect URI for the authorization server.
        answer: the query parameters of the request.
    """

    address: str
    answer: asyncio.Future[dict[str, str]]

    def __init__(self, port: int) -> None:
        self._port = port
        app = web.Application()
        app.router.add_get(_CALLBACK, self._receive)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)

    async def __aenter__(self) -> Self:
        self.answer = asyncio.get_running_loop().create_future()
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise LoginFailed(f"cannot listen on port {self._port}: {error.strerror}") from None
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}{_CALLBACK}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        if not self.answer.done():
            self.answer.set_result(dict(request.query))
        return web.Response(text=_CALLBACK_PAGE, headers={"Connection": "close", "Referrer-Policy": "no-referrer"})
