"""Sharing values out between calls of one API."""

from datetime import UTC, datetime

import pytest

from planner_svc.backends.rules.spread import spread
from planner_svc.reading.values import HARD, find_spans

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


def rows(text: str, *used: str) -> list[list[list[str]]]:
    """All ways, each row as its values' texts in order, after a call that used these texts."""
    spans = [span for span in find_spans(text, NOW) if span.kind in HARD and span.kind != "list"]
    first = {span.text: span for span in reversed(spans)}
    ways = spread(spans, [first[part] for part in used])
    return [[[s.text for s in sorted(row, key=lambda s: s.start)] for row in way] for way in ways]


@pytest.mark.parametrize(
    ("text", "used", "way"),
    [
        ("12 AB1 in CD2 plus 40 EF3 in GH4", ["12", "AB1", "CD2"], [["12", "AB1", "CD2"], ["40", "EF3", "GH4"]]),
        (
            "On 2027-05-01, is AB1 open and is CD2",
            ["2027-05-01", "AB1"],
            [["2027-05-01", "AB1"], ["2027-05-01", "CD2"]],
        ),
        ("AB1 or CD2 on 2027-05-01", ["2027-05-01", "AB1"], [["AB1", "2027-05-01"], ["CD2", "2027-05-01"]]),
    ],
)
def test_each_row_holds_what_one_call_takes(text: str, used: list[str], way: list[list[str]]) -> None:
    assert way in rows(text, *used)


def test_one_call_that_uses_all_is_left_alone() -> None:
    assert rows("from AB1 to CD2", "AB1", "CD2") == []
