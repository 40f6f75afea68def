"""What is built of arguments is bounded: names are repeated for each value inside, literals for each call of a loop."""

import tracemalloc
from typing import Any

import pytest

from executor_svc.adapters.http.request import BadRequest, build_request
from executor_svc.binding import ResolvedCalls, resolved_calls
from executor_svc.steps import Prepared, prepare
from services.contracts.api import Api, Location, Parameter, RequestBody, Style
from services.contracts.outcome import Failed
from services.contracts.plan import ForEach, ListValue
from services.size_budget import SizeBudget
from tests.support.executing import api, item, literal, parameter, step
from tests.support.running import POST
from tests.unit.executor_svc.test_large_requests import LIMITS

LONG = "n" * 50_000
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
MOST_BYTES = 80_000_000


def calling(location: str, style: str = "form", media_type: str = "", path: str = "/", *, whole: bool = False) -> Api:
    one = Parameter(
        name="x", wire_name="w" * 200, location=Location(location), style=Style(style), explode=True, required=True
    )
    body = RequestBody(media_type=media_type, whole=whole) if media_type else None
    made = api("https://api.example.com", path, parameter("x"), method="POST")
    return made.model_copy(update={"parameters": (one,), "body": body})


@pytest.mark.parametrize(
    ("called", "value"),
    [
        (calling("query", "deepObject"), {LONG: dict.fromkeys(map(str, range(3_000)), 1)}),
        (calling("body", "deepObject", FORM), {LONG: dict.fromkeys(map(str, range(3_000)), 1)}),
        (calling("query"), [1] * 500_000),
        (calling("cookie"), [1] * 500_000),
        (calling("header", "simple"), [1] * 500_000),
        (calling("body", "simple", FORM), [1] * 500_000),
        (calling("body", "simple", MULTIPART), [1] * 500_000),
        (calling("body", "simple", FORM, whole=True), {LONG: [1] * 3_000}),
        (calling("body", "simple", MULTIPART, whole=True), {LONG: [1] * 3_000}),
        (calling("path", "matrix", path="/{" + "w" * 200 + "}"), [1] * 500_000),
        (calling("path", "simple", path="/{" + "w" * 200 + "}" + ("/{" + "w" * 200 + "}") * 1_500), LONG),
    ],
)
def test_a_request_takes_no_more_room_than_it_may(called: Api, value: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match=r"too long|longer than"):
            build_request(called, {"x": value}, "run/step")
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("size", "fits"), [(399, True), (401, False)])
def test_what_loops_repeat_of_the_plan_is_bounded_where_calls_are_shown(size: int, fits: bool) -> None:
    loop = ForEach(items=literal([*range(10)]))
    text = ListValue(items=(literal("y" * (size - 2)), item()))  # 2 for its quotation marks
    found = resolved_calls(step("b", POST, {"x": text}, foreach=loop), {}, frozenset(), 100, SizeBudget(1_000))
    assert isinstance(found, ResolvedCalls if fits else Failed)
    if isinstance(found, Failed):
        assert "4000 bytes of the plan itself" in found.message


def test_literals_of_a_call_are_held_while_it_is_made() -> None:
    loop = ForEach(items=literal([1, 2]))
    text = ListValue(items=(literal("y" * 98), item()))
    for_each = prepare(step("b", POST, {"x": text}, foreach=loop), POST, {}, LIMITS)
    single = prepare(step("b", POST, {"x": literal("y" * 98)}), POST, {}, LIMITS)
    assert isinstance(for_each, Prepared)
    assert isinstance(single, Prepared)
    assert for_each.value_bytes == (108, 108)  # a number counts for eight
    assert single.value_bytes == (100,)
