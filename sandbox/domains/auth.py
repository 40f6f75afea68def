"""OAuth2 token endpoint: client credentials (RFC 6749, sections 2.3.1, 4.4 and 5)."""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from sandbox.security import SCOPES, TOKEN_PATH, same_secret
from sandbox.state import State

router = APIRouter()

_FORM = "application/x-www-form-urlencoded"
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class AccessToken(BaseModel):
    """An access token."""

    access_token: str = Field(description="Opaque token, for the Authorization header.")
    token_type: str = Field(description="Always Bearer.", examples=["Bearer"])
    expires_in: int = Field(description="Seconds until it expires.")
    scope: str = Field(description="Granted scopes, separated by spaces.")


class OAuthError(BaseModel):
    """Error of the token endpoint (RFC 6749, section 5.2)."""

    error: str = Field(description="Code of the error.", examples=["invalid_client"])
    error_description: str = Field(description="What went wrong.")


class _Refused(Exception):
    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status


_REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        _FORM: {
            "schema": {
                "type": "object",
                "required": ["grant_type"],
                "properties": {
                    "grant_type": {"type": "string", "enum": ["client_credentials"], "description": "Kind of grant."},
                    "client_id": {"type": "string", "description": "Id of the client, unless sent by HTTP basic."},
                    "client_secret": {
                        "type": "string",
                        "format": "password",
                        "description": "Secret of the client, unless sent by HTTP basic.",
                    },
                    "scope": {
                        "type": "string",
                        "description": "Scopes wanted, separated by spaces; all by default.",
                        "examples": ["orders:read customers:read"],
                    },
                },
            }
        }
    },
}


@router.post(
    TOKEN_PATH,
    response_model=AccessToken,
    responses={
        400: {"model": OAuthError, "description": "The request is not valid."},
        401: {"model": OAuthError, "description": "The client is not known."},
    },
    openapi_extra={"requestBody": _REQUEST_BODY},
)
async def create_access_token(request: Request, state: State) -> JSONResponse:
    """Exchange client credentials for a short-lived access token.

    The client's id and secret go into the form or into HTTP basic.
    """
    try:
        form = await _read_form(request)
        if form.get("grant_type") != "client_credentials":
            code = "unsupported_grant_type" if "grant_type" in form else "invalid_request"
            raise _Refused(code, "grant_type must be client_credentials")
        client_id, secret = _client(request, form)
        expected = state.credentials
        id_ok = same_secret(client_id, expected.oauth_client_id)
        if not (same_secret(secret, expected.oauth_client_secret) and id_ok):
            raise _Refused("invalid_client", "the client is not known or its secret is wrong", 401)
        wanted = frozenset(form.get("scope", "").split()) or frozenset(SCOPES)
        if wanted - SCOPES.keys():
            raise _Refused("invalid_scope", f"known scopes are {' '.join(SCOPES)}")
    except _Refused as refused:
        headers = _NO_STORE | ({"WWW-Authenticate": 'Basic realm="oauth"'} if refused.status == 401 else {})
        content = OAuthError(error=refused.error, error_description=refused.description).model_dump()
        return JSONResponse(content, refused.status, headers)
    token = AccessToken(
        access_token=state.tokens.issue(wanted),
        token_type="Bearer",  # noqa: S106 - the type, no secret
        expires_in=int(state.tokens.lifetime),
        scope=" ".join(sorted(wanted)),
    )
    return JSONResponse(token.model_dump(), headers=_NO_STORE)


async def _read_form(request: Request) -> dict[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise _Refused("invalid_request", f"the body must be {_FORM}")
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise _Refused("invalid_request", "the form cannot be read") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise _Refused("invalid_request", "a parameter is given twice")
    return form


def _client(request: Request, form: dict[str, str]) -> tuple[str, str]:
    """Id and secret from HTTP basic (each form-encoded, section 2.3.1) or from the form, never from both."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    if "client_secret" in form:
        raise _Refused("invalid_request", "the client authenticates in two ways at once")
    try:
        client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise _Refused("invalid_client", "the Authorization header cannot be read", 401) from None
    return unquote_plus(client_id), unquote_plus(secret)
