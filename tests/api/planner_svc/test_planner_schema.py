"""The planner against its own OpenAPI document: no request made from it may get a 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from planner_svc.main import create_app
from planner_svc.settings import PlannerSettings
from tests.api.planner_svc.test_planner_api import First
from tests.support.fuzz import BOUNDED, check, schema_of


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(PlannerSettings(default_backend="first"), backends={"first": First()})
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


SCHEMA = schema_of(create_app(PlannerSettings()))


@SCHEMA.parametrize()
@BOUNDED
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    check(case, client)
