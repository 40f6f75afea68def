"""URLs of others: any text is a URL whose parts can be read, or a ValueError."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from services.contracts.matching import place_of
from services.urls import url_of

PIECES = (
    "http://",
    "https://",
    "//",
    "[",
    "]",
    "::1",
    "@",
    ":",
    "/",
    "?",
    "#",
    "%",
    "%41",
    ".",
    "a",
    "xn--",
    "é",
    "99999",
)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.booleans())
@example("http://[::1]@/x", False)
@example("http://[@[é::1.]", False)
def test_a_text_is_a_url_or_a_value_error(text: str, relative: bool) -> None:
    try:
        url = url_of(text, URL("http://h.example/a") if relative else None)
    except ValueError:
        return
    _ = str(url), url.raw_path, url.raw_host, url.port, url.user, url.password, url.raw_query_string


def test_a_server_that_is_no_url_is_nowhere() -> None:
    with pytest.raises(ValueError, match="not a URL"):
        url_of("http://[::1]@/x")
    assert place_of("http://[::1]@/x", "/y").host is None
