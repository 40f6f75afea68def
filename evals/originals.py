"""Reads the files that the papers' authors publish, so that their data can be measured unchanged.

- Seal-Tools: ``tool.jsonl`` with the tools, and a file of requests for each split (``dev.jsonl``, ...). Its lines are
  ``{id, query, calling: [{api, parameters, responses}]}``, or in the older format a list of calls that ends with the
  request. A parameter ``API_call_N`` takes the value of the response slot with that name.
- NESTFUL, first version: ``NAME-spec.json`` with the APIs and ``NAME-data.json`` with ``[{input, output: [{name,
  arguments, label}]}]`` for each split NAME. The last call, ``var_result``, is the answer and not a call.

The importers of the catalogue read the tools. NESTFUL's ``output_parser`` is left out: it locates an output in a live
response, and the live services are not called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from pydantic import BaseModel, JsonValue, RootModel, TypeAdapter, ValidationError

from evals.data import Call, DataError, Dataset, Instance, explain, read_lines
from retriever_svc.importers import import_document
from retriever_svc.importers.names import slug
from services.codecs.calls import RESULT
from services.codecs.seal import response_fields
from services.contracts.api import Api
from services.errors import ServiceError

_SEAL_TOOLS, _SPEC, _DATA = "tool.jsonl", "-spec.json", "-data.json"
_SEAL_OTHERS = frozenset({_SEAL_TOOLS, "field.jsonl"})


class _SealCall(BaseModel):
    api: str
    parameters: dict[str, JsonValue] = {}
    responses: list[str] | None = None


class _SealInstance(BaseModel):
    id: str
    query: str
    calling: list[_SealCall]


_SealLine = RootModel[_SealInstance | list[_SealCall | str]]


class _NestfulCall(BaseModel):
    name: str
    arguments: dict[str, JsonValue] = {}
    label: str | None = None


class _NestfulInstance(BaseModel):
    input: str
    output: list[_NestfulCall]


_NESTFUL = TypeAdapter(list[_NestfulInstance])


def read_originals(folder: Path) -> Dataset | None:
    """The tools and the requests of all splits; None if the folder holds the files of neither benchmark.

    Raises:
        DataError: a file is missing or malformed.
    """
    if (folder / _SEAL_TOOLS).is_file():
        return _read_seal_tools(folder)
    specs = sorted(folder.glob(f"*{_SPEC}"))
    return _read_nestful(specs) if specs else None


def _read_seal_tools(folder: Path) -> Dataset:
    apis = _import(folder / _SEAL_TOOLS, _text(folder / _SEAL_TOOLS), None)
    files = sorted(file for file in folder.glob("*.jsonl") if file.name not in _SEAL_OTHERS)
    if not files:
        raise DataError(f"{folder} has tools, but no file of requests such as dev.jsonl")
    instances = [one for file in files for one in _seal_instances(file, apis)]
    return Dataset(tuple(apis.values()), tuple(instances), None)


def _seal_instances(file: Path, apis: Mapping[str, Api]) -> Iterator[Instance]:
    for number, line in read_lines(file, _SealLine):
        where = f"{file.name}, line {number}"
        row = line.root if isinstance(line.root, _SealInstance) else _from_list(line.root, f"{file.stem}-{number}")
        if row is None:
            raise DataError(f"{where}: a list must hold calls, and the request at its end")
        yield _instance(where, row.id, file.stem, row.query, _seal_calls(row.calling, apis))


def _from_list(line: Sequence[_SealCall | str], name: str) -> _SealInstance | None:
    query = line[-1] if line else None
    calls = [call for call in line if isinstance(call, _SealCall)]
    if not isinstance(query, str) or len(calls) != len(line) - 1:
        return None
    return _SealInstance(id=name, query=query, calling=calls)


def _seal_calls(calls: Sequence[_SealCall], apis: Mapping[str, Api]) -> list[Call]:
    """The calls, with slots replaced by references. A slot that no call has stays a text."""
    slots: dict[str, str] = {}
    for number, call in enumerate(calls, start=1):
        api = apis.get(slug(call.api))
        fields = response_fields(api) if api else ()
        labels = call.responses if call.responses is not None else _next_slots(len(slots), len(fields) or 1)
        for place, label in enumerate(labels):
            path = f".{fields[place]}" if place < len(fields) else ""
            slots.setdefault(label, f"$var_{number}{path}$")
    return [
        Call(
            api=_id(call.api, apis),
            args={name: _with_slots(value, slots) for name, value in call.parameters.items()},
            label=f"var_{number}",
        )
        for number, call in enumerate(calls, start=1)
    ]


def _next_slots(used: int, count: int) -> list[str]:
    return [f"API_call_{number}" for number in range(used, used + count)]


def _with_slots(value: JsonValue, slots: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_with_slots(item, slots) for item in value]
    return slots.get(value, value) if isinstance(value, str) else value


def _read_nestful(specs: Sequence[Path]) -> Dataset:
    apis: list[Api] = []
    instances: list[Instance] = []
    for spec in specs:
        split = spec.name.removesuffix(_SPEC)
        own = _import(spec, _without_parsers(spec), slug(split).lower())
        apis += own.values()
        data = spec.with_name(split + _DATA)
        if not data.is_file():
            raise DataError(f"{spec.name} has no requests beside it: {data.name} is missing")
        instances += _nestful_instances(data, split, own)
    return Dataset(tuple(apis), tuple(instances), None)


def _nestful_instances(file: Path, split: str, apis: Mapping[str, Api]) -> Iterator[Instance]:
    try:
        text = _text(file)
        rows = _NESTFUL.validate_json(text)
        orjson.loads(text)  # rejects NaN, as for lines
    except ValidationError as error:
        raise DataError(f"{file.name}: {explain(error)}") from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"{file.name}: Invalid JSON: {error}") from None
    for number, row in enumerate(rows, start=1):
        calls = [
            Call(api=_id(call.name, apis), args=call.arguments, label=call.label)
            for call in row.output
            if call.name != RESULT
        ]
        yield _instance(f"{file.name}, request {number}", f"{split}-{number}", split, row.input, calls)


def _instance(where: str, name: str, split: str, query: str, calls: Sequence[Call]) -> Instance:
    try:
        return Instance(id=name, split=split, query=query, calls=tuple(calls))
    except ValidationError as error:
        raise DataError(f"{where}: {explain(error)}") from None


def _id(name: str, apis: Mapping[str, Api]) -> str:
    api = apis.get(slug(name))
    return api.id if api else name


def _import(file: Path, text: str, provider: str | None) -> dict[str, Api]:
    """The APIs of a list of tools, by name."""
    try:
        found = import_document(text, provider)
    except ServiceError as error:
        raise DataError(f"{file.name}: {error.detail}") from None
    if found.skipped:
        first = found.skipped[0]
        raise DataError(f"{file.name}: {first.operation} cannot be read: {first.reason}")
    return {api.name: api for api in found.apis}


def _without_parsers(file: Path) -> str:
    try:
        tools = json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file.name} is not JSON: {error}") from None
    if isinstance(tools, list):
        tools = [
            {key: value for key, value in tool.items() if key != "output_parser"} if isinstance(tool, dict) else tool
            for tool in tools
        ]
    return json.dumps(tools)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file.name} cannot be read: {error}") from None
