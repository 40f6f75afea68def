"""What is to be removed must be what a plan removes."""

import pytest

from planner_svc.proving.near_misses import other_than_asked
from services.contracts.api import Location
from tests.unit.planner_svc.building import api, param, plan, step

CANCEL = api("cancel_order", param("id", required=True, at=Location.PATH), method="DELETE", path="/orders/{id}")


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("close my account 77", True),
        ("cancel my order 77", False),
        ("cancel 77", False),
        ("is my account closed?", False),
        ('change it: deleted "no", account "77"', False),
    ],
)
def test_another_thing_is_not_removed(query: str, refused: bool) -> None:
    assert bool(other_than_asked(query, plan(step("a", "cancel_order", id="77")), {CANCEL.id: CANCEL})) is refused
