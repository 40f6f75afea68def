"""Every diagnostic: a plan that gets it, with words and fixes that help, and a near miss that does not."""

from typing import Any

import pytest

from planner_svc.compile import MAX_LISTS
from planner_svc.proving.repair import repair
from services.contracts.api import Location
from services.contracts.plan import MAX_PATH, ItemReference, ListValue, LiteralValue, ObjectValue, Reference
from services.contracts.planning import CompileResponse, Decision, DiagnosticCode, Policy
from tests.unit.planner_svc.building import (
    TEXT,
    WHOLE,
    api,
    codes,
    listed,
    only,
    param,
    plan,
    prove,
    record,
    secret,
    step,
)

COUNTRY = record(code={"type": "string"}, name={"type": "string"}, area={"type": "number"}, tags={"type": "array"})
FIND = api("find", param("name"), returns=COUNTRY)
LIST = api("list", returns={"type": "array", "items": COUNTRY})
HOLIDAYS = api(
    "holidays", param("country", at=Location.PATH, required=True), param("year", WHOLE), returns={"type": "array"}
)
SAVE = api("save", param("text", at=Location.BODY), method="POST")
APIS = (FIND, LIST, HOLIDAYS)


def test_a_sound_plan_is_proved() -> None:
    subject = plan(step("a", "find", name="Portugal"), step("b", "holidays", country="$a.code$", year=2027))
    response = prove(subject, *APIS)
    assert response.diagnostics == ()
    assert response.compiled is not None
    proof = response.compiled.proof
    assert response.compiled.plan == subject
    assert proof.stages == (("a",), ("b",))
    assert proof.checks > 5
    assert proof.assumed == 0
    assert response.compiled.apis.keys() == proof.api_hashes.keys() == {"t.find", "t.holidays"}
    assert all(len(digest) == 64 for digest in proof.api_hashes.values())


def test_unknown_api() -> None:
    found = only(prove(plan(step("a", "fnd")), *APIS), DiagnosticCode.UNKNOWN_API)
    assert [fix.api for fix in found.fixes] == ["t.find"]
    assert codes(prove(plan(step("a", "find")), *APIS)) == set()


def test_unknown_argument() -> None:
    found = only(prove(plan(step("a", "find", nmae="x")), *APIS), DiagnosticCode.UNKNOWN_ARGUMENT)
    assert (found.step, found.argument) == ("a", "nmae")
    assert [fix.value for fix in found.fixes] == ["name"]
    assert codes(prove(plan(step("a", "find", name="x")), *APIS)) == set()


def test_missing_argument_becomes_a_question() -> None:
    rates = api(
        "rates",
        param("base", {"type": "string", "enum": ["EUR", "USD"]}, required=True, about="Currency to convert from."),
        summary="Exchange rates.",
    )
    response = prove(plan(step("a", "rates")), rates)
    only(response, DiagnosticCode.MISSING_ARGUMENT)
    (question,) = response.questions
    assert (question.step, question.api, question.argument) == ("a", "t.rates", "base")
    assert question.text == (
        "What should “base” be for “Exchange rates”? (Currency to convert from) Choose one of: EUR, USD."
    )
    assert question.json_schema["enum"] == ["EUR", "USD"]
    near = prove(plan(step("a", "rates", base="EUR")), rates)
    assert near.compiled is not None
    assert near.questions == ()


@pytest.mark.parametrize(
    ("schema", "wrong", "right", "fixes"),
    [
        (WHOLE, "5", 5, [5]),
        (WHOLE, 5.5, 5.0, []),
        (WHOLE, "five", 5, []),
        ({"type": "string"}, 5, "5", ["5"]),
        ({"type": "boolean"}, "True", True, [True]),
        ({"enum": ["EUR", "USD"]}, "eur ", "EUR", ["EUR"]),
        ({"type": "string", "format": "date"}, "2027-02-30", "2027-02-28", []),
        ({"type": "integer", "maximum": 10}, 11, 10, []),
        ({"type": "array", "items": WHOLE}, 3, [3], [[3]]),
        ({"type": "string", "pattern": "^[A-Z]{2}$"}, "PRT", "PT", []),
        ({"$ref": "#/$defs/Code"}, "PRT", "PT", []),
    ],
)
def test_invalid_literal(schema: dict[str, object], wrong: object, right: object, fixes: list[object]) -> None:
    definitions = {"Code": {"type": "string", "maxLength": 2}}
    subject = api("subject", param("x", schema), definitions=definitions)
    found = only(prove(plan(step("a", "subject", x=wrong)), subject), DiagnosticCode.INVALID_LITERAL)
    assert [fix.value for fix in found.fixes] == fixes
    assert codes(prove(plan(step("a", "subject", x=right)), subject)) == set()


def test_a_template_in_a_text_is_a_warning() -> None:
    mention = prove(plan(step("a", "find"), step("b", "find", name="in $a.code$ now", after=("a",))), *APIS)
    found = only(mention, DiagnosticCode.INVALID_LITERAL)
    assert (found.severity, found.step, found.argument) == ("warning", "b", "name")
    assert mention.compiled is not None
    assert codes(prove(plan(step("a", "find", name="for $100-$200, $b.code$")), *APIS)) == set()


def test_unknown_step() -> None:
    wrong = plan(step("first", "find"), step("b", "holidays", country="$frist.code$"), answer="$b$")
    found = prove(wrong, *APIS).diagnostics[0]
    assert found.code is DiagnosticCode.UNKNOWN_STEP
    assert [fix.value for fix in found.fixes] == ["first"]
    dangling = prove(plan(step("a", "find"), answer="$z$"), *APIS).diagnostics[0]
    assert (dangling.code, dangling.step, dangling.argument) == (DiagnosticCode.UNKNOWN_STEP, None, "answer 'answer'")
    assert only(prove(plan(step("a", "find", after=("z",))), *APIS), DiagnosticCode.UNKNOWN_STEP).argument == "after"


def test_unknown_field() -> None:
    wrong = plan(step("a", "find"), step("b", "holidays", country="$a.cod$"))
    found = only(prove(wrong, *APIS), DiagnosticCode.UNKNOWN_FIELD)
    assert found.fixes[0].value == ["code"]
    assert "code, name, area, tags" in found.message
    for path in ("code.x", "tags.-1"):
        other = plan(step("a", "find"), answer=f"$a.{path}$")
        assert only(prove(other, *APIS), DiagnosticCode.UNKNOWN_FIELD).fixes == ()
    assert codes(prove(plan(step("a", "find"), answer="$a.tags.0.anything$"), *APIS)) == set()


def test_type_mismatch() -> None:
    takes = api("takes", param("flag", {"type": "boolean"}), param("year", WHOLE))
    found = only(
        prove(plan(step("a", "find"), step("b", "takes", flag="$a.code$")), FIND, takes), DiagnosticCode.TYPE_MISMATCH
    )
    assert found.severity == "error"
    whole = prove(plan(step("a", "find"), step("b", "holidays", country="$a$")), *APIS)
    found = only(whole, DiagnosticCode.TYPE_MISMATCH)
    assert [fix.value for fix in found.fixes] == [["code"], ["name"], ["area"]]
    index = prove(plan(step("a", "find"), answer="$a.0$"), *APIS)
    assert only(index, DiagnosticCode.TYPE_MISMATCH).severity == "error"
    warned = prove(plan(step("a", "find"), step("b", "takes", year="$a.area$")), FIND, takes)
    assert only(warned, DiagnosticCode.TYPE_MISMATCH).severity == "warning"
    assert warned.compiled is not None


def test_list_for_single() -> None:
    through = plan(step("a", "list"), step("b", "holidays", country="$a.code$"))
    found = only(prove(through, *APIS), DiagnosticCode.LIST_FOR_SINGLE)
    assert found.fixes[1].value == [0, "code"]
    assert "foreach" in found.fixes[0].message
    direct = plan(step("a", "find"), step("b", "holidays", country="$a.tags$"))
    found = only(prove(direct, *APIS), DiagnosticCode.LIST_FOR_SINGLE)
    assert found.fixes[1].value == ["tags", 0]
    built = plan(step("a", "holidays", country=ListValue(items=(LiteralValue(value="PT"),))))
    only(prove(built, *APIS), DiagnosticCode.LIST_FOR_SINGLE)
    assert codes(prove(plan(step("a", "list"), step("b", "holidays", country="$a.0.code$")), *APIS)) == set()
    looped = plan(step("a", "list"), step("b", "holidays", foreach="$a$", country="$@.code$"))
    assert codes(prove(looped, *APIS)) == set()


def test_a_field_of_every_item_is_a_list() -> None:
    total = api("total", param("numbers", {"type": "array", "items": {"type": "number"}}))
    subject = plan(step("a", "list"), step("b", "total", numbers="$a.*.area$"), answer="$a.*.name$")
    response = prove(subject, LIST, total)
    assert codes(response) == {DiagnosticCode.UNUSED_STEP}
    assert response.compiled is not None
    assert response.compiled.proof.assumed == 0
    names = plan(step("a", "list"), step("b", "total", numbers="$a.*.name$"))
    only(prove(names, LIST, total), DiagnosticCode.TYPE_MISMATCH)
    single = plan(step("a", "list"), step("b", "holidays", country="$a.*.code$"))
    found = only(prove(single, *APIS), DiagnosticCode.LIST_FOR_SINGLE)
    assert found.message == "'a'[*].code does not fit: it is a list, and text is asked for"
    assert found.fixes[-1].value == [0, "code"]
    found = only(prove(plan(step("a", "list"), answer="$a.*.cod$"), *APIS), DiagnosticCode.UNKNOWN_FIELD)
    assert found.message == "the output of 'a'[*] has no field 'cod'; it has code, name, area, tags"
    found = only(prove(plan(step("a", "list"), answer="$a.name$"), *APIS), DiagnosticCode.LIST_FOR_SINGLE)
    assert found.fixes[-1].value == ["*", "name"]
    assert repair(plan(step("a", "list"), answer="$a.name$"), [found]) == plan(step("a", "list"), answer="$a.*.name$")
    only(prove(plan(step("a", "find"), answer="$a.*.name$"), *APIS), DiagnosticCode.UNKNOWN_FIELD)


def test_a_path_that_has_no_room_for_every_item_is_not_repaired() -> None:
    node: dict[str, Any] = TEXT
    for _ in range(MAX_PATH):
        node = record(a=node)
    deep = api("deep", returns=listed(node))
    subject = plan(step("a", "deep"), answer=f"$a{'.a' * MAX_PATH}$")
    assert repair(subject, [only(prove(subject, deep), DiagnosticCode.LIST_FOR_SINGLE)]) is None


def test_a_plan_takes_fields_of_every_item_a_hundred_times_at_most() -> None:
    total = api("total", param("numbers", {"type": "array", "items": {"type": "array"}}))
    for count, expected in ((MAX_LISTS, set()), (MAX_LISTS + 1, {DiagnosticCode.TOO_LARGE})):
        lists = ListValue(items=(Reference(step="a", path=("*", "area")),) * count)
        assert codes(prove(plan(step("a", "list"), step("b", "total", numbers=lists)), LIST, total)) == expected


def test_single_for_list() -> None:
    total = api("total", param("numbers", {"type": "array", "items": {"type": "number"}}))
    wrong = plan(step("a", "find"), step("b", "total", numbers="$a.area$"))
    found = only(prove(wrong, FIND, total), DiagnosticCode.SINGLE_FOR_LIST)
    assert "list of one" in found.fixes[0].message
    wrapped = ListValue(items=(Reference(step="a", path=("area",)),))
    assert codes(prove(plan(step("a", "find"), step("b", "total", numbers=wrapped)), FIND, total)) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        step("b", "find", name="$@.code$"),
        step("b", "find", foreach="$a.0$", name="x"),
        step("b", "find", foreach="$@$", name="x"),
        step("b", "find", foreach=ObjectValue(fields={}), name="x"),
        step("b", "find", foreach="text", name="x"),
    ],
)
def test_invalid_foreach(wrong: object) -> None:
    response = prove(plan(step("a", "list"), wrong), *APIS)  # type: ignore[arg-type]
    assert DiagnosticCode.INVALID_FOREACH in codes(response)
    assert response.compiled is None


def test_item_is_checked_against_what_the_loop_runs_over() -> None:
    over_literals = plan(step("b", "find", foreach=["PT", "ES"], name="$@$"))
    assert codes(prove(over_literals, *APIS)) == set()
    field = prove(plan(step("b", "find", foreach=[{"code": "PT"}], name="$@.name$")), *APIS)
    only(field, DiagnosticCode.UNKNOWN_FIELD)
    output = plan(step("a", "find", foreach=["PT"], name="$@$"), step("b", "holidays", country="$a.0.code$"))
    assert codes(prove(output, *APIS)) == set()
    whole = plan(step("a", "find", foreach=["PT"], name="$@$"), step("b", "holidays", country="$a.code$"))
    only(prove(whole, *APIS), DiagnosticCode.LIST_FOR_SINGLE)


def test_cycle() -> None:
    ring = plan(
        step("a", "find", name="$c.code$"),
        step("b", "find", name="$a.code$"),
        step("c", "find", name="$b.code$"),
        step("d", "find", name="$c.code$"),
    )
    found = only(prove(ring, *APIS), DiagnosticCode.CYCLE)
    assert found.message.startswith("a -> c -> b -> a: ")
    only(prove(plan(step("a", "find", name="$a.code$")), *APIS), DiagnosticCode.CYCLE)
    only(prove(plan(step("a", "find", after=("a",))), *APIS), DiagnosticCode.CYCLE)


def test_forward_reference() -> None:
    backwards = plan(step("b", "holidays", country="$a.code$"), step("a", "find"), answer="$b$")
    found = only(prove(backwards, *APIS), DiagnosticCode.FORWARD_REFERENCE)
    assert found.fixes[0].message == "List 'a' before 'b'."
    assert codes(prove(plan(*reversed(backwards.steps), answer="$b$"), *APIS)) == set()


def test_unused_step() -> None:
    idle = prove(plan(step("a", "find"), step("b", "find")), *APIS)
    assert only(idle, DiagnosticCode.UNUSED_STEP).step == "a"
    assert idle.compiled is not None
    assert codes(prove(plan(step("a", "find"), step("b", "find", after=("a",))), *APIS)) == set()
    allowed = Policy(mutating=Decision.ALLOW)
    mutating = plan(step("s", "save", text="x"), step("b", "find"))
    assert codes(prove(mutating, *APIS, SAVE, policy=allowed)) == set()


def test_missing_answer() -> None:
    found = only(prove(plan(step("a", "find"), answer=None), *APIS), DiagnosticCode.MISSING_ANSWER)
    assert found.fixes[0].value == "a"


def test_a_plan_waits_for_no_credential_and_says_what_it_lacks() -> None:
    locked = api("locked", security=((secret("key"), secret("pin")), (secret("odd"), secret("pin"))))
    subject = plan(step("a", "locked"), step("b", "locked", after=("a",)))
    answer = prove(subject, locked, credentials=("t.key",))
    (found,) = [d for d in answer.diagnostics if d.code is DiagnosticCode.MISSING_CREDENTIAL]
    assert (found.step, found.severity) == ("a", "warning")
    assert [fix.value for fix in found.fixes] == [["t.pin"], ["t.odd", "t.pin"]]
    assert "t.pin or t.odd and t.pin" in found.message
    assert answer.compiled is not None
    assert (answer.compiled.proof.missing, answer.compiled.proof.credentials) == (("t.pin",), ())
    proved = prove(subject, locked, credentials=("t.key", "t.pin")).compiled
    assert proved is not None
    assert (proved.proof.missing, proved.proof.credentials) == ((), ("t.key", "t.pin"))
    assert prove(subject, locked).compiled is not None


def test_any_alternative_of_credentials_will_do() -> None:
    either = api("either", security=((secret("one"),), (secret("two"),)))
    proved = prove(plan(step("a", "either")), either, credentials=("t.two",)).compiled
    assert proved is not None
    assert proved.proof.credentials == ("t.two",)
    anonymous = api("anonymous", security=((secret("one"),), ()))
    assert prove(plan(step("a", "anonymous")), anonymous, credentials=()).compiled is not None


def test_approval_required_does_not_block() -> None:
    response = prove(plan(step("a", "save", text="x")), SAVE)
    assert only(response, DiagnosticCode.APPROVAL_REQUIRED).severity == "warning"
    assert response.compiled is not None
    assert response.compiled.proof.approvals == response.compiled.proof.mutating == ("a",)
    trusted = prove(plan(step("a", "save", text="x")), SAVE, policy=Policy(allow=("t.*",)))
    assert trusted.diagnostics == ()
    assert trusted.compiled is not None
    assert trusted.compiled.proof.approvals == ()
    assert trusted.compiled.proof.mutating == ("a",)


def test_denied() -> None:
    subject = plan(step("a", "save", text="x"))
    only(prove(subject, SAVE, policy=Policy(mutating=Decision.DENY)), DiagnosticCode.DENIED)
    only(prove(subject, SAVE, policy=Policy(allow=("t.save",), deny=("*.save",))), DiagnosticCode.DENIED)
    only(prove(plan(step("a", "find")), *APIS, policy=Policy(deny=("t.f*",))), DiagnosticCode.DENIED)
    assert codes(prove(plan(step("a", "list")), *APIS, policy=Policy(deny=("t.f*",)))) == set()


def test_deprecated_api() -> None:
    old = api("old", deprecated=True)
    response = prove(plan(step("a", "old")), old)
    assert only(response, DiagnosticCode.DEPRECATED_API).severity == "warning"
    assert response.compiled is not None


def test_objects_built_from_values_are_checked_by_field() -> None:
    place = {
        **record(id={"type": "integer"}, note={"type": "string"}),
        "required": ["id"],
        "additionalProperties": False,
    }
    book = api("book", param("place", place, at=Location.BODY))
    sources = (step("a", "find"),)

    def built(**fields: object) -> set[tuple[DiagnosticCode, str | None]]:
        values = {n: v if isinstance(v, Reference) else LiteralValue(value=v) for n, v in fields.items()}
        response = prove(plan(*sources, step("b", "book", after=("a",), place=ObjectValue(fields=values))), FIND, book)
        return {(diagnostic.code, diagnostic.argument) for diagnostic in response.diagnostics}

    assert built(id=1, note="x") == set()
    assert built(note="x") == {(DiagnosticCode.MISSING_ARGUMENT, "place.id")}
    assert built(id=1, other=2) == {(DiagnosticCode.UNKNOWN_ARGUMENT, "place.other")}
    assert built(id="one") == {(DiagnosticCode.INVALID_LITERAL, "place.id")}
    assert built(id=Reference(step="a", path=("code",))) == {(DiagnosticCode.TYPE_MISMATCH, "place.id")}


def test_of_a_literal_object_or_list_the_part_is_named_that_is_wrong_or_missing() -> None:
    place = {**record(id={"type": "integer"}, note={"type": "string"}), "required": ["id"]}
    book = api("book", param("places", {"type": "array", "items": place}, at=Location.BODY))

    def given(*places: object) -> CompileResponse:
        return prove(plan(step("a", "book", places=list(places))), book)

    assert given({"id": 1}, {"id": 2, "note": "x"}).diagnostics == ()
    missing = given({"id": 1}, {"note": "x"})
    assert [question.argument for question in missing.questions] == ["places[1].id"]
    assert only(missing, DiagnosticCode.MISSING_ARGUMENT).argument == "places[1].id"
    assert only(given({"id": "one"}), DiagnosticCode.INVALID_LITERAL).argument == "places[0].id"


def test_a_literal_object_that_is_wrong_as_a_whole_is_said_so() -> None:
    either = {"type": "object", "minProperties": 2}
    subject = api("subject", param("x", either, at=Location.BODY))
    found = only(prove(plan(step("a", "subject", x={"id": 1})), subject), DiagnosticCode.INVALID_LITERAL)
    assert found.argument == "x"


def test_items_of_a_loop_are_checked_by_their_types() -> None:
    """Each use of an item is checked against each type that an item may have."""
    taken = ListValue(items=(ItemReference(path=("code",)),) * 400)
    save = api("save", param("text", {"type": "array"}, at=Location.BODY), method="POST")
    listed = ListValue(items=(Reference(step="a"), *(LiteralValue(value={"code": str(n)}) for n in range(400))))
    response = prove(
        plan(step("a", "find", name="Portugal"), step("b", "save", foreach=listed, text=taken)), FIND, save
    )
    assert response.compiled is not None
    assert response.compiled.proof.checks < 60_000
    other = ListValue(items=(*(LiteralValue(value={"code": "a"}),) * 50, LiteralValue(value={"name": "a"})))
    assert DiagnosticCode.UNKNOWN_FIELD in codes(prove(plan(step("b", "save", foreach=other, text=taken)), FIND, save))
