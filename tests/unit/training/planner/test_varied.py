"""Varied examples are sound, and still mean what they say."""

import random
from dataclasses import replace

import pytest

from tests.unit.planner_svc.worlds import CANCEL_ORDER, FIND_CUSTOMER, GET_WEATHER
from training.planner.examples import Example, LabelledCall, Output, Ref, Span, check, labels
from training.planner.varied import Variation, both


def span(query: str, text: str, value: str | float | None = None) -> Span:
    start = query.index(text)
    return Span(start, start + len(text), text if value is None else value)


def weather(city: str, identifier: str = "w") -> Example:
    query = f"How is the weather in {city} today?"
    call = LabelledCall(GET_WEATHER.id, {"city": span(query, city)}, (0, len(query)))
    return Example(identifier, "own", query, (GET_WEATHER, FIND_CUSTOMER), (call,), scores=((1.0,) * 5, (0.5,) * 5))


def order(number: str) -> Example:
    query = f"Cancel the order {number} please"
    call = LabelledCall(CANCEL_ORDER.id, {"order_id": span(query, number)})
    return Example("o", "own", query, (FIND_CUSTOMER, CANCEL_ORDER), (call,), scores=((0.2,) * 5, (0.9,) * 5))


def test_values_are_swapped_for_those_of_like_parameters_and_labels_move_along() -> None:
    towns = [weather(city) for city in ("Oslo", "Rio de Janeiro", "Bern")]
    variation, seen = Variation(towns), set()
    for seed in range(60):
        varied = variation.vary(towns[0], random.Random(seed))
        check(varied)
        ((_, _, item),) = labels(varied)
        assert isinstance(item, Span)
        assert varied.query[item.start : item.end] == item.value
        assert varied.query == f"How is the weather in {item.value} today?"
        clause = varied.calls[0].clause
        assert clause is not None
        assert varied.query[slice(*clause)] == varied.query
        seen.add(item.value)
    assert seen == {"Oslo", "Rio de Janeiro", "Bern"}


def test_codes_keep_their_form() -> None:
    example = order("AB-1042")
    found = {Variation([example]).vary(example, random.Random(seed)).query for seed in range(40)}
    assert len(found) > 10
    assert all(len(query) == len(example.query) and query.startswith("Cancel the order ") for query in found)


def test_numbers_stay_numbers_of_their_form() -> None:
    example = order("300")
    call = replace(example.calls[0], arguments={"order_id": span(example.query, "300", 300.0)})
    example = replace(example, calls=(call,))
    values = set()
    for seed in range(30):
        varied = Variation([example]).vary(example, random.Random(seed))
        ((_, _, item),) = labels(varied)
        assert isinstance(item, Span)
        assert isinstance(item.value, float)
        assert item.value == float(varied.query[item.start : item.end])
        values.add(item.value)
    assert len(values) > 5


def test_a_value_said_twice_stays() -> None:
    query = "Weather in Oslo, I mean the city of Oslo"
    example = replace(
        weather("Oslo"), query=query, calls=(LabelledCall(GET_WEATHER.id, {"city": span(query, "Oslo")}),)
    )
    variation = Variation([example, weather("Bern")])
    assert all(variation.vary(example, random.Random(seed)) is example for seed in range(20))


def test_two_requests_asked_at_once() -> None:
    first, second = weather("Oslo"), order("A17")
    second = replace(second, answer=(), calls=(*second.calls,))
    joined = both(replace(first, answer=(Output(0, ()),)), second, random.Random(1))
    assert joined is not None
    check(joined)
    assert [call.api for call in joined.calls] == [GET_WEATHER.id, CANCEL_ORDER.id]
    assert [joined.query[item.start : item.end] for _, _, item in labels(joined) if isinstance(item, Span)] == [
        "Oslo",
        "A17",
    ]
    assert [api.id for api in joined.candidates] == [GET_WEATHER.id, FIND_CUSTOMER.id, CANCEL_ORDER.id]
    assert joined.scores == ((1.0,) * 5, (0.5,) * 5, (0.9,) * 5)
    assert joined.answer == (Output(0, ()),)


def test_references_count_on() -> None:
    query = "find Ann, then cancel her order"
    calls = (
        LabelledCall(FIND_CUSTOMER.id, {"customer_name": span(query, "Ann")}),
        LabelledCall(CANCEL_ORDER.id, {"order_id": Ref(0, ("customer_id",))}),
    )
    nested = Example("n", "own", query, (FIND_CUSTOMER, CANCEL_ORDER), calls)
    check(nested)
    joined = both(weather("Oslo"), nested, random.Random(1))
    assert joined is not None
    check(joined)
    assert joined.calls[2].arguments["order_id"] == Ref(1, ("customer_id",))
    assert joined.scores is None


@pytest.mark.parametrize("other", ["Oslo", "Bern"])
def test_the_same_api_is_not_wanted_twice(other: str) -> None:
    assert both(weather("Oslo"), weather(other), random.Random(1)) is None
