"""Counting what tenants use."""

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from gateway.metrics import GatewayMetrics
from gateway.quotas import Quotas
from gateway.settings import GatewaySettings
from services.errors import QuotaExceeded


def counting(now: list[float], **settings: object) -> tuple[Quotas, CollectorRegistry]:
    registry = CollectorRegistry()
    known = GatewaySettings.model_validate(settings)
    return Quotas(known, GatewayMetrics(registry), lambda: now[0]), registry


def sent(quotas: Quotas, tenant: str, times: int) -> int:
    """How many of so many requests are let in."""
    taken = 0
    for _ in range(times):
        try:
            quotas.request(tenant)
        except QuotaExceeded:
            continue
        taken += 1
    return taken


def test_a_bucket_fills_again() -> None:
    now = [100.0]
    quotas, _ = counting(now, limits={"requests_per_s": 2})
    assert sent(quotas, "red", 50) == 20
    assert sent(quotas, "blue", 1) == 1
    now[0] += 1.5
    assert sent(quotas, "red", 50) == 3
    now[0] += 1_000
    assert sent(quotas, "red", 50) == 20
    with pytest.raises(QuotaExceeded) as caught:
        quotas.request("red")
    assert caught.value.extensions == {"limit": "requests", "retry_after_s": 0.5}
    assert caught.value.headers["RateLimit"].startswith('"requests";r=0;t=1, ')


def test_a_tenants_own_limits_are_laid_over_everybodys() -> None:
    own = {"red": {"runs": 3}, "free": {"requests_per_s": None, "runs": None}}
    quotas, _ = counting([0.0], limits={"streams": 9}, tenant_limits=own)
    assert (quotas.limits("red").runs, quotas.limits("red").streams, quotas.limits("other").runs) == (3, 9, 100)
    assert sent(quotas, "free", 10_000) == 10_000
    assert quotas.fields("free") == {}


def test_metrics_name_only_tenants_that_settings_name() -> None:
    principals = [{"name": "a", "tenant": "red", "token": "red-token-1"}]
    quotas, registry = counting([0.0], limits={"requests_per_s": 0.1}, principals=principals)
    for tenant in ("red", "from a token", "from another"):
        assert sent(quotas, tenant, 3) == 1
    counted = {
        tenant: registry.get_sample_value("nestor_quota_refused_total", {"limit": "requests", "tenant": tenant})
        for tenant in ("red", "other", "from a token")
    }
    assert counted == {"red": 2, "other": 4, "from a token": None}


@pytest.mark.parametrize("limits", [{"runs": -1}, {"requests_per_s": 0}, {"requests_per_s": "inf"}, {"run": 1}])
def test_limits_are_checked(limits: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GatewaySettings.model_validate({"tenant_limits": {"red": limits}})
