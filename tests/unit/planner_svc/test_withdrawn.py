"""What a request replaces or excepts is no value of a change."""

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.reading.withdrawn import corrected, excepted
from services.contracts.api import Location
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import api, param

RELEASE = api(
    "releaseDesk",
    "Release a desk",
    param("desk_id", about="Id of the desk, such as D-14", required=True).model_copy(
        update={"location": Location.PATH}
    ),
    method="POST",
    path="/desks/{desk_id}/release",
)


@pytest.mark.parametrize(
    ("query", "replaced"),
    [
        ("Release D-2, no wait, D-14", ["D-2"]),
        ("Cancel booking 5002 - sorry, I meant 5004", ["5002"]),
        ("until 31 March, actually until 30 April", ["31 March"]),
        ("a table for 4 people. Correction: 5 people", ["4"]),
        ("Cancel 5002. Sorry for the trouble, Ann", []),
        ("invoice 4711 is actually 300 euros", []),
        ("Cancel 5002 (actually due on 3 May)", []),
        ("Release D-2, wait, D-14 too", []),
    ],
)
def test_the_value_before_a_correction_is_replaced(query: str, replaced: list[str]) -> None:
    assert [query[start:end] for start, end in corrected(query)] == replaced


@pytest.mark.parametrize(
    ("query", "things"),
    [
        ("Void INV-3 and INV-4 but not INV-2", ["INV-2"]),
        ("Cancel all bookings except 5001", ["5001"]),
        ("Pay it, but not later than Friday", []),
        ("Book it at 3 pm and not after 5 pm", []),
        ("Void inv_3 but not the invoice inv_2", ["the invoice inv_2"]),
        ("Cancel it but do not refund it", []),
        ("Remove Anna and Ben, not Carl, from the group", ["Carl"]),
        ("Delete tickets 3, 4 and 5 but keep 4", ["4"]),
        ("Cancel all orders but ord_3", ["ord_3"]),
        ("Cancel every open order but A-3", ["A-3"]),
        ("Cancel all orders but tell me first", []),
        ("Cancel all orders but the paid ones", ["the paid ones"]),
    ],
)
def test_exceptions(query: str, things: list[str]) -> None:
    assert [query[start:end].strip() for start, end in excepted(query)] == things


@pytest.mark.parametrize(
    ("query", "desks"),
    [
        ("Release D-2, no wait, D-14", ["D-14"]),
        ("Release the desks D-2 and D-3 but not D-14", ["D-2", "D-3"]),
        ("Release the desks D-2 and D-14", ["D-2", "D-14"]),
    ],
)
def test_the_planner_changes_nothing_that_was_taken_back(backend: CompactBackend, query: str, desks: list[str]) -> None:
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=RELEASE, score=1),)))
    assert draft.plan is not None
    assert [step.arguments["desk_id"] for step in draft.plan.steps] == [LiteralValue(value=desk) for desk in desks]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Delete tickets 3, 4 and 5 but keep 4", [3, 5]),
        ("Delete tickets 3 to 6", [3, 4, 5, 6]),
        ("Delete tickets 3 through 6 except 5", [3, 4, 6]),
    ],
)
def test_lists_have_all_ids_but_what_is_excepted(backend: CompactBackend, query: str, left: list[int]) -> None:
    ids = {"type": "array", "items": {"type": "integer"}}
    of = api("deleteTickets", "Delete tickets", param("ids", ids, "Ids of the tickets", required=True), method="POST")
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=of, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["ids"] == LiteralValue(value=left)


STATUSES = {"type": "string", "enum": ["open", "in_review", "closed"]}


@pytest.mark.parametrize(
    ("query", "schema", "sent"),
    [
        ("List the tickets that are not closed", STATUSES, None),
        ("List the tickets that are not closed", {"type": "string", "enum": ["open", "closed"]}, "open"),
        ("List all tickets except the closed ones", {"type": "array", "items": STATUSES}, ["open", "in_review"]),
        ("List the open tickets, not closed ones", STATUSES, "open"),
        ("All tickets but the closed ones", STATUSES, None),
        ("Tickets that expire before May", {"type": "string", "enum": ["valid", "expired", "void"]}, None),
        ("Tickets that have expired", {"type": "string", "enum": ["valid", "expired", "void"]}, "expired"),
        ("List the open tickets, no, the closed ones", STATUSES, "closed"),
    ],
)
def test_options_that_are_denied_or_replaced_are_not_sent(
    backend: CompactBackend, query: str, schema: dict[str, object], sent: object
) -> None:
    of = api("listTickets", "List tickets", param("status", schema, "Status of the tickets"))
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=of, score=1),)))
    assert draft.plan is not None
    values = [step.arguments.get("status") for step in draft.plan.steps]
    assert [one.value if isinstance(one, LiteralValue) else one for one in values] == [sent]
