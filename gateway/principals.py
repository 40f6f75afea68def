"""Who asks, as the bearer token says (RFC 6750, section 2.1)."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from starlette.requests import Request

from gateway.keys import KeyStore, is_key
from gateway.roles import Role
from gateway.settings import GatewaySettings
from services.contracts.access import Key
from services.errors import Forbidden, TooManyAttempts, Unauthorized
from services.http import bearer_token
from services.server import address_key

_WINDOW_S: Final = 60.0
_MOST_ADDRESSES: Final = 10_000
ISSUED: Final = "jwt:"
"""What the `key` of a principal begins with that an authorization server names."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An app that uses the gateway, the tenant whose runs it sees, and what it may do there.

    Attributes:
        operator: whether its tenant runs this installation.
        key: the id of the key that it presented; `jwt:` and the issuer's name; empty for a configured token.
        ends: when its token expires, where that says so, in seconds since the epoch.
    """

    name: str = "anonymous"
    tenant: str = "default"
    roles: frozenset[Role] = frozenset(Role)
    operator: bool = False
    key: str = ""
    ends: int | None = None

    @property
    def owner(self) -> str | None:
        """Whose is what it imports: its tenant's, or, as None, the operator's."""
        return None if self.operator else self.tenant

    def audience(self, *, shared: bool) -> str | None:
        """Whose the demonstrations are that it adds: its tenant's, or everyone's (None), which may be Forbidden."""
        if shared and not self.operator:
            raise Forbidden("Only the operator's administrators make demonstrations everyone's.")
        return None if shared else self.tenant

    def reach(self, tenant: str | None) -> str | None:
        """Whose keys and entries of the audit log it sees: its tenant's; for the operator, that tenant's or all (None).

        Raises:
            Forbidden: it asks for another tenant's.
        """
        if self.operator:
            return tenant
        if tenant not in (None, self.tenant):
            raise Forbidden("Only the operator's administrators do this for other tenants.")
        return self.tenant

    def require(self, roles: Collection[Role]) -> None:
        """Raise Forbidden unless it has one of these roles."""
        if self.roles.isdisjoint(roles):
            names = " or ".join(f"`{role}`" for role in sorted(roles))
            raise Forbidden(f"The principal {self.name!r} needs the role {names} for this.")


class TokenReader(Protocol):
    """Who reads tokens of authorization servers."""

    async def presented(self, token: bytes) -> Principal | None:
        """The principal of a token; None where it is no token, or a forged one. Raises Unauthorized."""


class Principals:
    """Those who may use the gateway: who has a key or a token of an authorization server, and the configured ones.

    Anybody, where nobody is configured.

    Args:
        settings: who is configured.
        keys: where keys are looked up; None: there are none.
        issuers: who reads tokens of authorization servers; None: there are none.
        clock: seconds that only grow.

    Attributes:
        console_key: what sessions of the console are signed with that no configured token opened.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        keys: KeyStore | None = None,
        issuers: TokenReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._keys, self._issuers = settings, keys, issuers
        given = settings.console_key
        self.console_key = secrets.token_bytes(32) if given is None else given.get_secret_value().encode()
        self._takes_anybody = not settings.asks_for_tokens
        self._operator = operator = settings.operator_tenant
        known = [(Principal(p.name, p.tenant, p.roles, p.tenant == operator), p.token) for p in settings.principals]
        self._anybody = Principal(operator=operator == Principal().tenant)
        if settings.token is not None:
            known.append((replace(self._anybody, name="token"), settings.token))
        self._known = [(principal, token.get_secret_value().encode()) for principal, token in known]
        self._guesses = _Guesses(settings.max_wrong_tokens, clock)

    @property
    def takes_anybody(self) -> bool:
        """Whether no token is asked for."""
        return self._takes_anybody

    def holding(self, shows: Callable[[bytes], bool]) -> Principal | None:
        """The principal whose token passes a check, if any does. All are checked."""
        passing = [principal for principal, token in self._known if shows(token)]
        return passing[0] if passing else None

    async def asking(self, request: Request) -> Principal:
        """The principal of a request.

        Raises:
            InvalidRequest: it names two.
            Unauthorized: it names none that is known, or its issuer's keys cannot be fetched now.
            TooManyAttempts: its address has been guessing.
            ServiceUnavailable: keys cannot be looked up now.
        """
        return await self.presenting(bearer_token(request.headers), request.client.host if request.client else "")

    async def presenting(self, token: bytes, address: str) -> Principal:
        """The principal of a token, of whatever kind, that came from an address. Raises as ``asking``."""
        if self._keys is not None and is_key(token):
            self._guesses.check(address)
            if (key := await self._keys.presented(token)) is not None:
                return self._holder(key)
        elif self._issuers is not None:
            self._guesses.check(address)
            if (principal := await self._issuers.presented(token)) is not None:
                return principal
        return self.of(token, address)

    async def holding_key(self, key_id: str) -> Principal | None:
        """Who has the key of this id, if it is valid now. Raises ServiceUnavailable."""
        key = await self._keys.valid(key_id) if self._keys is not None else None
        return None if key is None else self._holder(key)

    def issued(self, name: str, tenant: str, roles: frozenset[Role], key: str) -> Principal | None:
        """Whom an authorization server has named, if it is one that still may."""
        known = key in {f"{ISSUED}{issuer.name}" for issuer in self._settings.issuers}
        return Principal(name, tenant, roles, tenant == self._operator, key) if known else None

    def _holder(self, key: Key) -> Principal:
        return Principal(key.name, key.tenant, frozenset(key.roles), key.tenant == self._operator, key.id)

    def of(self, token: bytes, address: str = "") -> Principal:
        """The principal of a configured token that came from an address. Raises Unauthorized and TooManyAttempts.

        All configured tokens are compared, each in constant time, so that the time it takes tells nothing about any of
        them. What looks like a key is nobody where it is not a valid one, also where anybody is taken otherwise.
        """
        if self._takes_anybody and not is_key(token):
            return self._anybody
        self._guesses.check(address)
        matches = [principal for principal, expected in self._known if hmac.compare_digest(token, expected)]
        if not matches:
            if token:
                self._guesses.add(address, token)
            raise Unauthorized("Send `Authorization: Bearer TOKEN` with a token of this gateway.")
        return matches[0]


@dataclass(slots=True)
class _Tries:
    since: float
    wrong: set[bytes] = field(default_factory=set)


class _Guesses:
    """Different wrong tokens of each address within a minute. One wrong token, however often it is sent, is one."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most, self._clock = most, clock
        self._tries: dict[str, _Tries] = {}

    def check(self, address: str) -> None:
        """Raise TooManyAttempts while the address has to wait, whatever token it sends now."""
        tries = self._tries.get(address_key(address)) if self._most else None
        left = _WINDOW_S - (self._clock() - tries.since) if tries else 0.0
        if tries and left > 0 and len(tries.wrong) >= self._most:
            raise TooManyAttempts(f"More than {self._most} wrong tokens in a minute.", retry_after_s=left)

    def add(self, address: str, token: bytes) -> None:
        """A wrong token."""
        if not self._most:
            return
        key, now = address_key(address), self._clock()
        tries = self._tries.get(key)
        if tries is None or now - tries.since >= _WINDOW_S:
            self._tries.pop(key, None)
            tries = self._tries[key] = _Tries(now)
            if len(self._tries) > _MOST_ADDRESSES:
                self._tries.pop(next(iter(self._tries)))  # the oldest
        tries.wrong.add(hashlib.blake2b(token, digest_size=16).digest())
