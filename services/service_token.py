"""Authentication between services: an internal service checks the caller's token before it reads a body."""

import hmac
from typing import Final

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from services.errors import ServiceError, Unauthorized
from services.http import bearer_token, problem_response
from services.turns import accept

_PROBES: Final = frozenset({"/healthz", "/readyz"})


class ServiceTokenMiddleware:
    """Accepts requests that carry the service's token, and probes without one.

    A probe with a wrong token is refused, so that a gateway with a wrong token fails its own readiness check.

    Args:
        app: the application behind this middleware.
        token: the token that callers must send.
        own_check: paths that check a token of their own.
    """

    def __init__(self, app: ASGIApp, *, token: SecretStr, own_check: frozenset[str] = frozenset()) -> None:
        self.app, self._expected, self._own_check = app, token.get_secret_value().encode(), own_check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in self._own_check:
            try:
                self._check(scope)
            except ServiceError as error:
                await problem_response(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raise InvalidRequest for two tokens and Unauthorized for a wrong one, compared in constant time."""
        given = bearer_token(Headers(scope=scope))
        if not given and scope["path"] in _PROBES:
            return
        if not hmac.compare_digest(given, self._expected):
            raise Unauthorized("Send `Authorization: Bearer TOKEN` with the token of this service.")
        accept(scope, "")
