"""A model's server that fails in every way: each request ends in the next planner's plan, in time."""

import asyncio
import json
import time

import pytest
import structlog

from deploy.sockets import refusing
from planner_svc.backends.served.liveness import Liveness
from services.clients.chat import ChatError
from services.telemetry import configure_logging
from tests.support.chat_server import Reply, answers, calls, hangs, says
from tests.support.model_faults import FAULTS, KEY
from tests.unit.planner_svc.served.conftest import Make
from tests.unit.planner_svc.served.test_backend import FIRST, OTHER, PLAIN, REQUEST, SECOND

DEADLINE_MS = 2_000
SLACK_S = 2.0
"""For a busy machine; what is tried here would otherwise last for ever. `python -m bench --only faults` measures."""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_every_request_ends_with_the_next_planner(world: Make, fault: Reply) -> None:
    made = await world(fault, draft=PLAIN, first_token_s=0.5, between_tokens_s=0.5)
    started = time.monotonic()
    response = await made.service.plan(REQUEST.model_copy(update={"deadline_ms": DEADLINE_MS}))
    assert time.monotonic() - started < DEADLINE_MS / 1000 + SLACK_S
    assert (response.status, response.backend, response.plan) == ("planned", "plain", OTHER)
    assert response.asked[0].backend == "served"
    assert not response.asked[0].stood
    assert response.trace is not None
    assert response.trace.attempts[-1].problem
    assert KEY not in response.model_dump_json()


async def test_time_is_kept_for_the_next_planner(world: Make) -> None:
    made = await world(hangs(), draft=PLAIN, first_token_s=60, timeout_s=60)
    started = time.monotonic()
    response = await made.service.plan(REQUEST.model_copy(update={"deadline_ms": 1_000}))
    assert time.monotonic() - started < 1 + SLACK_S
    assert [one.outcome for one in response.asked] == ["late", "planned"]


async def test_a_dead_server_costs_nothing_for_a_while(world: Make) -> None:
    made = await world(hangs(), draft=PLAIN, first_token_s=0.2, rest_s=600)
    for _ in range(5):
        assert (await made.service.plan(REQUEST)).backend == "plain"
    assert len(made.server.asked) == 1


async def test_it_is_asked_again_once_it_gives_a_token(world: Make) -> None:
    made = await world(answers(500), says("a"), calls(FIRST, SECOND), draft=PLAIN, rest_s=0)
    assert (await made.service.plan(REQUEST)).backend == "plain"
    assert (await made.service.plan(REQUEST)).backend == "plain"  # it is probed beside the requests
    await made.server.has_been_asked(2)
    assert made.server.asked[1]["max_tokens"] == 1
    async with asyncio.timeout(20):
        while (await made.service.plan(REQUEST)).backend == "plain":
            pass


async def test_a_server_that_cannot_be_reached(world: Make) -> None:
    with refusing() as url:
        made = await world(calls(), draft=PLAIN, url=url)
        response = await made.service.plan(REQUEST)
    assert [one.outcome for one in response.asked] == ["down", "planned"]


async def test_who_waits_is_not_blocked_by_who_hangs(world: Make) -> None:
    made = await world(*[hangs()] * 4, calls(FIRST, SECOND), draft=PLAIN, first_token_s=1.0)
    async with asyncio.timeout(20):
        slow = [asyncio.create_task(made.service.plan(REQUEST)) for _ in range(4)]
        await made.server.has_been_asked(4)
        assert (await made.service.plan(REQUEST)).backend == "served"
        assert not any(task.done() for task in slow)
        assert {(await task).backend for task in slow} == {"plain"}


async def test_a_cancelled_request_hangs_up(world: Make) -> None:
    made = await world(hangs(), draft=PLAIN)
    task = asyncio.create_task(made.service.plan(REQUEST))
    await made.server.has_been_asked(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(20):
        await made.server.gone.wait()


async def test_the_key_is_in_no_log_prompt_or_answer(world: Make) -> None:
    echoes = [says(f'{{"calls":[],"need":["{KEY}"]}}', reasoning=KEY), answers(400, KEY), answers(500, KEY), says(KEY)]
    configure_logging(level="DEBUG", json=False)  # the tests' own level hides warnings
    with structlog.testing.capture_logs() as logs:
        for echo in echoes:
            made = await world(echo, draft=PLAIN)
            response = await made.service.plan(REQUEST)
            assert made.server.keys[0] == f"Bearer {KEY}"
            assert KEY not in json.dumps(made.server.asked)
            assert KEY not in response.model_dump_json()
    configure_logging(level="ERROR", json=False)
    assert "gets no requests" in repr(logs)
    assert KEY not in repr(logs)


class Script:
    """Probes that go as they are told to, and a clock."""

    def __init__(self, *outcomes: ChatError | None) -> None:
        self.outcomes = list(outcomes)
        self.now = 0.0
        self.probes = 0

    async def probe(self) -> None:
        self.probes += 1
        if (outcome := self.outcomes.pop(0)) is not None:
            raise outcome


async def test_liveness() -> None:
    script = Script(ChatError("hung", "still hung"), ChatError("busy", "busy", retry_after_s=3), None)
    alive = Liveness(script.probe, 10, lambda: script.now)
    assert alive.trouble() is None
    alive.failed("hung")
    assert alive.trouble() == "hung"
    assert script.probes == 0  # it rests
    for wait_s, why in ((10, "still hung"), (10, "busy"), (3, None)):
        script.now += wait_s
        alive.trouble()
        alive.trouble()  # one probe at a time
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert alive.trouble() == why
    assert script.probes == 3
    await alive.aclose()
