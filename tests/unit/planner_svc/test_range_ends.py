"""A value is sent as the end of a range that the request means."""

from datetime import UTC, datetime

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.periods import add_other_ends, set_bounds
from planner_svc.backends.compact.range_ends import set_right_ends
from planner_svc.backends.compact.said_moments import SaidMoments
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import FillRequest
from planner_svc.backends.compact.unmarked import add_unmarked_ends, takes_limits
from planner_svc.reading.profile import read_profile
from planner_svc.reading.readings import number_in
from services.contracts.api import Api, Location
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import DAY, NUMBER, WHOLE, api, param

LIST = api("list", "List invoices", param("minAmount", NUMBER), param("maxAmount", NUMBER))
MOMENT = {"type": "string", "format": "date-time"}
EVENTS = api("listEvents", "List events", param("startsAfter", MOMENT), param("startsBefore", MOMENT))
DAYS = api("listAppointments", "List appointments", param("from", DAY, "First day"), param("to", DAY, "Last day"))


class Numbers:
    """Reads numbers."""

    def __init__(self, query: str) -> None:
        self.query, self.moments = query, SaidMoments(query, datetime(2026, 11, 28, tzinfo=UTC))

    def meaning(self, fill: FillRequest, start: int, end: int) -> int | float | None:
        """The number at these characters."""
        return number_in(self.query[start:end])


class Days:
    """Reads days."""

    def __init__(self, query: str) -> None:
        self.moments = SaidMoments(query, datetime(2026, 11, 28, tzinfo=UTC))

    def meaning(self, fill: FillRequest, start: int, end: int) -> str:
        """The day at these characters."""
        moment = self.moments.at(start, end)
        assert moment is not None
        return str(moment.last_day().day if fill.slot.role == "to" else moment.day)


class Clocks(Days):
    """Reads times of day."""

    def meaning(self, fill: FillRequest, start: int, end: int) -> str:
        """The time at these characters."""
        moment = self.moments.at(start, end)
        assert moment is not None
        assert moment.clock is not None
        return f"{moment.clock:%H:%M}"


def moved(query: str, of: Api = LIST, /, **said: str) -> dict[str, object]:
    """The arguments, for which these words were marked."""
    profile = read_profile(of)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9)
    for name, words in said.items():
        place = query.index(words), query.index(words) + len(words)
        call.arguments[name] = LiteralArgument(number_in(words), place, 0.9)
    set_right_ends(Numbers(query), query, call, fills)  # type: ignore[arg-type]
    return {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)}


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [
        ("less than £", None, 40),
        ("under ", None, 40),
        ("no more than ", None, 40),
        ("at most ", None, 40),
        ("more than ", 40, None),
        ("not less than $", 40, None),
        ("at least ", 40, None),
        ("over ", 40, None),
        ("not over ", None, 40),
        ("not exceeding €", None, 40),
        ("that don't exceed ", None, 40),
        ("not under ", 40, None),
        ("not before ", 40, None),
        (">= ", 40, None),
        ("<", None, 40),
    ],
)
@pytest.mark.parametrize("name", ["minAmount", "maxAmount"])
def test_the_words_before_a_number_tell_the_end(words: str, least: int | None, most: int | None, name: str) -> None:
    found = moved(f"Show invoices of {words}40", **{name: "40"})
    assert found == {end: value for end, value in (("minAmount", least), ("maxAmount", most)) if value is not None}


@pytest.mark.parametrize(
    ("query", "words", "kept"),
    [
        ("Show invoices over 40", "40", {"minAmount": 40}),
        ("Show invoices under 40", "40", {"maxAmount": 40}),
        ("Show invoices of 40 euros or more", "40", {"minAmount": 40}),
        ("Show invoices of 40 or less, please", "40", {"maxAmount": 40}),
        ("Show invoices of 40 or 50", "40", {"minAmount": 40, "maxAmount": 40}),
    ],
)
def test_the_same_words_are_only_the_end_that_they_say(query: str, words: str, kept: dict[str, int]) -> None:
    assert moved(query, minAmount=words, maxAmount=words) == kept


@pytest.mark.parametrize(
    ("query", "kept"),
    [("Titles written before 1900", {"publishedTo": 1900}), ("Titles of 1900 or later", {"publishedFrom": 1900})],
)
def test_years_are_only_the_end_that_they_say(query: str, kept: dict[str, int]) -> None:
    titles = api("search", "Search titles", param("publishedFrom", NUMBER), param("publishedTo", NUMBER))
    assert moved(query, titles, publishedFrom="1900", publishedTo="1900") == kept


def test_a_range_that_ends_before_it_starts_is_turned_round() -> None:
    assert moved("Show invoices between 50 and 100", minAmount="100", maxAmount="50") == {
        "minAmount": 50,
        "maxAmount": 100,
    }


def test_other_words_leave_the_ends() -> None:
    assert moved("Show invoices of 40", maxAmount="40") == {"maxAmount": 40}
    assert moved("over 50 but under 200", minAmount="50", maxAmount="200") == {"minAmount": 50, "maxAmount": 200}


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("Which appointments do we have before 4 December 2026?", {"to": "2026-12-03"}),
        ("List the appointments on 4 December 2026", {"from": "2026-12-04", "to": "2026-12-04"}),
        ("List appointments since 4 December 2026", {"from": "2026-12-04"}),
        ("List appointments from 2 December 2026 to 4 December 2026", {"from": "2026-12-02", "to": "2026-12-04"}),
    ],
)
def test_the_planner_sends_days_as_the_right_ends(backend: CompactBackend, query: str, days: dict[str, str]) -> None:
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=DAYS, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments == {name: LiteralValue(value=day) for name, day in days.items()}


@pytest.mark.parametrize(
    ("words", "role", "names"),
    [
        ("from last week", "to", {"from", "to"}),
        ("from last week", "from", {"from", "to"}),
        ("from last week on", "from", {"from"}),
        ("from last week onwards", "from", {"from"}),
        ("until last week", "to", {"to"}),
        ("of last week or earlier", "to", {"to"}),
    ],
)
def test_what_is_from_a_period_ends_with_it(words: str, role: str, names: set[str]) -> None:
    query, profile = f"List appointments {words}", read_profile(DAYS)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9, {role: LiteralArgument("2026-11-16", (query.index("last"), query.index("week") + 4), 0.9)})
    add_other_ends(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert call.arguments.keys() == names


@pytest.mark.parametrize(
    ("words", "said", "value"),
    [
        ("between 1 and 10 December 2026", "10 December 2026", "2026-12-10T23:59:59Z"),
        ("in December 2026", "December 2026", "2026-12-31T23:59:59Z"),
        ("before 10 December 2026", "10 December 2026", "2026-12-10T00:00:00Z"),
        ("until 10 December 2026", "10 December 2026", "2026-12-10T23:59:59Z"),
        ("between 1 December 2026 and 10 December 2026 at 09:00", "10 December 2026 at 09:00", "2026-12-10T09:00:00Z"),
    ],
)
def test_a_range_that_ends_at_a_time_has_its_last_day(words: str, said: str, value: str) -> None:
    query, profile = f"List events {words}", read_profile(EVENTS)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    place = query.index(said), query.index(said) + len(said)
    midnight = value.replace("23:59:59", "00:00:00")
    call = DraftCall(0, 0.9, {"startsBefore": LiteralArgument(midnight, place, 0.9)})
    set_bounds(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert call.arguments == {"startsBefore": LiteralArgument(value, place, 0.9)}


@pytest.mark.parametrize(
    ("words", "about", "said", "value"),
    [
        ("after 10 December 2026", "Day", "2026-12-10", "2026-12-10"),
        ("after 10 December 2026", "First day", "2026-12-10", "2026-12-11"),
        ("after 10 December 2026", "Created on or after this day", "2026-12-10", "2026-12-11"),
        ("since 10 December 2026", "Created on or after this day", "2026-12-10", "2026-12-10"),
        ("after 10 December 2026", "Created at or after", "2026-12-10T00:00:00Z", "2026-12-10T23:59:59Z"),
    ],
)
def test_what_is_after_a_day_leaves_it_out(words: str, about: str, said: str, value: str) -> None:
    query = f"List events {words}"
    profile = read_profile(api("list", "List", param("after", DAY if len(said) == 10 else MOMENT, about)))
    fills = [FillRequest(ParameterTarget(0, 0, profile.slots[0]), profile, 1, (), [])]
    call = DraftCall(0, 0.9, {"after": LiteralArgument(said, (query.index("10"), len(query)), 0.9)})
    set_bounds(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert [one.value for one in call.arguments.values() if isinstance(one, LiteralArgument)] == [value]


@pytest.mark.parametrize(
    ("words", "about", "value"),
    [
        ("in December 2026", "Starts before this day", "2027-01-01"),
        ("until 31 December 2026", "Starts before this day", "2027-01-01"),
        ("before 31 December 2026", "Starts before this day", "2026-12-31"),
        ("in December 2026", "Starts on or before this day", "2026-12-31"),
        ("in December 2026", "Last day, after the first", "2026-12-31"),
    ],
)
def test_the_last_day_is_included_also_by_an_end_that_leaves_it_out(words: str, about: str, value: str) -> None:
    query = f"List events {words}"
    profile = read_profile(api("list", "List", param("before", DAY, about)))
    fills = [FillRequest(ParameterTarget(0, 0, profile.slots[0]), profile, 1, (), [], [])]
    start = query.index("31") if "31" in query else query.index("December")
    call = DraftCall(0, 0.9, {"before": LiteralArgument("2026-12-31", (start, len(query)), 0.9)})
    set_bounds(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert [one.value for one in call.arguments.values() if isinstance(one, LiteralArgument)] == [value]


def test_a_day_that_is_looked_for_ends_with_its_end() -> None:
    query, profile = "List events on 10 December 2026", read_profile(EVENTS)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    midnight = LiteralArgument("2026-12-10T00:00:00Z", (query.index("10"), len(query)), 0.9)
    call = DraftCall(0, 0.9, {"startsAfter": midnight, "startsBefore": midnight})
    set_bounds(Days(query), query, call, fills)  # type: ignore[arg-type]
    values = [one.value for one in call.arguments.values() if isinstance(one, LiteralArgument)]
    assert values == ["2026-12-10T00:00:00Z", "2026-12-10T23:59:59Z"]


@pytest.mark.parametrize(
    ("query", "name", "words", "ends"),
    [
        ("List invoices of 250 to 1000 EUR", "maxAmount", "250", {"minAmount": 250, "maxAmount": 1000}),
        ("List invoices ranging from $200 to $900", "minAmount", "200", {"minAmount": 200, "maxAmount": 900}),
        ("Invoices between 300 euros and 400 euros", "maxAmount", "400", {"minAmount": 300, "maxAmount": 400}),
        ("Change the invoice from 5 to 7", "maxAmount", "7", {"maxAmount": 7}),
    ],
)
def test_a_range_of_which_one_end_is_marked_has_both(query: str, name: str, words: str, ends: dict[str, int]) -> None:
    assert moved(query, **{name: words}) == ends


@pytest.mark.parametrize(
    ("query", "ends"),
    [
        ("appointments in the last 30 days", {"from": "2026-10-29"}),
        ("appointments until Christmas", {"to": "2026-12-25"}),
        ("appointments from 1 to 3 December", {"from": "2026-12-01", "to": "2026-12-03"}),
        ("appointments on 1 December and on 3 December", {}),
        ("appointments at 3 pm", {}),
    ],
)
def test_dates_that_no_argument_has_limit_a_search(query: str, ends: dict[str, str]) -> None:
    profile, call = read_profile(DAYS), DraftCall(0, 0.9)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    add_unmarked_ends(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)} == ends


@pytest.mark.parametrize(
    ("query", "ends"),
    [
        ("invoices between 500 and 1,500 euros", {"minAmount": 500, "maxAmount": 1500}),
        ("invoices of at least 2k", {"minAmount": 2000}),
        ("invoices before 10 December over 7 euros", {"minAmount": 7}),
        ("invoice 4711", {}),
    ],
)
def test_amounts_that_no_argument_has_limit_a_search(query: str, ends: dict[str, int]) -> None:
    profile, call = read_profile(LIST), DraftCall(0, 0.9)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    add_unmarked_ends(Numbers(query), query, call, fills)  # type: ignore[arg-type]
    assert {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)} == ends


def test_what_is_moved_gets_where_it_goes(backend: CompactBackend) -> None:
    of = api(
        "moveStay",
        "Move a stay to another berth",
        param("stayId", WHOLE, "Id of the stay", required=True),
        param("berthCode", about="Code of the berth", required=True),
        method="PATCH",
    )
    query = "Move stay 902 from A1 to B7"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=of, score=1),)))
    assert draft.plan is not None
    assert draft.plan.steps[0].arguments["berthCode"] == LiteralValue(value="B7")


MESSAGES = api(
    "deleteMessages",
    "Delete messages",
    param("older_than_days", WHOLE, "Delete messages older than this many days"),
    method="DELETE",
)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("Delete all messages older than two weeks", {"older_than_days": 14}),
        ("Delete messages newer than 3 days", {}),
    ],
)
def test_the_age_of_what_is_deleted(backend: CompactBackend, query: str, sent: dict[str, int]) -> None:
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=MESSAGES, score=1),)))
    assert draft.plan is not None
    values = draft.plan.steps[0].arguments
    assert {name: value.value for name, value in values.items() if isinstance(value, LiteralValue)} == sent


def test_who_stays_arrives_before_they_leave(backend: CompactBackend) -> None:
    of = api(
        "createStay",
        "Book a berth",
        param("berth", about="Code of the berth", required=True),
        param("arrival", DAY, "Day of arrival", required=True),
        param("departure", DAY, "Day of departure", required=True),
        method="POST",
    )
    query = "Book berth B7 from 15 to 18 December 2026"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=of, score=1),)))
    assert draft.plan is not None
    sent = draft.plan.steps[0].arguments
    assert sent["arrival"] == LiteralValue(value="2026-12-15")
    assert sent["departure"] == LiteralValue(value="2026-12-18")


def test_the_last_word_tells_the_end_of_a_start_or_an_end() -> None:
    names = ("StartDateFrom", "StartDateTo", "EndDateFrom", "EndDateTo", "created_gt", "start", "endDate", "not_before")
    slots = read_profile(api("list", "List", *(param(name, DAY) for name in names))).slots
    assert [slot.role for slot in slots] == ["from", "to", "from", "to", "from", "from", "to", "from"]
    assert slots[0].paired == slots[1].paired == {"start", "date"}
    assert slots[2].paired == {"end", "date"}
    assert slots[6].paired == {"date"}


def test_the_year_of_a_date_is_no_id(backend: CompactBackend) -> None:
    extend = api(
        "assignLocker",
        "Assign a locker to a member, or extend the assignment",
        param("number", WHOLE, "Number of the locker", required=True),
        param("member_id", WHOLE, "Id of the member", required=True),
        param("until", DAY, "Last day of the assignment"),
        method="PUT",
    )
    query = "Extend locker 7 until the end of June 2027"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=extend, score=1),)))
    assert [one.argument for one in draft.missing] == ["member_id"]


def test_a_date_of_a_change_limits_no_search_beside_it() -> None:
    notice = api("giveNotice", "Give notice", param("endsOn", DAY, required=True), method="POST")
    assert [takes_limits(read_profile(one)) for one in (notice, LIST, MESSAGES)] == [True, True, True]
    assert not takes_limits(read_profile(api("findHolders", "Find holders", param("name"))))


COUNT = api("countClaims", "Count claims", param("year", WHOLE), param("month", WHOLE))


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ("in March 2026", {"year": 2026, "month": 3}),
        ("in 2025", {"year": 2025}),
        ("in Q3 2026", {}),
        ("from March to May 2026", {}),
    ],
)
def test_a_month_has_a_year_and_a_month(words: str, sent: dict[str, int]) -> None:
    query, profile, call = f"Count claims {words}", read_profile(COUNT), DraftCall(0, 0.9)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    add_unmarked_ends(Numbers(query), query, call, fills)  # type: ignore[arg-type]
    assert {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)} == sent


@pytest.mark.parametrize(
    ("words", "said", "kept"),
    [
        ("of last week", "last week", False),
        ("from last week", "last week", False),
        ("of 3 November", "3 November", False),
        ("before last week", "last week", True),
        ("older than 3 November", "3 November", True),
        ("to 3 November", "3 November", True),
    ],
)
def test_a_change_is_not_limited_by_an_end_that_nothing_tells(words: str, said: str, kept: bool) -> None:
    query, before = f"Delete the photos {words}", param("takenBefore", DAY)
    profile = read_profile(
        api("deletePhotos", "", before.model_copy(update={"location": Location.QUERY}), method="DELETE")
    )
    fills = [FillRequest(ParameterTarget(0, 0, profile.slots[0]), profile, 1, (), [])]
    place = query.index(said), query.index(said) + len(said)
    call = DraftCall(0, 0.9, {"takenBefore": LiteralArgument("2026-11-16", place, 0.9)})
    set_right_ends(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert bool(call.arguments) == kept


def test_a_change_does_not_end_at_the_time_of_day_at_which_it_starts() -> None:
    query = "Move pickup 5 to 10 am"
    profile = read_profile(api("movePickup", "", param("window_start"), param("window_end"), method="PATCH"))
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    ten = LiteralArgument("10:00", (query.index("10"), len(query)), 0.9)
    call = DraftCall(0, 0.9, {"window_start": ten, "window_end": ten})
    set_right_ends(Days(query), query, call, fills)  # type: ignore[arg-type]
    assert call.arguments == {"window_start": ten}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("on 5 December between 8 and 10", {"window_start": "10"}),
        ("on 5 December, 8 to 10", {"window_end": "5 December, 8 to 10"}),
        ("on 5 December from 8 to 10", {"window_start": "10", "window_end": "5 December from 8"}),
    ],
)
def test_both_ends_of_a_range_are_told_apart(words: str, said: dict[str, str]) -> None:
    query = f"Schedule a pickup {words}"
    profile = read_profile(api("schedulePickup", "", param("window_start"), param("window_end"), method="POST"))
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9)
    for name, text in said.items():
        place = query.rindex(text), query.rindex(text) + len(text)
        call.arguments[name] = LiteralArgument("?", place, 0.9)
    add_other_ends(Clocks(query), query, call, fills)  # type: ignore[arg-type]
    values = {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)}
    assert values == {"window_start": "08:00", "window_end": "10:00"}


class Texts(Days):
    """Reads any words."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query

    def meaning(self, fill: FillRequest, start: int, end: int) -> str:
        """The words at these characters."""
        return self.query[start:end]


@pytest.mark.parametrize(
    ("query", "from_currency", "to_currency"),
    [
        ("How many euros are 20 dollars?", "dollars", "euros"),
        ("20 dollars in euros", "dollars", "euros"),
        ("dollars and euros", "euros", "dollars"),  # nothing tells, so what was marked stays
    ],
)
def test_what_is_counted_is_converted_to_what_is_asked_for(query: str, from_currency: str, to_currency: str) -> None:
    convert = api("convert", "Convert money", param("from_currency"), param("to_currency"))
    profile = read_profile(convert)
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), []) for at, slot in enumerate(profile.slots)]
    call = DraftCall(0, 0.9)
    for name, words in ({"from_currency": "euros", "to_currency": "dollars"}).items():
        call.arguments[name] = LiteralArgument(words, (query.index(words), query.index(words) + len(words)), 0.9)
    set_right_ends(Texts(query), query, call, fills)  # type: ignore[arg-type]
    found = [one.value for one in call.arguments.values() if isinstance(one, LiteralArgument)]
    assert found == [from_currency, to_currency]
