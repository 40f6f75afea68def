"""What is taken of a model's tools and requests, and why the rest is dropped."""

from typing import Any

import pytest

from training.instruct.refusals import Refusal
from training.instruct.requests import Kind, check_request, read_request
from training.instruct.tool_sampler import Offer, ToolSampler, part_of
from training.instruct.tools import Names, api_of, check_field, check_tool, read_names, read_tools
from training.shared.leaks import NearDuplicates

TEXT = {"type": "str", "description": "In words (e.g., Lisbon)"}
FIND: dict[str, Any] = {
    "api_name": "findTrain",
    "api_description": "Finds a train",
    "field": "Travel/Trains",
    "parameters": {
        "city": TEXT,
        "day": TEXT,
        "seats": {"type": "int", "description": "How many (e.g., 2)"},
        "price": {"type": "float", "description": "At most (e.g., 9.5)"},
        "direct": {"type": "bool", "description": "Without a change"},
    },
    "required": ["city"],
    "responses": {"train_id": TEXT, "stops": {"type": "int", "description": "How many"}},
}
BOOK: dict[str, Any] = {
    "api_name": "bookSeat",
    "api_description": "Books a seat",
    "field": "Travel/Trains",
    "parameters": {"train_id": TEXT, "coach": {"type": "int", "description": "Which (e.g., 4)"}},
    "required": ["train_id"],
    "responses": {"booking": TEXT},
}
SAMPLER = ToolSampler([api_of(FIND, "Travel"), api_of(BOOK, "Travel")], seed=7)


def offer(kind: Kind) -> Offer:
    drawn = {"single": single, "multiple": SAMPLER.multiple, "nested": SAMPLER.nested}[kind](0)
    assert drawn is not None
    return drawn


def single(_: int) -> Offer | None:
    return next(one for number in (0, 1) if (one := SAMPLER.single(number)) and one.apis[0].name == "findTrain")


def tool(**changes: Any) -> dict[str, Any]:
    return FIND | changes


def many(count: int) -> dict[str, Any]:
    return {f"p{number}": TEXT for number in range(count)}


def call(name: str = "findTrain", label: str = "var1", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "label": label, "arguments": arguments}


def asks(query: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"query": query, "calls": list(calls)}


def refused(value: Any, kind: Kind = "single", asked: NearDuplicates | None = None) -> str:
    with pytest.raises(Refusal) as refusal:
        check_request(value, kind, offer(kind), asked or NearDuplicates())
    return refusal.value.reason


def test_a_tool_is_taken_as_the_template_has_it_and_becomes_an_api() -> None:
    names = Names()
    taken = check_tool(tool(required=["city", "city"], note="x"), "Travel", "Trains", names)
    assert taken == tool()
    api = api_of(taken, "Travel & Leisure")
    assert (api.id, api.tags) == ("travel_leisure.findTrain", ("Travel/Trains",))
    kinds = {one.name: (one.json_schema["type"], one.required) for one in api.parameters}
    assert kinds == {
        "city": ("string", True),
        "day": ("string", False),
        "seats": ("integer", False),
        "price": ("number", False),
        "direct": ("boolean", False),
    }
    assert list(api.response.json_schema["properties"]) == ["train_id", "stops"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("findTrain", "form"),
        ({"api_name": "findTrain"}, "form"),
        (tool(api_description=7), "form"),
        (tool(api_description=" "), "form"),
        (tool(parameters={"city": "str"}), "form"),
        (tool(required="city"), "form"),
        (tool(responses={}), "form"),
        (tool(api_name="find train"), "name"),
        (tool(api_name="../../etc/passwd"), "name"),
        (tool(api_name="x" * 65), "name"),
        (tool(api_name="var_result"), "name"),
        (tool(parameters={"city\x1b[2J": TEXT}, required=[]), "name"),
        (tool(responses={"": TEXT}), "name"),
        (tool(parameters=many(21), required=[]), "size"),
        (tool(responses=many(21)), "size"),
        (tool(field="Travel/Planes"), "field"),
        (tool(parameters={"city": {"type": "date", "description": ""}}), "type"),
        (tool(responses={"x": {"type": "object", "description": ""}}), "type"),
        (tool(required=["city", "country"]), "required"),
        (tool(api_name="find_train"), "duplicate"),
        (tool(api_name="findTrains"), "duplicate"),
    ],
)
def test_a_wrong_tool_is_dropped_for_its_reason(wrong: Any, reason: str) -> None:
    names = Names(["findTrain"] if reason == "duplicate" else [])
    with pytest.raises(Refusal) as refusal:
        check_tool(wrong, "Travel", "Trains", names)
    assert refusal.value.reason == reason
    if reason != "duplicate":
        names.take("findTrain")  # what is dropped takes no name


def test_long_descriptions_are_cut() -> None:
    taken = check_tool(tool(api_description="word " * 10_000), "Travel", "Trains", Names())
    assert isinstance(taken, dict)
    assert len(str(taken["api_description"])) <= 301


def test_fields_are_names_and_each_is_there_once() -> None:
    names = Names()
    assert check_field(" Food  & Drink ", names) == "Food & Drink"
    for wrong, reason in (
        ("food and drink", "duplicate"),
        ("Food-&-Drinks", "duplicate"),
        ("a/b", "name"),
        ("../x", "name"),
        ("", "name"),
        ("x" * 61, "name"),
        ("Say\x07", "name"),
    ):
        with pytest.raises(Refusal) as refusal:
            check_field(wrong, names)
        assert refusal.value.reason == reason, wrong


def test_answers_are_read_whatever_is_around_them() -> None:
    assert read_names([["a", 1], {"fields": ["x", "y"]}, {"count": 2}]) == ["x", "y"]
    assert read_tools([{"apis": [FIND, [BOOK]]}, BOOK, 3]) == [FIND, BOOK, BOOK]
    assert read_request([{"query": "q"}, {"note": 1}]) == [{"query": "q"}]
    for read in (read_names, read_tools, read_request):
        with pytest.raises(Refusal):
            read([[], [[1]]])


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("Find a train to new york, ny", {"city": "New York NY"}),
        ("A train to Faro for two, please", {"city": "Faro", "seats": 2}),
        ("A train to Faro for 1,200 people", {"city": "Faro", "seats": 1200}),
        ("A train to Faro below 9.50 euros", {"city": "Faro", "price": 9.5}),
        ("A train to Faro on May 3rd, 2027", {"city": "Faro", "day": "2027-05-03"}),
        ("A train to Faro without changes", {"city": "Faro", "direct": True}),
        ("去上海的火车 please find one", {"city": "上海"}),
    ],
)
def test_a_request_that_says_its_values_is_taken(query: str, arguments: dict[str, Any]) -> None:
    taken = check_request(asks(query, call(**arguments)), "single", offer("single"), NearDuplicates())
    assert taken == {
        "query": query,
        "calls": [{"api": "travel.findTrain", "args": arguments, "label": "var_1"}],
    }


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([], "form"),
        ({"query": 7, "calls": [call(city="Faro")]}, "form"),
        (asks("A train to Faro"), "calls"),
        (asks("A train to Faro", *[call(city="Faro")] * 7), "calls"),
        (asks("A train to Faro", call(city="Faro"), call(label="var2", city="Faro")), "calls"),
        (asks("A train to Faro", {"label": "var1", "arguments": {"city": "Faro"}}), "form"),
        (asks("A train to Faro", call(city="Faro") | {"after": ["var1"]}), "form"),
        ({}, "declined"),
        ({"query": "", "calls": []}, "declined"),
        (asks("To Faro", call(city="Faro")), "request"),
        (asks("Faro " * 121, call(city="Faro")), "request"),
        (asks("x" * 2_000 + " to Faro", call(city="Faro")), "request"),
        (asks("Use findTrain to get to Faro", call(city="Faro")), "request"),
        (asks("Go to Faro with $var1.city$", call(city="Faro")), "request"),
        (asks("A train to Faro\x1b[2J", call(city="Faro")), "request"),
        (asks("A train to Faro", call("deleteTrain", city="Faro")), "unknown tool"),
        (asks("A train to Faro", call(city="Faro", town="Faro")), "unknown parameter"),
        (asks("A train for 2 people", call(seats=2)), "missing parameter"),
        (asks("A train to Faro for 2", call(city="Faro", seats="2")), "value type"),
        (asks("A train to Faro for 2.5", call(city="Faro", seats=2.5)), "value type"),
        (asks("A train to Faro please", call(city="Lisbon")), "value not said"),
        (asks("A train to a party", call(city="art")), "value not said"),
        (asks("A train to Faro for 12", call(city="Faro", seats=2)), "value not said"),
        (asks("A train to Faro tomorrow", call(city="Faro", day="2027-05-03")), "value not said"),
        (asks("A train to Faro on May 3rd", call(city="Faro", day="2027-05-03")), "value not said"),
        (asks("A train to somewhere else", call(city="")), "value not said"),
        (asks("A train to wherever", call(city="$var1.train_id$")), "reference"),
        (asks("A train to wherever", call(city="$var9.train_id$")), "reference"),
        (asks("A train to wherever", call(city="API_call_0")), "value not said"),
        (asks("I need a train to Faro", call(city="Faro")), "duplicate"),
    ],
)
def test_a_wrong_request_is_dropped_for_its_reason(wrong: Any, reason: str) -> None:
    asked = NearDuplicates(["I need a train to Faro!"])
    assert refused(wrong, asked=asked) == reason
    assert asked.of("A train to Faro") is None  # what is dropped counts as asked by nobody


def test_several_calls_are_of_several_tools() -> None:
    both = asks("A train to Faro; book K7 too", call(city="Faro"), call("bookSeat", "var2", train_id="K7"))
    taken = check_request(both, "multiple", offer("multiple"), NearDuplicates())
    assert [one["api"] for one in taken["calls"]] == ["travel.findTrain", "travel.bookSeat"]  # type: ignore
    assert refused(asks("A train to Faro, to Faro", call(city="Faro"), call(label="b", city="Faro")), "multiple") == (
        "calls"
    )


def nested(reference: str, parameter: str = "train_id", *, first: str = "findTrain") -> dict[str, Any]:
    calls = [call(city="Faro"), call("bookSeat", "var2", **({"train_id": "K7"} | {parameter: reference}))]
    return asks("A seat to Faro in K7", *(calls if first == "findTrain" else reversed(calls)))


def test_nested_calls_refer_to_earlier_ones() -> None:
    assert offer("nested").links == ("$var1.train_id$ can be `train_id` of bookSeat",)
    taken = check_request(nested("$var_1.train_id"), "nested", offer("nested"), NearDuplicates())
    assert taken["calls"][1]["args"] == {"train_id": "$var_1.train_id$"}  # type: ignore
    wrong = {
        "$var1.ticket$": "reference",
        "$var3.train_id$": "reference",
        "$var1.stops$": "reference",
        "$var2.booking$": "reference",
        "K7": "calls",
    }
    assert {text: refused(nested(text), "nested") for text in wrong} == wrong
    assert refused(nested("$var1.train_id$", "coach"), "nested") == "reference"  # text for a number
    assert refused(nested("$var1.train_id$", first="bookSeat"), "nested") == "reference"  # of a later call
    assert refused(asks("A train to Faro", call(city="Faro")), "nested") == "calls"


def test_tools_of_a_part_are_offered_with_each_other_only() -> None:
    apis = [api_of(tool(api_name=f"tool{number}"), "Travel") for number in range(80)]
    sampler = ToolSampler(apis, seed=7)
    drawn = [sampler.multiple(number) for number in range(60)]
    parts = [{part_of(api.id) for api in one.apis} for one in drawn if one is not None]
    assert all(len(one) == 1 for one in parts)
    assert set.union(*parts) == {"train", "dev", "test"}
    assert drawn == [ToolSampler(apis, seed=7).multiple(number) for number in range(60)]
    assert {one.apis[0].id for number in range(80) if (one := sampler.single(number))} == {api.id for api in apis}


def test_what_an_api_was_given_is_nothing_that_it_finds_out() -> None:
    echo = BOOK | {"api_name": "moveSeat", "responses": {"train_id": TEXT}}
    assert ToolSampler([api_of(echo, "Travel"), api_of(BOOK, "Travel")], seed=7).nested(0) is None
    assert ToolSampler([], seed=7).single(0) is None
    assert ToolSampler([api_of(BOOK, "Travel")], seed=7).multiple(0) is None


def test_what_is_required_is_fed_first_and_chains_have_up_to_three_tools() -> None:
    giver = FIND | {"responses": {"train_id": TEXT, "coach": {"type": "int", "description": "Which"}}}
    seat = BOOK | {"required": ["coach"]}
    bill = BOOK | {
        "api_name": "settleBill",
        "parameters": {"booking": TEXT},
        "required": [],
        "responses": {"paid": TEXT},
    }
    sampler = ToolSampler([api_of(one, "Travel") for one in (giver, seat, bill)], seed=7)
    told = {one.links for number in range(40) if (one := sampler.nested(number))}
    coach, paid = "$var1.coach$ can be `coach` of bookSeat", "can be `booking` of settleBill"
    assert told == {(coach,), (coach, f"$var2.booking$ {paid}"), (f"$var1.booking$ {paid}",)}
