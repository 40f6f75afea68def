"""Paths into JSON values, also of every item of a list."""

from typing import Any

import pytest

from services.paths import MAX_EVERY, MISSING, TooMany, looking_at, value_at

ORDERS: dict[str, Any] = {
    "orders": [
        {"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}], "note": "x"},
        {"id": 2, "lines": [], "note": None},
        {"id": 3, "lines": [{"sku": "c"}]},
    ],
    "*": "a member of this name",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("orders", "*", "id"), [1, 2, 3]),
        (("orders", "*", "lines", "*", "sku"), [["a", "b"], [], ["c"]]),
        (("orders", 0, "lines", "*", "sku"), ["a", "b"]),
        (("orders", "*"), ORDERS["orders"]),
        (("orders", "*", "note"), ["x", None, None]),
        (("orders", "*", "total"), MISSING),
        (("orders", "*", "note", "*"), MISSING),
        (("orders", "*", "*"), MISSING),
        (("orders", "id"), MISSING),
        (("*",), "a member of this name"),
    ],
)
def test_every_item_gives_what_the_rest_of_the_path_leads_to(path: tuple[str | int, ...], found: Any) -> None:
    assert value_at(ORDERS, path) == found


def test_items_that_lack_it_are_missing_where_gaps_are_not_allowed() -> None:
    assert value_at(ORDERS, ("orders", "*", "note"), gaps=False) is MISSING
    assert value_at(ORDERS, ("orders", "*", "id"), gaps=False) == [1, 2, 3]
    assert value_at({"orders": []}, ("orders", "*", "id"), gaps=False) == []


def test_a_list_of_too_many_items_is_not_copied() -> None:
    assert value_at([{"a": 1}] * MAX_EVERY, ("*", "a")) == [1] * MAX_EVERY
    assert value_at([{"a": 1}] * (MAX_EVERY + 1), ("*", "a")) is MISSING


def test_items_are_counted_before_they_are_looked_at() -> None:
    seen = list[int]()
    value_at(ORDERS, ("orders", "*", "lines", "*", "sku"), look=seen.append)
    assert seen == [3, 2, 0, 1]
    look = looking_at(5)
    assert value_at(ORDERS, ("orders", "*", "id"), look=look) == [1, 2, 3]
    with pytest.raises(TooMany):
        value_at(ORDERS, ("orders", "*", "id"), look=look)
