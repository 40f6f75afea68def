"""Reads one operation of a document into one :class:`Api`."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

import orjson
from pydantic import JsonValue

from retriever_svc.importers.bodies import read_body, read_response
from retriever_svc.importers.constants import apply_constants, directs
from retriever_svc.importers.effects import read_effect
from retriever_svc.importers.keys import Usual, separate_credentials, usual_names
from retriever_svc.importers.limits import MAX_DESCRIPTION, MAX_NAME, MAX_SUMMARY, Limits, Notes
from retriever_svc.importers.names import Names, slug
from retriever_svc.importers.outline import Outline
from retriever_svc.importers.parameters import Argument, Reading, name_arguments, read_parameters
from retriever_svc.importers.refs import Document, JsonObject, SkipOperation, as_list, as_text
from retriever_svc.importers.schemas import Key, Schemas
from retriever_svc.importers.security import Alternatives, read_security
from retriever_svc.importers.servers import NoServer, choose_server, located_server, private_host
from retriever_svc.importers.swagger import sends_body_parameters, upgrade_operation, upgrade_servers
from retriever_svc.opening import opened
from services.contracts.api import OUTSIDE_CONTENT, Api
from services.contracts.plan import content_hash
from services.errors import InvalidDocument

_MAX_PATH = 1_000
_MAX_TAGS = 20
_FOREIGN = re.compile(r"(?<=/)(?::([A-Za-z_]\w*)|<(?:\w+:)?([A-Za-z_]\w*)>)(?=[/?.]|$)")
"""A path segment that is a parameter in the syntax of Express, Flask and others."""


@dataclass(slots=True)
class Source:
    """A document being imported, and the state of the import. ``origin``: the URL that it came from, if any."""

    document: Document
    schemas: Schemas
    notes: Notes
    limits: Limits
    provider: str
    given_server: str | None
    is_swagger: bool
    servers: list[JsonValue]
    origin: str | None = None
    usual_keys: Usual | None = None
    names: Names = field(default_factory=Names)
    written: int = 0

    @classmethod
    def open(cls, outline: Outline, provider: str, server: str | None, limits: Limits, origin: str | None) -> Source:
        """Prepare a parsed document for reading its operations."""
        root = outline.root
        document, notes = Document(root, limits.steps), Notes()
        raw = orjson.dumps(root)
        directional = b'"readOnly":true' in raw or b'"writeOnly":true' in raw
        is_swagger = outline.format == "swagger-2.0"
        servers = upgrade_servers(root) if is_swagger else as_list(root.get("servers"))
        schemas = Schemas(document, directional, limits, notes)
        # Postman's requests mark the fields that carry credentials; lists of tools have no credentials.
        is_openapi = outline.format.startswith(("openapi", "swagger"))
        usual = usual_names(Document(root, limits.steps), outline.entries) if is_openapi else None
        origin = origin if is_openapi else None  # only OpenAPI defines what a relative server is relative to
        return cls(document, schemas, notes, limits, provider, server, is_swagger, servers, origin, usual)

    def bounded(self, api: Api, reading: Reading) -> Api:
        """The API, with schemas left open if it is too large. Its size before is added to that of the others.

        Raises:
            SkipOperation: it is too large even so.
            InvalidDocument: the APIs of the document together are too large.
        """
        most, whole = self.limits.operation_bytes, api.model_dump_json(ensure_ascii=True).encode()
        self.written += len(whole)
        if self.written > self.limits.api_bytes:
            raise InvalidDocument(f"the document's APIs are larger than {self.limits.api_bytes:,} bytes together")
        document, left_open = opened(whole, most)
        if len(document) > most:
            raise SkipOperation(f"it has more than {most:,} bytes, even without schemas")
        if left_open:
            reading.warn(f"left open, because the operation has more than {most:,} bytes: {', '.join(left_open)}")
            api = Api.model_validate_json(document)
        return api


def read_operation(source: Source, path: str, method: str, item: JsonObject, operation: JsonObject) -> Api:
    """Read one operation of a path item.

    Raises:
        SkipOperation: it cannot be imported; the message says why.
        InvalidDocument: the document as a whole exceeds a limit.
    """
    if not path.startswith("/"):
        raise SkipOperation("the path does not begin with a slash")
    if len(path) > _MAX_PATH or re.search(r"[\s\x00-\x1f]", path):
        raise SkipOperation(f"the path contains blanks or has more than {_MAX_PATH} characters")
    if found := next(filter(directs, _names_in_query(path)), None):
        raise SkipOperation(
            f"the query of its path gives {found[:MAX_NAME]!r}, which may turn the call into another one"
        )
    source.document.count_steps(len(item) + len(operation))
    label = f"{method} {path}"[:MAX_SUMMARY]
    # RFC 6570 as Google uses it (the parameter is declared without the plus), and the forms `:id` and `<id>` of others.
    path = _FOREIGN.sub(lambda match: f"{{{match[1] or match[2]}}}", path.replace("{+", "{"))
    shared = item.get("parameters")
    if source.is_swagger or sends_body_parameters(source.document, shared, operation):
        operation, shared = upgrade_operation(source.document, source.notes, shared, operation), None
    reading = Reading(source.document, source.schemas, source.notes, label)
    arguments, idempotency = read_parameters(reading, shared, operation.get("parameters"), path)
    body, properties = read_body(reading, operation.get("requestBody"))
    response, response_refs = read_response(reading, operation.get("responses"))
    server = _server(source, reading, operation, item)
    security = _security(source, operation, server)
    arguments += properties
    if source.usual_keys is not None:
        arguments, security = separate_credentials(arguments, security, source.provider, source.usual_keys, path)
    name = _name(source, operation.get("operationId"), method, path)
    api_id = f"{source.provider}.{name}"
    summary = as_text(operation.get("summary"), MAX_SUMMARY) or as_text(item.get("summary"), MAX_SUMMARY)
    stated = as_text(operation.get("operationId"), MAX_NAME)
    effect, doubt = read_effect(api_id, method, path, stated, summary, source.limits.effects)
    if doubt:
        reading.warn(doubt)
    api = Api(
        id=api_id,
        provider=source.provider,
        name=name,
        summary=summary,
        description=as_text(operation.get("description"), MAX_DESCRIPTION),
        tags=_tags(operation),
        deprecated=operation.get("deprecated") is True,
        method=method,
        server=server,
        path=path,
        parameters=name_arguments(arguments),
        body=body,
        response=response,
        definitions=_definitions(source, arguments, response_refs, label),
        security=security,
        idempotency_header=idempotency,
        effect=effect,
    )
    return with_content_hash(source.bounded(apply_constants(api, {}), reading))


def _names_in_query(path: str) -> list[str]:
    """The names in a path's query, which is sent as it stands. Some servers divide it at semicolons, too."""
    query = path.partition("#")[0].partition("?")[2]
    return [unquote_plus(pair.partition("=")[0]) for pair in re.split("[&;]", query)]


def with_content_hash(api: Api) -> Api:
    """The API with its content hash: SHA-256 of its JSON with sorted keys, without the hash itself."""
    content = api.model_dump(mode="json", exclude=OUTSIDE_CONTENT)
    return api.model_copy(update={"content_hash": content_hash(content)})


def _definitions(
    source: Source, arguments: list[Argument], response_refs: frozenset[Key], label: str
) -> dict[str, JsonObject]:
    sent = dict.fromkeys(key for argument in arguments for key in sorted(argument.refs))
    return source.schemas.collect(sent, sorted(response_refs), label)


def _security(source: Source, operation: JsonObject, server: str) -> Alternatives:
    declared = operation["security"] if "security" in operation else source.document.root.get("security")
    return read_security(source.document, declared, source.provider, server)


def _tags(operation: JsonObject) -> tuple[str, ...]:
    texts = (as_text(tag, MAX_NAME) for tag in as_list(operation.get("tags"))[:_MAX_TAGS])
    return tuple(dict.fromkeys(text for text in texts if text))


def _server(source: Source, reading: Reading, operation: JsonObject, item: JsonObject) -> str:
    """The base URL; empty if none can be called, with a warning that says why."""
    own = as_list(operation.get("servers")) or as_list(item.get("servers"))
    if own and source.given_server is not None:
        reading.warn("has its own server, which the given one replaces")
    try:
        server, passed_over = choose_server([own, source.servers], source.given_server)
    except NoServer as reason:
        server, passed_over = _located(source, own, reason), ""
    if not server:
        return ""
    if passed_over:
        source.notes.warn(f"the server is {server}, not the first: {passed_over}")
    if host := private_host(server):
        source.notes.warn(
            f"{host} is a private address: calls are refused unless NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS contains it"
        )
    return server


def _located(source: Source, own: list[JsonValue], reason: NoServer) -> str:
    """The relative server, completed with the document's own URL; empty if that is not possible."""
    if source.origin is not None:
        with suppress(NoServer):
            server = located_server([own, source.servers], source.origin)
            source.notes.warn(f"{reason}; because the document came from {source.origin[:200]}, it is {server}")
            return server
    source.notes.warn(f"no server: {reason}")
    return ""


def _name(source: Source, declared: JsonValue, method: str, path: str) -> str:
    """A name unique in the document: the operationId, or method and path if it is missing or taken."""
    name = slug(declared) if isinstance(declared, str) else ""
    if not name or name in source.names:
        derived = slug(method.lower() + path)
        if name:
            source.notes.warn(f"the operationId {name!r} occurs twice; {method} {path} is imported as {derived!r}")
        name = derived
    return source.names.take(name)
