"""Reads security schemes and requirements into names of the secrets a call needs. Values are never read here."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_NAME
from retriever_svc.importers.refs import DanglingReference, Document, JsonObject, SkipOperation, as_list, as_object
from services.contracts.api import Location, SecretKind, SecurityRequirement

_PLACES = {"header": Location.HEADER, "query": Location.QUERY, "cookie": Location.COOKIE}
_MAX_ALTERNATIVES = 20
_MAX_TOGETHER = 20
_AWS_MARK = "x-amazon-apigateway-authtype"
_MAX_SAID = 4_000
_BEARER = re.compile(r"\bbearer\b", re.IGNORECASE)
_NO_BEARER = re.compile(r"\b(?:no|not|without|n't)\b[^.]{0,40}\bbearer\b", re.IGNORECASE)
_FLOWS = ("clientCredentials", "authorizationCode", "deviceAuthorization", "password", "implicit")
_ENDPOINTS = {
    "token_url": "tokenUrl",
    "authorization_url": "authorizationUrl",
    "device_url": "deviceAuthorizationUrl",
}

Alternatives = tuple[tuple[SecurityRequirement, ...], ...]


def read_security(document: Document, requirement: JsonValue, provider: str, server: str) -> Alternatives:
    """The alternatives of a ``security`` list, each a set of credentials needed together; ``{}`` is the empty set.

    Args:
        document: where the schemes are declared.
        requirement: the list of the operation, or the document's own.
        provider: first part of the secrets' names.
        server: completes relative URLs.

    Raises:
        SkipOperation: a call needs too many credentials at once.
    """
    alternatives = []
    for item in as_list(requirement)[:_MAX_ALTERNATIVES]:
        if isinstance(item, dict):
            if len(item) > _MAX_TOGETHER:
                raise SkipOperation(f"a call needs more than {_MAX_TOGETHER} credentials at once")
            needed = (_requirement(document, name, scopes, provider, server) for name, scopes in item.items())
            alternatives.append(tuple(needed))
    # Only an empty alternative: the operation needs no credential.
    return () if alternatives == [()] else tuple(alternatives)


def _requirement(document: Document, name: str, scopes: JsonValue, provider: str, server: str) -> SecurityRequirement:
    asked = tuple(scope[:MAX_NAME] for scope in as_list(scopes) if isinstance(scope, str))
    scheme = _scheme(document, name)
    fields = _fields(scheme, server)
    return SecurityRequirement(scheme=name, secret=f"{provider}.{name}", scopes=asked, **fields)


def _scheme(document: Document, name: str) -> JsonObject:
    components = as_object(as_object(document.root.get("components")).get("securitySchemes"))
    schemes = components or as_object(document.root.get("securityDefinitions"))
    try:
        return as_object(document.deref(schemes.get(name)))
    except (DanglingReference, SkipOperation):  # for an undeclared scheme, the secret's entry says how to present it
        return {}


def _fields(scheme: JsonObject, server: str) -> dict[str, str | SecretKind | Location | None]:
    """The fields that depend on the kind of the scheme."""
    kind, place, key = scheme.get("type"), scheme.get("in"), scheme.get("name")
    if kind == "apiKey" and scheme.get(_AWS_MARK) == "awsSigv4":
        return {"kind": SecretKind.AWS_SIGV4}
    if kind == "apiKey" and place == "header" and _is_bearer(key, scheme.get("description")):
        return {"kind": SecretKind.BEARER}
    if kind == "apiKey" and isinstance(key, str) and key and isinstance(place, str) and place in _PLACES:
        return {"kind": SecretKind.API_KEY, "location": _PLACES[place], "parameter": key[:MAX_NAME]}
    http = str(scheme.get("scheme")).lower() if kind == "http" else None
    if kind == "basic" or http == "basic":
        return {"kind": SecretKind.BASIC}
    if http == "digest":
        return {"kind": SecretKind.DIGEST}
    if http == "bearer":
        return {"kind": SecretKind.BEARER}
    if http is not None:  # any other HTTP scheme: the value is the whole header, including the scheme's name
        return {"kind": SecretKind.API_KEY, "location": Location.HEADER, "parameter": "Authorization"}
    if kind == "oauth2":
        return {"kind": SecretKind.OAUTH2} | _oauth2(scheme, server)
    if kind == "openIdConnect":
        return {"kind": SecretKind.OPENID_CONNECT, "openid_url": _url(scheme.get("openIdConnectUrl"), server)}
    return {"kind": SecretKind.MUTUAL_TLS if kind == "mutualTLS" else SecretKind.OTHER}


def _is_bearer(key: JsonValue, description: JsonValue) -> bool:
    """Whether a key in a header is a bearer token. Swagger 2.0 can say so only in the description."""
    if not isinstance(key, str) or key.lower() != "authorization" or not isinstance(description, str):
        return False
    said = description[:_MAX_SAID]
    return _BEARER.search(said) is not None and _NO_BEARER.search(said) is None


def _oauth2(scheme: JsonObject, server: str) -> dict[str, str | SecretKind | Location | None]:
    """The endpoints that any of the flows names. Swagger 2.0 has one flow, with its fields in the scheme itself."""
    flows = [scheme, *(as_object(as_object(scheme.get("flows")).get(name)) for name in _FLOWS)]
    found = {
        ours: next((url for flow in flows if (url := _url(flow.get(theirs), server))), None)
        for ours, theirs in _ENDPOINTS.items()
    }
    return {name: url for name, url in found.items() if url}


def _url(declared: JsonValue, server: str) -> str | None:
    if not isinstance(declared, str) or not declared.strip():
        return None
    try:
        url = urljoin(f"{server}/" if server else "", declared.strip())
        parts = urlsplit(url)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])  # the catalogue must not store a password
        return bare.geturl() if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:  # "http://[" is not a URL
        return None
