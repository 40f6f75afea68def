"""The settings of an issuer, and its keys, without a gateway."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from gateway.issuer_keys import IssuerKeys
from gateway.metrics import GatewayMetrics
from gateway.settings import GatewaySettings, IssuerSettings
from services.errors import ServiceUnavailable
from tests.support.issuer import settings_of


async def test_keys_in_many_chunks_do_not_hold_up_others() -> None:
    """Chunks that have been received already are read without waiting for anything."""

    class Chunks(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(5_000):
                yield b" "

    turns, metrics = 0, GatewayMetrics(CollectorRegistry())

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    settings = IssuerSettings.model_validate(settings_of("https://a.example", jwks_url="https://a.example/keys"))
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=Chunks()))
    keys = IssuerKeys(settings, httpx2.AsyncClient(transport=transport), metrics)
    counting = asyncio.create_task(count_turns())
    with pytest.raises(ServiceUnavailable):
        await keys.find("one", "EdDSA")
    counting.cancel()
    assert turns > 1_000
    await keys.aclose()


@pytest.mark.parametrize(
    "fields",
    [
        {"issuer": "http://login.example.com"},
        {"issuer": "ftp://127.0.0.1"},
        {"issuer": ""},
        {"jwks_url": "http://login.example.com/jwks"},
        {"audience": []},
        {"tenant": None},
        {"tenant_claim": "org", "tenant": "red"},
        {"tenants": ["red"]},
        {"name": "a name"},
        {"roles": {"x": ["boss"]}},
        {"algorithms": ["none"]},
    ],
)
def test_settings_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GatewaySettings.model_validate({"issuers": [settings_of("https://login.example.com", tenant="red") | fields]})


def test_two_issuers_have_two_names() -> None:
    one, two = settings_of("https://a.example"), settings_of("https://b.example")
    with pytest.raises(ValidationError, match="two issuers"):
        GatewaySettings.model_validate({"issuers": [one, two]})
    with pytest.raises(ValidationError, match="two issuers"):
        GatewaySettings.model_validate({"issuers": [one, one | {"name": "other"}]})
