"""Import of a large document, 250 operations in 2 MB: parsing and indexing, and the time of each part."""

import json
import random
import time
from typing import Any

from bench.figures import Figure
from retriever_svc.engine.texts import record
from retriever_svc.importers import import_document
from retriever_svc.settings import RetrieverSettings
from services.encoder import load_encoder

OPERATIONS = 250
BYTES = 2_000_000
_NOUNS = ("invoice", "customer", "shipment", "ticket", "campaign", "device", "contract", "payment", "route", "report")
_WORDS = (
    "the",
    "a",
    "for",
    "with",
    "new",
    "open",
    "current",
    "monthly",
    "linked",
    "internal",
    "item",
    "owner",
    "state",
)


def measure() -> list[Figure]:
    """Import once. The encoder is loaded beforehand."""
    settings = RetrieverSettings()
    encoder = load_encoder(settings.encoder, settings.encoder_threads)
    encoder.encode(["warm"])
    text = large_document()
    began = time.perf_counter()
    apis = import_document(text, "bench", "https://bench.example").apis
    parsed = time.perf_counter()
    records = [record(api) for api in apis]
    read = time.perf_counter()
    encoder.encode([one.embedded for one in records])
    encoded = time.perf_counter()
    size = f"{len(text) / 1e6:.1f} MB, {len(apis)} operations"
    return [
        Figure(f"import of {size}", encoded - began, "s", 4),
        Figure("  of it: parsing and schemas", parsed - began, "s"),
        Figure("  of it: texts and words of the index", read - parsed, "s"),
        Figure("  of it: embedding", encoded - read, "s"),
    ]


def large_document() -> str:
    """A deterministic OpenAPI document with ``OPERATIONS`` operations and at least ``BYTES`` bytes."""
    chance = random.Random(1)
    schemas = {f"Thing{n}": _schema(chance, n) for n in range(OPERATIONS // 5)}
    paths: dict[str, Any] = {}
    for number in range(OPERATIONS):
        noun = chance.choice(_NOUNS)
        operation = _operation(chance, noun, number, f"Thing{number % len(schemas)}")
        paths[f"/{noun}s/{number}"] = {"post" if number % 2 else "get": operation}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Bench", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    missing = BYTES - len(json.dumps(document))
    each = max(missing // OPERATIONS, 0)
    for item in paths.values():
        for operation in item.values():
            operation["responses"]["default"] = {"description": _prose(chance, each)}
    return json.dumps(document)


def _operation(chance: random.Random, noun: str, number: int, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    found: dict[str, Any] = {
        "operationId": f"{noun}{number}",
        "summary": f"{_prose(chance, 30)} {noun}",
        "description": _prose(chance, 600),
        "parameters": [
            {"name": f"{noun}_{n}", "in": "query", "description": _prose(chance, 80), "schema": {"type": "string"}}
            for n in range(6)
        ],
        "responses": {"200": {"description": "", "content": content}},
    }
    return found | ({"requestBody": {"content": content}} if number % 2 else {})


def _schema(chance: random.Random, number: int) -> dict[str, Any]:
    members: dict[str, Any] = {
        f"{chance.choice(_NOUNS)}_{n}": {"type": "string", "description": _prose(chance, 120)} for n in range(30)
    }
    members["next"] = {"$ref": f"#/components/schemas/Thing{max(number - 1, 0)}"}
    return {"type": "object", "properties": members}


def _prose(chance: random.Random, length: int) -> str:
    return " ".join(chance.choices(_WORDS, k=length // 5 + 1))
