"""Missing arguments that leave no choice are filled in and said; all others are asked for, with producers named."""

from typing import Any

import pytest

from services.contracts.api import Api, Location, Parameter, SecretKind
from services.contracts.plan import LiteralValue, ObjectValue
from services.contracts.planning import Decision, DiagnosticCode, Policy
from services.supply import Operation
from tests.unit.planner_svc.building import api, codes, listed, param, plan, prove, record, secret, step

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
SUN = api(
    "sunrise",
    param("latitude", NUMBER, required=True),
    param("longitude", NUMBER, required=True),
    param("iata", TEXT),
    returns=record(sunrise=TEXT),
)
AIRPORT = api(
    "getAirport",
    param("iata", TEXT, required=True),
    returns=record(place=record(latitude=NUMBER, longitude=NUMBER), runways={"type": "array"}),
)
OTHER = api("getCity", param("iata", TEXT, required=True), returns=record(latitude=NUMBER, longitude=NUMBER))
GAP = plan(step("sun", "sunrise", iata="LIS"))


def test_the_only_producer_is_called_once_for_both_arguments() -> None:
    response = prove(GAP, SUN, AIRPORT)
    assert response.compiled is not None
    first, second = response.compiled.plan.steps
    assert response.compiled.proof.inserted == (first.id,) == ("implicit1",)
    assert first.api == "t.getAirport"
    assert first.arguments == {"iata": second.arguments["iata"]}
    assert response.compiled.proof.stages == (("implicit1",), ("sun",))
    assert {d.argument for d in response.diagnostics} == {"latitude", "longitude"}
    assert all(d.severity == "warning" and "implicit1" in d.message for d in response.diagnostics)
    assert response.compiled.plan.id != GAP.id


def test_two_possible_producers_leave_a_choice_so_it_asks() -> None:
    response = prove(GAP, SUN, AIRPORT, OTHER)
    assert response.compiled is None
    assert {question.argument for question in response.questions} == {"latitude", "longitude"}
    assert {fix.api for fix in response.diagnostics[0].fixes} == {"t.getAirport", "t.getCity"}


def test_a_producer_that_needs_something_unknown_is_only_named() -> None:
    response = prove(plan(step("sun", "sunrise")), SUN, AIRPORT)
    assert response.compiled is None
    assert [fix.api for fix in response.diagnostics[0].fixes] == ["t.getAirport"]


def test_a_producer_that_may_not_be_called_is_not() -> None:
    changing = AIRPORT.model_copy(update={"method": "POST"})
    locked = AIRPORT.model_copy(update={"security": ((secret("key", SecretKind.BEARER),),)})
    assert prove(GAP, SUN, changing, policy=Policy(mutating=Decision.ALLOW)).compiled is None
    assert prove(GAP, SUN, AIRPORT, policy=Policy(deny=("t.getAirport",))).compiled is None
    assert prove(GAP, SUN, locked, credentials=()).compiled is None
    assert prove(GAP, SUN, locked, credentials=("t.key",)).compiled is not None


def test_a_step_that_has_the_value_already_is_used() -> None:
    response = prove(plan(step("air", "getAirport", iata="LIS"), step("sun", "sunrise")), SUN, AIRPORT)
    assert response.compiled is not None
    assert response.compiled.proof.inserted == ()
    assert response.compiled.plan.steps[1].arguments["latitude"].path == ("place", "latitude")  # type: ignore[union-attr]
    both = plan(step("a", "getAirport", iata="LIS"), step("b", "getAirport", iata="OPO"), step("sun", "sunrise"))
    assert prove(both, SUN, AIRPORT).compiled is None


def test_the_api_may_supply_a_part_of_the_name() -> None:
    country = api("findCountry", param("country", required=True), returns=record(code=TEXT))
    holidays = api("holidays", param("countryCode", required=True), param("country"))
    response = prove(plan(step("a", "holidays", country="Portugal")), country, holidays)
    assert response.compiled is not None
    assert response.compiled.proof.inserted == ("implicit1",)


def test_what_people_say_is_asked_and_never_looked_up() -> None:
    semester = api("getSemester", returns=record(start_date=TEXT, name=TEXT, id=TEXT))
    for name in ("start_date", "name", "id"):
        book = api("book", param(name, required=True))
        response = prove(plan(step("a", "book")), semester, book)
        assert response.compiled is None
        assert [question.argument for question in response.questions] == [name]


def test_a_question_quotes_no_markup() -> None:
    cancel = api(
        "cancel", param("shipmentId", required=True, about="The <b>id</b> of a shipment.<br><br>If a < b, ask")
    )
    response = prove(plan(step("a", "cancel")), cancel)
    assert (
        response.questions[0].text == "What should “shipment id” be for “cancel”? (The id of a shipment. If a < b, ask)"
    )


def test_a_call_that_changes_something_is_never_completed_by_guessing() -> None:
    changing = SUN.model_copy(update={"method": "DELETE"})
    subject = plan(step("air", "getAirport", iata="LIS"), step("sun", "sunrise", iata="LIS"))
    response = prove(subject, changing, AIRPORT, policy=Policy(mutating=Decision.ALLOW))
    assert response.compiled is None
    assert response.diagnostics[0].fixes[0].message == "Take place.latitude of the output of 'air'."


def test_a_field_of_another_type_produces_nothing() -> None:
    words = api("getAirport", param("iata", required=True), returns=record(latitude=record(), longitude=record()))
    response = prove(GAP, SUN, words)
    assert response.compiled is None
    assert response.diagnostics[0].fixes == ()


def test_questions_are_bounded() -> None:
    needy = api("needy", param("x", required=True, at=Location.BODY, about="What  to\nput."))
    response = prove(plan(*(step(f"s{n}", "needy") for n in range(300))), needy)
    assert len(response.questions) == 50
    assert len(response.diagnostics) <= 200
    assert response.questions[0].text == "What should “x” be for “needy”? (What to put)"
    assert codes(response) >= {DiagnosticCode.MISSING_ARGUMENT}


ORDER = {"type": "string"}
TRACK = api("track", param("orderId", required=True), param("customer"))
LATEST = api("latest", returns=record(orderId=ORDER))
SEARCH = api("searchOrders", param("q", required=True), returns=record(results=listed(record(orderId=ORDER))))


def test_an_api_is_read_once_for_all_arguments_that_it_may_supply(monkeypatch: pytest.MonkeyPatch) -> None:
    """One import and one plan could make thousands of readings: 50 producers for each of 50 questions."""
    read: list[str] = []
    of = Operation.of

    def counted(one: Api) -> Operation:
        read.append(one.id)
        return of(one)

    monkeypatch.setattr(Operation, "of", counted)
    asked = prove(plan(*(step(f"s{n}", "track") for n in range(5))), TRACK, SEARCH)
    assert len(asked.questions) == 5
    assert sorted(read) == [SEARCH.id, TRACK.id]


def test_a_call_without_arguments_is_offered_and_never_inserted() -> None:
    response = prove(plan(step("a", "track", customer="Nora Berg")), TRACK, LATEST)
    assert response.compiled is None
    assert [question.argument for question in response.questions] == ["orderId"]
    assert [fix.message for fix in response.diagnostics[0].fixes] == ["Call t.latest, whose output has orderId."]
    called = prove(plan(step("l", "latest"), step("a", "track")), TRACK, LATEST)
    assert called.compiled is not None  # the plan itself calls it
    assert called.compiled.proof.inserted == ()


def test_what_is_inside_a_list_is_offered_and_never_taken() -> None:
    missing = prove(plan(step("a", "track")), TRACK, SEARCH)
    assert [fix.message for fix in missing.diagnostics[0].fixes] == [
        "Call t.searchOrders, whose output has results[0].orderId."
    ]
    searched = prove(plan(step("s", "searchOrders", q="Nora"), step("a", "track")), TRACK, SEARCH)
    assert searched.compiled is None
    assert searched.diagnostics[0].fixes[0].message == "Take results[0].orderId of the output of 's'."
    taken = plan(step("s", "searchOrders", q="Nora"), step("a", "track", orderId="$s.results.0.orderId$"))
    fixed = prove(taken, TRACK, SEARCH)
    assert fixed.compiled is not None


def test_a_field_outside_a_list_is_offered_before_one_inside() -> None:
    both = api("find", param("q", required=True), returns=record(orders=listed(record(orderId=ORDER)), orderId=ORDER))
    response = prove(plan(step("a", "track")), TRACK, both)
    assert response.diagnostics[0].fixes[0].message == "Call t.find, whose output has orderId."


@pytest.mark.parametrize(
    ("producer", "returned", "inserted"),
    [
        ("getOrder", record(id=ORDER), True),
        ("getOrder", record(data=record(id=ORDER)), True),
        ("open", record(order=record(id=ORDER)), True),
        ("getOrder", record(customer=record(id=ORDER)), False),
        ("getOrder", record(order=record(customer=record(id=ORDER))), False),
        ("reorderings", record(id=ORDER), False),
    ],
)
def test_the_id_of_another_thing_is_not_inserted(producer: str, returned: dict[str, Any], inserted: bool) -> None:
    found = api(producer, param("customer", required=True), returns=returned)
    response = prove(plan(step("a", "track", customer="Nora Berg")), TRACK, found)
    assert (response.compiled is not None) == inserted
    if not inserted:
        assert [fix.api for fix in response.diagnostics[0].fixes] == [found.id]


@pytest.mark.parametrize("bare", ["id", "name"])
def test_an_argument_of_a_bare_name_is_not_taken_from_another_call(bare: str) -> None:
    customer = api("getCustomer", param(bare, required=True), returns=record(email=TEXT))
    order = api("getOrder", param(bare, required=True), returns=record(orderId=ORDER))
    named = step("c", "getCustomer").model_copy(update={"arguments": {bare: LiteralValue(value="Nora Berg")}})
    subject = plan(named, step("a", "track", customer="$c.email$"))
    response = prove(subject, customer, order, TRACK)
    assert response.compiled is None
    assert [fix.api for fix in response.diagnostics[0].fixes] == ["t.getOrder"]


def test_recursive_lists_are_read_within_bounds() -> None:
    tree = {"$ref": "#/$defs/T"}
    definitions = {"T": {"type": "array", "items": tree}}
    endless = api("endless", returns=tree, definitions=definitions)
    response = prove(plan(step("a", "track")), TRACK, endless)
    assert response.diagnostics[0].fixes == ()


def test_the_likeliest_producer_is_named_first_and_one_that_needs_the_value_itself_last() -> None:
    def get(name: str, path: str, *parameters: Parameter, returns: dict[str, Any]) -> Api:
        return api(name, *parameters, returns=returns).model_copy(update={"path": path})

    customer = param("customerId", required=True, at=Location.PATH)
    orders = get("ordersOf", "/customers/{customerId}/orders", customer, returns=record(total=NUMBER))
    notes = get("aNotes", "/customers/{customerId}/notes", customer, returns=record(customerId=TEXT))
    invoices = get("bInvoices", "/invoices", returns=listed(record(customerId=TEXT)))
    listing = get("cCustomers", "/customers", returns=listed(record(customerId=TEXT)))
    response = prove(plan(step("a", "ordersOf")), notes, invoices, listing, orders)
    assert [fix.api for fix in response.diagnostics[0].fixes] == ["t.cCustomers", "t.bInvoices", "t.aNotes"]


def test_a_question_about_a_part_of_an_object_names_both() -> None:
    parcel = {**record(declared_value=NUMBER), "required": ["declared_value"]}
    send = api("send", param("parcel", parcel, required=True), method="POST", summary="Send a parcel")
    found = prove(plan(step("s", "send", parcel=ObjectValue(fields={}))), send)
    assert [one.text for one in found.questions] == [
        "What should “declared value of the parcel” be for “Send a parcel”?"
    ]
