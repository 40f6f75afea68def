"""Large plans, APIs and documents: what is too large, and that no answer repeats it."""

import tracemalloc

from services.contracts.api import Location
from services.contracts.plan import ListValue, Reference
from services.contracts.planning import DiagnosticCode
from tests.unit.planner_svc.building import (
    TEXT,
    api,
    codes,
    only,
    param,
    plan,
    prove,
    record,
    step,
)


def test_a_plan_of_many_large_apis_is_too_large() -> None:
    """Each run holds its plan's APIs in memory: 50 of 200 kB made a run of 115 MB."""
    wide = record(**{f"field{number:06}": TEXT for number in range(8_500)})
    large = [api(f"large{number}", param("x"), returns=wide) for number in range(8)]
    assert 2_000_000 < sum(len(one.model_dump_json()) for one in large) < 2_300_000
    steps = [step(f"s{number}", one.name) for number, one in enumerate(large)]
    assert codes(prove(plan(*steps), *large)) == {DiagnosticCode.TOO_LARGE}
    again = [step(f"again{number}", "large0") for number in range(8)]
    assert prove(plan(*steps[:7], *again), *large).compiled is not None  # candidates, and further calls, take no more


def test_an_implicit_call_makes_no_plan_too_large() -> None:
    fields = {f"field{number:06}": TEXT for number in range(8_500)}
    large = [api(f"large{number}", returns=record(**fields)) for number in range(7)]
    needs = api("sunrise", param("latitude", required=True), param("iata"))
    finds = api("getAirport", param("iata", required=True), returns=record(latitude=TEXT, **fields))
    gap = plan(*[step(f"s{number}", one.name) for number, one in enumerate(large)], step("last", "sunrise", iata="LIS"))
    assert prove(gap, *large, needs.model_copy(update={"parameters": needs.parameters[1:]})).compiled is not None
    response = prove(gap, *large, finds, needs)
    assert (response.compiled, DiagnosticCode.TOO_LARGE in codes(response)) == (None, True)


def test_too_large() -> None:
    deep: object = "x"
    for _ in range(70):
        deep = [deep]
    subject = api("subject", param("x", {"type": "array"}, at=Location.BODY))
    only(prove(plan(step("a", "subject", x=deep)), subject), DiagnosticCode.TOO_LARGE)
    only(prove(plan(step("a", "subject", x=[0] * 200_000)), subject), DiagnosticCode.TOO_LARGE)
    assert codes(prove(plan(step("a", "subject", x=[0] * 1_000)), subject)) == set()


def test_a_member_with_a_name_of_a_megabyte_is_not_repeated_for_each_mistake_inside_it() -> None:
    items = {"type": "array", "items": {"type": "object", "required": ["one", "two"]}}
    fill = api(
        "fill", param("text", {"type": "object", "additionalProperties": items}, at=Location.BODY), method="POST"
    )
    name = "n" * 100_000
    tracemalloc.start()
    try:
        response = prove(plan(step("a", "fill", text={name: [{"other": 1}] * 1_000})), fill)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # it took 200 MB
    finally:
        tracemalloc.stop()
    assert DiagnosticCode.MISSING_ARGUMENT in codes(response)
    assert response.questions == ()
    assert len(response.model_dump_json()) < 500_000
    many = {name: ListValue(items=(Reference(step="zz"),) * 100)}
    unknown = prove(plan(step("a", "fil").model_copy(update={"arguments": many})), fill)
    assert len(unknown.model_dump_json()) < 500_000


def test_long_names_of_a_document_are_cut_where_they_are_told() -> None:
    """A document may have names of megabytes, and a plan meet each of them a thousand times."""
    named = {"n" * 100_000 + str(number): TEXT for number in range(10)}
    find = api("find", returns=record(**named))
    many = ListValue(items=(Reference(step="a", path=("code",)),) * 300)
    save = api("save", param("text", {"type": "array"}, at=Location.BODY), method="POST")
    response = prove(plan(step("a", "find"), step("b", "save", text=many)), find, save)
    assert codes(response) == {DiagnosticCode.UNKNOWN_FIELD}
    assert "it has nnn" in response.diagnostics[0].message
    assert len(response.model_dump_json()) < 1_000_000


def test_places_of_types_that_are_compared_take_little_room() -> None:
    inner = record(**{f"r{number}": TEXT for number in range(1_000)})
    long = "n" * 100_000
    outer = record(**{long: inner | {"required": list(inner["properties"])}}) | {"required": [long]}
    find, save = api("find", returns=outer), api("save", param("text", outer, at=Location.BODY), method="POST")
    tracemalloc.start()
    try:
        response = prove(plan(step("a", "find"), step("b", "save", text="$a$")), find, save)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # it took 100 MB
    finally:
        tracemalloc.stop()
    assert response.compiled is not None


def test_questions_include_no_schema_of_megabytes() -> None:
    """A plan may lack the same argument in fifty steps."""
    listed = {"type": "string", "enum": ["x" * 1_000 + str(number) for number in range(200)]}
    small = api("small", param("text", {"type": "string", "enum": ["a", "b"]}, required=True))
    large = api("large", param("text", listed, required=True))
    (asked,) = prove(plan(step("a", "small")), small).questions
    assert asked.json_schema == {"type": "string", "enum": ["a", "b"]}
    response = prove(plan(*(step(f"a{number}", "large") for number in range(50))), large)
    assert [one.json_schema for one in response.questions] == [{}] * 50
    assert len(response.model_dump_json()) < 500_000
