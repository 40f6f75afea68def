"""OAuth2 access tokens: fetched, renewed, cached until shortly before they expire.

A token endpoint is called only if the client's entry allows its host. Its answers are not trusted: no redirects are
followed, the size is bounded, and there is a deadline.
"""

import asyncio
import json
import math
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from pydantic import JsonValue, SecretStr
from yarl import URL

from executor_svc.adapters.http.body import FORM
from executor_svc.adapters.http.lru import LruCache
from executor_svc.adapters.http.response import BadResponse, decode_error, parse_json
from executor_svc.adapters.http.transport import Reply, SendFailed, Transport
from executor_svc.masking import MIN_SECRET_CHARS, Masker, masker_of
from executor_svc.secret_store import Client, SecretStore
from services.contracts.api import SecurityRequirement
from services.telemetry import get_logger
from services.urls import url_of

_log = get_logger(__name__)
WELL_KNOWN: Final = "/.well-known/openid-configuration"
_TOKEN: Final = re.compile(rf"[A-Za-z0-9._~+/=-]{{{MIN_SECRET_CHARS},8192}}|[!-~]{{{MIN_SECRET_CHARS},1024}}")
"""A token of RFC 6750 (section 2.1), or a shorter one of any characters: masking compiles all its escaped forms."""
_BOUND_TYPES: Final = frozenset({"dpop", "mac", "pop"})
"""Token types that need a key. Any other type is taken for a bearer token, as some servers use names of their own."""
_DEFAULT_LIFETIME_S: Final = 300.0
_LONGEST_LIFETIME_S: Final = 86_400.0
_RENEWAL_S: Final = 15.0
"""Time limit of a renewal, independent of its callers' deadlines: if it is cut off, a rotated refresh token is lost."""
_MAX_TOKENS: Final = 1_000
_DROPPED, _DROPPED_WITHIN_S = 3, 60.0
"""How many refused tokens of a grant are replaced within how many seconds."""
_TokenKey = tuple[str, str, tuple[str, ...]]


class CredentialUnavailable(Exception):
    """No alternative can be met, or no token was issued. The message names secrets, never values."""


class CredentialRefused(CredentialUnavailable):
    """The token endpoint refused the client or its grant."""


@dataclass(frozen=True, slots=True)
class Issued:
    """The answer of a token endpoint. ``lifetime_s`` is None if the endpoint does not give it."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    lifetime_s: float | None


@dataclass(slots=True)
class _Grant:
    """The state of one token: the token, or the problem with it. Times are readings of the loop's clock.

    ``dropped``: when tokens that an API refused were dropped, the last few times. ``renewal`` may outlive the callers
    that wait for it, of whom there are ``joined``.
    """

    lock: asyncio.Lock
    client: Client | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    refused: str = field(default="", repr=False)
    expires: float = 0.0
    problem: str = ""
    at: float = 0.0
    dropped: deque[float] = field(default_factory=lambda: deque(maxlen=_DROPPED))
    renewal: asyncio.Task[None] | None = None
    joined: int = 0


class Tokens:
    """Access tokens of OAuth2 clients. ``skew_s``: seconds before its expiry at which a token is replaced."""

    def __init__(self, store: SecretStore, transport: Transport, skew_s: float) -> None:
        self._store, self._transport, self._skew_s = store, transport, skew_s
        self._grants: LruCache[_TokenKey, _Grant] = LruCache(_MAX_TOKENS)
        self._endpoints: LruCache[str, list[str]] = LruCache(_MAX_TOKENS)
        self._tasks: set[asyncio.Task[None]] = set()

    def problem(self, requirement: SecurityRequirement, client: Client, origin: URL) -> str | None:
        """Why no token can be had for this requirement, or None."""
        if client.access_token is not None and client.refresh_token is None:
            return None  # the token is presented as it is; no token endpoint is called
        if not (client.refresh_token or client.password or client.client_secret):
            return f"the secret {requirement.secret!r} has no token; {_again(requirement.secret)}"
        asked = endpoint(client.token_url or requirement.token_url or requirement.openid_url, origin)
        if asked is None:
            return f"neither the scheme {requirement.scheme!r} nor the secret {requirement.secret!r} has a token URL"
        return _unbound(client, asked, requirement.secret)

    def forget(self, token: str) -> bool:
        """Drop a token that an API refused, so that the next call gets a new one. False: it is kept.

        An API may refuse a call whatever its token is. Tenants share tokens, and token endpoints have limits, so that
        only a few tokens are replaced in a minute.
        """
        now = asyncio.get_running_loop().time()
        for grant in self._grants.values():
            if grant.token != token:
                continue
            if len(grant.dropped) == _DROPPED and now - grant.dropped[0] < _DROPPED_WITHIN_S:
                return False
            grant.dropped.append(now)
            grant.token, grant.refused = "", token
        return True

    async def get(self, requirement: SecurityRequirement, client: Client, origin: URL, deadline: float) -> str:
        """A cached token, or a new one. Callers that need the same token wait for one fetch and share its result.

        Raises:
            CredentialUnavailable: no token was issued before ``deadline``.
        """
        name, clock = requirement.secret, asyncio.get_running_loop().time
        asked = clock()
        scopes = client.scopes or (requirement.scopes if client.refresh_token is None else ())
        where = str(client.token_url or requirement.token_url or requirement.openid_url)
        grant = self._grants.get((name, where, scopes), lambda: _Grant(asyncio.Lock()))
        try:
            async with asyncio.timeout_at(deadline), grant.lock:
                self._take_over(grant, name, client)
                if grant.token and (grant.expires > clock() or grant.at >= asked):
                    return grant.token
                if grant.problem and grant.at >= asked:
                    raise CredentialUnavailable(grant.problem)
                await self._replace(grant, requirement, scopes, origin, deadline)
                return grant.token
        except TimeoutError:
            raise CredentialUnavailable(f"no token for {name!r} before the deadline") from None

    def _take_over(self, grant: _Grant, name: str, client: Client) -> None:
        """If the entry has changed, start again with the access token that it holds, if any."""
        current = self._store.client(name) or client
        if grant.client == current:
            return
        grant.client, grant.token, grant.problem, grant.expires = current, "", "", 0.0
        held = current.access_token.get_secret_value() if current.access_token is not None else ""
        if held and held != grant.refused:
            left_s = float("inf") if current.expires_at is None else current.expires_at - time.time()
            skew_s = self._skew_s if current.refresh_token is not None else 0.0
            grant.token, grant.expires = held, asyncio.get_running_loop().time() + left_s - skew_s

    async def _replace(
        self, grant: _Grant, requirement: SecurityRequirement, scopes: tuple[str, ...], origin: URL, deadline: float
    ) -> None:
        """Put a new token into ``grant``, or the problem; a time-out is the caller's own and is not stored."""
        clock, client = asyncio.get_running_loop().time, grant.client
        assert client is not None
        grant.token = grant.problem = ""
        try:
            if client.refresh_token is not None:
                await self._renewed(grant, requirement, origin)
            else:
                await self._fetch(grant, client, requirement, scopes, origin, deadline)
        except SendFailed as error:
            assert grant.client is not None
            problem = f"no token for {requirement.secret!r}: {_masker(grant.client).text(error.message)}"
            if error.reason != "timeout":
                grant.problem, grant.at = problem, clock()
            raise CredentialUnavailable(problem) from error
        except CredentialUnavailable as error:
            grant.problem, grant.at = str(error), clock()
            raise
        finally:
            if not grant.token and grant.expires > clock():
                grant.token = grant.refused  # only some calls may be refused, and there is no other one

    async def _fetch(
        self,
        grant: _Grant,
        client: Client,
        requirement: SecurityRequirement,
        scopes: tuple[str, ...],
        origin: URL,
        deadline: float,
    ) -> None:
        name = requirement.secret
        if client.password is not None:
            form = {"grant_type": "password", "username": str(client.username)}
            form |= {"password": client.password.get_secret_value()}
        elif client.access_token is None:
            form = {"grant_type": "client_credentials"}
        else:
            raise CredentialUnavailable(f"the access token of {name!r} has expired or was refused; {_again(name)}")
        if scopes:
            form["scope"] = " ".join(scopes)
        await self._ask(grant, client, requirement, form, origin, deadline)

    async def _renewed(self, grant: _Grant, requirement: SecurityRequirement, origin: URL) -> None:
        """Renew in a separate task, so that a caller with a short deadline does not cancel it; join one in progress."""
        while True:
            if mine := grant.renewal is None or grant.renewal.done():
                grant.renewal = asyncio.create_task(self._renew(grant, requirement, origin))
                self._tasks.add(grant.renewal)
                grant.renewal.add_done_callback(lambda done: self._ended(done, grant, requirement.secret))
            assert grant.renewal is not None
            grant.joined += 1
            try:
                await asyncio.shield(grant.renewal)
            finally:
                grant.joined -= 1
            assert grant.client is not None
            if not mine:  # the entry may be another login by now
                self._take_over(grant, requirement.secret, grant.client)
            if mine or grant.token:
                return

    def _ended(self, task: asyncio.Task[None], grant: _Grant, name: str) -> None:
        self._tasks.discard(task)
        if grant.renewal is task:
            grant.renewal = None
        if not task.cancelled() and (error := task.exception()) is not None and not grant.joined:
            _log.warning("a renewal failed that nobody waited for", secret=name, why=type(error).__name__)

    async def _renew(self, grant: _Grant, requirement: SecurityRequirement, origin: URL) -> None:
        """RFC 6749, section 6. If another process was faster, its token is used."""
        name = requirement.secret
        deadline = asyncio.get_running_loop().time() + _RENEWAL_S
        async with asyncio.timeout_at(deadline), self._store.renewing(name):
            assert grant.client is not None
            self._take_over(grant, name, grant.client)
            client = grant.client
            if grant.token and grant.expires > asyncio.get_running_loop().time():
                return
            if client.refresh_token is None:
                raise CredentialUnavailable(f"the refresh token of {name!r} no longer exists; {_again(name)}")
            form = {"grant_type": "refresh_token", "refresh_token": client.refresh_token.get_secret_value()}
            issued = await self._ask(grant, client, requirement, form, origin, deadline)
            renewed = client.model_copy(
                update={
                    "access_token": SecretStr(issued.access_token),
                    "refresh_token": SecretStr(issued.refresh_token) if issued.refresh_token else client.refresh_token,
                    "expires_at": None if issued.lifetime_s is None else round(time.time() + issued.lifetime_s),
                }
            )
            self._store.keep(name, client, renewed)
            grant.client = renewed

    async def _ask(
        self,
        grant: _Grant,
        client: Client,
        requirement: SecurityRequirement,
        form: dict[str, str],
        origin: URL,
        deadline: float,
    ) -> Issued:
        """Ask the token endpoint, and put its token into ``grant``. Raises CredentialUnavailable, SendFailed."""
        clock, name = asyncio.get_running_loop().time, requirement.secret
        url = await self._token_url(requirement, client, origin, deadline)
        began = clock()
        reply = await ask_token(self._transport, url, client, form, deadline)
        issued = read_token(reply, f"the token endpoint of {name!r}", _masker(client))
        lifetime_s = min(_DEFAULT_LIFETIME_S if issued.lifetime_s is None else issued.lifetime_s, _LONGEST_LIFETIME_S)
        skew_s = min(self._skew_s, lifetime_s / 2)  # a token whose lifetime is below the skew is still used
        grant.token, grant.expires, grant.at = issued.access_token, began + lifetime_s - skew_s, clock()
        return issued

    async def _token_url(self, requirement: SecurityRequirement, client: Client, origin: URL, deadline: float) -> URL:
        name, openid = requirement.secret, requirement.openid_url
        declared = client.token_url or requirement.token_url
        if declared is None and openid is not None:
            kept = self._endpoints.get(openid, list)
            if not kept:
                found = await discover(self._transport, url_of(openid, origin), deadline)
                kept.append(str(found.get("token_endpoint", "")))
            declared = kept[0]
        url = endpoint(declared, origin)
        if url is None:
            raise CredentialUnavailable(f"the secret {name!r} has no token endpoint")
        if problem := _unbound(client, url, name):
            raise CredentialUnavailable(problem)
        return url


async def ask_token(transport: Transport, url: URL, client: Client, form: dict[str, str], deadline: float) -> Reply:
    """Ask a token endpoint as this client (RFC 6749, section 2.3.1). Raises SendFailed."""
    headers = {"Content-Type": FORM, "Accept": "application/json"}
    proof = client.header()
    if proof is not None and client.client_auth == "basic":
        headers["Authorization"] = proof
    else:
        form = form | {"client_id": client.client_id}
        if client.client_secret is not None:
            form["client_secret"] = client.client_secret.get_secret_value()
    return await transport.send("POST", url, headers, urlencode(form).encode(), deadline=deadline, once=True)


async def discover(transport: Transport, url: URL, deadline: float) -> Mapping[str, JsonValue]:
    """An OpenID provider's discovery document.

    Raises:
        CredentialUnavailable: it is not a discovery document, or its issuer does not match its address.
        SendFailed: there was no complete answer.
    """
    if not url.path.endswith(WELL_KNOWN):
        url = url.with_path(url.path.rstrip("/") + WELL_KNOWN)
    reply = await transport.send("GET", url, {"Accept": "application/json"}, None, deadline=deadline)
    if reply.status != 200:
        raise CredentialUnavailable(
            f"the OpenID discovery document was not found: {url.raw_host} answered {reply.status}"
        )
    try:
        answer = parse_json(reply.body)
    except BadResponse as error:
        raise CredentialUnavailable(f"the OpenID discovery document: {error}") from None
    found = answer if isinstance(answer, dict) else {}
    if str(found.get("issuer")).rstrip("/") != str(url).removesuffix(WELL_KNOWN):
        raise CredentialUnavailable("the OpenID discovery document has another issuer than the one that was requested")
    return found


def read_token(reply: Reply, whose: str, masker: Masker) -> Issued:
    """The token in an answer (RFC 6749, section 5.1). Raises CredentialRefused, CredentialUnavailable."""
    if reply.status != 200:
        error = error_of(reply, masker)
        suffix = f" ({error})" if error else ""
        message = f"{whose} answered {reply.status}{suffix}"
        if error == "invalid_grant":
            message += "; the grant is no longer valid: log in again"
        refused = reply.status == 401 or error in ("invalid_client", "invalid_grant", "unauthorized_client")
        raise (CredentialRefused if refused else CredentialUnavailable)(message)
    try:
        answer = parse_json(reply.body)
    except BadResponse as error_:
        raise CredentialUnavailable(f"{whose}: {error_}") from None
    answer = answer if isinstance(answer, dict) else {}
    token, kind, renewal = (answer.get(name) for name in ("access_token", "token_type", "refresh_token"))
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise CredentialUnavailable(f"{whose} issued no usable access_token")
    if str(kind).lower() in _BOUND_TYPES:
        raise CredentialUnavailable(f"{whose} issued a token of an unsupported type")
    usable = isinstance(renewal, str) and _TOKEN.fullmatch(renewal)
    return Issued(token, str(renewal) if usable else None, _lifetime(answer.get("expires_in")))


def error_of(reply: Reply, masker: Masker) -> str:
    """The error code in a token endpoint's refusal, masked; empty if there is none."""
    detail = masker.json(decode_error(reply.content_type, reply.body, truncated=reply.truncated))
    why = detail.get("error") if isinstance(detail, dict) else None
    return (why if isinstance(why, str) else json.dumps(why))[:100] if why else ""


def endpoint(declared: str | None, origin: URL) -> URL | None:
    """An endpoint's URL; it may be relative to the API's. None if it is not an HTTP URL."""
    try:
        url = url_of(declared or "", origin)
    except ValueError:
        return None
    usable = declared and url.scheme in ("http", "https") and url.raw_host and url.user is None
    return url.with_fragment(None) if usable else None


def _masker(client: Client) -> Masker:
    """Masks the secrets that a client presents to its token endpoint."""
    return masker_of(frozenset(client.masked()))


def _lifetime(expires_in: JsonValue) -> float | None:
    if isinstance(expires_in, (int, float, str)) and not isinstance(expires_in, bool):
        try:
            lifetime_s = float(expires_in)
        except (ValueError, OverflowError):
            return None
        return None if math.isnan(lifetime_s) else min(max(lifetime_s, 0.0), 10 * 365 * 86_400.0)
    return None


def _unbound(client: Client, url: URL, name: str) -> str | None:
    if client.bound_to(url.scheme, url.raw_host or "", url.port or 0):
        return None
    return f"the secret {name!r} is not bound to its token endpoint, {url.raw_host}:{url.port}"


def _again(name: str) -> str:
    return f"log in again: nestor login {name.partition('.')[0]}"
