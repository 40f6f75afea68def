"""Which item is meant stands in the plan, where the request says it."""

from typing import Any

import pytest
from pydantic import ValidationError

from planner_svc.proving.item_matches import unordered, with_matches
from services.contracts.plan import AnswerOutput, ListValue, Match, Plan, Reference
from tests.unit.planner_svc.building import api, plan, step, value

QUERY = "When does Grace Hopper, the admiral, meet us next?"
SAID = Match(said=("Grace Hopper",), words=("admiral", "meet", "next"))


def looking_up(name: str = "Grace Hopper", path: str = "items.0.id") -> Plan:
    return plan(step("a", "findPerson", name=name, limit=5), step("b", "getAgenda", person=f"$a.{path}$"))


def match_of(found: Plan) -> Match | None:
    reference = found.steps[-1].arguments["person"]
    assert isinstance(reference, Reference)
    return reference.match


def test_what_was_looked_up_and_the_other_words_say_which() -> None:
    found = with_matches(looking_up(), QUERY)
    assert match_of(found) == SAID
    assert found.id != looking_up().id  # what is approved is the choice, too


@pytest.mark.parametrize(
    "query", ["Any agenda of Grace Hopper", "the first Grace Hopper", "Grace Hopper's nearest office"]
)
def test_whoever_says_any_means_any(query: str) -> None:
    assert with_matches(looking_up(), query) == looking_up()


@pytest.mark.parametrize(
    ("query", "pick"),
    [
        ("Any agenda of Grace Hopper", "any"),
        ("the oldest agenda of Grace Hopper", "extreme"),
        ("the agenda of Grace Hopper", None),
        ('Note "she likes it most" at the agenda of Grace Hopper', None),
    ],
)
def test_a_change_still_needs_the_name(query: str, pick: str | None) -> None:
    noted = looking_up()
    more = step("c", "addNote", text="she likes it most")
    match = match_of(with_matches(Plan(steps=(more, *noted.steps)), query, changes={"b"}))
    assert match is not None
    assert (match.said, match.pick) == (("Grace Hopper",), pick)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("Please book the Aurora room for Ada on 3 October 2028 from 10:00", ("Aurora",)),
        ("book room R-17 for Ada", ("R-17",)),
        ("Book a room for Ada. The Blue Lagoon, please", ("Blue Lagoon",)),
        ('book a room for Ada, titled "Kick-off Berlin"', None),
        ("book a room for Ada next Friday", None),
        ("Book Ada\u2019s room", None),
        ("Book the Lyra room's desk for Ada", ("Lyra",)),
        ("Book a room of the Annex for Ada except Lyra", ("Annex",)),
        ("book any room for Ada in Berlin", None),
    ],
)
def test_of_a_list_of_everything_a_name_that_no_call_uses_says_which(query: str, said: tuple[str, ...] | None) -> None:
    rooms = plan(step("a", "listRooms", limit=50), step("b", "book", person="$a.items.0.id$", guest="Ada"))
    match = match_of(with_matches(rooms, query))
    assert (match.said if match is not None else None) == said


def test_a_change_of_all_but_one_does_not_take_that_one() -> None:
    made = plan(step("a", "listRooms"), step("b", "close", person="$a.items.0.id$"))
    match = match_of(with_matches(made, "Close all rooms in the Annex except R-17", changes={"b"}))
    assert match is not None
    assert match.said == ("Annex",)
    assert "r-17" not in match.words
    match = match_of(with_matches(made, "Close all rooms except R-17", changes={"b"}))
    assert match is not None
    assert match.said == ("except R-17",)  # no item has these words, so that it is asked for


def test_a_change_of_an_item_that_no_word_names_asks_which() -> None:
    made = plan(step("a", "listRooms"), step("b", "close", person="$a.items.0.id$"))
    assert match_of(with_matches(made, "Close the room", changes={"b"})) == Match(said=())
    created = with_matches(made, "Close the room", changes={"a", "b"})
    assert match_of(created) is None  # it would be asked for once the first change is made
    assert match_of(with_matches(made, "Close any room", changes={"b"})) is None
    assert match_of(with_matches(made, "Show the room")) is None
    newest = plan(step("a", "listRooms", sort="-opened"), step("b", "close", person="$a.items.0.id$"))
    assert match_of(with_matches(newest, "Close the room", changes={"b"})) is None


def test_of_an_extreme_one_a_change_asks_unless_the_call_sorts() -> None:
    def made(**arguments: Any) -> Match | None:
        of = plan(step("a", "listOrders", **arguments), step("b", "cancel", person="$a.items.0.id$"))
        return match_of(with_matches(of, "Cancel my latest order", changes={"b"}))

    assert made() == made(limit=5) == Match(said=("latest",), words=("cancel", "latest", "order"), pick="extreme")
    assert made(sort="-created") is None
    assert made(order_by="created") is None
    assert made(order_id=5) == made()


def test_what_the_application_gives_for_the_argument_says_which() -> None:
    match = match_of(with_matches(looking_up(), QUERY, {"person": "p1", "name": "x"}))
    assert match == SAID.model_copy(update={"given": "p1"})
    assert match_of(with_matches(looking_up(), QUERY, {"person": ["p1"]})) == SAID


def test_a_loop_over_what_the_item_has_is_of_the_item_that_is_said() -> None:
    loop = step("b", "deleteNote", foreach="$a.items.0.notes$")
    found = with_matches(plan(looking_up().steps[0], loop), QUERY).steps[1]
    assert found.foreach is not None
    assert isinstance(found.foreach.items, Reference)
    assert found.foreach.items.match == SAID


@pytest.mark.parametrize(
    "found",
    [
        looking_up("somebody else"),  # the request does not say that
        looking_up("7"),
        looking_up(path="items.1.id"),  # the second one is meant
        looking_up(path="id"),
    ],
)
def test_otherwise_the_plan_stays_as_it_is(found: Plan) -> None:
    assert with_matches(found, QUERY) == found


def test_it_is_said_wherever_the_item_is_used() -> None:
    listed = step("b", "invite", people=ListValue(items=(value("$a.items.0.id$"),)))
    made = Plan(
        steps=(looking_up().steps[0], listed),
        answer=(AnswerOutput(name="name", value=Reference(step="a", path=("items", 0, "name"))),),
    )
    found = with_matches(made, QUERY)
    people = found.steps[1].arguments["people"]
    assert isinstance(people, ListValue)
    assert isinstance(people.items[0], Reference)
    assert people.items[0].match == found.answer[0].value.match == SAID


def test_of_a_call_for_each_item_nothing_is_chosen() -> None:
    each = step("a", "findPerson", name="Grace Hopper", foreach="$z.items$")
    made = plan(step("z", "teams"), each, step("b", "getAgenda", person="$a.0.id$"))
    assert with_matches(made, QUERY) == made


def test_a_match_needs_a_list_to_choose_from() -> None:
    with pytest.raises(ValidationError, match="a list to choose from"):
        Reference(step="a", path=("id",), match=SAID)


def test_long_requests_make_short_matches() -> None:
    match = match_of(with_matches(looking_up(), QUERY + " word" * 100 + " ".join(f"w{n}" for n in range(5_000))))
    assert match is not None
    assert len(match.words) <= 32


@pytest.mark.parametrize(
    ("query", "more", "texts", "word"),
    [
        ("Tell the cheapest room", {}, "Rooms of a hotel", "cheapest"),
        ("Tell any of the Cheapest rooms", {}, "Rooms of a hotel", "Cheapest"),
        ("Tell the cheapest room", {"sort_by": "price"}, "Rooms of a hotel", ""),
        ("Tell the cheapest room", {}, "Rooms, cheapest first", ""),
        ("Tell any room", {}, "Rooms of a hotel", ""),
        ('Tell a room in "the most famous place"', {"place": "the most famous place"}, "Rooms of a hotel", ""),
    ],
)
def test_an_extreme_item_is_told_from_others_only_where_the_list_is_sorted(
    query: str, more: dict[str, Any], texts: str, word: str
) -> None:
    rooms = api("listRooms").model_copy(update={"summary": texts})
    made = plan(step("a", "listRooms", **more), answer="$a.items.0.name$")
    assert unordered(made, query, {rooms.id: rooms}) == word
    assert unordered(plan(step("a", "listRooms", **more), answer="$a.items$"), query, {rooms.id: rooms}) == ""
