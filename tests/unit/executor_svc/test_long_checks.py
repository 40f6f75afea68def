"""Checks of answers that take long: where they are made, and what others get meanwhile."""

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from executor_svc.adapters.http.conformance import Checker
from services.compute import ComputePool, for_tenant
from services.contracts.outcome import Succeeded
from tests.support.executing import api
from tests.support.upstream import Upstream
from tests.unit.executor_svc.conftest import Opener
from tests.unit.executor_svc.test_conformance import checker, promising


def test_a_check_that_takes_long_lets_others_work_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The validator holds the GIL, so the event loop would get none of it if two threads checked without a pause."""
    slept = list[float]()
    monkeypatch.setattr(time, "sleep", slept.append)
    made = checker({"items": {"multipleOf": 1e-300}})
    value: Any = [1e300] * 2_000
    began = time.perf_counter()
    assert made.violations(200, value, json.dumps(value).encode()) == ()
    took = time.perf_counter() - began
    assert len(slept) == 1
    assert took / 2 < slept[0] < took
    assert made.violations(200, [1], b"[1]") == ()
    assert len(slept) == 1


async def test_a_check_that_gives_way_to_another_tenant_does_not_hold_up_its_check() -> None:
    made = checker({"items": {"multipleOf": 1e-300}})
    value: Any = [1e300] * 2_000
    pool, begun = ComputePool(2, 10), threading.Event()

    def check(uses_s: float) -> None:
        if uses_s:
            while time.thread_time() < uses_s:
                pass
            begun.set()
        assert begun.wait(5)
        made.violations(200, value, json.dumps(value).encode())

    async def checked(tenant: str, uses_s: float) -> None:
        for_tenant.set(tenant)
        async with asyncio.timeout(10):
            await pool.run(check, uses_s)

    much = asyncio.create_task(checked("much", 0.5))
    await asyncio.sleep(0.1)
    await asyncio.gather(much, checked("little", 0.0))
    await pool.close()


@pytest.mark.parametrize(("count", "beside"), [(10, False), (2_000, True)])
async def test_a_small_answer_that_takes_long_to_check_is_checked_beside_the_loop(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch, count: int, beside: bool
) -> None:
    threads, violations = list[threading.Thread](), Checker.violations

    def noting(made: Checker, *args: Any) -> tuple[str, ...]:
        threads.append(threading.current_thread())
        return violations(made, *args)

    monkeypatch.setattr(Checker, "violations", noting)
    upstream.replies("/p", [1e300] * count)
    operation = promising({"items": {"multipleOf": 1e-300}}, server=upstream.origin)
    assert isinstance((await (await opened())(operation)).outcome, Succeeded)
    assert [thread is not threading.main_thread() for thread in threads] == [beside]


async def test_the_values_of_a_large_answer_are_not_counted_on_the_event_loop(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, is_quick = list[threading.Thread](), Checker.is_quick

    def noting(made: Checker, body: bytes) -> bool:
        threads.append(threading.current_thread())
        return is_quick(made, body)

    monkeypatch.setattr(Checker, "is_quick", noting)
    upstream.replies("/p", [1] * 50_000)
    operation = promising({"items": {"type": "integer"}}, server=upstream.origin)
    assert isinstance((await (await opened())(operation)).outcome, Succeeded)
    assert threads
    assert threading.main_thread() not in threads


async def test_a_tenant_whose_checks_take_long_leaves_places_to_others(
    upstream: Upstream, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(Checker, "violations", lambda *_: go_on.wait(20) and ())
    monkeypatch.setattr("executor_svc.adapters.http.adapter._MAX_READ_AT_ONCE", 8)
    upstream.replies("/p", [1e300] * 2_000)
    upstream.replies("/large", ["x" * 70_000])
    slow = promising({"items": {"multipleOf": 1e-300}}, server=upstream.origin)
    call = await opened(max_attempts=1)
    floods = [asyncio.create_task(call(slow, tenant="flood")) for _ in range(12)]
    async with asyncio.timeout(10):
        refused, _ = await asyncio.wait(floods, return_when=asyncio.FIRST_COMPLETED)
    other = asyncio.create_task(call(api(upstream.origin, "/large"), tenant="desk"))
    await asyncio.wait([other], timeout=0.3)
    go_on.set()
    assert isinstance((await other).outcome, Succeeded)
    assert [getattr(one.result().outcome, "reason", "") for one in refused] == ["overloaded"] * len(refused)
    ended = [(await one).outcome for one in floods]
    assert sum(isinstance(one, Succeeded) for one in ended) == 6
