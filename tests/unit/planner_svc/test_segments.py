"""Which words say which of several calls."""

from planner_svc.backends.compact.segments import segments


def test_the_words_of_a_call_stand_together() -> None:
    """LIS to MAD, and CPH to HEL: tokens 2, 4, 7, 9."""
    origin = [(2, 2, 0.9), (4, 4, 0.5), (7, 7, 0.4)]
    destination = [(9, 9, 0.9), (4, 4, 0.3), (2, 2, 0.1)]
    first, second = segments([origin, destination], 2)
    assert first[0] == 2
    assert first[1] == second[0] == 7
    assert second[1] > 9


def test_what_is_said_once_does_not_part_calls() -> None:
    """350 pounds, and 420 francs, in euros."""
    amount, to = [(1, 1, 0.9), (5, 5, 0.8)], [(9, 9, 0.9)]
    (_, end), (start, _) = segments([amount, to], 2)
    assert end == start
    assert 1 < start <= 5


def test_nothing_tells_calls_apart() -> None:
    assert segments([], 2) == []
    assert segments([[(3, 4, 0.9)], [(6, 6, 0.9)]], 2) == []
    assert segments([[(3, 4, 0.9), (8, 8, 0.1)]], 3) == []


def test_many_spans_are_bounded() -> None:
    spans = [(at, at, 0.5) for at in range(500)]
    assert len(segments([spans] * 20, 12)) == 12
