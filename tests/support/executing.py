"""Short ways to write APIs, plans and proofs for tests of the executor, and to read results."""

from collections.abc import Mapping
from typing import Any

from executor_svc.models import CallResult
from services.contracts.api import (
    Api,
    ApiResponse,
    Location,
    Parameter,
    RequestBody,
    SecretKind,
    SecurityRequirement,
    Style,
)
from services.contracts.execution import ExecuteRequest
from services.contracts.outcome import Failed, Succeeded
from services.contracts.plan import (
    AnswerOutput,
    ItemReference,
    LiteralValue,
    Plan,
    Reference,
    Step,
    Value,
    content_hash,
)
from services.contracts.planning import CompiledPlan, Proof


def parameter(name: str, location: str = "query", style: str | None = None, explode: bool | None = None) -> Parameter:
    """A parameter; the default style is that of its location."""
    chosen = Style(style) if style else Style.FORM if location in ("query", "cookie") else Style.SIMPLE
    return Parameter(
        name=name,
        wire_name=name,
        location=Location(location),
        required=location == "path",
        style=chosen,
        explode=chosen is Style.FORM if explode is None else explode,
    )


def api(
    server: str,
    path: str = "/",
    *parameters: Parameter,
    method: str = "GET",
    body: RequestBody | None = None,
    name: str = "op",
    answers: str | None = "application/json",
    security: tuple[tuple[SecurityRequirement, ...], ...] = (),
    idempotency_header: str | None = None,
) -> Api:
    """An operation of provider `test`, with its content hash."""
    made = Api(
        id=f"test.{name}",
        provider="test",
        name=name,
        method=method,
        server=server,
        path=path,
        parameters=parameters,
        body=body,
        response=ApiResponse(media_type=answers),
        security=security,
        idempotency_header=idempotency_header,
    )
    return made.model_copy(update={"content_hash": content_hash(made.model_dump(mode="json"))})


def needs(kind: str, secret: str = "test.it", **more: Any) -> SecurityRequirement:
    """A credential that an API asks for."""
    return SecurityRequirement(scheme="it", kind=SecretKind(kind), secret=secret, **more)


def key_in(location: str, parameter: str = "X-Key", secret: str = "test.it") -> SecurityRequirement:
    """A key that an API asks for in this place."""
    return needs("api_key", secret, location=Location(location), parameter=parameter)


def literal(value: Any) -> LiteralValue:
    return LiteralValue(value=value)


def ref(step: str, *path: str | int) -> Reference:
    return Reference(step=step, path=path)


def item(*path: str | int) -> ItemReference:
    return ItemReference(path=path)


def step(step_id: str, called: Api | str, arguments: Mapping[str, Value] | None = None, **more: Any) -> Step:
    return Step(
        id=step_id, api=called if isinstance(called, str) else called.id, arguments=dict(arguments or {}), **more
    )


def compiled(apis: list[Api], *steps: Step, answer: dict[str, Reference] | None = None, **proof: Any) -> CompiledPlan:
    """A plan with a proof that fits it."""
    outputs = tuple(AnswerOutput(name=name, value=value) for name, value in (answer or {}).items())
    return CompiledPlan(
        plan=Plan(steps=steps, answer=outputs),
        apis={known.id: known for known in apis},
        proof=Proof(checks=1, api_hashes={known.id: known.content_hash for known in apis}, **proof),
    )


def request(plan: CompiledPlan, **more: Any) -> ExecuteRequest:
    return ExecuteRequest(run_id="run-1", compiled=plan, **more)


def value(result: CallResult) -> Any:
    """The value of a call that succeeded."""
    assert isinstance(result.outcome, Succeeded), result.outcome
    return result.outcome.value


def failed(result: CallResult, reason: str) -> Failed:
    """The outcome of a call that failed for this reason."""
    assert isinstance(result.outcome, Failed), result.outcome
    assert result.outcome.reason == reason, result.outcome
    return result.outcome
