"""Edges between a provider's operations, told by the names of paths, parameters and answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.engine.supply_index import KEYS, SupplyIndex, keys_of, reading_of, supplier_keys
from retriever_svc.engine.texts import record
from retriever_svc.models import Entry
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.contracts.base import JsonSchema
from tests.unit.retriever_svc.catalogue import api


def takes(name: str, location: str = "query", *, required: bool = False) -> Parameter:
    return Parameter(name=name, wire_name=name, location=Location(location), required=required)


def answers(**fields: JsonSchema) -> ApiResponse:
    return ApiResponse(json_schema={"type": "object", "properties": dict(fields)})


def entry(one: Api) -> Entry:
    new = record(one)
    return Entry(
        1, one.id, one.provider, one.name, one.method, one.path, one.summary, "", "", "", new.inputs, new.outputs
    )


def place(producer: Api, consumer: Api, parameter: int = 0) -> int | None:
    """The place of the first key that one has of those of the other's parameter; None: it has none."""
    keys = supplier_keys(reading_of(entry(consumer)).inputs[parameter])
    return next((n for n, key in enumerate(keys) if key in set(keys_of(entry(producer)))), None)


USERS = api("listUsers", path="/users")
ORDERS_OF = api("ordersOf", path="/users/{userId}/orders", parameters=(takes("userId", "path", required=True),))


@pytest.mark.parametrize(
    "path",
    ["/users", "/users/search", "/users/search/{text}", "/users/email/{email}", "/users.json", "/Users", "/users/ids"],
)
def test_what_lists_the_things_above_a_parameter_comes_first(path: str) -> None:
    assert place(api("x", path=path), ORDERS_OF) == 0


def test_a_list_elsewhere_about_the_same_comes_later_and_one_about_others_not_at_all() -> None:
    assert (place(api("members", path="/teams/{team}/users"), ORDERS_OF) or 0) > 0
    assert place(api("listInvoices", path="/invoices"), ORDERS_OF) is None


@pytest.mark.parametrize("name", ["customerId", "customer_id", "CustomerID", "CustomerIDFK", "customerIds", "customer"])
def test_a_parameter_names_what_it_is_the_id_of_however_it_is_spelt(name: str) -> None:
    consumer = api("invoices", path="/invoices", parameters=(takes(name),))
    assert place(api("customers", path="/v2/customers"), consumer) is not None


def test_an_answer_that_tells_an_id_supplies_it_by_the_fields_name_or_by_what_it_is_in() -> None:
    consumer = api("invoices", path="/invoices", parameters=(takes("customerId"),))
    plain = api("orders", path="/orders", response=answers(customerId={"type": "string"}))
    within = answers(customer={"type": "object", "properties": {"id": {"type": "string"}}})
    nothing = answers(customer={"type": "object", "properties": {"mood": {"type": "string"}}})
    assert place(plain, consumer) == place(api("orders", path="/orders", response=within), consumer) is not None
    assert place(api("orders", path="/orders", response=nothing), consumer) is None


def test_plurals_with_two_endings_meet() -> None:
    consumer = api("rooms", path="/rooms", parameters=(takes("buildingId"), takes("batchId")))
    assert place(api("x", path="/buildings"), consumer, 0) is not None
    assert place(api("x", path="/batches"), consumer, 1) is not None


def test_what_changes_something_supplies_nothing_unless_it_is_a_search() -> None:
    assert place(api("create", path="/users", method="POST"), ORDERS_OF) is None
    assert place(api("search", path="/users/search", method="POST"), ORDERS_OF) == 0


def test_a_general_search_may_find_any_thing_that_has_an_id() -> None:
    search = api("search", path="/search")
    text = api("x", path="/invoices", parameters=(takes("colour"),))
    assert place(search, ORDERS_OF) is not None
    assert place(search, text) is None


def test_parts_of_the_path_are_wanted_before_ids_and_those_before_the_rest() -> None:
    parameters = (takes("colour"), takes("teamId"), takes("user", "path", required=True))
    consumer = api("x", path="/users/{user}/notes", parameters=parameters)
    assert [need.words for need in reading_of(entry(consumer)).inputs] == [("user",), ("team", "id"), ("colour",)]


def test_an_edge_stays_within_its_provider() -> None:
    keys = np.array([keys_of(entry(USERS)), keys_of(entry(USERS)), keys_of(entry(ORDERS_OF))], np.int32)
    index = SupplyIndex(keys, np.array([0, 1, 1], np.int32))
    wanted = supplier_keys(reading_of(entry(ORDERS_OF)).inputs[0])[0]
    assert [index.positions(owner, [wanted, 7], 9) for owner in (0, 1, 2)] == [[[0], []], [[1], []], [[], []]]


def test_of_many_that_are_alike_a_bounded_number_is_read() -> None:
    keys = np.array([keys_of(entry(USERS))] * 50, np.int32)
    lists = keys_of(entry(USERS))[0]
    assert SupplyIndex(keys, np.zeros(50, np.int32)).positions(0, [lists], 9) == [list(range(9))]


def test_a_path_without_end_is_read_as_far_as_a_long_one() -> None:
    variables = "/".join(f"{{p{number}}}" for number in range(10_000))
    parameters = tuple(takes(f"p{number}", "path", required=True) for number in range(12))
    long = entry(api("x", path=f"/a{'/a' * 30}/{variables}", parameters=parameters))
    as_long = entry(api("x", path="/a" * 24, parameters=parameters))
    assert [one.subject for one in reading_of(long).inputs] == [one.subject for one in reading_of(as_long).inputs]
    assert keys_of(long)[:2] == keys_of(entry(api("x", path="/a" * 24)))[:2]


@given(path=st.text(max_size=60), name=st.text(min_size=1, max_size=20), field=st.text(max_size=20))
def test_any_path_and_name_gives_keys(path: str, name: str, field: str) -> None:
    parameter = takes(name, "path", required=True)
    one = entry(api("x", path=f"/{path}/{{{name}}}", parameters=(parameter,), response=answers(**{field: {}})))
    assert len(keys_of(one)) == KEYS
    assert all(key > 0 for need in reading_of(one).inputs for key in supplier_keys(need))
