"""Reads a document of any format into APIs. A pure function of the text: nothing is fetched or stored."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import JsonValue

from retriever_svc.importers import nestful, openapi, postman, seal_tools
from retriever_svc.importers.limits import MAX_NOTES, MAX_SUMMARY, Limits
from retriever_svc.importers.operations import Source, read_operation
from retriever_svc.importers.outline import Entry, Outline
from retriever_svc.importers.reading import read_document
from retriever_svc.importers.refs import SkipOperation, as_object, as_text
from retriever_svc.importers.servers import NoServer, choose_server
from services.contracts.api import Api, SkippedOperation
from services.errors import InvalidDocument

_FORMATS = (openapi.outline, postman.outline, seal_tools.outline, nestful.outline)

_MAX_VERSION = 40
_MAX_PROVIDER = 100
_MEANINGLESS = frozenset(
    re.findall(
        r"\S+",
        "a an api apis collection definition docs documentation example json main my new openapi public reference rest "
        "restful schema server service services spec specification swagger test the untitled v version web",
    )
)
_VERSION = re.compile(r"v?\d+")
_NEW_IN_3_2 = (
    "OpenAPI 3.2 is read as 3.1: `$self`, `itemSchema`, parameters in `querystring` and the methods that are new "
    "are not used"
)
_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "gov", "gob", "net", "or", "org"})
_NOBODYS_ENDINGS = frozenset({"example", "internal", "invalid", "lan", "local", "localhost", "test"})
_NOBODYS = frozenset(
    re.findall(
        r"\S+",
        "amazonaws appspot azure azurewebsites cloudapp cloudfront example github githubusercontent herokuapp "
        "localhost netlify ngrok postman rapidapi readme run swaggerhub vercel windows",
    )
)

Progress = Callable[[int, int], None]
"""Called with operations done and operations in all."""
_REASONS = 3
_MAX_DETAIL = 600


@dataclass(frozen=True, slots=True)
class Imported:
    """The content of a document. Of the skipped operations it has the first ``MAX_NOTES``, and the number of all."""

    provider: str
    format: str
    document_hash: str
    apis: tuple[Api, ...]
    skipped: tuple[SkippedOperation, ...]
    skipped_total: int
    warnings: tuple[str, ...]
    version: str = ""

    def refuse_empty(self) -> None:
        """Refuse a document without operations: importing it would only remove APIs.

        Raises:
            InvalidDocument: no operation could be imported; the most common reasons are named.
        """
        if self.apis:
            return
        reasons = Counter(skipped.reason for skipped in self.skipped).most_common(_REASONS)
        told = "; ".join(f"{reason} ({times:,} times)" if times > 1 else reason for reason, times in reasons)
        first = "" if self.skipped_total == len(self.skipped) else f", of the first {len(self.skipped)}"
        count = "" if self.skipped_total == 1 else f"{self.skipped_total} "
        raise InvalidDocument(
            f"none of the document's {count}operations can be imported{first}: {told}"[:_MAX_DETAIL]
            if reasons
            else "the document has no operations, so there is nothing to import"
        )


def import_document(
    text: str,
    provider: str | None = None,
    server: str | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda done, total: None,
    *,
    origin: str | None = None,
) -> Imported:
    """Read every operation of a document; its format is recognised.

    Args:
        text: the document: JSON, YAML, or JSON lines where the format is a list of tools.
        provider: first part of the ids; by default a slug of the document's title.
        server: base URL that replaces the document's, or completes a relative one.
        limits: bounds on what is read.
        progress: called after each operation.
        origin: the URL that the document came from; it completes relative servers if no ``server`` is given.

    Raises:
        InvalidDocument: the text is not such a document. An error in a single operation only skips that operation.
    """
    limits = limits or Limits()
    repeated = list[str]()
    outline = _outline(read_document(text, limits, repeated.append))
    entries = outline.entries
    if len(entries) > limits.operations:
        raise InvalidDocument(f"the document has {len(entries):,} operations; at most {limits.operations:,} are read")
    source = Source.open(outline, provider or "", server, limits, origin)
    for warning in repeated:
        source.notes.warn(warning)
    source.provider = provider or _provider(outline, source, server)
    if outline.format == "openapi-3.2":
        source.notes.warn(_NEW_IN_3_2)
    apis, skipped, skipped_total = _read(source, entries, progress)
    if apis and not any(api.server for api in apis):
        source.notes.warn("no operation has a server that could be called; import again with the server's URL")
    if provider is None and not outline.is_titled:
        source.notes.warn(
            f"the document has no title, so its provider is called {source.provider!r}; import it with a `provider` "
            "to keep it apart from similar documents"
        )
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    notes = source.notes.as_tuple()
    version = _own_version(outline)
    return Imported(source.provider, outline.format, digest, tuple(apis), tuple(skipped), skipped_total, notes, version)


def _read(source: Source, entries: list[Entry], progress: Progress) -> tuple[list[Api], list[SkippedOperation], int]:
    """The operations as APIs, the first of those that were skipped, and how many these are."""
    apis, skipped = list[Api](), list[SkippedOperation]()
    for done, (path, method, item, operation) in enumerate(entries, start=1):
        try:
            if isinstance(operation, SkipOperation):
                raise operation
            apis.append(read_operation(source, path, method.upper(), item, operation))
        except SkipOperation as skip:
            if len(skipped) < MAX_NOTES:
                label = f"{method.upper()} {path[:MAX_SUMMARY]}"[:MAX_SUMMARY]
                skipped.append(SkippedOperation(operation=label, reason=str(skip)[:MAX_SUMMARY]))
        progress(done, len(entries))
    return apis, skipped, len(entries) - len(apis)


def _outline(root: JsonValue) -> Outline:
    """The document in the terms of OpenAPI, read by the first format that recognises it."""
    for read in _FORMATS:
        outline = read(root)
        if outline is not None:
            return outline
    if isinstance(root, list):
        raise InvalidDocument(
            "the document is neither an object nor a list of tools in the form of Seal-Tools or NESTFUL"
        )
    raise InvalidDocument(
        "the document has neither `openapi` nor `swagger`, and is neither a Postman collection of version 2 nor a "
        "tool of Seal-Tools or NESTFUL"
    )


def _own_version(outline: Outline) -> str:
    """The version that the document states. It may be a number, since YAML authors often omit the quotes."""
    version = as_object(outline.root.get("info")).get("version")
    return as_text(str(version), _MAX_VERSION) if isinstance(version, (str, int, float)) else ""


def _provider(outline: Outline, source: Source, server: str | None) -> str:
    """The vendor and the title; the vendor alone if the title is generic (``API v2``); else the host.

    If the given server has no vendor, such as an IP address, the document's own server is used.
    """
    host = _host(source, server)
    if not vendor_of(host):
        host = _host(source, None) or host
    stated = as_object(outline.root.get("info")).get("x-providerName")
    vendor = vendor_of(stated if isinstance(stated, str) else host)
    title = _slug(outline.title)
    if title and outline.is_titled and vendor and vendor.replace("-", "") not in title.replace("-", ""):
        telling = any(word not in _MEANINGLESS and not _VERSION.fullmatch(word) for word in title.split("-"))
        title = f"{vendor}-{title}"[:_MAX_PROVIDER].strip("-") if telling else vendor
    if provider := title or _slug(host):
        return provider
    raise InvalidDocument("the document's title and server give no provider name; import it with a `provider`")


def vendor_of(host: str) -> str:
    """The label of a host that names its vendor: ``nytimes`` of ``api.nytimes.com``; empty if there is none.

    Addresses, private names, and hosts of clouds, whose customers share a domain, have no vendor.
    """
    labels = host.lower().rstrip(".").split(".")
    if len(labels) < 2 or labels[-1].isdigit() or ":" in host or labels[-1] in _NOBODYS_ENDINGS:
        return ""
    is_country = len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL and len(labels) > 2
    vendor = _slug(labels[-3 if is_country else -2])
    return "" if vendor in _NOBODYS else vendor


def _host(source: Source, server: str | None) -> str:
    try:
        return urlsplit(choose_server([source.servers], server)[0]).hostname or ""
    except NoServer:
        return urlsplit(source.origin or "").hostname or ""


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:_MAX_PROVIDER].strip("-")
