"""Where two runs part."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.comparing import _difference, compare
from services.contracts.outcome import Failed, RequestRecord, StepOutcome, StepRecord, StoredValue, Succeeded
from services.contracts.plan import Plan
from services.contracts.rerun import ReusedStep
from services.contracts.run import Run, RunStatus
from tests.support.executing import literal, ref, step

PLAN = Plan(steps=(step("var1", "t.find", {"name": literal("Ada")}), step("var2", "t.get", {"id": ref("var1", "id")})))


def record(name: str, url: str, outcome: StepOutcome, **headers: str) -> StepRecord:
    request = RequestRecord(method="GET", url=url, headers=headers)
    return StepRecord(
        step=name, api="t.x", requests=(request,), outcome=outcome, started_ms=0, duration_ms=len(headers)
    )


def run(*records: StepRecord, plan: Plan | None = PLAN, **more: Any) -> Run:
    moment = datetime.now(UTC)
    return Run(id="run_1", status=RunStatus.FAILED, query="q", created_at=moment, plan=plan, steps=records, **more)


FOUND = record("var1", "http://t/find?name=Ada", Succeeded(value={"id": [1, {"x": True}]}, status=200))
GOT = record("var2", "http://t/1", Succeeded(value=1, status=200), Date="today")
BOTH = run(FOUND, GOT)
LARGE = [Succeeded(value="a...", stored=StoredValue(id=letter * 64, bytes=9)) for letter in "ab"]
OTHER_NAME = Plan(steps=(step("var1", "t.find", {"name": literal("Grace")}), PLAN.steps[1]))
BOUND = Plan(steps=(step("var2", "t.get", {"id": literal(1)}),))


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (BOTH, run(FOUND, record("var2", "http://t/1", Succeeded(value=1, status=200))), None),
        (BOTH, run(FOUND), ("var2", "response", (), "succeeded", None)),
        (BOTH, run(plan=None), ("var1", "plan", (), "t.find", None)),
        (BOTH, run(plan=OTHER_NAME), ("var1", "plan", ("arguments", "name", "value"), "Ada", "Grace")),
        (
            BOTH,
            run(record("var1", "http://t/find?name=Ada&x", Succeeded())),
            ("var1", "request", (0, "url"), "http://t/find?name=Ada", "http://t/find?name=Ada&x"),
        ),
        (
            BOTH,
            run(record("var1", FOUND.requests[0].url, Failed(reason="timeout", message=""))),
            ("var1", "response", (), "succeeded", "failed"),
        ),
        (
            BOTH,
            run(record("var1", FOUND.requests[0].url, Succeeded(status=201))),
            ("var1", "response", ("status",), 200, 201),
        ),
        (
            BOTH,
            run(record("var1", FOUND.requests[0].url, Succeeded(value={"id": [1, {"x": 1}]}, status=200)), GOT),
            ("var1", "value", ("id", 1, "x"), True, 1),
        ),
        (
            BOTH,
            run(record("var1", FOUND.requests[0].url, Succeeded(value={"id": [1]}, status=200)), GOT),
            ("var1", "value", ("id", 1), {"x": True}, None),
        ),
        (BOTH, run(GOT, plan=BOUND, reused=(ReusedStep(step="var1", api="t.find", mutating=False, run="r"),)), None),
    ],
)
def test_where_two_runs_part(one: Run, two: Run, expected: tuple[Any, ...] | None) -> None:
    found = compare(one, two).divergence
    assert (found and (found.step, found.what, found.path, found.run, found.other)) == expected
    back = compare(two, one).divergence
    assert (back and (back.step, back.what, back.path, back.other, back.run)) == expected


def test_large_values_that_look_alike_differ_by_their_hashes() -> None:
    found = compare(run(record("var1", "u", LARGE[0])), run(record("var1", "u", LARGE[1]))).divergence
    assert found is not None
    assert (found.what, found.run, found.other) == (
        "value",
        {"id": "a" * 64, "bytes": 9},
        {"id": "b" * 64, "bytes": 9},
    )


def test_a_literal_of_a_plan_that_looks_like_a_reference_is_none() -> None:
    hostile: Any = {"kind": "reference", "step": ["var1"]}
    plans = [Plan(steps=(step("var2", "t.get", {"id": value}),)) for value in (literal(hostile), literal(1))]
    taken = (ReusedStep(step="var1", api="t.find", mutating=False, run="r"),)
    found = compare(run(plan=plans[0], reused=taken), run(plan=plans[1])).divergence
    assert found is not None
    assert (found.path, found.run, found.other) == (("arguments", "id", "value"), hostile, 1)


class _Asked(frozenset[str]):
    """Steps that may be asked for, and not gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a plan may have a thousand steps, and a literal of it as many objects like references")


def test_a_reference_is_looked_up_among_the_reused_steps() -> None:
    sides = [{"kind": "reference", "step": name} for name in ("var1", "var2", ["var1"])]
    assert _difference(sides, [*sides[:1], {"kind": "literal"}, sides[2]], _Asked({"var1", "var2"})) is None
    assert _difference(sides[2], {"kind": "literal"}, _Asked({"var1"})) is not None


def test_values_that_are_written_alike_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of four megabytes, compared with itself, took seconds."""
    monkeypatch.setattr("gateway.comparing._pairs", lambda *_: pytest.fail("gone through"))
    assert compare(BOTH, BOTH.model_copy(deep=True)).divergence is None


def test_values_are_read_only_up_to_the_first_difference() -> None:
    class Read(list[int]):
        read = 0

        def __iter__(self) -> Iterator[int]:
            for one in super().__iter__():
                self.read += 1
                yield one

    ours = Read([1, 2, *range(1_000)])
    assert _difference(ours, [1, 3, *range(1_000)]) == ((1,), 2, 3)
    assert ours.read == 2
