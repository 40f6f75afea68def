"""What a request states by name goes where the name says, whatever a planner made of it."""

import time
from typing import Any

import pytest

from planner_svc.reading.profile import read_profile
from planner_svc.reading.stated import stated, with_stated
from planner_svc.reading.text import MAX_CHARS
from services.compute import ComputePool
from services.contracts.api import Api, Location
from services.contracts.plan import ListValue, LiteralValue, Plan, Reference
from services.errors import DeadlineExceeded
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, plan, record, step

BODY = Location.BODY
LINE = {"type": "object", "required": ["sku"], "properties": {"sku": TEXT, "quantity": WHOLE, "note": TEXT}}
ORDER = api(
    "create_order",
    param("shop_id", required=True, at=Location.PATH),
    param("title", at=BODY),
    param("price", {"type": "number"}, at=BODY),
    param("gift", {"type": "boolean"}, at=BODY),
    param("priority", {"type": "string", "enum": ["low", "very high"]}, at=BODY),
    param("due", {"type": "string", "format": "date"}, at=BODY),
    param("tags", {"type": "array", "items": TEXT}, at=BODY),
    param("lines", {"type": "array", "items": LINE}, at=BODY),
    param("billing", record(city=TEXT, contact=record(fullName=TEXT)), at=BODY),
    param("shipping", record(city=TEXT), at=BODY),
    method="POST",
    path="/shops/{shop_id}/orders",
    summary="Create an order",
)
FIND = api("find_shop", param("query"), returns=record(id=TEXT), path="/shops")
APIS = {one.id: one for one in (ORDER, FIND)}


def said(query: str, subject: Api = ORDER) -> dict[str, Any]:
    return {".".join(map(str, one.path)): one.value for one in stated(query, read_profile(subject))}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('Create an order with title "Spring sale", price 12.50.', {"title": "Spring sale", "price": 12.5}),
        ('title: "A, and B"; price = 3', {"title": "A, and B", "price": 3}),
        ('set the title to "x" and the price to 7', {"title": "x", "price": 7}),
        ("Create an order: gift true, shop id S-9", {"gift": True, "shop_id": "S-9"}),
        ("priority very high, gift no", {"priority": "very high", "gift": False}),
        ('due "2024-05-17"', {"due": "2024-05-17"}),
        ('tags "a" and "b", title "c"', {"tags": ["a", "b"], "title": "c"}),
        ('billing city "Oslo", shipping city "Rome"', {"billing.city": "Oslo", "shipping.city": "Rome"}),
        ('billing.contact.fullName "Eva"', {"billing.contact.fullName": "Eva"}),
        ("contact full name “Eva”", {"billing.contact.fullName": "Eva"}),
        (
            'lines sku "a", lines quantity 2, lines sku "b", lines quantity 3',
            {"lines.0.sku": "a", "lines.0.quantity": 2, "lines.1.sku": "b", "lines.1.quantity": 3},
        ),
        ('lines[0].sku "a"', {"lines.0.sku": "a"}),
        ('lines {"sku": "a", "quantity": 2}, title "x"', {"lines": [{"sku": "a", "quantity": 2}], "title": "x"}),
        ('lines: [{"sku": "a"}, {"sku": "b"}]', {"lines": [{"sku": "a"}, {"sku": "b"}]}),
        ('tags ["a", "b"]', {"tags": ["a", "b"]}),
        (
            'billing {"city": "Oslo", "contact": {"fullName": "Eva"}}',
            {"billing": {"city": "Oslo", "contact": {"fullName": "Eva"}}},
        ),
        ("title BUYER_CANCEL and gift yes", {"title": "BUYER_CANCEL", "gift": True}),
    ],
)
def test_a_named_value_is_found_where_it_belongs(query: str, expected: dict[str, Any]) -> None:
    assert said(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        'city "Oslo"',  # of whom?
        'working title "x"',  # another title
        "price 12 euros",  # a unit is converted elsewhere
        "a price that is fair",
        'lines {"sku": 5}',  # not what the schema allows
        "price {NaN}, price [1e999], price {",
        'title [["' * 900,
        "price twelve-ish",
        'due "next Friday"',  # needs a clock
        'gift "maybe"',
        'title "a", title "b"',
        "price 1.2.3",
        "version 3",
        '"title" "x"',
    ],
)
def test_what_leaves_something_to_guess_is_not_taken(query: str) -> None:
    assert said(query) == {}


def test_a_name_that_is_said_again_is_the_next_arguments() -> None:
    both = api(
        "rename", param("id", required=True, at=Location.PATH), param("item", record(id=TEXT), at=BODY), method="PUT"
    )
    assert said('rename: id "1", item id "2"', both) == {"id": "1", "item.id": "2"}
    whole = api(
        "rename", param("id", required=True, at=Location.PATH), param("body", record(id=TEXT), at=BODY), method="PUT"
    )
    assert said('rename: id "1", id "2"', whole) == {"id": "1", "body.id": "2"}


def mended(query: str, subject: Plan) -> list[tuple[str, dict[str, Any]]]:
    result = with_stated(subject, query, APIS)
    return [
        (one.api.removeprefix("t."), {name: value.model_dump() for name, value in one.arguments.items()})
        for one in result.steps
    ]


def test_what_is_stated_replaces_what_was_drafted() -> None:
    drafted = plan(step("a", "create_order", shop_id="S-1", title="Spring", lines=[{"sku": "z"}]))
    ((_, arguments),) = mended('Create an order: title "Spring sale", lines quantity 2', drafted)
    assert arguments["title"]["value"] == "Spring sale"
    assert arguments["lines"]["value"] == [{"sku": "z", "quantity": 2}]
    assert arguments["shop_id"]["value"] == "S-1"


def test_what_is_stated_for_one_argument_is_no_other_ones_value() -> None:
    drafted = plan(
        step(
            "a",
            "create_order",
            shop_id="Oslo",
            title="Oslo",
            price=3,
            gift=True,
            lines=[{"sku": "Oslo"}],
            tags=["Oslo"],
        )
    )
    ((_, arguments),) = mended('Create an order: billing city "Oslo", price 3, gift true', drafted)
    assert set(arguments) == {"billing", "price", "gift"}
    ((_, arguments),) = mended('Create an order in "Oslo": billing city "Oslo"', drafted)
    assert arguments["title"]["value"] == "Oslo"


def test_objects_keep_what_is_theirs() -> None:
    drafted = plan(step("a", "create_order", shop_id="S", lines=[{"sku": "Oslo", "note": "3"}, {"sku": "b"}], tags=[]))
    ((_, arguments),) = mended('Create an order: billing city "Oslo", gift yes', drafted)
    assert arguments["lines"]["value"] == [{"note": "3"}, {"sku": "b"}]
    assert arguments["tags"]["value"] == []


def test_a_call_that_only_looked_it_up_is_left_out() -> None:
    drafted = plan(step("a", "find_shop", query="S-9"), step("b", "create_order", shop_id="$a.id$", title="x"))
    assert [name for name, _ in mended('Create an order: shop id "S-9", title "x"', drafted)] == ["create_order"]
    assert [name for name, _ in mended('Create an order: title "x"', drafted)] == ["find_shop", "create_order"]


def test_a_value_that_a_further_call_has_is_not_stated_for_this_one() -> None:
    rename = api("rename_order", param("title", at=BODY), method="PUT", summary="Rename an order")
    apis = APIS | {rename.id: rename}
    query = 'Create an order with title "Spring". Then rename it to "Summer".'
    subject = plan(step("a", "create_order", shop_id="s1", title="Spring"), step("b", "rename_order", title="Summer"))
    assert with_stated(subject, query, apis) == subject
    wrong = plan(step("a", "create_order", shop_id="s1", title="Summer"), step("b", "rename_order", title="Summer"))
    assert with_stated(wrong, query, apis).steps[0].arguments["title"] == LiteralValue(value="Spring")


def test_a_value_that_a_further_call_has_is_not_put_into_a_body_of_its_own() -> None:
    role = record(name=TEXT, description=TEXT)
    made = api("create_role", param("description", at=BODY), method="POST", returns=role)
    read = api("read_role", param("name"), returns=role)
    given = api("give_role", param("body", {"type": "array", "items": role}, at=BODY), method="POST")
    whole = ListValue(items=(Reference(step="b"),))
    steps = (step("a", "create_role", description="Pays."), step("b", "read_role", name="x"))
    subject = plan(*steps, step("c", "give_role", body=whole))
    apis = {one.id: one for one in (made, read, given)}
    assert with_stated(subject, 'Create a role with description "Pays." and give it to me', apis) == subject


@pytest.mark.parametrize(
    ("query", "kept"), [("Move all bins to yard 5", {}), ("Move all bins of yard 5", {"yard": "5"})]
)
def test_where_something_goes_is_not_where_it_is_found(query: str, kept: dict[str, str]) -> None:
    listing = api("list_bins", param("yard"), returns=record(id=TEXT), path="/bins")
    move = api("move_bin", param("id", at=Location.PATH), param("yard", at=BODY), method="PUT", path="/bins/{id}/yard")
    subject = plan(step("a", "list_bins"), step("b", "move_bin", id="$a.id$", yard="5"))
    listed = with_stated(subject, query, {one.id: one for one in (listing, move)}).steps[0]
    assert listed.arguments == {name: LiteralValue(value=value) for name, value in kept.items()}


STATUS = api(
    "update_order",
    param("id", at=Location.PATH),
    param("title", at=BODY),
    param("status", {"enum": ["open", "closed"]}, at=BODY),
    method="PATCH",
)


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("If order 9 has status open, set it to closed", {"id": "9", "status": "closed"}),
        ("Change it from status open to closed in order 9", {"id": "9", "status": "closed"}),
    ],
)
def test_another_listed_value_that_the_request_says_stays(query: str, arguments: dict[str, str]) -> None:
    subject = plan(step("a", "update_order", **dict[str, Any](arguments)))
    assert with_stated(subject, query, {STATUS.id: STATUS}) is subject


def test_a_value_that_the_request_states_for_another_argument_does_not_stay() -> None:
    swapped = plan(step("a", "update_order", id="9", title="closed", status="open"))
    result = with_stated(swapped, 'Update order 9: title "Spring", status closed', {STATUS.id: STATUS})
    assert result.steps[0].arguments == {
        "id": LiteralValue(value="9"),
        "title": LiteralValue(value="Spring"),
        "status": LiteralValue(value="closed"),
    }


def test_calls_that_nothing_tells_apart_are_left_alone() -> None:
    twice = plan(step("a", "create_order", shop_id="S", title="x"), step("b", "create_order", shop_id="S", title="y"))
    assert with_stated(twice, 'orders with title "z"', APIS) is twice


def test_hostile_requests_and_schemas_end() -> None:
    loop = {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/L"} for n in range(40)}}
    deep = ORDER.model_copy(
        update={"parameters": (param("p0", {"$ref": "#/$defs/L"}, at=BODY),), "definitions": {"L": loop}}
    )
    began = time.perf_counter()
    for query in ("p0 " * 20_000, '"' * 20_000, "title " * 5_000 + '"x"', "p0 p1 \ud800 5", "tags " + '"a", ' * 9_000):
        for subject in (ORDER, deep):
            assert len(stated(query, read_profile(subject))) <= MAX_CHARS
    assert time.perf_counter() - began < 60


def test_long_enumerations_are_not_compared_with_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand values, stated three hundred times, would keep the planner busy for half a minute."""
    choices = [f"value {number}" for number in range(1_000)]
    many = api("paint", param("color", {"type": "string", "enum": choices}))
    assert said("color is value 7", many) == {"color": "value 7"}
    asked: list[str] = []
    monkeypatch.setattr("planner_svc.reading.stated.readings", lambda _profile, _slot, text: asked.append(text))
    assert said("color is v1x, " * 280, many) == {}
    assert 0 < len(asked) <= 20


async def test_a_request_that_takes_long_to_read_ends_with_its_processor_time() -> None:
    """Each name with JSON costs two checks against a schema of a thousand ways, and may be said dozens of times."""
    either = {"anyOf": [{"$ref": "#/$defs/N"}, TEXT, {"oneOf": [{"$ref": "#/$defs/N"}, WHOLE]}]}
    tree = api("make_tree", param("tree", {"$ref": "#/$defs/N"}, at=BODY), method="POST")
    tree = tree.model_copy(update={"definitions": {"N": {"type": "object", "properties": {"c": either}}}})
    profile = read_profile(tree)
    nested = "tree " + '{"c":' * 8 + "1.5" + "}" * 8 + " "
    pool = ComputePool(1, 1, budget_s=0.02)
    with pytest.raises(DeadlineExceeded):
        await pool.run(stated, nested * 60, profile)
    await pool.close()
