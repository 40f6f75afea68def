"""Synthetic examples: spans are exact by construction, references hold, the same seed gives the same examples."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.reading.examples import examples_in
from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import Profile, read_profile
from planner_svc.reading.readings import readings
from services.contracts.api import Api, Location
from tests.support.examples import examples
from tests.unit.planner_svc.worlds import (
    BOOK_TABLE,
    CANCEL_ORDER,
    CREATE_ORDER,
    FIND_CUSTOMER,
    GET_PRICE,
    GET_WEATHER,
    HOSTILE,
    NUMBER,
    SHOP,
    api,
    param,
)
from training.planner.catalogue import Catalogue
from training.planner.examples import Example, Label, Option, Ref, Span, check, items, labels
from training.planner.meanings import is_technical, label_of, meaning_of
from training.planner.pieces import Piece, and_list, bare, capital, fill, plain, small, text
from training.planner.samples import Sampler, lexicon_of
from training.planner.synthesis import MAX_CHARS, synthesise
from training.planner.wording import read_wordings, requestable_slots

NOW = datetime(2026, 3, 10, 9, tzinfo=UTC)


@lru_cache(maxsize=1)
def shop_examples() -> tuple[Example, ...]:
    return tuple(synthesise(SHOP, 7, 600))


def profile_of(apis: Sequence[Api], identifier: str) -> Profile:
    return read_profile(next(one for one in apis if one.id == identifier))


def assert_exact(example: Example, apis: Sequence[Api]) -> None:
    """Each span, cut from the query, reads as the value it is labelled with, and the schema allows it."""
    check(example)
    for index, name, item in labels(example):
        profile = profile_of(apis, example.calls[index].api)
        slot = next(one for one in flat(profile).slots if one.name == name)
        if isinstance(item, Span):
            words = example.query[item.start : item.end]
            assert item.value in readings(profile, slot, words, example.now), (example.query, name, words, item.value)
        if isinstance(item, Option):
            assert item.start is not None, (example.query, name)


@examples(0.1)
@given(st.integers(0, 2**32))
def test_whatever_the_seed_examples_are_sound_and_spans_give_back_their_values(seed: int) -> None:
    for example in synthesise(SHOP, seed, 12):
        assert_exact(example, SHOP)
        assert 3 <= len(example.query) <= MAX_CHARS
        assert example.query == example.query.strip()
        assert "  " not in example.query


def test_the_same_seed_gives_the_same_examples_and_another_one_does_not() -> None:
    first, again, other = (list(synthesise(SHOP, seed, 40)) for seed in (3, 3, 4))
    assert first == again
    assert [one.query for one in first] != [one.query for one in other]


def test_examples_are_as_many_as_wanted_and_their_requests_hardly_repeat() -> None:
    found = shop_examples()
    assert len(found) == 600
    assert len({one.id for one in found}) == 600
    assert len({one.query for one in found}) > 560


def test_references_point_to_earlier_calls_and_the_words_that_stand_for_them() -> None:
    refs = [(one, index, item) for one in shop_examples() for index, _, item in labels(one) if isinstance(item, Ref)]
    assert len(refs) > 60
    assert all(item.call < index for _, index, item in refs)
    told = [one.query[item.start : item.end] for one, _, item in refs if item.start is not None and item.end]
    assert len(told) == len(refs)
    nested = [words for words in told if "customer" in words.lower() and any(c.isupper() for c in words)]
    assert nested, "some customers are spoken of by name where their id is wanted"
    assert any(words.startswith(("that ", "the ", "its ", "this ")) for words in told)


def test_all_kinds_of_requests_are_made() -> None:
    found = shop_examples()
    sizes = Counter(len(one.calls) for one in found)
    assert min(sizes[1], sizes[2]) > 100
    assert sizes[0]
    assert max(sizes) > 4
    assert any(one.needs_input for one in found)
    assert any(one.answer for one in found)
    repeated = [one for one in found if len({call.api for call in one.calls}) < len(one.calls)]
    assert len(repeated) > 30
    shared = [one for one in found if _shares(one)]
    assert shared, "some values serve two calls"


def _shares(example: Example) -> bool:
    places = [(item.start, item.end) for _, _, item in labels(example) if isinstance(item, Span)]
    return len(set(places)) < len(places)


def test_a_missing_argument_is_required_and_its_value_is_nowhere() -> None:
    short = [(one, call) for one in shop_examples() for call in one.calls if call.missing]
    for example, call in short:
        for name in call.missing:
            parameter = example.api(call.api).parameter(name)
            assert parameter is not None
            assert parameter.required
            assert name not in call.arguments


def test_requests_without_calls_are_offered_none_of_what_they_ask_for() -> None:
    none = [one for one in shop_examples() if not one.calls]
    assert none
    assert all(one.candidates and one.answer == () for one in none)


def test_each_call_is_asked_for_in_its_clause() -> None:
    for example in shop_examples():
        for index, call in enumerate(example.calls):
            assert call.clause is not None
            own = [i for k, _, i in labels(example) if k == index and isinstance(i, Span)]
            outside = [i for i in own if not call.clause[0] <= i.start < i.end <= call.clause[1]]
            shared = {(i.start, i.end) for k, _, i in labels(example) if k != index and isinstance(i, Span)}
            assert all((i.start, i.end) in shared for i in outside), example.query


def test_distractors_are_offered_and_what_is_right_stands_in_no_telling_place() -> None:
    single = [one for one in shop_examples() if len(one.calls) == 1]
    places = Counter([api.id for api in one.candidates].index(one.calls[0].api) for one in single)
    assert len(places) > 3
    assert min(len(one.candidates) for one in single) >= 3


def test_hostile_catalogues_give_sound_examples_or_none() -> None:
    found = list(synthesise(HOSTILE, 5, 60))
    for example in found:
        assert_exact(example, HOSTILE)
    asked = {call.api for one in found for call in one.calls}
    inside = {name for one in found for call in one.calls if call.api == "x.recursive" for name in call.arguments}
    assert any(name.startswith("node.") for name in inside), "of an object it requires, the values inside are said"
    assert asked & {"shop.long", "shop.markup", "shop.sameName"}


@pytest.mark.parametrize("one", HOSTILE, ids=lambda one: one.id[:20])
def test_a_single_hostile_api_ends_without_an_error(one: Api) -> None:
    for example in synthesise([one], 1, 5):
        check(example)


def test_an_empty_catalogue_gives_nothing() -> None:
    assert list(synthesise([], 1, 10)) == []


@pytest.mark.parametrize(
    ("one", "verb", "target"),
    [
        (GET_WEATHER, "get", "the weather in a city on a date"),
        (CANCEL_ORDER, "cancel", "an order"),
        (api("x", "This endpoint allows you to delete a specific user's avatar."), "delete", "my avatar"),
        (api("x", "Returns a list of all invoices, sorted by date."), "return", "all invoices"),
        (api("x", "Issue a library card to a new member (free of charge)."), "issue", "a library card to a new member"),
        (api("x", "Get user by ID"), "get", "user"),
        (api("getOpenTickets", ""), "get", "open tickets"),
        (api("x", "Primary keys of the account."), "get", "primary keys of the account"),
    ],
)
def test_an_api_is_spoken_of_by_a_verb_and_what_it_is_done_to(one: Api, verb: str, target: str) -> None:
    profile = read_profile(one)
    first = read_wordings(profile, requestable_slots(profile))[0]
    assert (first.verb, first.target) == (verb, target)


def test_the_target_knows_where_it_speaks_of_parameters() -> None:
    profile = read_profile(GET_WEATHER)
    first = read_wordings(profile, requestable_slots(profile))[0]
    assert {name: first.target[h.start : h.end] for name, h in first.mentions.items()} == {
        "city": "a city",
        "date": "a date",
    }


@pytest.mark.parametrize(
    ("one", "name", "sense", "noun"),
    [
        (FIND_CUSTOMER, "customer_name", "person", "customer"),
        (CREATE_ORDER, "customer_id", "id", "customer"),
        (CREATE_ORDER, "express", "flag", ""),
        (CREATE_ORDER, "budget", "money", ""),
        (GET_WEATHER, "city", "place", ""),
        (GET_WEATHER, "date", "date", ""),
        (GET_WEATHER, "units", "choice", ""),
        (BOOK_TABLE, "time", "time", ""),
        (BOOK_TABLE, "number_of_guests", "count", ""),
        (GET_PRICE, "currency", "currency", ""),
    ],
)
def test_what_a_parameter_is_about_is_read_from_its_name_and_description(
    one: Api, name: str, sense: str, noun: str
) -> None:
    slot = next(slot for slot in read_profile(one).slots if slot.name == name)
    assert (meaning_of(slot).sense, meaning_of(slot).noun) == (sense, noun)


@given(st.integers(0, 2**32), st.sampled_from(SHOP))
def test_samples_are_what_their_words_say(seed: int, one: Api) -> None:
    profile = read_profile(one)
    sampler = Sampler(random.Random(seed), NOW, lexicon_of(SHOP))
    for slot in requestable_slots(profile):
        said = sampler.sample(profile, slot)
        if said is not None and not said.option:
            for words, value in said.items:
                assert value in readings(profile, slot, words, NOW)
                assert words == words.strip() != ""


def test_examples_are_read_from_descriptions_and_bounds_are_kept() -> None:
    assert examples_in("The type (e.g., DNA, blood or hair)") == ("DNA", "blood", "hair")
    assert examples_in("the day (e.g., YYYY-MM-DD)") == ()
    assert examples_in("level, such as 'low', 'high'. More on this below") == ("low", "high")
    assert lexicon_of([GET_PRICE])["currency"] == ("USD", "EUR", "GBP")
    narrow = api("rate", "Rate it.", param("score", {**NUMBER, "minimum": 3, "maximum": 4}, required=True))
    profile = read_profile(narrow)
    sampler = Sampler(random.Random(1), NOW)
    drawn = [sampler.sample(profile, profile.slots[0]) for _ in range(30)]
    assert all(said is not None and 3 <= float(str(said.items[0][1])) <= 4 for said in drawn)


def test_plumbing_is_never_said() -> None:
    steering = api(
        "x", "Get it.", *(param(n) for n in ("access_token", "api-version", "pageToken", "$select", "X-Trace"))
    )
    assert all(is_technical(slot) for slot in read_profile(steering).slots)
    header = param("tenant").model_copy(update={"location": Location.HEADER, "required": True})
    assert requestable_slots(read_profile(api("y", "Get it.", header))) == ()


def test_neighbours_stay_together_and_every_api_has_one_place() -> None:
    many = [api(f"op{n}", "Get it.", path=f"/{n % 7}/{n}") for n in range(95)]
    catalogue = Catalogue(many)
    places = catalogue.neighbourhoods(random.Random(1))
    assert sorted(one.id for place in places for one in place.apis) == sorted(one.id for one in many)
    assert max(len(place.apis) for place in places) <= 40
    assert catalogue.confusable(GET_PRICE, random.Random(1)) is None
    offered = catalogue.offer(many[:2], random.Random(1), size=8)
    assert len({one.id for one in offered}) == 8
    assert {many[0].id, many[1].id} <= {one.id for one in offered}
    without = catalogue.offer(many[:2], random.Random(1), without=True)
    assert not {many[0].id, many[1].id} & {one.id for one in without}


def test_names_become_words() -> None:
    assert label_of("customerId") == "customer ID"
    assert label_of("base_url") == "base URL"
    assert label_of("城市") == "城市"


def test_texts_keep_their_pieces() -> None:
    value = Piece(" x ", (("value", 0, "p", -1),))
    whole = fill("for {what} , please {end}", what=value, end="")
    assert plain(whole).startswith("for  x ")
    assert plain(text("a ", " b ", ".")) == "a b."
    assert plain(and_list([text("a"), text("b"), text("c")])) == "a, b and c"
    assert plain(capital(text("it is"))) == "It is"
    assert plain(small(text("It is I"))) == "it is I"
    assert plain(small(text("IBAN check"))) == "IBAN check"
    assert plain(bare(text("what is it?", " "))) == "what is it"


def test_items_of_a_label() -> None:
    single: Label = Span(0, 1, "x")
    assert items(single) == (single,)


def test_what_changes_something_is_asked_for_and_ids_that_are_given_back_feed_nothing() -> None:
    get_order = api(
        "getOrder",
        "Get an order.",
        param("order_id", about="ID of the order", required=True),
        returns={"order_id": {"type": "string"}, "customer_email": {"type": "string"}},
    )
    for example in synthesise([*SHOP, get_order], 11, 250):
        for index, _, item in labels(example):
            if isinstance(item, Ref):
                producer, consumer = example.calls[item.call], example.calls[index]
                assert producer.api != get_order.id or item.path != ("order_id",)
                inside = producer.clause is not None and item.start is not None and _within(producer.clause, item)
                assert not inside or producer.api != CREATE_ORDER.id, (example.query, consumer)


def _within(clause: tuple[int, int], item: Ref) -> bool:
    assert item.start is not None
    assert item.end is not None
    return item.start <= clause[0] and clause[1] <= item.end


def test_a_stay_ends_after_it_begins() -> None:
    stay = api(
        "bookHotel",
        "Book a hotel.",
        param("start_date", {"type": "string", "format": "date"}, required=True),
        param("end_date", {"type": "string", "format": "date"}, required=True),
    )
    for example in synthesise([stay], 2, 40):
        for call in example.calls:
            start, end = call.arguments.get("start_date"), call.arguments.get("end_date")
            if len(example.calls) == 1 and isinstance(start, Span) and isinstance(end, Span):
                assert str(start.value) < str(end.value)
