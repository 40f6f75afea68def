"""A change at midnight is unsure if only its day is said."""

from typing import Any

import pytest

from planner_svc.proving.assumed_times import assumed_midnight
from services.contracts.api import Location
from tests.unit.planner_svc.building import api, param, plan, step

MOMENT = {"type": "string", "format": "date-time"}
START = api(
    "startFlight",
    param("startsAt", MOMENT, at=Location.BODY),
    param("endsAt", MOMENT, at=Location.BODY),
    method="POST",
    path="/flights",
)
LIST = api("listFlights", param("since", MOMENT), path="/flights")
APIS = {one.id: one for one in (START, LIST)}
FRIDAY = "2026-12-04T00:00:00Z"


@pytest.mark.parametrize("query", ["start it on Friday", "start flight 100 on 4 December"])
def test_a_time_that_nobody_said_is_told(query: str) -> None:
    assert assumed_midnight(query, plan(step("a", "startFlight", startsAt=FRIDAY)), APIS) == "2026-12-04"


@pytest.mark.parametrize(
    ("query", "called", "arguments"),
    [
        ("start it at midnight on Friday", "startFlight", {"startsAt": FRIDAY}),
        ("start it on Thursday at 24:00", "startFlight", {"startsAt": FRIDAY}),
        ("start it on Friday, 12 at night", "startFlight", {"startsAt": FRIDAY}),
        ("start it on Friday 0:00", "startFlight", {"startsAt": FRIDAY}),
        ("start it on Friday at 12 am", "startFlight", {"startsAt": FRIDAY}),
        ("start it on Friday at 7", "startFlight", {"startsAt": "2026-12-04T07:00:00Z"}),
        ("fly from Friday to Saturday", "startFlight", {"startsAt": FRIDAY, "endsAt": "2026-12-05T23:59:59Z"}),
        ("flights since Friday", "listFlights", {"since": FRIDAY}),
    ],
)
def test_what_is_said_or_only_read_is_not(query: str, called: str, arguments: dict[str, Any]) -> None:
    assert assumed_midnight(query, plan(step("a", called, **arguments)), APIS) == ""
