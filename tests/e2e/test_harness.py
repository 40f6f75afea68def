"""What the harness tells about questions: everything about the development ones, only counts of the held-out ones."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.contracts.run import Run, RunStatus
from tests.e2e import harness
from tests.e2e.harness import Result, questions, report


def _failed(part: str) -> list[Result]:
    return [Result(question, None, f"missing the answer to {question['query']}") for question in questions(part)]


def _told(text: str) -> int:
    """How many held-out questions a text tells: by their id at the start of a line, or by their words."""
    lines = text.splitlines()
    return sum(
        question["query"] in text or any(question["id"] in line.split()[:2] for line in lines)
        for question in questions("heldout")
    )


@pytest.mark.parametrize("verbose", [False, True])
def test_of_held_out_questions_only_counts_are_reported(verbose: bool) -> None:
    unseen, known = _failed("heldout"), _failed("dev")
    solved = [Result(one.question, None, "") for one in unseen]
    assert [_told(report(results, verbose=verbose)) for results in (unseen, solved, [*known, *unseen])] == [0, 0, 0]
    assert report(unseen).splitlines()[0] == f"solved 0 of {len(unseen)} = 0.0 %"
    assert report(solved).splitlines()[0] == f"solved {len(unseen)} of {len(unseen)} = 100.0 %"


def test_failures_among_the_development_questions_are_listed() -> None:
    text = report([*_failed("dev"), *_failed("heldout")])
    for question in questions("dev"):
        assert f"✗ {question['id']} [{question['kind']}] {question['query']}" in text
    assert f"solved 0 of {len(questions('all'))}" in text


def test_a_failed_assertion_about_results_shows_no_question() -> None:
    assert repr([Result({"query": "secret"}, None, ""), Result({"query": "secret"}, None, "why")]) == (
        "[Result(solved), Result(failed)]"
    )


@pytest.mark.parametrize("arguments", [["heldout"], ["heldout", "-v"], ["all", "-v"]])
def test_the_command_prints_no_held_out_question(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def stack(_: Path) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(gateway_url="http://nobody")

    async def unanswered(_: str, asked: list[dict[str, object]]) -> list[Result]:
        return [Result(question, None, f"no answer to {question['query']}") for question in asked]

    monkeypatch.setattr(harness, "running_stack", stack)
    monkeypatch.setattr(harness, "ask_all", unanswered)
    monkeypatch.setattr(sys, "argv", ["harness", *arguments])
    harness.main()
    printed = "".join(capsys.readouterr())
    assert f"solved 0 of {len(questions(arguments[0]))}" in printed
    assert _told(printed) == 0


def test_an_answer_misleads_if_it_is_wrong_and_does_not_say_so() -> None:
    question = questions("dev")[0]
    run = Run(id="run_1", status=RunStatus.SUCCEEDED, query=question["query"], created_at=datetime.now(UTC))
    wrong = Result(question, run, "missing 1 in 2")
    assert wrong.misleads
    assert "without a remark: 1 = 100.0 %" in report([wrong])
    assert not Result(question, run, "").misleads
    for update in ({"unsure": "It may be wrong."}, {"untold": "No API tells it."}, {"status": RunStatus.FAILED}):
        assert not Result(question, run.model_copy(update=update), "missing 1 in 2").misleads
