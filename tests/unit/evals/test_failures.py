"""Why plans were wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.failures import REASONS, Line, main, reason_of

GOLD = [
    {"name": "find", "arguments": {"city": "Oslo", "stars": 4}, "label": "var_1"},
    {"name": "book", "arguments": {"id": "$var_1.id$"}, "label": "var_2"},
]


def planned(find: dict[str, Any] | None = None, book: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    first = {"name": "find", "arguments": {"city": "Oslo", "stars": 4} if find is None else find, "label": "var1"}
    second = {"name": "book", "arguments": {"id": "$var1.id$"} if book is None else book, "label": "var2"}
    return [first, second, {"name": "var_result", "arguments": {"x": "$var2$"}}]


def line(predicted: list[dict[str, Any]], missing: tuple[str, ...] = (), *, full: bool = False) -> dict[str, Any]:
    return {
        "id": "1",
        "query": "Book a hotel in Oslo with 4 stars",
        "gold": GOLD,
        "predicted": predicted,
        "confidence": 0.5,
        "full_match": full,
        "full_match_any_order": full,
        "missing_candidates": list(missing),
    }


CASES = {
    "not among the candidates": line(planned()[:1], ("book",)),
    "not called": line(planned()[:1]),
    "called, and not asked for": line([*planned(), {"name": "more", "arguments": {}}]),
    "called too often or too seldom": line([*planned(), planned()[0]]),
    "a value instead of a reference": line(planned(book={"id": "Oslo"})),
    "a reference instead of a value": line(planned(find={"city": "$var2.city$", "stars": 4})),
    "another reference": line(planned(book={"id": "$var1.name$"})),
    "no reference": line(planned(book={})),
    "no value": line(planned(find={"city": "Oslo"})),
    "a value too many": line(planned(find={"city": "Oslo", "stars": 4, "price": 3})),
    "another form": line(planned(find={"city": "oslo", "stars": 4})),
    "other words": line(planned(find={"city": "Bergen", "stars": 4})),
}


@pytest.mark.parametrize("reason", CASES)
def test_the_reason_is_found(reason: str) -> None:
    assert reason in REASONS
    assert reason_of(Line.model_validate(CASES[reason])).reason == reason


def test_reasons_are_counted_and_failures_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*CASES.values(), line(planned(), full=True)]
    file = tmp_path / "out.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main([str(file), "--show", "3"]) == 0
    out = capsys.readouterr().out
    assert f"{len(CASES)} of {len(rows)} plans" in out
    assert "| other words | 1 |" in out
    assert out.count("Book a hotel") == 3
    assert main([str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl" in capsys.readouterr().err


def test_a_field_of_a_loops_item_is_a_reference() -> None:
    find, _, answer = planned(find={"city": "Oslo"})
    each = {"name": "book", "arguments": {"id": "$@.id$"}, "label": "var2", "foreach": {"items": "$var1.hotels$"}}
    told = line([find, each, answer])
    told["gold"] = [GOLD[0], {**GOLD[1], "arguments": {"id": "$var_1.hotels.*.id$"}}]
    found = reason_of(Line.model_validate(told))
    assert (found.reason, found.detail) == ("no value", "find.stars: 4")
