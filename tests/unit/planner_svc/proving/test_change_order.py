"""Calls wait for the changes that they are listed after."""

import pytest

from planner_svc.proving.change_order import with_change_order
from services.contracts.api import Location
from services.contracts.plan import Plan
from tests.unit.planner_svc.building import api, param, plan, step

AT = Location.PATH
BOOK = api("book", param("room"), method="POST")
CANCEL = api("cancel", param("id", at=AT), method="DELETE")
CHANGE = api("change", param("id", at=AT), param("title"), method="PATCH")
READ = api("read", param("id", at=AT))
LIST = api("list", param("room"))
ELSEWHERE = api("list", param("room")).model_copy(update={"id": "u.list", "provider": "u"})
APIS = {one.id: one for one in (BOOK, CANCEL, CHANGE, READ, LIST, ELSEWHERE)}


def waits(subject: Plan) -> dict[str, tuple[str, ...]]:
    """What each step of the ordered plan explicitly waits for."""
    return {one.id: one.after for one in with_change_order(subject, APIS).steps if one.after}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (plan(step("a", "book", room="x"), step("b", "list", room="x")), {"b": ("a",)}),
        (
            plan(step("a", "book", room="x"), step("b", "cancel", id="$a.id$"), step("c", "read", id="$a.id$")),
            {"c": ("b",)},
        ),
        (
            plan(
                step("a", "book"),
                step("b", "change", id="$a.id$", title="y"),
                step("c", "cancel", id="$a.id$"),
                step("d", "list"),
            ),
            {"c": ("b",), "d": ("c",)},
        ),
        (plan(step("a", "change", id="5", title="y"), step("b", "cancel", id="5")), {"b": ("a",)}),
        (plan(step("a", "cancel", id="5"), step("b", "cancel", id="6"), step("c", "list")), {"c": ("a", "b")}),
    ],
)
def test_what_follows_a_change_waits_for_it(subject: Plan, expected: dict[str, tuple[str, ...]]) -> None:
    assert waits(subject) == expected
    assert waits(with_change_order(subject, APIS)) == expected


@pytest.mark.parametrize(
    "subject",
    [
        plan(step("a", "list"), step("b", "book", room="x")),
        plan(step("a", "cancel", id="5"), step("b", "cancel", id="6")),
        plan(step("a", "book", room="x"), step("b", "book", room="x")),
        plan(step("a", "book", room="x"), step("b", "read", id="$a.id$")),
        plan(step("a", "cancel", id="$b.id$"), step("b", "read", id="5")),
        plan(step("a", "unknown"), step("b", "list")),
    ],
)
def test_other_calls_run_at_once(subject: Plan) -> None:
    assert with_change_order(subject, APIS) is subject


def test_another_provider_does_not_wait() -> None:
    subject = plan(step("a", "book", room="x"), step("b", "list", room="x"))
    elsewhere = Plan(
        steps=(subject.steps[0], subject.steps[1].model_copy(update={"api": "u.list"})), answer=subject.answer
    )
    assert with_change_order(elsewhere, APIS) is elsewhere
