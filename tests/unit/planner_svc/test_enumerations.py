"""A list takes a whole enumeration, or what it was given."""

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.reading.enumerations import complete_enumeration, enumerated
from services.contracts.api import Api, Location
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import WHOLE, api, param


def members(text: str, *known: str) -> list[str]:
    """What a list has that was given these members, each where it stands first."""
    places = [(at := text.index(one), at + len(one)) for one in known]
    return [text[start:end] for start, end in complete_enumeration(text, places)]


@pytest.mark.parametrize(
    ("text", "known", "all_of_them"),
    [
        ("Add up 4, 8, 15, 16, 23 and 42 for me.", ["15"], ["4", "8", "15", "16", "23", "42"]),
        ("Add up 4, 8, 15, 16, 23 and 42 for me.", ["8", "42"], ["4", "8", "15", "16", "23", "42"]),
        ("mean of 10, 20, 60 plus the largest of 3, 99, 41", ["20"], ["10", "20", "60"]),
        ("-1.5; 2,000; +3", ["2,000"], ["-1.5", "2,000", "+3"]),
        ("tag it red, very green, and blue", ["red", "blue"], ["red", "very green", "blue"]),
        ('invite "Ana", "Bo Li" and "Cy"', ["Ana", "Cy"], ["Ana", "Bo Li", "Cy"]),
        ("copy ana@a.org, bo@b.org & cy@c.org", ["ana@a.org", "cy@c.org"], ["ana@a.org", "bo@b.org", "cy@c.org"]),
        ("ask Ana and Bo", ["Ana", "Bo"], ["Ana", "Bo"]),
        ("copy ana@a.org, bo.li@b.org & cy@c.org", ["ana@a.org"], ["ana@a.org", "bo.li@b.org", "cy@c.org"]),
        (
            "status of 0b1c-4f50, 1c2d-5061, 2d3e-6172",
            ["0b1c-4f50", "1c2d-5061"],
            ["0b1c-4f50", "1c2d-5061", "2d3e-6172"],
        ),
        ('tag "B-1", "B-2" and "B-3"', ["B-2"], ["B-1", "B-2", "B-3"]),
    ],
)
def test_members_that_are_missing_are_found(text: str, known: list[str], all_of_them: list[str]) -> None:
    assert members(text, *known) == all_of_them


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("send red to the printer, then blue", ["red", "blue"]),
        ("send red, or whatever\nyou have, and blue", ["red", "blue"]),
        ("3 apples and 5 pears", ["3"]),
        ("in room 12", ["12"]),
        ("between A-1 and A-5", ["A-1"]),
        ("at 5pm and 7pm", ["5pm"]),
        ("the 1st and 15th", ["1st"]),
        ("5kg and 7kg", ["5kg"]),
        ("on 2026-10-01 and 2026-10-05", ["2026-10-01"]),
        ("room B12 and order ORD-1", ["B12"]),
        ("on 2027-05-01, 14:30", ["2027-05-01"]),
        ("red" + ", " + "x" * 100 + ", blue", ["red", "blue"]),
        ("", []),
    ],
)
def test_what_is_no_enumeration_stays_as_it_was(text: str, known: list[str]) -> None:
    assert members(text, *known) == known


def test_hostile_texts_take_no_time() -> None:
    for text in (
        "1, " * 3_000,
        "1" * 10_000,
        " , and" * 2_000,
        "1,111" * 2_000,
        "- " * 5_000,
        "a1," * 3_000,
        "a1 " * 3_000,
    ):
        assert complete_enumeration(text, [(0, 1), (len(text) - 1, len(text))])


ORDER = api(
    "getOrder",
    "Get an order",
    param("orderId", WHOLE, "Id of the order", required=True).model_copy(update={"location": Location.PATH}),
    path="/orders/{orderId}",
)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("Show orders 101, 102 and 103", [101, 102, 103]),
        ("Show orders 101,102 and 103", [101, 102, 103]),
        ("Show order 101", [101]),
    ],
)
def test_each_member_of_an_enumeration_has_a_call(backend: CompactBackend, query: str, ids: list[int]) -> None:
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=ORDER, score=1),)))
    assert draft.plan is not None
    assert [step.arguments["orderId"] for step in draft.plan.steps] == [LiteralValue(value=one) for one in ids]


LOG = param("logId", {"type": "string"}, "Id of the log", required=True).model_copy(update={"location": Location.PATH})
ENABLE = api("enableLog", "Turn a log on", LOG, method="POST", path="/logs/{logId}/enable")
INVITE = api(
    "inviteUser",
    "Invite a user by e-mail",
    param("email", {"type": "string"}, "Address of the user", required=True),
    param("role", {"type": "string", "enum": ["teacher", "pupil"]}),
    method="POST",
)


@pytest.mark.parametrize(
    ("query", "called", "argument", "sent"),
    [
        ("Turn the logs 10ca and 10cb on", ENABLE, "logId", ["10ca", "10cb"]),
        ("Invite ana@a.org and bo@b.org as teachers", INVITE, "email", ["ana@a.org", "bo@b.org"]),
        ("Invite ana@a.org as a teacher", INVITE, "email", ["ana@a.org"]),
    ],
)
def test_each_code_of_an_enumeration_has_a_call(
    backend: CompactBackend, query: str, called: Api, argument: str, sent: list[str]
) -> None:
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=called, score=1),)))
    assert draft.plan is not None
    assert [step.arguments[argument] for step in draft.plan.steps] == [LiteralValue(value=one) for one in sent]


def test_an_end_of_a_range_of_ids_is_no_amount(backend: CompactBackend) -> None:
    order = param("orderId", WHOLE, required=True).model_copy(update={"location": Location.PATH})
    amount = param("amount", {"type": "number"}, "Amount, all if left out")
    refund = api("refundOrder", "Refund an order", order, amount, method="POST", path="/orders/{orderId}/refund")
    query = "Refund orders 12 to 14"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=refund, score=1),)))
    assert draft.plan is not None
    sent = [step.arguments for step in draft.plan.steps]
    assert sent == [{"orderId": LiteralValue(value=one)} for one in (12, 13, 14)]


@pytest.mark.parametrize("query", ["Show ticket 5, 3 days ago", "Show ticket 5 and 3 comments", "version 1.5 and 1.7"])
def test_other_numbers_are_no_enumeration(query: str) -> None:
    assert enumerated(query, (12, 13)) == []
