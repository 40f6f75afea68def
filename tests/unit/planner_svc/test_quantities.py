"""Amounts are read as a whole, and sent in the unit that an argument takes."""

from typing import Any

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.backends.compact.amounts import amount_meant, ids_named
from planner_svc.reading.profile import read_profile
from planner_svc.reading.quantities import quantities
from planner_svc.reading.units import UNIT_WORDS, unit_of
from services.contracts.api import Location
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import NUMBER, TEXT, WHOLE, api, param

CENTS = "Amount in the smallest currency unit"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1,250.75", 1250.75),
        ("48,90", 48.9),
        ("1.250,00", 1250),
        ("two hundred and forty", 240),
        ("four hundred and two thousand and fifty", 402_050),
        ("twelve hundred", 1200),
        ("two dozen", 24),
        ("a hundred", 100),
        ("three point five", 3.5),
        ("twelve and a half", 12.5),
        ("2 million", 2_000_000),
        ("-5,8", -5.8),
        ("an hour and a half", 1.5),
        ("three quarters of an hour", 0.75),
        ("half a litre", 0.5),
        ("3 hours 15 minutes", 195),
        ("1h30", 90),
        ("1.2k", 1200),
    ],
)
def test_an_amount_is_read_as_a_whole(text: str, amount: float) -> None:
    (found,) = quantities(f"it is {text} then")
    assert (found.start, found.end, found.amount) == (6, 6 + len(text), amount)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("€1.250", 1250), ("1.250 €", 1250), ("1.459 € per litre", 1.459), ("$3.459", 3.459), ("1.250 kg", 1.25)],
)
def test_a_point_separates_the_thousands_of_prices(text: str, amount: float) -> None:
    assert [one.amount for one in quantities(text)] == [amount]


@pytest.mark.parametrize("text", ["at 10:30", "version 1.2.3", "ids 7,8,9", "half of it", "a dog", "on 2026-12-01"])
def test_no_part_of_another_notation_is_an_amount(text: str) -> None:
    assert [one.amount for one in quantities(text)] in ([], [2026])


def test_letters_that_look_alike_are_those_of_units() -> None:
    """A pattern that ignores case takes U+0131 for i and U+017F for s."""
    assert [one.unit for one in quantities("5 m\u0131nutes or half an \u0131nch")] == [
        UNIT_WORDS["minutes"],
        UNIT_WORDS["inch"],
    ]
    stated = read_profile(api("wait", "Wait.", param("length", WHOLE, "How long, in m\u0131nutes"))).slots[0]
    assert unit_of(stated) == UNIT_WORDS["minutes"]


@pytest.mark.parametrize("text", ["room two and three", "2 and 3", "5, 6", "5 °C and 41 °F"])
def test_two_numbers_are_no_sum(text: str) -> None:
    assert len(quantities(text)) == 2


def sent(text: str, cut: str, name: str, schema: dict[str, Any] = NUMBER, about: str = "") -> object:
    """The value of an argument for which a part of the text was marked."""
    (slot,) = read_profile(api("set", "Set", param(name, schema, about))).slots
    return amount_meant(text, quantities(text), slot, text.index(cut), text.index(cut) + len(cut))


@pytest.mark.parametrize(
    ("text", "cut", "name", "about", "value"),
    [
        ("0,5 ml", "5 ml", "amount", "", 0.5),
        ("$1,200", "200", "amount", "", 1200),
        ("two hundred and forty pounds", "two hundred", "total", "", 240),
        ("seven and a half hours", "half", "hours", "", 7.5),
        ("45 minutes", "45 minutes", "hours", "Time in decimal hours", 0.75),
        ("2300 grams", "2300", "weightKg", "", 2.3),
        ("3 hours 15 minutes", "3 hours", "hours", "", 3.25),
        ("35 hours a week", "35", "capacity", "Hours a week, in seconds", 126_000),
        ("5 lbs", "5", "weight", "Weight in kilograms", 2.267962),
        ("$12.50", "12.50", "amount", CENTS, 1250),
        ("20 euros", "20", "amount", "in cents", 2000),
        ("900 yen", "900", "amount", CENTS, 900),
        ("1250 for all", "1250", "amount", CENTS, 1250),
        ("50 cents", "50", "amount", CENTS, 50),
        ("46 °F", "46", "max_celsius", "", 7.777778),
        ("41 degrees Fahrenheit", "41", "limit", "Temperature in Celsius", 5),
        ("-20 °C", "-20", "minFahrenheit", "", -4),
        ("5 °C", "5", "max_celsius", "", 5),
        ("10 days", "10", "days", "", 10),
        ("a week", "a week", "days", "", 7),
        ("5 GB", "5", "larger_than_mb", "", 5000),
        ("every 12 hours", "12", "timesPerDay", "", 12),
        ("3 hours 15 minutes", "3 hours", "duration", "", None),
    ],
)
def test_the_whole_is_sent_in_the_unit_of_the_argument(
    text: str, cut: str, name: str, about: str, value: float | None
) -> None:
    assert sent(text, cut, name, about=about) == value


def test_a_text_gets_the_whole_number() -> None:
    assert sent("weight 3,5", "3", "weight", TEXT) == "3.5"
    assert sent("2 kg", "2", "weight", TEXT) is None  # it is whole already
    assert sent("ten of them", "ten", "limit", TEXT) == "10"


@pytest.mark.parametrize(
    ("said", "name", "schema"),
    [
        ("6 months", "limit", WHOLE),
        ("500 euros", "limit", WHOLE),
        ("50 mg", "days", WHOLE),
        ("one and a half", "effort", WHOLE),
        ("45 minutes", "hours", WHOLE),
        ("two weeks", "month", WHOLE),
        ("five most expensive claims", "maxAmount", NUMBER),
        ("3 latest claims", "maxAmount", NUMBER),
    ],
)
def test_what_an_argument_cannot_take_is_not_sent_in_part(said: str, name: str, schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unit|whole|page|length|first"):
        sent(said, said.split()[0], name, schema)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("half of order A-12", "half"),
        ("10% of order A-12", "10"),
        ("10 % of it", "10 %"),
        ("a third of 500", "a third"),
    ],
)
def test_a_share_is_no_amount(text: str, cut: str) -> None:
    with pytest.raises(ValueError, match="share"):
        sent(text, cut, "amount")
    assert sent("a discount of 10%", "10", "amount") == 10


@pytest.mark.parametrize(
    ("name", "schema"), [("id", WHOLE), ("ticketId", WHOLE), ("ids", {"type": "array", "items": WHOLE})]
)
def test_ids_with_a_comma_between_them_are_not_one(name: str, schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="several"):
        sent("Delete tickets 101,102", "101", name, schema)
    with pytest.raises(ValueError, match="several"):
        sent("Delete tickets 5,6", "5,6", name, schema)
    assert sent("Set the stock to 1,200", "1,200", "stock", WHOLE) == 1200


@pytest.mark.parametrize(
    ("text", "cut", "value"),
    [
        ("Pay Anna $1.2m", "1.2", 1_200_000),
        ("Pay Anna \u20ac 3bn", "3", 3_000_000_000),
        ("Set the freezer to minus 18 degrees", "18", -18),
        ("Subtract 10 minus 4", "4", 4),
    ],
)
def test_words_and_signs_beside_a_number_count(text: str, cut: str, value: float) -> None:
    assert sent(text, cut, "amount") == value


@pytest.mark.parametrize(
    ("said", "hours"), [("45 minutes", 0.75), ("seven and a half hours", 7.5), ("3 hours 15 minutes", 3.25)]
)
def test_the_planner_sends_the_amount_in_the_unit_of_the_argument(
    backend: CompactBackend, said: str, hours: float
) -> None:
    log = api(
        "updateTimeEntry",
        "Update a time entry",
        param("timeEntryId", WHOLE, required=True),
        param("hours", NUMBER, "The time tracked, in decimal hours"),
        method="PATCH",
    )
    query = f"Change time entry 5512 to {said}"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=log, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["hours"] == LiteralValue(value=hours)


@pytest.mark.parametrize(
    ("text", "at", "ids"),
    [
        ("Take back bins 7006 to 7008", "7006", ["7006", "7007", "7008"]),
        ("Take back bins 7006 to 7008", "7008", ["7006", "7007", "7008"]),
        ("Take back bins 7006, 7008 and 9", "7006", ["7006", "7008", "9"]),
        ("Take back bins 7006 to 8000", "7006", []),
        ("Move units U-0998 to U-1000 into F3", "U-0998", ["U-0998", "U-0999", "U-1000"]),
        ("Move units U-4400 to U-4402 into F3", "U-4402", ["U-4400", "U-4401", "U-4402"]),
        ("Move units U-4400 to F2", "U-4400", []),
        ("Move bin 7006 from tour 31 to 33", "31", []),
        ("Take back bin 7006", "7006", []),
    ],
)
def test_a_range_of_ids_names_each_of_them(text: str, at: str, ids: list[str]) -> None:
    place = text.index(at), text.index(at) + len(at)
    assert [one for one, _ in ids_named(text, place)] == ids


def test_a_list_of_codes_has_all_of_a_range(backend: CompactBackend) -> None:
    units = {"type": "array", "items": TEXT}
    allocate = api(
        "allocateUnits",
        "Allocate units to an order",
        param("orderId", TEXT, "Number of the order, such as BO-510", required=True),
        param("unitNos", units, "Numbers of the units, such as U-4400", required=True),
        method="POST",
    )
    query = "Allocate units U-4401 to U-4403 to order BO-510"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=allocate, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["unitNos"] == LiteralValue(value=["U-4401", "U-4402", "U-4403"])


def test_each_of_a_range_of_codes_is_changed(backend: CompactBackend) -> None:
    number = param("unitNo", TEXT, "Number of the unit, such as U-4400", required=True)
    move = api(
        "moveUnit",
        "Move a blood unit to another fridge",
        number.model_copy(update={"location": Location.PATH}),
        param("fridge", TEXT, "Code of the new fridge", required=True),
        method="PUT",
        path="/units/{unitNo}/fridge",
    )
    query = "Move units U-4400 to U-4402 into F3"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=move, score=1),)))
    assert draft.plan is not None
    sent = [(step.arguments["unitNo"], step.arguments["fridge"]) for step in draft.plan.steps]
    assert sent == [(LiteralValue(value=f"U-440{at}"), LiteralValue(value="F3")) for at in range(3)]


def test_another_year_is_one_more() -> None:
    assert [(one.amount, one.unit) for one in quantities("another year")] == [(1, UNIT_WORDS["year"])]
    assert not quantities("another goose")


@pytest.mark.parametrize("query", ["Start a run tonight at 8", "Start a run on 3 May 2027 at 7"])
def test_an_hour_is_no_duration(backend: CompactBackend, query: str) -> None:
    start = api(
        "startRun",
        "Start a run",
        param("startsAt", {"type": "string", "format": "date-time"}, "When it starts", required=True),
        param("durationMinutes", WHOLE, "Duration"),
        method="POST",
        path="/runs",
    )
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=start, score=1),)))
    assert draft.plan is not None
    assert set(draft.plan.steps[0].arguments) == {"startsAt"}


@pytest.mark.parametrize("said", ["3 tons", "2 sacks", "5 gallons"])
def test_a_unit_of_unclear_size_is_not_left_out(said: str) -> None:
    profile = read_profile(api("orderFeed", "Order feed", param("quantityKg", NUMBER)))
    query = f"Order {said} of feed"
    with pytest.raises(ValueError, match="unclear"):
        amount_meant(query, quantities(query), profile.slots[0], 6, 7)


@pytest.mark.parametrize(
    ("said", "sent"), [("12 knots", 22.224), ("10 mph", 16.09344), ("5 m/s", 18), ("20 km/h", 20), ("20", 20)]
)
def test_a_speed_is_sent_in_the_unit_of_the_argument(said: str, sent: float) -> None:
    profile = read_profile(api("completeFlight", "Complete a flight", param("windKmh", NUMBER)))
    query = f"wind {said}"
    number = said.split()[0]
    assert amount_meant(query, quantities(query), profile.slots[0], 5, 5 + len(number)) == sent
