"""An authorization server that signs JWTs, with its metadata and keys on a real port."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.support.authorization import AuthorizationServer, serve_authorization
from tests.support.upstream import Seen

AUDIENCE = "https://nestor.example"
METADATA, JWKS = "/.well-known/openid-configuration", "/jwks"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def settings_of(url: str, **fields: Any) -> dict[str, Any]:
    """A gateway's settings for the issuer at this URL. Its principals are of the tenant `red`, unless a claim says."""
    base = {"name": "corp", "issuer": url, "audience": [AUDIENCE]}
    return base | ({} if "tenant_claim" in fields else {"tenant": "red"}) | fields


def new_key(algorithm: str, bits: int = 2048) -> Private:
    """A private key for RS256, ES256 or EdDSA."""
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65_537, key_size=bits)
    return ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else ed25519.Ed25519PrivateKey.generate()


def jwk_of(key: Private, **members: Any) -> dict[str, Any]:
    """The public key as a JWK."""
    if isinstance(key, rsa.RSAPrivateKey):
        text = RSAAlgorithm.to_jwk(key.public_key())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        text = ECAlgorithm.to_jwk(key.public_key())
    else:
        text = OKPAlgorithm.to_jwk(key.public_key())
    return {**json.loads(text), **members}


@dataclass
class Issuer:
    """The issuer. Tests change its attributes: the keys that `/jwks` lists, the keys that sign, and the metadata."""

    server: AuthorizationServer
    listed: list[dict[str, Any]] = field(default_factory=list)
    private: dict[str, tuple[str, Private]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server.upstream.answers |= {METADATA: self.discovery, JWKS: self.keys}

    @property
    def url(self) -> str:
        return self.server.issuer

    @property
    def fetches(self) -> int:
        return self.server.upstream.count(JWKS)

    def add(self, kid: str, algorithm: str, **members: Any) -> None:
        """Add a signing key and list it."""
        key = new_key(algorithm)
        self.private[kid] = (algorithm, key)
        self.listed.append(jwk_of(key, kid=kid, **members))

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a valid token, with changes; None removes a claim."""
        now = int(time.time())
        good = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": now + 300, "iat": now, "roles": ["ask"]}
        return {name: value for name, value in (good | changed).items() if value is not None}

    def token(self, kid: str = "ed", headers: dict[str, Any] | None = None, **changed: Any) -> str:
        """A signed token with a valid token's claims and these changes."""
        return self.signed(self.claims(**changed), kid, headers)

    def signed(self, claims: dict[str, Any], kid: str = "ed", headers: dict[str, Any] | None = None) -> str:
        """A signed token with exactly these claims."""
        algorithm, key = self.private[kid]
        return jwt.encode(claims, key, algorithm, {"kid": kid} | (headers or {}))

    async def discovery(self, seen: Seen) -> web.StreamResponse:
        answer = await self.server.discovery(seen)
        assert isinstance(answer, web.Response)
        assert isinstance(answer.text, str)
        said = json.loads(answer.text) | {"jwks_uri": self.server.origin + JWKS}
        return web.json_response(said | self.metadata)

    async def keys(self, _: Seen) -> web.StreamResponse:
        return web.json_response({"keys": self.listed})


@asynccontextmanager
async def serve_issuer() -> AsyncIterator[Issuer]:
    """Serve an issuer with one EdDSA key, `ed`."""
    async with serve_authorization() as server:
        issuer = Issuer(server)
        issuer.add("ed", "EdDSA")
        yield issuer
