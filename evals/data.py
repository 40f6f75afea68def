"""Reads a folder of benchmark data: the tools as APIs, and requests with the calls that solve them.

Each line holds one object. Files whose name ends in ``.gz`` are gzipped:

- ``tools.jsonl``: ``{name, description, category, parameters: {name: {type, description, required, in?, ...}},
  outputs: {name: {type, description}}, http?: {method, path, host}}``;
  or ``{name, api}`` with an API in Nestor's own format;
- ``instances.jsonl``: ``{id, split, query, tools?: [name], calls: [{api, args, label}], answer?: [reference]}``.

A folder may hold ``tools_dev.jsonl`` and ``workflows_dev.jsonl`` instead. Their format is the same, and a tool's
``spec``, the path of its source document, separates the vendor's name from the operation's. A folder may also hold the
files that Seal-Tools or NESTFUL publish (:mod:`evals.originals`). Files are untrusted input: any problem raises a
``DataError`` that says where it is.
"""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue, ValidationError

from retriever_svc.importers.keywords import typed_values
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.contracts.base import JsonSchema, Query

NO_PROVIDER = "-"
"""The provider of a tool whose name has none. It adds no words to the tool's search text."""

_TOOLS = ("tools", "tools_dev")
_INSTANCES = ("instances", "workflows_dev")
_MAX_LINE = 16_000_000
_SEED = 7
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_NOT_SCHEMA = frozenset({"description", "required", "in"})


class DataError(ValueError):
    """A folder cannot be read as benchmark data. The message names the file and the line."""


EACH = "*"
"""In a reference's path: every item of the list that a loop iterates over, ``$var_1.rows.*.id$``."""


class Call(BaseModel):
    """A call of the reference solution. ``api`` is the API's id; a name that no tool has is kept unchanged.

    ``description`` is the purpose of the step, if the data states it. ``args`` are the arguments as the user states
    them, ``args_canonical`` the same arguments in the form that the API takes. ``args_from_responses`` names the
    arguments whose value was copied from the response of an earlier call.
    """

    model_config = ConfigDict(frozen=True)

    api: str
    args: dict[str, JsonValue] = {}
    args_canonical: dict[str, JsonValue] = {}
    args_from_responses: tuple[str, ...] = ()
    label: str | None = None
    description: str | None = None


class Instance(BaseModel):
    """A request and the calls that solve it; no calls if nothing should be called.

    ``answer`` lists the requested outputs as references (``$var_1.field$``), if the data states them. ``tools`` are the
    ids of the APIs to choose from, if the data gives each request its own list. ``now`` is the time that its relative
    dates refer to.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    split: str | None = None
    query: Query
    calls: tuple[Call, ...] = ()
    answer: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    now: AwareDatetime | None = None

    @property
    def apis(self) -> frozenset[str]:
        """Ids of the required APIs."""
        return frozenset(call.api for call in self.calls)


@dataclass(frozen=True, slots=True)
class Dataset:
    """The content of a folder: all its tools, and the instances of one split (``None``: the data has no splits)."""

    apis: tuple[Api, ...]
    instances: tuple[Instance, ...]
    split: str | None


class _Http(BaseModel):
    method: str = "GET"
    path: str = "/"
    host: str | None = None


class _Tool(BaseModel):
    name: str
    description: str | None = None
    category: JsonValue = None
    parameters: dict[str, dict[str, JsonValue]] = {}
    outputs: dict[str, dict[str, JsonValue]] | None = None
    http: _Http | None = None
    spec: str | None = None
    api: Api | None = None


Line = TypeVar("Line", bound=BaseModel)


def read_dataset(folder: Path, split: str | None = None, limit: int | None = None) -> Dataset:
    """Read a folder.

    Args:
        folder: holds the two files.
        split: the split to read; by default ``dev`` if it exists, else the only one.
        limit: size of a random sample, the same every time; all instances if there are fewer.

    Raises:
        DataError: a file is missing or malformed, or the split does not exist or is ambiguous.
    """
    whole = read_all(folder)
    chosen = _choose_split(whole.instances, split, folder)
    kept = [one for one in whole.instances if one.split == chosen]
    return Dataset(whole.apis, tuple(kept if limit is None else sample(kept, limit)), chosen)


def read_all(folder: Path) -> Dataset:
    """Read a folder with the instances of all its splits.

    Raises:
        DataError: a file is missing or malformed.
    """
    if not any((folder / name).is_file() for name in _names(_TOOLS)):
        from evals.originals import read_originals  # imported here: it imports this module

        if (published := read_originals(folder)) is not None:
            return published
    tools_file, instances_file = _find(folder, _TOOLS), _find(folder, _INSTANCES)
    apis = _read_tools(tools_file)
    instances = tuple(_with_ids(one, apis) for _, one in read_lines(instances_file, Instance))
    return Dataset(tuple(apis.values()), instances, None)


def sample(instances: Sequence[Instance], limit: int) -> list[Instance]:
    """A random sample of at most ``limit`` instances, the same every time."""
    if limit >= len(instances):
        return list(instances)
    return random.Random(_SEED).sample(instances, limit)  # noqa: S311 - a repeatable sample, not a secret


def training_splits(splits: set[str]) -> set[str]:
    """The splits to train on: ``dev`` and ``train`` if any exists, else all whose name does not start with ``test``.

    A folder with one split is trained on, whatever the split is called.
    """
    if chosen := splits & {"dev", "train"}:
        return chosen
    return {one for one in splits if len(splits) == 1 or not one.startswith("test")}


def licence(folder: Path) -> str:
    """The licence, repository and commit that the folder's ``info.json`` states, if it has one."""
    try:
        told = orjson.loads((folder / "info.json").read_bytes())
        return f"{told.get('licence', 'not stated')}; {told.get('repo', '')}@{told.get('commit', '')}"
    except (OSError, ValueError, AttributeError):
        return "not stated"


def _find(folder: Path, stems: tuple[str, ...]) -> Path:
    for name in _names(stems):
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{folder} has none of {', '.join(_names(stems))}")


def _names(stems: tuple[str, ...]) -> list[str]:
    return [f"{stem}.jsonl{ending}" for stem in stems for ending in ("", ".gz")]


def _choose_split(instances: Sequence[Instance], wanted: str | None, folder: Path) -> str | None:
    file = next((name for name in _names(_INSTANCES) if (folder / name).is_file()), folder.name)
    found = sorted({one.split for one in instances if one.split is not None})
    if wanted is None and len(found) > 1 and "dev" not in found:
        raise DataError(f"{file} has several splits: choose one of {', '.join(found)}")
    if wanted is not None and wanted not in found:
        raise DataError(f"{file} has no split {wanted!r}; it has {', '.join(found) or 'none'}")
    if wanted is not None or not found:
        return wanted
    return "dev" if "dev" in found else found[0]


def _read_tools(file: Path) -> dict[str, Api]:
    """The APIs by the names that instances use for them."""
    apis: dict[str, Api] = {}
    ids: set[str] = set()
    for number, tool in read_lines(file, _Tool):
        try:
            api = _api(tool)
        except ValidationError as error:
            raise DataError(f"{file.name}, line {number}: {explain(error)}") from None
        if tool.name in apis or api.id in ids:
            raise DataError(f"{file.name}, line {number}: there is a tool {tool.name!r} already")
        apis[tool.name] = api
        ids.add(api.id)
    return apis


def _with_ids(instance: Instance, apis: Mapping[str, Api]) -> Instance:
    calls = [_call_of(apis[call.api], call) if call.api in apis else call for call in instance.calls]
    tools = tuple(apis[name].id if name in apis else name for name in instance.tools or ())
    return instance.model_copy(update={"calls": tuple(calls), "tools": tools})


def _call_of(api: Api, call: Call) -> Call:
    """The call by its API's id, without constant arguments: they are always sent, so no planner is asked for them."""
    sent = {one.name: one.constant for one in api.parameters if one.constant is not None}
    args = {name: value for name, value in call.args.items() if name not in sent or value != sent[name]}
    return call.model_copy(update={"api": api.id, "args": args})


def _api(tool: _Tool) -> Api:
    if tool.api is not None:
        return tool.api
    provider, name = _owner(tool)
    http = tool.http or _Http()
    outputs = {key: _schema(value) for key, value in (tool.outputs or {}).items()}
    response: JsonSchema = {"type": "object", "properties": dict(outputs)} if outputs else {}
    return Api(
        id=re.sub(r"\s+", "_", tool.name),
        provider=provider,
        name=name,
        description=tool.description or "",
        tags=(tool.category,) if tool.category and isinstance(tool.category, str) else (),
        method=http.method.upper(),
        server=http.host or "",
        path=http.path,
        parameters=tuple(_parameter(key, value) for key, value in tool.parameters.items()),
        response=ApiResponse(json_schema=response),
    )


def _owner(tool: _Tool) -> tuple[str, str]:
    """Provider and operation: ``adyen.com~Payments`` and ``capture`` of ``adyen.com~Payments.capture``.

    Domains contain dots, and operations may. Only the document's path (``apis/openapi/VENDOR/...``) tells where the
    vendor's name ends. Without a path it ends at the first dot.
    """
    folders = (tool.spec or "").split("/")
    vendor = folders[2] if len(folders) > 2 else ""
    if vendor and tool.name.startswith((f"{vendor}~", f"{vendor}.")):
        service, _, name = tool.name.removeprefix(vendor).partition(".")
        return vendor + service, name or tool.name
    provider, _, name = tool.name.partition(".")
    return (provider, name) if provider and name else (NO_PROVIDER, tool.name)


def _parameter(name: str, declared: dict[str, JsonValue]) -> Parameter:
    values: dict[str, Any] = {
        "name": name,
        "wire_name": name,
        "location": declared.get("in") or Location.BODY,
        "required": declared.get("required") or False,
        "description": declared.get("description") or "",
        "json_schema": {key: value for key, value in _schema(declared).items() if key not in _NOT_SCHEMA},
    }
    return Parameter.model_validate(values)


def _schema(declared: dict[str, JsonValue]) -> JsonSchema:
    """The declared schema with values of the right type, without types unknown to JSON Schema (``any``, ``uuid``)."""
    known = {key: value for key, value in declared.items() if key != "type" or str(value) in _TYPES}
    return known | typed_values(known)


def read_lines(file: Path, kind: type[Line]) -> Iterator[tuple[int, Line]]:
    """The objects of a file with their line numbers. Blank lines are skipped.

    Raises:
        DataError: the file cannot be read, or a line is not such an object.
    """
    number = 0
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as lines:
            while line := lines.readline(_MAX_LINE + 1):
                number += 1
                if len(line) > _MAX_LINE:
                    raise DataError(f"{file.name}, line {number}: longer than {_MAX_LINE} bytes")
                if line.strip():
                    found = kind.model_validate_json(line)
                    orjson.loads(line)  # rejects NaN and numbers that are too large: no plan can hold them
                    yield number, found
    except ValidationError as error:
        raise DataError(f"{file.name}, line {number}: {explain(error)}") from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"{file.name}, line {number}: Invalid JSON: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file.name} cannot be read after line {number}: {error}") from None


def explain(error: ValidationError) -> str:
    """The place and message of the first error."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
