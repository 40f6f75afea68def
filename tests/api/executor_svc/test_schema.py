"""The executor against its own OpenAPI document: no request that can be made from it may be answered with a 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from starlette.testclient import TestClient

from executor_svc.main import create_app
from executor_svc.settings import ExecutorSettings

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(ExecutorSettings()), raise_server_exceptions=False) as client:
        yield client


SCHEMA = schemathesis.openapi.from_dict(create_app(ExecutorSettings()).openapi())
SCHEMA.config.phases.coverage.enabled = False


@SCHEMA.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    request = case.as_transport_kwargs(base_url="http://testserver")
    request.pop("cookies")  # the service reads none
    if isinstance(request.get("data"), str | bytes):
        request["content"] = request.pop("data")
    case.validate_response(client.request(**request), checks=CHECKS)
