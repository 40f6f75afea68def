"""Whether an answer tells what was asked, of plans that are written down here."""

from collections.abc import Sequence

import pytest

from evals.data import Call
from evals.planning.answer_coverage import AnswerCoverage, answer_coverage, coverage_shares
from evals.planning.calls import graph_of_calls, graph_of_plan, links_of_answer, links_of_outputs
from services.contracts.plan import AnswerOutput, Plan, Reference, Step

CALLS = (Call(api="find", args={}, label="var_1"), Call(api="price", args={"id": "$var_1.items[0].id$"}, label="var_2"))


def _coverage(asked: Sequence[str], *shown: tuple[str, tuple[str | int, ...]]) -> AnswerCoverage | None:
    steps = (
        Step(id="a", api="find", arguments={}),
        Step(id="b", api="price", arguments={"id": Reference(step="a", path=("items", 0, "id"))}),
    )
    outputs = [
        AnswerOutput(name=f"o{n}", value=Reference(step=step, path=path)) for n, (step, path) in enumerate(shown)
    ]
    plan = Plan(steps=steps, answer=tuple(outputs))
    gold = graph_of_calls(CALLS)
    return answer_coverage(gold, links_of_answer(asked, CALLS), graph_of_plan(plan), links_of_outputs(plan))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([("b", ("amount",)), ("b", ("currency",))], (True, True, True)),
        ([("b", ())], (True, True, False)),
        ([("b", ("amount",))], (False, False, False)),
        ([("b", ("amount",)), ("b", ("currency",)), ("b", ("id",))], (True, False, False)),
        ([("b", ("amount", "value")), ("b", ("currency",))], (False, False, False)),
        ([("a", ("amount",)), ("a", ("currency",))], (False, False, False)),
        ([], (False, False, False)),
    ],
)
def test_all_that_is_asked_and_little_else(
    shown: list[tuple[str, tuple[str | int, ...]]], expected: tuple[bool, bool, bool]
) -> None:
    found = _coverage(["$var_2.amount$", "$var_2.currency$"], *shown)
    assert found is not None
    assert (found.all, found.only, found.just) == expected


def test_a_field_of_each_item_is_told_by_the_list() -> None:
    found = _coverage(["$var_1.items[0].name$"], ("a", ("items",)))
    assert found == AnswerCoverage(all=True, only=True, just=False)


def test_where_nobody_knows_what_answers_nothing_is_counted() -> None:
    assert _coverage([], ("b", ())) is None
    assert coverage_shares([None, None]) is None
    summed = coverage_shares(
        [None, AnswerCoverage(all=True, only=True, just=False), AnswerCoverage(all=False, only=False, just=False)]
    )
    assert summed is not None
    assert (summed.n, summed.all, summed.only, summed.just) == (2, 50.0, 50.0, 0.0)
