"""The executor against its own OpenAPI document: no request made from it may get a 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from executor_svc.main import create_app
from executor_svc.settings import ExecutorSettings
from tests.support.fuzz import BOUNDED, check, schema_of


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    settings = ExecutorSettings(database_url=f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('executor')}/executor.db")
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


SCHEMA = schema_of(create_app(ExecutorSettings()))


@SCHEMA.parametrize()
@BOUNDED
def test_no_request_is_answered_with_a_server_error(case: Any, client: TestClient) -> None:
    check(case, client)
