"""Which output feeds which parameter, by the names of both."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.api import Api, Parameter
from services.supply import SIGNS, Input, Operation, Scorer, full_name, likely_signs, roots, shipped, signs
from services.trees import TreesError

ORDERS_OF = Operation("shop", "ordersOf", "/customers/{customerId}/orders", required=("customerId",))
CUSTOMER = Input.of(ORDERS_OF, "customerId", "The customer.")


def likely(source: Operation, parameter: Input = CUSTOMER) -> float:
    return max(shipped().scores(list(likely_signs(parameter, source))).tolist(), default=0.0)


def test_the_list_of_things_is_likelier_than_one_that_tells_their_id_and_that_than_others() -> None:
    listed = Operation("shop", "listCustomers", "/customers", outputs=("id", "name"))
    told = Operation("shop", "listInvoices", "/invoices", outputs=("id", "customerId"))
    other = Operation("shop", "listColours", "/colours", outputs=("id", "name"))
    assert likely(listed) > likely(told) > likely(other)


def test_what_needs_the_value_itself_supplies_it_only_if_it_reads_the_one_thing() -> None:
    notes = Operation("shop", "notes", "/customers/{id}/notes", required=("id",), outputs=("customerId",))
    one = Operation("shop", "getCustomer", "/customers/{id}", required=("id",), outputs=("id",))
    assert likely(notes) == 0 < likely(one)


@pytest.mark.parametrize("name", ["customerId", "customer_ids", "CustomerIDFK", "customer_uuid"])
def test_the_names_of_an_id_are_one(name: str) -> None:
    found = Operation("shop", "listInvoices", "/invoices", outputs=("customerId",))
    assert signs(Input.of(ORDERS_OF, name), found, found.fields[0])[SIGNS.index("namesake")]


def test_a_name_that_only_says_id_is_told_apart_by_its_holder() -> None:
    assert full_name(["data", "customer", "items", "id"]) == "customer id"
    assert full_name(["data", "id"]) == "id"
    assert full_name(["customer", "firstName"]) == "firstName"


def test_trees_over_other_signs_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "supply.npz"
    shipped().save(file)
    assert Scorer.load(file).scores([(0.0,) * len(SIGNS)]).tolist() == shipped().scores([(0.0,) * len(SIGNS)]).tolist()
    np.savez(file, signs=np.array(["other"]), **shipped().trees.arrays())  # type: ignore[arg-type]
    with pytest.raises(TreesError, match="other signs"):
        Scorer.load(file)


@given(*[st.text(max_size=30)] * 4)
def test_any_names_have_a_likelihood(path: str, name: str, field: str, about: str) -> None:
    consumer = Operation("a", name, f"/{path}/{{{name}}}", required=(name,))
    source = Operation("a", field, f"/{path}", outputs=(field, full_name([field, "id"])))
    assert 0 <= likely(source, Input.of(consumer, name, about)) <= 1


def test_long_names_and_many_parameters_are_read_in_part() -> None:
    """Documents hold names of megabytes and thousands of parameters, and what was read is remembered."""
    assert roots("order " * 1_000) == roots("order " * 1_000 + "customer")
    wide = Api(
        id="p.wide",
        provider="p",
        name="wide",
        path="/wide",
        parameters=tuple(
            Parameter(name=f"p{n}", wire_name=f"p{n}", location="query", required=True, json_schema={})
            for n in range(100)
        ),
    )
    assert len(Operation.of(wide).required) == 24
