"""Postman collections of version 2.0 and 2.1 (schema.postman.com): folders of example requests.

A collection shows requests instead of declaring operations. Schemas are inferred from its examples (``examples``). A
parameter is required only if it is in the path or its description says so. Folders become tags. Values that may be
secrets are never stored: an ``auth`` becomes the name of a credential, and so does a header or query parameter that can
only be a key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_DESCRIPTION, MAX_NAME
from retriever_svc.importers.names import slug
from retriever_svc.importers.outline import METHODS, Entry, Outline
from retriever_svc.importers.postman_parts import Fields, fields, read_answer, read_body, text_of
from retriever_svc.importers.postman_security import Schemes
from retriever_svc.importers.postman_url import Variables, read_url
from retriever_svc.importers.refs import JsonObject, SkipOperation, as_list, as_object, as_text
from services.errors import InvalidDocument

_VERSION = re.compile(r"(?:/collection/v|#)(\d+\.\d+)")
_TRANSPORT = frozenset(
    {"accept", "accept-encoding", "cache-control", "connection", "content-length", "content-type", "cookie", "host"}
    | {"postman-token", "user-agent"}
)
"""Headers that belong to the client, not to the request."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """The settings that a request inherits from its folders."""

    tags: tuple[str, ...]
    auth: JsonValue
    variables: Variables


def outline(root: JsonValue) -> Outline | None:
    """The outline of a collection; None if the document is not a collection.

    Raises:
        InvalidDocument: its version is not supported, or it has no items.
    """
    wrapped = as_object(root).get("collection")  # the form in which Postman's own API returns it
    collection = wrapped if isinstance(wrapped, dict) else as_object(root)
    info = as_object(collection.get("info"))
    version = _version(collection, info)
    if version is None:
        return None
    if version not in ("2.0", "2.1"):
        raise InvalidDocument(f"only Postman collections of version 2.0 and 2.1 are supported; this one has {version}")
    if not isinstance(collection.get("item"), list):
        raise InvalidDocument("the collection has no `item` list, so there is nothing to import")
    top = _Folder((), collection.get("auth"), Variables().extended(collection.get("variable")))
    found = list(_walk(as_list(collection["item"]), top))
    taken = Counter(slug(text_of(as_object(item).get("name"), MAX_NAME)) for item, _ in found)
    schemes = Schemes()
    entries = [_entry(item, folder, schemes, taken) for item, folder in found]
    document: JsonObject = {"components": {"securitySchemes": schemes.declared}}
    return Outline(f"postman-{version}", as_text(info.get("name"), MAX_NAME), document, entries)


def _version(collection: JsonObject, info: JsonObject) -> str | None:
    declared = info.get("schema") or info.get("_postman_schema")
    match = _VERSION.search(declared) if isinstance(declared, str) else None
    if match:
        return match[1]
    if isinstance(collection.get("requests"), list) and "order" in collection:
        return "1.0"
    return "2.1" if "_postman_id" in info else None


def _walk(items: list[JsonValue], folder: _Folder) -> Iterator[tuple[JsonValue, _Folder]]:
    """Every request with its folder. The limit on the document's depth bounds the recursion."""
    for item in items:
        declared = as_object(item)
        if not isinstance(declared.get("item"), list):
            yield item, folder
            continue
        name = text_of(declared.get("name"), MAX_NAME)
        inner = _Folder(
            (*folder.tags, name) if name else folder.tags,
            declared.get("auth") or folder.auth,
            folder.variables.extended(declared.get("variable")),
        )
        yield from _walk(as_list(declared["item"]), inner)


def _entry(declared: JsonValue, folder: _Folder, schemes: Schemes, taken: Counter[str]) -> Entry:
    item = as_object(declared)
    name = text_of(item.get("name"), MAX_NAME)
    request = item.get("request")
    if isinstance(request, str):  # a request that is only a URL
        request = {"url": request}
    try:
        if not isinstance(request, dict):
            raise SkipOperation("the item has no request")
        method = str(request.get("method") or "GET").lower()
        if method not in METHODS:
            raise SkipOperation(f"the method {method[:40]!r} is not imported")
        path, operation = _operation(item, request, folder, schemes)
    except SkipOperation as skip:
        return Entry(name or "(a request without a name)", "*", {}, skip)
    is_unique = taken[slug(name)] == 1
    operation["operationId"] = name if is_unique else " ".join((*folder.tags, name))
    return Entry(path, method, {}, {"summary": name, "tags": list(folder.tags), **operation})


def _operation(item: JsonObject, request: JsonObject, folder: _Folder, schemes: Schemes) -> tuple[str, JsonObject]:
    """The path, and the operation without its name, summary and tags.

    Raises:
        SkipOperation: there is no URL, or the body cannot be expressed.
    """
    variables = folder.variables.extended(item.get("variable"))
    url = read_url(request.get("url"), variables)
    headers = fields(request.get("header"))
    kept, media_type = _headers(headers)
    needed = schemes.read(request.get("auth") or folder.auth, kept, url.query, variables)
    parameters = [field.parameter("path") for field in url.path_fields]
    parameters += [field.parameter("query") for field in url.query if field not in needed.fields]
    parameters += [field.parameter("header") for field in kept if field not in needed.fields]
    operation: JsonObject = {
        "description": text_of(request.get("description") or item.get("description"), MAX_DESCRIPTION),
        "parameters": list(parameters),
        "servers": [{"url": url.base}],
        "security": [dict(needed.requirement)],
        "responses": read_answer(item.get("response")),
    }
    body = read_body(as_object(request.get("body")), media_type)
    if body is not None:
        operation["requestBody"] = body
    return url.path, operation


def _headers(headers: Fields) -> tuple[Fields, str]:
    """The headers that are arguments or credentials, and the media type of ``Content-Type``."""
    stated = (field.value for field in headers if field.name.lower() == "content-type" and not field.disabled)
    media_type = next(stated, "")
    return [field for field in headers if field.name.lower() not in _TRANSPORT], media_type
