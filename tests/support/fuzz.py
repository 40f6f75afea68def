"""Fuzzes a service from its own OpenAPI document. No response may be a 5xx or violate the schema."""

from collections import Counter
from typing import Any

import httpx2
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, reject, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from starlette.testclient import TestClient

from tests.support.examples import THOROUGH, examples

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
SENT: Counter[str] = Counter()
"""The number of requests sent, by method."""
BOUNDED = settings(
    examples(0.8 if THOROUGH else 0.25), suppress_health_check=list(HealthCheck), derandomize=not THOROUGH
)


def schema_of(app: FastAPI) -> schemathesis.schemas.BaseSchema:
    """The schema to fuzz. The coverage phase is off: it makes eleven thousand requests that find nothing more."""
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.config.phases.coverage.enabled = False
    return schema


def check(case: Any, client: TestClient) -> None:
    """Send one case and check its response.

    A short deadline in its body is made long, because a deadline of 1 ms correctly leads to 504.
    """
    case.body = _unhurried(case.body)
    request = case.as_transport_kwargs(base_url="http://testserver")
    request.pop("cookies")  # no service reads any
    if isinstance(request.get("data"), str | bytes):
        request["content"] = request.pop("data")
    try:
        response = client.request(**request)
    except httpx2.InvalidURL:  # longer than the client sends
        reject()
    SENT[case.method] += 1
    case.validate_response(response, checks=CHECKS)


def _unhurried(body: Any) -> Any:
    if isinstance(body, dict):
        return {
            name: 30_000
            if name == "deadline_ms" and isinstance(value, int | float) and 0 < value < 30_000
            else _unhurried(value)
            for name, value in body.items()
        }
    return [_unhurried(value) for value in body] if isinstance(body, list) else body
