"""Recorded and made-up requests as the model is to answer them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.data import Call, Instance, read_all
from services.contracts.api import Api, ApiResponse, Parameter
from tests.unit.training.llm.data import nested, small
from training.llm.turns import made_turns, recorded_turns
from training.planner.synthesis import synthesise


def api(name: str, *parameters: Parameter, response: dict[str, Any] | None = None) -> Api:
    return Api(
        id=name,
        provider="shop",
        name=name,
        method="GET",
        path=f"/{name}",
        parameters=parameters,
        response=ApiResponse(json_schema=response or {}),
    )


def parameter(name: str, kind: str = "string", *, required: bool = True, **schema: Any) -> Parameter:
    return Parameter(
        name=name, wire_name=name, location="query", required=required, json_schema={"type": kind} | schema
    )


ITEMS = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "object", "properties": {"order_id": {"type": "string"}}}}
    },
}
SEARCH = api("search", parameter("name"), parameter("limit", "integer", required=False), response=ITEMS)
SHOW = api("show", parameter("order_id"), parameter("state", required=False, enum=["open", "1"]))
APIS = {one.id: one for one in (SEARCH, SHOW)}


def turns(*calls: Call, query: str = "Show Ana's last order") -> list[Any]:
    return list(recorded_turns([Instance(id="1", query=query, calls=calls, tools=("show", "gone"))], APIS, "shop"))


def test_a_reference_has_the_path_that_the_prompt_shows() -> None:
    (turn,) = turns(
        Call(api="search", args={"name": "Ana"}), Call(api="show", args={"order_id": "$var_1.items.order_id$"})
    )
    assert [call["label"] for call in turn.calls] == ["var1", "var2"]
    assert turn.calls[1]["arguments"] == {"order_id": "$var1.items[0].order_id$"}
    assert (turn.apis, turn.offered) == (("search", "show"), ("show",))


def test_a_value_copied_from_an_answer_is_a_reference_to_the_field_of_that_name() -> None:
    second = Call(api="show", args={"order_id": "o-77"}, args_from_responses=("order_id",))
    (turn,) = turns(Call(api="search", args={"name": "Ana"}), second)
    assert turn.calls[1]["arguments"] == {"order_id": "$var1.items[0].order_id$"}
    (said,) = turns(Call(api="search", args={"name": "Ana"}), second, query="Show o-77 of Ana")
    assert said.calls[1]["arguments"] == {"order_id": "o-77"}


def test_what_an_api_does_not_take_is_not_learnt() -> None:
    assert not turns(Call(api="gone", args={}))
    assert not turns(Call(api="search", args={"colour": "red"}))
    assert not turns(Call(api="search", args={"name": "<input: a name>"}))
    assert not turns(Call(api="search"), Call(api="show", args={"order_id": "$var_1.items.*.order_id$"}))


def test_canonical_values_are_typed_and_unsaid_optional_ones_left_out() -> None:
    call = Call(api="search", args={"name": "Ana", "limit": "two"}, args_canonical={"name": "Ana", "limit": "2"})
    assert turns(call, query="The two last orders of Ana")[0].calls[0]["arguments"] == {"name": "Ana", "limit": 2}
    assert turns(call, query="Orders of Ana")[0].calls[0]["arguments"] == {"name": "Ana"}


def test_made_up_requests_keep_their_clock_only_where_a_date_is_relative(tmp_path: Path) -> None:
    data = read_all(small(tmp_path / "small", [nested("Faro")]))
    examples = list(synthesise(data.apis, 3, 40))
    found = {turn.id: turn for turn in made_turns(examples, "made")}
    assert len(found) > 20
    known = {one.id for one in data.apis}
    for example in examples:
        if example.id in found:
            turn = found[example.id]
            assert set(turn.apis) <= known
            assert [call["name"] for call in turn.calls] == [call.api for call in example.calls]
            assert turn.now in (None, example.now)
    assert all(turn.now is None or turn.now > datetime(2000, 1, 1, tzinfo=UTC) for turn in found.values())
    assert any(turn.now is None for turn in found.values())
