"""Counting what tenants use."""

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from gateway.metrics import GatewayMetrics
from gateway.quotas import Quotas
from gateway.settings import GatewaySettings
from services.contracts.operations import Allowance
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
            quotas.count_request(tenant)
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
        quotas.count_request("red")
    assert caught.value.extensions == {"limit": "requests", "retry_after_s": 0.5}
    assert caught.value.headers["RateLimit"].startswith('"requests";r=0;t=1, ')


def test_large_runs_that_are_read_count_as_many_requests() -> None:
    now = [100.0]
    quotas, _ = counting(now, limits={"requests_per_s": 2}, tenant_limits={"free": {"requests_per_s": None}})
    quotas.charge("red", 65_536)
    assert sent(quotas, "red", 50) == 20
    now[0] += 1_000
    quotas.charge("red", 300_000)
    assert sent(quotas, "red", 50) == 10
    now[0] += 1_000
    quotas.charge("red", 1_000_000_000)
    assert sent(quotas, "red", 1) == 0
    assert quotas.fields("red")["RateLimit"].startswith('"requests";r=0;t=11, ')  # it owes one burst at most
    now[0] += 11
    assert sent(quotas, "red", 50) == 2
    quotas.charge("free", 1_000_000_000)
    assert sent(quotas, "free", 50) == 50


async def test_long_reads_leave_half_of_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("gateway.quotas.asyncio.sleep", sleep)
    quotas, _ = counting(now, limits={"requests_per_s": 2}, tenant_limits={"free": {"requests_per_s": None}})
    for size in (60_000, 300_000, 300_000):
        await quotas.pace("red", size)
    assert slept == [5.0]
    assert sent(quotas, "red", 50) == 10
    await quotas.pace("red", 60_000)
    await quotas.pace("free", 300_000)
    assert slept == [5.0]


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


def test_those_nearest_to_a_limit_are_told_first_and_a_hundred_at_most() -> None:
    now = [0.0]
    own = {"free": {"requests_per_s": None, "runs": None, "streams": None, "imports": None}}
    quotas, _ = counting(now, limits={"requests_per_s": 1, "imports": 2}, tenant_limits=own)
    for number in range(150):
        assert sent(quotas, f"t{number:03}", 1 + (number == 7)) == 1 + (number == 7)
    quotas.take_run("busy")
    with quotas.holding("imports", "busy"):
        used = quotas.used()
        assert [one.tenant for one in used.tenants[:3]] == ["busy", "t007", "t000"]
        assert (len(used.tenants), used.others) == (100, 53)
        busy, second = used.tenants[:2]
        assert (busy.imports, busy.runs, busy.requests.used) == (
            Allowance(used=1, most=2),
            Allowance(used=1, most=100),
            0,
        )
        assert (second.requests, second.requests_per_s) == (Allowance(used=2, most=10), 1)
        (free,) = quotas.used("free").tenants
        assert (free.requests, free.is_full) == (Allowance(used=0), False)
    now[0] += 5
    assert quotas.used("t007").tenants[0].requests.used == 0
    sent(quotas, "t007", 10)
    assert quotas.used().tenants[0].is_full
