"""Calls are put in an order that can be run, and are as many as what feeds them."""

from planner_svc.backends.compact.draft_calls import (
    MAX_CALLS,
    DraftCall,
    LiteralArgument,
    ReferenceArgument,
    in_running_order,
)
from planner_svc.reading.profile import read_profile
from tests.unit.planner_svc.building import api, record

TEXT = {"type": "string"}
ROWS = {"type": "object", "properties": {"items": {"type": "array", "items": record(code=TEXT)}}}
CODE = next(one for one in read_profile(api("search", returns=ROWS)).fields if one.name == "code")
WHERE = {one.name: one for one in read_profile(api("find", returns=record(lat=TEXT, lon=TEXT))).fields}
LATITUDE, LONGITUDE = WHERE["lat"], WHERE["lon"]
SEARCH, SHOW, ROUTE = 0, 1, 2


def said(value: str, at: int = 0) -> DraftCall:
    return DraftCall(SEARCH, 0.9, {"name": LiteralArgument(value, (at, at + 4), 0.9)}, place=at)


def fed(api: int, *names: str) -> DraftCall:
    return DraftCall(api, 0.9, {name: ReferenceArgument(SEARCH, CODE, 0.9) for name in names})


def test_what_feeds_a_call_comes_first() -> None:
    search, show = said("Peru"), fed(SHOW, "code")
    assert in_running_order({SHOW: [show], SEARCH: [search]}) == [search, show]


def test_calls_without_words_of_their_own_come_where_the_request_names_them() -> None:
    first, last, unnamed = DraftCall(SHOW, 0.9, named=4), DraftCall(ROUTE, 0.9, named=30), DraftCall(3, 0.9)
    search = said("Peru", 20)
    assert in_running_order({3: [unnamed], ROUTE: [last], SEARCH: [search], SHOW: [first]}) == [
        first, search, last, unnamed,
    ]  # fmt: skip


def test_a_call_is_made_for_each_that_feeds_it() -> None:
    calls = in_running_order({SEARCH: [said("Peru"), said("Chad", 9)], SHOW: [fed(SHOW, "code")]})
    assert [call.api for call in calls] == [SEARCH, SEARCH, SHOW, SHOW]
    assert calls[2].arguments is not calls[3].arguments


def test_two_arguments_fed_by_the_same_field_take_up_one_call_each() -> None:
    route = fed(ROUTE, "origin", "destination")
    assert [route.producer_index(name) for name in route.arguments] == [0, 1]
    assert route.producer_count(SEARCH) == 2
    calls = in_running_order({SEARCH: [said("Peru"), said("Chad", 9)], ROUTE: [route]})
    assert [call.api for call in calls] == [SEARCH, SEARCH, ROUTE]


def test_what_is_of_one_end_is_fed_by_one_call() -> None:
    """However the parameters are ordered: both of where it begins are of the first call."""
    ends = {"drop_off_lat": LATITUDE, "pick_up_lon": LONGITUDE, "pick_up_lat": LATITUDE, "drop_off_lon": LONGITUDE}
    rental = DraftCall(ROUTE, 0.9)
    for name, field in ends.items():
        end = tuple(name.split("_")[:2])
        rental.arguments[name] = ReferenceArgument(SEARCH, field, 0.9, end, "from" if "pick" in end else "to")
    assert rental.producer_count(SEARCH) == 2
    assert {name: rental.producer_index(name) for name in ends} == {
        "drop_off_lat": 1,
        "pick_up_lon": 0,
        "pick_up_lat": 0,
        "drop_off_lon": 1,
    }


def test_two_fields_of_one_call_are_of_no_ends() -> None:
    order = DraftCall(ROUTE, 0.9)
    order.arguments = {
        "customer_code": ReferenceArgument(SEARCH, CODE, 0.9, ("customer",)),
        "lat": ReferenceArgument(SEARCH, LATITUDE, 0.9),
    }
    assert [order.producer_index(name) for name in order.arguments] == [0, 0]
    assert order.producer_count(SEARCH) == 1


def test_what_is_said_twice_is_called_once() -> None:
    assert in_running_order({SEARCH: [said("Peru"), said("Peru", 20)]}) == [said("Peru")]
    assert len(in_running_order({SEARCH: [said("Peru")], SHOW: [fed(SHOW, "code"), fed(SHOW, "code")]})) == 2


def test_there_is_an_end_to_it() -> None:
    many = [said(f"place {number}", number) for number in range(40)]
    assert len(in_running_order({SEARCH: many, SHOW: [fed(SHOW, "code")]})) == len(many) + MAX_CALLS


def test_a_circle_is_cut() -> None:
    one = DraftCall(SHOW, 0.9, {"code": ReferenceArgument(ROUTE, CODE, 0.9)})
    other = DraftCall(ROUTE, 0.5, {"origin": ReferenceArgument(SHOW, CODE, 0.9)})
    calls = in_running_order({SHOW: [one], ROUTE: [other]})
    assert {call.api for call in calls} == {SHOW, ROUTE}
    assert calls[0].missing
    assert not calls[0].fed_by()
