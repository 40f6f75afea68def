"""Small Postman collections to import."""

import json
from typing import Any

from retriever_svc.importers import Imported, import_document
from services.contracts.api import Api

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"


def collection(*items: Any, **members: Any) -> dict[str, Any]:
    """A collection of version 2.1 called Zoo, with a variable for its base URL."""
    base = {
        "info": {"name": "The Zoo", "_postman_id": "1", "schema": SCHEMA},
        "variable": [{"key": "baseUrl", "value": "https://zoo.example/v1"}],
    }
    return base | {"item": list(items)} | members


def request(url: Any = "{{baseUrl}}/things", **members: Any) -> dict[str, Any]:
    """An item with one request."""
    return {"name": "A thing", "request": {"method": "GET", "url": url} | members}


def raw(body: Any, language: str = "json") -> dict[str, Any]:
    """The members of a POST with a raw body."""
    text = body if isinstance(body, str) else json.dumps(body)
    return {"method": "POST", "body": {"mode": "raw", "raw": text, "options": {"raw": {"language": language}}}}


def imported(root: Any, **options: Any) -> Imported:
    """What importing this collection gives."""
    return import_document(json.dumps(root), **options)


def single(item: dict[str, Any], **members: Any) -> Api:
    """The API made of one item."""
    result = imported(collection(item, **members))
    assert result.skipped == ()
    (api,) = result.apis
    return api
