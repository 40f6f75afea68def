"""Which outputs of other calls may be a parameter's value."""

import pytest

from planner_svc.backends.compact.links import is_id_of_another, writes_back
from planner_svc.reading.profile import profile_of
from services.contracts.api import Location
from tests.unit.planner_svc.building import WHOLE, api, listed, param, record

PARCEL = api(
    "get",
    param("id", WHOLE, at=Location.PATH),
    method="GET",
    path="/parcels/{id}",
    returns=record(depot=WHOLE, sender=WHOLE),
)
DEPOTS = api("depots", method="GET", path="/depots", returns=record(depot=WHOLE))


@pytest.mark.parametrize(
    ("method", "path", "kept"),
    [
        ("PUT", "/parcels/{id}/depot", True),
        ("PATCH", "/parcels/{id}", True),
        ("PUT", "/parcels/{id}", False),
        ("POST", "/parcels/{id}/depot", False),
        ("PUT", "/parcelsets/{id}", False),
    ],
)
def test_a_change_does_not_set_what_is_there_already(method: str, path: str, kept: bool) -> None:
    body = (param("id", WHOLE, at=Location.PATH), param("depot", WHOLE, at=Location.BODY))
    change = api("set", *body, method=method, path=path)
    slot = next(one for one in profile_of(change).slots if one.name == "depot")
    depot, sender = profile_of(PARCEL).fields
    assert writes_back(change, slot, PARCEL, depot) is kept
    assert not writes_back(change, slot, PARCEL, sender)
    assert not writes_back(change, slot, DEPOTS, profile_of(DEPOTS).fields[0])


@pytest.mark.parametrize(
    ("name", "things", "other"),
    [
        ("visitor_id", {"visitor", "member"}, True),
        ("member_id", {"visitor", "member"}, False),
        ("host_id", {"visitor", "member"}, False),  # a member, by another name
        ("visitor_id", {"member"}, False),
        ("id", {"", "member"}, False),
        ("visitor", {"visitor", "member"}, False),
    ],
)
def test_the_id_of_another_thing_is_not_changed(name: str, things: set[str], other: bool) -> None:
    change = api("remove", param(name, WHOLE, at=Location.PATH), method="DELETE", path="/things/{id}")
    members = api("list", method="GET", path="/members", returns=record(members=listed(record(id=WHOLE, age=WHOLE))))
    slot, fields = profile_of(change).slots[0], profile_of(members).fields
    found = {field.name: is_id_of_another(slot, field, [frozenset(one.split()) for one in things]) for field in fields}
    assert found.pop("id") is other
    assert not any(found.values())
