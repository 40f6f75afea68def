"""Who asks, as the bearer token says (RFC 6750, section 2.1)."""

import hmac
from dataclasses import dataclass

from gateway.settings import GatewaySettings
from services.errors import Unauthorized


@dataclass(frozen=True, slots=True)
class Principal:
    """An app that uses the gateway, and the tenant whose runs it sees."""

    name: str = "anonymous"
    tenant: str = "default"


class Principals:
    """Those who may use the gateway: the configured ones, or anybody where none is."""

    def __init__(self, settings: GatewaySettings) -> None:
        known = [(Principal(p.name, p.tenant), p.token) for p in settings.principals]
        if settings.token is not None:
            known.append((Principal("token"), settings.token))
        self._known = [(principal, f"Bearer {token.get_secret_value()}".encode()) for principal, token in known]

    def of(self, authorization: str | None) -> Principal:
        """The principal of an `Authorization` header. Raises Unauthorized.

        All tokens are compared, each in constant time, so that the time it takes tells nothing about any of them.
        """
        if not self._known:
            return Principal()
        given = (authorization or "").encode()
        matches = [principal for principal, expected in self._known if hmac.compare_digest(given, expected)]
        if not matches:
            raise Unauthorized("Send `Authorization: Bearer TOKEN` with a token of this gateway.")
        return matches[0]
