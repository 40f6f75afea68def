"""Schemathesis over the whole document: valid and invalid data, no 5xx, every answer as documented."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sandbox.main import create_app
from sandbox.settings import SandboxSettings
from tests.api.sandbox.conftest import API_KEY, BASIC, BEARER, CLIENT

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 10


@pytest.fixture
def estate() -> schemathesis.BaseSchema:
    """The document of an app that waits for nothing; `/lab` is left out, since it fails on demand."""
    app = create_app(
        SandboxSettings.model_validate(
            {
                "api_key": API_KEY,
                "basic_password": BASIC[1],
                "bearer_token": BEARER,
                "oauth_client_secret": CLIENT[1],
                "max_delay_seconds": 0,
            }
        )
    )
    app.state.access_token = app.state.sandbox.tokens.issue(
        frozenset({"customers:read", "orders:read", "orders:write"})
    )
    return schemathesis.openapi.from_asgi("/openapi.json", app).exclude(path_regex="^/lab/")


schema = schemathesis.pytest.from_fixture("estate")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_estate_keeps_to_its_document(case: schemathesis.Case) -> None:
    app = case.operation.schema.app
    schemes = {name for wanted in case.operation.definition.raw.get("security", ()) for name in wanted}
    if "apiKey" in schemes:
        case.headers["X-API-Key"] = API_KEY
    if "bearer" in schemes:
        case.headers["Authorization"] = f"Bearer {BEARER}"
    if "oauth2" in schemes:
        case.headers["Authorization"] = f"Bearer {app.state.access_token}"
    auth = BASIC if "basic" in schemes else None
    case.call_and_validate(checks=CHECKS, auth=auth)
