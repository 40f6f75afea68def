"""Reads and checks fields and tools that a model wrote, and makes APIs of the tools."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import BaseModel, JsonValue, ValidationError

from evals.data import DataError
from planner_svc.backends.served.signatures import one_line
from retriever_svc.importers.documents import import_document
from retriever_svc.importers.names import slug
from services.codecs.calls import RESULT
from services.contracts.api import Api
from services.errors import ServiceError
from training.instruct.refusals import Refusal

TYPES: Final = frozenset({"str", "int", "float", "bool", "string", "integer", "number", "boolean"})
"""The paper's type names, and those of JSON Schema."""
MAX_PARAMETERS: Final = 20
MAX_TEXT: Final = 300
"""Longest description in characters. Longer ones are cut."""
MAX_CANDIDATES: Final = 200
"""How many names or tools are read from one answer."""
_ALIKE: Final = 0.8
"""Names are equal if they share at least this part of their letters, in order (the authors' measure and threshold)."""
_FIELD: Final = re.compile(r"[^\W\d_][\w &,'()+-]{1,59}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class _Typed(BaseModel):
    type: str
    description: str


class _Template(BaseModel):
    api_name: str
    api_description: str
    field: str
    parameters: dict[str, _Typed]
    required: list[str]
    responses: dict[str, _Typed]


class Names:
    """Names in use. A name that is close to one in use is refused."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._folded = {_folded(name) for name in names}

    def take(self, name: str) -> None:
        """Reserve a name.

        Raises:
            Refusal: it is in use.
        """
        folded = _folded(name)
        if folded in self._folded or difflib.get_close_matches(folded, self._folded, n=1, cutoff=_ALIKE):
            raise Refusal("duplicate")
        self._folded.add(folded)


def read_names(values: Sequence[JsonValue]) -> list[JsonValue]:
    """The last list of texts in an answer, possibly a member of an object.

    Raises:
        Refusal: there is none.
    """
    for value in reversed(values):
        for listed in value.values() if isinstance(value, dict) else [value]:
            if isinstance(listed, list) and listed and all(isinstance(one, str) for one in listed):
                return listed[:MAX_CANDIDATES]
    raise Refusal("form")


def check_field(name: JsonValue, taken: Names) -> JsonValue:
    """Check and reserve the name of a field or subfield.

    Raises:
        Refusal: it is not a valid name, or is in use.
    """
    text = " ".join(str(name).split())
    if not _FIELD.fullmatch(text):
        raise Refusal("name")
    taken.take(text)
    return text


def read_tools(values: Sequence[JsonValue]) -> list[JsonValue]:
    """All objects in an answer that have a tool's name. Searches lists, and lists inside objects.

    Raises:
        Refusal: there is none.
    """
    found: list[JsonValue] = []
    waiting = list(reversed(values))
    while waiting and len(found) < MAX_CANDIDATES:
        value = waiting.pop()
        if isinstance(value, dict) and "api_name" in value:
            found.append(value)
        elif isinstance(value, dict):
            waiting += [one for one in value.values() if isinstance(one, list)]
        elif isinstance(value, list):
            waiting += reversed(value)
    if not found:
        raise Refusal("form")
    return found


def check_tool(value: JsonValue, field: str, subfield: str, taken: Names) -> JsonValue:
    """Check a tool in the form of Seal-Tools' template, and reserve its name.

    Args:
        value: what a model wrote.
        field: the requested field.
        subfield: the requested subfield.
        taken: names of tools in use.

    Raises:
        Refusal: it is not a valid tool, not of that field, or not new.
    """
    try:
        tool = _Template.model_validate(value, strict=True)
    except ValidationError:
        raise Refusal("form") from None
    names = (tool.api_name, *tool.parameters, *tool.responses)
    if tool.api_name == RESULT or not all(_NAME.fullmatch(name) for name in names):
        raise Refusal("name")
    if max(len(tool.parameters), len(tool.responses)) > MAX_PARAMETERS:
        raise Refusal("size")
    if not tool.responses or not tool.api_description.strip():
        raise Refusal("form")
    if _folded(tool.field) != _folded(field + subfield):
        raise Refusal("field")
    if any(one.type not in TYPES for one in (*tool.parameters.values(), *tool.responses.values())):
        raise Refusal("type")
    if not set(tool.required) <= tool.parameters.keys():
        raise Refusal("required")
    taken.take(tool.api_name)
    return {
        "api_name": tool.api_name,
        "api_description": one_line(tool.api_description, MAX_TEXT),
        "field": f"{field}/{subfield}",
        "parameters": _described(tool.parameters),
        "required": [*dict.fromkeys(tool.required)],
        "responses": _described(tool.responses),
    }


def api_of(tool: JsonValue, field: str) -> Api:
    """A checked tool as an API, as the catalogue would import it. The field is its provider.

    Raises:
        DataError: it is not a valid tool.
    """
    try:
        (api,) = import_document(json.dumps([tool]), slug(field).lower()).apis
    except (ServiceError, ValueError):
        raise DataError(f"the journal has a tool of {field!r} that is none") from None
    return api


def _described(members: dict[str, _Typed]) -> dict[str, JsonValue]:
    return {
        name: {"type": one.type, "description": one_line(one.description, MAX_TEXT)} for name, one in members.items()
    }


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
