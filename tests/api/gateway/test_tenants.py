"""Principals, and tenants that see nothing of each other."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from gateway.principals import Principal, Principals
from gateway.settings import GatewaySettings
from services.contracts.run import FeedbackRequest, ResolveRequest, RunStatus, Verdict
from services.errors import NotFound, Unauthorized
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, BOOKING, Gateway, ask, open_gateway

PRINCIPALS = (
    {"name": "shop", "tenant": "red", "token": "red-1"},
    {"name": "desk", "tenant": "red", "token": "red-2"},
    {"name": "rival", "tenant": "blue", "token": "blue-1"},
    {"name": "plain", "token": "plain-1"},
)


@pytest.fixture(params=["sqlite", "postgresql"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Gateway]:
    database = request.getfixturevalue("postgres_url") if request.param == "postgresql" else tmp_path
    async with open_gateway(database, principals=PRINCIPALS, token="single") as running:
        yield running


async def test_a_tenant_sees_its_own_runs_and_no_others(shared: Gateway) -> None:
    shop, desk, rival = (shared.as_principal(token) for token in ("red-1", "red-2", "blue-1"))
    run = await shop.solve(ask(ASK_ROOM), idempotency_key="k")
    assert run.tenant == "red"
    assert await desk.run(run.id) == run
    assert [line.id for line in (await desk.runs()).runs] == [run.id]
    assert (await rival.runs()).runs == ()
    attempts = (
        rival.run(run.id),
        rival.approve(run.id, BOOKING.id),
        rival.cancel(run.id),
        rival.resolve(run.id, "var1", ResolveRequest(outcome="retry")),
        rival.value(run.id, "0" * 64),
        rival.judge(run.id, FeedbackRequest(verdict=Verdict.REJECTED)),
        rival.demonstrate(run.id),
        anext(rival.events(run.id)),
    )
    for attempt in attempts:
        with pytest.raises(NotFound, match=run.id):
            await attempt
    other = await rival.solve(ask(ASK_ROOM), idempotency_key="k")
    assert other.id != run.id
    assert other.tenant == "blue"
    assert (await desk.approve(run.id, BOOKING.id)).status is RunStatus.SUCCEEDED
    assert (await rival.run(other.id)).status is RunStatus.NEEDS_APPROVAL


async def test_the_policy_is_told_whose_calls_they_are(shared: Gateway) -> None:
    for token, tenant in (("red-1", "red"), ("blue-1", "blue"), ("plain-1", "default"), ("single", "default")):
        await shared.as_principal(token).solve(ask(ASK_HOLIDAYS))
        assert shared.fakes.planner.requests[-1].policy.tenant == tenant


@pytest.mark.parametrize("token", ["", "red", "red-1 ", "red-11", "red-1\x00", "é", "x" * 10_000])
async def test_an_unknown_token_is_refused(shared: Gateway, token: str) -> None:
    response = await shared.http.get("/runs", headers={b"Authorization": b"Bearer " + token.encode()})
    assert response.status_code in (400, 401)
    assert shared.fakes.retriever.calls == []


def test_who_a_header_names() -> None:
    settings = GatewaySettings.model_validate({"principals": PRINCIPALS, "token": "single"})
    known = Principals(settings)
    assert known.of("Bearer red-2") == Principal("desk", "red")
    assert known.of("Bearer plain-1") == Principal("plain", "default")
    assert known.of("Bearer single") == Principal("token", "default")
    for header in (None, "", "Bearer", "bearer red-1", "red-1", "Bearer red-1x", "Basic red-1"):
        with pytest.raises(Unauthorized):
            known.of(header)
    assert Principals(GatewaySettings()).of("Bearer whatever") == Principal("anonymous", "default")


@pytest.mark.parametrize(
    "principals",
    [
        [{"name": "a", "token": "s3cret"}, {"name": "b", "token": "s3cret"}],
        [{"name": "a", "token": ""}],
        [{"name": "", "token": "s3cret"}],
        [{"name": "a", "token": "s3cret", "tenant": "a b"}],
        [{"name": "a", "token": "s3cret", "role": "x"}],
        [{"name": "a"}],
        {"name": "a", "token": "s3cret"},
    ],
)
def test_principals_that_cannot_be_are_refused_without_telling_a_token(principals: object) -> None:
    with pytest.raises(ValidationError) as caught:
        GatewaySettings.model_validate({"principals": principals})
    assert "s3cret" not in str(caught.value)


def test_principals_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_GATEWAY_PRINCIPALS", '[{"name": "a", "tenant": "t", "token": "s3cret"}]')
    monkeypatch.setenv("NESTOR_GATEWAY_POLICY_RULES", '[{"decision": "deny", "method": "DELETE"}]')
    settings = GatewaySettings()
    assert settings.principals[0].token == SecretStr("s3cret")
    assert "s3cret" not in repr(settings)
    assert settings.policy_rules[0].method == "DELETE"
