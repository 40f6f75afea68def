"""Slots of a plan's answer, and a writer with a model whose words the test chooses."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from planner_svc.sentences.slots import NotExpressible, slots_of
from planner_svc.sentences.writer import SentenceWriter
from services.clients.chat import ChatError, Completion, Message
from services.compute import ComputePool
from services.contracts.plan import AnswerOutput, Plan, Reference, Step
from services.contracts.planning import CompiledPlan
from services.contracts.sentence import Sentence, SentenceRequest
from tests.unit.planner_svc.building import TEXT, api, param, prove, record, step

FLIGHT = api(
    "getFlight",
    param("number", required=True),
    returns=record(
        durationMinutes={"type": "integer", "description": "Duration in minutes {ignore} \n this"},
        late={"type": "boolean"},
        legs={"type": "array", "items": record(**{"from": TEXT, "airports": {"type": "array", "items": TEXT}})},
        crew={"type": "array", "items": TEXT},
        plane=record(model=TEXT),
        anything={},
    ),
    summary="Look up a flight",
)
FIND = api("find", param("city", required=True), returns=record(codes={"type": "array", "items": TEXT}))


def compiled(steps: Sequence[Step], **outputs: str) -> CompiledPlan:
    """The plan with these outputs: ``$step.path$`` without the dollars."""
    answer = []
    for name, said in outputs.items():
        first, *rest = said.split(".")
        path = tuple(int(part) if part.isdigit() else part for part in rest)
        answer.append(AnswerOutput(name=name, value=Reference(step=first, path=path)))
    proved = prove(Plan(steps=tuple(steps), answer=tuple(answer)), FLIGHT, FIND).compiled
    assert proved is not None
    return proved


ONE = (step("a", "getFlight", number="AF123"),)
SIMPLE = compiled(ONE, whatever="a.durationMinutes")


def test_a_slot_is_what_the_document_says_of_the_field() -> None:
    late, minutes, crew, origin = slots_of(
        compiled(ONE, sunny="a.late", warm="a.durationMinutes", c="a.crew", d="a.legs.0.from")
    )
    assert (late.name, late.kind, late.is_boolean, late.many) == ("late", "yes or no", True, False)
    assert (minutes.name, minutes.kind, minutes.is_boolean) == ("duration_minutes", "number", False)
    assert minutes.description == "Duration in minutes ignore this"
    assert (crew.name, crew.kind, crew.many) == ("crew", "text", True)
    assert (origin.name, origin.kind, origin.many) == ("from", "text", False)
    assert not any("sunny" in slot.words or "warm" in slot.words for slot in (late, minutes, crew, origin))


def test_what_no_schema_tells_may_be_a_yes_or_no() -> None:
    (slot,) = slots_of(compiled(ONE, a="a.anything"))
    assert slot.is_boolean


def test_slots_of_one_api_are_told_apart_by_what_the_plan_gives_to_it() -> None:
    two = (*ONE, step("b", "find", city="Oslo"), step("c", "getFlight", number="$b.codes.0$"))
    first, second = slots_of(compiled(two, x="a.durationMinutes", y="c.durationMinutes"))
    assert (first.name, second.name) == ("duration_minutes", "duration_minutes_2")
    assert first.description.endswith("(AF123)")
    assert second.description.endswith("(Oslo)")


def test_what_a_call_only_waits_for_tells_nothing_of_it() -> None:
    waits = step("b", "getFlight", number="$z.codes.0$").model_copy(update={"after": ("a",)})
    steps = (step("z", "find", city="Oslo"), step("a", "getFlight", number="AF123"), waits)
    first, second = slots_of(compiled(steps, x="a.durationMinutes", y="b.durationMinutes"))
    assert first.description.endswith("(AF123)")
    assert second.description.endswith("(Oslo)")


def test_a_loop_has_many_answers() -> None:
    loop = (step("a", "find", city="Oslo"), step("b", "getFlight", foreach="$a.codes$", number="$@$"))
    each, third = slots_of(compiled(loop, first="a.codes", third="b.2.late"))
    assert (each.many, third.many, third.is_boolean) == (True, False, True)
    with pytest.raises(NotExpressible):
        slots_of(compiled(loop, everything="b"))


@pytest.mark.parametrize(
    "outputs",
    [{}, {"a": "a"}, {"a": "a.plane"}, {"a": "a.legs"}, {f"n{n}": "a.late" for n in range(7)}],
    ids=["none", "an object", "an inner object", "objects", "seven"],
)
def test_an_answer_that_is_no_sentence(outputs: dict[str, str]) -> None:
    plan = SIMPLE.plan.model_copy(update={"answer": ()}) if not outputs else None
    subject = SIMPLE.model_copy(update={"plan": plan}) if plan else compiled(ONE, **outputs)
    with pytest.raises(NotExpressible):
        slots_of(subject)


class Said:
    """A model that says what it is told to."""

    def __init__(self, said: str | ChatError, finish: str = "stop") -> None:
        self._said, self._finish = said, finish
        self.messages: list[Message] = []
        self.left_s = 0.0

    async def write(self, messages: Sequence[Message], max_tokens: int, end: float) -> Completion:
        self.messages = list(messages)
        self.left_s = end - asyncio.get_running_loop().time()
        if isinstance(self._said, ChatError):
            raise self._said
        return Completion(self._said, finish=self._finish)


def request(**more: Any) -> SentenceRequest:
    return SentenceRequest(**{"query": "How long is flight AF123?", "compiled": SIMPLE} | more)


async def written(pool: ComputePool, model: Said, asked: SentenceRequest | None = None, *, on: bool = True) -> Sentence:
    return await SentenceWriter(model, pool, name="served", on=on, timeout_s=5).write(asked or request())


async def test_a_sentence_is_written_without_any_value(pool: ComputePool) -> None:
    model = Said("Flight AF123 takes {duration_minutes} minutes.")
    sentence = await written(pool, model)
    assert sentence == Sentence(outcome="written", pieces=("Flight AF123 takes ", 0, " minutes."))
    assert [message["role"] for message in model.messages] == ["system", *["user", "assistant"] * 3, "user"]
    assert model.messages[-1]["content"] == (
        "Request: How long is flight AF123?\nSlots:\n{duration_minutes}: number, Duration in minutes ignore this"
    )
    assert 4 < model.left_s <= 5
    await written(pool, model, request(deadline_ms=1_000))
    assert 0.5 < model.left_s < 1


@pytest.mark.parametrize(
    ("model", "outcome", "why"),
    [
        (Said("It takes ages."), "refused", "slot"),
        (Said("Flight AF123 takes {duration_minutes}", finish="length"), "refused", "cut off"),
        (Said("Flight AF123 takes {duration_minutes}", finish="cut"), "refused", "cut off"),
        (Said("x" * 1_000_000), "refused", "too long"),
        (Said(ChatError("hung", "no token")), "failed", "no token"),
    ],
)
async def test_whatever_the_model_does_there_is_an_answer(
    pool: ComputePool, model: Said, outcome: str, why: str
) -> None:
    sentence = await written(pool, model)
    assert (sentence.outcome, sentence.pieces) == (outcome, ())
    assert why in sentence.reason


async def test_the_model_is_not_asked_in_vain(pool: ComputePool) -> None:
    model = Said("It takes {duration_minutes} minutes.")
    assert (await written(pool, model, request(query="long " * 300))).outcome == "unfit"
    assert (await written(pool, model, request(compiled=compiled(ONE, a="a.plane")))).outcome == "unfit"
    assert (await written(pool, model, request(wanted=False))).outcome == "off"
    assert (await written(pool, model, request(backend="compact"))).outcome == "off"
    assert (await written(pool, model, on=False)).outcome == "off"
    assert model.messages == []


async def test_a_request_may_want_a_sentence_where_the_settings_do_not(pool: ComputePool) -> None:
    model = Said("It takes {duration_minutes} minutes.")
    assert (await written(pool, model, request(wanted=True), on=False)).outcome == "written"
    assert (await written(pool, model, request(wanted=True, backend="compact"))).outcome == "written"
    assert (await written(pool, model, request(backend="served"))).outcome == "written"
