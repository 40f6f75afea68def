"""APIs as they are shown to a language model: one typed line each.

``searchAirports(query, limit?: integer) -> items[0].iata, items[0].name | Find airports by name or city``

A type that is not given is text. A field is written as the path that follows the label in a reference, so the model
only copies it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from services.codecs.text import format_path
from services.compute import checkpoint
from services.contracts.api import Api, Parameter
from services.contracts.base import JsonPath

_MAX_DEPTH: Final = 6
_MAX_WALKED: Final = 400
_SHALLOW: Final = 3
_IDENTIFYING: Final = frozenset({"id", "code", "key", "name", "title", "number"})


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of an API its line shows.

    Attributes:
        optional: most optional parameters; those that share words with the request come first.
        fields: most fields of the answer; those that could feed a parameter of a candidate come first.
        values: most values of an enumeration.
        text: most characters of the description.
        request: whether provider, method and path are shown.
        parameter_text: most characters of each parameter's description; 0: none.
    """

    optional: int
    fields: int
    values: int
    text: int
    request: bool
    parameter_text: int


BRIEF: Final = Detail(optional=4, fields=6, values=6, text=60, request=False, parameter_text=0)
"""For small models: 30 to 60 tokens per API."""
FULL: Final = Detail(optional=40, fields=40, values=20, text=300, request=True, parameter_text=120)
"""For models that process thousands of tokens per second."""
SHORTER: Final = (
    Detail(optional=6, fields=10, values=12, text=100, request=True, parameter_text=40),
    Detail(optional=14, fields=18, values=20, text=160, request=True, parameter_text=80),
)
"""Shorter forms of :data:`FULL`, the shortest first, where not all APIs have room in full."""
DETAILS: Final[Mapping[str, Detail]] = {"brief": BRIEF, "full": FULL}
"""By the names that settings, recipes and registries use."""


def call_names(apis: Iterable[Api]) -> dict[str, str]:
    """The name of each API in prompt and answer, by its id: its name if that is unique, otherwise its id."""
    listed = list(apis)
    owners: dict[str, set[str]] = {}
    for api in listed:
        owners.setdefault(api.name, set()).add(api.id)
    return {api.id: api.name if len(owners[api.name]) == 1 and _sayable(api.name) else api.id for api in listed}


def wanted_names(apis: Iterable[Api]) -> frozenset[str]:
    """The names of all parameters of these APIs, as :func:`signature` compares fields with them."""
    return frozenset(_plain(parameter.name) for api in apis for parameter in api.parameters)


class Signature:
    """The line of one API, in any detail. Its answer's schema is read once.

    Args:
        api: The API.
        name: Its name in the prompt, from :func:`call_names`.
    """

    def __init__(self, api: Api, name: str) -> None:
        self._api, self._name, self._schemas = api, name, Schemas()
        self._fields = _fields(api, self._schemas)

    def line(self, detail: Detail, request_words: frozenset[str], wanted: frozenset[str]) -> str:
        """The line. In the forms that show the request, ``…`` stands for what was left out.

        Args:
            detail: How much to show.
            request_words: The request's words in lower case.
            wanted: Names of the candidates' parameters, from :func:`wanted_names`.
        """
        checkpoint()
        api = self._api
        parameters = shown_parameters(api, detail, request_words)
        fields = _first(self._fields, detail.fields, wanted, request_words if detail.request else None)
        taken = [_parameter(self._schemas, api, one, detail) for one in parameters]
        given = [_field_name(path) for path in fields]
        about = [one_line(api.summary or api.description, detail.text)]
        if detail.request:
            taken += ["…"] * (len(taken) < len(api.parameters))
            given += ["…"] * (len(given) < len(self._fields))
            about.insert(0, f"{api.provider} {api.method} {api.path}")
            if api.summary and api.description and api.description != api.summary:
                about.append(one_line(api.description, detail.text))
        told = " | ".join(part for part in about if part)
        answer = f" -> {', '.join(given)}" if given else ""
        return f"{self._name}({', '.join(taken)}){answer}" + (f" | {told}" if told else "")


def signature(api: Api, name: str, detail: Detail, request_words: frozenset[str], wanted: frozenset[str]) -> str:
    """The line of one API; see :class:`Signature`."""
    return Signature(api, name).line(detail, request_words, wanted)


def shown_parameters(api: Api, detail: Detail, request_words: frozenset[str]) -> list[Parameter]:
    """All required parameters, and optional ones within the limit, in the API's own order."""
    optional = [one for one in api.parameters if not one.needed]
    ranked = sorted(optional, key=lambda one: -len(words_of(f"{one.name} {one.description}") & request_words))
    kept = {one.name for one in ranked[: detail.optional]}
    return [one for one in api.parameters if one.needed or one.name in kept]


def answer_fields(api: Api, limit: int, wanted: frozenset[str], schemas: Schemas | None = None) -> list[JsonPath]:
    """Paths of the answer's values, in lists that of the first item; outermost first, a bounded number."""
    return _first(_fields(api, schemas or Schemas()), limit, wanted)


def _first(
    found: Sequence[JsonPath], limit: int, wanted: frozenset[str], asked: frozenset[str] | None = None
) -> list[JsonPath]:
    """The most useful paths, in their order: those that feed a parameter come first.

    With the request's words (``asked``), those that identify something or share words with the request do too.
    """

    def rank(path: JsonPath) -> int:
        feeds = _feeds(path, wanted)
        if asked is None:
            return -feeds
        words = words_of(str(next((part for part in reversed(path) if isinstance(part, str)), "")))
        return -(feeds + 2 * bool(words & _IDENTIFYING) + 2 * bool(words & asked)) + (len(path) > _SHALLOW)

    first = set(sorted(found, key=rank)[:limit])
    return [path for path in found if path in first]


def _fields(api: Api, schemas: Schemas) -> list[JsonPath]:
    found: list[JsonPath] = []
    waiting: deque[tuple[JsonPath, Node]] = deque([((), Node(api.response.json_schema, api.definitions))])
    walked = 0
    while waiting and walked < _MAX_WALKED:
        path, node = waiting.popleft()
        walked += 1
        inner = schemas.properties(node)
        item = schemas.child(node, 0, strict=False) if "array" in schemas.kinds(node) and not inner else None
        if inner and len(path) < _MAX_DEPTH:
            waiting.extend(((*path, name), child) for name, child in inner.items())
        elif isinstance(item, Node) and not schemas.is_anything(item) and len(path) < _MAX_DEPTH:
            waiting.append(((*path, 0), item))
        elif path:
            found.append(path)
    return found


def words_of(text: str) -> frozenset[str]:
    """The words of a text in lower case; names in camelCase and snake_case are split."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return frozenset(re.findall(r"[^\W_]+", parted.lower()))


def one_line(text: str, limit: int) -> str:
    """The text without line breaks, cut at the end of a word."""
    flat = " ".join(text[: limit * 8].split())
    if len(flat) <= limit:
        return flat
    return flat[:limit].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


def _parameter(schemas: Schemas, api: Api, parameter: Parameter, detail: Detail) -> str:
    said = parameter.name + ("" if parameter.needed else "?")
    kind = _kind(schemas, Node(parameter.json_schema, api.definitions), detail)
    said += f": {kind}" if kind else ""
    if detail.parameter_text and parameter.description:
        said += f" ({one_line(parameter.description, detail.parameter_text)})"
    return said


def _kind(schemas: Schemas, node: Node, detail: Detail, *, inside: bool = False) -> str:
    """The type in words; empty for plain text. The members of an object ``inside`` another one have no types."""
    listed = schemas.enumeration(node)
    if listed:
        shown: Sequence[JsonValue] = listed[: detail.values]
        return "|".join(_value(value) for value in shown) + ("|…" if len(listed) > len(shown) else "")
    if schemas.is_anything(node):
        return ""
    kinds = schemas.kinds(node) - {"null"}
    if "array" in kinds:
        item = schemas.child(node, 0, strict=False)
        inner = _kind(schemas, item, detail, inside=inside) if isinstance(item, Node) else ""
        return f"[{inner or 'string'}]"
    if "object" in kinds:
        members = _members(schemas, node, detail, inside=inside) if detail.parameter_text else []
        return f"object{{{', '.join(members)}}}" if members else "object"
    if "string" in kinds:
        formats = sorted(schemas.formats(node) or ())
        return formats[0] if formats and "date" in formats[0] else ""
    return "number" if "number" in kinds else next(iter(sorted(kinds)), "")


def _members(schemas: Schemas, node: Node, detail: Detail, *, inside: bool) -> list[str]:
    """The members of an object, with their types unless it is inside another one."""
    members = schemas.properties(node)
    if inside:
        return list(members)
    kinds = {name: _kind(schemas, child, detail, inside=True) for name, child in members.items()}
    return [f"{name}: {kind}" if kind else name for name, kind in kinds.items()]


def _value(value: JsonValue) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _feeds(path: JsonPath, wanted: frozenset[str]) -> bool:
    """Whether a parameter has the field's name: ``longitude`` feeds ``pick_up_longitude``."""
    names = [part for part in path if isinstance(part, str)]
    if not names:
        return False
    leaf, owned = _plain(names[-1]), _plain("".join(names[-2:]))
    return any(name.endswith(leaf) or owned.endswith(name) for name in wanted)


def _field_name(path: JsonPath) -> str:
    return format_path(path).removeprefix(".")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _sayable(name: str) -> bool:
    return re.fullmatch(r"[\w.\-~/]+", name) is not None
