"""Which credentials may call which operations."""

import base64

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sandbox.main import create_app
from sandbox.settings import SandboxSettings
from tests.api.sandbox.conftest import API_KEY, BASIC, BEARER, CLIENT

PROTECTED = {"/rooms": "APIKey", "/reminders": "Basic", "/contacts": "Bearer", "/customers": "Bearer"}
GRANT = {"grant_type": "client_credentials"}
IN_FORM = GRANT | {"client_id": CLIENT[0], "client_secret": CLIENT[1]}


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": "wrong", "Authorization": "Bearer wrong"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + base64.b64encode(b"sandbox:wrong").decode()},
        {"Authorization": "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode()},
        {"Authorization": "Bearer"},
        {"X-API-Key": ""},
        {"X-API-Key": "\xe9\xff".encode("latin-1")},
    ],
)
def test_protected_endpoints_want_their_credentials(client: TestClient, path: str, headers: dict[str, str]) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith(PROTECTED[path])


def test_each_kind_of_credentials_opens_its_own_door_only(client: TestClient, shop: dict[str, str]) -> None:
    def status(path: str, **options: object) -> int:
        return client.get(path, **options).status_code  # type: ignore[arg-type]

    assert status("/rooms", headers={"X-API-Key": API_KEY}) == 200
    assert status("/reminders", auth=BASIC) == 200
    assert status("/contacts", headers={"Authorization": f"Bearer {BEARER}"}) == 200
    assert status("/customers", headers=shop) == 200
    assert status("/customers", headers={"Authorization": f"Bearer {BEARER}"}) == 401
    assert status("/contacts", headers=shop) == 401
    assert status("/rooms", headers={"X-API-Key": BEARER}) == 401


def test_tokens_by_form_and_by_basic(client: TestClient) -> None:
    for answer in (client.post("/oauth/token", data=IN_FORM), client.post("/oauth/token", data=GRANT, auth=CLIENT)):
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        token = answer.json()
        assert (token["token_type"], token["expires_in"]) == ("Bearer", 300)
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        assert client.get("/orders/ord_1", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        (IN_FORM | {"client_secret": "wrong"}, 401, "invalid_client"),
        (IN_FORM | {"client_id": "wrong"}, 401, "invalid_client"),
        (GRANT, 401, "invalid_client"),
        (IN_FORM | {"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({}, 400, "invalid_request"),
        (IN_FORM | {"scope": "root"}, 400, "invalid_scope"),
    ],
)
def test_refused_tokens(client: TestClient, form: dict[str, str], status: int, error: str) -> None:
    answer = client.post("/oauth/token", data=form)
    assert (answer.status_code, answer.json()["error"]) == (status, error)


@pytest.mark.parametrize(
    "body", [b"grant_type=client_credentials&grant_type=password", b"\xff\xfe=1", b"%ff=1", b"a&" * 50, b"a" * 4000]
)
def test_odd_forms_are_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/oauth/token", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 400
    assert client.post("/oauth/token", json=IN_FORM).json()["error"] == "invalid_request"


def test_scopes(client: TestClient) -> None:
    token = client.post("/oauth/token", data=IN_FORM | {"scope": "orders:read"}).json()
    assert token["scope"] == "orders:read"
    headers = {"Authorization": f"Bearer {token['access_token']}"}
    assert client.get("/orders/ord_1", headers=headers).status_code == 200
    refused = client.post("/orders/ord_20/cancel", headers=headers)
    assert refused.status_code == 403
    assert 'scope="orders:write"' in refused.headers["www-authenticate"]


def test_tokens_expire(app: FastAPI, client: TestClient, shop: dict[str, str]) -> None:
    now = app.state.sandbox.clock()
    app.state.sandbox.clock = lambda: now + 299
    assert client.get("/orders/ord_1", headers=shop).status_code == 200
    app.state.sandbox.clock = lambda: now + 301
    expired = client.get("/orders/ord_1", headers=shop)
    assert expired.status_code == 401
    assert 'error="invalid_token"' in expired.headers["www-authenticate"]


def test_unset_credentials_are_random_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SandboxSettings().unset_credentials():
        monkeypatch.delenv(name, raising=False)
    settings = SandboxSettings()
    assert len(settings.unset_credentials()) == 4
    first, second = (create_app(settings).state.sandbox.credentials for _ in range(2))
    secrets = ("api_key", "basic_password", "bearer_token", "oauth_client_secret")
    assert all(getattr(first, name) != getattr(second, name) for name in secrets)
    assert not any(getattr(first, name) in repr(first) for name in secrets)


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_SANDBOX_API_KEY", "from-the-environment")
    settings = SandboxSettings()
    assert "NESTOR_SANDBOX_API_KEY" not in settings.unset_credentials()
    assert "from-the-environment" not in repr(settings)
    assert create_app(settings).state.sandbox.credentials.api_key == "from-the-environment"
