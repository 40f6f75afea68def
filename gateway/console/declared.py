"""Declared types of the value on an edge: the type that one API returns, and the type that the other API takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from gateway.console.flow import Binding, InputValue, json_type
from gateway.console.schemas import Schema, kind_of, resolved, schema_at
from gateway.peers import Peers
from services.contracts.api import Api
from services.contracts.plan import Step
from services.contracts.retrieval import LookupRequest
from services.contracts.run import Run
from services.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared types of one value.

    Attributes:
        gives: the type in the document of the API that returned it.
        takes: the type in the document of the API that takes it; empty where none is declared.
        problem: how the value differs from what is declared; empty if it does not, or that is unknown.
    """

    gives: str
    takes: str
    problem: str = ""


async def declared(peers: Peers, run: Run, bindings: Sequence[Binding], target: str) -> list[Declared]:
    """The declared types of the value of each binding of an edge, from the current APIs."""
    steps = {step.id: step for step in run.plan.steps} if run.plan is not None else {}
    ends = [steps[one] for one in (bindings[0].source, target) if one in steps]
    wanted = tuple(dict.fromkeys(step.api for step in ends))
    try:
        found = await peers.retriever.lookup(LookupRequest(ids=wanted, tenant=run.tenant))
    except ServiceError:
        return [Declared("not known: the catalogue does not answer", "")] * len(bindings)
    apis = {api.id: api for api in found.apis}
    return [_declared(run, one, steps, steps.get(target), apis) for one in bindings]


def _declared(
    run: Run, binding: Binding, steps: Mapping[str, Step], target: Step | None, apis: Mapping[str, Api]
) -> Declared:
    source = steps[binding.source]
    giver, taker = apis.get(source.api), apis.get(target.api) if target is not None else None
    given = _given(binding, source, giver)
    taken: Schema | None = None
    parameter = taker.parameter(binding.argument) if taker is not None and binding.whole else None
    if parameter is not None and taker is not None:
        taken = resolved(parameter.json_schema, taker.definitions)
    gives = _schema_text(run, source.api, giver, given)
    takes = _schema_text(run, target.api, taker, taken) if target is not None and binding.whole else ""
    problem = ""
    if not _fits(binding.found, given):
        problem = f"{source.api} declares to give something else"
    elif not _fits(binding.found, taken):
        problem = f"{target.api if target is not None else ''} declares to take something else"
    return Declared(gives, takes, problem)


def _given(binding: Binding, source: Step, giver: Api | None) -> Schema | None:
    if giver is None or not giver.response.json_schema:
        return None
    path = binding.reference.path
    if source.foreach is None:
        return schema_at(giver.response.json_schema, path, giver.definitions)
    if path and isinstance(path[0], int):  # the step's output is a list with one response per item
        return schema_at(giver.response.json_schema, path[1:], giver.definitions)
    return {"type": "array", "items": giver.response.json_schema}


def _schema_text(run: Run, name: str, api: Api | None, schema: Schema | None) -> str:
    if api is None:
        return f"{name} is no longer in the catalogue"
    said = kind_of(schema) if schema is not None else "nothing is declared"
    proved = run.proof.api_hashes.get(name) if run.proof is not None else None
    return f"{said}; {name} has changed since" if proved not in (None, api.content_hash) else said


def _fits(found: InputValue, schema: Schema | None) -> bool:
    """False if a value's type is not one of the declared types."""
    if not found.known or not schema:
        return True
    types = schema.get("type")
    several = types if isinstance(types, list) else [types] if isinstance(types, str) else []
    return not several or bool(_types(found.value) & {str(one) for one in several})


def _types(value: JsonValue) -> set[str]:
    """The JSON Schema types of a value."""
    name = json_type(value).partition(" ")[0]
    if name == "integer" or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    return {name}
