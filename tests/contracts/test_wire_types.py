"""Rules for all wire types."""

import importlib
import json
import pkgutil
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

import services.contracts
from services.contracts.api import ImportRequest
from services.contracts.base import MAX_QUERY_CHARS, Contract
from services.contracts.context import Context
from services.contracts.demo import ImportDemosRequest
from services.contracts.plan import Plan
from services.contracts.planning import PlanResponse
from services.contracts.rerun import RerunRequest
from services.contracts.retrieval import RetrieveRequest
from services.contracts.solve import SolveOptions, SolveRequest

for _module in pkgutil.iter_modules(services.contracts.__path__, "services.contracts."):
    importlib.import_module(_module.name)


def all_contracts(root: type[Contract] = Contract) -> Iterator[type[Contract]]:
    for cls in root.__subclasses__():
        if cls.__module__.startswith("services.contracts."):
            yield cls
        yield from all_contracts(cls)


CONTRACTS = sorted(all_contracts(), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", CONTRACTS, ids=lambda cls: cls.__name__)
def test_every_type_is_frozen_strict_and_described(cls: type[Contract]) -> None:
    assert cls.model_config["frozen"] is True
    assert cls.model_config["extra"] == "forbid"
    assert cls.model_config["allow_inf_nan"] is False
    assert cls.__doc__
    with pytest.raises(ValidationError) as caught:
        cls.model_validate({"no_such_field": 1})
    assert any(error["type"] == "extra_forbidden" for error in caught.value.errors())
    assert json.dumps(cls.model_json_schema(mode="serialization"))


def test_there_are_wire_types() -> None:
    assert len(CONTRACTS) > 50


@pytest.mark.parametrize("query", ["", " \n\t", "x" * (MAX_QUERY_CHARS + 1), "a\ud800"])
def test_a_request_needs_words_and_not_too_many(query: str) -> None:
    for cls in (SolveRequest, RetrieveRequest):
        with pytest.raises(ValidationError):
            cls.model_validate({"query": query})


def test_blanks_around_a_request_do_not_count() -> None:
    assert SolveRequest(query=" a \n").query == "a"
    assert SolveRequest(query=" " * 10 + "x" * MAX_QUERY_CHARS).query == "x" * MAX_QUERY_CHARS


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0},
        {"top_k": 101},
        {"top_k": 1.5},
        {"demos": -1},
        {"deadline_ms": 99},
        {"deadline_ms": 3_600_001},
        {"mutations": "yes"},
        {"backend": "x" * 51},
        {"providers": ["p"] * 101},
        {"dry-run": True},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SolveOptions.model_validate(options)


def test_a_clock_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Context.model_validate({"now": "2026-11-21T12:00:00"})
    assert Context.model_validate({"now": "2026-11-21T12:00:00+01:00"}).now is not None


@pytest.mark.parametrize("fields", [{"provider": "A b"}, {"provider": ""}, {"server": "ftp://x"}, {"server": "//x"}])
def test_an_import_names_its_provider_and_server_properly(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ImportRequest.model_validate({"document": "{}"} | fields)


def test_an_import_of_demos_ends_at_the_first_invalid_one() -> None:
    with pytest.raises(ValidationError) as raised:
        ImportDemosRequest.model_validate({"demos": [1] * 100_000})
    assert raised.value.error_count() == 2  # of the item, and that no valid one is left


@pytest.mark.parametrize("status", ["planned", "needs_input", "no_plan"])
def test_a_plan_counts_as_planned_only_with_its_proof(status: str) -> None:
    fields = {"status": status, "backend": "compact"}
    if status == "planned":
        with pytest.raises(ValidationError, match="if, and only if"):
            PlanResponse.model_validate(fields)
    else:
        assert PlanResponse.model_validate(fields).compiled is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": {"kind": "reference", "step": "b", "path": [None] * 5_000}},
        {"n": {"kind": "list", "items": [1] * 5_000}},
        {"n": {"kind": "list", "items": [{"kind": "list", "items": [1] * 5_000}] * 2}},
        {"n": {"kind": "object", "fields": dict.fromkeys(map(str, range(5_000)), 1)}},
        dict.fromkeys(map(str, range(5_000)), 1),
    ],
    ids=["path", "items", "inner items", "fields", "arguments"],
)
def test_validation_stops_at_the_first_wrong_item(arguments: dict[str, object]) -> None:
    step = {"id": "a", "api": "x.y", "arguments": arguments, "after": [None] * 5_000}
    with pytest.raises(ValidationError) as raised:
        Plan.model_validate({"steps": [step] * 10, "answer": [None] * 5_000})
    assert raised.value.error_count() < 10


@pytest.mark.parametrize("cls", list(all_contracts()), ids=lambda cls: cls.__name__)
def test_no_contract_has_an_error_for_each_item(cls: type[Contract]) -> None:
    """Also of contracts that are added later. No part of a `JsonValue` (its `python_schema`) is wrong in JSON."""

    def many(schema: object) -> Iterator[dict[str, object]]:
        if isinstance(schema, dict):
            if schema.get("type") in ("list", "tuple", "set", "frozenset", "dict"):
                yield schema
            for name, one in schema.items():
                yield from many(one) if name not in ("metadata", "serialization", "default", "python_schema") else ()
        elif isinstance(schema, list | tuple):
            for one in schema:
                yield from many(one)

    assert all(one.get("fail_fast") for one in many(cls.__pydantic_core_schema__))


@pytest.mark.parametrize("cls", CONTRACTS, ids=lambda cls: cls.__name__)
def test_no_contract_has_an_error_for_each_unknown_field(cls: type[Contract]) -> None:
    given = dict.fromkeys(cls.model_fields, object()) | dict.fromkeys(map(str, range(2_000)), 0)
    for object_ in (given, dict(reversed(given.items()))):
        with pytest.raises(ValidationError) as raised:
            cls.model_validate(object_)
        assert sum(error["type"] == "extra_forbidden" for error in raised.value.errors()) in (50, 51)  # a name's alias
        assert raised.value.error_count() < 150


def test_unknown_fields_beside_right_members_are_not_each_an_error() -> None:
    right = {"kind": "literal", "value": 1}
    fields = dict.fromkeys(map(str, range(200)), right) | {"z": right | dict.fromkeys(map(str, range(5_000)), 0)}
    inner = {"kind": "object", "fields": fields}
    step = {"id": "a", "api": "x.y", "arguments": {"n": {"kind": "list", "items": [right, inner]}}}
    with pytest.raises(ValidationError) as raised:
        Plan.model_validate({"steps": [step]})
    errors = [error for error in raised.value.errors() if error["type"] == "extra_forbidden"]
    assert len(errors) == 50
    assert errors[0]["loc"][-2:] == ("literal", "0")


def test_a_field_of_another_name_is_known_among_very_many() -> None:
    given = {"from": 5} | dict.fromkeys(map(str, range(100)), 0)
    with pytest.raises(ValidationError) as raised:
        RerunRequest.model_validate(given)
    assert ("from",) in [error["loc"] for error in raised.value.errors() if error["type"] == "string_type"]
