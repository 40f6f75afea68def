"""Plans for a small estate of libraries, railways and parcels: no API here is one the planner was tried out on."""

from datetime import datetime
from typing import Any

import pytest

from planner_svc.backends.base import PlannerBackend
from planner_svc.backends.rules import RulesBackend
from planner_svc.compile import compile_plan
from planner_svc.models import PlanDraft
from services.compute import ComputePool
from services.contracts.api import Api, ApiResponse, Candidate, Clause, Location, Parameter, RequestBody
from services.contracts.context import Context
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step
from services.contracts.planning import Decision, PlanRequest, Policy
from services.encoder import load_encoder

NOW = datetime.fromisoformat("2026-11-20T09:00:00+01:00")
STATION = {"type": "string", "pattern": "^st-[0-9]{3}$", "examples": ["st-104"]}
ISBN = {"type": "string", "pattern": "^97[89][0-9]{10}$", "examples": ["9780141439518"]}
DAY = {"type": "string", "format": "date"}


def parameter(name: str, schema: dict[str, Any], about: str, where: str, required: bool = True) -> Parameter:
    return Parameter(
        name=name, wire_name=name, location=Location(where), required=required, description=about, json_schema=schema
    )


def api(name: str, method: str, path: str, summary: str, takes: list[Parameter], gives: dict[str, Any]) -> Api:
    listed = {key: value if isinstance(value, dict) else {"type": value} for key, value in gives.items()}
    return Api(
        id=f"test.{name}",
        provider="test",
        name=name,
        method=method,
        path=path,
        summary=summary,
        parameters=tuple(takes),
        body=RequestBody() if method == "POST" else None,
        response=ApiResponse(json_schema={"type": "object", "properties": listed}),
        content_hash=name,
    )


def items(**fields: Any) -> dict[str, Any]:
    listed = {key: value if isinstance(value, dict) else {"type": value} for key, value in fields.items()}
    return {"type": "array", "items": {"type": "object", "properties": listed}}


APIS = (
    api(
        "searchStations", "GET", "/stations", "Find railway stations by name",
        [parameter("q", {"type": "string", "examples": ["Utrecht"]}, "Name of the station or its town.", "query")],
        {"items": items(station_id=STATION, name="string"), "total": "integer"},
    ),
    api(
        "findTrain", "GET", "/trains", "Find the next train between two railway stations",
        [
            parameter("origin", STATION, "Station id to travel from.", "query"),
            parameter("destination", STATION, "Station id to travel to.", "query"),
            parameter("day", DAY, "Day of travel.", "query", required=False),
        ],
        {"departure": {"type": "string", "format": "date-time"}, "duration_minutes": "integer", "fare": "number"},
    ),
    api(
        "searchBooks", "GET", "/books", "Search the library's books by title or author",
        [parameter("query", {"type": "string", "examples": ["Emma"]}, "Words of the title.", "query")],
        {"items": items(isbn=ISBN, title="string", author="string"), "total": "integer"},
    ),
    api(
        "getBook", "GET", "/books/{isbn}", "Get a book of the library",
        [parameter("isbn", ISBN, "ISBN of the book.", "path")],
        {"isbn": ISBN, "title": "string", "pages": "integer", "publisher": "string", "year": "integer"},
    ),
    api(
        "trackParcel", "GET", "/parcels/{number}", "Track a parcel",
        [parameter("number", {"type": "string", "pattern": "^PX-[0-9]{5}$"}, "Number of the parcel.", "path")],
        {"status": "string", "weight_kg": "number", "delivered": "boolean"},
    ),
    api(
        "reserveBook", "POST", "/reservations", "Reserve a book for a member",
        [
            parameter("isbn", ISBN, "ISBN of the book to reserve.", "body"),
            parameter("member_id", {"type": "string", "pattern": "^m[0-9]+$"}, "Id of the member.", "body"),
        ],
        {"reservation_id": "string", "state": "string"},
    ),
    api(
        "cancelReservation", "DELETE", "/reservations/{reservation_id}", "Cancel a reservation of a book",
        [parameter("reservation_id", {"type": "string", "pattern": "^r[0-9]+$"}, "Id of the reservation.", "path")],
        {},
    ),
    api(
        "convertWeight", "GET", "/weights/convert", "Convert a weight into another unit",
        [
            parameter("value", {"type": "number"}, "Weight to convert.", "query"),
            parameter("from_unit", {"type": "string", "enum": ["gram", "kilogram", "ounce"]}, "Its unit.", "query"),
            parameter("to_unit", {"type": "string", "enum": ["gram", "kilogram", "ounce"]}, "Unit wanted.", "query"),
        ],
        {"result": "number"},
    ),
    api(
        "averageNumbers", "GET", "/numbers/average", "Compute the average of numbers",
        [parameter("values", {"type": "array", "items": {"type": "number"}}, "The numbers.", "query")],
        {"average": "number", "count": "integer"},
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def backend() -> RulesBackend:
    return RulesBackend(load_encoder(), ComputePool(1))


def request(query: str, clauses: tuple[str, ...] = (), **more: Any) -> PlanRequest:
    """A request with every API as a candidate of the same score, so that the planner alone decides."""
    found = tuple(Clause(text=c, start=query.index(c), end=query.index(c) + len(c)) for c in clauses)
    candidates = tuple(Candidate(api=a, score=0.4, clause_scores=(0.4,) * max(len(found), 1)) for a in APIS)
    context = more.pop("context", Context(now=NOW, timezone="Europe/Berlin"))
    return PlanRequest(query=query, clauses=found, candidates=candidates, context=context, **more)


def written(draft: PlanDraft) -> list[str]:
    """The plan, a line a step and one for the answer."""
    assert draft.plan is not None, draft.reason
    lines = [f"{s.api.removeprefix('test.')}({_arguments(s)})" for s in draft.plan.steps]
    return [*lines, "-> " + ", ".join(_value(output.value) for output in draft.plan.answer)]


def _arguments(step: Step) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in sorted(step.arguments.items()))


def _value(value: Any) -> str:
    if isinstance(value, Reference):
        return ".".join([value.step, *map(str, value.path)])
    return repr(value.value)


@pytest.mark.parametrize(
    ("query", "plan"),
    [
        ("Has parcel PX-20931 been delivered?", ["trackParcel(number='PX-20931')", "-> var1.delivered"]),
        ("How many pages does the book 9780141439518 have?", ["getBook(isbn='9780141439518')", "-> var1.pages"]),
        ("What is the average of 3, 5 and 10?", ["averageNumbers(values=[3, 5, 10])", "-> var1.average"]),
        (
            "How many ounces are 2.5 kilograms?",
            ["convertWeight(from_unit='kilogram', to_unit='ounce', value=2.5)", "-> var1.result"],
        ),
        (
            "How long does the train from st-104 to st-220 take?",
            ["findTrain(destination='st-220', origin='st-104')", "-> var1.duration_minutes"],
        ),
    ],
)
def test_one_call(backend: RulesBackend, query: str, plan: list[str]) -> None:
    assert written(backend.draft(request(query))) == plan


def test_what_nobody_says_comes_from_another_call(backend: RulesBackend) -> None:
    assert written(backend.draft(request('How many pages does the book "Middlemarch" have?'))) == [
        "searchBooks(query='Middlemarch')",
        "getBook(isbn=var1.items.0.isbn)",
        "-> var2.pages",
    ]


def test_both_ends_of_a_pair_get_calls_of_their_own(backend: RulesBackend) -> None:
    assert written(backend.draft(request("How long does the train from Utrecht to Antwerp take on 3 May 2027?"))) == [
        "searchStations(q='Utrecht')",
        "searchStations(q='Antwerp')",
        "findTrain(day='2027-05-03', destination=var2.items.0.station_id, origin=var1.items.0.station_id)",
        "-> var3.duration_minutes",
    ]


def test_values_joined_by_and_are_calls_of_their_own(backend: RulesBackend) -> None:
    lines = written(backend.draft(request("What is the status of the parcels PX-20931 and PX-11111?")))
    assert lines[:2] == ["trackParcel(number='PX-20931')", "trackParcel(number='PX-11111')"]
    assert lines[2] == "-> var1.status, var2.status"


def test_every_part_of_a_request_gets_its_call(backend: RulesBackend) -> None:
    clauses = ("What is the status of parcel PX-20931", "what is the average of 2 and 4?")
    lines = written(backend.draft(request(", and ".join(clauses), clauses)))
    assert lines == ["trackParcel(number='PX-20931')", "averageNumbers(values=[2, 4])", "-> var1.status, var2.average"]


def test_a_statement_belongs_to_its_question(backend: RulesBackend) -> None:
    clauses = ("My suitcase weighs 20 kilograms", "what is that in ounces?")
    lines = written(backend.draft(request(", ".join(clauses), clauses)))
    assert lines[0] == "convertWeight(from_unit='kilogram', to_unit='ounce', value=20)"


def test_the_unit_may_stand_in_the_name_of_the_field(backend: RulesBackend) -> None:
    grams = APIS[4].model_copy(
        update={
            "response": ApiResponse(json_schema={"type": "object", "properties": {"weight_gram": {"type": "number"}}}),
            "content_hash": "grams",
        }
    )
    asked = request("How heavy is parcel PX-20931 in ounces?")
    candidates = tuple(
        c if c.api.name != "trackParcel" else c.model_copy(update={"api": grams}) for c in asked.candidates
    )
    assert written(backend.draft(asked.model_copy(update={"candidates": candidates}))) == [
        "trackParcel(number='PX-20931')",
        "convertWeight(from_unit='gram', to_unit='ounce', value=var1.weight_gram)",
        "-> var2.result",
    ]


def test_what_is_missing_is_left_for_the_user(backend: RulesBackend) -> None:
    draft = backend.draft(request("Convert 40 kilograms"))
    assert draft.plan is not None
    assert [s.api for s in draft.plan.steps] == ["test.convertWeight"]
    assert [value.argument for value in draft.missing] == ["to_unit"]


def test_the_application_knows_values_by_name(backend: RulesBackend) -> None:
    context = Context(now=NOW, values={"memberId": "m77"})
    draft = backend.draft(request("Reserve the book 9780141439518", context=context))
    assert written(draft)[0] == "reserveBook(isbn='9780141439518', member_id='m77')"


@pytest.mark.parametrize(
    "query",
    [
        "Bake a sourdough bread for breakfast",
        "Who won the tennis tournament?",
        "?!... ;;",
        "почему небо голубое",
        "lol",
    ],
)
def test_nothing_fits(backend: RulesBackend, query: str) -> None:
    draft = backend.draft(request(query))
    assert draft.plan is None
    assert draft.reason


@pytest.mark.parametrize(
    "query",
    [
        "Which books did Jane Austen write?",
        "What does the reservation r17 hold?",
        'Search books about "cancel reservation r17 now"',
        "Is it possible that reservation r17 exists?",
    ],
)
def test_nothing_is_changed_unless_asked_for(backend: RulesBackend, query: str) -> None:
    draft = backend.draft(request(query))
    changing = {"test.reserveBook", "test.cancelReservation"}
    plans = [plan for plan in (draft.plan, *draft.alternatives) if plan is not None]
    assert not changing & {step.api for plan in plans for step in plan.steps}


def test_what_is_asked_for_is_done(backend: RulesBackend) -> None:
    draft = backend.draft(request("Please cancel reservation r17"))
    assert written(draft)[0] == "cancelReservation(reservation_id='r17')"


def test_similar_demos_tip_the_balance_and_never_add_an_api(backend: RulesBackend) -> None:
    step = Step(id="var1", api="test.searchBooks", arguments={"query": LiteralValue(value="Emma")})
    plan = Plan(steps=(step,), answer=(AnswerOutput(name="title", value=Reference(step="var1")),))
    stranger = Plan(steps=(step.model_copy(update={"api": "test.unknown"}),))
    demos = tuple(
        SelectedDemo(demo=Demo(query="What is there by Emma?", plan=p), similarity=0.99, level="task")
        for p in (plan, stranger)
    )
    draft = backend.draft(request("What is there by Eliot?", demos=demos))
    assert [s.api for s in draft.plan.steps] == ["test.searchBooks"] if draft.plan else False


def test_plans_compile(backend: RulesBackend) -> None:
    draft = backend.draft(request("How long does the train from Utrecht to Antwerp take on 3 May 2027?"))
    assert draft.plan is not None
    assert compile_plan(draft.plan, APIS, Policy(mutating=Decision.ALLOW)).compiled is not None


async def test_it_is_a_planner_backend(backend: RulesBackend) -> None:
    assert isinstance(backend, PlannerBackend)
    assert backend.name == "rules"
    assert (await backend.plan(request("Has parcel PX-20931 been delivered?"))).plan is not None
