"""Tests of the evaluation questions: they are well formed, have no duplicates, and have the right answers."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from services.contracts.solve import SolveRequest
from tests.e2e.matching import missing
from tests.e2e.questions import read_questions, read_solutions
from tests.support.sandbox_server import SandboxServer, serve_sandbox

DEV, HELDOUT = read_questions("dev"), read_questions("heldout")
QUESTIONS = DEV + HELDOUT
SOLUTIONS = read_solutions()
_REFERENCE = re.compile(r"^\$\d+(\.\w+)*$")


def test_the_halves_are_alike_and_share_nothing() -> None:
    kinds = [Counter(q["kind"] for q in half) for half in (DEV, HELDOUT)]
    assert len(DEV) % len(HELDOUT) == 0
    assert kinds[0] == {kind: count * (len(DEV) // len(HELDOUT)) for kind, count in kinds[1].items()}
    assert len(QUESTIONS) >= 80
    for key in ("id", "query"):
        assert len({q[key].casefold() for q in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["id"])
def test_a_question_is_well_formed(question: dict[str, Any]) -> None:
    given = {key: question[key] for key in ("query", "context", "options") if key in question}
    SolveRequest.model_validate(given)
    unanswerable = question["kind"] in {"no_plan", "needs_input"}
    assert question["status"] == (question["kind"] if unanswerable else "succeeded")
    assert unanswerable == (not question["expected"]) == (question["id"] not in SOLUTIONS)
    assert question["note"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxServer]:
    with serve_sandbox() as server:
        yield server


@pytest.fixture(scope="module")
def headers(sandbox: SandboxServer) -> dict[str, dict[str, str]]:
    """The headers that authenticate, for each protected part of the estate."""
    settings = sandbox.settings
    assert settings.api_key
    assert settings.bearer_token
    assert settings.oauth_client_secret
    assert settings.basic_password
    form = {
        "grant_type": "client_credentials",
        "client_id": settings.oauth_client_id,
        "client_secret": settings.oauth_client_secret.get_secret_value(),
    }
    token = httpx2.post(f"{sandbox.url}/oauth/token", data=form, timeout=30).json()["access_token"]
    key, oauth = {"X-API-Key": settings.api_key.get_secret_value()}, {"Authorization": f"Bearer {token}"}
    bearer = {"Authorization": f"Bearer {settings.bearer_token.get_secret_value()}"}
    login = httpx2.BasicAuth(settings.basic_username, settings.basic_password.get_secret_value())
    basic = dict(next(login.auth_flow(httpx2.Request("GET", sandbox.url))).headers)
    basic = {"Authorization": basic["authorization"]}
    return {"rooms": key, "bookings": key, "reminders": basic, "contacts": bearer, "customers": oauth, "orders": oauth}


@pytest.fixture(scope="module")
def http(sandbox: SandboxServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=sandbox.url, timeout=30) as client:
        yield client


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q["id"] in SOLUTIONS], ids=lambda q: q["id"])
def test_the_expected_answer_is_right(
    question: dict[str, Any], http: httpx2.Client, headers: dict[str, dict[str, str]]
) -> None:
    solution, outputs = SOLUTIONS[question["id"]], list[Any]()
    for call in solution["calls"]:
        path = call["path"].format(**resolve(call.get("path_parameters", {}), outputs))
        response = http.request(
            call["method"],
            path,
            params=resolve(call.get("query", {}), outputs),
            json=resolve(call["body"], outputs) if "body" in call else None,
            headers=headers.get(path.split("/")[1]),
        )
        assert response.is_success, response.text
        outputs.append(response.json() if response.content else None)
    found = [walk(outputs, path) for path in solution["answers"]]
    for expected, value in zip(question["expected"], found, strict=True):
        assert missing([expected], [value]) == [], f"the sandbox says {value!r}"


def resolve(value: Any, outputs: list[Any]) -> Any:
    """Replace references such as ``$1.items.0.code`` by that part of the second call's output."""
    if isinstance(value, str) and _REFERENCE.match(value):
        return walk(outputs, [int(part) if part.isdigit() else part for part in value[1:].split(".")])
    if isinstance(value, list):
        return [resolve(item, outputs) for item in value]
    if isinstance(value, dict):
        return {key: resolve(item, outputs) for key, item in value.items()}
    return value


def walk(value: Any, path: list[str | int]) -> Any:
    for part in path:
        value = value[part]
    return value


@pytest.mark.parametrize(
    ("expected", "values", "found"),
    [
        ({"value": "Paris"}, ["paris"], True),
        ({"value": "1.234,50 €"}, ["1.234,50\xa0€"], True),
        ({"value": "Paris"}, ["Paris, Texas"], False),
        ({"value": 37}, [37.00001], True),
        ({"value": 37}, [37.1], False),
        ({"value": 37, "tolerance": 0.01}, [37.1], True),
        ({"value": 1}, [True], False),
        ({"value": True}, [1], False),
        ({"value": False}, [False], True),
        ({"value": 5}, [{"a": [{"b": 5}]}], True),
        ({"value": ["a", 2]}, [[{"name": "A"}, 2]], True),
        ({"value": ["a", 2]}, [["a", 2, 3]], False),
        ({"value": "5"}, [5], False),
        ({"value": "x"}, [], False),
    ],
)
def test_matching(expected: dict[str, Any], values: list[Any], found: bool) -> None:
    assert (missing([expected], values) == []) is found
