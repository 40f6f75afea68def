"""What a plan that changes something leaves out of the request is asked about, and what is no value is not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from planner_svc.proving.given_values import with_answers
from planner_svc.proving.unused_values import questions_about, values_left_out
from planner_svc.reading.leaves import flat, nested
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api, Location
from services.contracts.context import Context
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Plan
from services.contracts.planning import DiagnosticCode
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, plan, prove, record, step, value

NOW = Context(now=datetime(2026, 11, 20, 9, tzinfo=UTC))
BODY = Location.BODY
TASK = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "points": WHOLE,
        "due": {"type": "string", "format": "date"},
        "owner": record(email=TEXT),
        "id": {"type": "string", "readOnly": True},
    },
}
CREATE = api(
    "create_task",
    param("list_id", required=True, at=Location.PATH),
    param("task", TASK, at=BODY),
    param("labels", {"type": "array", "items": TEXT}, at=BODY),
    param("urgent", {"type": "boolean"}, at=BODY),
    method="POST",
    path="/lists/{list_id}/tasks",
    summary="Create a task",
)
UPDATE = api(
    "update_task",
    param("id", required=True, at=Location.PATH),
    param("title", at=BODY),
    param("state", {"type": "string", "enum": ["open", "done"]}, at=BODY),
    method="PATCH",
    path="/tasks/{id}",
    summary="Update a task",
)
REMOVE = api("remove_task", param("id", required=True, at=Location.PATH), method="DELETE", path="/tasks/{id}")
FIND = api("find_task", param("query"), param("limit", WHOLE), returns=record(id=TEXT, task=record(name=TEXT)))
APIS = {one.id: one for one in (CREATE, UPDATE, REMOVE, FIND)}


def asked(query: str, subject: Plan, context: Context = NOW) -> list[str]:
    return [question.argument for question in questions_about(query, context, subject, APIS)]


def created(**task: Any) -> Plan:
    arguments: dict[str, Any] = {"task": task} if task else {}
    return plan(step("a", "create_task", list_id="L-7", **arguments))


@pytest.mark.parametrize(
    ("query", "subject", "arguments"),
    [
        ('add "Buy milk" to list L-7', created(), ["task.name"]),
        ('add "Buy milk" to list L-7', created(name="Buy milk"), []),
        ('add "Buy  Milk" to list L-7', created(name="buy milk"), []),
        ('add "Buy milk" with 5 points to L-7', created(name="Buy milk"), ["task.points"]),
        ("put a task for ann@acme.example on list L-7", created(name="x"), ["task.owner.email"]),
        ('add "Buy milk" to L-7, due 2026-12-03', created(name="Buy milk"), ["task.due"]),
        ('add "Buy milk" to L-7, due tomorrow', created(name="Buy milk"), ["task.due"]),
        ('add "Buy milk" to L-7, due tomorrow', created(name="Buy milk", due="2026-11-21"), []),
        ('add "Buy milk" to L-7, to be done before this month', created(name="Buy milk"), ["task.due"]),
        ('add "Buy milk" to L-7, for those older than last week', created(name="Buy milk"), ["task.due"]),
        # what tells how it came about, what is not to be any more, and what says how many are no values
        ('they rang yesterday: add "Buy milk" to L-7', created(name="Buy milk"), []),
        ('add "Buy milk" to L-7 (was 3 points)', created(name="Buy milk"), []),
        ('these two: add "Buy milk" to L-7 as a PDF', created(name="Buy milk"), []),
        # said in another unit, and as a share
        ('add "Buy milk" to L-7, 2 hours', created(name="Buy milk", points=120), []),
        ('add "Buy milk" to L-7, 12.50', created(name="Buy milk", points=1250), []),
        ("remove task 77 at once", plan(step("a", "remove_task", id="77")), []),
        ("change task 77", plan(step("a", "update_task", id="77")), ["title"]),
        ('rename task 77 to "Done"', plan(step("a", "update_task", id="77", title="Done")), []),
        ("open the task 77 again", plan(step("a", "update_task", id="77", state="open")), []),
        # what only reads is not asked about
        ('find "Buy milk" 5', plan(step("a", "find_task")), []),
    ],
)
def test_what_is_left_out_is_asked_about(query: str, subject: Plan, arguments: list[str]) -> None:
    assert asked(query, subject) == arguments


@pytest.mark.parametrize(
    ("name", "summary", "asks"),
    [("UpdateSim", "", True), ("sim", "Updates a SIM", True), ("restoreChange", "Restore a change", False)],
)
def test_a_post_that_alters_nothing_is_asked_about(name: str, summary: str, asks: bool) -> None:
    change = api(name, param("id", required=True, at=Location.PATH), param("Status", at=BODY),
                 method="POST", path="/sims/{id}", summary=summary)  # fmt: skip
    subject = plan(step("a", name, id="HS1"))
    asked_for = [one.argument for one in questions_about("deactivate HS1", NOW, subject, {change.id: change})]
    assert asked_for == ["Status"] * asks


@pytest.mark.parametrize(
    ("query", "name", "arguments"),
    [
        ("add 50 credits to account A-7", "credit", ["credit"]),
        ("refund 25.50 euros to account A-7", "amount", ["amount"]),
        ("set the daily quota of A-7 to 300", "quota", ["quota"]),
        ("add 50 points to account A-7", "points", ["points"]),
        ("top up the 3 accounts", "account", []),
        ("add 50 credits to account A-7", "remark", []),
        ("add these 2 to account A-7", "time_zone", []),
    ],
)
def test_a_text_that_is_named_by_an_amount_may_take_a_number(query: str, name: str, arguments: list[str]) -> None:
    top_up = api("top_up", param("id", required=True, at=Location.PATH), param(name), param("on", {"type": "boolean"}),
                 method="POST", path="/accounts/{id}")  # fmt: skip
    subject = plan(step("a", "top_up", id="A-7", on=True))
    assert [one.argument for one in questions_about(query, NOW, subject, {top_up.id: top_up})] == arguments


@pytest.mark.parametrize(
    ("query", "sent", "arguments"),
    [
        ("Give desk D-1 to member 304 for two weeks", {}, ["until"]),
        ("Give desk D-1 to member 304 for two weeks", {"until": "2026-12-04"}, []),
        ("Give desk D-1 to member 304 for two weeks", {"days": 14}, []),
        ("Give desk D-1 to member 304, who waited two weeks", {}, []),
    ],
)
def test_how_long_something_lasts_is_asked_about(query: str, sent: dict[str, Any], arguments: list[str]) -> None:
    assign = api(
        "assign_desk",
        param("desk", required=True, at=Location.PATH),
        param("member", WHOLE, required=True, at=BODY),
        param("until", {"type": "string", "format": "date"}, at=BODY),
        param("days", {"type": "array", "items": WHOLE} if "days" not in sent else WHOLE, at=BODY),
        method="POST",
        path="/desks/{desk}/assign",
    )
    subject = plan(step("a", "assign_desk", desk="D-1", member=304, **sent))
    assert [one.argument for one in questions_about(query, NOW, subject, {assign.id: assign})] == arguments


def test_a_question_says_what_it_is_about() -> None:
    (question,) = questions_about('add "Buy milk" to list L-7', NOW, created(), APIS)
    assert "The request says “Buy milk”" in question.text
    assert "Create a task" in question.text
    assert "task.name" in question.text
    assert question.json_schema == TEXT


def test_an_answer_goes_where_it_was_asked_for() -> None:
    context = Context(now=NOW.now, values={"task.name": "Buy milk"})
    mended = with_answers(created(), "", context, APIS)
    assert mended.steps[0].arguments["task"] == LiteralValue(value={"name": "Buy milk"})
    assert asked('add "Buy milk" to list L-7', mended, context) == []


def test_what_stands_far_back_in_a_wide_body_is_asked_about_and_takes_its_answer() -> None:
    """The network looks at the first few places inside objects alone; nothing that is said is passed over for it."""
    address = record(**{f"line{number}": TEXT for number in range(40)})
    emails = {"type": "array", "items": record(email=TEXT, kind=TEXT)}
    wide = api("create_lead", param("addresses", {"type": "array", "items": address}, at=BODY),
               param("emails", emails, at=BODY), param("name", at=BODY), method="POST", path="/leads")  # fmt: skip
    made, query = plan(step("a", "create_lead", name="Ann Lee")), 'add the lead "Ann Lee", ann@acme.example'
    (question,) = questions_about(query, NOW, made, {wide.id: wide})
    assert question.argument == "emails[0].email"
    context = Context(now=NOW.now, values={question.argument: "ann@acme.example"})
    mended = with_answers(made, "", context, {wide.id: wide})
    assert mended.steps[0].arguments["emails"] == LiteralValue(value=[{"email": "ann@acme.example"}])
    assert questions_about(query, context, mended, {wide.id: wide}) == ()


def test_what_is_required_and_lacks_a_value_gets_the_given_one() -> None:
    context = Context(now=NOW.now, values={"list_id": "L-9", "labels": ["a"], "urgent": True})
    mended = with_answers(plan(step("a", "create_task", task={"name": "x"})), "", context, APIS)
    assert mended.steps[0].arguments["list_id"] == LiteralValue(value="L-9")
    assert set(mended.steps[0].arguments) == {"list_id", "task"}
    assert with_answers(created(), "", context, APIS) == created()


def test_an_answer_is_put_beside_what_is_there() -> None:
    context = Context(now=NOW.now, values={"task.owner.email": "a@b.example", "task.name": "no", "task.points": "no"})
    looked_up = plan(step("f", "find_task", query="x"), step("a", "create_task", list_id="L-7", task={}))
    given = {"name": value("$f.task.name$")}
    inside = looked_up.steps[1].model_copy(update={"arguments": {"task": ObjectValue(fields=given)}})
    mended = with_answers(Plan(steps=(looked_up.steps[0], inside), answer=looked_up.answer), "", context, APIS)
    assert mended.steps[1].arguments["task"] == ObjectValue(fields={**given, "owner": value({"email": "a@b.example"})})


def test_what_is_meant_for_nothing_is_asked_about_once() -> None:
    ignored = Context(now=NOW.now, values={"task.points": None})
    assert asked('add "Buy milk" with 5 points to L-7', created(name="Buy milk"), ignored) == []


def test_objects_are_flattened_and_put_together() -> None:
    profile = flat(read_profile(CREATE))
    assert [slot.name for slot in profile.slots] == [
        "list_id", "labels", "urgent", "task.name", "task.points", "task.due", "task.owner.email",
    ]  # fmt: skip
    whole = {"list_id": value("L"), "task.name": value("$f.id$"), "task.owner.email": value("a@b.example")}
    assert nested(profile, whole) == {
        "list_id": value("L"),
        "task": ObjectValue(fields={"name": value("$f.id$"), "owner": value({"email": "a@b.example"})}),
    }
    assert nested(profile, {"task.points": value(3)}) == {}  # optional, and without its name no task


def test_an_api_without_objects_stays_as_it_is() -> None:
    profile = read_profile(UPDATE)
    assert flat(profile) is profile


@pytest.mark.parametrize(
    ("schema", "given", "built"),
    [
        ({"type": "array", "items": TASK}, {"v[0].name": "x"}, [{"name": "x"}]),
        ({"oneOf": [TASK, {**record(url=TEXT), "required": ["url"]}]}, {"v.url": "u", "v.points": 3}, {"url": "u"}),
        ({"anyOf": [{**record(a=TEXT), "required": ["a"]}, record(b=TEXT)]}, {"v.b": "y"}, {"b": "y"}),
        ({"allOf": [record(a=TEXT), record(b=record(c=WHOLE))]}, {"v.a": "x", "v.b.c": 2}, {"a": "x", "b": {"c": 2}}),
        (record(tags={"type": "array", "items": TEXT}), {"v.tags": ["x", "y"]}, {"tags": ["x", "y"]}),
    ],
)
def test_arrays_and_alternatives(schema: dict[str, Any], given: dict[str, Any], built: Any) -> None:
    subject = api("send", param("v", schema, required=True, at=BODY), method="POST")
    profile = flat(read_profile(subject))
    assert {slot.name for slot in profile.slots} >= given.keys()
    arguments: dict[str, Any] = nested(profile, {name: value(one) for name, one in given.items()})
    assert arguments == {"v": LiteralValue(value=built)}
    assert prove(plan(step("a", "send", **arguments)), subject).compiled is not None


def test_a_required_object_that_lacks_something_is_asked_about_inside() -> None:
    subject = api("send", param("v", {"type": "array", "items": TASK}, required=True, at=BODY), method="POST")
    arguments: dict[str, Any] = nested(flat(read_profile(subject)), {"v[0].points": value(3)})
    assert arguments == {"v": ListValue(items=(ObjectValue(fields={"points": value(3)}),))}
    result = prove(plan(step("a", "send", **arguments)), subject)
    assert [d.code for d in result.diagnostics if d.severity == "error"] == [DiagnosticCode.MISSING_ARGUMENT]
    assert [question.argument for question in result.questions] == ["v[0].name"]


def recursive() -> Api:
    tree: dict[str, Any] = {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/Tree"} for n in range(60)}}
    tree["properties"]["leaf"] = TEXT
    return api("plant", param("tree", {"$ref": "#/$defs/Tree"}, at=BODY), definitions={"Tree": tree}, method="POST")


def test_reading_a_hostile_schema_ends() -> None:
    profile = flat(read_profile(recursive()))
    assert 0 < len(profile.slots) <= 24
    odd = api("odd", param("o", {"type": "object", "properties": {"": TEXT, "a": True, "b": {"type": 7}}}, at=BODY))
    assert [slot.name for slot in flat(read_profile(odd)).slots] == ["o.b"]


USAGE = api(
    "list_usage",
    param("fleet"),
    param("start_time", {"type": "string", "format": "date-time"}),
    param("group", {"type": "string", "enum": ["fleet", "sim"]}),
    returns=record(bytes=WHOLE),
)


@pytest.mark.parametrize(
    ("query", "arguments", "left"),
    [
        ("how much data did vans use since November 1st?", {"fleet": "vans"}, ("November 1st",)),
        ("how much data did vans use since November 1st?", {"start_time": "2026-11-01T00:00:00Z"}, ()),
        ("how much data did vans use today?", {"fleet": "vans"}, ()),
        ("usage of vans this month", {"fleet": "vans"}, ("this month",)),
        ("usage of vans by the end of the month", {"fleet": "vans"}, ("the end of the month",)),
        ("usage of vans last month", {"fleet": "month"}, ("last month",)),
        ('usage of the fleet "blue vans"', {}, ("blue vans",)),
        ("usage of the 3 fleets", {}, ()),
    ],
)
def test_a_plan_that_only_reads_leaves_values_out(query: str, arguments: dict[str, Any], left: tuple[str, ...]) -> None:
    assert values_left_out(query, NOW, plan(step("a", "list_usage", **arguments)), {USAGE.id: USAGE}) == left


def test_what_a_plan_that_changes_something_leaves_out_is_only_asked() -> None:
    query = 'Create a task "Call Ada" on list L-7'
    assert asked(query, created())
    assert values_left_out(query, NOW, created(), APIS) == ()


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Remove task T-5 tomorrow", ("tomorrow",)),
        ("Remove task T-5 at 5 pm on 3 December", ("5 pm on 3 December",)),
        ("Remove task T-5 today", ()),
        ("Remove task T-5, it is from 3 November 2026", ()),
    ],
)
def test_when_a_change_is_to_be_made_is_told_if_no_argument_takes_it(query: str, left: tuple[str, ...]) -> None:
    removed = plan(step("a", "remove_task", id="T-5"))
    assert asked(query, removed) == []
    assert values_left_out(query, NOW, removed, APIS) == left


@pytest.mark.parametrize("words", ["of last week", "from 3 November", "of yesterday"])
def test_a_moment_that_could_limit_a_change_is_asked_about(words: str) -> None:
    before = param("before", {"type": "string", "format": "date"}, about="Only logs before this day", at=Location.QUERY)
    purge = api("delete_logs", before, method="DELETE", path="/logs")
    asked_about = questions_about(f"Delete the logs {words}", NOW, plan(step("a", "delete_logs")), {purge.id: purge})
    assert [question.argument for question in asked_about] == ["before"]


def test_an_amount_after_a_code_is_asked_about() -> None:
    subject = plan(*(step(f"s{n}", "create_task", list_id=f"L-{n}", task={"name": "Buy"}) for n in (71, 72)))
    assert asked('add "Buy" to L-71 30 points and to L-72 50 points', subject)[:1] == ["task.points"]


@pytest.mark.parametrize("said", ["half of", "10% of", "a third of"])
def test_a_share_that_no_argument_has_is_asked_about(said: str) -> None:
    order = param("id", required=True, at=Location.PATH)
    refund = api(
        "refund", order, param("amount", {"type": "number"}, at=BODY), method="POST", path="/orders/{id}/refund"
    )
    subject = plan(step("a", "refund", id="A-12"))
    asked_about = questions_about(f"Refund {said} order A-12", NOW, subject, {refund.id: refund})
    assert [question.argument for question in asked_about] == ["amount"]


def test_an_amount_that_is_ten_times_the_number_of_calls_is_asked_about() -> None:
    subject = plan(*(step(f"s{n}", "create_task", list_id="L-7", task={"name": "Buy"}) for n in range(2)))
    assert asked('add "Buy" with 20 points to L-7, two times', subject) == ["task.points"]


def test_a_day_for_a_time_in_seconds_is_asked_about() -> None:
    before = param("before", WHOLE, about="Unix timestamp: only older logs are deleted")
    purge = api("delete_logs", before, method="DELETE", path="/logs")
    asked_about = questions_about(
        "Delete logs before 5 December", NOW, plan(step("a", "delete_logs")), {purge.id: purge}
    )
    assert [question.argument for question in asked_about] == ["before"]
