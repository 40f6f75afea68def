"""Sums, intervals and calibration against values worked out by hand."""

import dataclasses

import pytest

from evals.planning.scoring import Counts, Score
from evals.planning.summary import (
    Judged,
    calibration_error,
    confident_half,
    intervals,
    percentiles,
    published,
    right_and_unsure,
    summed,
    unfit_and_sure,
    wrong_and_sure,
)

ZERO = Counts()
WRONG = Score(ZERO, ZERO, ZERO, ZERO, ZERO, 0.0, False, False, False)
RIGHT = dataclasses.replace(WRONG, partial=1.0, full=True, any_order=True, made=True)


def judged(score: Score, confidence: float | None = None, *, ran: bool = False, needs_call: bool = True) -> Judged:
    return Judged(score, True, needs_call, ran, confidence, unsure=confidence is not None and confidence < 0.5)


def test_micro_averages() -> None:
    one = dataclasses.replace(WRONG, tool=Counts(1, 1, 2), param=Counts(3, 4, 5), partial=0.5)
    other = dataclasses.replace(RIGHT, tool=Counts(2, 3, 2), param=Counts(0, 0, 1))
    found = summed([judged(one, ran=True), judged(other), judged(RIGHT, needs_call=False)])
    # 3 right of 4 predicted and of 4 gold; 3 of 4 and of 6.
    assert (found.tool.p, found.tool.r, found.tool.f1) == (75.0, 75.0, 75.0)
    assert (found.param.p, found.param.r, found.param.f1) == (75.0, 50.0, 60.0)
    assert (found.param.right, found.param.predicted, found.param.gold) == (3, 4, 6)
    assert found.partial_match == pytest.approx(83.33)  # the mean over requests: (0.5 + 1 + 1) / 3
    assert found.full_match == pytest.approx(66.67)
    assert (found.ran, found.runnable) == (50.0, 2)  # nothing is to be run for the third
    assert found.pass_rate == 0.0  # the first ran and was not what was wanted, the second was and did not run
    assert (found.reference.p, found.reference.f1) == (0.0, 0.0)


def test_only_what_ran_and_was_wanted_passes() -> None:
    some = [judged(RIGHT, ran=True), judged(WRONG, ran=True), judged(RIGHT), judged(RIGHT, ran=True, needs_call=False)]
    found = summed(some)
    assert (found.pass_rate, found.ran) == (33.33, 66.67)


def test_no_answer_is_no_form() -> None:
    failed = dataclasses.replace(judged(WRONG), well_formed=False)
    assert summed([judged(RIGHT), failed]).format_acc == 50.0


def test_nothing_sums_to_nothing() -> None:
    found = summed([])
    assert (found.n, found.tool.f1, found.full_match, found.pass_rate) == (0, 0.0, 0.0, 0.0)
    assert intervals([]) == {}
    assert (calibration_error([]), confident_half([]), percentiles([])) == (0.0, 0.0, {"p50": 0.0, "p95": 0.0})


def test_as_published_may_exceed_everything() -> None:
    found = published([judged(dataclasses.replace(WRONG, published_tool=Counts(2, 2, 1)))])
    assert (found.tool.p, found.tool.r) == (100.0, 200.0)


def test_calibration_by_hand() -> None:
    # Bin 0.9-1.0: confidences 0.9 and 1.0, one of two right: |0.95 - 0.5| = 0.45, weight 2/4.
    # Bin 0.2-0.3: 0.2 and 0.28, none right: 0.24, weight 2/4. No plan was proposed in the last one.
    some = [judged(RIGHT, 1.0), judged(WRONG, 0.9), judged(WRONG, 0.2), judged(WRONG, 0.28), judged(RIGHT, None)]
    assert calibration_error(some) == pytest.approx(100 * (0.45 + 0.24) / 2)
    assert confident_half(some) == 50.0  # of 1.0 and 0.9
    assert confident_half(some[:3]) == 50.0  # of three the half is two
    assert calibration_error([judged(RIGHT, 1.0)]) == 0.0


def test_wrong_and_not_said_to_be_unsure() -> None:
    some = [judged(RIGHT, 0.9), judged(WRONG, 0.5), judged(WRONG, 0.49), judged(WRONG, None)]
    assert wrong_and_sure(some) == 25.0
    assert wrong_and_sure([]) == 0.0


def test_right_and_said_to_be_unsure() -> None:
    some = [judged(RIGHT, 0.9), judged(RIGHT, 0.49), judged(WRONG, 0.1), judged(RIGHT, None)]
    assert right_and_unsure(some) == 50.0
    assert right_and_unsure(some[2:]) is None


def test_calls_for_what_nothing_fits() -> None:
    unfit = [judged(WRONG, sure, needs_call=False) for sure in (0.9, 0.5, 0.49)] + [
        judged(RIGHT, None, needs_call=False)
    ]
    assert unfit_and_sure([*unfit, judged(WRONG, 0.9)]) == 50.0
    assert unfit_and_sure([judged(WRONG, 0.9)]) is None


def test_intervals_are_seeded_and_hold_the_figure() -> None:
    some = [
        judged(dataclasses.replace(RIGHT if n % 3 else WRONG, tool=Counts(n % 2, 1, 1)), ran=n % 4 > 0)
        for n in range(60)
    ]
    found = intervals(some)
    assert found == intervals(some)
    whole = summed(some)
    assert whole.pass_rate is not None
    for name, value in (
        ("tool.f1", whole.tool.f1), ("full_match", whole.full_match), ("pass_rate", whole.pass_rate), ("ran", whole.ran)
    ):  # fmt: skip
        low, high = found[name]
        assert low < value < high
        assert high - low < 30
    # The interval of a share of 2/3 over 60 requests is about 2 * 1.96 * sqrt(2/9 / 60) = 23.9 points wide.
    assert found["full_match"][1] - found["full_match"][0] == pytest.approx(23.9, abs=3)
    assert found["param.f1"] == (0.0, 0.0)


def test_percentiles_are_milliseconds() -> None:
    assert percentiles([0.1, 0.2, 0.3]) == {"p50": 200.0, "p95": 290.0}
