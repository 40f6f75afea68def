"""Console sessions: a signed cookie that names the principal, and the CSRF token of every form.

The cookie contains no token of the gateway, and the server stores nothing. The signature depends on the login:

- Configured token: the signing key is derived from the token. Every replica accepts the cookie, and it ends with the
  token.
- Key, or token of an authorization server: the cookie is signed with the gateways' own key, because the stored hash of
  a key must not be enough to open a session. For a key, each request looks the key up, so the session ends with it. For
  a token of an authorization server, the session ends when the token expires.

If the gateway accepts anybody, the cookie is a random value to which forms are bound.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from gateway.principals import ISSUER_KEY_PREFIX, Principal, Principals
from gateway.roles import Role as GatewayRole
from services.errors import Forbidden

COOKIE: Final = "nestor_console"
PATH: Final = "/console"
LASTS_S: Final = 12 * 3_600
_MAX_COOKIE_CHARS: Final = 3_000
_PURPOSE: Final = b"nestor console session"
Role = Literal["ask", "approve", "administer"]


class LoginNeeded(Exception):
    """The gateway requires a login, and the request has no valid session."""


@dataclass(frozen=True, slots=True)
class Session:
    """A reader of the console.

    Attributes:
        principal: whose runs and APIs are shown.
        cookie: the cookie's value.
        is_new: whether the cookie has to be set.
        logged_in: false if the gateway accepts anybody.
    """

    principal: Principal
    cookie: str
    is_new: bool = False
    logged_in: bool = True

    @property
    def csrf(self) -> str:
        """The CSRF token that every form of this session carries. Pages of other sites cannot know it."""
        return hmac.new(self.cookie.encode(), b"csrf", hashlib.sha256).hexdigest()

    def check_csrf(self, given: str) -> None:
        """Raise Forbidden unless ``given`` is the CSRF token of this session."""
        if self.is_new or not hmac.compare_digest(given.encode(), self.csrf.encode()):
            raise Forbidden("The form does not belong to this session. Open the page again and repeat the action.")

    def may(self, *roles: Role) -> bool:
        """Whether the principal has one of these roles. All role checks of the console use it."""
        return not self.principal.roles.isdisjoint(roles)

    def require(self, *roles: Role) -> None:
        """Raise Forbidden unless the principal has one of these roles."""
        if not self.may(*roles):
            names = " or ".join(f"`{role}`" for role in roles)
            raise Forbidden(f"The principal {self.principal.name!r} needs the role {names} for this.")


class Sessions:
    """Sessions of the principals that a gateway knows.

    Args:
        principals: the principals.
        clock: seconds since the epoch.
    """

    def __init__(self, principals: Principals, clock: Callable[[], float] = time.time) -> None:
        self._principals, self._clock = principals, clock

    async def login(self, token: str, address: str) -> Session:
        """A session for the principal of this token. Raises Unauthorized, TooManyAttempts and ServiceUnavailable."""
        given = token.encode()
        principal = await self._principals.authenticate_token(given, address)
        ends = int(self._clock()) + LASTS_S
        body = _encode(
            {
                "name": principal.name,
                "tenant": principal.tenant,
                "ends": ends if principal.ends is None else min(ends, principal.ends),
                "nonce": secrets.token_hex(8),
                "key": principal.key,
                "roles": " ".join(sorted(principal.roles)),
            }
        )
        signed = _sign(self._principals.console_key if principal.key else given, body)
        return Session(principal, f"{body}.{signed}", is_new=True)

    async def of(self, request: Request) -> Session:
        """The session of a request.

        Raises:
            LoginNeeded: it has none.
            TooManyAttempts: its address has sent too many wrong tokens, or cookies that no token has signed.
            ServiceUnavailable: keys cannot be looked up.
        """
        cookie = request.cookies.get(COOKIE, "")
        if len(cookie) > _MAX_COOKIE_CHARS or not cookie.isascii():
            cookie = ""
        if self._principals.takes_anybody:
            is_new = not cookie
            return Session(self._principals.of(b""), cookie or secrets.token_hex(16), is_new=is_new, logged_in=False)
        body, _, signature = cookie.partition(".")
        said = _decode(body)
        ends = said.get("ends")
        if not isinstance(ends, int) or ends <= self._clock():
            raise LoginNeeded
        principal = await self._principal(said, body, signature, request.client.host if request.client else "")
        if principal is None or (said.get("name"), said.get("tenant")) != (principal.name, principal.tenant):
            raise LoginNeeded
        return Session(replace(principal, ends=ends), cookie)

    async def _principal(self, said: dict[str, object], body: str, signature: str, address: str) -> Principal | None:
        """The principal that a cookie names, if its signature is valid and the principal still has access."""
        if not said.get("key"):
            signed = f"{body}.{signature}".encode()
            return self._principals.find_signer(
                lambda token: hmac.compare_digest(_sign(token, body), signature), signed, address
            )
        if not hmac.compare_digest(_sign(self._principals.console_key, body), signature):
            return None
        key, roles = str(said["key"]), str(said.get("roles", "")).split()
        if not key.startswith(ISSUER_KEY_PREFIX):
            return await self._principals.find_by_key_id(key)
        may = frozenset(role for role in GatewayRole if role in roles)
        return self._principals.find_issued(str(said.get("name")), str(said.get("tenant")), may, key)


def set_cookie(response: Response, request: Request, session: Session) -> None:
    """Set the session cookie. Scripts cannot read it, and requests from other sites do not carry it."""
    response.set_cookie(
        COOKIE,
        session.cookie,
        max_age=LASTS_S,
        path=PATH,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def drop_cookie(response: Response) -> None:
    """Delete the session cookie."""
    response.delete_cookie(COOKIE, path=PATH, httponly=True, samesite="strict")


def _sign(token: bytes, body: str) -> str:
    key = hmac.new(hashlib.sha256(token).digest(), _PURPOSE, hashlib.sha256).digest()
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def _encode(said: dict[str, str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")


def _decode(body: str) -> dict[str, object]:
    try:
        said = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, RecursionError):  # cookies are untrusted: the JSON may be invalid or deeply nested
        return {}
    return said if isinstance(said, dict) else {}
