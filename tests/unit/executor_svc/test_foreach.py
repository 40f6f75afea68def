"""The runner over the items of a list: order, parallelism, and items that fail."""

import asyncio
from typing import Any

import pytest

from executor_svc.models import Call
from services.contracts.outcome import Failed, InDoubt, Skipped
from services.contracts.plan import When
from tests.support.executing import compiled, item, literal, ref
from tests.support.running import GET, ITEMS, each, finish


async def test_foreach_keeps_the_items_order_whatever_ends_first() -> None:
    waiting: list[asyncio.Event] = []

    async def behaviour(call: Call) -> Any:
        """Calls end in reverse: each waits until the one after it has ended."""
        mine = asyncio.Event()
        waiting.append(mine)
        if len(waiting) == 10:
            waiting[-1].set()
        await mine.wait()
        index = waiting.index(mine)
        if index:
            waiting[index - 1].set()
        return call.arguments["x"]

    finished = await finish(compiled([GET], each(ITEMS, 10), answer={"all": ref("each")}), behaviour)
    assert finished.answer[0].value == list(range(10))
    assert [r.url[-1] for r in finished.records[0].requests] == [str(n) for n in range(10)]
    assert finished.records[0].attempts == 10


async def test_foreach_runs_as_many_as_allowed_and_never_more() -> None:
    running, most = 0, 0
    barrier = asyncio.Barrier(3)

    async def behaviour(_: Call) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await barrier.wait()  # passes only when three run together
        running -= 1
        return 1

    nine = literal([{"id": n} for n in range(9)])
    assert (await finish(compiled([GET], each(nine, 3)), behaviour)).status == "succeeded"
    assert most == 3


async def test_a_failing_item_is_named_and_no_new_item_starts() -> None:
    called: list[Any] = []

    async def behaviour(call: Call) -> Any:
        called.append(call.arguments["x"])
        return (
            Failed(reason="upstream_error", message="gone", status=404, detail={"e": 1})
            if call.arguments["x"] == 3
            else 1
        )

    finished = await finish(compiled([GET], each(ITEMS, 1)), behaviour)
    failed = finished.records[0].outcome
    assert isinstance(failed, Failed)
    assert (failed.message, failed.status, failed.detail) == ("item 3: gone", 404, {"e": 1})
    assert called == [0, 1, 2, 3]
    kinds = [item.outcome.kind for item in finished.records[0].items]
    assert kinds == ["succeeded"] * 3 + ["failed"] + ["skipped"] * 6
    assert finished.records[0].items[9].outcome == Skipped(because="item 3")


async def test_an_item_in_doubt_puts_the_step_in_doubt() -> None:
    async def behaviour(call: Call) -> Any:
        await asyncio.sleep(0)  # both are in flight
        return {1: InDoubt(message="?"), 0: Failed(reason="timeout", message="!")}.get(call.arguments["x"], 1)  # type: ignore[arg-type]

    finished = await finish(compiled([GET], each(literal([{"id": 0}, {"id": 1}]), 2)), behaviour)
    assert finished.records[0].outcome == InDoubt(message="item 1: ?")
    assert [item.outcome.kind for item in finished.records[0].items] == ["failed", "in_doubt"]


@pytest.mark.parametrize(
    ("items", "reason", "words"),
    [
        (literal({"id": 1}), "reference", "foreach needs a list, not an object"),
        (literal([{"id": 1}, {}]), "reference", "the current item has no id"),
        (literal([{"id": 1}] * 101), "refused", "101 items; the limit is 100"),
    ],
)
async def test_foreach_over_the_wrong_thing(items: Any, reason: str, words: str) -> None:
    failed = (await finish(compiled([GET], each(items)))).records[0].outcome
    assert isinstance(failed, Failed)
    assert failed.reason == reason
    assert words in failed.message


async def test_foreach_over_nothing_gives_an_empty_list() -> None:
    finished = await finish(compiled([GET], each(literal([])), answer={"a": ref("each")}))
    assert (finished.status, finished.answer[0].value) == ("succeeded", [])


async def test_a_condition_on_the_item_filters() -> None:
    plan = compiled(
        [GET], each(ITEMS, when=When(left=item("id"), op="ge", right=literal(7))), answer={"a": ref("each")}
    )
    assert (await finish(plan)).answer[0].value == [{"x": 7}, {"x": 8}, {"x": 9}]
