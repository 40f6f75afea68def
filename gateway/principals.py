"""Authenticates callers by their bearer token (RFC 6750, section 2.1)."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from starlette.requests import Request

from gateway.keys import KeyStore, is_key
from gateway.roles import Role
from gateway.settings import GatewaySettings
from services.contracts.access import Key
from services.errors import Forbidden, Overloaded, ServiceUnavailable, TooManyAttempts, Unauthorized
from services.http import bearer_token
from services.turns import address_key

_WINDOW_S: Final = 60.0
_MOST_ADDRESSES: Final = 10_000
ISSUER_KEY_PREFIX: Final = "jwt:"
"""Prefix of the `key` of a principal that an authorization server names."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An app that uses the gateway, the tenant whose runs it sees, and what it may do there.

    Attributes:
        operator: whether its tenant runs this installation.
        key: the id of the key that it presented; or `jwt:` and the issuer's name; empty for a configured token.
        ends: when its token is no longer accepted, in seconds since the epoch; None where the token does not say.
    """

    name: str = "anonymous"
    tenant: str = "default"
    roles: frozenset[Role] = frozenset(Role)
    operator: bool = False
    key: str = ""
    ends: int | None = None

    @property
    def owner(self) -> str | None:
        """The owner of what it imports: its tenant, or None for the operator."""
        return None if self.operator else self.tenant

    def audience(self, *, shared: bool) -> str | None:
        """The tenant that sees the demonstrations it adds; None: everyone. Raises Forbidden if it may not share."""
        if shared and not self.operator:
            raise Forbidden("Only the operator's administrators can share demonstrations with everyone.")
        return None if shared else self.tenant

    def check_tenant(self, tenant: str | None) -> str | None:
        """The tenant whose keys and audit entries it may see: its own; for the operator, any tenant or all (None).

        Raises:
            Forbidden: it asks for another tenant, and is not the operator.
        """
        if self.operator:
            return tenant
        if tenant not in (None, self.tenant):
            raise Forbidden("Only the operator's administrators can do this for other tenants.")
        return self.tenant

    def require(self, roles: Collection[Role]) -> None:
        """Raise Forbidden unless it has at least one of these roles."""
        if self.roles.isdisjoint(roles):
            names = " or ".join(f"`{role}`" for role in sorted(roles))
            raise Forbidden(f"The principal {self.name!r} needs the role {names} for this.")


class TokenVerifier(Protocol):
    """Verifies tokens of authorization servers."""

    async def verify(self, token: bytes) -> Principal | None:
        """The principal of a token; None if it is not a token, or is forged. Raises Unauthorized."""


class Principals:
    """The principals that may use the gateway: by key, by token of an authorization server, or by configured token.

    If no token, principal or issuer is configured, anybody may use it.

    Args:
        settings: the configured principals.
        keys: the store of keys; None: there are no keys.
        issuers: verifies tokens of authorization servers; None: there are none.
        clock: a monotonic clock, in seconds.

    Attributes:
        console_key: signs the console sessions that were not opened with a configured token.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        keys: KeyStore | None = None,
        issuers: TokenVerifier | None = None,
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
        self._wrong_tokens = _WrongTokens(settings.max_wrong_tokens, clock)

    @property
    def takes_anybody(self) -> bool:
        """Whether no token is required."""
        return self._takes_anybody

    def find_signer(self, signs: Callable[[bytes], bool], shown: bytes, address: str) -> Principal | None:
        """The principal whose configured token has made a signature, if any has. All are checked.

        What was ``shown`` counts as a wrong token if none has: a token can be guessed by what it signs.

        Raises:
            TooManyAttempts: the address has sent too many wrong tokens.
        """
        self._wrong_tokens.check(address)
        signers = [principal for principal, token in self._known if signs(token)]
        if not signers:
            self._wrong_tokens.add(address, shown)
        return signers[0] if signers else None

    async def authenticate(self, request: Request) -> Principal:
        """The principal of a request.

        Raises:
            InvalidRequest: the request has two tokens.
            Unauthorized: the token is missing or not known, or its issuer's keys cannot be fetched now.
            TooManyAttempts: its address has sent too many wrong tokens.
            ServiceUnavailable: keys cannot be looked up now.
        """
        return await self.authenticate_token(
            bearer_token(request.headers), request.client.host if request.client else ""
        )

    async def authenticate_token(self, token: bytes, address: str) -> Principal:
        """The principal of a token of any kind that an address sent. Raises the same errors as ``authenticate``."""
        if self._keys is not None and is_key(token):
            self._wrong_tokens.check(address)
            if (key := await self._keys.find_by_token(token)) is not None:
                return self._principal_of(key)
        elif self._issuers is not None:
            self._wrong_tokens.check(address)
            if (principal := await self._issuers.verify(token)) is not None:
                return principal
        return self.of(token, address)

    async def check(self, principal: Principal) -> None:
        """Raise Unauthorized if the token of a principal has expired or its key was revoked since it was authenticated.

        While keys cannot be looked up, none can be revoked, and they count as valid.
        """
        over = principal.ends is not None and principal.ends <= time.time()
        if not over and principal.key and not principal.key.startswith(ISSUER_KEY_PREFIX):
            with suppress(ServiceUnavailable, Overloaded):
                over = await self.find_by_key_id(principal.key) is None
        if over:
            raise Unauthorized("The token of this request is no longer valid.")

    async def find_by_key_id(self, key_id: str) -> Principal | None:
        """The principal of the key with this id, if it is valid now. Raises ServiceUnavailable."""
        key = await self._keys.find_by_id(key_id) if self._keys is not None else None
        return None if key is None else self._principal_of(key)

    def find_issued(self, name: str, tenant: str, roles: frozenset[Role], key: str) -> Principal | None:
        """The principal that an authorization server has named, if that server is still configured."""
        known = key in {f"{ISSUER_KEY_PREFIX}{issuer.name}" for issuer in self._settings.issuers}
        return Principal(name, tenant, roles, tenant == self._operator, key) if known else None

    def _principal_of(self, key: Key) -> Principal:
        return Principal(key.name, key.tenant, frozenset(key.roles), key.tenant == self._operator, key.id)

    def of(self, token: bytes, address: str = "") -> Principal:
        """The principal of a configured token that came from an address. Raises Unauthorized and TooManyAttempts.

        All configured tokens are compared, each in constant time, so that timing reveals nothing about any of them. A
        token in the form of a key is refused if it is not valid, even if the gateway otherwise accepts anybody.
        """
        if self._takes_anybody and not is_key(token):
            return self._anybody
        self._wrong_tokens.check(address)
        matches = [principal for principal, expected in self._known if hmac.compare_digest(token, expected)]
        if not matches:
            if token:
                self._wrong_tokens.add(address, token)
            raise Unauthorized("Send `Authorization: Bearer TOKEN` with a token of this gateway.")
        return matches[0]


@dataclass(slots=True)
class _Attempts:
    since: float
    wrong: set[bytes] = field(default_factory=set)


class _WrongTokens:
    """Counts the distinct wrong tokens of each address within a minute. A repeated wrong token counts once."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most, self._clock = most, clock
        self._attempts: dict[str, _Attempts] = {}

    def check(self, address: str) -> None:
        """Raise TooManyAttempts while the address is blocked, whatever token it sends."""
        attempts = self._attempts.get(address_key(address)) if self._most else None
        left = _WINDOW_S - (self._clock() - attempts.since) if attempts else 0.0
        if attempts and left > 0 and len(attempts.wrong) >= self._most:
            raise TooManyAttempts(f"More than {self._most} wrong tokens in a minute.", retry_after_s=left)

    def add(self, address: str, token: bytes) -> None:
        """Count a wrong token of an address."""
        if not self._most:
            return
        key, now = address_key(address), self._clock()
        attempts = self._attempts.get(key)
        if attempts is None or now - attempts.since >= _WINDOW_S:
            self._attempts.pop(key, None)
            attempts = self._attempts[key] = _Attempts(now)
            if len(self._attempts) > _MOST_ADDRESSES:
                self._attempts.pop(next(iter(self._attempts)))  # the oldest
        attempts.wrong.add(hashlib.blake2b(token, digest_size=16).digest())
