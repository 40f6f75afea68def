"""Checks the credentials that the operations declare, and provides the OAuth2 token endpoint."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qs, unquote, unquote_plus, urlsplit

from pydantic import JsonValue

from services.contracts.api import LOGINS, Api, Location, SecretKind, SecurityRequirement
from twin.digest import Challenges
from twin.problems import Refused
from twin.received import Received
from twin.wire import text_of

USER: Final = "twin"
"""The user name of HTTP Basic and Digest, and the id of the OAuth2 client."""
TOKEN_PATH: Final = "/.twin/token"  # noqa: S105 - a path
UNSUPPORTED: Final = frozenset({SecretKind.MUTUAL_TLS, SecretKind.AWS_SIGV4, SecretKind.OTHER})
"""The kinds of credentials that a twin does not support."""
_LIFETIME_S: Final = 3_600
_MOST_TOKENS: Final = 1_000


class Access:
    """Checks who may call.

    Args:
        apis: the operations.
        token: used as API key, bearer token, password and client secret; at least 8 characters.
    """

    def __init__(self, apis: Iterable[Api], token: str) -> None:
        self._token, self._issued, self._challenges = token, OrderedDict[str, None](), Challenges()
        self._requirements = {need.secret: need for api in apis for one in api.security for need in one}
        urls = (need.token_url for need in self._requirements.values())
        self._token_paths = {TOKEN_PATH} | {urlsplit(url).path for url in urls if url}

    def secrets(self, host: str) -> dict[str, dict[str, JsonValue]]:
        """The executor's secrets file entries for these credentials, bound to the twin's host (``name:port``)."""
        found: dict[str, dict[str, JsonValue]] = {}
        for name, need in self._requirements.items():
            if need.kind in (SecretKind.BASIC, SecretKind.DIGEST):
                found[name] = {"username": USER, "password": self._token, "hosts": [host]}
            elif need.kind in LOGINS and need.token_url:
                found[name] = {"client_id": USER, "client_secret": self._token, "hosts": [host]}
            elif need.kind not in UNSUPPORTED:
                found[name] = {"value": self._token, "hosts": [host]}
                if need.kind is SecretKind.API_KEY and need.parameter:
                    place = need.location or Location.HEADER
                    found[name] |= {"in": place.value, "name": need.parameter}
        return found

    def check(self, api: Api, request: Received, path: Mapping[str, str]) -> None:
        """Raises Refused (401) unless one of the operation's security alternatives is met in full.

        ``path``: the raw values of the path's parameters, percent-encoded, by name.
        """
        if not api.security or any(all(self._met(need, request, path) for need in one) for one in api.security):
            return
        wanted = " or ".join(dict.fromkeys(" and ".join(need.scheme for need in one) for one in api.security))
        digest = any(need.kind is SecretKind.DIGEST for one in api.security for need in one)
        challenge = self._challenges.new() if digest else "Bearer"
        raise Refused(
            401, f"the credentials are missing or wrong; wanted: {wanted}", headers={"WWW-Authenticate": challenge}
        )

    def issues(self, request: Received) -> bool:
        """Whether this is a request to the token endpoint."""
        return request.method == "POST" and request.path in self._token_paths

    def issue(self, request: Received) -> dict[str, JsonValue]:
        """Issue an access token by the client credentials grant (RFC 6749, section 4.4).

        Raises:
            Refused: the grant is another one, or the client is unknown.
        """
        form = parse_qs(request.body.decode("utf-8", "replace"), max_num_fields=100)
        if form.get("grant_type") != ["client_credentials"]:
            raise Refused(400, "only the grant type client_credentials is supported")
        given = _basic(request.headers.get("authorization", ""))
        client = tuple(map(unquote_plus, given)) or (
            form.get("client_id", [""])[0],
            form.get("client_secret", [""])[0],
        )
        if client[0] != USER or not self._same(client[1]):
            raise Refused(401, "the client is not known", headers={"WWW-Authenticate": "Basic"})
        token = secrets.token_urlsafe(24)
        self._issued[token] = None
        if len(self._issued) > _MOST_TOKENS:
            self._issued.popitem(last=False)
        return {"access_token": token, "token_type": "Bearer", "expires_in": _LIFETIME_S}

    def _met(self, need: SecurityRequirement, request: Received, path: Mapping[str, str]) -> bool:
        authorization = request.headers.get("authorization", "")
        scheme, _, shown = authorization.partition(" ")
        if need.kind is SecretKind.API_KEY:
            return self._key(need, request, path)
        if need.kind is SecretKind.BASIC:
            given = _basic(authorization)
            return bool(given) and given[0] == USER and self._same(given[1])
        if need.kind is SecretKind.DIGEST:
            return self._challenges.met(USER, self._token, request)
        # One token satisfies several required logins at once.
        is_issued = need.kind in LOGINS and shown.strip() in self._issued
        is_pasted = not (need.kind in LOGINS and need.token_url) and self._same(shown.strip())
        return scheme.lower() == "bearer" and (is_issued or is_pasted)

    def _key(self, need: SecurityRequirement, request: Received, path: Mapping[str, str]) -> bool:
        name = need.parameter or ""
        if need.location is Location.PATH:
            return self._same(unquote(path.get(name, "")))
        if need.location is Location.BODY:
            return self._same(text_of(request, name))
        if need.location is Location.HEADER:
            return self._same(request.headers.get(name.lower(), ""))
        pairs = request.query_pairs() if need.location is Location.QUERY else request.cookies()
        return any(self._same(value) for key, value in pairs if key == name)

    def _same(self, shown: str) -> bool:
        return secrets.compare_digest(shown.encode("utf-8", "replace"), self._token.encode())


def _basic(authorization: str) -> tuple[str, ...]:
    """User name and password of HTTP basic; empty for anything else."""
    scheme, _, shown = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ()
    try:
        text = base64.b64decode(shown.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ()
    user, colon, password = text.partition(":")
    return (user, password) if colon else ()


def with_token_url(root: JsonValue, token_url: str) -> JsonValue:
    """A copy of the document with all OAuth2 token URLs replaced by ``token_url``."""
    if not isinstance(root, dict):
        return root
    changed = dict(root)
    components = root.get("components")
    if isinstance(components, dict) and isinstance(components.get("securitySchemes"), dict):
        schemes = _schemes(components["securitySchemes"], token_url)
        changed["components"] = {**components, "securitySchemes": schemes}
    if isinstance(root.get("securityDefinitions"), dict):
        changed["securityDefinitions"] = _schemes(root["securityDefinitions"], token_url)
    return changed


def _schemes(schemes: JsonValue, token_url: str) -> JsonValue:
    if not isinstance(schemes, Mapping):
        return schemes
    found: dict[str, JsonValue] = {}
    for name, scheme in schemes.items():
        found[name] = _with_url(scheme, token_url)
        flows = scheme.get("flows") if isinstance(scheme, dict) else None
        if isinstance(scheme, dict) and isinstance(flows, dict):
            found[name] = {**scheme, "flows": {flow: _with_url(said, token_url) for flow, said in flows.items()}}
    return found


def _with_url(said: JsonValue, token_url: str) -> JsonValue:
    return {**said, "tokenUrl": token_url} if isinstance(said, dict) and "tokenUrl" in said else said
