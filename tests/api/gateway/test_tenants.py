"""Principals, and the isolation of tenants from each other."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr, ValidationError
from starlette.requests import Request

from gateway.principals import Principal, Principals
from gateway.settings import GatewaySettings
from services.contracts.doubt import ResolveRequest
from services.contracts.feedback import FeedbackRequest, Verdict
from services.contracts.run import RunStatus
from services.errors import InvalidRequest, NotFound, TooManyAttempts, Unauthorized
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, BOOKING, Gateway, ask, open_gateway

PRINCIPALS = (
    {"name": "shop", "tenant": "red", "token": "red-token-1"},
    {"name": "desk", "tenant": "red", "token": "red-token-2"},
    {"name": "rival", "tenant": "blue", "token": "blue-token-1"},
    {"name": "plain", "token": "plain-token-1"},
)


@pytest.fixture
async def shared(database_url: str) -> AsyncIterator[Gateway]:
    async with open_gateway(database_url, principals=PRINCIPALS, token="single-token") as running:
        yield running


async def test_a_tenant_sees_its_own_runs_and_no_others(shared: Gateway) -> None:
    shop, desk, rival = (shared.as_principal(token) for token in ("red-token-1", "red-token-2", "blue-token-1"))
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
    for token, tenant in (
        ("red-token-1", "red"),
        ("blue-token-1", "blue"),
        ("plain-token-1", "default"),
        ("single-token", "default"),
    ):
        await shared.as_principal(token).solve(ask(ASK_HOLIDAYS))
        assert shared.fakes.planner.requests[-1].policy.tenant == tenant


async def test_the_executor_is_told_whose_calls_they_are(shared: Gateway) -> None:
    """The executor needs the tenant to know which secrets a run may present."""
    for token, tenant in (("red-token-1", "red"), ("blue-token-1", "blue"), ("plain-token-1", "default")):
        await shared.as_principal(token).solve(ask(ASK_HOLIDAYS))
        assert shared.fakes.executor.requests[-1].tenant == tenant
        assert shared.fakes.executor.asked_for[-1] == tenant


@pytest.mark.parametrize("token", ["", "red", "red-token-1 ", "red-token-11", "red-token-1\x00", "é", "x" * 10_000])
async def test_an_unknown_token_is_refused(shared: Gateway, token: str) -> None:
    response = await shared.http.get("/runs", headers={b"Authorization": b"Bearer " + token.encode()})
    assert response.status_code in (400, 401)
    assert shared.fakes.retriever.calls == []


async def test_who_a_header_names() -> None:
    settings = GatewaySettings.model_validate({"principals": PRINCIPALS, "token": "single-token"})
    known = Principals(settings)
    assert await known.authenticate(_request("Bearer red-token-2")) == Principal("desk", "red")
    assert await known.authenticate(_request("bearer plain-token-1")) == Principal("plain", "default", operator=True)
    assert await known.authenticate(_request("Bearer single-token")) == Principal("token", "default", operator=True)
    for header in ("", "Bearer", "red-token-1", "Bearer red-token-1x", "Basic red-token-1", "Bearer  red-token-1"):
        with pytest.raises(Unauthorized):
            await known.authenticate(_request(header))
    with pytest.raises(Unauthorized):
        await known.authenticate(_request())
    assert await Principals(GatewaySettings()).authenticate(_request("Bearer whatever")) == Principal(
        "anonymous", "default", operator=True
    )


@pytest.mark.parametrize("second", ["Bearer red-token-1", "Bearer wrong-token", "Basic x"])
async def test_two_headers_name_nobody(second: str) -> None:
    known = Principals(GatewaySettings.model_validate({"principals": PRINCIPALS}))
    with pytest.raises(InvalidRequest):
        await known.authenticate(_request("Bearer red-token-1", second))


def test_who_guesses_has_to_wait() -> None:
    now = [0.0]
    known = Principals(GatewaySettings(token=SecretStr("s3cret-token"), max_wrong_tokens=3), clock=lambda: now[0])
    for _ in range(20):  # the same wrong token many times is not an attack but an outdated client
        with pytest.raises(Unauthorized):
            known.of(b"the-old-token", "192.0.2.1")
    for guess in (b"guess-1", b"guess-2"):
        with pytest.raises(Unauthorized):
            known.of(guess, "192.0.2.1")
    for token in (b"guess-3", b"s3cret-token"):
        with pytest.raises(TooManyAttempts) as caught:
            known.of(token, "192.0.2.1")
        assert caught.value.extensions["retry_after_s"] <= 60
    assert known.of(b"s3cret-token", "192.0.2.2").name == "token"
    now[0] = 61.0
    assert known.of(b"s3cret-token", "192.0.2.1").name == "token"


def test_a_network_of_ipv6_guesses_as_one() -> None:
    known = Principals(GatewaySettings(token=SecretStr("s3cret-token"), max_wrong_tokens=3))
    for number in range(3):
        with pytest.raises(Unauthorized):
            known.of(b"guess-%d" % number, f"2001:db8::{number:x}")
    with pytest.raises(TooManyAttempts):
        known.of(b"s3cret-token", "2001:db8::ffff")


def test_guesses_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.principals._MOST_ADDRESSES", 50)
    known = Principals(GatewaySettings(token=SecretStr("s3cret-token"), max_wrong_tokens=3))
    for number in range(250):
        for guess in range(2):
            with pytest.raises(Unauthorized):
                known.of(b"guess-%d" % guess, f"192.0.2.{number}")
    assert len(known._wrong_tokens._attempts) == 50


def _request(*authorizations: str) -> Request:
    headers = [(b"authorization", value.encode()) for value in authorizations]
    return Request({"type": "http", "headers": headers, "client": ("192.0.2.1", 1)})


@pytest.mark.parametrize(
    "principals",
    [
        [{"name": "a", "token": "s3cret-token"}, {"name": "b", "token": "s3cret-token"}],
        [{"name": "a", "token": ""}],
        [{"name": "a", "token": "s3"}],
        [{"name": "", "token": "s3cret-token"}],
        [{"name": "a", "token": "s3cret-token", "tenant": "a b"}],
        [{"name": "a", "token": "s3cret-token", "role": "x"}],
        [{"name": "a", "token": "s3cret-token", "roles": ["boss"]}],
        [{"name": "a", "token": "s3cret-token", "roles": []}],
        [{"name": "a"}],
        {"name": "a", "token": "s3cret-token"},
    ],
)
def test_principals_that_cannot_be_are_refused_without_telling_a_token(principals: object) -> None:
    with pytest.raises(ValidationError) as caught:
        GatewaySettings.model_validate({"principals": principals})
    assert "s3cret-token" not in str(caught.value)


def test_principals_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_GATEWAY_PRINCIPALS", '[{"name": "a", "tenant": "t", "token": "s3cret-token"}]')
    monkeypatch.setenv("NESTOR_GATEWAY_POLICY_RULES", '[{"decision": "deny", "method": "DELETE"}]')
    settings = GatewaySettings()
    assert settings.principals[0].token == SecretStr("s3cret-token")
    assert "s3cret-token" not in repr(settings)
    assert settings.policy_rules[0].method == "DELETE"
