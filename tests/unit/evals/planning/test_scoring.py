"""The papers' metrics against values worked out by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.data import Call
from evals.planning.calls import CallGraph, graph_of_calls, graph_of_plan, is_nested
from evals.planning.matching import match_calls
from evals.planning.scoring import Counts, Score, score
from services.codecs import nestful
from services.contracts.plan import ForEach, Plan, Reference, Step

Row = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str | None]
OUTPUTS = {"find": ("id", "name"), "book": ("ticket",), "pay": ()}


def solution(*rows: Row) -> CallGraph:
    return graph_of_calls([Call(api=row[0], args=row[1], label=row[2] if len(row) > 2 else None) for row in rows])


def plan(*rows: Row) -> CallGraph:
    """A plan as a planner makes it: through the contract, not by the data's reader."""
    calls = [{"name": row[0], "arguments": row[1], "label": row[2] if len(row) > 2 else None} for row in rows]
    return graph_of_plan(nestful.decode(calls))  # type: ignore[arg-type]


def judged(gold: CallGraph, predicted: CallGraph) -> Score:
    return score(gold, predicted, OUTPUTS)


NESTED = (("find", {"city": "Faro"}), ("book", {"hotel": "$var_1.id$", "nights": 2}))


def test_a_perfect_plan_under_other_labels() -> None:
    found = judged(solution(*NESTED), plan(("find", {"city": "Faro"}, "a"), ("book", {"hotel": "$a.id$", "nights": 2})))
    assert found.tool == Counts(2, 2, 2)
    assert found.param == Counts(3, 3, 3)
    assert found.reference == Counts(1, 1, 1)
    assert (found.partial, found.full, found.any_order) == (1.0, True, True)
    assert (found.published_tool, found.published_param) == (Counts(2, 2, 2), Counts(3, 3, 3))


CHAIN = (("find", {"city": "Faro"}), ("book", {"hotel": "$var1.id$"}), ("pay", {"for": "$var2.ticket$"}))


@pytest.mark.parametrize(
    ("predicted", "made"),
    [
        (CHAIN, True),
        # What the arguments are is not asked; a call too many does not undo the others.
        ((("find", {"town": "Beja"}), ("book", {"x": "$var1.name$"}), ("pay", {"y": ["$var2$"]}), ("pay", {})), True),
        # Written down in another order, it still runs in that of its references.
        ((("book", {"hotel": "$b.id$"}, "a"), ("find", {}, "b"), ("pay", {"for": "$a.ticket$"}, "c")), True),
        ((*CHAIN[:2], ("pay", {"for": "ticket 1"})), False),  # at the same time as what it takes a value of
        ((CHAIN[0], ("book", {"hotel": "h1"}), ("pay", {"for": "$var1.id$"})), False),
        (CHAIN[:2], False),
        ((*CHAIN[:2], ("find", {"city": "$var2.ticket$"})), False),
        ((), False),
    ],
)
def test_the_wanted_calls_in_a_right_order(predicted: tuple[Row, ...], made: bool) -> None:
    planned = plan(*predicted) if predicted else graph_of_plan(None)
    assert judged(solution(*CHAIN), planned).made is made


def test_an_order_by_way_of_other_calls_or_of_a_loop_is_one() -> None:
    gold = solution(("find", {}), ("pay", {"for": "$var1.id$"}))
    by_way = plan(("find", {}), ("book", {"hotel": "$var1.id$"}), ("pay", {"for": "$var2.ticket$"}))
    assert judged(gold, by_way).made
    steps = (
        Step(id="a", api="find"),
        Step(id="b", api="pay", foreach=ForEach(items=Reference(step="a", path=("ids",)))),
        Step(id="c", api="pay", after=("a",)),
    )
    for one in steps[1:]:
        assert judged(gold, graph_of_plan(Plan(steps=(steps[0], one)))).made
    # Each of two calls of one API is made once, and one call stands for one.
    assert not judged(solution(("find", {"x": 1}), ("find", {"x": 2})), plan(("find", {"x": 1}))).made


def test_what_no_order_can_be_read_from_asks_for_none() -> None:
    gold = solution(("find", {}), ("pay", {"for": "the $var1.id$ of it", "of": "$var2.ticket$"}))  # a text; itself
    assert judged(gold, plan(("pay", {}), ("find", {}))).made
    assert judged(solution(), graph_of_plan(None)).made


def test_an_order_that_takes_too_long_to_find_is_none() -> None:
    gold = solution(*[("find", {})] * 9, ("find", {"a": "$var1.id$"}))
    rows: list[Row] = [("find", {"n": n}) for n in range(30)]
    assert not judged(gold, plan(*rows)).made  # none waits for another: nothing to find, in 30! / 20! ways
    assert judged(gold, plan(*rows, ("find", {"a": "$var1.id$"}))).made


def test_labels_of_the_data_in_all_their_forms() -> None:
    expected = solution(*NESTED)
    call, taker = ("find", {"city": "Faro"}), {"nights": 2}
    assert solution((*call, "x"), ("book", {"hotel": "$x.id$"} | taker)) == expected
    assert solution((*call, "$var_1"), ("book", {"hotel": "$var_1.id$"} | taker)) == expected  # NESTFUL v2
    assert solution((*call, "x"), ("book", {"hotel": "$var1.id$"} | taker)) == expected  # missing label: by position
    assert solution((*call, None), ("book", {"hotel": "$var1.id$"} | taker)) == expected
    # An own label wins over the position: here `var_2` is the first call.
    assert solution((*call, "var_2"), ("book", {"hotel": "$var_2.id$"} | taker, "var_1")) == expected


def test_what_names_no_call_is_text() -> None:
    gold = solution(("pay", {"note": "$var_7.id$", "sum": "$20-$30", "rate": "5 * $var_1.id$"}))
    found = judged(gold, plan(("pay", {"note": "x", "sum": "$20-$30", "rate": "5"})))
    assert found.param == Counts(1, 3, 3)
    assert found.reference == Counts(0, 0, 0)


@pytest.mark.parametrize(
    ("value", "nested"),
    [
        ("$var_1.id$", True),
        ("$var1$", True),
        ("$own.id$", True),
        ("Meeting ID: $var_1.event id$", True),  # no plan can say this, but the request is nested all the same
        (["x", {"y": "$var_1[0].id$"}], True),
        ("$var_7.id$", False),
        ("$20-$30", False),
        ("$5 or $6", False),
        (5, False),
    ],
)
def test_nested_requests(value: Any, nested: bool) -> None:
    assert is_nested([Call(api="find", label="own"), Call(api="pay", args={"v": value})]) is nested


def test_wrong_missing_and_surplus() -> None:
    # Gold: two calls, three arguments. Planned: find with one right and one surplus argument, and pay for book.
    found = judged(solution(*NESTED), plan(("find", {"city": "Faro", "stars": 3}), ("pay", {"sum": 1})))
    assert found.tool == Counts(1, 2, 2)
    assert found.param == Counts(1, 3, 3)
    assert found.reference == Counts(0, 0, 1)
    assert (found.partial, found.full, found.any_order) == (0.0, False, False)


def test_no_plan() -> None:
    found = judged(solution(*NESTED), graph_of_plan(None))
    assert (found.tool, found.param, found.reference) == (Counts(0, 0, 2), Counts(0, 0, 3), Counts(0, 0, 1))
    assert (found.partial, found.full) == (0.0, False)


def test_nothing_needed() -> None:
    nothing = solution()
    assert judged(nothing, graph_of_plan(None)).full
    found = judged(nothing, plan(("pay", {"sum": 1})))
    assert (found.tool, found.param) == (Counts(0, 1, 0), Counts(0, 1, 0))
    assert (found.partial, found.full, found.any_order) == (0.0, False, False)


@pytest.mark.parametrize(
    ("gold", "predicted", "same"),
    [
        (5, "5", True),
        ("5", 5, True),
        (5.0, 5, False),  # "5.0" and "5"
        ("5 ", "5", False),
        ("Faro", "faro", False),
        (True, "True", True),
        (True, "true", False),
        (None, "None", True),
        (["a", 1], ["a", 1], True),
        (["a", 1], ["a", "1"], False),  # "['a', 1]" and "['a', '1']"
        (["a", "b"], ["b", "a"], False),
        (["a"], "['a']", True),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        ({"x": 1}, {"x": 1, "y": 2}, False),
    ],
)
def test_values_are_compared_as_their_text(gold: object, predicted: object, same: bool) -> None:
    found = judged(solution(("pay", {"v": gold})), plan(("pay", {"v": predicted})))
    assert found.param.right == found.published_param.right == same
    assert found.full is same


def test_references_inside_lists_and_objects() -> None:
    gold = solution(NESTED[0], ("pay", {"ids": ["$var_1.id$", "x"], "by": {"who": "$var_1.name$"}}))
    found = judged(gold, plan(NESTED[0], ("pay", {"ids": ["$var1.id$", "x"], "by": {"who": "$var1.id$"}})))
    assert found.param == Counts(2, 3, 3)
    assert found.reference == Counts(1, 2, 2)
    found = judged(gold, plan(NESTED[0], ("pay", {"ids": ["x", "$var1.id$"], "by": {"who": "$var1.name$"}})))
    assert found.param == Counts(2, 3, 3)
    assert found.reference == Counts(1, 2, 2)  # the other one stands at another place of the list


def test_a_reference_for_a_value_and_the_other_way_round() -> None:
    found = judged(
        solution(*NESTED), plan(("find", {"city": "Faro"}), ("book", {"hotel": "id", "nights": "$var1.id$"}))
    )
    assert found.param == Counts(1, 3, 3)
    assert found.reference == Counts(0, 1, 1)


REPEATED = (
    ("find", {"city": "Faro"}),
    ("find", {"city": "Beja"}),
    ("book", {"hotel": "$var_1.id$"}),
    ("book", {"hotel": "$var_2.id$"}),
)


def test_repeated_calls_of_one_api_each_have_their_own_partner() -> None:
    found = judged(solution(*REPEATED), plan(*_renamed(REPEATED)))
    assert (found.tool, found.param, found.reference) == (Counts(4, 4, 4), Counts(4, 4, 4), Counts(2, 2, 2))
    assert (found.partial, found.full) == (1.0, True)
    # Seal-Tools' script compares both calls with the first one, so that half of a perfect plan is wrong.
    assert (found.published_tool, found.published_param) == (Counts(4, 4, 4), Counts(2, 4, 4))


def test_repeated_calls_in_another_order_are_the_same_graph() -> None:
    swapped = plan(
        ("find", {"city": "Beja"}, "b"),
        ("find", {"city": "Faro"}, "f"),
        ("book", {"hotel": "$b.id$"}),
        ("book", {"hotel": "$f.id$"}),
    )
    gold = solution(*REPEATED)
    # The two that book differ by nothing but what they refer to.
    assert match_calls(gold, swapped) == {0: 1, 1: 0, 2: 3, 3: 2}
    found = judged(gold, swapped)
    assert (found.param, found.reference) == (Counts(4, 4, 4), Counts(2, 2, 2))
    assert found.any_order
    # As a sequence no `find` stands where it should. The books do, and take the ids of what stands at their places.
    assert (found.partial, found.full) == (0.5, False)


def test_a_reference_to_the_wrong_one_of_two_is_wrong() -> None:
    crossed = plan(*_renamed(REPEATED[:3]), ("book", {"hotel": "$var1.id$"}))
    found = judged(solution(*REPEATED), crossed)
    assert found.param == Counts(3, 4, 4)
    assert found.reference == Counts(1, 2, 2)
    assert (found.partial, found.any_order) == (0.75, False)


def test_a_call_too_many_counts_once() -> None:
    found = judged(solution(NESTED[0]), plan(NESTED[0], NESTED[0]))
    assert (found.tool, found.param) == (Counts(1, 2, 1), Counts(1, 2, 1))
    assert found.published_tool == Counts(2, 2, 1)  # a recall of 200 %
    assert (found.partial, found.full, found.any_order) == (0.5, False, False)


def test_sequences_of_the_same_length_are_compared_place_by_place() -> None:
    gold = solution(("find", {}), ("pay", {}), ("book", {}))
    found = judged(gold, plan(("find", {}), ("book", {}), ("pay", {})))
    assert found.partial == pytest.approx(1 / 3)
    assert (found.full, found.any_order) == (False, True)


@pytest.mark.parametrize(
    ("gold", "predicted", "partial"),
    [
        (("find", "pay", "book"), ("find", "book"), 2 / 3),  # find=find, pay=-, book=book
        (("find", "book"), ("find", "book", "pay"), 2 / 3),
        (("book",), ("find", "book"), 0.0),  # gold first: book=-, -=find, -=book
    ],
)
def test_sequences_of_other_lengths_are_aligned_by_name(
    gold: tuple[str, ...], predicted: tuple[str, ...], partial: float
) -> None:
    found = judged(solution(*((name, {}) for name in gold)), plan(*((name, {}) for name in predicted)))
    assert found.partial == pytest.approx(partial)
    assert not found.full


def test_published_slots_shift_where_a_call_comes_before() -> None:
    gold = solution(*NESTED)
    found = judged(gold, plan(("pay", {}), NESTED[0], ("book", {"hotel": "$var2.id$", "nights": 2})))
    assert found.reference == Counts(1, 1, 1)
    assert found.param == Counts(3, 3, 3)
    assert found.published_param == Counts(2, 3, 3)  # API_call_1 for API_call_0


def test_a_loop_is_a_reference_to_every_item() -> None:
    looped = nestful.decode(
        [
            {"name": "find", "arguments": {"city": "Faro"}, "label": "a"},
            {"name": "book", "arguments": {"hotel": "$@.id$"}, "label": "b", "foreach": {"items": "$a.items$"}},
        ]
    )
    found = judged(solution(*NESTED), graph_of_plan(looped))
    assert found.param == Counts(1, 2, 3)
    assert found.reference == Counts(0, 1, 1)
    (node,) = [one for one in graph_of_plan(looped).nodes if one.api == "book"]
    assert node.arguments["hotel"].path == ("items", "*", "id")  # type: ignore[union-attr]


_VALUES = st.sampled_from([0, 1, "a", "b", [1], [1, 2]])
_CALLS = st.tuples(
    st.sampled_from(["find", "book"]), st.sampled_from(["x", "y"]), _VALUES, st.integers(0, 5)
)  # fmt: skip


def _chained(calls: list[tuple[str, str, Any, int]]) -> tuple[Row, ...]:
    """Every call but the first takes something of one before it."""
    rows: list[Row] = []
    for number, (api, name, value, before) in enumerate(calls):
        link = {"from": f"$var_{1 + before % number}.id$"} if number else {}
        rows.append((api, {name: value} | link))
    return tuple(rows)


_SOLUTIONS = st.lists(_CALLS, max_size=5).map(_chained)


@given(_SOLUTIONS, _SOLUTIONS)
def test_bounds(gold: tuple[Row, ...], predicted: tuple[Row, ...]) -> None:
    found = judged(solution(*gold), plan(*_renamed(predicted)) if predicted else graph_of_plan(None))
    for counts in (found.tool, found.param, found.reference):
        assert 0 <= counts.right <= min(counts.predicted, counts.gold)
    assert 0 <= found.partial <= 1
    assert found.full == (found.partial == 1)
    if found.full:
        assert found.any_order
    itself = judged(solution(*gold), solution(*gold))
    assert itself.full
    assert itself.any_order
    assert itself.param.right == itself.param.gold
    assert itself.reference.right == itself.reference.gold


def _renamed(rows: tuple[Row, ...]) -> list[Row]:
    """The same calls labelled as planners do, `var1` for `var_1`."""

    def value(one: Any) -> Any:
        return one.replace("$var_", "$var") if isinstance(one, str) else one

    return [(row[0], {name: value(one) for name, one in row[1].items()}) for row in rows]
