"""The audit log itself, on SQLite."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway import audit as audit_module
from gateway.audit import AuditFilter, AuditLog
from gateway.principals import Principal
from services.compute import for_tenant
from services.contracts.access import Action
from services.storage.engine import Transactions, create_engine, read
from services.storage.migrate import migrate


@pytest.fixture
async def transactions(tmp_path: Path) -> AsyncIterator[Transactions]:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/audit.db")
    await migrate(engine, "gateway")
    transactions = Transactions(engine)
    yield transactions
    transactions.close()
    await engine.dispose()


async def test_one_tenant_makes_few_changes_at_once(transactions: Transactions) -> None:
    """Hundreds that had begun together wrote their outcomes only after all others' first entries, or never."""
    audit, at_once, most = AuditLog(transactions), 0, 0

    async def change(tenant: str) -> None:
        nonlocal at_once, most
        async with audit.around(Principal(tenant, tenant), Action.REMOVE_DEMO, "it"):
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once -= 1

    await asyncio.gather(*(change("flood") for _ in range(100)))
    assert most <= 16
    page = await audit.page(AuditFilter("flood"), limit=500, cursor=None)
    assert sum(entry.outcome == "done" for entry in page.entries) == 100


async def test_one_search_of_a_tenant_holds_a_connection(
    transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred searches of a long log had all of them, so that nobody else could read anything."""
    audit, held, most, done = AuditLog(transactions), 0, 0, list[str]()

    @asynccontextmanager
    async def counted(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        nonlocal held, most
        async with read(engine) as connection:
            held += 1
            most = max(most, held)
            yield connection
            held -= 1

    async def search(tenant: str) -> None:
        for_tenant.set(tenant)
        await audit.page(AuditFilter(tenant), limit=5, cursor=None)
        done.append(tenant)

    monkeypatch.setattr(audit_module, "read", counted)
    await asyncio.gather(*(search(tenant) for tenant in ["flood"] * 50 + ["other"]))
    assert most <= 2
    assert done.index("other") < 10
