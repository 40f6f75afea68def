"""An answer's sentence is requested while the plan executes, and delays the answer only up to a limit."""

import asyncio
from pathlib import Path

import pytest

from services.contracts.event import RunFinished
from services.contracts.outcome import Failed, Succeeded
from services.contracts.plan import AnswerOutput, Plan, Reference
from services.contracts.run import RunStatus
from services.contracts.sentence import Sentence
from services.errors import Overloaded
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    BOOK,
    BOOKING,
    HOLIDAYS,
    NESTED,
    Fakes,
    Gateway,
    ask,
    call,
    ended,
    open_gateway,
    until,
)

HOLIDAY_WORDS = Sentence(outcome="written", pieces=("The holidays of Portugal are ", 0, "."))
ROOM_WORDS = Sentence(outcome="written", pieces=("The booking of the blue room is ", 0, "."))
TEXT = "holidays:\n  - Labour Day\n  - Portugal Day"
SENTENCE = "The holidays of Portugal are Labour Day, Portugal Day."


async def counted(gateway: Gateway, outcome: str) -> bool:
    return f'nestor_sentences_total{{outcome="{outcome}"}} 1.0' in (await gateway.http.get("/metrics")).text


@pytest.fixture
def wordy(gateway: Gateway) -> Gateway:
    """A gateway whose planner writes sentences for answers."""
    gateway.fakes.planner.sentences = {ASK_HOLIDAYS: HOLIDAY_WORDS, ASK_ROOM: ROOM_WORDS}
    return gateway


async def test_an_answer_is_told_in_a_sentence(wordy: Gateway) -> None:
    run = await wordy.client.solve(ask(ASK_HOLIDAYS))
    assert run.answer.sentence == SENTENCE
    assert run.answer.text == TEXT
    assert (await wordy.client.run(run.id)).answer == run.answer
    (asked,) = wordy.fakes.planner.wording
    assert (asked.query, asked.compiled.plan, asked.wanted) == (ASK_HOLIDAYS, NESTED, None)
    assert await counted(wordy, "written")


async def test_no_value_is_in_what_the_planner_is_asked(wordy: Gateway) -> None:
    await wordy.client.solve(ask(ASK_HOLIDAYS))
    assert "Labour Day" not in wordy.fakes.planner.wording[0].model_dump_json()


async def test_without_a_model_nobody_is_asked(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.answer.sentence, run.answer.text) == (None, TEXT)
    assert "sentence" not in gateway.fakes.planner.calls
    run = await gateway.client.solve(ask(ASK_HOLIDAYS, sentence=True))
    assert (run.answer.sentence, run.answer.text) == (None, TEXT)
    assert gateway.fakes.planner.wording[0].wanted is True


async def test_a_request_may_do_without(wordy: Gateway) -> None:
    run = await wordy.client.solve(ask(ASK_HOLIDAYS, sentence=False))
    assert (run.answer.sentence, run.answer.text) == (None, TEXT)
    assert "sentence" not in wordy.fakes.planner.calls


async def test_of_a_list_that_goes_on_there_is_no_sentence_and_the_text_says_so(wordy: Gateway) -> None:
    wordy.fakes.executor.cut = frozenset({HOLIDAYS.id})
    run = await wordy.client.solve(ask(ASK_HOLIDAYS))
    assert run.answer.partial
    said = "Not complete, since a list goes on after the part that was read: “holidays”."
    assert (run.answer.sentence, run.answer.text) == (None, f"{said}\n{TEXT}")
    assert await counted(wordy, "unfit")


async def test_it_is_asked_for_while_the_plan_executes(wordy: Gateway) -> None:
    wordy.fakes.executor.gate = asyncio.Event()
    solving = asyncio.create_task(wordy.client.solve(ask(ASK_HOLIDAYS)))
    await until(lambda: bool(wordy.fakes.planner.wording))
    wordy.fakes.executor.gate.set()
    assert (await solving).answer.sentence == SENTENCE


async def test_an_answer_waits_for_its_sentence_no_longer_than_it_may(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, sentence_wait_s=0.2) as gateway:
        planner = gateway.fakes.planner
        planner.sentences = {ASK_HOLIDAYS: HOLIDAY_WORDS}
        planner.words_gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS))
        assert (run.status, run.answer.sentence, run.answer.text) == (RunStatus.SUCCEEDED, None, TEXT)
        assert run.timings.sentence_ms > 150
        assert await counted(gateway, "late")


async def test_a_deadline_is_kept_without_the_sentence(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, sentence_wait_s=60) as gateway:
        planner = gateway.fakes.planner
        planner.sentences = {ASK_HOLIDAYS: HOLIDAY_WORDS}
        planner.words_gate = asyncio.Event()
        run = await gateway.client.solve(ask(ASK_HOLIDAYS, deadline_ms=2_000))
        assert (run.status, run.answer.sentence, run.answer.text) == (RunStatus.SUCCEEDED, None, TEXT)
        assert run.timings.total_ms < 2_000


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (Sentence(outcome="refused", reason="it says 'sunny'"), "refused"),
        (Sentence(outcome="failed"), "failed"),
        (Sentence(outcome="unfit"), "unfit"),
        (Sentence(outcome="written", pieces=("The holidays are ", 1, ".")), "unfit"),
        (Overloaded("Too much work is waiting."), "failed"),
        (RuntimeError("a bug"), "failed"),
    ],
)
async def test_the_rendering_stays_where_there_is_no_sentence(
    gateway: Gateway, said: Sentence | Exception, outcome: str
) -> None:
    gateway.fakes.planner.sentences = {ASK_HOLIDAYS: said}
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.answer.sentence, run.answer.text) == (RunStatus.SUCCEEDED, None, TEXT)
    assert await counted(gateway, outcome)


@pytest.mark.parametrize("names", [None, [], ["a", None], [{"name": "a"}], ["line\nbreak"], "bad \x1b[31m"])
async def test_values_that_do_not_fit_a_sentence_stand_in_the_rendering_alone(wordy: Gateway, names: object) -> None:
    wordy.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded.model_validate({"value": {"names": names}})
    run = await wordy.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.answer.sentence) == (RunStatus.SUCCEEDED, None)
    assert run.answer.text.startswith("holidays:")
    assert await counted(wordy, "unfit")


async def test_a_value_is_never_read_as_part_of_the_sentence(wordy: Gateway) -> None:
    hostile = "{0}. Your account is closed: visit {1}"
    wordy.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value={"names": hostile})
    run = await wordy.client.solve(ask(ASK_HOLIDAYS))
    assert run.answer.sentence == f"The holidays of Portugal are “{hostile}”."


async def test_a_failed_run_has_no_sentence(wordy: Gateway) -> None:
    wordy.fakes.executor.outcomes[HOLIDAYS.id] = Failed(reason="upstream_error", message="no")
    run = await wordy.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.answer.sentence) == (RunStatus.FAILED, None)
    assert not await counted(wordy, "written")


async def test_more_values_than_a_sentence_has_room_for(wordy: Gateway) -> None:
    outputs = tuple(AnswerOutput(name=f"n{n}", value=Reference(step="var1", path=("id",))) for n in range(7))
    wordy.fakes.planner.plans[ASK_ROOM] = Plan(steps=(call("var1", BOOK, room="blue"),), answer=outputs)
    run = await wordy.client.solve(ask(ASK_ROOM, mutations="allow", sentence=True))
    assert (run.status, run.answer.sentence) == (RunStatus.SUCCEEDED, None)
    assert wordy.fakes.planner.wording == []


async def test_a_stream_ends_with_the_sentence(wordy: Gateway) -> None:
    events = [event async for event in wordy.client.solve_events(ask(ASK_HOLIDAYS))]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].run.answer.sentence == SENTENCE


async def test_a_cancelled_run_leaves_no_question_behind(wordy: Gateway) -> None:
    wordy.fakes.executor.gate = asyncio.Event()
    wordy.fakes.planner.words_gate = asyncio.Event()
    before = len(asyncio.all_tasks())
    accepted = await wordy.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    await until(lambda: bool(wordy.fakes.planner.wording))
    await wordy.client.cancel(accepted.id)
    assert (await ended(wordy.client, accepted.id)).status is RunStatus.CANCELLED
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_an_approved_run_is_told_in_a_sentence(wordy: Gateway) -> None:
    waiting = await wordy.client.solve(ask(ASK_ROOM))
    assert waiting.status is RunStatus.NEEDS_APPROVAL
    assert wordy.fakes.planner.wording == []
    run = await wordy.client.approve(waiting.id, BOOKING.id)
    assert run.answer.sentence == "The booking of the blue room is bkg_1."


@pytest.mark.parametrize("query", [ASK_HOLIDAYS, ASK_ROOM])
@pytest.mark.parametrize("silent", [False, True], ids=["a sentence", "none in time"])
async def test_a_run_that_another_gateway_takes_over_is_answered(tmp_path: Path, query: str, silent: bool) -> None:
    fakes = Fakes()
    fakes.planner.sentences = {ASK_HOLIDAYS: HOLIDAY_WORDS, ASK_ROOM: ROOM_WORDS}
    settings = {"lease_s": 2.0, "shutdown_grace_s": 0.0, "sentence_wait_s": 0.2 if silent else 5}
    async with open_gateway(tmp_path, fakes, **settings) as two:
        async with open_gateway(tmp_path, fakes, **settings) as one:  # it stops and hands its runs over to the other
            fakes.executor.gate = asyncio.Event()
            accepted = await one.client.solve(ask(query, mutations="allow").model_copy(update={"wait": False}))
            await until(lambda: "execute" in fakes.executor.calls)
        fakes.executor.gate = None
        fakes.planner.words_gate = asyncio.Event() if silent else None
        run = await ended(two.client, accepted.id)
        assert len(fakes.executor.requests) == 2
        assert run.status is RunStatus.SUCCEEDED
        assert run.answer.text
        assert (run.answer.sentence is None) is silent
