"""A request that states one change and nothing else gets the calls of that change alone."""

import pytest

from planner_svc.reading.single_change import keep_single_change
from services.contracts.api import Location
from services.contracts.plan import Plan
from tests.unit.planner_svc.building import TEXT, api, param, plan, record, step

ORDER = api(
    "create_order",
    param("shop_id", at=Location.PATH),
    param("item_name", at=Location.BODY),
    method="POST",
    path="/shops/{shop_id}/orders",
    summary="Create a new order",
    returns=record(id=TEXT),
)
FIND = api("find_shop", param("query"), returns=record(id=TEXT), path="/shops")
ITEMS = api("list_items", param("name"), returns=record(id=TEXT), path="/items")
DROP = api("drop_item", param("name", at=Location.BODY), method="POST", path="/items", summary="Drop an item")
APIS = {one.id: one for one in (ORDER, FIND, ITEMS, DROP)}
DRAFT = plan(
    step("shop", "find_shop", query="Oslo"),
    step("items", "list_items", name="chair"),
    step("order", "create_order", shop_id="$shop.id$", item_name="chair", after=("items",)),
    answer="$items$",
)


def called(subject: Plan, query: str) -> list[str]:
    found = keep_single_change(subject, query, APIS)
    assert {one.value.step for one in found.answer} <= {one.id for one in found.steps}
    assert all(set(one.after) <= {other.id for other in found.steps} for one in found.steps)
    return [one.api.removeprefix("t.") for one in found.steps]


def test_what_nothing_is_said_for_is_not_called_and_what_the_change_needs_is() -> None:
    assert called(DRAFT, 'Please create the new order: item name "chair".') == ["find_shop", "create_order"]
    given = 'New order: item name "chair", shop id "S-1"'
    stated = plan(
        step("items", "list_items", name="chair"), step("o", "create_order", shop_id="S-1", item_name="chair")
    )
    assert called(stated, given) == ["create_order"]


@pytest.mark.parametrize(
    "query",
    [
        'Create an order: item name "chair" and list the items',
        'Create an order: item name "chair", and show the items',
        'Create an order: item name "chair". Tell me its id.',
        'Create an order for "Oslo": item name "chair"',
        'Create an order for 7: item name "chair"',
        "Create a new order",
        'Create an order: item name "chair" ' + " " * 4_000 + "and then list the items",
    ],
)
def test_any_other_word_keeps_the_plan(query: str) -> None:
    assert keep_single_change(DRAFT, query, APIS) is DRAFT


def test_it_is_kept_where_two_changes_are_meant() -> None:
    both = plan(step("a", "drop_item", name="x"), step("b", "drop_item", name="y"))
    assert keep_single_change(both, 'Drop item: name "x"', APIS) is both
    reads = plan(step("a", "find_shop", query="x"), step("b", "list_items", name="y"))
    assert keep_single_change(reads, 'Find shop: query "x"', APIS) is reads
