"""The public keys of an authorization server (JWK Set, RFC 7517), fetched on demand and cached.

Clients that send tokens cannot make the gateway fetch keys more often than once in `FETCH_EVERY_S`. There is one fetch
at a time, and each is bounded in time and size.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import jwt

from gateway.metrics import GatewayMetrics
from gateway.settings import IssuerSettings, is_safe_url
from services.errors import ServiceUnavailable
from services.http import loads_strict
from services.telemetry import get_logger

FETCH_EVERY_S: Final = 30.0
"""Minimum time between two fetches, whatever keys tokens name."""
REFRESH_S: Final = 600.0
"""Age at which keys are fetched again. A key that the issuer withdraws is refused after that."""
KEEP_S: Final = 3_600.0
"""Age at which keys are no longer used, even if no others can be fetched."""
FETCH_WITHIN_S: Final = 5.0
"""Timeout of a fetch, including discovery."""
MAX_BYTES: Final = 262_144
_MAX_KEYS: Final = 100
_MAX_DEPTH, _MAX_VALUES = 16, 10_000
_RSA_BITS: Final = range(2_048, 8_193)
_ALGORITHMS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
_PUBLIC: Final = ("kty", "n", "e", "crv", "x", "y")
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies tokens, and the one algorithm that it is for."""

    kid: str | None
    algorithm: str
    key: jwt.PyJWK


class IssuerKeys:
    """Finds the keys of one issuer.

    Args:
        settings: the issuer's settings.
        http: the client that fetches the keys.
        metrics: records whether the last fetch succeeded.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        settings: IssuerSettings,
        http: httpx2.AsyncClient,
        metrics: GatewayMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._http, self._clock = settings, http, clock
        self._reachable = metrics.issuer_reachable.labels(settings.name)
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._failed = False
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key that a token names, or, if it names none, the only key for its algorithm.

        Raises:
            ServiceUnavailable: the key is not known, and keys cannot be fetched now: the last fetch failed, or was just
                made for another token.
        """
        if (found := self._known(kid, algorithm)) is not None:
            if self._clock() - self._fetched_at >= REFRESH_S:
                self._begin()  # this request does not wait for it
            return found
        fetched = await self._refresh()
        found = self._known(kid, algorithm)
        if found is None and (self._failed or not fetched):
            raise ServiceUnavailable("The issuer's keys cannot be fetched now.")
        return found

    async def check(self) -> None:
        """Raise ServiceUnavailable if the last fetch failed. Fetches first if the keys are due for it."""
        if self._failed or self._clock() - self._fetched_at >= REFRESH_S:
            await self._refresh()
        if self._failed:
            raise ServiceUnavailable("its keys cannot be fetched")

    async def aclose(self) -> None:
        """Cancel a fetch in progress and close the client."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})
        await self._http.aclose()

    def _known(self, kid: str | None, algorithm: str) -> PublicKey | None:
        if self._clock() - self._fetched_at >= KEEP_S:
            return None
        fitting = [key for key in self._keys if key.algorithm == algorithm and kid in (None, key.kid)]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self) -> bool:
        """Fetch the keys, or wait for the fetch under way. False: it is too soon for one."""
        self._begin()
        if self._fetching is None:
            return False
        await asyncio.wait({self._fetching})  # a cancelled request does not cancel the fetch for the others
        return True

    def _begin(self) -> None:
        if self._fetching is None and self._clock() - self._tried_at >= FETCH_EVERY_S:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_WITHIN_S):
                self._keys = _usable(await self._get(self._settings.jwks_url or await self._discover()))
            self._fetched_at, self._failed = self._clock(), False
        except Exception as error:  # noqa: BLE001 - URLs and answers are the issuer's: any error means it gave no keys
            self._failed = True
            _log.warning("keys not fetched", issuer=self._settings.name, why=f"{type(error).__name__}: {error}")
        finally:
            self._reachable.set(not self._failed)
            self._fetching = None

    async def _discover(self) -> str:
        """The URL of the keys, from the issuer's metadata (OpenID Connect Discovery 1.0, section 4)."""
        issuer = self._settings.issuer
        said = await self._get(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if said.get("issuer") != issuer:
            raise ServiceUnavailable("The metadata belong to another issuer.")
        url = said.get("jwks_uri")
        if not isinstance(url, str) or not is_safe_url(url):
            raise ServiceUnavailable("The metadata have no `jwks_uri` with https.")
        return url

    async def _get(self, url: str) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self._http.stream("GET", url, headers=headers) as response:
            if response.status_code != 200:
                raise ServiceUnavailable(f"{url} answered {response.status_code}.")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ServiceUnavailable(f"{url} answered more than {MAX_BYTES} bytes.")
                await asyncio.sleep(0)  # there can be a chunk for each byte, all of them received already
        said = loads_strict(bytes(body), max_depth=_MAX_DEPTH, max_values=_MAX_VALUES)
        if not isinstance(said, dict):
            raise ServiceUnavailable(f"{url} did not answer with a JSON object.")
        return said


def _usable(said: dict[str, Any]) -> tuple[PublicKey, ...]:
    """The keys of a set that are for one of our algorithms. Raises ServiceUnavailable if there are none."""
    listed = said.get("keys")
    keys = [key for one in (listed if isinstance(listed, list) else [])[:_MAX_KEYS] if (key := _public(one))]
    if not keys:
        raise ServiceUnavailable("The issuer has no key for RS256, ES256 or EdDSA.")
    return tuple(keys)


def _public(said: object) -> PublicKey | None:
    """A key, if it is for one of our algorithms. Symmetric keys (`oct`) are not, which rules out HMAC confusion."""
    if not isinstance(said, dict) or said.get("use") not in (None, "sig"):
        return None
    kty, crv, kid = said.get("kty"), said.get("crv"), said.get("kid")
    if not isinstance(kty, str) or not isinstance(crv, str | None) or not isinstance(kid, str | None):
        return None
    algorithm = _ALGORITHMS.get((kty, crv))
    if algorithm is None or said.get("alg") not in (None, algorithm, *(("Ed25519",) if kty == "OKP" else ())):
        return None
    try:
        key = jwt.PyJWK({name: said[name] for name in _PUBLIC if name in said}, algorithm)
    except (jwt.PyJWTError, TypeError, ValueError, AttributeError):
        return None
    if algorithm == "RS256" and key.key.key_size not in _RSA_BITS:
        return None
    return PublicKey(kid, algorithm, key)
