"""A small, strict authorization server on a real port, with OAuth2 and OpenID Connect discovery.

It issues codes (RFC 6749, with PKCE of RFC 7636), device codes (RFC 8628) and tokens. Refresh tokens rotate. If one
is used twice, the whole family is revoked (RFC 9700, section 4.14.2). `/api` accepts only valid access tokens.
"""

import base64
import hashlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

from aiohttp import web

from tests.support.upstream import Seen, Upstream, serve_upstream

CLIENT, SECRET, USER, PASSWORD = "client-1", "client-s3cret-canary", "ada", "pass-w0rd-canary"


@dataclass
class AuthorizationServer:
    """The server. Its attributes control its behaviour; tests change them.

    Attributes:
        upstream: the HTTP server it runs on, which records the requests.
        lifetime_s: the stated lifetime of access tokens, in seconds; None leaves `expires_in` out.
        public: whether clients need no secret.
        issuer: its issuer identifier in callbacks and in its discovery document.
        approved: whether the user has entered the device's code.
        denied: whether the user refuses.
        valid: access tokens that `/api` takes.
        tampered: callback parameters that are replaced, with their new values.
        refreshes: refresh tokens; the value is True while the token can be used.
        codes: the parameters of the authorization request, by code.
    """

    upstream: Upstream
    lifetime_s: int | None = 3600
    public: bool = True
    issuer: str = ""
    approved: bool = True
    denied: bool = False
    valid: set[str] = field(default_factory=set)
    tampered: dict[str, str] = field(default_factory=dict)
    refreshes: dict[str, bool] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.issuer = self.upstream.origin
        self.upstream.answers |= {
            "/authorize": self.authorize,
            "/token": self.token,
            "/device": self.device,
            "/api": self.api,
            "/.well-known/openid-configuration": self.discovery,
        }

    @property
    def origin(self) -> str:
        return self.upstream.origin

    @property
    def host(self) -> str:
        return self.upstream.host

    def issue(self, kind: str) -> str:
        """Create a token and make it valid."""
        token = f"{kind}-{next(self._numbers)}-canary"
        if kind == "access":
            self.valid.add(token)
        else:
            self.refreshes[token] = True
        return token

    async def discovery(self, _: Seen) -> web.StreamResponse:
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "device_authorization_endpoint": f"{self.origin}/device",
                "scopes_supported": ["openid", "offline_access"],
            }
        )

    async def authorize(self, seen: Seen) -> web.StreamResponse:
        """The user approves at once, unless ``denied`` is set."""
        asked = {name: values[0] for name, values in parse_qs(seen.query).items()}
        if asked["response_type"] != "code" or asked["client_id"] != CLIENT or asked["code_challenge_method"] != "S256":
            return web.Response(status=400)
        code = f"code-{next(self._numbers)}"
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        if self.denied:
            answer = {"error": "access_denied", "state": asked["state"]}
        return web.Response(
            status=302, headers={"Location": f"{asked['redirect_uri']}?{urlencode(answer | self.tampered)}"}
        )

    async def device(self, seen: Seen) -> web.StreamResponse:
        where = f"{self.origin}/activate"
        given = {"device_code": "device-code-1", "user_code": "WDJB-MJHT", "verification_uri": where, "interval": 1}
        return web.json_response(given | {"expires_in": 60})

    async def token(self, seen: Seen) -> web.StreamResponse:
        form = {name: values[0] for name, values in parse_qs(seen.body.decode()).items()}
        if not self._knows(seen, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        grants = {
            "authorization_code": self._by_code,
            "refresh_token": self._by_refresh,
            "urn:ietf:params:oauth:grant-type:device_code": self._by_device,
            "password": self._by_password,
            "client_credentials": self._by_client,
        }
        error = grants[form["grant_type"]](form)
        if error:
            return web.json_response({"error": error}, status=400)
        given: dict[str, Any] = {"access_token": self.issue("access"), "token_type": "Bearer"}
        if self.lifetime_s is not None:
            given["expires_in"] = self.lifetime_s
        if form["grant_type"] not in ("client_credentials", "password"):
            given["refresh_token"] = self.issue("refresh")
        return web.json_response(given)

    async def api(self, seen: Seen) -> web.StreamResponse:
        token = seen.headers.get("Authorization", "").removeprefix("Bearer ")
        return web.json_response({"ok": True}, status=200 if token in self.valid else 401)

    def _knows(self, seen: Seen, form: dict[str, str]) -> bool:
        if "Authorization" in seen.headers:
            proof = base64.b64decode(seen.headers["Authorization"].removeprefix("Basic ")).decode()
            return tuple(map(unquote_plus, proof.split(":"))) == (CLIENT, SECRET)
        return form.get("client_id") == CLIENT and (self.public or form.get("client_secret") == SECRET)

    def _by_code(self, form: dict[str, str]) -> str:
        asked = self.codes.pop(form["code"], None)  # a code can be used once
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return "invalid_grant"
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return "" if challenge == asked["code_challenge"] else "invalid_grant"

    def _by_refresh(self, form: dict[str, str]) -> str:
        token = form["refresh_token"]
        if not self.refreshes.get(token):
            self.refreshes = dict.fromkeys(self.refreshes, False)  # used twice: treated as stolen
            self.valid.clear()
            return "invalid_grant"
        self.refreshes[token] = False
        return ""

    def _by_device(self, form: dict[str, str]) -> str:
        if self.denied:
            return "access_denied"
        if not self.approved:
            self.approved = True  # approved at the next poll
            return "authorization_pending"
        return "" if form["device_code"] == "device-code-1" else "invalid_grant"

    def _by_password(self, form: dict[str, str]) -> str:
        return "" if (form["username"], form["password"]) == (USER, PASSWORD) else "invalid_grant"

    def _by_client(self, form: dict[str, str]) -> str:
        return "unauthorized_client" if self.public else ""


@asynccontextmanager
async def serve_authorization(**behaviour: Any) -> AsyncIterator[AuthorizationServer]:
    """Start an authorization server on a free port of the loopback interface."""
    async with serve_upstream() as upstream:
        yield AuthorizationServer(upstream, **behaviour)
