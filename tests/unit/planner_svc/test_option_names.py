"""Options that are codes are found by the words that the description and the calendar have for them."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.reading.choices import named_choices
from planner_svc.reading.negations import denies
from planner_svc.reading.option_names import option_names
from planner_svc.reading.profile import Slot, read_profile
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, api, param


def slot(choices: Sequence[Any], about: str, name: str = "room_type", *, listed: bool = False) -> Slot:
    item = {"enum": list(choices)}
    schema: dict[str, Any] = {"type": "array", "items": item} if listed else item
    return read_profile(api("book", "Book", param(name, schema, about))).slots[0]


def named(one: Slot, text: str) -> list[Any]:
    return [found.value for found in named_choices(one, text)]


@pytest.mark.parametrize(
    "about",
    [
        "DBL double, SGL single",
        "The type: DBL: double; SGL: single",
        "DBL = double\nSGL = single",
        "DBL - double, SGL - single",
        "One of `DBL` (double) or `SGL` (single).",
        "double (DBL), single (SGL)",
        "DBL double room, SGL single room",
        "Use DBL for double and SGL for single rooms",
    ],
)
def test_a_code_is_named_by_what_the_description_calls_it(about: str) -> None:
    one = slot(["SGL", "DBL"], about)
    assert named(one, "Book a double room for Ann") == ["DBL"]
    assert named(one, "Book a single for Ann") == ["SGL"]
    assert named(one, "Book a DBL for Ann") == ["DBL"]


def test_numbers_are_named_too() -> None:
    one = slot([1, 2, 3], "Priority, 1 = low, 2 = medium, 3 = high", "priority")
    assert named(one, "a ticket with high priority") == [3]


@pytest.mark.parametrize(
    ("choices", "about"),
    [
        (["SGL", "DBL"], "One of SGL, DBL"),
        (["SGL", "DBL"], "SGL or DBL"),
        (["SGL", "DBL"], "SGL room, DBL room"),
        (["active", "closed"], "Whether active users or closed accounts are listed"),
        (["A", "B"], "A (first), or another letter"),
        (["S", "M"], "S: 36, M: 38"),
        (["Y", "N"], ""),
        (["x" * n for n in range(1, 300)], "x (one), xx (two)"),
    ],
)
def test_a_description_that_explains_no_code_gives_no_names(choices: list[str], about: str) -> None:
    assert option_names(slot(choices, about)) == {}


def test_long_options_are_no_codes() -> None:
    """A pattern of all options is compiled and kept."""
    long = "x" * 100_000
    assert option_names(slot(["A", "B", long], f"A (one), B (two), {long[:1_000]}")) == {}


@pytest.mark.parametrize(
    "days",
    [
        ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"],
        ["MO", "TU", "WE", "TH", "FR"],
        ["Mon", "Tues", "Wed", "Thurs", "Fri"],
    ],
)
def test_weekdays_are_named_in_full_and_in_short(days: list[str]) -> None:
    one = slot(days, "", "day")
    assert named(one, "every Monday and Thursday") == [days[0], days[3]]
    assert named(one, "on Tue, WED and Fridays") == [days[1], days[2], days[4]]


def test_months_are_named_in_full_and_in_short() -> None:
    months = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
    assert named(slot(months, "", "month"), "the sales of March and Sept") == ["MAR", "SEP"]


@pytest.mark.parametrize(
    ("query", "code"),
    [("Book a double room", "DBL"), ("Book a twin room", "TWN"), ("Book a room, single", "SGL")],
)
def test_the_planner_sends_the_code_that_is_named(backend: CompactBackend, query: str, code: str) -> None:
    kinds = {"type": "string", "enum": ["SGL", "DBL", "TWN", "STE"]}
    book = api(
        "bookRoom",
        "Book a hotel room",
        param("roomType", kinds, "Type of the room: SGL single, DBL double, TWN twin, STE suite", required=True),
        param("guestName", about="Name of the guest", required=True),
        param("checkIn", DAY, "First night", required=True),
        method="POST",
    )
    query += " for Anna Keller on 4 December 2026"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=book, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["roomType"] == LiteralValue(value=code)


@pytest.mark.parametrize(
    ("text", "named"),
    [("30 by 20 inches", ["in"]), ("12 in wide", ["in"]), ("24 ounces", ["oz"]), ("20 cm, sent in May", ["cm"])],
)
def test_symbols_are_found_by_the_names_of_units(text: str, named: list[str]) -> None:
    """ "in" is a preposition unless a number is before it."""
    unit = param("unit", {"type": "string", "enum": ["cm", "in", "oz"]})
    (slot,) = read_profile(api("createParcel", "Create a parcel", unit)).slots
    assert [one.value for one in named_choices(slot, text)] == named


def test_an_article_may_stand_in_the_name_of_an_option() -> None:
    state = slot(["available", "in_workshop"], "State")
    assert named(state, "trucks that are in the workshop") == ["in_workshop"]


@pytest.mark.parametrize("text", ["trucks not in the workshop", "customers who are not on the basic tariff"])
def test_an_option_with_a_preposition_is_denied(text: str) -> None:
    (one,) = named_choices(slot(["in_workshop", "basic"], "State"), text)
    assert denies(text, (one.start, one.end), changes=False)


GROUPS = ["A+", "A-", "AB+", "AB-", "O+", "O-"]


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("all O- red cells", ["O-"]),
        ("Order 2 O- red cells and 1 A+ plasma", ["O-", "A+"]),
        ("Who has AB negative?", ["AB-"]),
        ("O positive, or o-.", ["O+", "O-"]),
        ("Take vitamin A and the AB bus to O-17", []),
    ],
)
def test_options_that_only_signs_tell_apart_are_named_by_their_signs(text: str, choices: list[str]) -> None:
    assert named(slot(GROUPS, "Blood group", "blood_group"), text) == choices


def test_thousands_of_options_with_signs_are_looked_through_at_once() -> None:
    """For each of them a pattern was compiled: seven seconds without a checkpoint, for each request."""
    many = slot([f"{number:x}{sign}" for number in range(10_000) for sign in "+-"], "Grade", "grade")
    began = time.thread_time()
    assert named(many, "Send grade 2f7 minus and 1a+") == ["2f7-", "1a+"]
    assert time.thread_time() - began < 2


def test_a_sign_before_an_option_counts_only_if_it_is_said() -> None:
    order = slot(["-created_at", "created_at"], "Order", "sort")
    assert named(order, "sorted by created at") == ["created_at"]
    assert named(order, "sorted by -created_at") == ["-created_at"]


def test_the_planner_sends_the_option_with_the_sign_that_is_said(backend: CompactBackend) -> None:
    group = {"type": "string", "enum": ["A+", "A-", "B+", "B-", "AB+", "AB-", "O+", "O-"]}
    find = api("findDonors", "Find donors", param("blood_group", group, "Blood group"))
    query = "Which donors have blood group O-?"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=find, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments == {"blood_group": LiteralValue(value="O-")}
