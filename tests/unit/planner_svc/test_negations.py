"""A flag that the request denies is false."""

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.reading.negations import denied
from planner_svc.reading.profile import read_profile
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, FLAG, api, param


@pytest.mark.parametrize(
    ("name", "query", "word"),
    [
        ("smoking", "a non-smoking room", "smoking"),
        ("smokingRoom", "a nonsmoking or non smoking room", "nonsmoking"),
        ("smoking", "no smoking, please", "smoking"),
        ("breakfast", "a room without breakfast", "breakfast"),
        ("includeBreakfast", "without any breakfast", "breakfast"),
        ("breakfast_included", "breakfast is not included", "breakfast"),
        ("breakfast", "breakfast isn't needed", "breakfast"),
        ("archived", "tasks that are not archived", "archived"),
        ("notify", "and don't notify Ann", "notify"),
        ("paid", "show the unpaid invoices", "unpaid"),
        ("isBillable", "a nonbillable project", "nonbillable"),
        ("SmsCommandsEnabled", "500 MB, SMS commands off", "commands"),
        ("notifications", "switch off notifications for all", "notifications"),
        ("backup", "with the backup disabled", "backup"),
        # said, or not denied by the word before
        ("paid", "the paid and the unpaid ones", None),
        ("backup", "back up off site, with a backup", None),
        ("discount", "a discount off the price", None),
        ("till", "until the till is open", None),
        ("breakfast", "with breakfast", None),
        ("breakfast", "not too late, with breakfast", None),
        ("breakfast", "no dinner, breakfast", None),
        ("breakfast", 'with the note "without breakfast"', None),
        ("breakfast", "without breakfast on Monday, with breakfast on Tuesday", None),
        ("smokingRoom", "no preference of room, but it is a smoking room", None),
        # the name itself is negative
        ("nonSmoking", "a non-smoking room", None),
        ("skip_breakfast", "without breakfast", None),
    ],
)
def test_a_flag_is_denied_by_the_words_beside_it(name: str, query: str, word: str | None) -> None:
    profile = read_profile(api("bookStay", "Book a stay", param(name, FLAG)))
    place = denied(profile, profile.slots[0], query)
    assert (query[slice(*place)] if place else None) == word


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("Card 5 is not active, turn it on", None),
        ("My card isn't active yet. Turn it on", None),
        ("Set card 5 to active not suspended", None),
        ("Card 5, not active", "active"),
    ],
)
def test_how_things_are_does_not_say_how_they_are_to_be(query: str, word: str | None) -> None:
    profile = read_profile(api("updateCard", "Update a card", param("active", FLAG), method="PATCH"))
    place = denied(profile, profile.slots[0], query)
    assert (query[slice(*place)] if place else None) == word


@pytest.mark.parametrize("words", ["non-smoking", "breakfast not included"])
def test_the_planner_sends_false_for_a_flag_that_is_denied(backend: CompactBackend, words: str) -> None:
    book = api(
        "bookRoom",
        "Book a hotel room",
        param("checkIn", DAY, "First night", required=True),
        param("guestName", about="Name of the guest", required=True),
        param("smoking", FLAG, "Whether it is a smoking room"),
        param("breakfast", FLAG, "Whether breakfast is included"),
        method="POST",
    )
    query = f"Book a single room for Anna Keller on 4 December 2026, {words}"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=book, score=1),)))
    assert draft.plan is not None
    flags = [one for name, one in draft.plan.steps[0].arguments.items() if name in ("smoking", "breakfast")]
    assert flags == [LiteralValue(value=False)]
