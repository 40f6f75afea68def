"""Patterns read long runs of blanks, marks and words once, and schemas are read once, however many refer to them.

Each of these took minutes or hours where they were not.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import JsonValue

from planner_svc.backends.compact.forms import Form, written
from planner_svc.backends.compact.surface_features import quotations, sentence_ends
from planner_svc.compiler import expansion, findings, schemas
from planner_svc.compiler.arguments import ArgumentChecker
from planner_svc.compiler.expansion import KINDS, Branch
from planner_svc.compiler.findings import Findings
from planner_svc.compiler.implicit import find_missing
from planner_svc.compiler.nodes import ANYTHING, Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.proving import untold, unused_values
from planner_svc.proving.wrong_target import wrong_change_reason
from planner_svc.reading.actions import asks_for_action, find_imperatives, may_be_meant
from planner_svc.reading.dates import DateReader
from planner_svc.reading.enumerations import complete_enumeration
from planner_svc.reading.profile import MAX_MEMBERS, read_profile
from planner_svc.reading.questions import asks_only_for_facts
from planner_svc.reading.values import find_spans
from services.contracts.api import Api, Location
from services.errors import DeadlineExceeded
from tests.unit.planner_svc.building import TEXT, api, param, plan, prove, record, step, used_up

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
    "imperatives": lambda text: list(find_imperatives(text)),
    "asks_for_action": asks_for_action,
    "asks_only_for_facts": asks_only_for_facts,
    "quotations": quotations,
    "sentence_ends": sentence_ends,
    "list": lambda text: written(Form.LISTED, text, NOW),
    "enumerations": lambda text: complete_enumeration(text, [(0, 1), (len(text) - 1, len(text))]),
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


def of_shared(count: int, **beside: Any) -> Api:
    """So many objects that all refer to one definition of 64 alternatives, which each list 40 texts."""
    halves = [
        {"anyOf": [record(**{f"{half}{index}_{at}": TEXT for at in range(20)}) for index in range(8)]} for half in "qr"
    ]
    parameters = (param(f"p{index}", {"$ref": "#/$defs/X", **beside}, at=Location.BODY) for index in range(count))
    return api("make", *parameters, method="POST", definitions={"X": {"allOf": halves}})


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many schemas are looked at for a member, one number each time."""
    seen: list[int] = []

    def counted(branch: Branch, name: str, strict: bool) -> list[JsonValue] | None:
        seen.append(len(branch))
        return members(branch, name, strict)

    members = expansion.members_of
    monkeypatch.setattr(schemas, "members_of", counted)
    return seen


def test_what_many_refer_to_is_read_once(visits: list[int]) -> None:
    few = len(read_profile(of_shared(1)).slots) and sum(visits)
    visits.clear()
    profile = read_profile(of_shared(50))
    assert sum(visits) <= 2 * few
    assert all(len(slot.children) == MAX_MEMBERS for slot in profile.slots[:20])


def test_an_api_is_read_within_one_budget(visits: list[int]) -> None:
    profile = read_profile(of_shared(100, title="another"))
    assert sum(visits) <= schemas.TOTAL_BUDGET
    assert profile.slots[0].kinds == {"object"}
    assert profile.slots[-1].kinds == KINDS - {"null"}


def test_reading_an_api_ends_at_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "checkpoint", used_up)
    with pytest.raises(DeadlineExceeded):
        read_profile(api("get_thing", param("name")))


def test_what_is_past_the_budget_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "TOTAL_BUDGET", 10)
    found = schemas.Schemas()
    known, later = (Node(record(**{f"{at}{index}": TEXT for index in range(6)})) for at in "ab")
    assert found.kinds(known) == {"object"}
    assert found.is_anything(later)
    assert found.child(later, "other", strict=True) is ANYTHING
    assert found.kinds(known) == {"object"}
    assert found.problem(later, {"b0": 1}) is not None  # a validator knows


def test_every_candidate_is_asked_of_a_long_request() -> None:
    profile = read_profile(api("cancelOrder", method="DELETE"))
    assert profile.effect == "destroy"
    query = HOSTILE["blanks before a verb"]
    for _ in range(1_000):
        may_be_meant(profile, query)


@pytest.mark.parametrize("words", ["freeze card 5, ", "my card ", "can you freeze card 5, ", "and "])
def test_the_things_of_a_long_request_are_looked_up_within_bounds(words: str) -> None:
    cancel = api("cancelOrder", param("id"), method="DELETE")
    wrong_change_reason(words * (LONG // len(words)), plan(step("a", "cancelOrder", id="5")), {cancel.id: cancel})


def test_names_are_compared_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def noting(name: str, known: list[str]) -> list[str]:
        compared.append(sum(len(name) * len(other) for other in known))
        return known[:1]

    monkeypatch.setattr("planner_svc.compiler.findings.difflib.get_close_matches", noting)
    found = findings.Findings()
    assert found.similar("colour", ["color", "x" * 65]) == ["color"]
    assert found.similar("x" * 65, ["x"]) == []
    for _ in range(findings.MAX_SUGGESTIONS):
        found.similar("ab" * 32, ["ba" * 32] * 2_000)
    assert sum(compared) <= 2_000_000


def test_numbers_of_a_plan_are_looked_up() -> None:
    looked: list[Any] = []

    class Noting(list[float]):
        def __getitem__(self, place: Any) -> Any:
            looked.append(place)
            return super().__getitem__(place)

    said = unused_values._PlanValues(plan(step("a", "x", numbers=list(range(10_000, 40_000)))), {"t.x": api("x")})
    said._numbers = Noting(said._numbers)
    assert said._number(-12_345 / 60)
    assert not said._number(0.1234567)
    assert len(looked) < 40 * 72


def test_what_is_missing_is_counted_to_a_bound() -> None:
    wide = api("wide", *(param(f"p{number}", required=True) for number in range(60)))
    asked = plan(*(step(f"s{number}", "wide") for number in range(40)))
    assert prove(asked, wide).compiled is None
    checker = ArgumentChecker(asked, {wide.id: wide}, Schemas(), Findings())
    assert len(find_missing(asked, {wide.id: wide}, checker)) == 1_000


def test_listed_values_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def split(name: str) -> list[str]:
        read.append(name)
        return [name]

    monkeypatch.setattr(untold, "split_name", split)
    listed = {"enum": [f"value {number}" for number in range(900)]}
    untold._words(read_profile(api("list", *(param(f"p{number}", listed) for number in range(30)))))
    assert len(read) == 900
    read.clear()
    each = (param(f"p{n}", {"enum": [f"v{n}x{m}" for m in range(900)]}) for n in range(30))
    untold._words(read_profile(api("list", *each)))
    assert len(read) == 5_000
