"""The four kinds of credentials of the sandbox: API key, HTTP basic, bearer token, OAuth2 client credentials."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Security
from fastapi.openapi.models import OAuthFlowClientCredentials, OAuthFlows
from fastapi.params import Depends as DependsMarker
from fastapi.security import (
    APIKeyHeader,
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
    SecurityScopes,
)
from fastapi.security import OAuth2 as OAuth2Scheme
from fastapi.security.utils import get_authorization_scheme_param

from sandbox.errors import Forbidden, Unauthorized
from sandbox.state import State

TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
SCOPES = {
    "customers:read": "Read customers.",
    "orders:read": "Read orders.",
    "orders:write": "Create and cancel orders.",
}

api_key_scheme = APIKeyHeader(
    name="X-API-Key", scheme_name="apiKey", description="API key of the bookings service.", auto_error=False
)
basic_scheme = HTTPBasic(
    scheme_name="basic", description="User name and password of the reminders service.", auto_error=False
)
bearer_scheme = HTTPBearer(
    scheme_name="bearer", description="Static access token of the address book.", auto_error=False
)
oauth_scheme = OAuth2Scheme(
    scheme_name="oauth2",
    description="Client credentials of the shop; tokens are opaque and short-lived.",
    flows=OAuthFlows(clientCredentials=OAuthFlowClientCredentials(tokenUrl=TOKEN_PATH, scopes=SCOPES)),
    auto_error=False,
)


def same_secret(given: str, expected: str) -> bool:
    """Whether two secrets are equal, in constant time and for any characters."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


async def require_api_key(state: State, key: Annotated[str | None, Security(api_key_scheme)]) -> None:
    """Raises Unauthorized unless the request carries the API key."""
    if key is None or not same_secret(key, state.credentials.api_key):
        raise Unauthorized(
            "a valid API key is required in the X-API-Key header", headers={"WWW-Authenticate": "APIKey"}
        )


async def require_basic(state: State, given: Annotated[HTTPBasicCredentials | None, Security(basic_scheme)]) -> None:
    """Raises Unauthorized unless the request carries the user name and password."""
    expected = state.credentials
    if given is not None:
        user_ok = same_secret(given.username, expected.basic_username)
        password_ok = same_secret(given.password, expected.basic_password)
        if user_ok and password_ok:
            return
    headers = {"WWW-Authenticate": 'Basic realm="reminders", charset="UTF-8"'}
    raise Unauthorized("a valid user name and password are required (HTTP basic)", headers=headers)


async def require_bearer(
    state: State, given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer_scheme)]
) -> None:
    """Raises Unauthorized unless the request carries the static bearer token."""
    if given is None or not same_secret(given.credentials, state.credentials.bearer_token):
        headers = {"WWW-Authenticate": 'Bearer realm="contacts"'}
        raise Unauthorized("a valid bearer token is required", headers=headers)


async def require_scopes(
    state: State, scopes: SecurityScopes, given: Annotated[str | None, Security(oauth_scheme)]
) -> None:
    """Raises Unauthorized without a valid access token, Forbidden if it lacks a scope (RFC 6750, section 3)."""
    scheme, token = get_authorization_scheme_param(given)
    grant = state.tokens.find(token) if scheme.lower() == "bearer" else None
    if grant is None:
        error = ', error="invalid_token"' if given else ""
        headers = {"WWW-Authenticate": f'Bearer realm="shop"{error}'}
        raise Unauthorized(
            f"an access token from {TOKEN_PATH} is required, or the one sent has expired", headers=headers
        )
    if missing := set(scopes.scopes) - grant.scopes:
        named = " ".join(sorted(missing))
        headers = {"WWW-Authenticate": f'Bearer realm="shop", error="insufficient_scope", scope="{named}"'}
        raise Forbidden(f"the access token lacks the scope {named}", headers=headers)


NeedsApiKey = Depends(require_api_key)
NeedsBasic = Depends(require_basic)
NeedsBearer = Depends(require_bearer)


def needs_scope(scope: str) -> DependsMarker:
    """Dependency on an OAuth2 access token with `scope`."""
    marker: DependsMarker = Security(require_scopes, scopes=[scope])
    return marker
