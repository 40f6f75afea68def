"""What a call's answer is given for: all of what was asked, and the whole where nobody knows what that is."""

import pytest

from planner_svc.reading.answers import answer_of
from planner_svc.reading.asked import counts_asked, named_besides, states_asked
from planner_svc.reading.profile import Field, Profile, read_profile
from services.contracts.base import JsonPath
from tests.unit.planner_svc.building import TEXT, WHOLE, api, listed, param, record

ITEM = record(id=TEXT, name=TEXT, owner=record(name=TEXT, city=TEXT))
PAGE = record(items=listed(ITEM), total=WHOLE, pages=WHOLE)
PAYMENT = record(id=TEXT, status=TEXT, amount=WHOLE, lines=listed(TEXT))


def _field(profile: Profile, *path: str | int) -> Field:
    return next(one for one in profile.fields if one.path == path)


def _paths(profile: Profile, *said: Field) -> list[JsonPath]:
    return [path for _, path in answer_of(profile, said)]


def test_what_is_asked_for_is_told() -> None:
    profile = read_profile(api("get_payment", param("to"), path="/payments", returns=PAYMENT))
    asked = (_field(profile, "status"), _field(profile, "amount"))
    assert answer_of(profile, asked) == [("status", ("status",)), ("amount", ("amount",))]


def test_what_is_asked_of_items_is_told_of_all_of_them() -> None:
    profile = read_profile(api("list_things", path="/things", returns=PAGE))
    assert _paths(profile, _field(profile, "items", 0, "name"), _field(profile, "total")) == [("items",), ("total",)]
    bare = read_profile(api("list_all", path="/things", returns=listed(ITEM)))
    assert _paths(bare, _field(bare, 0, "name"), _field(bare, 0, "id")) == [()]


def test_what_is_told_with_something_else_is_not_told_twice() -> None:
    profile = read_profile(api("get_thing", path="/thing", returns=ITEM))
    asked = (_field(profile, "owner", "city"), _field(profile, "owner"))
    assert _paths(profile, *asked) == [("owner",)]


def test_where_nothing_is_known_to_be_asked_nothing_is_left_out() -> None:
    page = read_profile(api("list_things", path="/things", returns=PAGE))
    assert answer_of(page) == [("items", ("items",))]
    payment = record(id=TEXT, lines=listed(TEXT), notes=listed(TEXT))
    assert _paths(read_profile(api("get_payment", path="/payments", returns=payment))) == [()]


def test_a_small_answer_is_told_by_its_members_without_what_was_asked_with() -> None:
    result = record(first=TEXT, second=TEXT, score=WHOLE)
    profile = read_profile(api("compare", param("first"), param("second"), path="/compare", returns=result))
    assert answer_of(profile) == [("score", ("score",))]


def test_of_a_change_is_told_what_is_asked_and_all_but_lists() -> None:
    made = record(id=TEXT, to=TEXT, amount=WHOLE)
    profile = read_profile(api("create_payment", param("to"), method="POST", path="/payments", returns=made))
    assert _paths(profile) == [("id",), ("to",), ("amount",)]
    assert _paths(profile, _field(profile, "amount")) == [("amount",), ("id",), ("to",)]
    listing = read_profile(api("create_batch", param("to"), method="POST", path="/batches", returns=PAYMENT))
    assert _paths(listing) == [("id",), ("status",), ("amount",)]
    assert _paths(listing, _field(listing, "lines")) == [("lines",), ("id",), ("status",), ("amount",)]


def test_of_a_change_with_a_large_answer_what_is_asked_for_is_told() -> None:
    made = record(**{f"field{number}": TEXT for number in range(20)})
    profile = read_profile(api("create_payment", param("to"), method="POST", path="/payments", returns=made))
    assert _paths(profile, _field(profile, "field7")) == [("field7",)]


def test_a_field_that_is_asked_for_by_name_is_told_where_none_that_was_chosen_is_called_so() -> None:
    product = record(name=TEXT, weight_grams=WHOLE, stock=WHOLE)
    profile = read_profile(api("get_product", param("sku"), path="/products/{sku}", returns=product))
    name, weight, stock = profile.fields
    query = "How heavy is the product OFF-7004?"
    assert named_besides(query, profile, [name]) == [weight]
    assert named_besides(query, profile, [weight]) == []
    assert named_besides("what's the stock of OFF-7004, and how heavy is it?", profile, [name]) == [stock, weight]
    assert named_besides("which colour has OFF-7004?", profile, [name]) == []


def test_an_object_that_an_argument_is_named_like_is_no_repetition_of_it() -> None:
    task = record(id=TEXT, properties={"type": "object", "additionalProperties": TEXT}, archived={"type": "boolean"})
    profile = read_profile(api("get_task", param("id"), param("properties"), path="/tasks/{id}", returns=task))
    assert _paths(profile) == [("properties",), ("archived",)]


@pytest.mark.parametrize(
    ("query", "counted"),
    [
        ("how many things are there?", ["total"]),
        ("tell me the number of things", ["total"]),
        ("phone number of the things", []),
        ("the number of things", ["total"]),
        ("which things are there?", []),
    ],
)
def test_the_total_is_told_if_it_is_asked_for(query: str, counted: list[str]) -> None:
    profile = read_profile(api("list_things", path="/things", returns=PAGE))
    assert [one.name for one in counts_asked(query, profile)] == counted


@pytest.mark.parametrize(
    ("query", "told"),
    [("is b-13 resting?", ["status"]), ("is b-13 off duty?", ["status"]), ("show b-13", []), ("is b-13 a bird?", [])],
)
def test_a_state_that_is_asked_about_is_told(query: str, told: list[str]) -> None:
    status = {"type": "string", "enum": ["active", "resting", "off_duty"]}
    profile = read_profile(api("get_bird", path="/birds/{id}", returns=record(id=TEXT, until=TEXT, status=status)))
    assert [one.name for one in states_asked(query, profile)] == told
