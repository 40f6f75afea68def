"""A plan is unsure if the request has a day that does not exist, or an address that a change does not use."""

from typing import Any

import pytest

from planner_svc.proving.unread import unread
from services.contracts.api import Location
from tests.unit.planner_svc.building import api, param, plan, step

CANCEL = api("cancelRun", param("id", required=True, at=Location.PATH), param("note"), method="POST", path="/runs/{id}")
SHOW = api("getRun", param("id", required=True, at=Location.PATH), method="GET", path="/runs/{id}")
APIS = {one.id: one for one in (CANCEL, SHOW)}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("cancel run 5 on the 31st of November", "there is no “31st of November”"),
        ("cancel run 5 on 30 February 2027", "there is no “30 February”"),
        ("cancel run 5 by June 31", "there is no “June 31”"),
        ("cancel run 5 and tell pat@x.example", "it does not use “pat@x.example”"),
        ("cancel run 5 on 29 February", ""),
        ("cancel run 5 in May 2027", ""),
        ("I am pat@x.example, cancel run 5", ""),
        ("cancel run 5. Regards, pat@x.example", ""),
        ("cancel run 5 from pat@x.example", "it does not use “pat@x.example”"),
        ('cancel run 5, note "not on 31 November"', ""),
        ("cancel run 5", ""),
        ("cancel run 5, room 32 may be free", ""),
        ("cancel run 5 on the 32 of April", "there is no “32 of April”"),
        ("cancel run 5 on 31 \u017fept", "there is no “31 sept”"),
    ],
)
def test_what_a_change_cannot_have(query: str, said: str) -> None:
    assert unread(query, plan(step("a", "cancelRun", id="5")), APIS) == said


@pytest.mark.parametrize(
    ("called", "arguments", "query"),
    [
        ("cancelRun", {"id": "5", "note": "for pat@x.example"}, "cancel run 5 for Pat@x.example"),
        ("getRun", {"id": "5"}, "I am pat@x.example, show run 5"),
    ],
)
def test_what_is_used_or_only_read(called: str, arguments: dict[str, Any], query: str) -> None:
    assert unread(query, plan(step("a", called, **arguments)), APIS) == ""
