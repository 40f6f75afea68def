"""Presents credentials: chooses the alternative that can be met, and keeps OAuth2 access tokens.

A secret goes only to the hosts its entry names; for OAuth2 that holds for the token endpoint and for the API alike.
"""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from pydantic import JsonValue
from yarl import URL

from executor_svc.adapters.http.body import FORM
from executor_svc.adapters.http.recent import Recent
from executor_svc.adapters.http.request import Credentials, is_settable_header
from executor_svc.adapters.http.response import BadResponse, decode_error, parse_json
from executor_svc.adapters.http.transport import Reply, SendFailed, Transport
from executor_svc.masking import Masker
from executor_svc.secret_store import Client, Login, Secret, SecretStore, Token
from services.contracts.api import Api, Location, SecretKind, SecurityRequirement

_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]*")
_DEFAULT_LIFETIME_S: Final = 300.0
_MAX_TOKENS: Final = 1_000
_TokenKey = tuple[str, str, tuple[str, ...]]


class CredentialUnavailable(Exception):
    """No alternative can be met, or no token was issued. The message names secrets, never values."""


@dataclass(slots=True)
class _Grant:
    """What a token endpoint last gave: a token, or the problem with it. Times are readings of the loop's clock."""

    lock: asyncio.Lock
    token: str = field(default="", repr=False)
    expires: float = 0.0
    problem: str = ""
    at: float = 0.0


class Authenticator:
    """Credentials for calls. ``skew_s``: how many seconds before its expiry a token is replaced."""

    def __init__(self, store: SecretStore, transport: Transport, masker: Masker, skew_s: float) -> None:
        self._store, self._transport, self._masker, self._skew_s = store, transport, masker, skew_s
        self._grants: Recent[_TokenKey, _Grant] = Recent(_MAX_TOKENS)

    async def present(self, api: Api, origin: URL, deadline: float) -> Credentials:
        """The credentials of the first alternative that can be met in full.

        Raises:
            CredentialUnavailable: there is none, or the token endpoint gave no token before ``deadline``.
        """
        problems: list[str] = []
        for alternative in api.security:
            missing = [p for requirement in alternative if (p := self._problem(requirement, origin))]
            if not missing:
                return await self._present(alternative, origin, deadline)
            problems += missing
        if problems:
            raise CredentialUnavailable("; ".join(dict.fromkeys(problems)))
        return Credentials()

    def forget(self, token: str) -> None:
        """Drop a token that an API has refused, so that the next call gets another."""
        for grant in self._grants.values():
            if grant.token == token:
                grant.token = ""

    def _problem(self, requirement: SecurityRequirement, origin: URL) -> str | None:
        """Why this requirement cannot be met at this origin, or None."""
        secret = self._store.get(requirement.secret, requirement.kind)
        if requirement.kind is SecretKind.UNSUPPORTED:
            return f"the scheme {requirement.scheme!r} is not supported"
        if secret is None:
            return f"the secret {requirement.secret!r} is not configured as {requirement.kind}"
        if not _bound(secret, origin):
            return f"the secret {requirement.secret!r} is not bound to {_where(origin)}"
        if requirement.kind is SecretKind.API_KEY:
            return _api_key_problem(requirement, secret)
        if requirement.kind is SecretKind.OAUTH2_CLIENT_CREDENTIALS:
            token_url = _token_url(requirement, origin)
            if token_url is None:
                return f"the scheme {requirement.scheme!r} has no token URL"
            if not _bound(secret, token_url):
                return f"the secret {requirement.secret!r} is not bound to its token endpoint, {_where(token_url)}"
        return None

    async def _present(self, alternative: tuple[SecurityRequirement, ...], origin: URL, deadline: float) -> Credentials:
        headers: dict[str, str] = {}
        query: dict[str, str] = {}
        cookies: dict[str, str] = {}
        token = None
        places = {Location.HEADER: headers, Location.QUERY: query, Location.COOKIE: cookies}
        for requirement in alternative:
            secret = self._store.get(requirement.secret, requirement.kind)
            if isinstance(secret, Client):
                token = await self._token(requirement, secret, origin, deadline)
                self._masker.add(token)  # each time: it keeps those in use
                headers["Authorization"] = f"Bearer {token}"
            elif isinstance(secret, Login):
                headers["Authorization"] = secret.header()
            elif isinstance(secret, Token) and requirement.kind is SecretKind.BEARER:
                headers["Authorization"] = f"Bearer {secret.value.get_secret_value()}"
            elif isinstance(secret, Token) and requirement.location is not None and requirement.parameter:
                places[requirement.location][requirement.parameter] = secret.value.get_secret_value()
        return Credentials(headers, query, cookies, token)

    async def _token(self, requirement: SecurityRequirement, client: Client, origin: URL, deadline: float) -> str:
        """A kept token, or a new one. Callers that need the same one wait for one fetch, and share what comes of it."""
        url = _token_url(requirement, origin)
        assert url is not None
        clock = asyncio.get_running_loop().time
        asked = clock()
        grant = self._grants.get((requirement.secret, str(url), requirement.scopes), lambda: _Grant(asyncio.Lock()))
        try:
            async with asyncio.timeout_at(deadline), grant.lock:
                if grant.token and (grant.expires > clock() or grant.at >= asked):
                    return grant.token
                if grant.problem and grant.at >= asked:
                    raise CredentialUnavailable(grant.problem)
                await self._fetch(grant, url, client, requirement, deadline)
                return grant.token
        except TimeoutError:
            raise CredentialUnavailable(f"no token for {requirement.secret!r} before the deadline") from None

    async def _fetch(
        self, grant: _Grant, url: URL, client: Client, requirement: SecurityRequirement, deadline: float
    ) -> None:
        """Fetch a token into ``grant``, or the problem with it, unless that is only the caller's own deadline."""
        clock = asyncio.get_running_loop().time
        grant.token = grant.problem = ""
        began = clock()
        try:
            reply = await self._ask(url, client, requirement, deadline)
            token, lifetime_s = self._read(reply, requirement.secret)
        except SendFailed as error:
            problem = f"no token for {requirement.secret!r}: {error.message}"
            if error.reason != "timeout":
                grant.problem, grant.at = problem, clock()
            raise CredentialUnavailable(problem) from error
        except CredentialUnavailable as error:
            grant.problem, grant.at = str(error), clock()
            raise
        skew_s = min(self._skew_s, lifetime_s / 2)  # a token that lives shorter than the skew is still used once
        grant.token, grant.expires, grant.at = token, began + lifetime_s - skew_s, clock()

    async def _ask(self, url: URL, client: Client, requirement: SecurityRequirement, deadline: float) -> Reply:
        """RFC 6749, section 4.4: the client credentials grant. Raises SendFailed."""
        form = {"grant_type": "client_credentials"}
        if requirement.scopes:
            form["scope"] = " ".join(requirement.scopes)
        headers = {"Content-Type": FORM, "Accept": "application/json"}
        if client.client_auth == "basic":
            headers["Authorization"] = client.header()
        else:
            form |= {"client_id": client.client_id, "client_secret": client.client_secret.get_secret_value()}
        return await self._transport.send("POST", url, headers, urlencode(form).encode(), deadline=deadline, once=True)

    def _read(self, reply: Reply, name: str) -> tuple[str, float]:
        """The token and its lifetime in seconds (RFC 6749, section 5.1)."""
        if reply.status != 200:
            detail = self._masker.json(decode_error(reply.content_type, reply.body, truncated=reply.truncated))
            why = detail.get("error") if isinstance(detail, dict) else None
            suffix = f" ({str(why)[:100]})" if why else ""
            raise CredentialUnavailable(f"the token endpoint of {name!r} answered {reply.status}{suffix}")
        try:
            answer = parse_json(reply.body)
        except BadResponse as error:
            raise CredentialUnavailable(f"the token endpoint of {name!r}: {error}") from None
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
            raise CredentialUnavailable(f"the token endpoint of {name!r} issued no usable access_token")
        return token, _lifetime(answer.get("expires_in"))


def _lifetime(expires_in: JsonValue) -> float:
    if isinstance(expires_in, (int, float, str)) and not isinstance(expires_in, bool):
        try:
            return min(max(float(expires_in), 0.0), 86_400.0)
        except (ValueError, OverflowError):
            pass
    return _DEFAULT_LIFETIME_S


def _api_key_problem(requirement: SecurityRequirement, secret: Secret) -> str | None:
    name, location = requirement.parameter or "", requirement.location
    if not name or location not in (Location.HEADER, Location.QUERY, Location.COOKIE):
        return f"the scheme {requirement.scheme!r} does not say where its key travels"
    if location is Location.HEADER and not is_settable_header(name):
        return f"the key of scheme {requirement.scheme!r} cannot travel in the header {name!r}"
    if location is Location.COOKIE:
        value = secret.value.get_secret_value() if isinstance(secret, Token) else ""
        if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            return f"the key of scheme {requirement.scheme!r} cannot travel in a cookie"
    return None


def _token_url(requirement: SecurityRequirement, origin: URL) -> URL | None:
    try:
        url = origin.join(URL(requirement.token_url or ""))
    except ValueError:
        return None
    usable = requirement.token_url and url.scheme in ("http", "https") and url.raw_host and url.user is None
    return url.with_fragment(None) if usable else None


def _bound(secret: Secret, url: URL) -> bool:
    return secret.bound_to(url.scheme, url.raw_host or "", url.port or 0)


def _where(url: URL) -> str:
    return f"{url.raw_host}:{url.port}"
