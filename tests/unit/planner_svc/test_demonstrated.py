"""Plans of demonstrations: for the same request, for it with other values, and for no other request."""

import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from planner_svc.backends.demonstrated import DemonstratedBackend
from planner_svc.backends.demonstrated.backend import LIKE, SAME
from planner_svc.backends.demonstrated.wording import Run, Wording
from planner_svc.metrics import PlannerMetrics
from planner_svc.proving.item_matches import with_matches
from planner_svc.service import PlannerService
from services.compute import ComputePool
from services.contracts.demo import Demo
from services.contracts.plan import Plan
from services.errors import DeadlineExceeded
from tests.unit.planner_svc.building import used_up
from tests.unit.planner_svc.demonstrated_world import asking, demo_of, demos, pairs, wanted

_RELATIVE = r"tomorrow|friday|thursday|weekend|12 June"
LEAST = 0.85
"""The share of the requests with other values that are to get the plan with these."""


@pytest.fixture(scope="module")
def backend() -> DemonstratedBackend:
    return DemonstratedBackend(ComputePool(1))


def shown(query: str, answer: str = "$a$", **steps: tuple[str, dict[str, Any]]) -> Demo:
    return demo_of({"query": query, "steps": steps, "answer": answer})


def arguments(plan: Plan | None, step: str = "a") -> dict[str, Any]:
    """A step's literals."""
    found = plan.step(step) if plan is not None else None
    assert found is not None
    return {name: value.value for name, value in found.arguments.items() if value.kind == "literal"}


WEATHER = shown("Weather in Oslo tomorrow", a=("shop.getWeather", {"city": "Oslo", "date": "2024-02-29"}))
TICKETS = ("office.listTickets", {"assignee": "ana", "account_id": "acc_17"})


def test_the_very_same_request_gets_the_very_same_plan(backend: DemonstratedBackend) -> None:
    timeless = [demo for query, demo in demos().items() if not re.search(_RELATIVE, query, re.IGNORECASE)]
    assert len(timeless) >= 50
    for demo in timeless:
        others = [other for other in timeless if other is not demo][:5]
        spaced = demo.query if re.search("[\"']", demo.query) else demo.query.replace(" ", "  ")
        for query in (demo.query, f"  {spaced} ", demo.query.rstrip("?.") + "!", f"Please {demo.query}"):
            draft = backend.draft(asking(query, *others, demo))
            assert (draft.plan, draft.confidence) == (demo.plan, SAME), query


def test_capitals_do_not_make_another_request_but_in_what_is_quoted(backend: DemonstratedBackend) -> None:
    rent = demos()['Set a reminder "pay the rent" for 2028-05-01T07:00:00Z']
    assert backend.draft(asking(rent.query.replace("Set", "set"), rent)).plan == rent.plan
    draft = backend.draft(asking(rent.query.replace("pay the rent", "Pay the RENT"), rent))
    assert arguments(draft.plan, "var1")["text"] == "Pay the RENT"


@pytest.mark.parametrize("part", ["first", "second", "third"])
def test_other_values_are_read_of_the_new_request(backend: DemonstratedBackend, part: str) -> None:
    asked = pairs(part)
    assert len(asked) == 30
    wrong, right = [], 0
    for pair in asked:
        draft = backend.draft(asking(pair["request"], demos()[pair["demo"]], now=pair.get("now")))
        right += draft.plan == wanted(pair) and draft.confidence == LIKE
        if draft.plan not in (None, wanted(pair)):
            wrong.append(pair["request"])
    assert right >= LEAST * len(asked)
    assert not wrong  # what cannot be told is left to other planners


@pytest.mark.parametrize("pair", pairs("unsafe"), ids=lambda pair: f"{pair['why']}: {pair['request']}")
def test_another_question_gets_no_plan(backend: DemonstratedBackend, pair: dict[str, str]) -> None:
    assert backend.draft(asking(pair["request"], demos()[pair["demo"]])).plan is None


def test_relative_dates_are_read_against_the_new_clock(backend: DemonstratedBackend) -> None:
    draft = backend.draft(asking(WEATHER.query, WEATHER, now="2027-12-31T23:30:00Z"))
    assert (arguments(draft.plan), draft.confidence) == ({"city": "Oslo", "date": "2028-01-01"}, SAME)
    there = backend.draft(asking(WEATHER.query, WEATHER, now="2027-12-31T23:30:00Z", timezone="Asia/Tokyo"))
    assert arguments(there.plan)["date"] == "2028-01-02"


@pytest.mark.parametrize(
    "query", ["Rooms from tomorrow for a week in Rome", "Rooms from 2 May 2027 for a week in Rome"]
)
def test_a_date_that_was_worked_out_of_another_is_not_kept(backend: DemonstratedBackend, query: str) -> None:
    hotel = {"city": "Rome", "check_in": "2027-05-02", "check_out": "2027-05-09"}
    demo = shown(query, a=("travel.searchHotels", hotel))
    assert backend.draft(asking(query.replace("2 May", "3 May"), demo)).plan is None


def test_what_the_demonstration_does_not_say_is_part_of_the_pattern(backend: DemonstratedBackend) -> None:
    demo = shown("Hotels in Rome", a=("travel.searchHotels", {"city": "Rome", "limit": 10, "amenities": ["wifi"]}))
    draft = backend.draft(asking("Hotels in Bern", demo))
    assert arguments(draft.plan) == {"city": "Bern", "limit": 10, "amenities": ["wifi"]}


def test_the_applications_values_go_before_a_demonstrations_constants(backend: DemonstratedBackend) -> None:
    demo = shown("Tickets of ana in my account", a=TICKETS)
    for query, name in ((demo.query, "ana"), ("Tickets of ben in my account", "ben")):
        mine = backend.draft(asking(query, demo, values={"account_id": "acc_99", "assignee": "eve"}))
        assert arguments(mine.plan) == {"assignee": name, "account_id": "acc_99"}


def test_a_replaced_name_stays_nowhere(backend: DemonstratedBackend) -> None:
    made_of_it = shown(
        "Tickets of ana in my account", a=("office.listTickets", {"assignee": "ana", "account_id": "acc_ana"})
    )
    in_a_path = shown("Tickets of ana in my account", "$a.ana$", a=TICKETS)
    for demo in (made_of_it, in_a_path):
        assert backend.draft(asking(demo.query, demo)).plan == demo.plan
        assert backend.draft(asking("Tickets of ben in my account", demo)).plan is None


def test_which_item_is_meant_is_said_anew(backend: DemonstratedBackend) -> None:
    demo = demos()["Show me the latest orders of Amara Okafor"]
    matched = demo.model_copy(update={"plan": with_matches(demo.plan, demo.query.replace("latest ", ""))})
    assert "match" in matched.plan.model_dump_json()
    assert backend.draft(asking(demo.query, matched)).plan == matched.plan
    other = backend.draft(asking(demo.query.replace("Amara Okafor", "Jonas Berg"), matched)).plan
    assert other is not None
    assert "Amara" not in other.model_dump_json()


def test_secrets_are_not_handed_on(backend: DemonstratedBackend) -> None:
    money = {"amount": 5, "from_account": "savings", "to_email": "a@b.example", "pin": "4711"}
    unsaid = shown("Send 5 from savings to a@b.example", a=("office.transferMoney", money))
    assert backend.draft(asking(unsaid.query, unsaid)).plan is None
    said = shown("Send 5 from savings to a@b.example with 4711", a=("office.transferMoney", money))
    draft = backend.draft(asking("Send 7 from savings to c@d.example with 9876", said))
    assert arguments(draft.plan) == {"amount": 7, "from_account": "savings", "to_email": "c@d.example", "pin": "9876"}


def test_demonstrations_that_disagree_are_not_followed(backend: DemonstratedBackend) -> None:
    rome = shown("Get Rome", a=("travel.searchHotels", {"city": "Rome"}))
    fred = shown("Get Fred", a=("office.listTickets", {"assignee": "Fred"}))
    assert backend.draft(asking("Get Bern", rome, fred)).plan is None
    assert backend.draft(asking("get fred!", rome, fred)).plan == fred.plan  # the very same goes before


def test_an_api_that_is_no_candidate_is_never_called(backend: DemonstratedBackend) -> None:
    request = asking(WEATHER.query, WEATHER)
    without = request.model_copy(update={"candidates": request.candidates[1:]})
    assert backend.draft(without).plan is None


def test_one_number_said_once_may_be_two_arguments(backend: DemonstratedBackend) -> None:
    one = shown("Book H-1 for one night", a=("travel.bookHotel", {"hotel_id": "H-1", "nights": 1, "rooms": 1}))
    assert backend.draft(asking("Book H-1 for three nights", one)).plan is None
    five = shown("Book H-1 with 5 and 5", a=("travel.bookHotel", {"hotel_id": "H-1", "nights": 5, "rooms": 5}))
    assert backend.draft(asking("Book H-1 with 3 and 4", five)).plan is None
    alike = backend.draft(asking("Book H-1 with 3 and 3", five))
    assert arguments(alike.plan) == {"hotel_id": "H-1", "nights": 3, "rooms": 3}


def test_a_request_that_is_all_value_shows_nothing(backend: DemonstratedBackend) -> None:
    demo = shown("Rome", a=("travel.searchHotels", {"city": "Rome"}))
    assert backend.draft(asking("Rome", demo)).plan == demo.plan
    assert backend.draft(asking("Help", demo)).plan is None


@pytest.mark.parametrize("filler", ["Rome and ", "tomorrow ", "in 3 days 5 ", "'\"“ ", "1,", "\u00df\u0130 "])
def test_long_requests_end(backend: DemonstratedBackend, filler: str) -> None:
    long = (filler * 10_000)[:9_000] + " hotels in Rome"
    demo = shown(long, a=("travel.searchHotels", {"city": "Rome"}))
    assert backend.draft(asking(long, demo)).plan == demo.plan
    assert backend.draft(asking(long.replace("hotels", "inns"), demo)).plan is None
    assert backend.draft(asking(long, WEATHER)).plan is None


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs of words that are looked at."""
    runs: list[Run] = []
    said = Wording.said

    def counted(self: Wording, run: Run) -> str:
        runs.append(run)
        return said(self, run)

    monkeypatch.setattr(Wording, "said", counted)
    return runs


LONG_QUERY = ("hotels in acities " * 700)[:9_900].strip()


def of_many(count: int, query: str = LONG_QUERY, **more: Any) -> Demo:
    """A demonstration whose words begin like all the texts of its plan, and are none of them."""
    listed = [f"azz{number}" for number in range(count)]
    return shown(query, a=("travel.searchHotels", {"city": "acity", "amenities": listed, **more}))


@pytest.mark.parametrize("count", [1, 20_000])
def test_the_very_same_request_is_not_searched_for_values(
    backend: DemonstratedBackend, looked: list[Run], count: int
) -> None:
    demo = of_many(count)
    assert backend.draft(asking(demo.query, demo)).plan == demo.plan
    assert not looked


def test_a_long_request_is_looked_through_once_for_all_values(backend: DemonstratedBackend, looked: list[Run]) -> None:
    counts = []
    for count in (1, 30):
        demo = of_many(count, LONG_QUERY[:4_000].strip())
        assert arguments(backend.draft(asking(demo.query, demo, values={"limit": 3, "city": "Bern"})).plan) == {
            "city": "acity", "amenities": [f"azz{number}" for number in range(count)],
        }  # fmt: skip
        counts.append(len(looked))
        looked.clear()
    assert counts[1] <= 2 * counts[0]


def test_items_of_lists_count_as_values(backend: DemonstratedBackend, looked: list[Run]) -> None:
    many = of_many(2_000, "Hotels in Rome")
    assert backend.draft(asking("Hotels in Bern", many)).plan is None
    assert backend.draft(asking(many.query, many, values={"city": "Bern"})).plan is None
    assert not looked


def test_a_search_for_values_ends_at_its_budget(backend: DemonstratedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = of_many(3, "Hotels in acities")
    monkeypatch.setattr("planner_svc.backends.demonstrated.mentions.checkpoint", used_up)
    with pytest.raises(DeadlineExceeded):
        backend.draft(asking("Hotels in Bern", demo))


async def test_a_change_waits_for_an_approval_as_ever(backend: DemonstratedBackend) -> None:
    demo = demos()['Set a reminder "pay the rent" for 2028-05-01T07:00:00Z']
    pool = ComputePool(1)
    service = PlannerService(
        {"demonstrated": backend}, "demonstrated", pool, backend_timeout_s=60,
        metrics=PlannerMetrics(CollectorRegistry()),
    )  # fmt: skip
    try:
        response = await service.plan(asking(demo.query, demo))
    finally:
        await pool.close()
    assert response.compiled is not None
    assert response.compiled.proof.approvals == ("var1",)
