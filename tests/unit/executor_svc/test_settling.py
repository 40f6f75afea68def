"""The durable lane where calls are in doubt: a person settles them, and the run goes on once."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from executor_svc.admission import Sealer
from executor_svc.models import CallResult, CallState, Outcome
from executor_svc.settling import settled
from executor_svc.storage import LedgerStore
from executor_svc.tables import CALLS
from services.contracts.doubt import ResolveRequest
from services.contracts.outcome import Succeeded
from services.contracts.plan import ForEach
from services.errors import Conflict, NotFound, ValidationFailed
from tests.support.durable import DEAD, House, booking, done, finish, sending, two_bookings
from tests.support.executing import compiled, item, literal, ref, step
from tests.support.upstream import Upstream


@pytest.mark.parametrize(
    ("said", "status", "bodies"),
    [
        (ResolveRequest(outcome="succeeded", value={"id": "b1"}), "succeeded", [b'{"room":"b1"}']),
        (ResolveRequest(outcome="failed", message="never arrived"), "failed", []),
        (ResolveRequest(outcome="retry"), "succeeded", [b'{"room":"blue"}', b'{"room":"b2"}']),
    ],
)
async def test_a_doubt_is_settled_and_the_run_goes_on(
    house: House, upstream: Upstream, said: ResolveRequest, status: str, bodies: list[bytes]
) -> None:
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    state = await executor.resolve("run-1", "a", said)
    assert (state.status, state.doubts) == ("running", ())
    assert (await finish(executor, plan)).status == status
    assert [seen.body for seen in upstream.seen] == bodies
    with pytest.raises(Conflict, match=status):
        await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "another"}))


@pytest.mark.parametrize(
    "said", [ResolveRequest(outcome="succeeded", value={"id": "b1"}), ResolveRequest(outcome="failed", message="no")]
)
async def test_the_same_settlement_may_be_repeated_after_the_run_went_on(
    house: House, upstream: Upstream, said: ResolveRequest
) -> None:
    """The answer was lost on its way to the person."""
    upstream.replies("/book", {"id": "b2"})
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    await executor.resolve("run-1", "a", said)
    ended = (await finish(executor, plan)).status
    again = await executor.resolve("run-1", "a", said)
    assert (again.status, again.settled, again.doubts) == (ended, True, ())
    for other in (ResolveRequest(outcome="retry"), ResolveRequest(outcome="failed", message="another")):
        with pytest.raises(Conflict, match=ended):
            await executor.resolve("run-1", "a", other)


async def test_a_large_settled_value_is_read_only_when_the_run_goes_on(house: House, upstream: Upstream) -> None:
    """All were read at each settlement: after 28 of 1 MB nobody else was answered for three seconds."""
    post = booking(upstream)
    loop = step("a", post, {"room": item()}, foreach=ForEach(items=literal(["red", "blue"])))
    plan = compiled([post], loop, step("b", post, {"room": ref("a", 0, "id")}), mutating=("a", "b"))
    await house.left_behind(plan, sending("a/0", room="red"), sending("a/1", room="blue"))
    executor = await house.executor(max_held_bytes=500_000)
    assert (await finish(executor, plan)).status == "in_doubt"

    def said(size: int, number: int) -> tuple[str, str, ResolveRequest]:
        value = {"id": "b1", "text": "x" * size}
        return "run-1", "a", ResolveRequest(outcome="succeeded", value=value, item=number)

    for _ in range(2):
        state = await executor.resolve(*said(200_000, 0))
        assert (state.status, state.settled, len(state.doubts)) == ("in_doubt", True, 1)
    assert not (await executor.resolve(*said(200_001, 0))).settled
    async with house.engine.connect() as connection:
        assert await connection.scalar(sa.select(sa.func.max(sa.func.length(CALLS.c.result)))) < 2_000
    with pytest.raises(ValidationFailed, match="250000 bytes of memory"):
        await executor.resolve(*said(60_000, 1))
    upstream.replies("/book", {"id": "b2"})
    assert (await executor.resolve(*said(1_000, 1))).status == "running"
    finished = await finish(executor, plan)
    assert finished.status == "succeeded"
    assert [seen.body for seen in upstream.seen] == [b'{"room":"b1"}']


@pytest.mark.parametrize("size", [10, 20_000, 400_000])
async def test_a_settlement_of_an_earlier_version_may_be_repeated(house: House, upstream: Upstream, size: int) -> None:
    """It recorded values of any size inline, and no memory."""
    plan, value = two_bookings(booking(upstream)), {"id": "b1", "text": "x" * size}
    recorded = CallResult(Succeeded(value=value), None, 0, recovered=True)
    await house.left_behind(plan, sending("a", room="blue"), Outcome(DEAD, "a", CallState.DONE, recorded, sent=True))
    upstream.replies("/book", {"id": "b2"})
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "succeeded"
    assert (await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value=value))).settled
    for other in (value | {"id": "b2"}, {"id": "b1"}):
        with pytest.raises(Conflict, match="succeeded"):
            await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value=other))


async def test_true_and_one_are_different_settlements(house: House, upstream: Upstream) -> None:
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1", "paid": True}))
    ended = (await finish(executor, plan)).status
    with pytest.raises(Conflict, match=ended):
        await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1", "paid": 1}))


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("said", [ResolveRequest(outcome="retry"), ResolveRequest(outcome="succeeded", value={})])
async def test_a_settlement_that_a_crash_cut_short_is_repeated(
    house: House, upstream: Upstream, said: ResolveRequest, same: bool
) -> None:
    """The process dies between writing what was said and setting the run running again."""
    upstream.replies("/book", {"id": "b2"})
    plan = compiled([booking(upstream)], step("a", booking(upstream), {"room": literal("blue")}), mutating=("a",))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    store = LedgerStore(house.engine, Sealer(None))
    execution = await store.execution("run-1")
    assert execution is not None
    assert await store.settle(execution, "a", settled(said)[0])
    store.close()
    repeated = await executor.resolve("run-1", "a", said if same else ResolveRequest(outcome="failed"))
    assert (repeated.status, repeated.settled) == ("running", same)
    assert (await finish(executor, plan)).status == "succeeded"
    assert upstream.count("/book") == (said.outcome == "retry")


async def test_of_two_settlements_only_the_first_takes_effect(house: House, upstream: Upstream) -> None:
    post = booking(upstream)
    each = ForEach(items=literal(["red", "blue"]), parallel=2)
    plan = compiled(
        [post], step("each", post, {"room": item()}, foreach=each), answer={"all": ref("each")}, mutating=("each",)
    )
    await house.left_behind(plan, sending("each/0", room="red"), sending("each/1", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    said = ResolveRequest(outcome="succeeded", value={"id": "b0"}, item=0)
    assert (await executor.resolve("run-1", "each", said)).settled
    for later, same in ((said, True), (ResolveRequest(outcome="failed", item=0), False)):
        late = await executor.resolve("run-1", "each", later)
        assert (late.status, late.settled, [doubt.item for doubt in late.doubts]) == ("in_doubt", same, [1])
    await executor.resolve("run-1", "each", ResolveRequest(outcome="succeeded", value={"id": "b1"}, item=1))
    assert (await finish(executor, plan)).answer[0].value == [{"id": "b0"}, {"id": "b1"}]


async def test_a_retry_may_be_repeated_while_other_doubts_are_left(house: House, upstream: Upstream) -> None:
    post = booking(upstream)
    each = ForEach(items=literal(["red", "blue"]), parallel=2)
    plan = compiled([post], step("each", post, {"room": item()}, foreach=each), mutating=("each",))
    await house.left_behind(plan, sending("each/0", room="red"), sending("each/1", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    for _ in range(2):
        state = await executor.resolve("run-1", "each", ResolveRequest(outcome="retry", item=0))
        assert (state.settled, [doubt.item for doubt in state.doubts]) == (True, [1])


async def test_a_settlement_that_comes_too_late_is_not_applied_to_a_later_doubt(
    house: House, upstream: Upstream
) -> None:
    """The process that was told stands still; meanwhile the run goes on, and the call is in doubt once more."""
    plan = two_bookings(booking(upstream))
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    store = LedgerStore(house.engine, Sealer(None))
    former = await store.execution("run-1")
    assert former is not None
    upstream.replies("/book", web.Response(status=504))
    await executor.resolve("run-1", "a", ResolveRequest(outcome="retry"))
    assert (await finish(executor, plan)).status == "in_doubt"
    assert not await store.settle(former, "a", None)
    assert await store.reopen(former, "somebody") is None
    store.close()
    assert upstream.count("/book") == 1
    state = await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    assert state.status == "running"


async def test_items_of_a_foreach_are_settled_one_by_one(house: House, upstream: Upstream) -> None:
    post = booking(upstream)
    plan = compiled(
        [post],
        step("each", post, {"room": item()}, foreach=ForEach(items=literal(["red", "blue", "green"]), parallel=3)),
        answer={"all": ref("each")},
        mutating=("each",),
    )
    upstream.replies("/book", {"id": "b2"})
    await house.left_behind(
        plan, sending("each/0", room="red"), sending("each/1", room="blue"), done("each/1", {"id": "b1"})
    )
    executor = await house.executor()
    finished = await finish(executor, plan)
    kinds = [record.outcome.kind for record in finished.records[0].items]
    assert (finished.status, kinds[:2]) == ("in_doubt", ["in_doubt", "succeeded"])
    with pytest.raises(ValidationFailed, match="item"):
        await executor.resolve("run-1", "each", ResolveRequest(outcome="retry"))
    with pytest.raises(Conflict):
        await executor.resolve("run-1", "each", ResolveRequest(outcome="retry", item=7))
    await executor.resolve("run-1", "each", ResolveRequest(outcome="succeeded", value={"id": "b0"}, item=0))
    settled = await finish(executor, plan)
    assert settled.answer[0].value == [{"id": "b0"}, {"id": "b1"}, {"id": "b2"}]


async def test_what_does_not_exist_cannot_be_settled_or_cancelled(house: House, upstream: Upstream) -> None:
    executor = await house.executor()
    with pytest.raises(NotFound):
        await executor.resolve("run-1", "a", ResolveRequest(outcome="failed"))
    with pytest.raises(NotFound):
        await executor.cancel("run-2")
    await finish(executor, two_bookings(booking(upstream)))
    with pytest.raises(NotFound, match="no step"):
        await executor.resolve("run-1", "z", ResolveRequest(outcome="failed"))


async def test_a_run_set_running_again_is_not_taken_over_by_its_own_process(
    house: House, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphans are looked for just when it is this process's own and not live yet."""
    plan, reopening = two_bookings(booking(upstream)), LedgerStore.reopen
    upstream.replies("/book", {"id": "b2"})
    await house.left_behind(plan, sending("a", room="blue"))
    executor = await house.executor()
    assert (await finish(executor, plan)).status == "in_doubt"
    looking = list[asyncio.Task[None]]()

    async def slowly(store: LedgerStore, *arguments: Any) -> Any:
        lease = await reopening(store, *arguments)
        looking.append(asyncio.create_task(executor._lane._take_over()))
        await asyncio.wait(looking, timeout=0.5)
        return lease

    monkeypatch.setattr(LedgerStore, "reopen", slowly)
    before = await executor._lane._stored("run-1")
    await executor.resolve("run-1", "a", ResolveRequest(outcome="succeeded", value={"id": "b1"}))
    await asyncio.gather(*looking)
    assert (await finish(executor, plan)).status == "succeeded"
    assert (await executor._lane._stored("run-1")).epoch == before.epoch + 1
