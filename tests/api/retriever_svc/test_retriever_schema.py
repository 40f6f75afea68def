"""The retriever against its own OpenAPI document: no request that can be made from it may be answered with a 5xx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, reject, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from starlette.testclient import TestClient

from retriever_svc.main import create_app
from retriever_svc.settings import RetrieverSettings
from services.encoder import Encoder, load_encoder

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


@pytest.fixture(scope="module")
def client(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path: Path = tmp_path_factory.mktemp("schema")
    app = create_app(RetrieverSettings(database_url=f"sqlite+aiosqlite:///{path}/retriever.db"), encoder=encoder)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


SCHEMA = schemathesis.openapi.from_dict(create_app(RetrieverSettings()).openapi())
SCHEMA.config.phases.coverage.enabled = False  # eleven thousand requests; fuzzing finds the same here in hundreds


@SCHEMA.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    request = case.as_transport_kwargs(base_url="http://testserver")
    request.pop("cookies")  # the service reads none
    if isinstance(request.get("data"), str | bytes):
        request["content"] = request.pop("data")
    try:
        response = client.request(**request)
    except httpx2.InvalidURL:  # longer than the client sends
        reject()
    case.validate_response(response, checks=CHECKS)
