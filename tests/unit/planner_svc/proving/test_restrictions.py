"""A change is unsure if the request restricts it in words that no value of the plan has."""

import pytest

from planner_svc.proving.restrictions import restriction
from services.contracts.api import Location
from services.contracts.plan import Plan
from tests.unit.planner_svc.building import TEXT, api, param, plan, record, step

DELETE = api(
    "deleteMessages",
    *map(param, ("status", "sender", "older_than_days")),
    method="DELETE",
    path="/messages",
    returns=record(n=TEXT),
)
SEND = api("sendMessage", param("text", at=Location.BODY), method="POST", path="/messages", returns=record(n=TEXT))
LIST = api("listMessages", param("status"), path="/messages", returns=record(n=TEXT))
LABEL = api("removeLabel", param("id", required=True, at=Location.PATH), method="DELETE", path="/labels/{id}")
APIS = {one.id: one for one in (DELETE, SEND, LIST, LABEL)}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Delete messages that are not read", "not read"),
        ("Delete messages from Anna but not the unread ones", "not the unread ones"),
        ("Delete all messages older than two weeks", "older than two weeks"),
        ("Delete messages smaller than 5 MB, please", "smaller than 5 MB, please"),
        ("Make user 5 anything but admin", "anything but admin"),
        ("Delete the messages unless Anna wrote them", "unless Anna wrote them"),
        ("Delete tickets 3, 4 and 5 but keep 4", "but keep 4"),
        ("Make user 5 an admin, no, an editor", "no, an editor"),
        ("Delete the png messages of Anna", "png messages"),
        ("Could you delete all old read messages", "old read messages"),
        ("Delete the read messages, that is half of them", "half of them"),
        ("Delete the read messages every Monday", "every Monday"),
        ("Delete all read messages but M-40", "all read messages but M-40"),
    ],
)
def test_words_that_restrict_a_change_are_found(query: str, words: str) -> None:
    assert restriction(query, plan(step("var1", "deleteMessages", status="read"), answer="$var1$"), APIS) == words


@pytest.mark.parametrize(
    ("query", "subject"),
    [
        ("Delete all read messages", plan(step("var1", "deleteMessages", status="read"), answer="$var1$")),
        (
            "Delete messages with status not read",
            plan(step("var1", "deleteMessages", status="not read"), answer="$var1$"),
        ),
        ("List messages that are not read", plan(step("var1", "listMessages", status="read"), answer="$var1$")),
        ('Send "do not wait for me"', plan(step("var1", "sendMessage", text="do not wait for me"), answer="$var1$")),
        ("Send do not wait for me", plan(step("var1", "sendMessage", text="do not wait for me"), answer="$var1$")),
        (
            "Don't forget to delete the messages of Anna",
            plan(step("var1", "deleteMessages", sender="Anna"), answer="$var1$"),
        ),
        ("Delete all messages", plan(step("var1", "deleteMessages"), answer="$var1$")),
        (
            "Delete messages older than 60 days",
            plan(step("var1", "deleteMessages", older_than_days=60), answer="$var1$"),
        ),
        ("Send the png messages to Anna", plan(step("var1", "sendMessage", text="Anna"), answer="$var1$")),
        ("Remove the urgent label 5", plan(step("var1", "removeLabel", id="5"), answer="$var1$")),
        ("Delete message no. 5", plan(step("var1", "deleteMessages", sender="5"), answer="$var1$")),
    ],
)
def test_other_words_restrict_nothing(query: str, subject: Plan) -> None:
    assert restriction(query, subject, APIS) == ""


def test_words_after_a_limit_restrict_a_change() -> None:
    asked = plan(step("var1", "deleteMessages", older_than_days=60), answer="$var1$")
    assert restriction("Delete messages older than 60 days but not read ones", asked, APIS) == "not read ones"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("list messages that are not read", "not read"),
        ("messages without a sender", "without a sender"),
        ("all messages other than Anna's", "other than Anna's"),
        ("list the messages", ""),
        ("messages of M-4 that aren't read", "aren't read"),
        ("not only the read messages", ""),
        ("why not list the messages", ""),
        ("messages that we do not need", "not need"),
        ("other than that, list the messages", ""),
        ("not sure which, list the messages", ""),
    ],
)
def test_what_is_left_out_of_a_list_needs_a_filter(query: str, words: str) -> None:
    assert restriction(query, plan(step("var1", "listMessages"), answer="$var1$"), APIS) == words


def test_what_one_thing_is_not_restricts_nothing() -> None:
    one = api("getMessage", param("id", required=True, at=Location.PATH), method="GET", path="/messages/{id}")
    read = plan(step("var1", "getMessage", id="M-4"), answer="$var1$")
    assert restriction("M-4 has not arrived, where is it?", read, {one.id: one}) == ""


def test_nothing_may_be_meant_by_without() -> None:
    read = plan(step("var1", "listMessages", size=0), answer="$var1$")
    assert restriction("messages without a file", read, APIS) == ""


def test_a_value_may_mean_what_is_left_out() -> None:
    read = plan(step("var1", "listMessages", status="unread"), answer="$var1$")
    assert restriction("list messages that are not read", read, APIS) == ""
