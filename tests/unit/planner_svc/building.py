"""A small estate of APIs, and short words to build plans for it."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from planner_svc.compile import compile_plan
from services.contracts.api import Api, ApiResponse, Location, Parameter, SecretKind, SecurityRequirement
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
)
from services.contracts.planning import CompileResponse, Diagnostic, DiagnosticCode, Policy
from services.errors import DeadlineExceeded

TEXT: dict[str, JsonValue] = {"type": "string"}
WHOLE: dict[str, JsonValue] = {"type": "integer"}


def param(
    name: str,
    schema: Mapping[str, Any] | None = None,
    *,
    required: bool = False,
    at: Location = Location.QUERY,
    about: str = "",
) -> Parameter:
    return Parameter(
        name=name, wire_name=name, location=at, required=required, description=about, json_schema=dict(schema or TEXT)
    )


def api(name: str, *parameters: Parameter, returns: Mapping[str, Any] | None = None, **more: Any) -> Api:
    return Api(
        id=f"t.{name}",
        provider="t",
        name=name,
        parameters=parameters,
        response=ApiResponse(json_schema=dict(returns or {})),
        **more,
    )


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(item: Mapping[str, Any]) -> dict[str, Any]:
    """A list of these."""
    return {"type": "array", "items": dict(item)}


def secret(name: str, kind: SecretKind = SecretKind.BEARER) -> SecurityRequirement:
    return SecurityRequirement(scheme=name, kind=kind, secret=f"t.{name}")


def value(raw: Any) -> Value:
    """``"$a.b.0$"`` is a reference, ``"$@.b$"`` the item of a loop, a set of one a list, anything else a literal."""
    if isinstance(raw, LiteralValue | Reference | ItemReference | ListValue | ObjectValue):
        return raw
    if isinstance(raw, str) and len(raw) > 2 and raw[0] == raw[-1] == "$":
        head, *rest = raw[1:-1].split(".")
        path = tuple(int(part) if part.lstrip("-").isdigit() else part for part in rest)
        return ItemReference(path=path) if head == "@" else Reference(step=head, path=path)
    return LiteralValue(value=raw)


def step(
    step_id: str,
    called: str,
    /,
    *,
    foreach: Any = None,
    when: Any = None,
    after: tuple[str, ...] = (),
    **arguments: Any,
) -> Step:
    return Step(
        id=step_id,
        api=f"t.{called}",
        arguments={key: value(raw) for key, raw in arguments.items()},
        foreach=None if foreach is None else ForEach(items=value(foreach)),
        when=None if when is None else When(left=value(when), op="exists"),
        after=after,
    )


def plan(*steps: Step, answer: Any = ...) -> Plan:
    """The steps, answered by the whole output of the last one unless told otherwise."""
    reference = value(f"${steps[-1].id}$" if answer is ... else answer) if answer is not None else None
    outputs = (AnswerOutput(name="answer", value=reference),) if isinstance(reference, Reference) else ()
    return Plan(steps=steps, answer=outputs)


def prove(
    subject: Plan, *apis: Api, policy: Policy | None = None, credentials: tuple[str, ...] | None = None
) -> CompileResponse:
    return compile_plan(subject, apis, policy or Policy(), credentials)


def codes(response: CompileResponse) -> set[DiagnosticCode]:
    return {diagnostic.code for diagnostic in response.diagnostics}


def only(response: CompileResponse, code: DiagnosticCode) -> Diagnostic:
    """The one diagnostic there is."""
    assert [diagnostic.code for diagnostic in response.diagnostics] == [code], response.diagnostics
    return response.diagnostics[0]


def used_up() -> None:
    """A checkpoint after the budget's end."""
    raise DeadlineExceeded("It takes more than 3 s of processor time.")
