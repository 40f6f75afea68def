"""Frozen plans: the same twice, and different where a plan is."""

import asyncio
import json
from pathlib import Path

import pytest

from deploy.onebox import running_stack
from tests.e2e.questions import read_questions
from tests.support.frozen_plans import freeze, main


def test_plans_are_the_same_twice(tmp_path: Path) -> None:
    asked = [question for question in read_questions("dev") if question["kind"] != "no_plan"][:4]
    nothing = {"id": "none", "query": "Paint my garden fence green"}
    with running_stack(tmp_path) as found:
        first, second = (asyncio.run(freeze(found.gateway_url, [*asked, nothing])) for _ in range(2))
    assert first == second
    assert first.keys() == {*(question["id"] for question in asked), "none"}
    assert first.pop("none") == "no_plan"
    assert any(len(plan) == 64 for plan in first.values())


def test_comparing_prints_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, plans in (("a", {"q1": "x", "q2": "y", "q3": "z"}), ("b", {"q1": "x", "q2": "other", "q4": "z"})):
        file = tmp_path / name
        file.write_text(json.dumps(plans))
        files.append(str(file))
    assert main(["compare", *files]) == 1
    assert capsys.readouterr().out.split("\n")[:4] == ["q2", "q3", "q4", "3 plans differ"]
    assert main(["compare", files[0], files[0]]) == 0
