"""A list meets a parameter that takes one value: each item is called for where the request says so."""

import pytest

from planner_svc.compile import compile_plan
from planner_svc.reading.loops import with_loops
from services.contracts.plan import AnswerOutput, ForEach, ItemReference, LiteralValue, Plan, Reference, Step
from services.contracts.planning import Policy
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, record

ROWS = {"type": "array", "items": record(id=WHOLE, name=TEXT)}
SEARCH = api("search", param("query"), returns=record(items=ROWS))
TAGS = api("tags", returns={"type": "array", "items": TEXT})
SHOW = api("show", param("id", WHOLE, required=True), param("note"), returns=record(city=TEXT))
WEATHER = api("weather", param("city", required=True), returns=record(degrees=WHOLE))
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
    plan = with_loops(PLAN, query)
    first, second, third = plan.steps
    assert first == PLAN.steps[0]
    assert second.foreach == ForEach(items=Reference(step="a", path=("items",)))
    assert second.arguments == {"id": ItemReference(path=("id",)), "note": ItemReference(path=("name",))}
    assert third.foreach == ForEach(items=Reference(step="b"))
    assert third.arguments == {"city": ItemReference(path=("city",))}
    assert plan.answer == (AnswerOutput(name="degrees", value=Reference(step="c")),)
    assert compile_plan(plan, (SEARCH, SHOW, WEATHER), Policy()).compiled is not None


@pytest.mark.parametrize("query", ["show Ann's room", "what happens there every day", "call me each morning", ""])
def test_the_first_is_meant_where_nothing_else_is_said(query: str) -> None:
    assert with_loops(PLAN, query) is PLAN


def test_a_plan_without_lists_stays() -> None:
    plan = Plan(steps=PLAN.steps[:1], answer=())
    assert with_loops(plan, "show each") is plan


def test_items_that_are_values_themselves() -> None:
    weather = Step(id="b", api=WEATHER.id, arguments={"city": Reference(step="a", path=(0,))})
    answer = (AnswerOutput(name="degrees", value=Reference(step="b", path=("degrees",))),)
    tagged = Plan(steps=(Step(id="a", api=TAGS.id), weather), answer=answer)
    plan = with_loops(tagged, "weather for each of my tags")
    assert plan.steps[1].foreach == ForEach(items=Reference(step="a"))
    assert plan.steps[1].arguments == {"city": ItemReference()}
    assert compile_plan(plan, (TAGS, WEATHER), Policy()).compiled is not None
