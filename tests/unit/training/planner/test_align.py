"""Recorded requests: each value is found where the request says it, whatever the form."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import JsonValue

from services.contracts.api import Api
from tests.unit.planner_svc.worlds import FLAG, NUMBER, SHOP, TEXT, WHOLE, api, param
from training.planner.align import Aligner
from training.planner.examples import Default, Example, Label, ListLabel, Option, Output, Ref, Span, Unstated, check

NOW = datetime(2026, 3, 10, 9, tzinfo=UTC)


@dataclass
class Call:
    api: str
    args: dict[str, JsonValue] = field(default_factory=dict)


@dataclass
class Recorded:
    query: str
    calls: list[Call]
    id: str = "r1"
    answer: tuple[str, ...] | None = None


def aligned(query: str, *calls: Call, apis: tuple[Api, ...] = SHOP, **more: Any) -> Example:
    example = Aligner({one.id: one for one in apis}, "test").align(Recorded(query, list(calls)), **more)
    assert example is not None
    check(example)
    return example


def label(query: str, schema: dict[str, Any], value: JsonValue, name: str = "thing", **more: Any) -> Label:
    one = api("takeRide", "Take a ride.", param(name, schema))
    return aligned(query, Call("shop.takeRide", {name: value}), apis=(one,), **more).calls[0].arguments[name]


def said(query: str, found: Label) -> str:
    assert isinstance(found, Span | Option | Ref)
    assert found.start is not None
    return query[found.start : found.end]


@pytest.mark.parametrize(
    ("query", "schema", "value", "words"),
    [
        ("What is the weather in Paris?", TEXT, "Paris", "Paris"),
        ("what is the weather in paris", TEXT, "Paris", "paris"),
        ("Find New-York's museums", TEXT, "New York", "New-York's"),
        ("Use Station A for it", TEXT, "StationA", "Station A"),
        ("It costs $1,000 in all", NUMBER, 1000.0, "1,000"),
        ("I need two rooms", WHOLE, 2, "two"),
        ("at a rate of 5% a year", NUMBER, 0.05, "5%"),
        ("at a rate of 5% a year", NUMBER, 5, "5"),
        ("a file of 2.5MB", NUMBER, 2.5, "2.5"),
        ("edit the 5th scene, not scene 15", WHOLE, 5, "5"),
        ("about 0.65 of it", NUMBER, 0.6508643788394753, "0.65"),
        ("on August 15th, 2022 at noon", TEXT, "2022-08-15", "August 15th, 2022"),
        ("a table at 8:00 PM. Thanks", TEXT, "20:00:00", "8:00 PM"),
        ("from 3 May until 5 May", TEXT, "2026-05-05", "5 May"),
        ("call me on 10/01/2022", TEXT, "2022-10-01", "10/01/2022"),
        ("administered orally", TEXT, "oral", "orally"),
        ("the new tragic play", TEXT, "Tragedy", None),
        ("nothing of that kind", TEXT, "Berlin", None),
        ("30 in the morning", TEXT, "07:00", None),
        ("a plan", TEXT, "a", None),
    ],
)
def test_a_value_is_found_in_the_form_it_is_said_in(
    query: str, schema: dict[str, Any], value: JsonValue, words: str | None
) -> None:
    found = label(query, schema, value, now=NOW)
    if words is None:
        assert found == Unstated(value)
    else:
        assert said(query, found) == words
        assert isinstance(found, Span)
        assert found.value == value


def test_a_normalised_value_goes_with_the_words_as_they_were_said() -> None:
    call = Call("shop.getWeather", {"city": "San Fran", "date": "next friday"})
    query = "Weather in San Fran next friday?"
    example = aligned(query, call, canonical=[{"city": "San Francisco", "date": "2026-03-13"}], now=NOW)
    city, day = example.calls[0].arguments["city"], example.calls[0].arguments["date"]
    assert (said(query, city), said(query, day)) == ("San Fran", "next friday")
    assert isinstance(city, Span)
    assert isinstance(day, Span)
    assert (city.value, day.value) == ("San Francisco", "2026-03-13")


def test_listed_values_and_truth_values_are_options_with_the_words_that_tell_them() -> None:
    schema = {"type": "string", "enum": ["metric", "imperial"], "default": "metric"}
    query = "the weather in imperial units"
    found = label(query, schema, "imperial")
    assert isinstance(found, Option)
    assert said(query, found) == "imperial"
    assert label("the weather", schema, "metric") == Default("metric")
    assert label("as Americans like it", schema, "imperial") == Option("imperial")
    assert said("a shared ride", label("a shared ride", FLAG, True, "shared_ride")) == "shared"
    assert said("no shared ride", label("no shared ride", FLAG, False, "shared_ride")) == "no shared"
    assert label("a ride", FLAG, True, "shared_ride") == Option(True)
    assert label("a shared ride", FLAG, False, "shared_ride") == Option(False)


def test_each_item_of_a_list_has_its_own_place() -> None:
    query = "Order a lamp, two chairs and a desk."
    found = label(query, {"type": "array", "items": TEXT}, ["lamp", "chair", "desk", "sofa"])
    assert isinstance(found, ListLabel)
    assert [said(query, item) if isinstance(item, Span) else item for item in found.items] == [
        "lamp",
        "chairs",
        "desk",
        Unstated("sofa"),
    ]


def test_the_values_inside_an_object_have_their_own_places() -> None:
    query = "Ship two lamps to Rome for Ann, gift wrapped."
    schema = {
        "type": "object",
        "properties": {
            "to": {"type": "object", "properties": {"city": TEXT, "name": TEXT}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"title": TEXT, "count": WHOLE}}},
            "carrier": TEXT,
        },
    }
    one = api("ship", "Ship things.", param("parcel", schema))
    order: JsonValue = {
        "to": {"city": "Rome", "name": "Ann"},
        "items": [{"title": "lamp", "count": 2}, {"title": "chair"}],
        "carrier": "DHL",
    }
    found = aligned(query, Call("shop.ship", {"parcel": order}), apis=(one,)).calls[0].arguments
    assert {name: said(query, label) for name, label in found.items() if isinstance(label, Span)} == {
        "parcel.to.city": "Rome",
        "parcel.to.name": "Ann",
        "parcel.items[0].title": "lamps",
        "parcel.items[0].count": "two",
    }
    assert found["parcel.carrier"] == Unstated("DHL")


def test_a_value_said_twice_is_taken_where_its_call_and_its_argument_are_spoken_of() -> None:
    query = "Cancel order 7 for the reason 7. Then get the price of product 12 in EUR, and cancel order 12."
    example = aligned(
        query,
        Call("shop.cancelOrder", {"order_id": "7", "reason": "7"}),
        Call("shop.getPrice", {"product": "12", "currency": "EUR"}),
        Call("shop.cancelOrder", {"order_id": "12"}),
    )
    first, price, last = (call.arguments for call in example.calls)
    assert isinstance(first["order_id"], Span)
    assert isinstance(first["reason"], Span)
    assert query[: first["order_id"].end].endswith("order 7")
    assert query[: first["reason"].end].endswith("reason 7")
    assert isinstance(price["product"], Span)
    assert query[: price["product"].end].endswith("product 12")
    assert isinstance(last["order_id"], Span)
    assert query[: last["order_id"].end].endswith("cancel order 12")
    assert [query[slice(*call.clause)] for call in example.calls if call.clause] == [
        "Cancel order 7 for the reason 7",
        "get the price of product 12 in EUR",
        "cancel order 12",
    ]


def test_references_point_to_earlier_calls_and_fields_that_are_there() -> None:
    calls = (
        Call("shop.findCustomer", {"customer_name": "Ann"}),
        Call("shop.createOrder", {"customer_id": "$var_1.customer_id$", "products": ["lamp"]}),
        Call("shop.cancelOrder", {"order_id": "$var_2.order_id$", "reason": "$var_1.nickname$"}),
        Call("shop.cancelOrder", {"order_id": "$var_5.order_id$"}),
    )
    labels = [call.arguments for call in aligned("Order a lamp for Ann, then cancel it", *calls).calls]
    assert labels[1]["customer_id"] == Ref(0, ("customer_id",))
    assert labels[2]["order_id"] == Ref(1, ("order_id",))
    assert labels[2]["reason"] == Unstated("$var_1.nickname$")
    assert labels[3]["order_id"] == Unstated("$var_5.order_id$")


def test_each_item_of_a_list_is_learnt_as_the_first() -> None:
    orders = {"type": "array", "items": {"type": "object", "properties": {"order_id": TEXT}}}
    listing = api("listOrders", "List all orders.", returns={"orders": orders})
    calls = (Call("shop.listOrders"), Call("shop.cancelOrder", {"order_id": "$var_1.orders.*.order_id$"}))
    example = aligned("Cancel all my orders", *calls, apis=(*SHOP, listing))
    assert example.calls[1].arguments["order_id"] == Ref(0, ("orders", 0, "order_id"))


def test_a_request_that_calls_an_unknown_api_gives_no_example() -> None:
    assert Aligner({}, "test").align(Recorded("x", [Call("shop.unknown")])) is None


def test_arguments_that_the_api_does_not_take_are_left_out_and_candidates_are_sorted() -> None:
    example = aligned("Cancel order 7", Call("shop.cancelOrder", {"order_id": "7", "colour": "red"}), others=SHOP)
    assert list(example.calls[0].arguments) == ["order_id"]
    assert [one.id for one in example.candidates] == sorted(one.id for one in SHOP)


def test_the_outputs_asked_for_are_those_that_are_there() -> None:
    recorded = Recorded(
        "Find Ann", [Call("shop.findCustomer", {"customer_name": "Ann"})], answer=("$var_1.email$", "$var_1.x$")
    )
    example = Aligner({one.id: one for one in SHOP}, "test").align(recorded)
    assert example is not None
    assert example.answer == (Output(0, ("email",)),)
