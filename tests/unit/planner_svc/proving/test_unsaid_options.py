"""A change is unsure if it sends an option that the request does not say."""

from typing import Any

import pytest

from planner_svc.proving.unsaid_options import unsaid_option
from services.contracts.api import Location
from tests.unit.planner_svc.building import api, param, plan, step

LEVEL = {"type": "string", "enum": ["trainee", "standard", "air_side"]}
CURRENCY = {"type": "string", "enum": ["EUR", "GBP"]}
ADD = api(
    "addHandler",
    param("licence", LEVEL, at=Location.BODY),
    param("currency", CURRENCY, at=Location.BODY),
    param("state", {"type": "string", "enum": ["on", "off"], "default": "on"}, at=Location.BODY),
    method="POST",
    path="/handlers",
)
REPORT = api(
    "reportPest", param("pest", {"type": "string", "enum": ["goose", "gull"]}, at=Location.BODY), method="POST"
)
LIST = api("listHandlers", param("licence", LEVEL), path="/handlers")
APIS = {one.id: one for one in (ADD, REPORT, LIST)}


def test_a_guess_is_told() -> None:
    assert unsaid_option("add Dana, licence pilot", plan(step("a", "addHandler", licence="trainee")), APIS, {}) == (
        "trainee"
    )


@pytest.mark.parametrize(
    ("query", "called", "arguments"),
    [
        ("add Dana as a trainee", "addHandler", {"licence": "trainee"}),
        ("add Dana, she is trained for the airside, licence air side", "addHandler", {"licence": "air_side"}),
        ("add Dana, paid in pounds", "addHandler", {"currency": "GBP"}),
        ("add Dana", "addHandler", {"state": "on"}),
        ("report 5 geese", "reportPest", {"pest": "goose"}),
        ("which pilots are there?", "listHandlers", {"licence": "trainee"}),
    ],
)
def test_what_is_said_or_usual_is_not(query: str, called: str, arguments: dict[str, Any]) -> None:
    assert unsaid_option(query, plan(step("a", called, **arguments)), APIS, {}) == ""


def test_what_the_application_gave_is_no_guess() -> None:
    given = plan(step("a", "addHandler", licence="trainee"))
    assert unsaid_option("add Dana", given, APIS, {"licence": "trainee"}) == ""


@pytest.mark.parametrize(
    ("query", "option", "unsaid"),
    [
        ("remind me every week", "weekly", ""),
        ("remind me each day", "daily", ""),
        ("remind me each year", "daily", "daily"),
    ],
)
def test_an_adverb_is_said_by_its_noun(query: str, option: str, unsaid: str) -> None:
    often = param("often", {"type": "string", "enum": ["daily", "weekly"]}, at=Location.BODY)
    remind = api("remind", often, method="POST", path="/reminders")
    assert unsaid_option(query, plan(step("a", "remind", often=option)), {remind.id: remind}, {}) == unsaid
