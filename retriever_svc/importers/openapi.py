"""OpenAPI 3.0 to 3.2 and Swagger 2.0: recognises the version and lists the operations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_NAME
from retriever_svc.importers.outline import METHODS, Entry, Outline
from retriever_svc.importers.refs import DanglingReference, Document, JsonObject, SkipOperation, as_object, as_text
from services.errors import InvalidDocument

_NOT_IMPORTED = ("trace", "query")


def outline(root: JsonValue) -> Outline | None:
    """The outline of an OpenAPI or Swagger document; None if it is of another kind.

    Raises:
        InvalidDocument: its version is not supported, or it has no paths.
    """
    if not isinstance(root, dict) or not {"openapi", "swagger"} & root.keys():
        return None
    form = _format(root)
    if not isinstance(root.get("paths"), dict):
        raise InvalidDocument("the document has no `paths` object, so there is nothing to import")
    title = as_text(as_object(root.get("info")).get("title"), MAX_NAME)
    return Outline(form, title, root, list(_entries(root)))


def _entries(root: JsonObject) -> Iterator[Entry]:
    """Every operation of every path."""
    document, told = Document(root), dict[str, str]()
    for path, declared in as_object(root["paths"]).items():
        if path.startswith("x-"):
            continue
        try:
            item = as_object(document.deref(declared))
        except (SkipOperation, DanglingReference) as error:
            reason = str(error)  # one text for all paths of the same reason: there may be a million
            yield Entry(path, "*", {}, SkipOperation(told.setdefault(reason, reason)))
            continue
        for method in as_object(item.get("additionalOperations")):
            yield Entry(path, method, item, SkipOperation("methods of `additionalOperations` are not supported"))
        written = {name.lower(): operation for name, operation in item.items()}
        for method in (*METHODS, *_NOT_IMPORTED):
            operation = written.get(method)
            if operation is None:
                continue
            if method in _NOT_IMPORTED:
                yield Entry(path, method, item, SkipOperation(f"the method {method.upper()} is not supported"))
            elif isinstance(operation, dict):
                yield Entry(path, method, item, operation)
            else:
                yield Entry(path, method, item, SkipOperation("the operation is not an object"))


def _format(root: JsonObject) -> str:
    """The format and version, as in the import report."""
    openapi, swagger = root.get("openapi"), root.get("swagger")
    version = _version(openapi)
    if version in ("3.0", "3.1", "3.2"):
        return f"openapi-{version}"
    if openapi is None and _version(swagger) == "2.0":
        return "swagger-2.0"
    found = f"openapi {str(openapi)[:40]!r}" if openapi is not None else f"swagger {str(swagger)[:40]!r}"
    raise InvalidDocument(f"only OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0 are supported; this document has {found}")


def _version(value: JsonValue) -> str:
    """`3.1` of `3.1.0`. It may be a number, since YAML authors often omit the quotes."""
    match = re.match(r"(\d+)(?:\.(\d+))?", str(value)) if isinstance(value, (str, int, float)) else None
    return f"{match[1]}.{match[2] or 0}" if match else ""
