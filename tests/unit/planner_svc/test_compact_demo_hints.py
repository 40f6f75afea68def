"""What demonstrations show."""

from datetime import UTC, datetime

from planner_svc.backends.compact.demo_hints import hints_from
from planner_svc.backends.compact.forms import Form
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import Plan
from tests.unit.planner_svc.building import plan, step

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
CHAIN = plan(step("a", "find", city="Oslo", mood="Very sunny"), step("b", "book", id="$a.id$"), answer="$b$")


def demo(similarity: float, solved: Plan = CHAIN, query: str = "book what is very sunny in oslo") -> SelectedDemo:
    return SelectedDemo(demo=Demo(query=query, plan=solved), similarity=similarity, level="task")


def test_a_like_request_speaks_for_its_calls_and_what_feeds_what() -> None:
    hints = hints_from([demo(0.9)], {"t.find", "t.book", "t.other"}, NOW)
    assert hints.calls == {"t.find": 0.9, "t.book": 0.9}
    assert hints.feeds == {("t.find", "t.book")}


def test_how_values_are_written() -> None:
    hints = hints_from([demo(0.2)], {"t.find", "t.book"}, NOW)
    assert hints.forms == {("t.find", "city"): Form.CAPITAL, ("t.find", "mood"): Form.CAPITAL}


def test_an_unlike_request_does_not_speak_for_calls() -> None:
    assert hints_from([demo(0.5)], {"t.find", "t.book"}, NOW).calls == {}


def test_what_is_no_candidate_is_not_shown() -> None:
    hints = hints_from([demo(0.99)], {"t.book"}, NOW)
    assert hints.calls == {}
    assert hints.feeds == set()
    assert hints.forms == {}


def test_what_arguments_have_been_given() -> None:
    numbers = plan(step("a", "set", price=300.0, rate=0.05, pieces=12, on=True, note="x" * 500), answer="$a$")
    hints = hints_from([demo(0.2), demo(0.2, numbers, "300 at 5%, 12 pieces")], {"t.find", "t.set"}, NOW)
    assert hints.values == {
        ("t.find", "city"): ("Oslo",), ("t.find", "mood"): ("Very sunny",),
        ("t.set", "price"): ("300.0",), ("t.set", "rate"): ("0.05",), ("t.set", "pieces"): ("12",),
    }  # fmt: skip
    forms = {name: hints.forms[("t.set", name)] for name in ("price", "rate", "pieces")}
    assert forms == {"price": Form.DECIMAL, "rate": Form.SHARE, "pieces": Form.COPY}
