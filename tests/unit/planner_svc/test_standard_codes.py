"""Names become codes where an argument takes those of a public standard, and nothing in the request gives one."""

from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry

from planner_svc.cascade import MODEL
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.reading.profile import read_profile
from planner_svc.reading.standard_codes import code_named, standard_of, with_codes
from planner_svc.service import PlannerService
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.planning import PlanRequest, Question
from services.contracts.retrieval import Candidate, Clause
from tests.unit.planner_svc.building import api, param, plan, step

CURRENCY = param("to", required=True, about="ISO 4217 code of the currency wanted")
CONVERT = api("convert", param("amount", {"type": "number"}, required=True), CURRENCY)
COUNTRY = api("holidays", param("country", required=True, about="ISO 3166-1 alpha-2 code"))
COUNTRY_3 = api("risk", param("country", required=True, about="alpha-3 code of the country"))
LANGUAGE = api("translate", param("language_code", required=True))
PLAIN = api("search", param("text", required=True, about="What to search for"))


def asked(query: str, wanted: Api) -> PlanRequest:
    return PlanRequest(query=query, candidates=(Candidate(api=wanted, score=1),))


def coded(query: str, wanted: Api) -> str:
    name = wanted.parameters[-1].name
    return with_codes(asked(query, wanted), [Question(step="a", api=wanted.id, argument=name, text="?")]).query


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("How much is 100 dollars in euros?", "How much is 100 USD in EUR?"),
        ("300 zloty in Swiss francs", "300 PLN in CHF"),
        ("what do I get for $1,000.50 in £", "what do I get for 1,000.50 USD in £"),
        ("20€ in Swedish kronor", "20 EUR in SEK"),
        ("owner 3 $1,200", "owner 3 1,200 USD"),  # the sign before an amount, not after the number 3
        ("Hong Kong dollars", "HKD"),
        ("100 francs", "100 francs"),  # of which country
        ('send "5 dollars" in yen', 'send "5 dollars" in JPY'),
        ("100 USD in EUR", "100 USD in EUR"),
    ],
)
def test_names_and_signs_of_currencies(query: str, said: str) -> None:
    assert coded(query, CONVERT) == said


def test_each_standard_has_its_names() -> None:
    assert coded("holidays in South Korea and Germany", COUNTRY) == "holidays in KR and DE"
    assert coded("the risk of Germany", COUNTRY_3) == "the risk of DEU"
    assert coded("hello in Portuguese", LANGUAGE) == "hello in pt"
    assert coded("100 euros in Germany", PLAIN) == "100 euros in Germany"
    assert standard_of(read_profile(PLAIN).slots[0]) is None


def test_clauses_move_with_the_words() -> None:
    query = "pay 100 dollars, then ask for euros"
    clauses = tuple(Clause(text=query[a:b], start=a, end=b) for a, b in ((0, 15), (17, 35)))
    request = asked(query, CONVERT).model_copy(update={"clauses": clauses})
    found = with_codes(request, [Question(step="a", api=CONVERT.id, argument="to", text="?")])
    assert [one.text for one in found.clauses] == ["pay 100 USD", "then ask for EUR"]
    assert [found.query[one.start : one.end] for one in found.clauses] == [one.text for one in found.clauses]


class Copies:
    """A backend that knows no values but the codes in the request."""

    def __init__(self, name: str) -> None:
        self.name, self.queries = name, list[str]()

    async def read(self, apis: Sequence[Api]) -> int:
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        self.queries.append(request.query)
        code = next((word for word in request.query.split() if word.isupper()), None)
        drafted = plan(step("a", "convert", amount=100, to=code) if code else step("a", "convert", amount=100))
        return PlanDraft(drafted, 0.9, () if code else (MissingValue("a", "to"),))


async def planned(pool: ComputePool, backend: Copies, query: str) -> object:
    metrics = PlannerMetrics(CollectorRegistry())
    service = PlannerService({backend.name: backend}, backend.name, pool, backend_timeout_s=20, metrics=metrics)
    response = await service.plan(asked(query, CONVERT))
    return (
        response.plan.steps[0].arguments["to"].model_dump()["value"] if response.plan is not None else response.status
    )


async def test_what_is_asked_for_is_looked_for_among_the_names(pool: ComputePool) -> None:
    backend = Copies("compact")
    assert await planned(pool, backend, "convert 100 to euros") == "EUR"
    assert backend.queries == ["convert 100 to euros", "convert 100 to EUR"]


async def test_a_request_that_names_nothing_is_planned_once(pool: ComputePool) -> None:
    backend = Copies("compact")
    assert await planned(pool, backend, "convert 100") == "needs_input"
    assert len(backend.queries) == 1


async def test_a_language_model_knows_the_codes_itself(pool: ComputePool) -> None:
    backend = Copies(MODEL)
    assert await planned(pool, backend, "convert 100 to euros") == "needs_input"
    assert len(backend.queries) == 1


def test_an_example_shows_that_codes_are_taken() -> None:
    shown = {"type": "string", "example": "EUR"}
    (with_example,) = read_profile(api("a", param("currency", shown))).slots
    (with_options,) = read_profile(api("a", param("country", {"type": "string", "enum": ["DE", "FR"]}))).slots
    (without,) = read_profile(api("a", param("country", {"type": "string", "example": "France"}))).slots
    (with_pattern,) = read_profile(api("a", param("currency", {"type": "string", "pattern": "^[A-Z]{3}$"}))).slots
    found = [standard_of(one) for one in (with_example, with_options, with_pattern, without)]
    assert found == ["currency", "country", "currency", None]


@pytest.mark.parametrize(
    ("name", "about", "standard"),
    [
        ("q", "City name and country code, use ISO 3166 country codes", None),
        ("city", "City, see countryCode for the country code", None),
        ("phone", "Phone number with country code", None),
        ("language", "Language that the name is written in, ISO 639 code", "language"),
        ("base", "ISO 4217 code", "currency"),
    ],
)
def test_a_description_may_mention_the_code_of_something_else(name: str, about: str, standard: str | None) -> None:
    assert standard_of(read_profile(api("a", param(name, about=about))).slots[0]) == standard


@pytest.mark.parametrize("query", ["Invite Israel Cohen", "ask Jane France"])
def test_names_of_persons_are_no_names_of_countries(query: str) -> None:
    assert coded(query, COUNTRY) == query


@pytest.mark.parametrize(
    ("called", "text", "code"),
    [
        (CONVERT, "euros", "EUR"),
        (CONVERT, "EUR", None),
        (CONVERT, "the euros of Ada", None),
        (COUNTRY, "South Korea", "KR"),
        (COUNTRY, "UK", "GB"),
        (LANGUAGE, "French", "fr"),
        (PLAIN, "France", None),
    ],
)
def test_the_words_for_an_argument_become_its_code(called: Api, text: str, code: str | None) -> None:
    assert code_named(read_profile(called).slots[-1], text) == code
