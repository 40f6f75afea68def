"""The whole road with backends whose answers are known: what is offered, asked, run and counted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.planning.asking import Answer
from evals.planning.demonstrations import read_demos
from evals.planning.evaluate import line_of
from evals.planning.offers import Source
from planner_svc.models import MissingValue, PlanDraft
from services.codecs import nestful
from services.contracts.planning import Diagnostic, PlanRequest
from services.contracts.trace import ModelAttempt, PlannerTrace
from services.errors import ServiceUnavailable
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.worlds import ROWS, TOOLS, Known, examine


def test_the_reference_solutions_score_what_they_must(tmp_path: Path) -> None:
    asked, told = examine(tmp_path, Source.OWN)
    # Three of four are solved; the fourth needs an API that nobody describes, and nothing is planned.
    assert (told.n, told.unknown_gold, told.format_acc) == (4, 1, 100.0)
    assert (told.tool.p, told.tool.right, told.tool.gold) == (100.0, 5, 6)
    assert (told.param.p, told.param.right, told.param.gold) == (100.0, 7, 8)
    assert (told.reference.f1, told.reference.gold) == (100.0, 1)
    assert told.partial_match == told.full_match == told.full_match_any_order == told.pass_rate == told.ran == 75.0
    assert told.answers == {"planned": 75.0, "needs_input": 0.0, "no_plan": 25.0, "failed": 0.0}
    assert {name: one.n for name, one in told.subsets.items()} == {"single": 2, "multi": 2, "nested": 1}
    assert (told.subsets["nested"].full_match, told.subsets["nested"].pass_rate) == (100.0, 100.0)
    assert told.subsets["single"].tool.r == 50.0
    assert told.calibration_error == pytest.approx(10.0)  # 0.9 for three that are right
    assert told.confident_half == 100.0
    assert 0 < told.latency_ms["p50"] <= told.latency_ms["p95"]
    assert [one.run_problem for one in asked] == ["", "", "", "no proved plan"]
    assert told.as_published.tool.f1 == told.tool.f1
    assert told.data == "data"


def test_a_draft_that_lacks_something_is_scored_and_not_run(tmp_path: Path) -> None:
    def forgetful(request: PlanRequest) -> PlanDraft:
        calls: list[Any] = [{"name": "bookHotel", "arguments": {"nights": 2}}]
        calls.append({"name": "var_result", "arguments": {"x": "$var1$"}})
        missing = (MissingValue("var1", "hotel_id", "Which hotel?"),)
        return PlanDraft(nestful.decode(calls), 0.7, missing)

    # The compiler would find the hotel by a call of its own; without `findHotel` it cannot.
    (asked,), told = examine(tmp_path, Source.GIVEN, Known(forgetful), [ROWS[2] | {"tools": ["bookHotel"]}])
    assert (asked.answer.status, asked.answer.reason) == ("needs_input", "Which hotel?")
    assert asked.answer.compiled is None
    assert (told.tool.right, told.tool.predicted, told.tool.gold) == (1, 1, 2)
    assert (told.param.right, told.param.predicted, told.param.gold) == (1, 1, 3)
    assert (told.pass_rate, told.ran, told.answers["needs_input"], told.format_acc) == (0.0, 0.0, 100.0, 100.0)
    assert line_of(asked)["predicted"][0]["arguments"] == {"nights": 2}
    assert line_of(asked)["missing_candidates"] == ["findHotel"]


def test_a_plan_that_runs_and_calls_something_else_does_not_pass(tmp_path: Path) -> None:
    def obliging(request: PlanRequest) -> PlanDraft:
        calls: list[Any] = [{"name": "getWeather", "arguments": {"city": "Faro"}, "label": "a"}]
        calls += (
            [{"name": "findHotel", "arguments": {"city": "Faro"}, "label": "b"}] if "hotel" in request.query else []
        )
        return PlanDraft(nestful.decode([*calls, {"name": "var_result", "arguments": {"x": "$a$"}}]), 0.9)

    rows = [ROWS[0], ROWS[2]]  # the second needs a booking
    asked, told = examine(tmp_path, Source.OWN, Known(obliging), rows)
    assert [(one.judged.ran, one.judged.passed) for one in asked] == [(True, True), (True, False)]
    assert (told.ran, told.pass_rate, told.subsets["nested"].ran) == (100.0, 50.0, 100.0)
    assert (line_of(asked[1])["ran"], line_of(asked[1])["passed"]) == (True, False)


def test_a_plan_that_cannot_be_proved_is_no_plan(tmp_path: Path) -> None:
    def wrong(request: PlanRequest) -> PlanDraft:
        return PlanDraft(nestful.decode([{"name": "nowhere", "arguments": {}}]), 0.99)

    (asked,), told = examine(tmp_path, Source.GOLD, Known(wrong), ROWS[:1])
    assert asked.answer.status == "no_plan"
    assert (told.tool.predicted, told.full_match, told.calibration_error) == (0, 0.0, 0.0)


def test_an_error_is_no_form(tmp_path: Path) -> None:
    def broken(request: PlanRequest) -> PlanDraft:
        raise ServiceUnavailable("the model is away", service="model")

    (asked, _), told = examine(tmp_path, Source.GOLD, Known(broken), ROWS[:2])
    assert (asked.answer.status, told.format_acc, told.answers["failed"]) == ("failed", 0.0, 100.0)
    assert "the model is away" in asked.answer.reason


@pytest.mark.parametrize(
    ("readable", "well_formed"),
    [([True], True), ([False], False), ([False, True], False), ([True, False], True), ([], True)],
)
def test_a_language_models_form_is_that_of_its_first_text(readable: list[bool], well_formed: bool) -> None:
    # What the compiler finds in a text is a problem of it, and none of its form.
    attempts = tuple(ModelAttempt(output="{}", readable=one, problem="something") for one in readable)
    trace = PlannerTrace(model="m", prompt_version="1", attempts=attempts)
    assert Answer("no_plan", traces=(trace,)).well_formed is well_formed
    assert not Answer("failed").well_formed


def drafted(*calls: dict[str, Any], **more: Any) -> PlanDraft:
    trace = PlannerTrace(model="m", prompt_version="1", attempts=(ModelAttempt(output=f"{calls}", readable=True),))
    answer: Any = {"name": "var_result", "arguments": {"x": "$var1$"}}
    return PlanDraft(nestful.decode([*calls, answer]), 0.7, trace=trace, **more)


def test_a_repaired_draft_is_the_one_that_counts(tmp_path: Path) -> None:
    async def better(diagnostics: Sequence[Diagnostic]) -> PlanDraft:
        assert "unknown_argument" in {one.code for one in diagnostics}
        return drafted({"name": "bookHotel", "arguments": {"nights": 2}})

    def first(request: PlanRequest) -> PlanDraft:
        return drafted({"name": "bookHotel", "arguments": {"nights": 2, "hotel_id": "h", "x": 1}}, revise=better)

    (asked,), told = examine(tmp_path, Source.GIVEN, Known(first), [ROWS[2] | {"tools": ["bookHotel"]}])
    assert (asked.answer.status, told.tool.right, told.param.predicted, told.model) == ("needs_input", 1, 1, "m")
    assert line_of(asked)["predicted"][0]["arguments"] == {"nights": 2}


def test_a_model_that_fails_in_the_middle_has_written_all_the_same(tmp_path: Path) -> None:
    async def away(diagnostics: Sequence[Diagnostic]) -> PlanDraft:
        raise ServiceUnavailable("the model is away", service="model")

    def first(request: PlanRequest) -> PlanDraft:
        return drafted({"name": "nowhere", "arguments": {}}, revise=away)

    (asked,), told = examine(tmp_path, Source.GOLD, Known(first), ROWS[:1])
    assert (asked.answer.status, told.format_acc, told.tool.predicted) == ("failed", 100.0, 0)
    assert "nowhere" in line_of(asked)["outputs"][0]["output"]


def test_what_a_planner_misses_is_looked_up_once(tmp_path: Path) -> None:
    rows = [ROWS[0] | {"query": "Find a hotel in Faro", "tools": ["findHotel"]}]  # which nobody offers the weather for
    offered: list[tuple[set[str], tuple[str, ...]]] = []

    def missing(request: PlanRequest) -> PlanDraft:
        offered.append(({one.api.id for one in request.candidates}, request.looked_up))
        return PlanDraft(None, needs=("the weather of a city",))

    def glad(request: PlanRequest) -> PlanDraft:
        calls: list[Any] = [{"name": "getWeather", "arguments": {"city": "Faro"}}]
        calls.append({"name": "var_result", "arguments": {"x": "$var1$"}})
        return PlanDraft(nestful.decode(calls)) if request.looked_up else missing(request)

    (one,), told = examine(tmp_path, Source.OWN, Known(glad), rows, k=1)
    assert offered == [({"findHotel"}, ())]
    assert (told.full_match, told.pass_rate) == (100.0, 100.0)
    assert (line_of(one)["missing_candidates"], "getWeather" in line_of(one)["looked_up"]) == ([], True)
    # It is asked once more and no oftener, and not at all where candidates are given.
    offered.clear()
    (one,), told = examine(tmp_path, Source.OWN, Known(missing), rows, k=1)
    assert [api_ids >= {"findHotel", *new} for api_ids, new in offered] == [True, True]
    assert (one.answer.status, told.answers["no_plan"]) == ("no_plan", 100.0)
    offered.clear()
    (one,), _ = examine(tmp_path, Source.GIVEN, Known(missing), rows)
    assert (len(offered), line_of(one)["missing_candidates"]) == (1, ["getWeather"])


def test_demos_reach_the_planner(tmp_path: Path) -> None:
    seen: dict[str, list[str]] = {}

    def looking(request: PlanRequest) -> PlanDraft:
        seen[request.query] = [one.demo.query for one in request.demos]
        return PlanDraft(None, 0.5)

    rows = [row | {"query": f"{row['query']} Please."} for row in ROWS[:3]]
    solved = read_demos(folder(tmp_path / "solved", TOOLS, [row | {"id": f"s-{row['id']}"} for row in ROWS]))
    asked, told = examine(tmp_path, Source.OWN, Known(looking), [*ROWS[:1], *rows], solved)
    assert [line_of(one)["demos"] for one in asked] == list(seen.values())
    assert told.demos_shown == sum(map(len, seen.values())) > 3
    assert ROWS[0]["query"] not in seen[ROWS[0]["query"]]  # its own
    assert [row["query"].removesuffix(" Please.") in seen[row["query"]] for row in rows] == [True] * 3


def test_a_line_tells_all_there_is_to_analyse(tmp_path: Path) -> None:
    asked, _ = examine(tmp_path, Source.OWN)
    line = json.loads(json.dumps(line_of(asked[2])))
    assert (line["id"], line["subsets"], line["status"]) == ("nested", ["multi", "nested"], "planned")
    assert line["gold"][1]["arguments"]["hotel_id"] == "$var_1.hotel_id$"
    assert line["predicted"][1]["name"] == "bookHotel"
    assert (line["tool"], line["reference"], line["full_match"], line["passed"]) == ([2, 2, 2], [1, 1, 1], True, True)


def test_what_the_service_would_not_wait_for_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_PLANNER_BACKEND_TIMEOUT_S", "0.000001")
    _, told = examine(tmp_path, Source.OWN)
    assert (told.late, told.answers["failed"], told.full_match) == (100.0, 0.0, 75.0)
    monkeypatch.delenv("NESTOR_PLANNER_BACKEND_TIMEOUT_S")
    _, told = examine(tmp_path, Source.OWN)
    assert told.late == 0.0
