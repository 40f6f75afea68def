"""The writer of the ledger, where something cannot be written."""

import asyncio
from typing import Any, cast

import pytest
from sqlalchemy.exc import IntegrityError

from executor_svc.admission import Sealer
from executor_svc.ledger import Ledger
from executor_svc.models import CallState, LargeValue
from executor_svc.storage import LedgerStore
from services.ownership.ticket import Ticket
from tests.support.durable import DEAD, House, asked, booking, done, sending, two_bookings
from tests.support.upstream import Upstream


@pytest.mark.parametrize("before", [0, 1, 40])
async def test_what_cannot_be_written_costs_nobody_elses_outcome(house: House, upstream: Upstream, before: int) -> None:
    keys = [f"item{n}" for n in range(before + 10)]
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, *(sending(key, room="blue") for key in keys))
    store = LedgerStore(house.engine, Sealer(None))
    ledger = Ledger(store, lambda _: None)
    bad = LargeValue("bad", cast("Any", None))
    for place, key in enumerate(keys):
        if place == before:
            ledger.keep(bad)
        outcome = done(key, {"id": key})
        ledger.outcome(outcome.ticket, key, outcome.state, outcome.result, sent=True)
    other = Ticket("run-2", DEAD.owner, 1)
    waiting = asyncio.gather(ledger.admit(other, asked(plan).model_copy(update={"run_id": "run-2"})), ledger.flush())
    writer = asyncio.create_task(ledger.write_forever())
    admitted, _ = await asyncio.wait_for(waiting, 20)
    assert admitted
    assert {call.state for call in (await store.calls(DEAD.run_id)).values()} == {CallState.DONE}
    writer.cancel()
    store.close()


async def test_who_waits_for_what_cannot_be_written_is_told(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan)
    store = LedgerStore(house.engine, Sealer(None))
    ledger = Ledger(store, lambda _: None)
    writer = asyncio.create_task(ledger.write_forever())
    with pytest.raises(IntegrityError):
        await asyncio.wait_for(
            ledger.admit(
                Ticket("run-2", cast("Any", None), 1),
                asked(
                    plan,
                ),
            ),
            20,
        )
    await asyncio.wait_for(ledger.flush(), 20)
    writer.cancel()
    store.close()
