"""Sentences from a model behind a server: whatever that does, there is an answer, in time, and no plan suffers."""

import time

import pytest

from planner_svc.sentences.writer import SentenceWriter
from services.compute import ComputePool
from services.contracts.sentence import Sentence, SentenceRequest
from tests.support.chat_server import Reply, says
from tests.support.model_faults import FAULTS, KEY
from tests.unit.planner_svc.served.conftest import Make
from tests.unit.planner_svc.test_sentences import SIMPLE

ASKED = SentenceRequest(query="How long is flight AF123?", compiled=SIMPLE, deadline_ms=1_500)
SLACK_S = 2.0


async def write(world: Make, *replies: Reply) -> tuple[Sentence, float]:
    """What comes of these replies, and after how many seconds."""
    made = await world(*replies, first_token_s=0.5, between_tokens_s=0.5)
    pool = ComputePool(1, 8)
    started = time.monotonic()
    try:
        writer = SentenceWriter(made.served.model, pool, name="served", on=True, timeout_s=30)
        return await writer.write(ASKED), time.monotonic() - started
    finally:
        await pool.close()


async def test_a_server_writes_a_sentence(world: Make) -> None:
    sentence, _ = await write(world, says("Flight AF123 takes ", "{duration_minutes} minutes."))
    assert sentence.pieces == ("Flight AF123 takes ", 0, " minutes.")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_server_that_fails_gives_no_sentence_and_no_error(world: Make, fault: Reply) -> None:
    sentence, seconds = await write(world, fault)
    assert sentence.outcome in ("failed", "refused")
    assert sentence.pieces == ()
    assert KEY not in sentence.reason
    assert seconds < ASKED.deadline_ms / 1000 + SLACK_S


async def test_completions_of_both_kinds_are_counted_and_a_dead_server_is_left_alone(world: Make) -> None:
    made = await world(FAULTS["500"], rest_s=600)
    pool = ComputePool(1, 8)
    writer = SentenceWriter(made.served.model, pool, name="served", on=True, timeout_s=30)
    assert [(await writer.write(ASKED)).outcome for _ in range(3)] == ["failed"] * 3
    await pool.close()
    assert len(made.server.asked) == 1
    assert made.counted("nestor_planner_model_answers_total", outcome="down") >= 1
