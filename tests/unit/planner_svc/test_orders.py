"""Options of an order begin with what a request wants first."""

import pytest

from planner_svc.backends.compact.options import in_order_said, is_verb, orders_texts
from planner_svc.reading.choices import named_choices
from planner_svc.reading.profile import read_profile
from tests.unit.planner_svc.building import TEXT, WHOLE, api, listed, param, record

CHOICES = ("startsAt", "-startsAt", "dispersed", "-dispersed", "age", "-age", "name")


@pytest.mark.parametrize(
    ("query", "value", "meant"),
    [
        ("top 3 flights by dispersed", "dispersed", "-dispersed"),
        ("the latest flight", "startsAt", "-startsAt"),
        ("the earliest flight", "-startsAt", "startsAt"),
        ("flights with at most 3 birds", "dispersed", "dispersed"),
        ("the oldest and the newest", "startsAt", "startsAt"),
        ("flights by start", "-startsAt", "-startsAt"),
        ("top names", "name", "name"),
        ("most of the flights by dispersed", "dispersed", "dispersed"),
        ("the oldest birds", "-age", "-age"),
    ],
)
def test_the_sign_follows_the_words(query: str, value: str, meant: str) -> None:
    assert in_order_said(query, CHOICES, value) == meant


@pytest.mark.parametrize(
    ("value", "of_texts"),
    [("name", True), ("-name", True), ("size", False), ("createdAt", False), ("birthDate", False), ("weight", False)],
)
def test_no_size_is_first_of_texts(value: str, of_texts: bool) -> None:
    shown = record(name=TEXT, size=WHOLE, createdAt=TEXT, birthDate=TEXT)
    found = api("list", path="/projects", method="GET", returns=record(items=listed(shown)))
    assert orders_texts(read_profile(found), value) is of_texts


@pytest.mark.parametrize(
    ("query", "verb"),
    [
        ("permits that expire before May", True),
        ("which permits expire in May?", True),
        ("permits expiring in May", True),
        ("expire the permits", True),
        ("expired permits", False),
        ("show my expires", False),
        ("list all the expires of May", False),
    ],
)
def test_a_verb_is_no_state(query: str, verb: bool) -> None:
    slot = read_profile(api("list", param("state", {"enum": ["expired", "valid"]}))).slots[0]
    assert [is_verb(query, one) for one in named_choices(slot, query)] == [verb]
