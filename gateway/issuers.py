"""Authenticates tokens of authorization servers (JWT, RFC 7519), with the checks of RFC 8725 and RFC 9068.

Nothing in a token is trusted before its signature is verified. What is read earlier only selects the key to verify it
with. Claims of the token name the principal, its tenant and its roles; the settings say which claims.
"""

import base64
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import jwt

from gateway.issuer_keys import IssuerKeys, PublicKey
from gateway.metrics import GatewayMetrics
from gateway.principals import ISSUER_KEY_PREFIX, Principal
from gateway.roles import Role
from gateway.settings import TENANT, GatewaySettings, IssuerSettings
from services.clients import open_http
from services.errors import InvalidRequest, ServiceUnavailable, Unauthorized
from services.http import loads_strict

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
LEEWAY_S: Final = 30
"""Tolerated clock skew of the issuer, in seconds."""
MAX_TOKEN_BYTES: Final = 16_384
_JWT: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
_MAX_DEPTH, _MAX_VALUES = 16, 2_000
_MAX_NAME_CHARS: Final = 100


class Issuers:
    """The authorization servers whose tokens are accepted."""

    def __init__(self, settings: GatewaySettings, keys: Mapping[str, IssuerKeys], metrics: GatewayMetrics) -> None:
        self._operator, self._keys, self._tokens = settings.operator_tenant, keys, metrics.issuer_tokens
        self._issuers = {issuer.issuer: issuer for issuer in settings.issuers}
        self._named = {name for issuer in settings.issuers for name in (issuer.tenant, *issuer.tenants)}
        self._named.add(self._operator)

    async def verify(self, token: bytes) -> Principal | None:
        """The principal of a token; None if it is not a token of these issuers, or its signature is wrong.

        Raises:
            Unauthorized: the issuer has signed the token, but it is not valid here (the detail says why); or the
                issuer's keys cannot be fetched now. That is no wrong token: anybody may use up a fetch, and a
                signature cannot be guessed.
        """
        read = _read(token)
        issuer = self._issuers.get(_text(read[1].get("iss"))) if read is not None else None
        if read is None or issuer is None:
            return None
        said = await self._checked(token, read[0], issuer)
        if said is None:
            self._count(issuer, "forged")
            return None
        found = said if isinstance(said, str) else self._principal(said, issuer)
        if isinstance(found, str):
            self._count(issuer, "refused")
            raise Unauthorized(f"The token of {issuer.name!r} is not accepted: {found}.")
        self._count(issuer, "taken")
        return found

    async def _checked(
        self, token: bytes, header: Mapping[str, Any], issuer: IssuerSettings
    ) -> dict[str, Any] | str | None:
        """The claims of a token; the reason why they are not valid; or None if this issuer has not signed it."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS or not isinstance(kid, str | None) or "crit" in header:
            return None
        if _text(header.get("typ", "jwt")).lower() not in _TYPES:
            return None
        try:
            key = await self._keys[issuer.name].find(kid, algorithm)
        except ServiceUnavailable as error:
            self._count(issuer, "unavailable")
            raise Unauthorized(f"Tokens of {issuer.name!r} cannot be checked: its keys cannot be fetched.") from error
        return None if key is None else _verified(token, key, issuer)

    def _principal(self, claims: Mapping[str, Any], issuer: IssuerSettings) -> Principal | str:
        """The principal that the claims name, or the reason why they name none."""
        name, tenant = _at(claims, issuer.name_claim), issuer.tenant or _at(claims, issuer.tenant_claim or ())
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS or not name.isprintable():
            return "its claim for the principal's name is missing or not a valid name"
        if not isinstance(tenant, str) or not self._may_be(tenant, issuer):
            return "its claim for the tenant is missing or has a tenant that this issuer may not name"
        roles = _roles(_at(claims, issuer.roles_claim), issuer.roles)
        key = f"{ISSUER_KEY_PREFIX}{issuer.name}"
        return Principal(name, tenant, roles, tenant == self._operator, key, int(claims["exp"]) + LEEWAY_S)

    def _may_be(self, tenant: str, issuer: IssuerSettings) -> bool:
        if issuer.tenant is not None:
            return True
        known = tenant in issuer.tenants if issuer.tenants else tenant not in self._named
        return known and re.fullmatch(TENANT, tenant) is not None

    def _count(self, issuer: IssuerSettings, outcome: str) -> None:
        self._tokens.labels(issuer.name, outcome).inc()


@asynccontextmanager
async def open_issuers(
    settings: GatewaySettings, metrics: GatewayMetrics
) -> AsyncGenerator[tuple[Issuers, dict[str, IssuerKeys]], None]:
    """The issuers of the settings, and each issuer's keys by its name."""
    async with AsyncExitStack() as stack:
        keys: dict[str, IssuerKeys] = {}
        for issuer in settings.issuers:
            keys[issuer.name] = IssuerKeys(issuer, open_http(issuer.issuer), metrics)
            stack.push_async_callback(keys[issuer.name].aclose)
        yield Issuers(settings, keys, metrics), keys


def _read(token: bytes) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Header and claims of what looks like a token. They are not verified yet."""
    if len(token) > MAX_TOKEN_BYTES or _JWT.fullmatch(token) is None:
        return None
    try:
        header, claims = map(_json, token.split(b".")[:2])
    except (InvalidRequest, ValueError):
        return None
    return (header, claims) if isinstance(header, dict) and isinstance(claims, dict) else None


def _json(part: bytes) -> Any:
    text = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    return loads_strict(text, max_depth=_MAX_DEPTH, max_values=_MAX_VALUES)


def _verified(token: bytes, found: PublicKey, issuer: IssuerSettings) -> dict[str, Any] | str | None:
    """The claims of a token; the reason why they are not valid; or None if its signature is wrong."""
    try:
        return jwt.decode(
            token,
            found.key,
            algorithms=[found.algorithm],
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud"]},
        )
    except (jwt.DecodeError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError):
        return None
    except jwt.InvalidTokenError as error:
        return str(error)


def _at(claims: Mapping[str, Any], path: str | Sequence[str]) -> object:
    """The claim with this name, or the member at a path; None where there is none."""
    found: object = claims
    for name in (path,) if isinstance(path, str) else path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _roles(said: object, roles: Mapping[str, Sequence[Role]]) -> frozenset[Role]:
    """The roles that a claim gives. The claim is a list of names, or names separated by spaces, as in `scope`."""
    names = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    return frozenset(role for name in names if isinstance(name, str) for role in roles.get(name, ()))


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""
