"""A list meets a parameter that takes one value: each item is called for where the request says so."""

import pytest

from planner_svc.compile import compile_plan
from planner_svc.reading.loops import with_loops
from services.contracts.plan import AnswerOutput, ForEach, ItemReference, LiteralValue, Plan, Reference, Step
from services.contracts.planning import Policy
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, record

ROWS = {"type": "array", "items": record(id=WHOLE, name=TEXT)}
SEARCH = api("searchRooms", param("query"), returns=record(items=ROWS))
TAGS = api("listTags", returns={"type": "array", "items": TEXT})
SHOW = api("showRoom", param("id", WHOLE, required=True), param("note"), returns=record(city=TEXT))
WEATHER = api("weather", param("city", required=True), returns=record(degrees=WHOLE))
PARTS = api("listParts", param("id", WHOLE, required=True), returns=record(parts=ROWS))
CLOSE = api("closeRoom", param("id", WHOLE, required=True), method="POST", returns=record(ok=TEXT))
APIS = {one.id: one for one in (SEARCH, TAGS, SHOW, WEATHER, PARTS, CLOSE)}
PLAN = Plan(
    steps=(
        Step(id="a", api=SEARCH.id, arguments={"query": LiteralValue(value="Ann")}),
        Step(
            id="b",
            api=SHOW.id,
            arguments={
                "id": Reference(step="a", path=("items", 0, "id")),
                "note": Reference(step="a", path=("items", 0, "name")),
            },
        ),
        Step(id="c", api=WEATHER.id, arguments={"city": Reference(step="b", path=("city",))}),
    ),
    answer=(AnswerOutput(name="degrees", value=Reference(step="c", path=("degrees",))),),
)


@pytest.mark.parametrize(
    "query", ["Find Ann's rooms and show each with its weather", "the weather of all these rooms", "for EVERY room"]
)
def test_each_item_of_the_list_has_a_call_and_each_of_these_another(query: str) -> None:
    plan = with_loops(PLAN, query, APIS)
    first, second, third = plan.steps
    assert first == PLAN.steps[0]
    assert second.foreach == ForEach(items=Reference(step="a", path=("items",)))
    assert second.arguments == {"id": ItemReference(path=("id",)), "note": ItemReference(path=("name",))}
    assert third.foreach == ForEach(items=Reference(step="b"))
    assert third.arguments == {"city": ItemReference(path=("city",))}
    assert plan.answer == (AnswerOutput(name="degrees", value=Reference(step="c")),)
    assert compile_plan(plan, (SEARCH, SHOW, WEATHER), Policy()).compiled is not None


def test_the_answers_are_named_after_the_list() -> None:
    answer = tuple(AnswerOutput(name=name, value=Reference(step="b", path=(name,))) for name in ("id", "city"))
    plan = with_loops(Plan(steps=PLAN.steps[:2], answer=answer), "show each of the rooms", APIS)
    assert plan.answer == (AnswerOutput(name="items", value=Reference(step="b")),)


@pytest.mark.parametrize("query", ["show Ann's room", "what happens there every day", "call me each morning", ""])
def test_the_first_is_meant_where_nothing_else_is_said(query: str) -> None:
    assert with_loops(PLAN, query, APIS) is PLAN


def test_a_plan_without_lists_stays() -> None:
    plan = Plan(steps=PLAN.steps[:1], answer=())
    assert with_loops(plan, "show each", APIS) is plan


def test_items_that_are_values_themselves() -> None:
    weather = Step(id="b", api=WEATHER.id, arguments={"city": Reference(step="a", path=(0,))})
    answer = (AnswerOutput(name="degrees", value=Reference(step="b", path=("degrees",))),)
    tagged = Plan(steps=(Step(id="a", api=TAGS.id), weather), answer=answer)
    plan = with_loops(tagged, "weather for each of my tags", APIS)
    assert plan.steps[1].foreach == ForEach(items=Reference(step="a"))
    assert plan.steps[1].arguments == {"city": ItemReference()}
    assert compile_plan(plan, (TAGS, WEATHER), Policy()).compiled is not None


def taken_by(taker: str, **listing: str) -> Plan:
    arguments = {name: LiteralValue(value=value) for name, value in listing.items()}
    first = Step(id="a", api=SEARCH.id, arguments=arguments)
    return Plan(steps=(first, Step(id="b", api=taker, arguments={"id": Reference(step="a", path=("items", 0, "id"))})))


@pytest.mark.parametrize(
    ("query", "taker", "looped"),
    [
        ("Close all empty rooms", CLOSE.id, True),
        ("Show the parts of all rooms that are open", PARTS.id, True),
        ("every room: its parts", PARTS.id, True),
        ("Show all parts of the room Aurora", PARTS.id, False),
        ("List every part of the room Aurora", PARTS.id, False),
        ("each of them", PARTS.id, True),
        ("Take all parts and see for each whether it is new", PARTS.id, True),
        ("Every part that is in all the rooms", PARTS.id, True),
        ("Close the room after all parts are gone", CLOSE.id, False),
    ],
)
def test_the_noun_says_which_list_is_meant(query: str, taker: str, looped: bool) -> None:
    plan = with_loops(taken_by(taker), query, APIS)
    assert (plan.steps[1].foreach == ForEach(items=Reference(step="a", path=("items",)))) is looped


def test_no_change_is_made_for_all_items_if_a_name_is_left_out() -> None:
    query = "Close all rooms of Ann Keller"
    assert with_loops(taken_by(CLOSE.id), query, APIS).steps[1].foreach is None
    assert with_loops(taken_by(CLOSE.id, query="Ann Keller"), query, APIS).steps[1].foreach is not None
