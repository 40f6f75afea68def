"""OpenAPI 3.0, 3.1 and Swagger 2.0 documents become APIs. A pure function of the text: nothing is fetched or stored."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_SUMMARY, Limits
from retriever_svc.importers.operations import Source, read_operation
from retriever_svc.importers.reading import read_document
from retriever_svc.importers.refs import DanglingReference, JsonObject, SkipOperation, as_list, as_object
from retriever_svc.importers.servers import choose_server
from retriever_svc.importers.swagger import upgrade_servers
from services.contracts.api import Api, SkippedOperation
from services.errors import InvalidDocument

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
"""The methods of a path item that are imported. TRACE is for debugging connections, not for answering requests."""

Progress = Callable[[int, int], None]
"""Called with operations done and operations in all."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a document holds."""

    provider: str
    format: str
    document_hash: str
    apis: tuple[Api, ...]
    skipped: tuple[SkippedOperation, ...]
    warnings: tuple[str, ...]


def import_document(
    text: str,
    provider: str | None = None,
    server: str | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Read every operation of a document.

    Args:
        text: the document, JSON or YAML.
        provider: first part of the ids; by default a slug of the document's title.
        server: base URL that replaces the document's, or completes a relative one.
        limits: bounds on what is read.
        progress: told after each operation.

    Raises:
        InvalidDocument: the text is no such document. What is wrong with a single operation only skips that operation.
    """
    limits = limits or Limits()
    root = read_document(text, limits)
    form = _format(root)
    provider = provider or _provider(root, server)
    source = Source.open(root, provider, server, form == "swagger-2.0", limits)
    operations = list(_operations(source, root))
    if len(operations) > limits.operations:
        raise InvalidDocument(
            f"the document has {len(operations):,} operations; at most {limits.operations:,} are read"
        )
    apis, skipped = [], []
    for done, (path, method, item, operation) in enumerate(operations, start=1):
        try:
            if isinstance(operation, SkipOperation):
                raise operation
            apis.append(read_operation(source, path, method.upper(), item, operation))
        except SkipOperation as skip:
            label = f"{method.upper()} {path}"[:MAX_SUMMARY]
            skipped.append(SkippedOperation(operation=label, reason=str(skip)))
        progress(done, len(operations))
    if apis and not any(api.server for api in apis):
        source.notes.warn("no operation has a server that could be called; import again with the server's URL")
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return Imported(provider, form, digest, tuple(apis), tuple(skipped), source.notes.as_tuple())


def _operations(source: Source, root: JsonObject) -> Iterator[tuple[str, str, JsonObject, JsonObject | SkipOperation]]:
    """Every operation of every path; one that cannot even be looked at comes with the reason."""
    for path, declared in as_object(root["paths"]).items():
        if path.startswith("x-"):
            continue
        try:
            item = as_object(source.document.deref(declared))
        except (SkipOperation, DanglingReference) as error:
            yield path, "*", {}, SkipOperation(str(error))
            continue
        for method in METHODS:
            operation = item.get(method)
            if isinstance(operation, dict):
                yield path, method, item, operation
            elif operation is not None:
                yield path, method, item, SkipOperation("the operation is not an object")


def _format(root: JsonObject) -> str:
    """The format and version, as the report names it.

    Raises:
        InvalidDocument: neither OpenAPI 3.0 or 3.1 nor Swagger 2.0, or without paths.
    """
    openapi, swagger = root.get("openapi"), root.get("swagger")
    version = _version(openapi)
    form = f"openapi-{version}" if version in ("3.0", "3.1") else None
    if openapi is None and _version(swagger) == "2.0":
        form = "swagger-2.0"
    if form is None:
        found = f"openapi {str(openapi)[:40]!r}" if openapi is not None else f"swagger {str(swagger)[:40]!r}"
        found = "neither `openapi` nor `swagger`" if openapi is None and swagger is None else found
        raise InvalidDocument(f"OpenAPI 3.0, 3.1 and Swagger 2.0 are read; this document says {found}")
    if not isinstance(root.get("paths"), dict):
        raise InvalidDocument("the document has no `paths` object, so there is nothing to import")
    return form


def _version(value: JsonValue) -> str:
    """`3.1` of `3.1.0`; YAML authors often leave the quotes away, which makes it a number."""
    match = re.match(r"(\d+)(?:\.(\d+))?", str(value)) if isinstance(value, (str, int, float)) else None
    return f"{match[1]}.{match[2] or 0}" if match else ""


def _provider(root: JsonObject, server: str | None) -> str:
    """A slug of the title; where that gives none, of the server's host."""
    title = as_object(root.get("info")).get("title")
    servers = upgrade_servers(root) if "swagger" in root else as_list(root.get("servers"))
    host = urlsplit(choose_server([servers], server)).hostname
    for text in (title, host):
        plain = unicodedata.normalize("NFKD", text if isinstance(text, str) else "").encode("ascii", "ignore").decode()
        provider = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:100].strip("-")
        if provider:
            return provider
    raise InvalidDocument("the document's title and server give no provider name; import it with a `provider`")
