"""The store of runs: one writer wins, ids sort by time."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.storage import RunStore, new_run_id
from services.contracts.run import Run, RunStatus
from services.storage.engine import create_engine
from services.storage.migrate import migrate


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_a_state_is_claimed_once_also_by_several_gateways(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/runs.db"
    if database == "postgresql":
        url = request.getfixturevalue("postgres_url")
    engines = [create_engine(url) for _ in range(3)]
    await migrate(engines[0], "gateway")
    stores = [RunStore(engine) for engine in engines]
    run = Run(id=new_run_id(), status=RunStatus.NEEDS_APPROVAL, query="q", created_at=datetime.now(UTC))
    await stores[0].insert(run)
    running = run.model_copy(update={"status": RunStatus.RUNNING})
    claims = await asyncio.gather(*(store.claim(running, RunStatus.NEEDS_APPROVAL) for store in stores * 3))
    assert sorted(claims) == [False] * 8 + [True]
    assert (await stores[1].get(run.id)).status is RunStatus.RUNNING
    for engine in engines:
        await engine.dispose()


def test_run_ids_are_unique_and_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({new_run_id() for _ in range(1_000)}) == 1_000
    ids = []
    for ms in (1, 255, 256, 10**12, 10**13):
        monkeypatch.setattr("time.time_ns", lambda ms=ms: ms * 1_000_000)
        ids.append(new_run_id())
    assert ids == sorted(ids)
    assert {len(run_id) for run_id in ids} == {36}
