from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

from sandbox.main import create_app
from sandbox.settings import SandboxSettings

API_KEY = "an-api-key-of-the-tests"
BASIC = ("sandbox", "a-password-of-the-tests")
BEARER = "a-bearer-token-of-the-tests"
CLIENT = ("sandbox-client", "a-client-secret-of-the-tests")


@pytest.fixture
def settings() -> SandboxSettings:
    return SandboxSettings(
        api_key=SecretStr(API_KEY),
        basic_password=SecretStr(BASIC[1]),
        bearer_token=SecretStr(BEARER),
        oauth_client_secret=SecretStr(CLIENT[1]),
        max_delay_seconds=0.5,
        max_items=50,
    )


@pytest.fixture
def app(settings: SandboxSettings) -> FastAPI:
    return create_app(settings)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://sandbox.test") as client:
        yield client


@pytest.fixture
def key() -> dict[str, str]:
    return {"X-API-Key": API_KEY}


@pytest.fixture
def shop(client: TestClient) -> dict[str, str]:
    form = {"grant_type": "client_credentials", "client_id": CLIENT[0], "client_secret": CLIENT[1]}
    token = client.post("/oauth/token", data=form).json()["access_token"]
    return {"Authorization": f"Bearer {token}"}
