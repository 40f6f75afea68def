"""The judge of the fault campaign objects to whatever is wrong with a run, and to nothing else."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from services.contracts.answer import AnswerValue
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import (
    Failed,
    InDoubt,
    ItemRecord,
    RequestRecord,
    Skipped,
    StepOutcome,
    StepRecord,
    Succeeded,
)
from tests.chaos.judge import Evidence, Kind, judge
from tests.chaos.plans import Condition, Operation, Source, Task, case, site
from tests.chaos.stores import Stored
from tests.chaos.upstream import Seen, Upstream

CASE = case(
    "run",
    (
        Task("read", Operation.READ, (), width=2),
        Task("post", Operation.POST, (Source("read"),), width=1),
        Task("each", Operation.POST, (), width=1, each="read", count=2),
        Task("keyed", Operation.KEYED, (Source("post"), Source("each", 1)), width=1),
        Task("never", Operation.PUT, (), width=1, condition=Condition(Source("read"), below=1)),
        Task("alone", Operation.DELETE, (), width=1, after=("never",)),
    ),
    "http://upstream",
)
REQUEST = RequestRecord(method="POST", url="http://upstream/post")
UNKNOWN = InDoubt(message="nobody knows")
FAILED = Failed(reason="upstream_error", message="no", status=500)


def record(step: str, outcome: StepOutcome, **more: Any) -> StepRecord:
    return StepRecord(
        step=step, api="test.api", requests=(REQUEST,), outcome=outcome, started_ms=0, duration_ms=0, **more
    )


def ended(*records: StepRecord, status: str = "succeeded", answer: tuple[AnswerValue, ...] = ()) -> ExecutionFinished:
    return ExecutionFinished.model_validate({"status": status, "records": records, "answer": answer, "duration_ms": 0})


def honest() -> Evidence:
    """A run as it should be: everything was sent once, for the right inputs, and answered."""
    upstream, seen, answers = Upstream(random.Random(0)), list[Seen](), dict[str, Any]()

    def call(task: str, item: str = "", *inputs: str) -> Any:
        asked = CASE.task(task)
        key = f"key of {task}" if asked.operation is Operation.KEYED else ""
        seen.append(upstream.apply(asked.operation, site("run", task), item, inputs, asked.width, key))
        return seen[-1].answer

    answers["read"] = call("read")
    answers["post"] = call("post", "", answers["read"]["value"])
    answers["each"] = [call("each", element["value"]) for element in answers["read"]["many"]]
    answers["keyed"] = call("keyed", "", answers["post"]["value"], answers["each"][1]["value"])
    answers["alone"] = call("alone")
    outcomes = {name: Succeeded(value=value, status=200) for name, value in answers.items()}
    items = tuple(ItemRecord(index=n, outcome=Succeeded(status=200)) for n in range(2))
    records = [
        record(task.id, outcomes.get(task.id, Skipped(because="when")), items=items if task.id == "each" else ())
        for task in CASE.tasks
    ]
    answer = AnswerValue(name="alone", value=answers["alone"], step="alone")
    return Evidence(CASE, True, ended(*records, answer=(answer,)), Stored("succeeded", frozenset()), tuple(seen))


def saying(evidence: Evidence, step: str, outcome: StepOutcome, *, status: str | None = None, **more: Any) -> Evidence:
    """The same, save what the run says of one step."""
    assert evidence.ending is not None
    assert evidence.stored is not None
    records = [
        r.model_copy(update={"outcome": outcome, **more}) if r.step == step else r for r in evidence.ending.records
    ]
    ending = ended(*records, status=status or evidence.ending.status, answer=evidence.ending.answer)
    return replace(evidence, ending=ending, stored=replace(evidence.stored, status=ending.status))


def output(evidence: Evidence, step: str) -> Any:
    assert evidence.ending is not None
    outcome = next(r.outcome for r in evidence.ending.records if r.step == step)
    assert isinstance(outcome, Succeeded)
    return outcome.value


def request(evidence: Evidence, step: str) -> Seen:
    return next(seen for seen in evidence.seen if seen.site == f"run/{step}")


def sent_as(evidence: Evidence, step: str, **changes: Any) -> Evidence:
    """The same, save one request."""
    changed = request(evidence, step)
    return replace(evidence, seen=tuple(replace(s, **changes) if s is changed else s for s in evidence.seen))


def kinds(evidence: Evidence) -> set[Kind]:
    return {finding.kind for finding in judge(evidence)}


def in_doubt(evidence: Evidence) -> Evidence:
    """One of the items, and with it all that needs them."""
    items = (ItemRecord(index=0, outcome=Succeeded(status=200)), ItemRecord(index=1, outcome=UNKNOWN, request=REQUEST))
    doubtful = saying(evidence, "each", UNKNOWN, status="in_doubt", items=items)
    doubtful = replace(doubtful, seen=tuple(s for s in doubtful.seen if s.site != "run/keyed"))
    assert doubtful.stored is not None
    doubtful = replace(doubtful, stored=replace(doubtful.stored, open_calls=frozenset({"each/1"})))
    return saying(doubtful, "keyed", Skipped(because="each"))


def test_an_honest_run_is_acquitted() -> None:
    assert judge(honest()) == []


def test_a_doubt_that_is_listed_is_nothing_wrong_whether_it_took_effect_or_not() -> None:
    took_effect = in_doubt(honest())
    did_not = replace(took_effect, seen=tuple(s for s in took_effect.seen if not s.item.endswith(".1")))
    assert judge(took_effect) == judge(did_not) == []


def test_a_failure_is_excused_only_where_something_excuses_it() -> None:
    failed = saying(honest(), "alone", FAILED, status="failed")
    failed = replace(failed, seen=tuple(s for s in failed.seen if s.site != "run/alone"))
    assert failed.ending is not None
    failed = replace(failed, ending=failed.ending.model_copy(update={"answer": ()}))
    assert kinds(failed) == {"failed"}
    assert judge(replace(failed, may_fail=True)) == []


def test_a_success_whose_answer_could_not_be_read_is_known_to_have_happened() -> None:
    unread = saying(honest(), "keyed", Failed(reason="bad_response", message="cut off", status=200), status="failed")
    assert judge(replace(unread, may_fail=True)) == []


@pytest.mark.parametrize(
    "lose",
    [
        lambda e: replace(e, ending=None),
        lambda e: replace(e, ending=None, accepted=False),  # the ledger has it
        lambda e: replace(e, stored=None),
        lambda e: replace(e, stored=replace(e.stored, status="running")),
        lambda e: replace(e, ending=e.ending.model_copy(update={"records": e.ending.records[:-1], "answer": ()})),
    ],
)
def test_a_lost_run_is_found(lose: Callable[[Evidence], Evidence]) -> None:
    assert "lost" in kinds(lose(honest()))


def test_a_run_that_was_never_taken_is_found() -> None:
    assert kinds(Evidence(CASE, False, None, None, ())) == {"refused"}


@pytest.mark.parametrize("step", ["post", "each", "keyed", "alone"])
def test_a_second_effect_is_found(step: str) -> None:
    evidence = honest()
    again = replace(evidence, seen=(*evidence.seen, request(evidence, step)))
    assert kinds(again) == {"duplicate"}


def test_idempotency_keys_that_change_or_are_shared_are_found() -> None:
    evidence = honest()
    other_key = replace(request(evidence, "keyed"), key="another", effect=False)
    assert kinds(replace(evidence, seen=(*evidence.seen, other_key))) == {"duplicate"}
    shared = replace(request(evidence, "keyed"), site="run/other", effect=False)
    assert "duplicate" in kinds(replace(evidence, seen=(*evidence.seen, shared)))


def test_outputs_that_belong_to_another_step_are_found() -> None:
    evidence = honest()
    swapped = saying(evidence, "post", Succeeded(value=output(evidence, "alone")))
    swapped = saying(swapped, "alone", Succeeded(value=output(evidence, "post")))
    assert "misbound" in kinds(swapped)


def test_outputs_of_items_in_another_order_are_found() -> None:
    evidence = honest()
    assert kinds(saying(evidence, "each", Succeeded(value=output(evidence, "each")[::-1]))) == {"misbound"}


@pytest.mark.parametrize("value", [None, [], {}, "x", [{"value": "post-1"}], {"value": "made up", "n": 1, "many": []}])
@pytest.mark.parametrize("step", ["read", "post", "each"])
def test_outputs_that_nobody_gave_are_found(step: str, value: Any) -> None:
    assert "misbound" in kinds(saying(honest(), step, Succeeded(value=value)))


def test_requests_made_with_other_inputs_than_are_recorded_are_found() -> None:
    assert kinds(sent_as(honest(), "post", inputs=("read-99",))) == {"misbound"}
    assert "misbound" in kinds(sent_as(honest(), "each", item="read-0.9"))


def test_a_call_that_should_not_have_been_made_is_found() -> None:
    evidence = honest()
    put = Seen(Operation.PUT, "run/never", "", (), "", False, {})
    assert kinds(replace(evidence, seen=(*evidence.seen, put))) == {"misbound"}
    assert "failed" in kinds(saying(evidence, "never", Succeeded(value=None)))


def test_an_answer_that_is_not_its_steps_output_is_found() -> None:
    evidence = honest()
    assert evidence.ending is not None
    answer = (AnswerValue(name="alone", value=1, step="alone"),)
    wrong = replace(evidence, ending=evidence.ending.model_copy(update={"answer": answer}))
    assert kinds(wrong) == {"misbound"}


@pytest.mark.parametrize("outcome", [FAILED, Skipped(because="cancelled")])
@pytest.mark.parametrize("step", ["post", "alone"])
def test_an_effect_of_which_the_run_knows_nothing_is_found(step: str, outcome: StepOutcome) -> None:
    assert "unlisted" in kinds(replace(saying(honest(), step, outcome, status="failed"), may_fail=True))


def test_an_item_that_took_effect_and_is_not_listed_is_found() -> None:
    skipped = (ItemRecord(index=0, outcome=UNKNOWN, request=REQUEST), ItemRecord(index=1, outcome=Skipped(because="x")))
    assert "unlisted" in kinds(saying(in_doubt(honest()), "each", UNKNOWN, items=skipped))


def test_an_open_call_of_the_ledger_that_is_not_listed_is_found() -> None:
    evidence = honest()
    assert evidence.stored is not None
    stored = replace(evidence.stored, open_calls=frozenset({"post"}))
    assert kinds(replace(evidence, stored=stored)) == {"unlisted"}


def test_a_run_in_doubt_without_a_doubt_and_one_with_a_doubt_that_is_not_are_found() -> None:
    evidence = honest()
    assert evidence.stored is not None
    assert evidence.ending is not None
    ending = evidence.ending.model_copy(update={"status": "in_doubt"})
    stored = replace(evidence.stored, status="in_doubt")
    assert kinds(replace(evidence, ending=ending, stored=stored)) == {"unlisted"}
    assert kinds(saying(in_doubt(evidence), "each", UNKNOWN, status="failed")) == {"unlisted"}


def test_a_doubt_without_its_request_is_found() -> None:
    hidden = (ItemRecord(index=0, outcome=Succeeded(status=200)), ItemRecord(index=1, outcome=UNKNOWN))
    assert kinds(saying(in_doubt(honest()), "each", UNKNOWN, items=hidden)) == {"unlisted"}


def test_a_step_that_was_left_out_is_found() -> None:
    evidence = honest()
    left_out = saying(evidence, "alone", Skipped(because="never"))
    left_out = replace(left_out, seen=tuple(s for s in left_out.seen if s.site != "run/alone"))
    assert "failed" in kinds(left_out)
