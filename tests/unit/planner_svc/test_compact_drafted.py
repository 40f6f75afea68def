"""Calls are put in an order that can be run, and are as many as what feeds them."""

from planner_svc.backends.compact.drafted import MAX_CALLS, Drafted, Fed, Said, arranged
from planner_svc.reading.profile import read_profile
from tests.unit.planner_svc.building import api, record

TEXT = {"type": "string"}
ROWS = {"type": "object", "properties": {"items": {"type": "array", "items": record(code=TEXT)}}}
CODE = next(one for one in read_profile(api("search", returns=ROWS)).fields if one.name == "code")
WHERE = {one.name: one for one in read_profile(api("find", returns=record(lat=TEXT, lon=TEXT))).fields}
LATITUDE, LONGITUDE = WHERE["lat"], WHERE["lon"]
SEARCH, SHOW, ROUTE = 0, 1, 2


def said(value: str, at: int = 0) -> Drafted:
    return Drafted(SEARCH, 0.9, {"name": Said(value, (at, at + 4), 0.9)}, place=at)


def fed(api: int, *names: str) -> Drafted:
    return Drafted(api, 0.9, {name: Fed(SEARCH, CODE, 0.9) for name in names})


def test_what_feeds_a_call_comes_first() -> None:
    search, show = said("Peru"), fed(SHOW, "code")
    assert arranged({SHOW: [show], SEARCH: [search]}) == [search, show]


def test_a_call_is_made_for_each_that_feeds_it() -> None:
    calls = arranged({SEARCH: [said("Peru"), said("Chad", 9)], SHOW: [fed(SHOW, "code")]})
    assert [call.api for call in calls] == [SEARCH, SEARCH, SHOW, SHOW]
    assert calls[2].arguments is not calls[3].arguments


def test_two_arguments_fed_by_the_same_field_take_up_one_call_each() -> None:
    route = fed(ROUTE, "origin", "destination")
    assert [route.turn(name) for name in route.arguments] == [0, 1]
    assert route.turns(SEARCH) == 2
    calls = arranged({SEARCH: [said("Peru"), said("Chad", 9)], ROUTE: [route]})
    assert [call.api for call in calls] == [SEARCH, SEARCH, ROUTE]


def test_what_is_of_one_end_is_fed_by_one_call() -> None:
    """However the parameters are ordered: both of where it begins are of the first call."""
    ends = {"drop_off_lat": LATITUDE, "pick_up_lon": LONGITUDE, "pick_up_lat": LATITUDE, "drop_off_lon": LONGITUDE}
    rental = Drafted(ROUTE, 0.9)
    for name, field in ends.items():
        end = tuple(name.split("_")[:2])
        rental.arguments[name] = Fed(SEARCH, field, 0.9, end, "from" if "pick" in end else "to")
    assert rental.turns(SEARCH) == 2
    assert {name: rental.turn(name) for name in ends} == {
        "drop_off_lat": 1,
        "pick_up_lon": 0,
        "pick_up_lat": 0,
        "drop_off_lon": 1,
    }


def test_two_fields_of_one_call_are_of_no_ends() -> None:
    order = Drafted(ROUTE, 0.9)
    order.arguments = {
        "customer_code": Fed(SEARCH, CODE, 0.9, ("customer",)),
        "lat": Fed(SEARCH, LATITUDE, 0.9),
    }
    assert [order.turn(name) for name in order.arguments] == [0, 0]
    assert order.turns(SEARCH) == 1


def test_what_is_said_twice_is_called_once() -> None:
    assert arranged({SEARCH: [said("Peru"), said("Peru", 20)]}) == [said("Peru")]
    assert len(arranged({SEARCH: [said("Peru")], SHOW: [fed(SHOW, "code"), fed(SHOW, "code")]})) == 2


def test_there_is_an_end_to_it() -> None:
    many = [said(f"place {number}", number) for number in range(40)]
    assert len(arranged({SEARCH: many, SHOW: [fed(SHOW, "code")]})) == len(many) + MAX_CALLS


def test_a_circle_is_cut() -> None:
    one = Drafted(SHOW, 0.9, {"code": Fed(ROUTE, CODE, 0.9)})
    other = Drafted(ROUTE, 0.5, {"origin": Fed(SHOW, CODE, 0.9)})
    calls = arranged({SHOW: [one], ROUTE: [other]})
    assert {call.api for call in calls} == {SHOW, ROUTE}
    assert calls[0].missing
    assert not calls[0].fed_by()
