"""Patterns read long runs of blanks, marks and words once. Each of these took minutes or hours where they did not."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from planner_svc.backends.compact.forms import Form, written
from planner_svc.backends.compact.looks import quotations, sentence_ends
from planner_svc.reading.actions import asks_for_action, may_be_meant, told
from planner_svc.reading.dates import DateReader
from planner_svc.reading.enumerations import whole
from planner_svc.reading.profile import read_profile
from planner_svc.reading.values import find_spans
from tests.unit.planner_svc.building import api

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LONG = 100_000
HOSTILE = {
    "blanks before a verb": "please" + " " * LONG + "5 order cancel",
    "nothing but blanks": " " * LONG,
    "tabs and lines": "\t\n" * LONG,
    "blanks and a comma": "a" + " " * LONG + ", b",
    "told and blanks": "text: " * 2_000 + " " * LONG + '"',
    "opening marks": "\u2018" * LONG,
    "number words": "one two " * (LONG // 8),
}
READERS: dict[str, Callable[[str], object]] = {
    "told": lambda text: list(told(text)),
    "asks_for_action": asks_for_action,
    "quotations": quotations,
    "sentence_ends": sentence_ends,
    "list": lambda text: written(Form.LISTED, text, NOW),
    "enumerations": lambda text: whole(text, [(0, 1), (len(text) - 1, len(text))]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", HOSTILE)
def test_long_runs_are_read_once(reader: str, text: str) -> None:
    READERS[reader](HOSTILE[text])


@pytest.mark.parametrize("text", HOSTILE)
def test_values_and_dates_of_requests_as_long_as_they_may_be(text: str) -> None:
    cut = HOSTILE[text][-10_000:]
    find_spans(cut, NOW)
    DateReader(NOW).find(cut)


def test_every_candidate_is_asked_of_a_long_request() -> None:
    profile = read_profile(api("cancelOrder", method="DELETE"))
    assert profile.effect == "destroy"
    query = HOSTILE["blanks before a verb"]
    for _ in range(1_000):
        may_be_meant(profile, query)
