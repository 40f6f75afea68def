"""The form of examples: what is refused, and that a file gives back what was written."""

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.planner_svc.worlds import CANCEL_ORDER, CREATE_ORDER, FIND_CUSTOMER, GET_PRICE, GET_WEATHER
from training.planner.examples import (
    Default,
    Example,
    InvalidExample,
    LabelledCall,
    ListLabel,
    Option,
    Output,
    Ref,
    Span,
    Unstated,
    check,
    has_output,
)
from training.planner.files import read_examples, write_examples

QUERY = "Order a lamp and a desk, express, for Ann; then cancel it."
GOOD = Example(
    id="e1",
    source="test",
    query=QUERY,
    candidates=(GET_PRICE, CANCEL_ORDER, CREATE_ORDER, FIND_CUSTOMER),
    calls=(
        LabelledCall(FIND_CUSTOMER.id, {"customer_name": Span(38, 41, "Ann")}, (34, 41)),
        LabelledCall(
            CREATE_ORDER.id,
            {
                "customer_id": Ref(0, ("customer_id",), 38, 41),
                "products": ListLabel((Span(8, 12, "lamp"), Span(19, 23, "desk"), Unstated("sofa"))),
                "express": Option(True, 25, 32),
                "budget": Default(10.5),
            },
            (0, 41),
        ),
        LabelledCall(CANCEL_ORDER.id, {"order_id": Ref(1, ("order_id",))}, None, missing=("reason",)),
    ),
    answer=(Output(1, ("total",)),),
    now=datetime(2026, 3, 10, 9, 30, tzinfo=UTC),
)


def spoilt(call: int, **changes: object) -> Example:
    calls = list(GOOD.calls)
    calls[call] = replace(calls[call], **changes)  # type: ignore[arg-type]
    return replace(GOOD, calls=tuple(calls))


def test_a_good_example_passes_and_knows_whether_it_needs_input() -> None:
    check(GOOD)
    assert GOOD.needs_input
    assert not spoilt(2, missing=()).needs_input
    assert QUERY[8:12] == "lamp"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (spoilt(0, arguments={"customer_name": Span(38, 99, "x")}), "no words"),
        (spoilt(0, arguments={"customer_name": Span(37, 41, "x")}), "no words"),
        (spoilt(0, arguments={"customer_name": Span(41, 41, "")}), "no words"),
        (spoilt(0, arguments={"nickname": Unstated("x")}), "takes no 'nickname'"),
        (spoilt(0, arguments={"customer_name": Ref(0, ("email",))}), "not there yet"),
        (spoilt(1, arguments={"customer_id": Ref(2, ("refund",))}), "not there yet"),
        (spoilt(1, arguments={"customer_id": Ref(0, ("nickname",))}), "does not answer"),
        (spoilt(1, arguments={"products": ListLabel((Ref(-1, ("email",)),))}), "not there yet"),
        (spoilt(1, arguments={"express": Option(True, 3, None)}), "half a span"),
        (spoilt(1, clause=(5, 500)), "no words"),
        (spoilt(2, missing=("order_id",)), "cannot be missing"),
        (spoilt(2, api="shop.unknown"), "not among the candidates"),
        (replace(GOOD, candidates=(*GOOD.candidates, GET_PRICE)), "twice"),
        (replace(GOOD, answer=(Output(3, ()),)), "not there yet"),
        (replace(GOOD, answer=(Output(1, ("tax",)),)), "does not answer"),
    ],
)
def test_an_example_that_contradicts_itself_is_refused(bad: Example, message: str) -> None:
    with pytest.raises(InvalidExample, match=message):
        check(bad)


def test_a_path_walks_lists_and_an_empty_one_is_the_whole_answer() -> None:
    listing = GET_PRICE.model_copy(
        update={
            "response": GET_PRICE.response.model_copy(
                update={"json_schema": {"type": "array", "items": {"type": "object", "properties": {"id": {}}}}}
            )
        }
    )
    assert has_output(listing, (0, "id"))
    assert has_output(listing, ())
    assert not has_output(listing, ("id",))
    assert not has_output(listing, (0, "name"))


@pytest.mark.parametrize("name", ["examples.jsonl", "examples.jsonl.gz"])
def test_a_file_gives_back_what_was_written_and_holds_each_api_once(tmp_path: Path, name: str) -> None:
    other = Example("e2", "test", "No idea", (GET_WEATHER, GET_PRICE), answer=())
    file = tmp_path / name
    assert write_examples(file, [GOOD, other]) == 2
    first, second = read_examples(file)
    assert (first, second) == (GOOD, other)
    assert first.candidates[0] is second.candidates[1]
    plain = gzip.decompress(file.read_bytes()) if name.endswith(".gz") else file.read_bytes()
    assert plain.count(b'"id":"shop.getPrice"') == 1


def test_files_of_one_catalogue_share_its_apis(tmp_path: Path) -> None:
    for name in ("recorded", "made"):
        write_examples(tmp_path / name, [GOOD])
    (recorded,), (made,) = read_examples(tmp_path / "recorded"), read_examples(tmp_path / "made")
    assert all(one is other for one, other in zip(recorded.candidates, made.candidates, strict=True))


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"id": "x"}', b'{"candidates": [7]}', b'{"api": {"id": "no spaces allowed"}}', b"\xff\xfe"],
)
def test_a_line_that_is_no_example_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(b'{"id":"a","source":"t","query":"q","candidates":[]}\n' + line + b"\n")
    with pytest.raises(InvalidExample, match="line 2"):
        list(read_examples(file))
