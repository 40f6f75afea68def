"""Options of an order begin with what a request wants first."""

import pytest

from planner_svc.backends.compact.options import in_order_said

CHOICES = ("startsAt", "-startsAt", "dispersed", "-dispersed", "name")


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
    ],
)
def test_the_sign_follows_the_words(query: str, value: str, meant: str) -> None:
    assert in_order_said(query, CHOICES, value) == meant
