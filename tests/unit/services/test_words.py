"""Words of a text, as searches read them."""

from services.words import stem, words


def test_a_word_of_a_whole_request_does_not_stay_in_memory() -> None:
    before = stem.cache_info().misses
    assert words("reminders " + "x" * 9_999 + "s") == ["remind", "x" * 9_999 + "s"]
    assert words("㌖" * 9_999)
    assert stem.cache_info().misses <= before + 1
