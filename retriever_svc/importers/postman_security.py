"""Credentials of Postman's requests as security schemes of OpenAPI. Their values are never read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import orjson
from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_NAME
from retriever_svc.importers.postman_parts import Field, Fields
from retriever_svc.importers.postman_url import Variables
from retriever_svc.importers.refs import JsonObject, as_list, as_object

_ATTRIBUTES = ("key", "in", "grant_type", "accessTokenUrl", "authUrl")
_MAX_ATTRIBUTES = 100
_KEY = re.compile(r"(?:x-)?(?:rapidapi-key|api[-_]?key|access[-_]?token|auth[-_]?token)", re.IGNORECASE)
"""Names of headers and query parameters that are always credentials."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The credentials that a request must present, and the fields that carry them and so are not arguments."""

    requirement: dict[str, JsonValue]
    fields: Fields


@dataclass(slots=True)
class Schemes:
    """The security schemes of a collection, without duplicates."""

    declared: JsonObject = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    _stems: Counter[str] = field(default_factory=Counter)

    def read(self, auth: JsonValue, headers: Fields, query: Fields, variables: Variables) -> Needed:
        """The credentials of one request: its own or inherited ``auth``, and keys among its fields."""
        schemes, carriers = list[JsonObject](), Fields()
        stated = _scheme(as_object(auth), variables)
        if stated is not None:
            schemes.append(stated)
        for header in headers:
            if header.name.lower() == "authorization":
                carriers.append(header)
                if stated is None and not header.disabled:
                    schemes.append(_authorization(header))
        for place, listed in (("header", headers), ("query", query)):
            for key in listed:
                if _KEY.fullmatch(key.name):
                    carriers.append(key)
                    schemes.append({"type": "apiKey", "in": place, "name": key.name})
        return Needed({self._name(scheme): [] for scheme in schemes}, carriers)

    def _name(self, scheme: JsonObject) -> str:
        key = orjson.dumps(scheme, option=orjson.OPT_SORT_KEYS)
        if key not in self._names:
            stem = str(scheme.get("scheme") or scheme["type"]).lower()
            self._stems[stem] += 1
            self._names[key] = stem if self._stems[stem] == 1 else f"{stem}_{self._stems[stem]}"
            self.declared[self._names[key]] = scheme
        return self._names[key]


def _scheme(auth: JsonObject, variables: Variables) -> JsonObject | None:
    """The scheme of an ``auth``; an unknown one keeps its name."""
    kind = auth.get("type")
    if not isinstance(kind, str) or kind == "noauth":
        return None
    values = _attributes(auth.get(kind))
    if kind in ("basic", "bearer", "digest"):
        return {"type": "http", "scheme": kind}
    if kind == "apikey":
        place = values.get("in") if values.get("in") in ("header", "query") else "header"
        return {"type": "apiKey", "in": place, "name": variables.expand(values.get("key", ""))[:MAX_NAME]}
    if kind == "oauth2":
        endpoints = {"tokenUrl": values.get("accessTokenUrl", ""), "authorizationUrl": values.get("authUrl", "")}
        flow: JsonObject = {name: variables.expand(url) for name, url in endpoints.items() if url}
        flow_name = "clientCredentials" if values.get("grant_type") == "client_credentials" else "authorizationCode"
        return {"type": "oauth2", "flows": {flow_name: flow}}
    if kind == "awsv4":
        return {"type": "apiKey", "in": "header", "name": "Authorization", "x-amazon-apigateway-authtype": "awsSigv4"}
    return {"type": re.sub(r"\W+", "", kind[:MAX_NAME])[:40] or "unknown"}


def _attributes(declared: JsonValue) -> dict[str, str]:
    """The relevant attributes of an ``auth``: an object in version 2.0, a list of keys and values in 2.1.

    Only the start of a list is read, since a folder's ``auth`` is read for each request in the folder.
    """
    if isinstance(declared, dict):
        found: JsonObject = {key: declared.get(key) for key in _ATTRIBUTES}
    else:
        listed = map(as_object, as_list(declared)[:_MAX_ATTRIBUTES])
        found = {str(one.get("key")): one.get("value") for one in listed if one.get("key") in _ATTRIBUTES}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _authorization(header: Field) -> JsonObject:
    scheme = header.value.strip().partition(" ")[0].lower()
    if scheme in ("basic", "bearer", "digest"):
        return {"type": "http", "scheme": scheme}
    return {"type": "apiKey", "in": "header", "name": "Authorization"}
