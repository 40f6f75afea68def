"""A request that also says not to make the planned change is remarked upon."""

import pytest

from planner_svc.proving.contradictions import forbidden_change, forbidden_steps, without_forbidden
from services.contracts.api import Location
from services.contracts.plan import ForEach, ItemReference, Plan, Reference
from tests.unit.planner_svc.building import TEXT, api, param, plan, record, step

CANCEL = api(
    "cancelOrder",
    param("order_id", required=True, at=Location.PATH),
    method="POST",
    path="/orders/{order_id}/cancel",
    summary="Cancel an order",
    returns=record(id=TEXT),
)
BOOK = api(
    "createBooking",
    param("room", at=Location.BODY),
    method="POST",
    path="/bookings",
    summary="Reserve a room",
    returns=record(id=TEXT),
)
ORDERS = api("listOrders", returns=record(id=TEXT), path="/orders", summary="List orders")
APIS = {one.id: one for one in (CANCEL, BOOK, ORDERS)}
CANCELS = plan(step("var1", "cancelOrder", order_id="ord_17"), answer="$var1.id$")
BOOKS = plan(step("var1", "createBooking", room="Blue"), answer="$var1.id$")
CANCELS_ALL = Plan(
    steps=(
        step("var1", "listOrders"),
        step("var2", "cancelOrder", order_id=ItemReference(path=("id",))).model_copy(
            update={"foreach": ForEach(items=Reference(step="var1"))}
        ),
    ),
    answer=(),
)
BOOKS_DAYS = plan(step("var1", "createBooking", room="2026-11-30"), answer="$var1.id$")
BOOKS_WORDS = plan(step("var1", "createBooking", room="any room apart from Blue"), answer="$var1.id$")
READS = plan(step("var1", "listOrders"), answer="$var1.id$")


@pytest.mark.parametrize(
    ("query", "subject", "words"),
    [
        ("cancel order ord_17 but do not cancel it", CANCELS, "do not cancel it"),
        ("Cancel order ord_17. Do not cancel order ord_17.", CANCELS, "Do not cancel order ord_17"),
        ("Cancel ord_17, no, don\u2019t cancel any order", CANCELS, "don\u2019t cancel any order"),
        ("Never cancel anything. Cancel order ord_17", CANCELS, "Never cancel anything"),
        ("I'd like ord_17 cancelled but you must not cancel it", CANCELS, "must not cancel it"),
        ("Cancel ord_17? You mustn't cancel ord_17", CANCELS, "mustn't cancel ord_17"),
        ("Cancel order ord_17, I don't want you to cancel it", CANCELS, "don't want you to cancel it"),
        ("Don't ever cancel ord_17", CANCELS, "Don't ever cancel ord_17"),
        ("Cancel ord_17 but don\u00b4t cancel it", CANCELS, "don\u00b4t cancel it"),
        ("Cancel ord_17 but do not actually cancel it", CANCELS, "do not actually cancel it"),
        ("List the orders and avoid cancelling ord_17", CANCELS, "avoid cancelling ord_17"),
        ("ord_17 must not be cancelled", CANCELS, "ord_17 must not be cancelled"),
        ("Cancel late orders, but order ord_17 shouldn't be cancelled", CANCELS, "order ord_17 shouldn't be cancelled"),
        ("Book room Blue and don't book anything", BOOKS, "don't book anything"),
        ("Book room Blue but do not book the room Blue", BOOKS, "do not book the room Blue"),
        ("Cancel all orders except ord_17", CANCELS, "except ord_17"),
        ("Don't touch ord_17, cancel the other one", CANCELS, "Don't touch ord_17"),
        ("Cancel every order other than ord_3", CANCELS_ALL, "other than ord_3"),
        ("Cancel ord_3 but not ord_17", CANCELS, "but not ord_17"),
        ("Cancel ord_17, no wait, ord_3", CANCELS, "ord_17"),
        ("Book a room for this week except on 5 May", BOOKS_DAYS, "except on 5 May"),
        ("If order ord_17 is late, cancel it", CANCELS, "If order ord_17 is late"),
        ("If ord_17 is done, cancel it", CANCELS, "If ord_17 is done"),
        ("Cancel order ord_17 unless it has been shipped and tell me", CANCELS, "unless it has been shipped"),
        ("Cancel ord_17 if the customer hasn't paid", CANCELS, "if the customer hasn't paid"),
        ("Cancel ord_17 if it rains", CANCELS, "if it rains"),
        ("Cancel ord_17 unless they answer", CANCELS, "unless they answer"),
        ("If the parcel weighs less than 5 kg, cancel ord_17", CANCELS, "If the parcel weighs less than 5 kg"),
    ],
)
def test_the_words_that_forbid_the_change_are_found(query: str, subject: Plan, words: str) -> None:
    assert forbidden_change(query, subject, APIS) == words


@pytest.mark.parametrize(
    ("query", "subject"),
    [
        ("Cancel order ord_17", CANCELS),
        ("Cancel order ord_17 but do not cancel order ord_18", CANCELS),
        ("Cancel order ord_17, but do not cancel my subscription", CANCELS),
        ("Don't forget to cancel order ord_17", CANCELS),
        ("Cancel order ord_17 and do not refund it", CANCELS),
        ("ord_17 must not be delivered, cancel it", CANCELS),
        ("Cancel ord_17, and ord_18 must not be cancelled", CANCELS),
        ("I can't cancel order ord_17, please do it", CANCELS),
        ('Cancel order ord_17, the note said "do not cancel it"', CANCELS),
        ("List the orders, do not cancel any order", READS),
        ("List all orders except ord_17", READS),
        ("Cancel ord_17 so that nobody except ord_17 is kept", CANCELS),
        ("Don't touch anything else, cancel ord_17", CANCELS),
        ("Cancel order ord_17 and all others except ord_18", CANCELS),
        ("Cancel order ord_17 'except ord_17'", CANCELS),
        ("Book any room but Blue", BOOKS_WORDS),
        ("Book any room apart from Blue", BOOKS_WORDS),
        ("Book a room every day this week except Sunday", BOOKS_DAYS),
        ("List the orders, do not list them", READS),
        ("Cancel order ord_17 if possible", CANCELS),
        ("Cancel order ord_17 and see if it is gone", CANCELS),
        ("Cancel order ord_17, it looks as if it was paid", CANCELS),
        ("Cancel order ord_17 even if it is late", CANCELS),
        ("Cancel order ord_17 and let me know if it is done", CANCELS),
        ("Cancel order ord_17 and let me know if it works", CANCELS),
        ("Cancel order ord_17 if you like", CANCELS),
        ("Tell the guest if the room is late", READS),
        ("If it is called Blue, book the room", BOOKS),
        ('Cancel order ord_17, "if it is late"', CANCELS),
    ],
)
def test_what_forbids_something_else_is_none(query: str, subject: Plan) -> None:
    assert forbidden_change(query, subject, APIS) == ""


CANCELS_TWO = plan(
    step("var1", "cancelOrder", order_id="ord_17"), step("var2", "cancelOrder", order_id="ord_3"), answer="$var2.id$"
)


@pytest.mark.parametrize(
    ("query", "subject", "left"),
    [
        ("Don't cancel order ord_17", CANCELS, []),
        ("Please do not cancel ord_17, cancel ord_3", CANCELS_TWO, ["var2"]),
        ("Cancel ord_3 and never cancel ord_17", CANCELS_TWO, ["var2"]),
        ("You mustn't cancel ord_17, cancel ord_3", CANCELS_TWO, ["var2"]),
        ("Cancel ord_17 but do not cancel ord_17", CANCELS, ["var1"]),
        ("Don't forget to cancel ord_17 and ord_3", CANCELS_TWO, ["var1", "var2"]),
        ("Don't refund ord_17, cancel it and ord_3", CANCELS_TWO, ["var1", "var2"]),
        ("Don't cancel ord_17 today, do it tomorrow", CANCELS, ["var1"]),
        ("Don't cancel ord_17 yet, ask first and then cancel it", CANCELS, ["var1"]),
        ("Don't cancel ord_17, just look at it", CANCELS, []),
        ("List the orders, do not list ord_17", READS, ["var1"]),
    ],
)
def test_a_change_that_is_only_forbidden_is_not_made(query: str, subject: Plan, left: list[str]) -> None:
    forbidden = forbidden_steps(query, subject, APIS)
    assert [step.id for step in subject.steps if step.id not in forbidden] == left
    assert [step.id for step in without_forbidden(subject, query, APIS).steps] == left or not left
