"""Requests whose APIs are withheld are labelled as ones that nothing fits."""

import random
from dataclasses import replace

from tests.unit.planner_svc.building import TEXT, api, param, record
from training.planner.examples import Example, LabelledCall, Ref, Span
from training.planner.withheld import withhold

FIND = api("findCustomer", returns=record(id=TEXT))
DELETE = api("deleteCustomer", param("id", required=True))
TWIN = api("deleteCustomer_2")
OTHER = api("listInvoices")
QUERY = "Delete the customer Ada"
CHAIN = (LabelledCall(FIND.id, {}), LabelledCall(DELETE.id, {"id": Ref(0, ("id",))}))
EXAMPLE = Example("one", "crm", QUERY, (FIND, DELETE, TWIN, OTHER), CHAIN, (), None, ((1.0,), (2.0,), (3.0,), (4.0,)))


def offered(example: Example | None) -> set[str]:
    assert example is not None
    assert example.calls == ()
    assert example.answer is None
    return {one.id for one in example.candidates}


def test_what_does_it_and_what_is_like_it_are_gone_and_look_ups_may_stay() -> None:
    seen = [offered(withhold(EXAMPLE, random.Random(seed))) for seed in range(20)]
    assert {frozenset(one) for one in seen} == {frozenset({OTHER.id}), frozenset({FIND.id, OTHER.id})}


def test_scores_stay_with_their_candidates() -> None:
    found = withhold(EXAMPLE, random.Random(1))
    assert found is not None
    assert found.scores is not None
    assert EXAMPLE.scores is not None
    for one, score in zip(found.candidates, found.scores, strict=True):
        assert score == EXAMPLE.scores[EXAMPLE.candidates.index(one)]


def test_calls_for_two_goals_are_withheld_together() -> None:
    both = replace(EXAMPLE, calls=(LabelledCall(OTHER.id), LabelledCall(DELETE.id, {"id": Span(20, 23, "Ada")})))
    assert all(offered(withhold(both, random.Random(seed))) == {FIND.id} for seed in range(9))


def test_nothing_is_withheld_of_a_request_without_calls_or_without_other_candidates() -> None:
    assert withhold(replace(EXAMPLE, calls=()), random.Random(1)) is None
    assert withhold(replace(EXAMPLE, candidates=(DELETE,), calls=(LabelledCall(DELETE.id),)), random.Random(1)) is None
