"""Of several items the one that matches the request's words is taken; where several match alike, it is said."""

from typing import Any

import pytest

from executor_svc.choosing import MAX_ITEMS, best, fields_of
from executor_svc.graph import Graph
from executor_svc.models import Call, CallResult, Limits
from executor_svc.references import Several, Unmatched, Unresolved, Use, chosen, resolve, walk
from executor_svc.runner import Run
from executor_svc.steps import Prepared, prepare
from services.contracts.base import JsonPath
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, ItemChoice, Succeeded, UnmatchedItem
from services.contracts.plan import ForEach, ListValue, Match, Reference, Step, When
from tests.support.executing import api, compiled, item, literal, parameter, ref, step
from tests.support.running import LIMITS, finish, no_value_store

GRACE: dict[str, Any] = {"id": "p1", "name": "Grace Hopper", "city": "Arlington"}
KELLY = {"id": "p2", "name": "Grace Kelly", "city": "Monaco"}
TWIN = {"id": "p3", "name": "Grace Hopper", "city": "New York"}


def to(*path: str | int, said: str = "Grace Hopper", words: tuple[str, ...] = ()) -> Reference:
    return Reference(step="var1", path=path, match=Match(said=(said,), words=words))


def found(reference: Reference, *items: Any) -> Any:
    return resolve(reference, {"var1": {"items": list(items)}})


@pytest.mark.parametrize(
    ("said", "words", "items", "best_ones"),
    [
        ("Grace Hopper", (), (KELLY, GRACE), [1]),
        ("grace HOPPER", (), (KELLY, GRACE), [1]),
        ("Grace", (), (KELLY, {"name": "Grace"}), [1]),  # its very name is before a name that has the word
        ("Hopper", (), (KELLY, GRACE), [1]),
        ("Köln", (), ({"name": "Bonn"}, {"name": "Koln"}), [1]),
        ("Grace", (), (KELLY, GRACE), [0, 1]),
        ("Grace", ("monaco",), (GRACE, KELLY), [1]),
        ("Grace Hopper", ("york",), (GRACE, TWIN), [1]),
        ("Grace Hopper", (), (GRACE, TWIN), [0, 1]),
        ("Nobody", ("monaco",), (GRACE, KELLY), []),  # other words alone do not say who is meant
        ("7", (), ({"n": 6}, {"n": 7}), [1]),
        ("x", (), ([], None, True, {}, "x"), [4]),
        ("x", (), (), []),
        ("Grace Hopper", (), ({"first": "Grace", "last": "Kelly"}, {"first": "Grace", "last": "Hopper"}), [1]),
        ("Grace van Hopper", (), ({"last": "van Hopper", "id": 3, "first": "Grace"}, {"last": "Hopper"}), [0]),
        ("Grace Hopper", (), ({"first": "Grace", "last": "Hopper-Kelly"},), []),  # only a part of a name
    ],
)
def test_the_best_match(said: str, words: tuple[str, ...], items: tuple[Any, ...], best_ones: list[int]) -> None:
    assert best(fields_of(items), Match(said=(said,), words=words)) == best_ones


def test_its_value_is_taken() -> None:
    assert found(to("items", 0, "id"), KELLY, GRACE) == "p1"
    assert found(to("items", 0, "city"), KELLY, GRACE) == "Arlington"


@pytest.mark.parametrize(
    ("use", "items", "taken"),
    [
        ("change", (KELLY,), None),  # a change is never made with an item of another name, not even with the only one
        ("change", (KELLY, GRACE), None),
        ("read", (KELLY, GRACE), None),
        ("read", (KELLY,), "p2"),  # the search returned this one for these words
        ("read", (KELLY, KELLY | {"city": "Paris"}), "p2"),
        ("shown", (KELLY, GRACE), "p2"),
    ],
)
def test_where_nothing_matches(use: Use, items: tuple[Any, ...], taken: str | None) -> None:
    reference, outputs = to("items", 0, "id", said="Nobody"), {"var1": {"items": list(items)}}
    if taken is not None:
        path = chosen(outputs["var1"], reference, use)  # type: ignore[arg-type]
        assert walk(outputs["var1"], path, "") == taken  # type: ignore[arg-type]
        return
    with pytest.raises(Unmatched, match="no item of items of var1 matches “Nobody”") as error:
        chosen(outputs["var1"], reference, use)  # type: ignore[arg-type]
    assert [value for value, _ in error.value.choices] == [item["id"] for item in items]


@pytest.mark.parametrize(
    ("use", "items", "taken"),
    [
        ("change", (KELLY, GRACE), None),
        ("change", (KELLY,), "p2"),
        ("change", (KELLY, KELLY | {"city": "Paris"}), "p2"),
        ("read", (KELLY, GRACE), "p2"),
        ("shown", (KELLY, GRACE), "p2"),
    ],
)
def test_where_no_word_says_which(use: Use, items: tuple[Any, ...], taken: str | None) -> None:
    reference = Reference(step="var1", path=("items", 0, "id"), match=Match(said=(), words=("arlington",)))
    outputs: dict[str, Any] = {"var1": {"items": list(items)}}
    if taken is not None:
        assert resolve(reference, outputs, use=use) == taken
        return
    with pytest.raises(Several, match="several items of items of var1 match equally well") as error:
        resolve(reference, outputs, use=use)
    assert [value for value, _ in error.value.choices] == ["p2", "p1"]
    answered = reference.model_copy(update={"match": Match(said=(), given="p1")})
    assert resolve(answered, outputs, use=use) == "p1"


def test_a_value_is_for_a_change_unless_it_is_said_to_be_for_a_read() -> None:
    reference = to("items", 0, "id", said="Nobody")
    with pytest.raises(Unmatched):
        found(reference, KELLY)
    asking = step("var2", api("http://x.example", "/a"), {"person": reference})
    outputs: Any = {"var1": {"items": [KELLY]}}
    limits = Limits(run_s=1, step_s=1, items=10)
    failed = prepare(asking, api("http://x.example", "/a"), outputs, limits)
    assert isinstance(failed, Failed)
    assert (failed.reason, [choice.value for choice in failed.choices]) == ("unmatched", ["p2"])
    read = prepare(asking, api("http://x.example", "/a"), outputs, limits, use="read")
    assert isinstance(read, Prepared)
    assert read.arguments == ({"person": "p2"},)


@pytest.mark.parametrize(
    ("pick", "use", "items", "taken"),
    [
        ("any", "read", (KELLY, GRACE), "p2"),
        ("extreme", "read", (KELLY, GRACE), "p2"),
        ("any", "change", (KELLY, GRACE, TWIN), "p1"),
        ("extreme", "change", (KELLY, GRACE, TWIN), None),
        ("extreme", "change", (KELLY, GRACE), "p1"),
        ("any", "change", (KELLY,), None),
        ("extreme", "change", (KELLY,), None),
    ],
)
def test_any_or_an_extreme_one(pick: Any, use: Use, items: tuple[Any, ...], taken: str | None) -> None:
    match = Match(said=("Grace Hopper",), pick=pick)
    reference, output = Reference(step="var1", path=(0, "id"), match=match), list(items)
    if taken is not None:
        assert walk(output, chosen(output, reference, use), "") == taken
        return
    with pytest.raises(Several):
        chosen(output, reference, use)


def test_a_given_value_counts_like_the_name() -> None:
    def of(given: Any, *items: Any) -> JsonPath:
        reference = Reference(step="var1", path=(0, "id"), match=Match(said=("Grace Hopper",), given=given))
        return chosen(list(items), reference, "change")

    assert of("p2", KELLY) == (0, "id")
    assert of("p3", GRACE, TWIN) == (1, "id")
    assert of("p9", KELLY, GRACE) == (1, "id")
    with pytest.raises(Unmatched):
        of("p9", KELLY)
    with pytest.raises(Unmatched):  # only the value itself counts, not a text that contains it
        of("Monaco", KELLY)
    with pytest.raises(Unmatched):
        of(1, {"id": True})
    with pytest.raises(Several):  # an application may give a value of its own for every request
        of("p2", KELLY, GRACE)


@pytest.mark.parametrize(("held", "given"), [(502, "502"), ("502", 502), (502, 502)])
def test_a_given_number_may_be_a_text(held: Any, given: Any) -> None:
    items: list[Any] = [{"id": 501, "name": "Hopper"}, {"id": held, "name": "Hopper"}]
    reference = Reference(step="var1", path=(0, "id"), match=Match(said=("Hopper",), given=given))
    assert chosen(items, reference, "change") == (1, "id")


LIST = api("http://x", "/", parameter("name"), name="find")
ONE = api("http://x", "/", parameter("person"), name="getPerson")
DELETE = api("http://x", "/", parameter("person"), name="delete", method="DELETE")


@pytest.mark.parametrize("through", [False, True])
async def test_nothing_is_deleted_that_does_not_match(through: bool) -> None:
    """Neither directly, nor through a read of the item's details."""
    called: list[str] = []

    async def people(call: Call) -> Any:
        called.append(call.api.name)
        return {"items": [KELLY]} if call.api is LIST else KELLY

    person = to("items", 0, "id")
    reads = [step("var1", LIST, {"name": literal("Grace Hopper")}), step("var2", ONE, {"person": person})]
    last = step("var3", DELETE, {"person": ref("var2", "id") if through else person})
    finished = await finish(compiled([LIST, ONE, DELETE], *reads, last, mutating=("var3",)), people)
    assert finished.status == "failed"
    assert "delete" not in called
    assert called == (["find"] if through else ["find", "getPerson"])
    reading = await finish(compiled([LIST, ONE], *reads, answer={"city": to("items", 0, "city")}), people)
    assert reading.status == "succeeded"
    assert reading.unmatched == (UnmatchedItem(said="“Grace Hopper”", label="p2, Grace Kelly, Monaco"),)
    assert finished.unmatched == (() if through else reading.unmatched)


MISS = {"id": "p3", "name": "Grace Hopper Smith", "city": "Rome"}
GIVEN = Reference(step="var1", path=("items", 0, "id"), match=Match(said=("Grace Hopper",), given="p3"))


async def with_list(items: list[Any], *steps: Step, more: bool, answer: Reference | None = None) -> ExecutionFinished:
    """The result of steps after a search with these results."""

    class People:
        async def call(self, call: Call) -> CallResult:
            value = {"items": items} if call.api is LIST else GRACE
            return CallResult(Succeeded(value=value, status=200), None, 1, more=more and call.api is LIST)

    plan = compiled(
        [LIST, ONE, DELETE],
        step("var1", LIST, {"name": literal("Grace Hopper")}),
        *steps,
        answer={"city": answer or ref("var1", "items", 0, "city")},
        mutating=tuple(one.id for one in steps if one.api == DELETE.id),
    )
    run = Run(plan, Graph(plan.plan), People(), "run-1", LIMITS, no_value_store())
    *_, last = [event async for event in run.events()]
    assert isinstance(last, ExecutionFinished)
    return last


@pytest.mark.parametrize(
    ("items", "more", "person", "sure"),
    [
        ([MISS], True, to("items", 0, "id"), False),
        ([MISS, *[KELLY] * MAX_ITEMS], False, to("items", 0, "id"), False),
        ([MISS], False, to("items", 0, "id"), True),
        ([MISS], True, GIVEN, True),
    ],
)
async def test_an_item_that_matches_in_part_is_not_sure_if_the_list_goes_on(
    items: list[Any], more: bool, person: Reference, sure: bool
) -> None:
    """A read uses it, and it is said. A change does not, nor does a read that leads to one."""
    partly = UnmatchedItem(said="“Grace Hopper”", label="p3, Grace Hopper Smith, Rome", unread=True)
    said = () if sure else (partly,)
    read = step("var2", ONE, {"person": person})
    reading = await with_list(items, read, more=more, answer=ref("var2", "city"))
    assert (reading.status, reading.unmatched) == ("succeeded", said)
    showing = await with_list(items, more=more, answer=person)
    assert (showing.status, showing.unmatched) == ("succeeded", said)
    through = [read, step("var3", DELETE, {"person": ref("var2", "id")})]
    for steps in ([step("var3", DELETE, {"person": person})], through):
        changing = await with_list(items, *steps, more=more)
        assert changing.status == ("succeeded" if sure else "failed")
        if not sure:
            outcome = changing.records[1].outcome
            assert isinstance(outcome, Failed)
            choice = ItemChoice(argument="person", value="p3", label="p3, Grace Hopper Smith, Rome")
            assert (outcome.reason, outcome.choices) == ("ambiguous", (choice,))


EXTREME = Reference(step="var1", path=("items", 0, "id"), match=Match(said=("Grace Hopper",), pick="extreme"))
ANY = Reference(step="var1", path=("items", 0, "id"), match=Match(said=("Grace Hopper",), pick="any"))


@pytest.mark.parametrize(
    ("items", "person", "more", "unread", "asked"),
    [
        ([KELLY, GRACE], to("items", 0, "id"), True, None, ["p1"]),  # the next page may have a namesake
        ([KELLY, GRACE], to("items", 0, "id"), False, None, []),
        ([KELLY, GRACE], ANY, True, None, []),
        ([KELLY, GRACE], EXTREME, True, "p2, Grace Kelly, Monaco", ["p1"]),
        ([KELLY, GRACE], EXTREME, False, None, []),
        ([GRACE, TWIN], to("items", 0, "id", words=("york",)), True, None, ["p1", "p3"]),
    ],
)
async def test_of_a_list_that_goes_on_a_change_uses_no_item_by_its_name(
    items: list[Any], person: Reference, more: bool, unread: str | None, asked: list[str]
) -> None:
    reading = await with_list(items, step("var2", ONE, {"person": person}), more=more)
    said = () if unread is None else (UnmatchedItem(said="“Grace Hopper”", label=unread, unread=True),)
    assert (reading.status, reading.unmatched) == ("succeeded", said)
    changing = await with_list(items, step("var2", DELETE, {"person": person}), more=more)
    outcome = changing.records[1].outcome
    choices = outcome.choices if isinstance(outcome, Failed) else ()
    assert (changing.status, [one.value for one in choices]) == ("failed" if asked else "succeeded", asked)


@pytest.mark.parametrize("more", [True, False])
async def test_a_change_neither_repeats_nor_depends_on_an_item_of_a_list_that_goes_on(more: bool) -> None:
    miss = MISS | {"orders": [{"id": "o1"}, {"id": "o2"}]}
    each = step("var2", DELETE, {"person": item("id")}, foreach=ForEach(items=to("items", 0, "orders")))
    rome = When(left=to("items", 0, "city"), op="eq", right=literal("Rome"))
    there = When(left=ListValue(items=(to("items", 0, "city"),)), op="exists")
    deletes = [step("var2", DELETE, {"person": literal("p3")}, when=when) for when in (rome, there)]
    for one in (each, *deletes):
        changing = await with_list([miss], one, more=more)
        assert changing.status == ("failed" if more else "succeeded")
        if more:
            outcome = changing.records[1].outcome
            assert isinstance(outcome, Failed)
            assert (outcome.reason, [choice.argument for choice in outcome.choices]) == ("ambiguous", ["for each"])


def test_items_without_the_value_are_no_choices() -> None:
    with pytest.raises(Unmatched) as error:
        found(to("items", 0, "id", said="Nobody"), {"name": "x"}, KELLY)
    assert [value for value, _ in error.value.choices] == ["p2"]
    with pytest.raises(Unresolved, match=r"has no items\[0\].id"):
        found(to("items", 0, "id", said="Nobody"), {"name": "x"})


def test_those_that_match_alike_with_one_value_are_one() -> None:
    assert found(to("items", 0, "name"), KELLY, GRACE, TWIN) == "Grace Hopper"


def test_those_that_match_alike_with_several_values_are_told() -> None:
    with pytest.raises(Several) as error:
        found(to("items", 0, "id"), KELLY, GRACE, TWIN)
    assert error.value.choices == [("p1", "p1, Grace Hopper, Arlington"), ("p3", "p3, Grace Hopper, New York")]


def test_what_is_only_told_takes_the_first_of_them() -> None:
    output = {"items": [KELLY, GRACE, TWIN]}
    assert chosen(output, to("items", 0, "id"), "shown") == ("items", 1, "id")  # type: ignore[arg-type]


@pytest.mark.parametrize("output", [{"items": []}, {"items": None}, {}, None, {"items": {"0": GRACE}}])
def test_no_list_no_choice(output: Any) -> None:
    with pytest.raises(Unresolved, match=r"has no items\[0\].id"):
        resolve(to("items", 0, "id"), {"var1": output})


def test_a_step_says_between_what_it_cannot_choose() -> None:
    asking = step("var2", api("http://x.example", "/a", name="getAgenda"), {"person": to("items", 0, "id")})
    outputs: Any = {"var1": {"items": [GRACE, TWIN]}}
    failed = prepare(asking, api("http://x.example", "/a"), outputs, Limits(run_s=1, step_s=1, items=10))
    assert isinstance(failed, Failed)
    assert failed.reason == "ambiguous"
    assert failed.choices == (
        ItemChoice(argument="person", value="p1", label="p1, Grace Hopper, Arlington"),
        ItemChoice(argument="person", value="p3", label="p3, Grace Hopper, New York"),
    )


CHOSEN_BY_WORDS: dict[str, Any] = {"id": "p4", "name": "Grace Hopper", "note": "send invoice email contact"}


@pytest.mark.parametrize(
    ("said", "items"), [("Grace Hopper", (GRACE, CHOSEN_BY_WORDS)), ("Grace", (KELLY, CHOSEN_BY_WORDS))]
)
def test_other_words_choose_no_item_of_a_change(said: str, items: tuple[Any, ...]) -> None:
    reference = to("items", 0, "id", said=said, words=("send", "invoice", "email"))
    output: Any = {"items": list(items)}
    assert chosen(output, reference, "read") == ("items", 1, "id")
    with pytest.raises(Several):
        chosen(output, reference, "change")


def test_other_words_choose_for_a_change_where_any_item_will_do() -> None:
    match = Match(said=("Grace Hopper",), words=("york",), pick="any")
    output: Any = [GRACE, TWIN]
    assert chosen(output, Reference(step="var1", path=(0, "id"), match=match), "change") == (1, "id")


@pytest.mark.parametrize("name", ["Grace Hopper", "Hopper (fan of Grace)"])
def test_no_change_is_made_with_the_best_of_a_list_that_goes_on(name: str) -> None:
    first = {"id": "p9", "name": name}
    output: Any = {"items": [first, *({"name": "nobody"} for _ in range(MAX_ITEMS)), GRACE]}
    reference = to("items", 0, "id")
    assert walk(output, chosen(output, reference, "read"), "") == "p9"
    with pytest.raises(Several, match="more than the 200 items") as error:
        chosen(output, reference, "change")
    assert [value for value, _ in error.value.choices] == ["p9"]
    given = Reference(step="var1", path=("items", 0, "id"), match=Match(said=("Grace Hopper",), given="p9"))
    assert walk(output, chosen(output, given, "change"), "") == "p9"


@pytest.mark.parametrize(("changes", "wanted"), [(True, MAX_ITEMS + 1), (False, 1)])
async def test_further_pages_are_compared_for_a_change(changes: bool, wanted: int) -> None:
    asked: list[int | None] = []

    async def people(call: Call) -> Any:
        asked.append(call.items)
        return {"items": [GRACE]} if call.api is LIST else GRACE

    last = DELETE if changes else ONE
    steps = [
        step("var1", LIST, {"name": literal("Grace Hopper")}),
        step("var2", last, {"person": to("items", 0, "id")}),
    ]
    mutating = ("var2",) if changes else ()
    finished = await finish(compiled([LIST, last], *steps, answer={"id": ref("var2", "id")}, mutating=mutating), people)
    assert (finished.status, asked[0]) == ("succeeded", wanted)


def test_choices_are_few_and_short() -> None:
    items = [{"id": n, "name": "Grace Hopper", "more": "x" * 10_000} for n in range(5_000)]
    with pytest.raises(Several) as error:
        found(to("items", 0, "id"), *items)
    assert len(error.value.choices) == 10
    assert all(len(label) <= 200 for _, label in error.value.choices)


def test_only_the_beginning_of_an_answer_is_compared() -> None:
    match = Match(said=("Grace Hopper",))
    many: list[Any] = [{"name": "x"}] * MAX_ITEMS
    wide: Any = {f"k{n}": "x" for n in range(1_000)} | GRACE
    assert best(fields_of([*many, GRACE]), match) == []
    assert best(fields_of([wide]), match) == []
    deep: Any = "Grace Hopper"
    for _ in range(90):
        deep = [deep]
    assert best(fields_of([deep, "x" * 1_000 + " Grace Hopper"]), match) == []


def test_signs_alone_match_nothing() -> None:
    with pytest.raises(Unmatched):
        found(to("items", 0, "id", said="!!!"), {"id": "p1", "name": "???"}, {"id": "p2", "name": ""})


def test_no_change_is_made_with_an_item_beyond_those_that_are_compared() -> None:
    with pytest.raises(Unmatched):
        found(to("items", MAX_ITEMS, "id"), *({"name": "nobody"} for _ in range(MAX_ITEMS)), KELLY)
