"""A change is looked up by what the thing is, not by what it is to become."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from planner_svc.backends.compact import CompactBackend
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument, ReferenceArgument
from planner_svc.backends.compact.goals import take_goals
from planner_svc.backends.compact.new_values import drop_other_options, tell_old_from_new_values
from planner_svc.backends.compact.said_moments import SaidMoments
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.profile import read_profile
from services.contracts.api import Location
from services.contracts.plan import LiteralValue
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.worlds import TEXT, api, param

FIND = api("findMembers", "Find members", param("name"), param("email"), returns={"id": TEXT})
CHANGE = api("updateMember", "Change a member", param("memberId", required=True), param("email"), method="PATCH")


@pytest.mark.parametrize(
    ("query", "said", "kept"),
    [
        ("Change the email of Ada Lund to ada@b.example", {"name": "Ada Lund", "email": "ada@b.example"}, ["name"]),
        ("Change the email of Ada Lund to mailbox ada@b", {"name": "Ada Lund", "email": "ada@b"}, ["name"]),
        ("Change the email to ada@b.example", {"email": "ada@b.example"}, ["email"]),
        (
            "Ada Lund, ada@b.example: change her email",
            {"name": "Ada Lund", "email": "ada@b.example"},
            ["name", "email"],
        ),
    ],
)
def test_a_new_value_is_not_looked_up(query: str, said: dict[str, str], kept: list[str]) -> None:
    profiles = [read_profile(one) for one in (FIND, CHANGE)]
    apis: Any = [SimpleNamespace(profile=profile) for profile in profiles]
    values = {
        name: LiteralArgument(text, (query.index(text), query.index(text) + len(text)), 0.9)
        for name, text in said.items()
    }
    found, change = DraftCall(0, 0.9, dict(values)), DraftCall(1, 0.9, {"email": values["email"]})
    change.arguments["memberId"] = ReferenceArgument(0, profiles[0].fields[0], 0.9)
    tell_old_from_new_values(query, apis, {0: [found], 1: [change]})
    assert [*found.arguments] == kept
    assert "email" in change.arguments


@pytest.mark.parametrize("place", [(10, 14), None])
@pytest.mark.parametrize("required", [True, False])
def test_what_is_looked_up_by_is_not_set_again(required: bool, place: tuple[int, int] | None) -> None:
    query = "Close the free berths"
    status = param("status", {"type": "string", "enum": ["free", "closed"]}, required=required)
    code = param("code", required=True).model_copy(update={"location": Location.PATH})
    berths = api("listBerths", "List berths", param("status"), returns={"code": TEXT})
    put = api("setStatus", "Set the status", code, status, method="PUT", path="/berths/{code}/status")
    profiles = [read_profile(one) for one in (berths, put)]
    apis: Any = [SimpleNamespace(profile=profile) for profile in profiles]
    free = LiteralArgument("free", place, 0.9)
    listing, change = DraftCall(0, 0.9, {"status": free}), DraftCall(1, 0.9, {"status": free})
    change.arguments["code"] = ReferenceArgument(0, profiles[0].fields[0], 0.9)
    tell_old_from_new_values(query, apis, {0: [listing], 1: [change]})
    assert [*listing.arguments] == ["status"]
    assert [*change.arguments] == ["code"]
    assert change.missing == (["status"] if required else [])


class Reader:
    """Reads words as they are."""

    def __init__(self, query: str) -> None:
        self.query, self.moments = query, SaidMoments(query, datetime(2026, 11, 29, tzinfo=UTC))

    def meaning(self, fill: FillRequest, start: int, end: int) -> str:
        """The words at these characters."""
        return self.query[start:end]


@pytest.mark.parametrize(
    ("query", "said", "value"),
    [
        ("Move task t1 from Doing to Done", "Doing", "Done"),
        ("Move task t1 from Doing to Done", "Doing to Done", "Done"),
        ("Move complaint t1 from Tim Roth to Lena Fox, please", "Tim Roth", "Lena Fox"),
        ("Move pickup t1 from 2 December to 4 December, please", "2 December", "4 December"),
        ("Move task t1 to Done", "Done", "Done"),
        ("Take task t1 from Doing to Done", "Doing", "Done"),
        ("Move task t1 from Doing to In Review", "Doing", "In Review"),
        ("Move task t1 from in work to under review", "in work", "under review"),
    ],
)
def test_what_is_moved_gets_the_value_to_which_it_is_moved(query: str, said: str, value: str) -> None:
    profile = read_profile(api("moveTask", "", param("list"), method="PATCH"))
    fills = [FillRequest(ParameterTarget(0, 0, profile.slots[0]), profile, 1, (), [], [])]
    place = query.index(said), query.index(said) + len(said)
    call = DraftCall(0, 0.9, {"list": LiteralArgument(said, place, 0.9)})
    take_goals(Reader(query), query, call, fills)  # type: ignore[arg-type]
    assert [one.value for one in call.arguments.values() if isinstance(one, LiteralArgument)] == [value]


STATUS = param("status", {"type": "string", "enum": ["available", "in_workshop", "on_tour"]}, required=True)
TRUCK = param("truckId", required=True).model_copy(update={"location": Location.PATH})


@pytest.mark.parametrize(
    ("query", "method", "kept"),
    [
        ("Set truck T-1 to broken", "PUT", False),
        ("Mark T-1 as done, please", "PUT", False),
        ("T-1 is broken", "PUT", True),
        ("Send T-1 to its first tour", "PUT", True),
        ("Send T-1 to the tour", "PUT", True),
        ("Add a note to T-1", "PUT", True),
        ("Give the status to truck T-1 that it had", "PUT", True),
        ("Add truck T-1 to whatever", "POST", True),
    ],
)
def test_an_option_that_is_not_the_new_value_is_not_set(query: str, method: str, kept: bool) -> None:
    profile = read_profile(api("setTruckStatus" if method == "PUT" else "addTruck", "", TRUCK, STATUS, method=method))
    fills = [FillRequest(ParameterTarget(0, at, slot), profile, 1, (), [], []) for at, slot in enumerate(profile.slots)]
    at = query.index("T-1")
    call = DraftCall(
        0, 0.9, {"truckId": LiteralArgument("T-1", (at, at + 3), 0.9), "status": LiteralArgument("on_tour", None, 0.9)}
    )
    drop_other_options(query, call, fills)
    assert ("status" in call.arguments) == kept
    assert call.missing == ([] if kept else ["status"])


def test_the_state_of_a_condition_is_not_set(backend: CompactBackend) -> None:
    truck = api("setTruckStatus", "Set the status of a truck", TRUCK, STATUS, method="PUT", path="/trucks/{truckId}")
    query = "If truck T-4 is available, put it in the workshop"
    draft = backend.draft(PlanRequest(query=query, candidates=(Candidate(api=truck, score=1),)))
    assert draft.plan is not None
    status = draft.plan.steps[0].arguments.get("status")
    assert status is None or status != LiteralValue(value="available")


def test_nothing_is_looked_up_by_an_option_that_nobody_named(backend: CompactBackend) -> None:
    states, kinds = (
        {"type": "string", "enum": enum}
        for enum in (["open", "in_progress", "done"], ["rigging", "engine", "cleaning"])
    )
    job = {"type": "object", "properties": {"id": {"type": "integer"}, "kind": TEXT, "status": TEXT}}
    listing = api(
        "listJobs",
        "List jobs",
        param("status", states, "Status"),
        param("kind", kinds, "Kind"),
        path="/jobs",
        returns={"items": {"type": "array", "items": job}},
    )
    number = param("id", {"type": "integer"}, required=True).model_copy(update={"location": Location.PATH})
    update = api("updateJob", "Update a job", number, param("status", states), method="PATCH", path="/jobs/{id}")
    query = "Set all open jobs to in progress"
    draft = backend.draft(
        PlanRequest(query=query, candidates=tuple(Candidate(api=one, score=1) for one in (update, listing)))
    )
    assert draft.plan is not None
    assert {name for step in draft.plan.steps for name in step.arguments} == {"status", "id"}
