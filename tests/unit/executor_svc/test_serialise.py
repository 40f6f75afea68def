"""Parameter styles against the table of OpenAPI 3.1.1 (section 4.8.12.6)."""

from typing import Any

import pytest

from executor_svc.adapters.http.serialise import (
    Unserialisable,
    cookie_pairs,
    header_text,
    path_text,
    query_pairs,
    scalar,
)
from services.contracts.api import Style

BLUE = "blue"
COLOURS: Any = ["blue", "black", "brown"]
RGB: Any = {"R": 100, "G": 200, "B": 150}


@pytest.mark.parametrize(
    ("style", "explode", "empty", "string", "array", "object_"),
    [
        ("matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        ("matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
        ("label", False, ".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("label", True, ".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ],
)
def test_path_styles(style: str, explode: bool, empty: str, string: str, array: str, object_: str) -> None:
    texts = [path_text("color", value, Style(style), explode) for value in ("", BLUE, COLOURS, RGB)]
    assert texts == [empty, string, array, object_]


@pytest.mark.parametrize(
    ("style", "explode", "empty", "string", "array", "object_"),
    [
        ("form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
        ("form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("spaceDelimited", False, None, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, None, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("deepObject", True, None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ],
)
def test_query_styles(
    style: str, explode: bool, empty: str | None, string: str | None, array: str | None, object_: str
) -> None:
    for value, expected in (("", empty), (BLUE, string), (COLOURS, array), (RGB, object_)):
        if expected is not None:
            assert "&".join(query_pairs("color", value, Style(style), explode)) == expected


def test_deep_objects_nest_their_brackets() -> None:
    pairs = query_pairs("f", {"a": {"b": [1, 2]}, "c": True}, Style.DEEP_OBJECT, True)
    assert list(pairs) == ["f%5Ba%5D%5Bb%5D%5B0%5D=1", "f%5Ba%5D%5Bb%5D%5B1%5D=2", "f%5Bc%5D=true"]


@pytest.mark.parametrize(("explode", "array", "object_"), [(False, "a,b", "x,1"), (True, "a,b", "x=1")])
def test_headers_are_simple_and_not_percent_encoded(explode: bool, array: str, object_: str) -> None:
    assert header_text(["a", "b"], explode) == array
    assert header_text({"x": 1}, explode) == object_
    assert header_text("a b/ü", explode) == "a b/ü"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", ["ok", "a\r\nb"], {"k\n": 1}])
def test_headers_refuse_control_characters(value: object) -> None:
    with pytest.raises(Unserialisable, match="control characters"):
        header_text(value, False)  # type: ignore[arg-type]


def test_cookies_are_form() -> None:
    assert list(cookie_pairs("c", ["a;b", "c"], True)) == ["c=a%3Bb", "c=c"]
    assert list(cookie_pairs("c", ["a;b", "c"], False)) == ["c=a%3Bb,c"]


def test_delimiters_inside_values_do_not_split_them() -> None:
    assert list(query_pairs("q", ["a,b", "c&d=e"], Style.FORM, False)) == ["q=a%2Cb,c%26d%3De"]
    with pytest.raises(Unserialisable, match="spaceDelimited"):
        list(query_pairs("q", ["New York", "Rome"], Style.SPACE_DELIMITED, False))
    with pytest.raises(Unserialisable, match="pipeDelimited"):
        list(query_pairs("q", ["a|b", "c"], Style.PIPE_DELIMITED, False))


def test_numbers_and_booleans_are_written_as_in_json() -> None:
    assert [scalar(v) for v in (True, False, 1, 2**80, 0.1, 1.0, 1e22)] == [
        "true", "false", "1", str(2**80), "0.1", "1.0", "1e+22",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [[[1]], [{"a": 1}], {"a": [1]}, [None], ["\ud800"]])
def test_what_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(Unserialisable):
        list(query_pairs("q", value, Style.FORM, True))  # type: ignore[arg-type]


def test_empty_lists_and_objects_give_no_pair() -> None:
    assert [*query_pairs("q", [], Style.FORM, True), *query_pairs("q", {}, Style.FORM, False)] == []


def test_a_style_of_another_location_falls_back_to_the_default() -> None:
    assert list(query_pairs("q", "a", Style.SIMPLE, False)) == ["q=a"]
    assert path_text("p", "a", Style.FORM, False) == "a"
