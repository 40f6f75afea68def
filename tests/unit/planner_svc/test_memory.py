"""What is kept of texts is small: an app may send any words, and a demonstration hold any value."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from planner_svc.backends.compact.spans import shown_examples
from planner_svc.backends.demonstrated.times import writings
from planner_svc.reading.profile import read_profile
from planner_svc.reading.text import stem
from tests.unit.planner_svc.building import api, param


@pytest.mark.parametrize("kept", [stem, writings])
@pytest.mark.parametrize(("length", "stays"), [(20, True), (4_000, False)])
def test_long_texts_are_not_kept(kept: Callable[[str], Any], length: int, stays: bool) -> None:
    word = "".join(["q" * length, "s"])
    before = sys.getrefcount(word)
    kept(word)
    assert (sys.getrefcount(word) > before) is stays


def test_a_long_word_has_a_stem_like_any_other() -> None:
    assert stem("q" * 4_000 + "s") == "q" * 4_000


def test_what_is_read_of_a_parameter_keeps_no_api_in_memory() -> None:
    """An API may declare schemas of 64 kB. What was read of APIs is kept by its size, in one place."""
    profile = read_profile(api("find", param("name", about="A name, e.g. Ada, Bob"), definitions={"A": {}}))
    definitions = profile.api.definitions
    assert shown_examples(profile.slots[0]) == ("Ada", "Bob")
    del profile
    gc.collect()
    assert sys.getrefcount(definitions) == 2  # this variable and the call
