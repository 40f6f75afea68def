"""Whatever plan and whatever schemas come in: the compiler answers, and what it proves holds."""

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from planner_svc.compile import compile_plan
from planner_svc.proving.repair import repair
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    When,
    dependencies,
    step_references,
)
from services.contracts.planning import DiagnosticCode, Policy
from tests.unit.planner_svc.building import api, param, record

NAMES = st.sampled_from(["a", "b", "user_id", "code"])
IDS = ["s1", "s2", "s3", "s4"]
APIS = ["t.one", "t.two", "t.three"]
PATHS = st.lists(NAMES | st.integers(-1, 2), max_size=3).map(tuple)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, max_size=2),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "enum": st.lists(SCALARS, max_size=3),
            "allOf": st.lists(inner, max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#/$defs/C", "http://x/y"]),
            "format": st.sampled_from(["date", "uri", "odd"]),
            "pattern": st.sampled_from(["^a+$", "(", "(?=a)"]),
        },
    )


SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}) | JSON, keywords, max_leaves=5).filter(
    lambda s: isinstance(s, dict)
)


@st.composite
def apis(draw: st.DrawFn) -> list[Api]:
    definitions = {"A": draw(SCHEMAS), "B": draw(SCHEMAS)}
    parameters = st.builds(
        Parameter,
        name=NAMES,
        wire_name=st.just("w"),
        location=st.sampled_from(Location),
        required=st.booleans(),
        json_schema=SCHEMAS,
    )
    return [
        Api(
            id=name,
            provider="t",
            name=name[2:],
            method=draw(st.sampled_from(["GET", "POST"])),
            parameters=tuple(draw(st.lists(parameters, max_size=3))),
            response=ApiResponse(json_schema=draw(SCHEMAS)),
            definitions=definitions,
        )
        for name in APIS
    ]


VALUES: st.SearchStrategy[Value] = st.recursive(
    JSON.map(lambda v: LiteralValue(value=v))
    | st.builds(Reference, step=st.sampled_from(IDS), path=PATHS)
    | st.builds(ItemReference, path=PATHS),
    lambda inner: (
        st.builds(ListValue, items=st.lists(inner, max_size=2).map(tuple))
        | st.builds(ObjectValue, fields=st.dictionaries(NAMES, inner, max_size=2))
    ),
    max_leaves=3,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ids = draw(st.permutations(IDS))[: draw(st.integers(1, 4))]
    steps = [
        Step(
            id=step_id,
            api=draw(st.sampled_from([*APIS, "t.unknown"] if draw(st.integers(0, 9)) == 0 else APIS)),
            arguments=draw(st.dictionaries(NAMES, VALUES, max_size=2)),
            foreach=draw(st.none() | st.none() | st.builds(ForEach, items=VALUES)),
            when=draw(st.none() | st.none() | st.builds(When, left=VALUES, op=st.just("eq"), right=VALUES)),
            after=tuple(draw(st.lists(st.sampled_from(IDS), max_size=1))),
        )
        for step_id in ids
    ]
    answers = st.builds(
        AnswerOutput, name=st.just("x"), value=st.builds(Reference, step=st.sampled_from(ids), path=PATHS)
    )
    return Plan(steps=tuple(steps), answer=tuple(draw(st.lists(answers, max_size=1))))


ESTATE = [
    api("one", param("a"), param("b", {}), returns=record(code={"type": "string"}, a={"type": "integer"})),
    api("two", param("user_id", required=True), returns={"type": "array", "items": {"type": "string"}}),
    api("three", param("code", {"type": "array"}), returns={}),
]


@st.composite
def friendly(draw: st.DrawFn) -> Plan:
    """Plans of existing APIs with arguments they take and references that lead back: many of them compile."""
    steps: list[Step] = []
    for step_id in draw(st.permutations(IDS))[: draw(st.integers(1, 4))]:
        values: st.SearchStrategy[Value] = st.just(LiteralValue(value="x"))
        if steps:
            single = {"t.one": ("code",), "t.two": (0,), "t.three": ("anything",)}
            looped = [(0, *single[step.api]) if step.foreach else single[step.api] for step in steps]
            found = [Reference(step=step.id, path=path) for step, path in zip(steps, looped, strict=True)]
            values = st.sampled_from([*found, *found, Reference(step=steps[0].id), LiteralValue(value="x")])
        chosen = draw(st.sampled_from(ESTATE))
        names = [parameter.name for parameter in chosen.parameters if parameter.required or draw(st.booleans())]
        foreach = draw(st.sampled_from([None, None, None, ForEach(items=LiteralValue(value=["x"]))]))
        steps.append(Step(id=step_id, api=chosen.id, arguments={n: draw(values) for n in names}, foreach=foreach))
    answer = AnswerOutput(name="x", value=Reference(step=steps[-1].id))
    return Plan(steps=tuple(steps), answer=(answer,))


def check_soundness(plan: Plan, known: list[Api]) -> None:
    """What a proof says of a plan must be so."""
    response = compile_plan(plan, known, Policy(), None)
    errors = [d for d in response.diagnostics if d.severity == "error"]
    assert (response.compiled is None) == bool(errors)
    if response.compiled is None:
        return
    proved, proof = response.compiled.plan, response.compiled.proof
    event(f"compiled: {len(proved.steps)} steps, references: {any(map(dependencies, proved.steps))}")
    stage = {step_id: depth for depth, ids in enumerate(proof.stages) for step_id in ids}
    assert stage.keys() == {step.id for step in proved.steps}
    for index, step in enumerate(proved.steps):
        before = {earlier.id for earlier in proved.steps[:index]}
        assert dependencies(step) <= before
        assert all(stage[reference.step] < stage[step.id] for reference in step_references(step))
        # Of two parameters of one name the first counts; the other can neither be given nor asked for.
        first = {p.name: p for p in reversed(response.compiled.apis[step.api].parameters)}
        assert {name for name, parameter in first.items() if parameter.required} <= step.arguments.keys()
    assert all(output.value.step in stage for output in proved.answer)
    assert {step.id for step in proved.steps} - {step.id for step in plan.steps} == set(proof.inserted)
    again = compile_plan(proved, known, Policy(), None).compiled
    assert again is not None
    assert again.plan == proved


@given(plans(), apis())
def test_any_plan_is_proved_soundly_or_refused(plan: Plan, known: list[Api]) -> None:
    check_soundness(plan, known)


@given(friendly())
def test_plans_that_often_compile_are_proved_soundly(plan: Plan) -> None:
    check_soundness(plan, ESTATE)


@given(plans(), apis())
def test_repair_never_makes_a_plan_worse(plan: Plan, known: list[Api]) -> None:
    response = compile_plan(plan, known, Policy(), None)
    repaired = repair(plan, response.diagnostics)
    if repaired is not None:
        again = compile_plan(repaired, known, Policy(), None)
        codes = [diagnostic.code for diagnostic in again.diagnostics]
        before = [diagnostic.code for diagnostic in response.diagnostics]
        assert codes.count(DiagnosticCode.INVALID_LITERAL) <= before.count(DiagnosticCode.INVALID_LITERAL)
        assert DiagnosticCode.FORWARD_REFERENCE not in codes or DiagnosticCode.CYCLE in codes
