"""The budget of answers with thousands of calls that wait for it."""

import asyncio
import random
from collections import Counter
from contextlib import ExitStack

import pytest

from services.byte_budget import BudgetTimeout, ByteBudget, Share

WAIT_S = 20.0


class Counting(ByteBudget):
    """Counts how many shares are looked at."""

    looked = 0

    def _obstacle(self, share: Share, size: int) -> object:  # type: ignore[override]
        self.looked += 1
        return super()._obstacle(share, size)


@pytest.mark.parametrize("hosts", [1, 2_000])
async def test_a_return_looks_at_few_of_those_that_wait(hosts: int) -> None:
    """One return of bytes took seconds of the event loop when thousands of calls waited."""
    budget = Counting(1_000, patience_s=1)
    until = asyncio.get_running_loop().time() + WAIT_S
    with ExitStack() as stack:
        shares = [stack.enter_context(budget.share(f"h{number % hosts}", "red")) for number in range(2_000)]
        other = stack.enter_context(budget.share("b", "blue"))
        await other.take(1, until)  # the oldest one
        tasks = [asyncio.create_task(share.take(100, until)) for share in shares]
        await asyncio.sleep(0.05)
        assert sum(task.done() for task in tasks) == 5
        budget.looked = 0
        for number in range(20):
            shares[number].give_back(100)
            await asyncio.sleep(0)
        assert sum(task.done() for task in tasks) == 25
        assert budget.looked < 20 * 10
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_tenants_take_turns_and_nobody_passes_a_large_answer_of_its_tenant() -> None:
    budget, got = ByteBudget(1_000, patience_s=1), list[str]()
    until = asyncio.get_running_loop().time() + WAIT_S

    async def take(share: Share, name: str, size: int) -> None:
        await share.take(size, until)
        got.append(name)

    with ExitStack() as stack:
        full = [stack.enter_context(budget.share(f"f{one}", one)) for one in ("red", "blue")]
        for share in full:
            await share.take(500, until)
        asked = [("red", 400), ("red", 50), ("red", 50), ("blue", 100), ("blue", 100)]
        tasks = list[asyncio.Task[None]]()
        for number, (tenant, size) in enumerate(asked):
            share = stack.enter_context(budget.share(f"h{number}", tenant))
            tasks.append(asyncio.create_task(take(share, f"{tenant} {size}", size)))
        await asyncio.sleep(0)
        full[1].give_back(100)
        await asyncio.sleep(0)
        assert got == ["blue 100"]
        full[0].give_back(100)
        await asyncio.sleep(0)
        full[1].give_back(400)
        await asyncio.sleep(0)
        assert got == ["blue 100", "blue 100"]
        full[0].give_back(400)
        await asyncio.gather(*tasks)
        assert got == ["blue 100", "blue 100", "red 400", "red 50", "red 50"]


async def test_one_tenant_alone_leaves_others_room_for_the_same_upstream() -> None:
    """Calls that wait for a connection of their tenant hold their bytes for as long as their tenant likes."""
    budget, now = ByteBudget(1_000, patience_s=1), asyncio.get_running_loop().time()
    with ExitStack() as stack:
        for _ in range(5):
            await stack.enter_context(budget.share("shared", "red")).take(100, now + WAIT_S)
        with pytest.raises(BudgetTimeout):
            await stack.enter_context(budget.share("shared", "red")).take(100, now)
        for _ in range(2):
            await stack.enter_context(budget.share("shared", "blue")).take(100, now)
        with pytest.raises(BudgetTimeout):  # what is left is for calls to other upstreams
            await stack.enter_context(budget.share("shared", "green")).take(100, now)
        await stack.enter_context(budget.share("other", "green")).take(100, now)


@pytest.mark.parametrize("seed", range(10))
async def test_the_sums_are_right_after_cancels_time_outs_and_errors(seed: int) -> None:
    chance, budget = random.Random(seed), ByteBudget(1_000, patience_s=1)
    clock = asyncio.get_running_loop().time
    shares = set[Share]()

    def check() -> None:
        held = [share for share in shares if share.held]
        assert budget._held == sum(share.held for share in held)
        hosts, tenants, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
        for share in held:
            hosts[share.host] += share.held
            tenants[share.tenant] += share.held
            both[share.tenant, share.host] += share.held
        sums = (budget._by_host, budget._by_tenant, budget._by_both)
        assert [dict(one) for one in sums] == [dict(hosts), dict(tenants), dict(both)]

    async def call(number: int) -> None:
        with budget.share(f"h{chance.randrange(4)}", f"t{chance.randrange(3)}") as share:
            shares.add(share)
            for _ in range(chance.randrange(1, 4)):
                await share.take(chance.randrange(1, 700), clock() + chance.choice([0, 0.002, WAIT_S]))
                check()
                await asyncio.sleep(chance.choice([0, 0.001]))
                share.give_back(chance.randrange(share.held + 1))
                if chance.random() < 0.1:
                    raise ZeroDivisionError(number)

    calls = [asyncio.create_task(call(number)) for number in range(150)]
    for _ in range(40):
        chance.choice(calls).cancel()
        await asyncio.sleep(0.001)
        check()
    async with asyncio.timeout(WAIT_S):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in ended} <= {type(None), BudgetTimeout, ZeroDivisionError, asyncio.CancelledError}
    check()
    assert (budget._held, len(budget._shares), len(budget._own), len(budget._waiting)) == (0, 0, 0, 0)
