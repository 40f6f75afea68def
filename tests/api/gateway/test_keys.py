"""Keys are created, used, expired and revoked without a restart, by principals with that right."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.keys import KeyStore
from gateway.tables import AUDIT, KEYS
from services.contracts.access import Action, CreatedKey, KeyRequest, Role
from services.errors import Forbidden, NotFound, TooManyAttempts, Unauthorized, ValidationFailed
from services.storage.engine import create_engine, write
from tests.support.gateways import ASK_ROOM, Gateway, ask, open_gateway

PRINCIPALS: tuple[dict[str, Any], ...] = (
    {"name": "operator", "tenant": "default", "token": "operator-token"},
    {"name": "boss", "tenant": "red", "token": "red-boss-token"},
    {"name": "importer", "tenant": "red", "token": "red-importer-token", "roles": ["administer"]},
    {"name": "blue", "tenant": "blue", "token": "blue-boss-token"},
)
ALL = frozenset(Role)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_gateway(tmp_path, principals=PRINCIPALS) as running:
        yield running


async def made(gateway: Gateway, token: str, **fields: Any) -> CreatedKey:
    asked = KeyRequest(**{"name": "app", "roles": ALL} | fields)
    return await gateway.as_principal(token).create_key(asked)


async def rows(database_url: str, table: sa.Table) -> list[str]:
    engine = create_engine(database_url)
    async with engine.connect() as connection:
        found = [str(tuple(row)) for row in await connection.execute(sa.select(table))]
    await engine.dispose()
    return found


async def test_a_key_is_valid_at_once_everywhere_until_it_is_revoked(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(open_gateway(database_url, principals=PRINCIPALS)) for _ in range(2)
        ]
        key = await made(one, "red-boss-token", name="desk")
        there = two.as_principal(key.key)
        run = await there.solve(ask(ASK_ROOM))
        assert (run.tenant, run.asked_by) == ("red", "desk")
        assert (await one.as_principal("red-boss-token").run(run.id)).id == run.id
        for table in (KEYS, AUDIT):
            text = " ".join(await rows(database_url, table))
            assert key.id in text
            assert key.key.rpartition(key.id)[2][1:] not in text
        listed = (await two.as_principal("red-importer-token").keys()).keys
        assert [found.model_dump() for found in listed] == [key.model_dump(exclude={"key"})]
        await one.as_principal("red-importer-token").revoke_key(key.id)
        with pytest.raises(Unauthorized):
            await one.as_principal(key.key).runs()
        keys: KeyStore = two.app.state.keys
        now = keys._clock()
        monkeypatch.setattr(keys, "_clock", lambda: now + 2.1)
        with pytest.raises(Unauthorized):
            await there.runs()
        assert (await two.as_principal("red-boss-token").runs()).runs


async def test_an_expired_key_is_a_wrong_one(gateway: Gateway) -> None:
    key = await made(gateway, "red-boss-token", expires_in_days=1)
    assert key.expires_at is not None
    assert timedelta(hours=23) < key.expires_at - datetime.now(UTC) <= timedelta(days=1)
    await gateway.as_principal(key.key).runs()
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with write(gateway.app.state.keys._engine) as connection:
        await connection.execute(KEYS.update().values(expires_at=past))
    gateway.app.state.keys._cache.clear()
    answers = [
        await gateway.http.get("/runs", headers={"Authorization": f"Bearer {token}"})
        for token in (key.key, "wrong-token", key.key[:-1] + ("a" if key.key[-1] != "a" else "b"), f"nst_{'0' * 20}")
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.json()["detail"] for answer in answers}) == 1


async def test_who_may_make_and_see_which_keys(gateway: Gateway) -> None:
    with pytest.raises(Forbidden, match="`approve`"):
        await made(gateway, "red-importer-token", roles={Role.ADMINISTER, Role.APPROVE})
    with pytest.raises(Forbidden, match="other tenants"):
        await made(gateway, "red-boss-token", tenant="blue")
    with pytest.raises(Forbidden, match="other tenants"):
        await gateway.as_principal("red-boss-token").keys(tenant="blue")
    red = await made(gateway, "red-importer-token", roles={Role.ADMINISTER})
    blue = await made(gateway, "operator-token", tenant="blue", roles={Role.ASK})
    assert (red.tenant, blue.tenant, blue.created_by) == ("red", "blue", "operator")
    with pytest.raises(NotFound):
        await gateway.as_principal("red-boss-token").revoke_key(blue.id)
    with pytest.raises(Forbidden):
        await gateway.as_principal(blue.key).keys()
    with pytest.raises(Forbidden, match="`ask`"):
        await gateway.as_principal(red.key).solve(ask(ASK_ROOM))
    operator = gateway.as_principal("operator-token")
    assert [key.id for key in (await operator.keys()).keys] == [blue.id, red.id]
    assert [key.id for key in (await operator.keys(tenant="red")).keys] == [red.id]
    first = await operator.keys(limit=1)
    assert first.next == blue.id
    assert [key.id for key in (await operator.keys(limit=1, cursor=first.next)).keys] == [red.id]
    for _ in range(2):
        await operator.revoke_key(blue.id)
    revoked = await operator.audit(actions=[Action.REVOKE_KEY])
    assert [(one.principal, one.target) for one in revoked.entries] == [("operator", blue.id)]
    with pytest.raises(Unauthorized):
        await gateway.as_principal(blue.key).runs()


@pytest.mark.parametrize(
    "fields",
    [
        {"roles": []},
        {"roles": ["boss"]},
        {"name": ""},
        {"name": "a\x00"},
        {"expires_in_days": 0},
        {"expires_in_days": 1e99},
        {"tenant": "a b"},
        {"key": "mine"},
    ],
)
async def test_keys_that_cannot_be_are_refused(gateway: Gateway, fields: dict[str, Any]) -> None:
    headers = {"Authorization": "Bearer operator-token"}
    answer = await gateway.http.post("/keys", json={"name": "a", "roles": ["ask"]} | fields, headers=headers)
    assert answer.status_code == ValidationFailed.status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_guessed_keys_count_as_wrong_tokens(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, principals=PRINCIPALS, max_wrong_tokens=3) as gateway:
        key = await made(gateway, "red-boss-token")
        for number in range(3):
            with pytest.raises(Unauthorized):
                await gateway.as_principal(f"nst_{key.id}_{number:043d}").runs()
        with pytest.raises(TooManyAttempts):
            await gateway.as_principal(key.key).runs()


async def test_where_anybody_is_taken_a_revoked_key_is_not(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        key = await gateway.client.create_key(KeyRequest(name="app", tenant="red", roles=frozenset({Role.ASK})))
        assert (await gateway.as_principal(key.key).solve(ask(ASK_ROOM))).tenant == "red"
        await gateway.client.revoke_key(key.id)
        with pytest.raises(Unauthorized):
            await gateway.as_principal(key.key).runs()
        await gateway.client.runs()
