"""A name that no call uses is looked up for an optional argument, as the trained planner that ships finds likely."""

import pytest

from planner_svc.backends.compact import CompactBackend
from services.contracts.context import Context
from services.contracts.plan import ItemReference, LiteralValue, Reference
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import listed, record
from tests.unit.planner_svc.test_compact_backend import NOW
from tests.unit.planner_svc.worlds import DAY, SHOP, TEXT, api, param

NUMBER = {"type": "integer"}
FIND_MEMBERS = api(
    "findMembers",
    "Find members by name.",
    param("name", about="name or a part of it"),
    returns={"members": listed(record(memberId=NUMBER, name=TEXT, email=TEXT))},
    method="GET",
    path="/members",
)
LIST_BOOKINGS = api(
    "listBookings",
    "List bookings.",
    param("memberId", NUMBER, "only bookings of this member"),
    param("day", DAY, "only bookings of this day"),
    returns={"bookings": listed(record(bookingId=NUMBER, room=TEXT, day=DAY))},
    method="GET",
    path="/bookings",
)
CANCEL = api(
    "cancelBooking",
    "Cancel a booking.",
    param("bookingId", NUMBER, required=True),
    method="DELETE",
    path="/bookings/{bookingId}",
)


def test_the_bookings_of_somebody_are_not_everybodys(backend: CompactBackend) -> None:
    apis = (LIST_BOOKINGS, FIND_MEMBERS, CANCEL, *SHOP)
    candidates = tuple(Candidate(api=one, score=1 - 0.02 * rank) for rank, one in enumerate(apis))
    query = "Cancel all bookings of Omar Haddad"
    plan = backend.draft(PlanRequest(query=query, candidates=candidates, context=Context(now=NOW))).plan
    assert plan is not None
    found, listing, cancelled = plan.steps
    assert found.arguments == {"name": LiteralValue(value="Omar Haddad")}
    assert listing.arguments == {"memberId": Reference(step=found.id, path=("members", 0, "memberId"))}
    assert cancelled.foreach is not None
    assert cancelled.foreach.items == Reference(step=listing.id, path=("bookings",))
    assert cancelled.arguments == {"bookingId": ItemReference(path=("bookingId",))}


@pytest.mark.parametrize("query", ["Which bookings are there on 3 May 2027?", "List all bookings on 3 May 2027"])
def test_nobody_is_looked_up_if_all_words_are_used(backend: CompactBackend, query: str) -> None:
    candidates = tuple(Candidate(api=one, score=1) for one in (LIST_BOOKINGS, FIND_MEMBERS, CANCEL, *SHOP))
    plan = backend.draft(PlanRequest(query=query, candidates=candidates, context=Context(now=NOW))).plan
    assert plan is not None
    assert [(step.api, step.arguments) for step in plan.steps] == [
        ("shop.listBookings", {"day": LiteralValue(value="2027-05-03")})
    ]
