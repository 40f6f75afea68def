"""Schemathesis over the whole document: valid and invalid data, no 5xx, every answer as documented."""

from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.sandbox.conftest import API_KEY, BASIC, BEARER
from tests.support.examples import examples
from tests.support.fuzz import SENT

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = {GenerationMode.POSITIVE: examples(0.2), GenerationMode.NEGATIVE: examples(0.1)}
# Codes that exist. Random ones would only lead to "not found".
REAL = {
    "country_code": ["DE", "US", "AQ", "SA", "XK", "VA", "IL"],
    "subdivision": ["DE-BY", "US-TX"],
    "timezone": ["UTC", "Asia/Kathmandu", "Africa/Monrovia", "Pacific/Apia"],
    "from_timezone": ["Europe/Berlin", "America/Havana"],
    "to_timezone": ["Pacific/Kiritimati", "Etc/GMT+12"],
    "from_currency": ["EUR", "JPY"],
    "to_currency": ["USD", "KRW"],
    "currency": ["EUR", "JPY", "ZZZ"],
    "locale": ["de", "en-US", "zh-Hant-TW", "ar-EG"],
    "iata": ["JFK", "LHR"],
    "origin": ["JFK", "SYD"],
    "destination": ["LHR", "AKL"],
    "sku": ["AUD-1001"],
    "code": ["EUR", "XXX"],
    "order_id": ["ord_1", "ord_20"],
    "customer_id": ["cus_10"],
    "booking_id": ["bkg_1"],
    "room_id": ["room_cirrus", "room_ember"],
}
BOUNDED = settings(
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def sign(case: schemathesis.Case[Any], app: FastAPI) -> dict[str, Any]:
    """Give the case the credentials that its operation needs; return the options of the call."""
    wanted = {name for entry in case.operation.definition.raw.get("security", ()) for name in entry}
    if "apiKey" in wanted:
        case.headers["X-API-Key"] = API_KEY
    if "bearer" in wanted:
        case.headers["Authorization"] = f"Bearer {BEARER}"
    if "oauth2" in wanted:
        token = app.state.sandbox.tokens.issue(frozenset({"customers:read", "orders:read", "orders:write"}))
        case.headers["Authorization"] = f"Bearer {token}"
    return {"auth": BASIC} if "basic" in wanted else {}


def make_real(case: schemathesis.Case[Any], data: st.DataObject) -> None:
    """Replace most codes in the case by codes that exist."""
    body = case.body if isinstance(case.body, dict) else {}
    for place in (case.path_parameters, case.query, body):
        for name in place.keys() & REAL.keys():
            if data.draw(st.integers(0, 3)):
                place[name] = data.draw(st.sampled_from(REAL[name]))


@pytest.mark.parametrize("mode", EXAMPLES)
def test_the_estate_keeps_to_its_document(app: FastAPI, mode: GenerationMode, subtests: pytest.Subtests) -> None:
    estate = schemathesis.openapi.from_asgi("/openapi.json", app)
    checked = 0
    for found in estate.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path.startswith("/lab/"):  # fails on request
            continue

        @settings(BOUNDED, max_examples=EXAMPLES[mode].max_examples)
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def check(case: schemathesis.Case[Any], data: st.DataObject) -> None:
            if mode is GenerationMode.POSITIVE:
                make_real(case, data)
            case.call_and_validate(checks=CHECKS, **sign(case, app))
            SENT[case.method] += 1

        with subtests.test(operation.label):
            check()
        checked += 1
    assert checked > 50
