"""Requests with the calls that solve them, from recorded data or generated for a catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue

from evals.data import EACH, Call, Instance
from planner_svc.backends.served.signatures import answer_fields
from services.codecs.text import format_path
from services.contracts.api import Api
from services.contracts.base import JsonPath
from training.planner.examples import Example, Label, ListLabel, Ref

_REFERENCE: Final = re.compile(r"\$var_?(\d+)(.*)\$", re.DOTALL)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_PLACEHOLDER: Final = re.compile(r"<input:")
_LOOP: Final = re.compile(rf"\$var_\d+[^$]*\.{re.escape(EACH)}[^$]*\$")
_ALL_FIELDS: Final = 400


@dataclass(frozen=True, slots=True)
class Turn:
    """A request and its solution.

    Attributes:
        id: of the request in its data.
        source: the folder it comes from.
        query: the request.
        calls: NESTful's list: ``name`` (the API's id), ``label``, ``arguments``; empty if no API fits.
        offered: ids of APIs that the data offers besides the needed ones: its own hard negatives.
        now: the time that relative dates refer to, if the data states it.
    """

    id: str
    source: str
    query: str
    calls: tuple[dict[str, JsonValue], ...]
    offered: tuple[str, ...] = ()
    now: datetime | None = None

    @property
    def apis(self) -> tuple[str, ...]:
        """Ids of the APIs that are called, in order of first use."""
        return tuple(dict.fromkeys(str(call["name"]) for call in self.calls))


def recorded_turns(
    instances: Iterable[Instance], apis: Mapping[str, Api], source: str, now: datetime | None = None
) -> Iterator[Turn]:
    """Recorded requests as turns, without those with unknown APIs, unknown parameters, placeholders or loops."""
    fields = _Fields(apis)
    for instance in instances:
        calls = _recorded_calls(instance, apis, fields)
        if calls is not None:
            offered = tuple(one for one in instance.tools or () if one in apis)
            yield Turn(instance.id, source, instance.query, tuple(calls), offered, instance.now or now)


def made_turns(examples: Iterable[Example], source: str) -> Iterator[Turn]:
    """Requests generated for a catalogue (:mod:`training.planner.synthesis`), as turns.

    A turn keeps its clock only if its calls contain a date that the request does not state literally.
    """
    for example in examples:
        if any(call.missing for call in example.calls):
            continue  # the right answer is a question, which a list of calls cannot express
        calls: list[dict[str, JsonValue]] = [
            {
                "name": call.api,
                "label": f"var{number}",
                "arguments": {name: _labelled(label) for name, label in call.arguments.items()},
            }
            for number, call in enumerate(example.calls, 1)
        ]
        offered = tuple(api.id for api in example.candidates)
        relative = any(date not in example.query for date in _DATE.findall(str(calls)))
        yield Turn(example.id, source, example.query, tuple(calls), offered, example.now if relative else None)


def _labelled(label: Label) -> JsonValue:
    if isinstance(label, ListLabel):
        return [_labelled(item) for item in label.items]
    if isinstance(label, Ref):
        return f"$var{label.call + 1}{format_path(label.path)}$"
    return label.value


class _Fields:
    """The paths of response fields, found by their names without list indices, which data often leaves out."""

    def __init__(self, apis: Mapping[str, Api]) -> None:
        self._apis = apis
        self._paths: dict[str, dict[tuple[str, ...], JsonPath]] = {}

    def path(self, api: str, written: str) -> str:
        """The path as the prompt shows it; unchanged if no field has that name."""
        if api not in self._paths:
            found = answer_fields(self._apis[api], _ALL_FIELDS)
            self._paths[api] = {tuple(part for part in path if isinstance(part, str)): path for path in found}
        names = tuple(re.findall(r"[^.\[\]]+", re.sub(r"\[\d+\]", "", written)))
        path = self._paths[api].get(names)
        return format_path(path) if path is not None else written

    def supplier(self, parameter: str, earlier: Sequence[str]) -> str | None:
        """A reference to the latest call with a field of the parameter's name, which returns the recorded value."""
        for number in range(len(earlier), 0, -1):
            self.path(earlier[number - 1], "")
            found = [path for names, path in self._paths[earlier[number - 1]].items() if names[-1:] == (parameter,)]
            if found:
                return f"$var{number}{format_path(min(found, key=len))}$"
        return None


def _recorded_calls(instance: Instance, apis: Mapping[str, Api], fields: _Fields) -> list[dict[str, JsonValue]] | None:
    written: list[dict[str, JsonValue]] = []
    for number, call in enumerate(instance.calls, 1):
        api = apis.get(call.api)
        if api is None:
            return None
        arguments: dict[str, JsonValue] = {}
        for name, value in _arguments(call, api, instance.query).items():
            if api.parameter(name) is None or _PLACEHOLDER.search(str(value)) or _LOOP.search(str(value)):
                return None
            if name in call.args_from_responses and str(value).lower() not in instance.query.lower():
                value = fields.supplier(name, [one.api for one in instance.calls[: number - 1]]) or value
            arguments[name] = _value(value, instance.calls, fields)
        written.append({"name": call.api, "label": f"var{number}", "arguments": arguments})
    return written


def _arguments(call: Call, api: Api, query: str) -> dict[str, JsonValue]:
    """The arguments in the API's form. Optional arguments that the request does not state are left out."""
    if not call.args_canonical:
        return call.args
    found: dict[str, JsonValue] = {}
    said = query.lower()
    for name, value in call.args.items():
        exact = call.args_canonical.get(name, value)
        parameter = api.parameter(name)
        plain = isinstance(value, str) and not value.startswith("$")
        unsaid = plain and str(value).lower() not in said and str(exact).lower() not in said
        if parameter is not None and not parameter.required and unsaid:
            continue
        found[name] = _typed(exact, parameter.json_schema if parameter else {})
    return found


def _typed(value: JsonValue, schema: Mapping[str, Any]) -> JsonValue:
    """Digits as an integer if the schema asks for one; a text as the enum value with the same text."""
    if isinstance(value, str) and schema.get("type") == "integer" and re.fullmatch(r"-?\d{1,15}", value):
        return int(value)
    listed = schema.get("enum")
    if isinstance(value, str) and isinstance(listed, list) and value not in listed:
        return next((one for one in listed if str(one) == value), value)
    return value


def _value(value: JsonValue, calls: tuple[Call, ...], fields: _Fields) -> JsonValue:
    if isinstance(value, list):
        return [_value(item, calls, fields) for item in value]
    if isinstance(value, dict):
        return {name: _value(item, calls, fields) for name, item in value.items()}
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    number = int(match[1])
    if not 1 <= number <= len(calls):
        return value
    return f"$var{number}{fields.path(calls[number - 1].api, match[2])}$"
