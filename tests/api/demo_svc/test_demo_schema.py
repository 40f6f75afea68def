"""The demo service against its own OpenAPI document: no request made from it may get a 5xx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from demo_svc.main import create_app
from demo_svc.settings import DemoSettings
from services.encoder import Encoder
from tests.support.fuzz import BOUNDED, check, schema_of


@pytest.fixture(scope="module")
def client(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path: Path = tmp_path_factory.mktemp("schema")
    app = create_app(DemoSettings(database_url=f"sqlite+aiosqlite:///{path}/demos.db"), encoder=encoder)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


SCHEMA = schema_of(create_app(DemoSettings()))


@SCHEMA.parametrize()
@BOUNDED
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    check(case, client)
