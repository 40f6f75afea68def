"""The planner against its own OpenAPI document: no request that can be made from it may be answered with a 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from starlette.testclient import TestClient

from planner_svc.main import create_app
from planner_svc.settings import PlannerSettings
from tests.api.planner_svc.test_planner_api import First

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(PlannerSettings(), backends={"compact": First()})
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


SCHEMA = schemathesis.openapi.from_dict(create_app(PlannerSettings()).openapi())
SCHEMA.config.phases.coverage.enabled = False  # thousands of requests; fuzzing finds the same here in hundreds


@SCHEMA.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    request = case.as_transport_kwargs(base_url="http://testserver")
    request.pop("cookies")  # the service reads none
    if isinstance(request.get("data"), str | bytes):
        request["content"] = request.pop("data")
    response = client.request(**request)
    case.validate_response(response, checks=CHECKS)
