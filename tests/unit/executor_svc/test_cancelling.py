"""The durable lane where runs are cancelled: by any process, before they begin, and between two calls."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from executor_svc.admission import Sealer
from executor_svc.storage import LedgerStore
from executor_svc.tables import MEMBERS
from services.contracts.api import Api
from services.contracts.plan import ForEach
from services.contracts.planning import CompiledPlan
from services.errors import NotFound
from tests.support.durable import DEAD, House, booking, finish, held_bookings, sending, two_bookings
from tests.support.executing import compiled, item, literal, step
from tests.support.upstream import Upstream


async def test_what_was_cancelled_before_it_began_does_not_begin(house: House, upstream: Upstream) -> None:
    """A request for it may be held up somewhere between the gateway and the ledger."""
    one, other = await house.executor(), await house.executor()
    for _ in range(2):
        with pytest.raises(NotFound):
            await one.cancel("run-1")
    with pytest.raises(NotFound):
        await finish(other, two_bookings(booking(upstream)))
    assert upstream.seen == []


@pytest.mark.parametrize("asked_of_owner", [True, False])
async def test_a_cancelled_run_starts_no_further_call(house: House, upstream: Upstream, asked_of_owner: bool) -> None:
    held = held_bookings(upstream)
    plan = two_bookings(booking(upstream))
    owner, other = await house.executor(), await house.executor()
    following = asyncio.create_task(finish(owner, plan))
    await upstream.arrived.wait()
    await (owner if asked_of_owner else other).cancel("run-1")
    if not asked_of_owner:
        await asyncio.sleep(0.2)  # the owner looks every lease_s / 10 = 50 ms
    held.set()
    finished = await following
    assert finished.status == "cancelled"
    assert [record.outcome.kind for record in finished.records] == ["succeeded", "skipped"]
    assert upstream.count("/book") == 1


async def test_a_cancellation_between_taking_over_and_going_on_is_heard(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan)
    async with house.engine.begin() as connection:  # so that the run is taken over by this test alone
        await connection.execute(MEMBERS.insert().values(id=DEAD.owner, seen_at=4e9))
    executor = await house.executor()
    taken = await executor._lane._stored("run-1")
    await executor.cancel("run-1")
    executor._lane._launch(taken.request, partial(executor._lane._continue, taken, DEAD))
    assert (await finish(executor, plan)).status == "cancelled"
    assert upstream.seen == []


def two_items(post: Api) -> CompiledPlan:
    rooms = ForEach(items=literal(["red", "blue"]), parallel=1)
    return compiled([post], step("each", post, {"room": item()}, foreach=rooms), mutating=("each",))


@pytest.mark.parametrize(("plan_of", "kinds"), [(two_bookings, ["succeeded", "skipped"]), (two_items, ["skipped"])])
async def test_no_change_begins_after_a_cancellation_of_which_the_owner_has_not_heard(
    house: House, upstream: Upstream, plan_of: Callable[[Api], CompiledPlan], kinds: list[str]
) -> None:
    held, plan = held_bookings(upstream), plan_of(booking(upstream))
    owner = await house.executor(lease_s=60)  # it looks every six seconds
    following = asyncio.create_task(finish(owner, plan))
    await upstream.arrived.wait()
    elsewhere = LedgerStore(house.engine, Sealer(None))
    await elsewhere.request_cancel("run-1")
    elsewhere.close()
    held.set()
    finished = await following
    assert (finished.status, [record.outcome.kind for record in finished.records]) == ("cancelled", kinds)
    assert upstream.count("/book") == 1
    assert list(await owner._store.calls("run-1")) == ["a" if plan_of is two_bookings else "each/0"]


async def test_a_call_begun_before_the_cancellation_is_sent_again_where_its_answer_is_lost(
    house: House, upstream: Upstream
) -> None:
    upstream.replies("/book", {"id": "b1"})
    plan = two_bookings(booking(upstream, idempotency_header="Idempotency-Key"))
    await house.left_behind(plan, sending("a", room="blue"))
    store = LedgerStore(house.engine, Sealer(None))
    await store.request_cancel("run-1")
    store.close()
    finished = await finish(await house.executor(), plan)
    assert (finished.status, upstream.count("/book")) == ("cancelled", 1)
