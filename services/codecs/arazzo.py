"""Export of a plan as an Arazzo 1.0 workflow document (Arazzo Specification 1.0.1), for other tools.

Every step names its operation in a source description (one per provider) and passes its arguments as parameters and
request body. Values that later steps and the answer need become outputs: ``$response.body#/items/0/id`` becomes
``$steps.var1.outputs.items_0_id``. Steps run in the order they are listed, so the plan must be in executable order.
Compiled plans are.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from services.codecs.text import CodecError
from services.contracts.api import Api, Location
from services.contracts.base import EVERY, JsonPath
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Plan, Reference, Step, Value, step_references

VERSION = "1.0.1"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_CONTEXTS = r"url|method|statusCode|(?:request|response|inputs|outputs|steps|workflows|sourceDescriptions|components)\."
_EXPRESSION = re.compile(rf"(?:^|\{{)\$(?:{_CONTEXTS})")


def export(
    plan: Plan, apis: Mapping[str, Api], sources: Mapping[str, str] | None = None, title: str = "Plan"
) -> JsonValue:
    """The plan as an Arazzo document.

    Args:
        plan: A plan in executable order.
        apis: At least the APIs of the plan, by id.
        sources: URL of each provider's OpenAPI document; the default is its server's ``/openapi.json``.
        title: Human-readable title.

    Raises:
        CodecError: the plan uses loops or conditions (Arazzo 1.0 has none), an API that is not in ``apis``, a step
            that is listed later, or a literal text that Arazzo would evaluate as an expression.
    """
    providers = list(dict.fromkeys(_api(step, apis).provider for step in plan.steps))
    names = _unique(providers)
    outputs = _outputs(plan)
    steps: list[JsonValue] = []
    seen: set[str] = set()
    for step in plan.steps:
        api = _api(step, apis)
        steps.append(_step(step, api, names[api.provider], outputs, seen))
        seen.add(step.id)
    workflow: dict[str, JsonValue] = {"workflowId": f"plan-{plan.id[:12]}", "summary": title, "steps": steps}
    if plan.answer:
        keys = _unique([output.name for output in plan.answer])
        if len(keys) < len(plan.answer):
            raise CodecError("two answers of the same name cannot be written")
        workflow["outputs"] = {keys[output.name]: _expression(output.value, outputs, seen) for output in plan.answer}
    servers = {api.provider: api.server for step in plan.steps for api in [_api(step, apis)]}
    locations = {name: (sources or {}).get(name) or servers[name].rstrip("/") + "/openapi.json" for name in providers}
    return {
        "arazzo": VERSION,
        "info": {"title": title, "version": plan.id[:12]},
        "sourceDescriptions": [{"name": names[p], "url": locations[p], "type": "openapi"} for p in providers],
        "workflows": [workflow],
    }


def _step(step: Step, api: Api, source: str, outputs: "_Outputs", seen: set[str]) -> JsonValue:
    if step.foreach is not None or step.when is not None:
        raise CodecError(f"step {step.id!r}: Arazzo 1.0 has neither loops nor conditions")
    if late := [name for name in step.after if name not in seen]:
        raise CodecError(f"step {step.id!r} waits for {late[0]!r}, which is listed later")
    parameters: list[JsonValue] = []
    body: dict[str, JsonValue] = {}
    for name, value in step.arguments.items():
        parameter = api.parameter(name)
        if parameter is None:
            raise CodecError(f"step {step.id!r}: {api.id} has no parameter {name!r}")
        written = _value(value, outputs, seen)
        if parameter.location is Location.BODY:
            body[parameter.wire_name] = written
        else:
            parameters.append({"name": parameter.wire_name, "in": parameter.location.value, "value": written})
    document: dict[str, JsonValue] = {
        "stepId": step.id,
        "description": api.summary or api.name,
        "operationId": f"$sourceDescriptions.{source}.{api.name}",
    }
    if parameters:
        document["parameters"] = parameters
    if body:
        whole = api.body is not None and api.body.whole
        media_type = api.body.media_type if api.body is not None else "application/json"
        document["requestBody"] = {"contentType": media_type, "payload": next(iter(body.values())) if whole else body}
    if own := outputs.get(step.id):
        document["outputs"] = {key: "$response.body" + _pointer(path) for path, key in own.items()}
    return document


_Outputs = dict[str, dict[JsonPath, str]]


def _outputs(plan: Plan) -> _Outputs:
    """For each step, a name for every path into its response that is referenced."""
    outputs: _Outputs = {}
    for reference in _all_references(plan):
        if EVERY in reference.path:
            raise CodecError("Arazzo 1.0 cannot take something of every item of a list")
        paths = outputs.setdefault(reference.step, {})
        if reference.path not in paths:
            base = _UNSAFE.sub("_", "_".join(map(str, reference.path))) or "body"
            paths[reference.path] = _free(base, set(paths.values()))
    return outputs


def _all_references(plan: Plan) -> Iterator[Reference]:
    for step in plan.steps:
        yield from step_references(step)
    for output in plan.answer:
        yield output.value


def _expression(reference: Reference, outputs: _Outputs, seen: set[str]) -> str:
    if reference.step not in seen:
        raise CodecError(f"step {reference.step!r} is referred to before it is listed")
    return f"$steps.{reference.step}.outputs.{outputs[reference.step][reference.path]}"


def _value(value: Value, outputs: _Outputs, seen: set[str]) -> JsonValue:
    if isinstance(value, LiteralValue):
        _refuse_expressions(value.value)
        return value.value
    if isinstance(value, ListValue):
        return [_value(item, outputs, seen) for item in value.items]
    if isinstance(value, ObjectValue):
        return {name: _value(field, outputs, seen) for name, field in value.fields.items()}
    if isinstance(value, Reference):
        return _expression(value, outputs, seen)
    raise CodecError("Arazzo 1.0 has no loops")


def _refuse_expressions(data: JsonValue) -> None:
    """Refuse text that looks like a runtime expression, because Arazzo cannot escape it."""
    if isinstance(data, str) and _EXPRESSION.search(data):
        raise CodecError(f"Arazzo would evaluate the text {data[:100]!r}")
    for child in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        _refuse_expressions(child)


def _pointer(path: JsonPath) -> str:
    """The JSON pointer (RFC 6901), after the ``#`` that follows ``$response.body``; empty for the whole body."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path) if path else ""


def _api(step: Step, apis: Mapping[str, Api]) -> Api:
    if step.api not in apis:
        raise CodecError(f"step {step.id!r}: the API {step.api!r} is not given")
    return apis[step.api]


def _unique(names: list[str]) -> dict[str, str]:
    """Map each name to a unique key that uses only characters Arazzo allows."""
    result: dict[str, str] = {}
    for name in names:
        if name not in result:
            result[name] = _free(_UNSAFE.sub("_", name) or "_", set(result.values()))
    return result


def _free(base: str, taken: set[str]) -> str:
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
