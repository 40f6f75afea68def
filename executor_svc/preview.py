"""Which requests a plan would send, before it is run."""

import asyncio

from pydantic import JsonValue

from executor_svc.models import Call, Previewer, Unpreviewable
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Reference, Step, Value
from services.contracts.planning import CompiledPlan
from services.contracts.run import PreviewResponse, RequestPreview, RequestRecord


def previews(compiled: CompiledPlan, adapter: Previewer) -> PreviewResponse:
    """The requests of the steps that may change state or wait for an approval, in the plan's order."""
    shown = frozenset(compiled.proof.mutating) | frozenset(compiled.proof.approvals)
    return PreviewResponse(requests=tuple(_preview(compiled, s, adapter) for s in compiled.plan.steps if s.id in shown))


def _preview(compiled: CompiledPlan, step: Step, adapter: Previewer) -> RequestPreview:
    api = compiled.apis[step.api]
    arguments = {name: _shown(value) for name, value in step.arguments.items()}
    complete = all(isinstance(value, LiteralValue) for value in step.arguments.values()) and step.foreach is None
    problem = ""
    try:
        request = adapter.preview(Call(api, arguments, step.id, asyncio.get_running_loop().time()))
    except Unpreviewable as error:
        request, problem = RequestRecord(method=api.method, url=api.server + api.path), str(error)
    foreach = str(_shown(step.foreach.items)) if step.foreach else None
    return RequestPreview(
        step=step.id, api=api.id, request=request, complete=complete, foreach=foreach, problem=problem
    )


def _shown(value: Value) -> JsonValue:
    match value:
        case LiteralValue():
            return value.value
        case Reference():
            return "{" + ".".join([value.step, *map(str, value.path)]) + "}"
        case ItemReference():
            return "{" + ".".join(["item", *map(str, value.path)]) + "}"
        case ListValue():
            return [_shown(item) for item in value.items]
        case ObjectValue():
            return {name: _shown(field) for name, field in value.fields.items()}
