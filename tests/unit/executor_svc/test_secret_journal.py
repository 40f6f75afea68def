"""The journal of secrets: it tells what was added, changed and removed, where to, and by whom, and never a value."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from executor_svc.secret_changes import tell_change
from executor_svc.secret_file import change_file
from executor_svc.secret_journal import SecretJournal
from executor_svc.secret_store import SecretStore
from executor_svc.tables import METADATA, SECRET_CHANGES
from services.contracts.secret import JournalEntry
from services.errors import ServiceUnavailable
from services.storage.engine import create_engine, read

KEY = SecretStr("p" * 40)
CRM: dict[str, Any] = {"value": "canary-one", "hosts": ["api.crm.example"], "in": "header", "name": "X-Key"}
BANK: dict[str, Any] = {"client_id": "me", "client_secret": "canary-two", "hosts": ["bank.example"]}


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
    yield engine
    await engine.dispose()


def fill(file: Path, entries: dict[str, Any]) -> None:
    file.write_text(json.dumps(entries))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "executor.json"
    fill(file, {"crm.key": CRM, "bank.oauth": BANK})
    return file


def journal(engine: AsyncEngine, file: Path | None, key: SecretStr | None = KEY, given: Any = None) -> SecretJournal:
    setting = None if given is None else SecretStr(json.dumps(given))
    return SecretJournal(engine, SecretStore.load(file, setting), key)


async def started(engine: AsyncEngine, file: Path | None, key: SecretStr | None = KEY, given: Any = None) -> None:
    """An executor starts and stops."""
    async with journal(engine, file, key, given).working():
        pass


async def told(engine: AsyncEngine) -> list[JournalEntry]:
    return list((await journal(engine, None).page(0, 1_000)).entries)


def short(entries: list[JournalEntry]) -> list[tuple[str, str]]:
    return [(one.change, one.secret) for one in entries]


ADDED = [("added", "bank.oauth"), ("added", "crm.key")]


async def test_a_start_tells_what_differs_from_the_last_one(engine: AsyncEngine, file: Path) -> None:
    for _ in range(2):
        await started(engine, file)
    assert short(await told(engine)) == ADDED
    fill(file, {"crm.key": CRM | {"value": "canary-three"}, "new.key": CRM})
    await started(engine, file)
    now = [("removed", "bank.oauth"), ("changed", "crm.key"), ("added", "new.key")]
    assert short((await told(engine))[2:]) == now
    await started(engine, None, given={"bank.oauth": BANK})
    assert ("added", "bank.oauth") in short((await told(engine))[5:])


async def test_hosts_places_and_tenants_are_told_and_values_are_not(engine: AsyncEngine, file: Path) -> None:
    sold = CRM | {"scheme": "api_key", "tenants": ["sales"], "hosts": ["api.crm.example", "eu.crm.example:8443"]}
    await started(engine, file, given={"crm.key": sold})
    bank, crm = await told(engine)
    assert bank.detail == "hosts: bank.example; fields: client_auth, client_id, client_secret; from: file"
    assert crm.detail == (
        "hosts: api.crm.example, eu.crm.example:8443; place: header X-Key; scheme: api_key; tenants: sales; "
        "fields: value; from: setting"
    )
    async with read(engine) as connection:
        rows = (await connection.execute(sa.select(SECRET_CHANGES))).all()
    assert "canary" not in str(rows)


async def test_a_mark_says_nothing_without_the_proof_key(engine: AsyncEngine, file: Path) -> None:
    """Equal values of two names, and of two installations, have different marks."""
    fill(file, {"a.key": CRM, "b.key": CRM})
    await started(engine, file)
    await started(engine, file, key=SecretStr("q" * 40))
    async with read(engine) as connection:
        marks = list(await connection.scalars(sa.select(SECRET_CHANGES.c.mark)))
    assert len(set(marks)) == len(marks) == 4


async def test_without_a_proof_key_only_what_is_not_secret_counts(engine: AsyncEngine, file: Path) -> None:
    await started(engine, file, key=None)
    fill(file, {"crm.key": CRM | {"value": "canary-three"}, "bank.oauth": BANK})
    await started(engine, file, key=None)
    assert short(await told(engine)) == ADDED
    fill(file, {"crm.key": CRM | {"hosts": ["evil.example"]}, "bank.oauth": BANK})
    await started(engine, file, key=None)
    assert short((await told(engine))[2:]) == [("changed", "crm.key")]


async def test_a_change_that_is_undone_before_it_is_written_is_told(engine: AsyncEngine, file: Path) -> None:
    store = SecretStore.load(file, None)
    one = SecretJournal(engine, store, KEY)
    async with one.working():
        for hosts in (["evil.example"], CRM["hosts"]):
            change_file(file, {"crm.key": CRM | {"hosts": hosts}})
            store.reload()  # as a call does that presents a credential
        await one.flush()
    changes = (await told(engine))[2:]
    assert [(it.change, it.detail.partition(";")[0]) for it in changes] == [
        ("changed", "hosts: evil.example"),
        ("changed", "hosts: api.crm.example"),
    ]


async def test_a_changed_file_is_told_although_nothing_uses_it(
    engine: AsyncEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("executor_svc.secret_journal._POLL_S", 0.01)
    async with journal(engine, file).working(), asyncio.timeout(20):
        change_file(file, {"crm.key": None})
        while len(found := await told(engine)) == 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    assert short(found[2:]) == [("removed", "crm.key")]


async def test_a_renewed_token_is_no_change_of_the_secret(engine: AsyncEngine, file: Path) -> None:
    await started(engine, file)
    change_file(
        file, {"bank.oauth": BANK | {"access_token": "canary-four", "refresh_token": "canary-5", "expires_at": 9}}
    )
    await started(engine, file)
    assert short(await told(engine)) == ADDED


async def test_executors_that_share_a_database_tell_a_change_once(engine: AsyncEngine, file: Path) -> None:
    executors = [journal(engine, file) for _ in range(4)]
    await asyncio.gather(*(_starting(one) for one in executors))
    assert short(await told(engine)) == ADDED


async def _starting(one: SecretJournal) -> None:
    async with one.working():
        pass


async def test_the_account_that_the_history_names_is_told(engine: AsyncEngine, file: Path) -> None:
    tell_change(file, "set", "crm.key", CRM)
    await started(engine, file)
    accounts = {one.secret: one.account for one in await told(engine)}
    assert accounts["bank.oauth"] == ""
    assert accounts["crm.key"] != ""
    change_file(file, {"crm.key": CRM | {"hosts": ["evil.example"]}})  # by hand: the history does not know
    await started(engine, file)
    tell_change(file, "remove", "crm.key")
    change_file(file, {"crm.key": None})
    await started(engine, file)
    by_hand, by_command = (await told(engine))[2:]
    assert (by_hand.change, by_hand.account) == ("changed", "")
    assert (by_command.change, by_command.account) == ("removed", accounts["crm.key"])


async def test_a_database_that_was_away_gets_the_changes_later(
    engine: AsyncEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = journal(engine, file)

    async def away(_self: SecretJournal, _seen: object) -> None:
        raise ServiceUnavailable("away")

    async with one.working():
        with monkeypatch.context() as patch:
            patch.setattr(SecretJournal, "_record", away)
            change_file(file, {"crm.key": None})
            with pytest.raises(ServiceUnavailable):
                await one.flush()
            change_file(file, {"crm.key": CRM})
            with pytest.raises(ServiceUnavailable):
                await one.flush()
        await one.flush()
    assert short((await told(engine))[2:]) == [("removed", "crm.key"), ("added", "crm.key")]


@pytest.mark.parametrize("name", ["a.\x00", "a.\ud800", "", "ü." + "k" * 3_000])
async def test_any_name_is_told(engine: AsyncEngine, tmp_path: Path, name: str) -> None:
    file = tmp_path / "odd.json"
    fill(file, {name: CRM | {"hosts": [f"h{n}.example" for n in range(400)]}})
    for _ in range(2):
        await started(engine, file)
    (found,) = await told(engine)
    assert found.secret == name.replace("\x00", "\ufffd").replace("\ud800", "?")
    assert len(found.detail) == 2_000
