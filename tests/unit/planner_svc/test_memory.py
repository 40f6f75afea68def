"""What is kept of texts is small: an app may send any words, and a demonstration hold any value."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from planner_svc.backends.demonstrated.times import writings
from planner_svc.reading.text import stem


@pytest.mark.parametrize("kept", [stem, writings])
@pytest.mark.parametrize(("length", "stays"), [(20, True), (4_000, False)])
def test_long_texts_are_not_kept(kept: Callable[[str], Any], length: int, stays: bool) -> None:
    word = "".join(["q" * length, "s"])
    before = sys.getrefcount(word)
    kept(word)
    assert (sys.getrefcount(word) > before) is stays


def test_a_long_word_has_a_stem_like_any_other() -> None:
    assert stem("q" * 4_000 + "s") == "q" * 4_000
