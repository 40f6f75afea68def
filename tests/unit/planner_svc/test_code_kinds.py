"""Codes of one kind of thing are none of another, where the documents' examples tell them apart."""

import numpy as np
import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.backends.compact.code_swaps import swapped_by_code
from planner_svc.proving.code_places import with_codes_in_place
from planner_svc.reading.code_kinds import CodeKinds, codes_said, head_of
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api, Location, Parameter
from services.contracts.plan import LiteralValue, Reference
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import TEXT, api, listed, param, plan, record, step

PATH = Location.PATH


def coded(name: str, example: str, *, at: Location = PATH) -> Parameter:
    return param(name, {"type": "string", "examples": [example]}, required=at is PATH, at=at)


def by_id(name: str, collection: str, parameter: Parameter) -> Api:
    shown = record(id=TEXT, name=TEXT)
    path = f"/{collection}/{{{parameter.name}}}"
    return api(name, parameter, path=path, method="GET", summary=f"Get a {collection[:-1]}", returns=shown)


BIRD = by_id("getBird", "birds", coded("birdId", "b-12"))
SITE = by_id("getSite", "sites", coded("siteId", "s-40"))
FLIGHTS = api(
    "listFlights",
    param("siteId"),
    param("birdId"),
    path="/flights",
    method="GET",
    summary="List flights",
    returns=record(items=listed(record(id=TEXT, birdId=TEXT))),
)
FIND = api(
    "searchBirds",
    param("q", required=True),
    path="/birds/search",
    method="GET",
    returns=record(items=listed(record(id=TEXT, name=TEXT))),
)
APIS = {one.id: one for one in (BIRD, SITE, FLIGHTS, FIND)}
KINDS = CodeKinds([read_profile(one) for one in APIS.values()])


@pytest.mark.parametrize(
    ("text", "head"), [("b-12", "b-"), ("FP-204", "fp-"), ("cus_6", "cus_"), ("Rex", ""), ("2026-11", ""), ("9", "")]
)
def test_the_head_of_a_code(text: str, head: str) -> None:
    assert head_of(text) == head


def test_codes_are_whole() -> None:
    assert [code for code, _ in codes_said("b-12, x@b-1.org and (s-4) of v2.b-3")] == ["b-12", "s-4"]


def test_a_code_of_another_kind_is_none() -> None:
    assert KINDS.takes(("bird", "id"), "B-7")
    assert KINDS.is_of_another(("site", "id"), "b-7")
    assert not KINDS.is_of_another(("site", "id"), "x-7")  # nobody knows what these are
    assert not KINDS.is_of_another(("q",), "b-7")  # takes any text


def test_without_examples_a_things_name_tells() -> None:
    assert KINDS.takes(("handler", "id"), "h-2")
    assert not KINDS.takes(("handler", "id"), "x-2")
    assert not KINDS.takes(("handler", "name"), "h-2")
    assert not KINDS.takes(("sorti", "id"), "s-2")  # these are sites
    assert not KINDS.takes(("handler", "id"), "H1")  # other ids have a dash
    assert not CodeKinds([read_profile(FIND)]).takes(("handler", "id"), "h-2")  # no ids are known


def test_an_id_of_anything_is_of_no_kind() -> None:
    shown = by_id("getCoin", "coins", coded("id", "b-12", at=Location.QUERY))
    kinds = CodeKinds([read_profile(shown), read_profile(SITE)])
    assert not kinds.is_no_id(("id",), "Bitcoin")
    assert not kinds.is_of_another(("id",), "s-40")


def test_many_codes_are_looked_at_in_time() -> None:
    heads = [f"{one}{two}" for one in "abcdefghijklmnopqrst" for two in "uvwxyz"]
    flights = api("many", *(coded(f"{head}Id", f"{head}-1", at=Location.QUERY) for head in heads), method="GET")
    subject, query = plan(step("a", "many")), " ".join(f"{head}-5" for head in heads)
    assert with_codes_in_place(subject, query, {flights.id: flights}) == subject


@pytest.mark.parametrize(
    ("query", "order"), [("show b-12", [1, 0]), ("show s-12", [0, 1]), ("show b-12 and s-4", [0, 1]), ("show", [0, 1])]
)
def test_the_sibling_that_takes_the_code_is_called(query: str, order: list[int]) -> None:
    profiles = [read_profile(SITE), read_profile(BIRD)]
    assert swapped_by_code(query, profiles, KINDS, np.asarray([0.9, 0.1], np.float32), [False] * 2) == order


def test_the_sibling_may_be_another_providers() -> None:
    other = BIRD.model_copy(update={"provider": "u"})
    profiles, called = [read_profile(SITE), read_profile(other)], np.asarray([0.9, 0.1], np.float32)
    assert swapped_by_code("show b-12", profiles, KINDS, called, [False] * 2) == [1, 0]


def test_what_another_call_feeds_takes_no_code() -> None:
    """ "Which site does b-12 fly at?" gets the site of a flight."""
    profiles, called = [read_profile(SITE), read_profile(BIRD)], np.asarray([0.9, 0.1], np.float32)
    assert swapped_by_code("site of b-12", profiles, KINDS, called, [True, False]) == [0, 1]


def test_what_is_said_is_not_looked_up() -> None:
    drafted = plan(
        step("a", "searchBirds", q="b-11"),
        step("b", "listFlights", birdId="$a.items.0.id$"),
        answer="$b.items$",
    )
    placed = with_codes_in_place(drafted, "flights of b-11", APIS)
    assert [(one.api, dict(one.arguments)) for one in placed.steps] == [
        ("t.listFlights", {"birdId": LiteralValue(value="b-11")})
    ]


def test_a_code_that_no_call_uses_goes_where_it_fits() -> None:
    drafted = plan(step("a", "listFlights"), answer="$a.items$")
    placed = with_codes_in_place(drafted, "flights of b-11", APIS)
    assert dict(placed.steps[0].arguments) == {"birdId": LiteralValue(value="b-11")}


def test_a_code_instead_of_another_is_the_one() -> None:
    drafted = plan(step("a", "listFlights"), answer="$a.items$")
    placed = with_codes_in_place(drafted, "flights of b-11 instead of b-12", APIS)
    assert dict(placed.steps[0].arguments) == {"birdId": LiteralValue(value="b-11")}


@pytest.mark.parametrize("query", ["flights of b-11 or b-12", "all flights except those of b-11", "flights of x-1"])
def test_what_is_not_certain_stays(query: str) -> None:
    drafted = plan(step("a", "listFlights"), answer="$a.items$")
    assert with_codes_in_place(drafted, query, APIS) == drafted


def test_a_value_of_its_own_stays() -> None:
    drafted = plan(
        step("a", "getBird", birdId="b-11"),
        step("b", "listFlights", birdId="$a.id$", siteId="s-4"),
        answer="$b.items$",
    )
    placed = with_codes_in_place(drafted, "flights of b-11 at s-4", APIS)
    assert placed.steps[-1].arguments["birdId"] == LiteralValue(value="b-11")
    assert placed.steps[-1].arguments["siteId"] == LiteralValue(value="s-4")
    kept = plan(step("a", "getBird", birdId="b-11"), step("b", "listFlights", siteId="s-4"))
    assert with_codes_in_place(kept, "bird b-11 and the flights at s-4", APIS) == kept


@pytest.mark.parametrize(
    ("query", "called"), [("show b-11 and b-12", "t.getBird"), ("show s-41 and s-42", "t.getSite")]
)
def test_codes_choose_the_operation(backend: CompactBackend, query: str, called: str) -> None:
    candidates = tuple(Candidate(api=one, score=1 - 0.02 * rank) for rank, one in enumerate((SITE, BIRD, FLIGHTS)))
    drafted = backend.draft(PlanRequest(query=query, candidates=candidates)).plan
    assert drafted is not None
    assert [one.api for one in drafted.steps] == [called, called]
    assert all(not isinstance(value, Reference) for one in drafted.steps for value in one.arguments.values())
