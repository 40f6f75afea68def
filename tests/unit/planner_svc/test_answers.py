"""What a call's answer is given for: what was asked, and of what was done more than its id."""

from planner_svc.reading.answers import completed
from planner_svc.reading.profile import read_profile
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, record

PAYMENT = record(id=TEXT, status=TEXT, amount=WHOLE, lines={"type": "array", "items": TEXT})


def test_of_what_was_done_more_than_its_id_is_told_and_its_id() -> None:
    profile = read_profile(api("create_payment", param("to"), method="POST", path="/payments", returns=PAYMENT))
    fields = {field.name: field for field in profile.fields}
    assert [one.name for one in completed(profile, [fields["id"]])] == ["id", "status", "amount"]
    assert [one.name for one in completed(profile, [fields["amount"]])] == ["amount", "id"]
    both = [fields["amount"], fields["id"]]
    assert completed(profile, both) == both
    assert completed(profile, []) == []


def test_what_is_only_read_is_told_as_it_is_asked_for() -> None:
    profile = read_profile(api("get_payment", param("to"), path="/payments", returns=PAYMENT))
    fields = {field.name: field for field in profile.fields}
    assert completed(profile, [fields["id"]]) == [fields["id"]]
